"""GraphPlan and make_graph_plan: every choice of a sample split checked against every other."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms import plan_graph_privacy
from tacit.mechanisms.base import GraphSizes, PrivateGraphPlan
from tacit.mechanisms.given_labels import check_given, given_certificate, options_for_given
from tacit.plan import describe_graph
from tacit.plan.make import check_number
from tacit.privacy.certificate import Certificate, in_scope
from tacit.problem.losses import Loss, get_loss, unbounded_reason
from tacit.problem.losses.modified import modified_rows
from tacit.problem.regularizers import Regularizer, get_regularizer
from tacit.solvers.base import Problem
from tacit.solvers.consensus import Consensus, Place, PrivateConsensus
from tacit.solvers.consensus.admm import ADMM
from tacit.topologies import Graph

METHODS = ("none", "gaussian", "dual", "primal", "pdml")  # without privacy all of them are the same: no noise


@dataclass(frozen=True)
class GraphPlan:
    """What will be run on a graph, and what will be claimed about it."""

    problem: Problem
    graph: Graph
    method: str
    rows: tuple[int, ...]
    sizes: tuple[float, ...]
    columns: int
    max_rounds: int
    private: PrivateGraphPlan | None = None
    label_epsilons: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    holdout: float = 0.0  # the part of each node's rows that is kept out of training
    published: bool = False

    @property
    def algorithm(self) -> Consensus | PrivateConsensus:
        """What makes each node's side."""
        return ADMM if self.private is None else self.private.algorithm

    @property
    def fixed_rounds(self) -> bool:
        """Whether the number of rounds is fixed beforehand, so that there is no stopping rule."""
        return self.private is not None

    @property
    def most_rounds(self) -> int:
        """Rounds at most."""
        return self.max_rounds if self.private is None else self.private.rounds

    @property
    def models_are_released(self) -> bool:
        """Whether each node's model may be seen: not where it is a mean of models that were never released."""
        return self.private is None or not (self.method == "pdml" and self.private.settings.published)

    def place(self, name: str) -> Place:
        """A node's place among the others."""
        return Place(name, self.graph, self.sizes, self.columns)

    def problem_of(self, name: str) -> Problem:
        """What a node minimises its part of: with the unbiased loss where its labels came randomized."""
        if self.private is not None or name not in self.label_epsilons:
            return self.problem
        return replace(self.problem, loss=modified_rows(self.problem.loss, np.array(self.label_epsilons[name])))

    def certificate(self) -> Certificate:
        """The claim of the whole run."""
        return in_scope(
            self._mechanism_certificate(),
            self.holdout,
            evaluated=not self.published,
            randomized=bool(self.label_epsilons),
        )

    def _mechanism_certificate(self) -> Certificate:
        if self.private is not None:
            return self.private.certificate
        if self.label_epsilons:
            return given_certificate(self.graph, self.columns, self.label_epsilons)
        return not_private_on_graph(self.graph, self.columns)

    def describe(self) -> dict[str, Any]:
        """Rounds, noise, claims, traffic and outlook as plain values; `str` says the same in words."""
        return describe_graph.record(self)

    def __str__(self) -> str:
        return "\n".join(describe_graph.lines(self))

    def record(self) -> dict[str, Any]:
        """The plan as plain values, for the run directory and for checking a resumed run."""
        p = self.problem
        return {
            "split": "samples",
            "method": self.method,
            "loss": p.loss.name,
            "penalty": p.regularizer.name,
            "alpha": p.alpha,
            "fit_intercept": p.fit_intercept,
            "rho": p.rho,
            "tol": p.tol,
            "max_rounds": self.max_rounds,
            "rows": list(self.rows),
            "columns": self.columns,
            "graph": self.graph.record(),
            "label_epsilons": {name: [min(own), max(own)] for name, own in self.label_epsilons.items()},
            "privacy": None if self.private is None else self.private.record(),
        }


