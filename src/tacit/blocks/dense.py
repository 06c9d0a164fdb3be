"""A party's rows in memory as a linear map: as they are, or scaled down to a public norm and centred for private sums.

Columns as they are (`Block`): the only operations the solvers need of the data.

| symbol | meaning |
|---|---|
| D | the party's n x d matrix, dense or CSR, never copied |
| m | the centre: None, or a row subtracted from every row of D without forming D - 1 m' |
| s | row weights, n numbers >= 0 |

Rows made fit for private sums (`ClippedRows`): scaled down, centred, scaled down again; never copied.

| symbol | meaning |
|---|---|
| D | a party's rows, dense or CSR |
| b | the public bound on the norm of a row |
| m, c | centre and radius, in units of the columns |
| p | min(1, b / |row|), one for each row |
| f | min(1, c / |p row - m|), one for each row |

What is done to a row depends on that row, the centre and the radius alone, and never fails: a row that is too long for
products with it, or that holds what is no finite number, counts as a row of zeros. Norms are rounded up, so that no
row comes out longer than its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import linalg, sparse
from scipy.linalg import lapack

from tacit.types import Curves, Matrix, Vector

# --- One party's columns as a linear map: the only operations the solvers need of the data


ROWS_AT_ONCE = 8192  # a chunk of dense rows that stays in cache while its Gram matrix is formed
CONSTANT = 1e-13  # a centred column whose squares are this small beside those of its mean was constant


@dataclass(frozen=True)
class Sweep:
    """What `Block.sweep` returns, all of it about the block's centre, the Gram matrix as `Block.gram` has it.

    Attributes
    ----------
    gradient : array
        (D - 1 m')' residual.
    cross : array
        (D - 1 m')' diag(weights) steps.
    pull, gram : array or None
        (D - 1 m')' weights (with `project`), and the Gram matrix, where it was asked for.
    """

    gradient: Vector
    cross: Vector
    pull: Vector | None = None
    gram: Vector | None = None


class Block:
    """D - 1 m' for one party, with its two products and its Gram matrices."""

    sums_chunks = False  # whether all its sums over rows are sums of those of `ROWS_AT_ONCE` rows
    curves: Curves = ()  # among the columns, see `Shard`

    def __init__(self, features: Matrix) -> None:
        self.matrix = _canonical_csr(features) if sparse.issparse(features) else features
        self.n, self.d = self.matrix.shape
        self.centre: Vector | None = None

    @property
    def is_sparse(self) -> bool:
        """True where D is kept in CSR form."""
        return bool(sparse.issparse(self.matrix))

    @cached_property
    def _transposed(self) -> Matrix:
        """A view, made once: for sparse rows making it takes longer than a short product."""
        return self.matrix.T

    @property
    def is_compact(self) -> bool:
        """True where D takes far less memory than all its numbers."""
        return self.is_sparse

    def set_centre(self, weights: Vector | None) -> Vector:
        """Take the weighted mean row as the centre (plain mean where weights is None), and return it."""
        self.centre = centre = self._mean_row(np.ones(self.n) if weights is None else weights)
        return centre

    def _mean_row(self, weights: Vector) -> Vector:
        return np.asarray(self._sum_rows(weights) / weights.sum())

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Block:
        """The same columns of some rows, with the same centre."""
        part = type(self)(self.matrix[rows])
        part.centre = self.centre
        return part

    def without_centre(self) -> Block:
        """The same rows as they are."""
        return type(self)(self.matrix)

    def as_rows(self) -> Block:
        """The same rows, for private sums: their products are sums over rows, with no more rounding than those have."""
        return self

    def chunk(self, rows: slice) -> Block:
        """A few rows as they are, for several products."""
        return type(self)(self.matrix[rows])

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        values = self.matrix.data if self.is_sparse else self.matrix
        return float(np.vdot(values, values)) / int(self.n)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x; float32 data are multiplied in float64, so that sums over many rounds do not drift."""
        if self._is_narrow:
            product = np.concatenate([self._numbers(rows) @ x for rows in self._chunks()])
        else:
            product = np.asarray(self.matrix @ x, dtype=np.float64)
        if self.centre is not None:
            product -= self.centre @ x
        return product

    def correlate(self, r: Vector) -> Vector:
        """(D - 1 m')' r for one vector or the columns of a matrix, in float64."""
        product = self._sum_rows(r)
        if self.centre is not None:
            product -= np.multiply.outer(self.centre, r.sum(axis=0))
        return product

    @property
    def _is_narrow(self) -> bool:
        return self.matrix.dtype != np.float64 and not self.is_sparse

    def _chunks(self) -> Iterator[slice]:
        return (slice(start, start + ROWS_AT_ONCE) for start in range(0, self.n, ROWS_AT_ONCE))

    def _numbers(self, rows: slice) -> Vector:
        """Some rows of a D that is not sparse."""
        return np.asarray(self.matrix[rows], dtype=np.float64)

    def _sum_rows(self, r: Vector) -> Vector:
        """D' r."""
        if not self._is_narrow:
            return np.asarray(self._transposed @ r, dtype=np.float64)
        total = np.zeros((self.d, *r.shape[1:]))
        for rows in self._chunks():
            total += self._numbers(rows).T @ r[rows]
        return total

    def correlate_columns(self, weights: Vector, columns: Vector) -> Vector:
        """(D - 1 m')' diag(weights) columns, in one pass over dense data."""
        product = np.zeros((self.d, columns.shape[1]))
        if self.is_sparse:
            for j, column in enumerate(columns.T):
                product[:, j] = self.matrix.T @ (weights * column)
        else:
            for rows in self._chunks():
                product += self._numbers(rows).T @ (weights[rows, None] * columns[rows])
        if self.centre is not None:
            product -= np.outer(self.centre, columns.T @ weights)
        return product

    def gram(self, weights: Vector | None = None, *, project: bool = False) -> Vector:
        """(D - 1 m')' diag(weights) (D - 1 m'), d x d; with `project`, m is the weighted mean row instead."""
        weights = np.ones(self.n) if weights is None else weights
        centre = self._mean_row(weights) if project else self.centre
        gram = self._gram_sparse(weights, centre) if self.is_sparse else self._gram_dense(weights, centre)
        return gram if centre is None else without_constants(gram, weights.sum() * centre**2)

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """All products of a round that come before its direction; rows on disk are read once for them."""
        gradient = np.zeros(self.d) if residual is None else self.correlate(residual)
        cross = self.correlate_columns(weights, steps)
        if not gram:
            return Sweep(gradient, cross)
        pull = self.correlate(weights) if project else None
        return Sweep(gradient, cross, pull, self.gram(weights, project=project))

    def _gram_dense(self, weights: Vector, centre: Vector | None) -> Vector:
        gram = np.zeros((self.d, self.d))
        for rows in self._chunks():
            away = self._numbers(rows) - (0.0 if centre is None else centre)
            away *= np.sqrt(weights[rows, None])
            gram += away.T @ away
        return gram

    def _gram_sparse(self, weights: Vector, centre: Vector | None) -> Vector:
        matrix = self.matrix
        if matrix.nnz * matrix.nnz / max(self.n, 1) < 4e9:
            gram = np.zeros((self.d, self.d))
            add_sparse_gram(matrix.indptr, matrix.indices, matrix.data, weights, gram)
            gram = gram + np.tril(gram, -1).T
        else:  # nearly dense rows: the library's sparse product is no slower
            gram = (matrix.T @ sparse.diags_array(weights) @ matrix).toarray()
        if centre is not None:
            cross = np.outer(centre, np.asarray(matrix.T @ weights, dtype=np.float64))
            gram += weights.sum() * np.outer(centre, centre) - cross - cross.T
        return gram

    def outer(self) -> Vector:
        """(D - 1 m')(D - 1 m')', n x n: the smaller Gram matrix where d > n."""
        matrix = self.matrix.astype(np.float64, copy=False)
        product = matrix @ matrix.T
        outer = product.toarray() if sparse.issparse(product) else np.asarray(product)
        if self.centre is not None:
            shift = np.asarray(self.matrix @ self.centre, dtype=np.float64)
            outer += float(self.centre @ self.centre) - np.add.outer(shift, shift)
        return outer

    # For rows that are scaled down to a norm

    def row_squares(self) -> Vector:
        """Squared norm of each row of D, in float64 whatever the data are; infinite where it overflows."""
        matrix = self.matrix
        with np.errstate(over="ignore"):
            if self.is_sparse:
                squares = np.square(matrix.data, dtype=np.float64)
                own = sparse.csr_array((squares, matrix.indices, matrix.indptr), shape=matrix.shape)
                return np.asarray(own @ np.ones(self.d))
            norms: Vector = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
        return norms

    def without_endless(self) -> Block:
        """D with zeros in place of each row that holds NaN or infinity: 0 times these would not be 0."""
        matrix = self.matrix
        if self.is_sparse:
            bad = ~np.isfinite(matrix.data)
            if not bad.any():
                return self
            lost = np.repeat(np.arange(self.n), np.diff(matrix.indptr))[bad]
            keep = ~np.isin(np.repeat(np.arange(self.n), np.diff(matrix.indptr)), lost)
            data = np.where(keep, matrix.data, 0.0).astype(matrix.dtype)
            return Block(sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))
        bad = ~np.isfinite(matrix).all(axis=1)
        return Block(np.where(bad[:, None], 0.0, matrix).astype(matrix.dtype)) if bad.any() else self

    def scaled(self, factor: Vector, kept: npt.NDArray[np.bool_]) -> Matrix:
        """The rows times a factor each, a copy; zeros where a row is not kept. Sparse rows stay sparse."""
        if self.is_sparse:
            own = sparse.diags_array(kept.astype(np.float64)) @ self.matrix
            own.eliminate_zeros()
            return sparse.csr_array(sparse.diags_array(factor) @ own)
        return factor[:, None] * np.where(kept[:, None], self.matrix, 0.0)


class OnePassBlock(Block):
    """A block whose products all come from its `sweep`, which passes over the rows once."""

    def correlate_columns(self, weights: Vector, columns: Vector) -> Vector:
        """(D - 1 m')' diag(weights) columns."""
        return self.sweep(None, weights, columns, gram=False).cross

    def gram(self, weights: Vector | None = None, *, project: bool = False) -> Vector:
        """As `Block.gram`, in one pass."""
        weights = np.ones(self.n) if weights is None else weights
        gram = self.sweep(None, weights, np.zeros((self.n, 0)), gram=True, project=project).gram
        assert gram is not None
        return gram


def without_constants(gram: Vector, removed: Vector) -> Vector:
    """Zero the rows of columns that were constant: what centring left of them is rounding."""
    constant = np.diag(gram) <= CONSTANT * removed
    gram[constant, :] = 0.0
    gram[:, constant] = 0.0
    return gram


def _canonical_csr(features: Matrix) -> Matrix:
    """CSR with entries in order and stored once, as the Gram kernel needs it; the caller's matrix stays as it is."""
    matrix = features.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def add_sparse_gram(indptr, indices, data, weights, gram):  # type: ignore[no-untyped-def]
    """Add the lower triangle of D' diag(weights) D; indices rise within a row."""
    for row in range(indptr.size - 1):
        weight = weights[row]
        if weight == 0.0:
            continue
        for a in range(indptr[row], indptr[row + 1]):
            line = gram[indices[a]]
            scaled = weight * data[a]
            for b in range(indptr[row], a + 1):
                line[indices[b]] += scaled * data[b]


# --- Solving (A + ridge I) x = b for the Gram matrix A of one party, through whichever of D'D and D D' is smaller


class CurvatureSolver:
    """D' W D and (D' W D + ridge I)^-1 by one Cholesky factorisation, for a metric W that stays for several rounds.

    W = diag(weights), or with `project` diag(weights) after removing the weighted mean, which is the curvature
    that is left once an intercept has been minimised out. What a sweep found is not computed again.
    """

    def __init__(
        self,
        block: Block,
        weights: Vector,
        ridge: float,
        *,
        project: bool,
        outer: Vector | None = None,
        swept: Sweep | None = None,
    ) -> None:
        self.block, self.weights, self.ridge, self.project = block, weights, ridge, project
        self.is_dual = outer is not None
        self.swept = swept
        if outer is not None:
            self.root = np.sqrt(weights)
            self.gram = self.root[:, None] * self._project_outer(outer) * self.root
        else:
            found = None if swept is None else swept.gram
            self.gram = block.gram(weights, project=project) if found is None else found

    @cached_property
    def mean_weights(self) -> Vector:
        """The weights, summing to 1; made when they are first needed."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def factor(self) -> Vector:
        """Of the smaller Gram matrix plus the ridge; made when it is first needed."""
        return cholesky(self.gram, self.ridge)

    def set_ridge(self, ridge: float) -> None:
        """Take another ridge; the Gram matrix stays."""
        self.ridge = ridge
        self.__dict__.pop("factor", None)

    def _project_outer(self, outer: Vector) -> Vector:
        if not self.project:
            return outer
        row = outer @ self.mean_weights
        return np.asarray(outer - np.add.outer(row, row) + float(row @ self.mean_weights))

    def _predict(self, x: Vector) -> Vector:
        y = self.block.predict(x)
        return y - self.mean_weights @ y if self.project else y

    def _correlate(self, r: Vector) -> Vector:
        return self.block.correlate(r - self.mean_weights * float(r.sum()) if self.project else r)

    def cross(self, step: Vector) -> Vector:
        """D' W step."""
        return self._correlate(self.weights * step)

    def cross_columns(self, steps: Vector) -> Vector:
        """D' W steps, for all columns of a window at once."""
        product = self.block.correlate_columns(self.weights, steps)
        if self.project:
            product -= np.outer(self.block.correlate(self.weights), self.mean_weights @ steps)
        return product

    def projected_cross(self, cross: Vector, steps: Vector) -> Vector:
        """D' W steps from what a sweep found for them."""
        if not self.project:
            return cross
        assert self.swept is not None
        assert self.swept.pull is not None
        return np.asarray(cross - np.outer(self.swept.pull, self.weights @ steps / self.weights.sum()))

    def times(self, x: Vector) -> Vector:
        """D' W D x for one vector or for columns."""
        if not self.is_dual:
            return self.gram @ x
        if x.ndim == 2:
            return _by_column(self.times, x)
        return self._correlate(self.weights * self._predict(x))

    def solve(self, b: Vector) -> Vector:
        """(D' W D + ridge I)^-1 b for one vector or for columns."""
        if not self.is_dual:
            return solve_cholesky(self.factor, b)
        if b.ndim == 2:
            return _by_column(self.solve, b)
        inner = solve_cholesky(self.factor, self.root * self._predict(b))
        return (b - self._correlate(self.root * inner)) / self.ridge


def _by_column(function: Callable[[Vector], Vector], columns: Vector) -> Vector:
    """Apply to each column that is not zero (an unused slot of a window costs nothing)."""
    result = np.zeros_like(columns)
    for j, column in enumerate(columns.T):
        if column.any():
            result[:, j] = function(column)
    return result


def cholesky(gram: Vector, ridge: float) -> Vector:
    """Lower Cholesky factor of gram + ridge I, with just enough more ridge where rounding makes it singular.

    LAPACK is called itself: the checks around it take longer than a small matrix does.
    """
    diagonal = np.arange(len(gram))
    jitter = 0.0
    scale = float(np.trace(gram)) / max(len(gram), 1) or 1.0
    for _ in range(40):
        shifted = gram.copy()
        shifted[diagonal, diagonal] += ridge + jitter
        factor, failed = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        jitter = max(10 * jitter, 1e-13 * scale)
    return np.full_like(gram, np.nan)  # values beyond all bounds: what is solved with it is refused on its way out


def solve_cholesky(factor: Vector, b: Vector) -> Vector:
    """Solve for one vector or for columns, with what `cholesky` returned."""
    if not b.size:
        return np.zeros_like(b)
    solved, _ = lapack.dpotrs(factor, b, lower=1)
    return np.asarray(solved)


def eigen(matrix: Vector, *, relatively_robust: bool = False) -> tuple[Vector, Vector]:
    """Eigenvalues and eigenvectors of a symmetric matrix; its diagonal and the axes where the library finds none.

    A private round must not stop there: what is made of the values is judged by other means, or private already.
    """
    try:
        values, vectors = linalg.eigh(matrix, check_finite=False) if relatively_robust else np.linalg.eigh(matrix)
    except (linalg.LinAlgError, ValueError):
        return np.array(np.diag(matrix)), np.eye(len(matrix))
    return np.asarray(values), np.asarray(vectors)


@cache
def _eigen_space(size: int) -> tuple[int, int]:
    """How much space LAPACK asks for."""
    floats, integers, _ = lapack.dsyevr_lwork(size)
    return int(floats), int(integers)


def _small_eigen(matrix: Vector) -> tuple[Vector, Vector]:
    """What `linalg.eigh` returns, to the last bit; the checks around it take longer than a small matrix does.

    Raises
    ------
    LinAlgError
        Where LAPACK finds no eigenvalues.
    """
    floats, integers = _eigen_space(len(matrix))
    values, vectors, found, _, failed = lapack.dsyevr(matrix, lower=1, lwork=floats, liwork=integers, overwrite_a=1)
    if failed:
        raise linalg.LinAlgError(f"no eigenvalues of a matrix of {len(matrix)} rows were found")
    return np.asarray(values[:found]), np.asarray(vectors[:, :found])


CLEAR = 3.0  # deviations of its noise from which an entry of a matrix counts, of many entries


def without_noise(gram: Vector, sd: float) -> Vector:
    """A noisy Gram matrix as it likely was: entries that noise may have made are 0, no eigenvalue is below 0.

    `sd` is the deviation of the noise of an entry that is not on the diagonal. The trace is kept, as noise adds as much
    to it as it takes: what noise took off the least eigenvalues comes off the others.
    """
    pairs = max(2, len(gram) * (len(gram) - 1) // 2)
    sure = np.where(np.abs(gram) > min(CLEAR, math.sqrt(2 * math.log(pairs))) * sd, gram, 0.0)
    np.fill_diagonal(sure, np.diag(gram))
    values, vectors = eigen(sure)
    return np.asarray((vectors * _positive(values)) @ vectors.T)


def _positive(values: Vector) -> Vector:
    """The nearest numbers that are not negative and have the same sum; zeros where that is negative."""
    order = np.sort(values)[::-1]
    over = (np.cumsum(order) - max(0.0, float(values.sum()))) / np.arange(1, order.size + 1)
    return np.maximum(values - over[np.flatnonzero(order >= over)[-1]], 0.0) if values.sum() > 0 else 0.0 * values


def solve_scaled(matrix: Vector, b: Vector, scale: Vector, cutoff: float) -> Vector:
    """Pseudo-inverse solve of a small symmetric system after scaling its diagonal; tiny eigenvalues dropped."""
    unit = 1.0 / np.sqrt(np.where(scale > 0, scale, 1.0))
    values, vectors = _small_eigen(unit[:, None] * matrix * unit)
    keep = values > cutoff
    part = vectors[:, keep]
    return np.asarray(unit * (part @ ((part.T @ (unit * b)) / values[keep])))


# --- Rows made fit for private sums: scaled down to a public norm, centred, scaled down again; never copied


LONGEST = 1e60  # a row longer than this many times the public norm counts as zeros: no product with it may overflow


@dataclass(frozen=True)
class RowClip:
    """How a row is clipped: to a norm, then, where there is a centre, to a radius around it."""

    norm: float
    centre: Vector | None = None
    radius: float = np.inf

    def apply(self, features: Matrix | Block) -> ClippedRows:
        """The rows after clipping."""
        return ClippedRows(features if isinstance(features, Block) else Block(features), self)


class ClippedRows:
    """The matrix with rows f (p row - m), by its products."""

    def __init__(self, block: Block, clip: RowClip) -> None:
        assert block.centre is None, "rows are centred by their clip alone"
        block = block.as_rows()
        squares = block.row_squares()
        if not np.isfinite(squares).all():
            block = block.without_endless()
        self.block, self.clip = block, clip
        self.kept = squares < (LONGEST * clip.norm) ** 2
        squares = self._squares = np.where(self.kept, squares, 0.0)
        unsure = (block.d + 16) * 2.0**-52  # relative rounding of a norm, at most
        long = (1 + unsure) * np.sqrt(squares)
        self.shrink = np.where(self.kept, clip.norm / np.maximum(clip.norm, long), 0.0)
        self.factor = np.ones(block.n)
        if clip.centre is not None:
            centre, size = clip.centre, float(clip.centre @ clip.centre)
            away = self.shrink**2 * squares - 2 * self._shrunk(centre) + size
            # what rounding may have taken off a difference of large numbers is put back
            away = np.sqrt(np.maximum(away, 0.0) + unsure * (self.shrink**2 * squares + size))
            self.factor = clip.radius / np.maximum(clip.radius, (1 + unsure) * away)

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.block.n)

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.block.d)

    def predict(self, x: Vector) -> Vector:
        """The rows times x, one vector or the columns of a matrix."""
        if x.ndim > 1:
            return np.column_stack([self.predict(np.ascontiguousarray(column)) for column in x.T])
        product = self._shrunk(x)
        if self.clip.centre is not None:
            product -= self.clip.centre @ x
        return np.asarray(self.factor * product)

    def _shrunk(self, x: Vector) -> Vector:
        """The rows, scaled down to the public norm, times x."""
        with np.errstate(over="ignore", invalid="ignore"):  # of rows that count as zeros
            return np.where(self.kept, self.shrink * self.block.predict(x), 0.0)

    def matrix(self) -> Matrix:
        """The clipped rows themselves, a copy; compact rows stay compact where there is no centre."""
        rows = self.block.scaled(self.factor * self.shrink, self.kept)
        if self.clip.centre is None:
            return rows
        whole = rows.toarray() if self.block.is_compact else rows
        return whole - np.multiply.outer(self.factor, self.clip.centre)

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        weighted = self.factor * r
        product = np.zeros(self.d)
        for rows, part in self._chunks():
            product += part.correlate(self.shrink[rows] * weighted[rows])
        if self.clip.centre is not None:
            product -= self.clip.centre * weighted.sum()
        return product

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        inner = weights * self.factor**2
        gram, cross = np.zeros((self.d, self.d)), np.zeros(self.d)
        for rows, part in self._chunks():
            gram += part.gram(inner[rows] * self.shrink[rows] ** 2)
            cross += part.correlate(inner[rows] * self.shrink[rows])
        if self.clip.centre is not None:
            both = np.outer(self.clip.centre, cross)
            gram += inner.sum() * np.outer(self.clip.centre, self.clip.centre) - both - both.T
        return gram

    def squares(self) -> Vector:
        """Squared norm of each row before it is centred."""
        return np.asarray(self.shrink**2 * self._squares)

    def _chunks(self) -> Iterator[tuple[slice, Block]]:
        """Some rows at a time: sums of sums, whose rounding the proof bounds (docs/proofs/gram.md, section 7)."""
        if self.n <= ROWS_AT_ONCE or self.block.sums_chunks:
            yield slice(None), self.block
            return
        for start in range(0, self.n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield rows, self.block.chunk(rows)
