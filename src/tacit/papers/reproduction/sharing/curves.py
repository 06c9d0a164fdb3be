"""Runs of the real parties and coordinator, with the objective and the test loss after every round."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.algorithms.published import NOISY
from tacit.errors import RunError
from tacit.papers.reproduction.sharing.tasks import Task
from tacit.plan import Plan, make_plan
from tacit.privacy.releases import Allowed
from tacit.privacy.request import Privacy
from tacit.runtime.result import Run
from tacit.types import Vector

UNBOUNDED = 1e6  # a row norm and a ball that no row and no coefficients here reach: the paper's experiments have none


@dataclass(frozen=True)
class Method:
    """What is run: a method by name, its penalty parameter on the *summed* loss, and the size of SGD's steps."""

    name: str
    rho: float | None = None
    step: float = 1.0  # times the default step of SGD
    seed: int = 0


def trained(task: Task, method: Method, alpha: float, rounds: int) -> dict[str, Any]:
    """Objective and test loss after every round of a run without noise; `note` says why it stopped early.

    For SGD the first entry is the random start, for the published form the first x-update, which stays at zero.
    """
    return _recorded(task, _plan(task, method, alpha, rounds), alpha, method.step)


def noisy(task: Task, mechanism: str, sigma: float, rho: float, alpha: float, rounds: int, seed: int) -> dict[str, Any]:
    """The same of the published iteration with published noise of standard deviation sigma in every round."""
    return _recorded(task, noisy_plan(task, mechanism, sigma, rho, alpha, rounds, seed), alpha)


def noisy_plan(task: Task, mechanism: str, sigma: float, rho: float, alpha: float, rounds: int, seed: int) -> Plan:
    """A plan of the published mechanism whose noise is given, not worked out from the paper's formulas."""
    privacy = Privacy(
        epsilon=1.0, mechanism=mechanism, row_norm=UNBOUNDED, coef_norm=UNBOUNDED, noise_seed=seed
    )  # this epsilon says nothing: the noise is put in below
    plan = _plan(task, Method("published", rho), alpha, rounds, privacy)
    private = plan.private
    assert private is not None
    releases = {name: (Allowed(NOISY, sigma, rounds),) for name in private.releases}
    return replace(plan, private=replace(private, releases=releases, rounds=rounds))


def _plan(task: Task, method: Method, alpha: float, rounds: int, privacy: Privacy | None = None) -> Plan:
    rows = task.y.size
    return make_plan(
        loss="logistic", penalty="l2", alpha=alpha, fit_intercept=False, method=method.name,
        rho="auto" if method.rho is None else method.rho / rows, max_rounds=rounds, tol=0.0, privacy=privacy,
        party_names=tuple(shard.name for shard in task.shards()), rows=rows,
        input_bytes=8 * rows * sum(task.columns), columns=task.columns, seed=method.seed,
    )  # fmt: skip


def _recorded(task: Task, plan: Plan, alpha: float, step: float = 1.0) -> dict[str, Any]:
    objectives: list[float] = []
    losses: list[float] = []
    if plan.private is None and plan.method == "published":
        # Ours begins with z and is half an epoch ahead of the paper's, whose first x-update stays at zero.
        zeros = [np.zeros(count) for count in task.columns]
        objectives.append(task.objective(zeros, alpha))
        losses.append(task.test_loss(zeros))

    def record(run: Run) -> None:
        coefs: list[Vector] = [np.asarray(party.side.coef) for party in run.parties]
        objectives.append(task.objective(coefs, alpha))
        losses.append(task.test_loss(coefs))
        if plan.method == "sgd" and len(losses) == 1:
            run.coordinator.side.step *= step  # it is set in the first exchange, from the data's norms

    run = Run(plan, task.shards(), task.y)
    try:
        note = run.go(checkpoint=record).note
    except RunError as error:  # a run that overflows
        note = str(error)
    return {"objective": _finite(objectives), "test": _finite(losses), "note": note, "rounds": len(losses)}


def _finite(values: list[float]) -> list[float | None]:
    """As JSON has them: none where a number has left the floats."""
    return [value if math.isfinite(value) else None for value in values]
