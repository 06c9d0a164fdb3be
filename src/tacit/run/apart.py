"""Models to compare a joint one with: the same problem, solved by one party on what it has or on everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tacit.columns.compact import CurveMatrix
from tacit.columns.raw import RawTable
from tacit.errors import RunError
from tacit.plan import FeatureSplit, TrainingRequest, make_plan
from tacit.plan.terms import tree_settings
from tacit.problem.losses import Loss
from tacit.problem.losses.base import RowLoss
from tacit.run.folder import PreparedRun, serving_loss
from tacit.run.result import Model
from tacit.run.search import search_job, with_alpha
from tacit.run.star import Run
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
    """A model of one party's data, or of all data in one place, and its alpha."""

    model: Model
    alpha: float


def too_large(shards: Sequence[Shard], rows: int) -> str:
    """Why data are too large to train other models on, by their size; empty where they are not."""
    if rows > MOST_ROWS:
        return f"more than {MOST_ROWS:,} rows"
    if _values(shards) > MOST_VALUES:
        return f"more than {MOST_VALUES:,} values"
    return ""


def is_searched(prepared: PreparedRun) -> bool:
    """Whether the alpha of other models is searched anew, as that of the joint model was."""
    spec = prepared.job.search
    if spec is None:
        return False
    return _values(prepared.shards) * spec.tried * spec.folds_of(len(prepared.labels.values)) <= MOST_SEARCHED


def train_apart(prepared: PreparedRun, shards: Sequence[Shard], labels: Vector) -> Apart:
    """The same problem as one party would solve it by itself."""
    model, shard, trees = prepared.job.model, join_columns(shards), tree_settings(prepared.job)
    plan = make_plan(
        TrainingRequest(
            loss=model.loss if trees is not None else _own_loss(prepared.plan.problem.loss),
            penalty=model.regularizer if trees is None else "none",
            alpha=model.alpha if prepared.job.search is None else prepared.plan.problem.alpha,
            fit_intercept=model.fit_intercept and trees is None,
            tol=max(prepared.job.tol, 1e-6),
            max_rounds=max(prepared.job.rounds, LEAST_ROUNDS),
            seed=prepared.plan.problem.seed,
            trees=trees,
        ),
        FeatureSplit(
            (shard.name,),
            rows=len(labels),
            columns=(len(shard.columns),),
            input_bytes=8 * shard.features.shape[0] * shard.features.shape[1],
        ),
    )
    if prepared.job.search is not None and is_searched(prepared):
        plan = with_alpha(plan, search_job(plan, [shard], prepared.labels, prepared.job.search).alpha)
    result = Run(plan, [shard], labels).go()
    if result.note and not result.converged:
        raise RunError(result.note)
    return Apart(result.model, plan.problem.alpha)


def _own_loss(loss: Loss) -> Loss:
    """The loss of a model on true labels, with the offsets and weights of rows."""
    own: Loss = loss if isinstance(loss, RowLoss) else serving_loss(loss)
    return own


def _values(shards: Sequence[Shard]) -> int:
    return sum(
        int(shard.features.nnz if hasattr(shard.features, "nnz") else np.prod(shard.features.shape)) for shard in shards
    )


def join_columns(shards: Sequence[Shard]) -> Shard:
    """All columns of the same rows."""
    if len(shards) == 1:
        return shards[0]
    matrices = [shard.features for shard in shards]
    if isinstance(matrices[0], RawTable):
        table = RawTable.beside(TOGETHER, matrices)
        return Shard(TOGETHER, table, table.columns)
    whole = CurveMatrix.beside(matrices) if _are_curves(matrices) else _stacked(matrices, sparse.hstack, np.hstack)
    names = tuple(f"{shard.name}.{name}" for shard in shards for name in shard.columns)
    groups = tuple(width for shard in shards for width in shard.groups or (1,) * len(shard.columns))
    return Shard(TOGETHER, whole, names, groups=groups)


def stack_rows(shards: Sequence[Shard]) -> Shard:
    """All rows with the same columns."""
    matrices = [shard.features for shard in shards]
    whole = CurveMatrix.below(matrices) if _are_curves(matrices) else _stacked(matrices, sparse.vstack, np.vstack)
    return Shard(TOGETHER, whole, shards[0].columns)


def _are_curves(matrices: Sequence[Matrix]) -> bool:
    return all(isinstance(matrix, CurveMatrix) for matrix in matrices)


def _stacked(matrices: Sequence[Matrix], of_sparse: Callable[..., Matrix], of_dense: Callable[..., Matrix]) -> Matrix:
    """Matrices in one, curves among others written out."""
    plain = [np.asarray(matrix) if isinstance(matrix, CurveMatrix) else matrix for matrix in matrices]
    return of_sparse(plain, format="csr") if any(map(sparse.issparse, plain)) else of_dense(plain)