def make_graph_plan(
    *,
    loss: str | Loss,
    penalty: str | Regularizer | None,
    alpha: float,
    fit_intercept: bool,
    method: str,
    published: bool,
    rho: float | str,
    max_rounds: int,
    tol: float,
    privacy: object,
    graph: Graph,
    rows: tuple[int, ...],
    columns: int,
    sizes: tuple[float, ...] | None = None,
    seed: int = 0,
    options: object = None,
    label_epsilons: Mapping[str, Sequence[float]] | None = None,
    secure_aggregation: bool = False,
) -> GraphPlan:
    """Check every choice against every other and fill in what is left open.

    `sizes` are the sums of the row weights of each node, where there are weights; `options` are those of the method.
    `label_epsilons` say, by node, at which epsilon each label was randomized before the data came to the nodes.
    With `secure_aggregation` what nodes send to the middle of a star travels under masks.

    Raises
    ------
    InputError
        With one line that names the value and the way out.
    """
    the_loss, regularizer = get_loss(loss), get_regularizer("none" if penalty is None else penalty)
    check_number("alpha", alpha, least=0.0)
    check_number("tol", tol, least=0.0)
    if isinstance(max_rounds, bool) or not isinstance(max_rounds, numbers.Integral) or max_rounds < 1:
        raise InputError(f"max_rounds={max_rounds!r} is not allowed: it must be a whole number of at least 1")
    switches = {"fit_intercept": fit_intercept, "published": published, "secure_aggregation": secure_aggregation}
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name}={value!r} is not allowed: it must be True or False")
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown: choose one of {', '.join(METHODS)}")
    reason = unbounded_reason(the_loss, regularizer, float(alpha))
    if reason:
        raise InputError(reason)
    _check_nodes(graph, rows)
    problem = Problem(
        loss=the_loss,
        regularizer=regularizer,
        alpha=0.0 if regularizer.name == "none" else float(alpha),
        fit_intercept=bool(fit_intercept),
        parties=graph.nodes,
        rows=sum(rows),
        tol=float(tol),
        rho=_check_rho(rho),
        seed=seed,
    )
    given: dict[str, tuple[float, ...]] = {}
    if label_epsilons:
        given = check_given(graph, rows, label_epsilons, the_loss, regularizer, problem.alpha)
        options = options if privacy is None else options_for_given(privacy, method, options, given)
    secure = bool(secure_aggregation)
    public = GraphSizes(graph, rows, columns, int(max_rounds), bool(published), options, secure)
    private = plan_graph_privacy(privacy, method, problem, sizes, public)
    if secure and (private is None or not private.masked):
        raise InputError('secure_aggregation=True is for method="gaussian" with privacy: leave it out')
    reason = ADMM.refusal(the_loss, regularizer) if private is None else ""
    if reason:
        raise InputError(reason)
    real = tuple(float(count) for count in rows) if sizes is None else sizes
    return GraphPlan(
        problem, graph, method, rows, real, columns, int(max_rounds), private, given, published=bool(published)
    )


def _check_nodes(graph: Graph, rows: tuple[int, ...]) -> None:
    if len(rows) != graph.nodes:
        raise InputError(f"graph has {graph.nodes} nodes: the data have {len(rows)}")
    for name, count in zip(graph.names, rows, strict=True):
        if count < 1:
            raise InputError(f"{name} has no rows, 0 sample(s): give it at least 1, or leave it out of the graph")


def _check_rho(rho: float | str) -> float | None:
    if rho == "auto":
        return None
    if isinstance(rho, bool) or not isinstance(rho, numbers.Real) or not math.isfinite(rho) or rho <= 0:
        raise InputError(f'rho={rho!r} is not allowed: it must be positive, or "auto"')
    return float(rho)


def not_private_on_graph(graph: Graph, columns: int) -> Certificate:
    """Certificate of a run without noise: rows stay home, and nothing more is claimed."""
    return Certificate(
        covers=("rows and labels are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the rows and labels of every node: its neighbours see its model after every round, without noise",
            "sums over the rows of a node: those of its loss curvature go to a neighbour, without noise",
            "the trained model: it is an exact function of all rows",
        ),
        per_party={
            name: f"in each round a model of its own, {columns} coefficients, to {', '.join(graph.neighbours(name))}"
            if graph.nodes > 1
            else "nothing"
            for name in graph.names
        },
    )
