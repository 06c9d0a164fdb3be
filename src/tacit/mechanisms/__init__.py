"""Which mechanism answers which request: a new one is one package and one line in a table below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tacit.errors import InputError
from tacit.mechanisms.base import COORDINATOR, GraphSizes, PrivateGraphPlan, PrivatePlan, Sizes
from tacit.mechanisms.gaussian.plan import plan_gaussian
from tacit.mechanisms.gram.plan import plan_gram
from tacit.mechanisms.labels import plan_labels
from tacit.mechanisms.perturbed.dual import plan_dual
from tacit.mechanisms.perturbed.pdml import plan_pdml
from tacit.mechanisms.perturbed.primal import plan_primal
from tacit.mechanisms.published.plan import plan_published, plan_published_inverse
from tacit.mechanisms.shares.plan import plan_shares
from tacit.privacy.request import Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.modified import modified
from tacit.solvers.base import Problem

Planner = Callable[[Privacy, Problem, Sizes], PrivatePlan]
GraphPlanner = Callable[[Privacy, Problem, GraphSizes], PrivateGraphPlan]

PLANNERS: dict[str, Planner] = {
    "gram": plan_gram,
    "labels": plan_labels,
    "published": plan_published,
    "published-inverse": plan_published_inverse,
    "shares": plan_shares,
}
GRAPH_PLANNERS: dict[str, GraphPlanner] = {
    "dual": plan_dual,
    "gaussian": plan_gaussian,
    "pdml": plan_pdml,
    "primal": plan_primal,
}


def plan_privacy(privacy: object, problem: Problem, sizes: Sizes) -> PrivatePlan | None:
    """The plan of what was asked, or None where nothing was.

    Raises
    ------
    InputError
        Where it cannot be proven: with the reason and the way out.
    """
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise InputError(f"privacy={privacy!r} is not allowed: give tacit.Privacy(...), or None")
    if COORDINATOR in sizes.parties:
        raise InputError(f"a party of a private run cannot be named {COORDINATOR!r}: rename it")
    if problem.row_weights is not None:
        raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
    if privacy.epsilon_by_party is not None:
        raise InputError("epsilon_by_party is for rows split over a graph: give one epsilon here")
    _check_names(privacy, sizes)
    mechanism = mechanism_of(privacy)
    if privacy.honest is not None and mechanism != "shares":
        raise InputError(
            f"honest={privacy.honest} does not fit mechanism={mechanism!r}: noise is split between parties in "
            "mechanism='shares' alone, so leave honest out"
        )
    planned = PLANNERS[mechanism](privacy, problem, sizes)
    if privacy.delta * sizes.rows >= 1 and privacy.epsilon is not None:
        return replace(planned, outlook=(*planned.outlook, _large_delta(privacy.delta, sizes.rows)))
    return planned


def _large_delta(delta: float, rows: int) -> str:
    return (
        f"delta = {delta:g} is not below 1/{rows}, one over the number of rows: a run that publishes a whole row now "
        "and then would satisfy it too; ask for a delta far below that"
    )


def _check_names(privacy: Privacy, sizes: Sizes) -> None:
    """Refuse a norm for somebody who takes no part: it is a slip in a name."""
    named = privacy.row_norm if isinstance(privacy.row_norm, Mapping) else {}
    for name in named:
        if name not in sizes.parties:
            known = ", ".join(repr(party) for party in sizes.parties)
            raise InputError(f"row_norm names {name!r}, which is no party: the parties are {known}")


def mechanism_of(privacy: Privacy) -> str:
    """What answers a request; "labels" where only labels are randomized."""
    if privacy.epsilon is None and privacy.mechanism != "auto":
        raise InputError(
            f"mechanism={privacy.mechanism!r} needs epsilon: give a number, or leave mechanism out to randomize labels"
        )
    if privacy.epsilon is None:
        return "labels"
    return "gram" if privacy.mechanism == "auto" else privacy.mechanism


def seen_loss(loss: Loss, privacy: object) -> Loss:
    """The loss that an algorithm minimises: for labels that were randomized before it begins, their unbiased one."""
    if not isinstance(privacy, Privacy) or privacy.label_epsilon is None or mechanism_of(privacy) == "gram":
        return loss
    return modified(loss, privacy.label_epsilon)


def plan_graph_privacy(
    privacy: object, method: str, problem: Problem, weights: tuple[float, ...] | None, sizes: GraphSizes
) -> PrivateGraphPlan | None:
    """The same for a sample split: the plan of what was asked by the method that was named, or None."""
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise InputError(f"privacy={privacy!r} is not allowed: give tacit.Privacy(...), or None")
    if weights is not None:
        raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
    if method not in GRAPH_PLANNERS:
        raise InputError(
            f"method={method!r} has no privacy to offer: choose one of {', '.join(sorted(GRAPH_PLANNERS))}"
        )
    return GRAPH_PLANNERS[method](privacy, problem, sizes)
