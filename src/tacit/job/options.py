"""The section [privacy.options]: every field of `PaperOptions`, under the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.data.wording import listing, nearest, show
from tacit.errors import InputError
from tacit.job.values import LISTS_BY_NAME, NUMBER, POSITIVE, POSITIVES_BY_NAME, TRUTH, Kind, one_of, whole_number
from tacit.privacy.paper_options import LAST_ROUNDS, NOISES, PaperOptions

SECTION = "privacy.options"
KEYS: dict[str, Kind] = {
    "alphas": POSITIVES_BY_NAME,
    "rounds": whole_number(1, 10**9, "a whole number from 1 to a billion"),
    "loss_weight": POSITIVE,
    "noise": one_of(NOISES),
    "last_round": one_of(LAST_ROUNDS),
    "objective_noise": NUMBER,
    "first_sd": POSITIVE,
    "decay": POSITIVE,
    "label_epsilons": LISTS_BY_NAME,
    "randomized": TRUTH,
}


def make_options(values: Mapping[str, Any], parties: Sequence[str]) -> PaperOptions:
    """The options in the values of the section, which were checked one by one.

    Raises
    ------
    InputError
        Where `alphas` or `label_epsilons` names somebody who is no party, or a value is out of range.
    """
    for key in ("alphas", "label_epsilons"):
        given = values.get(key)
        for name in given if isinstance(given, Mapping) else ():
            if name not in parties:
                raise InputError(
                    f"{SECTION}.{key} names {show(name)}{nearest(name, parties)}, "
                    f"which is no party: the parties are {listing(parties)}"
                )
    try:
        return PaperOptions(**values)
    except InputError as error:
        raise InputError(f"[{SECTION}]: {error}") from error


def values_of(options: PaperOptions) -> dict[str, Any]:
    """The section's values, for writing: what is None is left out."""
    return {key: _written(getattr(options, key)) for key in KEYS}


def _written(value: Any) -> Any:
    """The value with tuples for lists, which is what TOML is written from."""
    if isinstance(value, Mapping):
        return {name: _written(own) for name, own in value.items()}
    return tuple(float(one) for one in value) if isinstance(value, Sequence) and not isinstance(value, str) else value
