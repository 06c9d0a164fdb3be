"""From a probability to a decision: the threshold that follows from what the two kinds of mistake cost.

Where p is the probability of the positive class, calling a row positive costs (1 - p) false_positive on average, and
calling it negative p false_negative. The first is less from p = false_positive / (false_positive + false_negative) on.
It is the best threshold where probabilities are calibrated; of a model that was fitted with class weights they are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tacit.errors import InputError
from tacit.problem.losses.base import Loss, is_number

KINDS = ("false_positive", "false_negative")
EXAMPLE = "{false_positive: 1, false_negative: 5}"


def check_costs(costs: Any, loss: Loss, class_weight: Any = None) -> None:
    """Refuse costs that are not two numbers above 0, or that do not fit the loss or class weights.

    Raises
    ------
    InputError
    """
    if costs is None:
        return
    if not isinstance(costs, Mapping) or set(costs) != set(KINDS):
        raise InputError(f"costs={costs!r} is not allowed: give both costs, such as {EXAMPLE}")
    for name in KINDS:
        if not is_number(costs[name]) or not costs[name] > 0:
            raise InputError(f"costs: {name}={costs[name]!r} is not allowed: it must be a number above 0")
    if not loss.log_odds:
        raise InputError(f"costs does not fit loss={loss.name!r}, which gives no probabilities: use loss='logistic'")
    if class_weight is not None:
        raise InputError(
            "costs and class_weight together would count the costs twice: class_weight changes the probabilities that "
            "the threshold is for; leave one of them out"
        )


def probability_threshold(costs: Mapping[str, float] | None) -> float:
    """The probability from which a row counts as positive: 0.5 without costs."""
    if costs is None:
        return 0.5
    return float(costs["false_positive"]) / (float(costs["false_positive"]) + float(costs["false_negative"]))


def score_threshold(costs: Mapping[str, float] | None) -> float:
    """The same as a score, the logarithm of the odds: 0 without costs."""
    return 0.0 if costs is None else math.log(costs["false_positive"]) - math.log(costs["false_negative"])
