"""The section [privacy]: every field of `Privacy`, under the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.data.wording import listing, nearest, show
from tacit.errors import InputError
from tacit.job.values import POSITIVE, POSITIVE_BY_NAME, POSITIVE_OR_NONE, TRUTH, Kind, one_of, whole_number
from tacit.privacy.events import NEIGHBOURS
from tacit.privacy.request import ACCOUNTANTS, ASKED_UNITS, MECHANISMS, PREDICTIONS, PROTECT, Privacy

NONE = "none"  # TOML has no word for it: epsilon = "none" protects the labels alone
KEYS: dict[str, Kind] = {
    "epsilon": POSITIVE_OR_NONE,
    "delta": POSITIVE,
    "unit": one_of(ASKED_UNITS),
    "label_epsilon": POSITIVE_OR_NONE,
    "row_norm": POSITIVE_BY_NAME,
    "accountant": one_of(ACCOUNTANTS),
    "protect": one_of(PROTECT),
    "mechanism": one_of(MECHANISMS),
    "predictions": one_of(PREDICTIONS),
    "neighbours": one_of(NEIGHBOURS),
    "coef_norm": POSITIVE,
    "refit": TRUTH,
    "label_norm": POSITIVE,
    "epsilon_by_party": POSITIVE_BY_NAME,
    "honest": whole_number(1, 10**6),
    "noise_seed": whole_number(0, 2**63 - 1),
}


def make_privacy(values: Mapping[str, Any], parties: Sequence[str]) -> Privacy:
    """The request in the values of the section, which were checked one by one.

    Raises
    ------
    InputError
        Where they do not fit each other, or `row_norm` or `epsilon_by_party` names somebody who is no party.
    """
    for key in ("row_norm", "epsilon_by_party"):
        given = values.get(key)
        for name in given if isinstance(given, Mapping) else ():
            if name not in parties:
                raise InputError(
                    f"privacy.{key} names {show(name)}{nearest(name, parties)}, "
                    f"which is no party: the parties are {listing(parties)}"
                )
    if values.get("epsilon", 0) is None and values.get("label_epsilon") is None:
        raise InputError(
            'privacy.epsilon = "none" asks for nothing: give it a number, give label_epsilon one, or remove [privacy]'
        )
    try:
        return Privacy(**values)
    except InputError as error:
        raise InputError(f"[privacy]: {error}") from error


def values_of(privacy: Privacy) -> dict[str, Any]:
    """The section's values, for writing: what is None in `Privacy` is left out, or "none" where that says more."""
    values = {key: getattr(privacy, key) for key in KEYS}
    return {**values, "epsilon": NONE if privacy.epsilon is None else privacy.epsilon}
