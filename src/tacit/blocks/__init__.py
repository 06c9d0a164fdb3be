"""What a party's features may be, and the block that fits them: in memory, as curves, on disk, on a cluster.

Rows with several scores each, one for each class: a party's columns and the curvature of a row as linear maps.

Scores of n rows and C classes are one long vector of n C numbers, row after row; so are their derivatives.
Coefficients of d columns are d C numbers, column after column. A party's map is then D (x) I_C (`SeveralBlock`), and C
constants, one for each class, are the map 1 (x) I_C.

The curvature of a row is a matrix, not a number: with m >= 0, n C numbers, and q = m / (their sum in the row),

    W = diag(m) - m q'   in each row,   so that   W v = m (v - q . v) :

numbers m as weights, after the weighted mean of each row is removed. For softmax m is the probability of each class,
times the weight of the row. Where a row has one score, W is diag(m) and nothing is removed.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.blocks.cluster import ClusterBlock
from tacit.blocks.curves import CurveBlock, TableBlock
from tacit.blocks.dense import Block, CurvatureSolver, Sweep
from tacit.blocks.streamed import SparseStreamedBlock, StreamedBlock
from tacit.columns.compact import CurveMatrix
from tacit.columns.raw import OwnColumns, RawTable
from tacit.data.cluster import ClusterRows
from tacit.data.rows_on_disk import SparseRows, StreamedRows
from tacit.errors import InputError
from tacit.types import Matrix, Shard, Vector


def block_of(shard: Shard) -> Block:
    """The block of a party's features, which knows the curves among them."""
    block = make_block(shard.features)
    if isinstance(block, Block):
        block.curves = shard.curves
    return block


def make_block(features: Matrix) -> Block:
    """The block of these features, wherever they are; what trees take needs none."""
    if isinstance(features, RawTable | OwnColumns):
        return cast("Block", features)
    if isinstance(features, CurveMatrix):
        return TableBlock(features) if features.is_tabled else CurveBlock(features)
    if isinstance(features, SparseRows):
        return SparseStreamedBlock(features)
    if isinstance(features, ClusterRows):
        return ClusterBlock(features)
    return StreamedBlock(features) if isinstance(features, StreamedRows) else Block(features)


# --- Matrices that users hand over: every refusal names the party and the column


def check_matrix(block: Any, party: str, columns: tuple[str, ...] | None = None) -> Matrix:
    """One party's features as a finite float matrix: dense (float32 stays) or CSR; nothing is copied needlessly."""
    if sparse.issparse(block):
        matrix = block.tocsr()
        matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
        if not matrix.has_canonical_format:  # entries stored twice are added up first: their sum may be infinite
            matrix = matrix.copy()
            with np.errstate(over="ignore"):
                matrix.sum_duplicates()
    else:
        matrix = _dense(block, party, columns)
    if matrix.ndim != 2:
        raise InputError(f"{party}: its data have {matrix.ndim} dimension(s): give one row for each sample")
    if matrix.shape[1] == 0:
        raise InputError(f"{party} has no columns, 0 feature(s): give it at least 1, or leave it out")
    if matrix.shape[0] == 0:
        raise InputError(f"{party} has no rows, 0 sample(s): give at least 2")
    check_finite(matrix, party, columns)
    return matrix


def check_finite(matrix: Matrix, party: str, columns: tuple[str, ...] | None = None) -> None:
    """Refuse NaN and infinity, naming the column and the first row."""
    values = matrix.data if sparse.issparse(matrix) else matrix
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)) or np.isfinite(values).all():
            return
    row, column = _first_bad(matrix)
    value = matrix[row, column]
    what = "NaN" if np.isnan(value) else "infinity"
    name = columns[column] if columns else column
    raise InputError(
        f"{party}, column {name!r}: {what} in row {row}; Tacit does not accept missing values encoded as NaN, "
        "nor infinity: fill them in, or remove these rows"
    )


