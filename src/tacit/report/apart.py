"""Models to compare a joint one with: the same problem, solved by one party on what it has or on everything.

Where the joint model's alpha was chosen by a search, theirs is chosen by the same search, over the same alphas, folds
and rule. Which models are trained, and how, depends on sizes alone: the same job gives the same page on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from tacit.errors import RunError
from tacit.plan import Plan, make_plan
from tacit.runtime.model import PartyModel
from tacit.runtime.result import Run
from tacit.runtime.search import search_job
from tacit.runtime.store import Begun
from tacit.types import Matrix, Shard, Vector

LEAST_ROUNDS = 200  # at most so many even where the job has fewer: another party's traffic is no concern here
TOGETHER = "pooled"  # the name of a shard that holds what all parties have
MOST_ROWS = 1_000_000  # beyond, no other model is trained to compare with
MOST_VALUES = (
    200_000_000  # rows times columns of all parties together (of sparse rows, values that are not 0): the same
)
MOST_SEARCHED = (
    5_000_000_000  # these times the fits of the search: beyond, other models take the alpha of the joint one
)


@dataclass(frozen=True)
class Apart:
    """A model of one party's data, or of all data in one place: its part, its constant, and its alpha."""

    part: PartyModel
    constant: float
    alpha: float


def too_large(shards: Sequence[Shard], rows: int) -> str:
    """Why data are too large to train other models on, by their size; empty where they are not."""
    if rows > MOST_ROWS:
        return f"more than {MOST_ROWS:,} rows"
    if _values(shards) > MOST_VALUES:
        return f"more than {MOST_VALUES:,} values"
    return ""


def is_searched(begun: Begun) -> bool:
    """Whether the alpha of other models is searched anew, as that of the joint model was."""
    spec = begun.job.search
    if spec is None:
        return False
    alphas = spec.alphas if isinstance(spec.alphas, int) else len(spec.alphas)
    return _values(begun.shards) * alphas * spec.folds <= MOST_SEARCHED


def train_apart(begun: Begun, shards: Sequence[Shard], labels: Vector) -> Apart:
    """The same problem as one party would solve it by itself."""
    model, shard = begun.job.model, join_columns(shards)
    plan = make_plan(
        loss=model.loss,
        penalty=model.penalty,
        alpha=model.alpha if begun.job.search is None else begun.plan.problem.alpha,
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
    if begun.job.search is not None and is_searched(begun):
        plan = _with_alpha(plan, search_job(plan, [shard], begun.labels, begun.job.search).alpha)
    result = Run(plan, [shard], labels).go()
    if result.note and not result.converged:
        raise RunError(result.note)
    return Apart(result.parties[0], float(result.constant), plan.problem.alpha)


def _with_alpha(plan: Plan, alpha: float) -> Plan:
    return replace(plan, problem=replace(plan.problem, alpha=alpha))


def _values(shards: Sequence[Shard]) -> int:
    return sum(
        int(shard.features.nnz if sparse.issparse(shard.features) else np.prod(shard.features.shape))
        for shard in shards
    )


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
