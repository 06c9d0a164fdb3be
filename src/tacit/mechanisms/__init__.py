"""Mechanisms by name: a new one is one module or package, and one line in `MECHANISMS`."""

from __future__ import annotations

from typing import Any

from tacit.errors import InputError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian.plan import Gaussian
from tacit.mechanisms.gram.plan import Gram
from tacit.mechanisms.labels import RandomizedLabels
from tacit.mechanisms.perturbed.dual import Dual
from tacit.mechanisms.perturbed.pdml import Pdml
from tacit.mechanisms.perturbed.primal import Primal
from tacit.mechanisms.published import Published, PublishedInverse
from tacit.mechanisms.shares.plan import Shares
from tacit.privacy.request import Privacy
from tacit.records import show

MECHANISMS: dict[str, Mechanism[Any]] = {
    one.name: one
    for one in (
        Gram(),
        Shares(),
        Published(),
        PublishedInverse(),
        RandomizedLabels(),
        Gaussian(),
        Dual(),
        Primal(),
        Pdml(),
    )
}


def names_for(split: str) -> tuple[str, ...]:
    """Names of mechanisms that users of a split may give."""
    return tuple(name for name, one in MECHANISMS.items() if one.split == split and one.can_be_named)


def mechanism_of(privacy: Privacy, split: str, *, given_labels: bool = False) -> Mechanism[Any]:
    """What answers a request: the mechanism that it names, or what "auto" stands for.

    Raises
    ------
    InputError
        Where it names a mechanism that the split does not have.
    """
    name = privacy.mechanism
    if name == "auto":
        known = (one for one in MECHANISMS.values() if one.split == split)
        return next(one for one in known if one.is_default(privacy, given_labels=given_labels))
    if name in MECHANISMS and MECHANISMS[name].split != split:
        whose = MECHANISMS[name].split.removesuffix("s")
        raise InputError(f"mechanism={name!r} does not fit here: it belongs to the {whose} split, so leave it out")
    if name not in names_for(split):
        raise InputError(f"mechanism={show(name)} is unknown: choose one of auto, {', '.join(names_for(split))}")
    return MECHANISMS[name]


def those_that(split: str, can: str) -> str:
    """The mechanisms of a split with a property, for a message: "mechanism='shares'"."""
    names = [name for name, one in MECHANISMS.items() if one.split == split and getattr(one, can)]
    return " or ".join(f"mechanism={name!r}" for name in names)
