"""Sides of the papers' methods on chosen data, with releases that a test scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.blocks.dense import Block
from tacit.mechanisms.perturbed import MODEL
from tacit.plan import Plan
from tacit.privacy.request import PaperOptions, Privacy
from tacit.solvers.consensus import NodeData
from tacit.topologies import make_graph
from tacit.types import Vector
from tests.plans import sample_plan


class Scripted:
    """A release that hands out what a test wants: noise by `draw`, models by `add`, labels as they are."""

    owner = "test"

    def __init__(self, draw: Callable[[str, int], Vector] | None = None, add: Any = None, spread: float = 0.9) -> None:
        self._draw, self._add, self._spread = draw, add, spread

    def draw(self, name: str, size: int) -> Vector:
        return np.zeros(size) if self._draw is None else self._draw(name, size)

    def add(self, name: str, value: Vector) -> Vector:
        return value if self._add is None else self._add(name, value)

    def respond(self, name: str, symbols: Any) -> Any:
        return np.asarray(symbols)

    def uniform(self, size: int) -> Vector:
        return np.full(size, self._spread)


def plan(method: str = "dual", rows: tuple[int, ...] = (50, 50), columns: int = 2, **changes: Any) -> Plan:
    """A plan for nodes that all talk to each other."""
    graph = changes.pop("graph", None) or make_graph("complete", len(rows))
    options = changes.pop("options", {})
    asked: dict[str, Any] = {"epsilon": 2.0, "noise_seed": 1}
    if method == "pdml":
        asked["label_epsilon"] = 1.0
    asked |= changes.pop("privacy", {})
    chosen: dict[str, Any] = {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": 0.1,
        "fit_intercept": False,
        "published": False,
        "rho": 0.1,
        "max_rounds": 100,
        "tol": 1e-6,
    }
    return sample_plan(
        **{**chosen, **changes},
        method=method,
        privacy=Privacy(**asked),
        graph=graph,
        rows=rows,
        columns=columns,
        options=PaperOptions(**options) if isinstance(options, dict) else options,
    )


def side(made: Plan, features: Vector, labels: Vector, release: Scripted, node: int = 0) -> Any:
    """The side of one node."""
    assert made.private is not None
    place = made.place(made.graph.names[node])
    data = NodeData(Block(np.ascontiguousarray(features)), labels)
    return made.private.solver.node(made.problem, place, data, made.private.settings, release)


def heard(made: Plan, model: Vector, node: int = 0) -> dict[str, dict[str, Vector]]:
    """An inbox in which every neighbour sent the same model."""
    return {name: {MODEL: model} for name in made.graph.neighbours(made.graph.names[node])}
