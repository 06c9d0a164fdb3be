"""The plan of a run: every choice checked together, before any row is looked at.

The only layer that knows losses, regularizers, solvers and mechanisms at once. It refuses pairs that do not work,
fills in what the user left open, and states what will travel and what will be claimed.

`Plan` and `make_plan`, from a request and a layout to a plan, are here; the rest is in

| file | holds |
|---|---|
| request.py | `TrainingRequest`: all that a user asks |
| splits.py | what was chosen for a run, and what differs between the two splits |
| describe.py | a plan as plain values and in words, for `tacit plan` and `print` |
| memory.py | how a run fits into a stated amount of memory |

Who holds what is a layout (`tacit.topologies`); noise and claims are a mechanism's (`tacit.mechanisms`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tacit.errors import InputError
from tacit.mechanisms.base import MEASURES, PrivatePlan
from tacit.plan.describe import lines, record
from tacit.plan.request import TrainingRequest
from tacit.plan.splits import SPLITS, PlannedRun
from tacit.problem.losses import unbounded_reason
from tacit.problem.losses.base import RowLoss
from tacit.solvers.base import Problem
from tacit.topologies import FeatureSplit, Layout, SampleSplit


@dataclass(frozen=True)
class Plan(PlannedRun):
    """What will be run, and what will be claimed about it, with its description."""

    @property
    def estimates_dispersion(self) -> bool:
        """Whether the dispersion of the loss was left open, and is estimated.

        Raises
        ------
        InputError
            In a run with privacy: how often it is fitted depends on the rows.
        """
        if self.problem.loss.leaves_open and self.private is not None:
            raise InputError("privacy does not fit a dispersion that is estimated: give dispersion")
        return self.problem.loss.leaves_open

    def describe(self) -> dict[str, Any]:
        """Rounds, noise, claims, traffic and outlook as plain values; `str` says the same in words."""
        return record(self)

    def __str__(self) -> str:
        return "\n".join(lines(self))


def make_plan(request: TrainingRequest, layout: Layout) -> Plan:
    """Check every choice against every other and fill in what is left open.

    Raises
    ------
    InputError
        With one line that names the value and the way out.
    """
    split = SPLITS[layout.split]
    _check_rows(request)
    loss, regularizer = split.seen_loss(request), request.regularizer
    request.check()
    reason = unbounded_reason(loss, regularizer, float(request.alpha))
    if reason:
        raise InputError(reason)
    problem = split.problem(request, layout, loss)
    layout = split.prepared(layout, problem)
    request = replace(request, secure_aggregation=split.uses_masks(request, layout))
    recorded_method = split.recorded_method(request, problem, layout)
    private = _plan_privacy(request, problem, layout)
    split.check(request, layout, private)
    return Plan(
        problem=problem,
        recorded_method=recorded_method,
        layout=layout,
        max_rounds=int(request.max_rounds),
        private=_measured(private, request.holdout),
        secure=bool(request.secure_aggregation),
        holdout=request.holdout,
        published=bool(request.published),
    )


def _check_rows(request: TrainingRequest) -> None:
    """Refuse offsets and weights of rows where these are to be protected."""
    if request.privacy is not None and isinstance(request.loss, RowLoss):
        raise InputError(
            "offset, exposure, weights and class weights are not available with privacy: no bound is proven for rows "
            "that have them; leave them out, or leave privacy out"
        )


def _plan_privacy(request: TrainingRequest, problem: Problem, layout: Layout) -> PrivatePlan | None:
    """The plan of the privacy that was asked, or None where none was."""
    if request.privacy is None:
        return None
    split = SPLITS[layout.split]
    mechanism = split.mechanism(request, layout)
    mechanism.check_classes(problem.loss)
    mechanism_request = split.mechanism_request(request, problem, layout)
    planned = mechanism.plan(mechanism_request, layout)
    remarks = split.remarks(request.privacy, layout)
    return mechanism.check_choices(replace(planned, outlook=(*planned.outlook, *remarks)), mechanism_request)


def _measured(private: PrivatePlan | None, holdout: str) -> PrivatePlan | None:
    """The plan, whose outlook knows that rows are held out, which will measure what it cannot know."""
    if private is None or not holdout:
        return private
    will = "the rows that are held out will measure it"
    return replace(private, outlook=tuple(line.replace(MEASURES, will) for line in private.outlook))


__all__ = ["FeatureSplit", "Plan", "PrivatePlan", "SampleSplit", "TrainingRequest", "make_plan"]
