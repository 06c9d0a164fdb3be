"""Models to compare a joint one with: the same problem, solved by one party on what it has or on everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from tacit.errors import RunError
from tacit.plan import make_plan
from tacit.runtime.model import PartyModel
from tacit.runtime.result import Run
from tacit.runtime.store import Begun
from tacit.types import Matrix, Shard, TraceRow, Vector

LEAST_ROUNDS = 200  # at most so many even where the job has fewer: another party's traffic is no concern here
TOGETHER = "pooled"  # the name of a shard that holds what all parties have


class OutOfTimeError(Exception):
    """A model to compare with takes too long."""


@dataclass
class Clock:
    """Time that comparing may take."""

    limit: float
    began: float = field(default_factory=time.perf_counter)

    def check(self, row: TraceRow | None = None) -> None:
        """Stop where it is used up."""
        if time.perf_counter() - self.began > self.limit:
            raise OutOfTimeError


def train_apart(begun: Begun, shards: Sequence[Shard], labels: Vector, clock: Clock) -> tuple[PartyModel, float]:
    """The same problem as one party would solve it by itself."""
    model, shard = begun.job.model, join_columns(shards)
    plan = make_plan(
        loss=model.loss,
        penalty=model.penalty,
        alpha=model.alpha,
        fit_intercept=model.fit_intercept,
        method="auto",
        rho="auto",
        max_rounds=max(begun.job.rounds, LEAST_ROUNDS),
        tol=max(begun.job.tol, 1e-6),
        privacy=None,
        party_names=(shard.name,),
        rows=len(labels),
        input_bytes=8 * shard.features.shape[0] * shard.features.shape[1],
        columns=(len(shard.columns),),
        seed=begun.plan.problem.seed,
    )
    clock.check()
    result = Run(plan, [shard], labels).go(clock.check)
    if result.note and not result.converged:
        raise RunError(result.note)
    return result.parties[0], float(result.constant)


def join_columns(shards: Sequence[Shard]) -> Shard:
    """All columns of the same rows."""
    if len(shards) == 1:
        return shards[0]
    matrices: list[Matrix] = [shard.features for shard in shards]
    whole = sparse.hstack(matrices, format="csr") if any(map(sparse.issparse, matrices)) else np.hstack(matrices)
    return Shard(TOGETHER, whole, tuple(f"{shard.name}.{name}" for shard in shards for name in shard.columns))


def stack_rows(shards: Sequence[Shard]) -> Shard:
    """All rows with the same columns."""
    matrices: list[Matrix] = [shard.features for shard in shards]
    whole = sparse.vstack(matrices, format="csr") if any(map(sparse.issparse, matrices)) else np.vstack(matrices)
    return Shard(TOGETHER, whole, shards[0].columns)
