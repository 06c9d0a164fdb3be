"""The section [search]: choose alpha by cross-validation instead of giving it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.errors import InputError
from tacit.job.values import Kind, one_of, whole_number
from tacit.problem.alphas import MOST_ALPHAS, RULES, alpha_grid

ALPHAS = f"a whole number from 2 to {MOST_ALPHAS}, or a list of numbers above 0"


@dataclass(frozen=True)
class SearchSpec:
    """The section [search]: arguments of the estimators that choose alpha.

    Attributes
    ----------
    alphas : int or tuple of float
        How many alphas are tried, in even ratios from 1 down; or which.
    folds : int
        Into so many parts the rows are dealt: each part is once the one that is not trained on.
    rule : str
        "best": the alpha of the least loss. "one-standard-error": the largest whose loss is within one
        standard error of it.
    """

    alphas: int | tuple[float, ...] = 10
    folds: int = 5
    rule: str = RULES[0]


def _alphas(value: Any) -> int | tuple[float, ...]:
    """Parse how many alphas, or a list of them."""
    try:
        grid = alpha_grid(value, total=1.0)
    except InputError as error:
        raise ValueError from error
    return value if isinstance(value, int) else grid


KEYS: dict[str, Kind] = {
    "alphas": Kind(ALPHAS, _alphas),
    "folds": whole_number(2, 1000),
    "rule": one_of(RULES),
}


def check_search(document: Mapping[str, Any], split: str) -> None:
    """Refuse a section [search] that does not fit the rest of the file."""
    if split != "features":
        raise InputError('[search] is not used with split = "samples": remove it, and give model.alpha')
    if "privacy" in document:
        raise InputError(
            "[search] does not fit [privacy]: every fit it tries is a release of its own, and so is the choice; remove "
            "one of them (with [privacy], give a model.alpha that these rows did not choose)"
        )
    model = document.get("model")
    if isinstance(model, dict) and "alpha" in model:
        raise InputError("[search] chooses alpha, and model.alpha gives one: remove one of them")
