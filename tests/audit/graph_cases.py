"""Plans of the sample split to audit, and the ways in which a node gets them wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tacit.mechanisms.gaussian.node import ExactNode
from tacit.mechanisms.perturbed.primal import PrimalNode
from tacit.plan import Plan
from tacit.privacy.claim import Claim
from tacit.privacy.releases import Allowed, AllowedNormNoise, AllowedResponse, Planned
from tacit.privacy.request import Privacy
from tacit.topologies import make_graph
from tacit.types import Vector
from tests.plans import sample_plan

NODE = "node 1"


def gaussian(
    *,
    secure: bool = False,
    rounds: int = 3,
    epsilon: float = 4.0,
    loss: Any = "logistic",
    graph: str = "star",
    honest: int | None = None,
) -> Plan:
    return sample_plan(
        loss=loss,
        penalty="l2",
        alpha=1e-3,
        fit_intercept=True,
        method="gaussian",
        published=False,
        rho="auto",
        max_rounds=rounds,
        tol=1e-4,
        privacy=Privacy(epsilon=epsilon, honest=honest, label_norm=5.0 if loss == "poisson" else 1.0),
        graph=make_graph(graph, 4),
        rows=(300, 400, 200, 200),
        columns=3,
        secure_aggregation=secure,
    )


def record_claim(plan: Plan) -> Claim:
    return next(one for one in plan.certificate().claims if one.unit == "record" and one.party == NODE)


def half(planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """The planned releases with half their noise."""
    return tuple(_half(one) for one in planned)


def _half(one: Planned) -> Planned:
    if isinstance(one, Allowed):
        return replace(one, sd=one.sd / 2)
    if isinstance(one, AllowedNormNoise):
        return replace(one, rate=2 * one.rate)
    assert isinstance(one, AllowedResponse)
    return replace(one, epsilon=2 * one.epsilon)


def with_node(plan: Plan, node: Callable[..., Any]) -> Plan:
    """The plan, its noise and its claims, with another node."""
    assert plan.private is not None
    algorithm = replace(plan.private.solver, node=node)
    return replace(plan, private=replace(plan.private, solver=algorithm))


class OwnState(PrimalNode):
    """Keeps its own model without noise, as in the paper, with the noise of a node that does not."""

    def _own(self) -> Vector:
        return 2 * self.model - self.released


class OwnStateAtTheEnd(PrimalNode):
    """The same in its last round alone."""

    def _own_last(self) -> Vector:
        return self.model


class Unclipped(PrimalNode):
    """Forgets to scale its rows down."""

    def __init__(self, problem: Any, place: Any, data: Any, settings: Any, release: Any) -> None:
        super().__init__(problem, place, data, replace(settings, row_norm=1e6), release)


class StartsFromItself(ExactNode):
    """Goes on from its own minimiser, which was never released."""

    last: Any = None

    def _solve(self, centre: Vector) -> Vector:
        self.last = super()._solve(centre if self.last is None else self.last)
        return self.last


class SendsItsModel(PrimalNode):
    """Sends a model without noise beside the noisy one."""

    def step(self, round_: int, inbox: Any) -> Any:
        return {**super().step(round_, inbox), "bare": self.model}