def _dense(block: Any, party: str, columns: tuple[str, ...] | None) -> npt.NDArray[Any]:
    if isinstance(block, np.ma.MaskedArray):
        raise InputError(f"{party}: masked arrays are not supported: fill in what is masked")
    array = np.asarray(block)
    if array.dtype in (np.float32, np.float64):
        return array
    if np.iscomplexobj(array):
        raise InputError(f"{party}: Complex data not supported: give real numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(_not_numeric(array, party, columns)) from error


def _not_numeric(array: npt.NDArray[Any], party: str, columns: tuple[str, ...] | None) -> str:
    if array.ndim != 2:
        return f"{party}: its data are not a table of numbers: give one row for each sample"
    for j in range(array.shape[1]):
        for value in array[:, j]:
            try:
                float(value)
            except (TypeError, ValueError):
                name = columns[j] if columns else j
                kind = " (argument must be a string or a number)" if isinstance(value, dict) else ""
                held = value.item() if isinstance(value, np.generic) else value
                return f"{party}, column {name!r}: {held!r} is not a number{kind}: encode it first, or leave it out"
    return f"{party}: its data are not numbers"


def _first_bad(matrix: Matrix) -> tuple[int, int]:
    if sparse.issparse(matrix):
        position = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
        return row, int(matrix.indices[position])
    row, column = np.argwhere(~np.isfinite(matrix))[0]
    return int(row), int(column)


FLAT = 1e-12  # of the largest eigenvalue of the curvature in constants: below it nothing is known, as along (1, ... 1)

NOTHING = 1e-300  # in place of the sum of a row that weighs nothing

# --- One score or several for each row: what differs in the algebra of weights and constants


class OneScore:
    """A row has one score: constants are numbers."""

    outputs = 1

    def away(self, metric: Vector, columns: Vector) -> Vector:
        """Columns, of which nothing is removed."""
        return columns

    def sums(self, values: Vector) -> Any:
        """Sum over the rows, of a vector."""
        return float(values.sum())

    def columns_sums(self, metric: Vector, columns: Vector) -> Vector:
        """Columns' W 1."""
        return np.asarray(columns.T @ metric)

    def total(self, metric: Vector) -> Any:
        """1' W 1."""
        return float(metric.sum())

    def solve(self, total: Any, values: Any, least: float = 0.0) -> Any:
        """(1' W 1)^-1 values, with `least` curvature."""
        return values / max(total, least)

    def removed(self, total: Any, sums: Vector) -> Vector:
        """What a Gram matrix loses once constants are minimised out."""
        return np.asarray(np.outer(sums, sums) / total)

    def repeat(self, constants: Any, rows: int) -> Any:
        """Constants for so many rows, as something that is added to their scores."""
        return constants

    def zeros(self, count: int) -> Vector:
        """Constants of so many steps."""
        return np.zeros(count)


class SeveralScores(OneScore):
    """A row has several scores: constants are vectors, and those along (1, ... 1) move nothing."""

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    def away(self, metric: Vector, columns: Vector) -> Vector:
        """Columns without the weighted mean of each row."""
        rows = metric.size // self.outputs
        m = metric.reshape(rows, self.outputs, *(1,) * (columns.ndim - 1))
        v = columns.reshape(rows, self.outputs, *columns.shape[1:])
        mean = (m * v).sum(axis=1, keepdims=True) / np.maximum(m.sum(axis=1, keepdims=True), NOTHING)
        return np.asarray((v - mean).reshape(columns.shape))

    def shares(self, metric: Vector) -> tuple[Vector, Vector]:
        """M and q as tables of n rows."""
        m = metric.reshape(-1, self.outputs)
        return m, m / np.maximum(m.sum(axis=1, keepdims=True), NOTHING)

    def sums(self, values: Vector) -> Vector:
        """Sum over the rows for each class, of a vector."""
        return np.asarray(values.reshape(-1, self.outputs).sum(axis=0))

    def columns_sums(self, metric: Vector, columns: Vector) -> Vector:
        """Columns' W (1 (x) I)."""
        weighted = metric[:, None] * self.away(metric, columns)
        return np.asarray(weighted.reshape(metric.size // self.outputs, self.outputs, columns.shape[1]).sum(axis=0).T)

    def total(self, metric: Vector) -> Vector:
        """(1 (x) I)' W (1 (x) I)."""
        m, q = self.shares(metric)
        return np.asarray(np.diag(m.sum(axis=0)) - m.T @ q)

    def solve(self, total: Vector, values: Vector, least: float = 0.0) -> Vector:
        """The shortest solution; values are those of C constants, or a table with C rows.

        It is found among constants that sum to zero, so that rounding along (1, ... 1) never grows.
        """
        basis = balanced_basis(self.outputs)
        eigenvalues, vectors = np.linalg.eigh(basis.T @ total @ basis)
        keep = eigenvalues > FLAT * eigenvalues[-1]
        part = basis @ vectors[:, keep]
        return np.asarray((part / np.maximum(eigenvalues[keep], least)) @ (part.T @ values))

    def removed(self, total: Vector, sums: Vector) -> Vector:
        """What a Gram matrix loses once constants are minimised out."""
        return np.asarray(sums @ self.solve(total, sums.T))

    def repeat(self, constants: Any, rows: int) -> Vector:
        """Constants for so many rows, as something that is added to their scores."""
        return np.tile(constants, rows)

    def zeros(self, count: int) -> Vector:
        """Constants of so many steps."""
        return np.zeros((count, self.outputs))


@cache
def balanced_basis(outputs: int) -> Vector:
    """An orthonormal basis of the vectors that sum to zero, as columns (Helmert's)."""
    basis = np.zeros((outputs, outputs - 1))
    for k in range(1, outputs):
        basis[:k, k - 1], basis[k, k - 1] = 1.0, -k
        basis[:, k - 1] /= np.sqrt(k * (k + 1))
    return np.asarray(basis)


def coef_of_classes(coef: Vector, outputs: int) -> Vector:
    """Coefficients of a solver as a model has them: of several classes a row each, which sum to zero.

    What is the same for every class changes no probability, and a penalty only adds up on it.
    """
    if outputs == 1:
        return coef
    rows = coef.reshape(-1, outputs).T
    return np.asarray(rows - rows.mean(axis=0))


def scores_of(outputs: int) -> OneScore:
    """The algebra for so many scores of a row."""
    return OneScore() if outputs == 1 else SeveralScores(outputs)


# --- A party's columns as a map from d C coefficients to n C scores


class SeveralBlock:
    """D (x) I_C for one party, with the products that solvers need."""

    def __init__(self, block: Block, outputs: int) -> None:
        self.block, self.outputs, self.scores = block, outputs, SeveralScores(outputs)
        self.n, self.d = block.n * outputs, block.d * outputs

    def predict(self, x: Vector) -> Vector:
        """The scores of coefficients."""
        x = x.reshape(self.block.d, self.outputs)
        if type(self.block) is Block:
            return self.block.predict(x).ravel()
        return np.column_stack([self.block.predict(np.ascontiguousarray(own)) for own in x.T]).ravel()

    def balanced(self, x: Vector) -> Vector:
        """Coefficients that sum to zero over the classes: what is the same for all is rounding, which must not grow."""
        rows = x.reshape(self.block.d, self.outputs)
        return np.asarray(rows - rows.mean(axis=1, keepdims=True)).ravel()

    def correlate(self, r: Vector) -> Vector:
        """The transposed map of one long vector, or of the columns of a matrix."""
        wide = r.reshape(self.block.n, self.outputs * (r.size // self.n))
        return self.block.correlate_columns(np.ones(self.block.n), wide).reshape(self.d, *r.shape[1:])

    def sweep(self, residual: Vector | None, metric: Vector, steps: Vector, *, gram: bool, project: bool) -> Sweep:
        """All products of a round that come before its direction, as `Block.sweep`."""
        gradient = np.zeros(self.d) if residual is None else self.correlate(residual)
        cross = self.correlate(metric[:, None] * self.scores.away(metric, steps))
        if not gram:
            return Sweep(gradient, cross)
        pull = self.pull(metric) if project else None
        return Sweep(gradient, cross, pull, self.gram(metric, pull))

    def pull(self, metric: Vector) -> Vector:
        """(D (x) I)' W (1 (x) I), d C x C."""
        m, q = self.scores.shares(metric)
        found = np.empty((self.block.d, self.outputs, self.outputs))
        for a in range(self.outputs):
            own = -m[:, a, None] * q
            own[:, a] += m[:, a]
            found[:, a] = self.block.correlate_columns(np.ones(self.block.n), own)
        return found.reshape(self.d, self.outputs)

    def gram(self, metric: Vector, pull: Vector | None = None) -> Vector:
        """(D (x) I)' W (D (x) I), less what constants take from it where their `pull` is given."""
        m, q = self.scores.shares(metric)
        d, outputs = self.block.d, self.outputs
        whole = np.empty((d, outputs, d, outputs))
        for a in range(outputs):
            whole[:, a, :, a] = self.block.gram(m[:, a] * (1.0 - q[:, a]))
            for b in range(a):
                whole[:, a, :, b] = whole[:, b, :, a] = -self.block.gram(m[:, a] * q[:, b])
        found = whole.reshape(self.d, self.d)
        return found if pull is None else found - self.scores.removed(self.scores.total(metric), pull)


class SeveralCurvature(CurvatureSolver):
    """`CurvatureSolver` of a `SeveralBlock`: its Gram matrix is that of all classes together."""

    def __init__(self, block: SeveralBlock, metric: Vector, ridge: float, *, project: bool, swept: Sweep) -> None:
        super().__init__(block, metric, ridge, project=project, swept=swept)  # type: ignore[arg-type]
        self.scores = block.scores

    @cached_property
    def _total(self) -> Vector:
        return np.asarray(self.scores.total(self.weights))

    def projected_cross(self, cross: Vector, steps: Vector) -> Vector:
        """The product with W of steps, from what a sweep found for them."""
        if not self.project:
            return cross
        assert self.swept is not None
        assert self.swept.pull is not None
        sums = self.scores.columns_sums(self.weights, steps)
        return np.asarray(cross - self.swept.pull @ self.scores.solve(self._total, sums.T))
