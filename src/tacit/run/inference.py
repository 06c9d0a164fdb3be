"""Standard errors, tests and intervals of a trained linear model, from the rows that it was trained on.

| symbol | meaning |
|---|---|
| x | a row of all parties' (encoded) columns, with a 1 at the end where there is an intercept |
| g, h | first and second derivative of the loss of a row in its score |
| H | sum of h x x', the information |
| P | N alpha l2 on the diagonal, 0 for the intercept: the curvature of the penalty |
| B | sum of g^2 (x x') about its mean: how much the gradient varies |

Without a penalty, and for a loss that is a likelihood (logistic, squared, Poisson), the covariance of coefficients is
phi H^-1: that of maximum likelihood, with phi = 1, or the residual variance of least squares, whose tests use Student's
t. Elsewhere (a penalty, row weights, another smooth loss) it is the sandwich (H + P)^-1 B (H + P)^-1, times N / (N -
effective number of coefficients). It is the covariance of the penalised coefficients around what they are on average:
a penalty pulls them towards 0, and the interval does not add what it pulled off.

H needs products of columns of two parties, over all rows. In one process they are at hand. Between organisations nobody
has both, and what would have to be sent (docs/explanation/inference.md) is more than a model tells: refused there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy import sparse

from tacit.columns.compact import CurveMatrix
from tacit.columns.encoder import Encoder
from tacit.data.cluster import ClusterRows
from tacit.errors import InputError
from tacit.files import plain_number
from tacit.problem.losses import Loss
from tacit.problem.losses.base import RowLoss
from tacit.problem.losses.modified import Modified
from tacit.run.curves import Points, party_curves
from tacit.run.result import PartyModel, TrainedOn
from tacit.solvers.base import Problem
from tacit.text import plural, show
from tacit.types import Matrix, Vector

LEVEL = 0.95
LIKELIHOODS = ("logistic", "squared", "poisson")  # whose information gives the covariance, where nothing is penalised
SMOOTH = (*LIKELIHOODS, "huber", "squared_hinge")  # with a second derivative almost everywhere
MOST_COLUMNS = 3_000  # coefficients: their covariance is a full matrix
MOST_WORK = 10**12  # rows times the square of these
CHUNK = 4_096  # rows that are written out at a time
SINGULAR = 1e-11  # least eigenvalue of the information, in units of its diagonal, that counts as above 0
NEAR, FAR = 0.1, 2.0  # standard errors from the optimum: beyond the first it is said, beyond the second refused
INTERCEPT = "intercept"
PRIVATE = (
    "standard errors need sums over rows that no certificate covers: a private model has none, and its curves have the "
    "band of their noise (tacit curves)"
)


@dataclass(frozen=True)
class WaldTest:
    """Whether some coefficients are all 0: a chi-squared statistic, or F where there are `residual` degrees of freedom.

    Attributes
    ----------
    name : str
        Whose coefficients: a party, or a column.
    statistic : float
    df : int
        Coefficients that can vary.
    residual : int or None
        Of an F statistic.
    p : float
    """

    name: str
    statistic: float
    df: int
    residual: int | None
    p: float

    def __str__(self) -> str:
        how = f"chi2({self.df})" if self.residual is None else f"F({self.df}, {self.residual})"
        return f"{how} = {self.statistic:.4g}, p = {self.p:.3g}"


@dataclass(frozen=True, eq=False)
class Summary:
    """Coefficients with their errors, by party and column; the intercept, where there is one, is last.

    Attributes
    ----------
    loss : str
    rows : int
    parties, columns : tuple of str
        Of each coefficient; the intercept belongs to nobody, "".
    coef, error : array
        Coefficients and standard errors.
    covariance : array
        Of all coefficients.
    residual : int or None
        Degrees of freedom of Student's t; None for the normal distribution.
    covers : str
        What the intervals cover.
    remarks : tuple of str
    curve_parts : mapping
        By party how its columns are encoded and the mean encoded row; empty where columns were used as they are.
    """

    loss: str
    rows: int
    parties: tuple[str, ...]
    columns: tuple[str, ...]
    coef: Vector
    error: Vector
    covariance: Vector
    residual: int | None
    covers: str
    remarks: tuple[str, ...] = ()
    curve_parts: Mapping[str, tuple[Encoder, Vector]] | None = None

    @property
    def statistic(self) -> Vector:
        """Each coefficient in units of its standard error."""
        return np.divide(self.coef, self.error, out=np.full_like(self.coef, np.nan), where=self.error > 0)

    @property
    def p(self) -> Vector:
        """Two-sided p-value of each coefficient being 0."""
        return np.asarray(2 * self._distribution.sf(np.abs(self.statistic)))

    @property
    def _distribution(self) -> Any:
        return scipy.stats.norm if self.residual is None else scipy.stats.t(self.residual)

    def intervals(self, level: float = LEVEL) -> Vector:
        """Low and high of each coefficient."""
        wide = float(self._distribution.ppf((1 + level) / 2)) * self.error
        return np.column_stack([self.coef - wide, self.coef + wide])

    @property
    def party_names(self) -> tuple[str, ...]:
        """Who has coefficients."""
        return tuple(dict.fromkeys(name for name in self.parties if name))

    def of(self, party: str) -> Summary:
        """What one party may see: its own coefficients.

        Raises
        ------
        InputError
            Where there is no such party.
        """
        if party not in self.party_names:
            raise InputError(
                f"there is no party {show(party)}: the parties are {', '.join(map(show, self.party_names))}"
            )
        at = np.array([name == party for name in self.parties])
        own = [column for column, chosen in zip(self.columns, at, strict=True) if chosen]
        parts = {party: self.curve_parts[party]} if self.curve_parts and party in self.curve_parts else {}
        return replace(
            self,
            parties=(party,) * len(own),
            columns=tuple(own),
            coef=self.coef[at],
            error=self.error[at],
            covariance=self.covariance[np.ix_(at, at)],
            curve_parts=parts,
        )

    # --- tests of several coefficients ----------------------------------------------------------------

    def test(self, party: str, column: str | None = None) -> WaldTest:
        """Whether all coefficients of a party, or of one of its columns, are 0 (Wald)."""
        at = [k for k, name in enumerate(self.parties) if name == party and self._is_of(k, column)]
        if not at:
            raise InputError(f"there are no coefficients of {show(party if column is None else column)}")
        return self._wald(party if column is None else column, np.array(at))

    def _is_of(self, at: int, column: str | None) -> bool:
        return column is None or self._sources[at] == column

    @property
    def _sources(self) -> list[str]:
        """The column of its file that each coefficient belongs to."""
        found = list(self.columns)
        for party, (encoder, _) in (self.curve_parts or {}).items():
            first = self.parties.index(party)
            for source, own in zip(encoder.sources, encoder.slices, strict=True):
                found[first + own.start : first + own.stop] = [source] * (own.stop - own.start)
        return found

    def _wald(self, name: str, at: npt.NDArray[np.intp]) -> WaldTest:
        values, vectors = np.linalg.eigh(self.covariance[np.ix_(at, at)])
        free = values > SINGULAR * max(float(values[-1]), 1e-300)
        turned = vectors[:, free].T @ self.coef[at]
        total, df = float(np.sum(turned**2 / values[free])), int(free.sum())
        if self.residual is None:
            return WaldTest(name, total, df, None, float(scipy.stats.chi2.sf(total, df)))
        return WaldTest(name, total / df, df, self.residual, float(scipy.stats.f.sf(total / df, df, self.residual)))

    def tests(self) -> dict[str, WaldTest]:
        """For each party whether it adds anything: whether all of its coefficients are 0."""
        return {name: self.test(name) for name in self.party_names}

    def column_tests(self) -> dict[tuple[str, str], WaldTest]:
        """The same for each column that has several coefficients: curves, categories, numbers with blanks."""
        sources = list(zip(self.parties, self._sources, strict=True))
        several = [pair for pair in dict.fromkeys(sources) if pair[0] and sources.count(pair) > 1]
        return {pair: self.test(*pair) for pair in several}

    # --- curves ----------------------------------------------------------------------------------------

    def curves(self) -> dict[str, dict[str, Points]]:
        """What each column adds to the score against the average row, with its 95 % confidence band.

        Returns
        -------
        dict of str to dict of str to (array, array, array, array)
            By party and column: cells, value, low and high. Empty where columns were used as they are.
        """
        found: dict[str, dict[str, Points]] = {}
        for party, (encoder, mean) in (self.curve_parts or {}).items():
            at = np.array([name == party for name in self.parties])
            part = PartyModel(party, encoder.names, self.coef[at], 0.0, noise=self.covariance[np.ix_(at, at)])
            found[party] = {one.column: one.points for one in party_curves(party, part, encoder, mean)}
        return found

    # --- for people ------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """One row per coefficient as a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        low, high = self.intervals().T
        return pd.DataFrame(
            {
                "party": self.parties,
                "column": self.columns,
                "coef": self.coef,
                "standard_error": self.error,
                "statistic": self.statistic,
                "p": self.p,
                "low": low,
                "high": high,
            }
        )

    def record(self) -> dict[str, Any]:
        """As plain values."""
        low, high = self.intervals().T
        values = zip(self.parties, self.columns, self.coef, self.error, self.statistic, self.p, low, high, strict=True)
        names = ("coef", "standard_error", "statistic", "p", "low", "high")
        rows = [
            {
                "party": one[0],
                "column": one[1],
                **{n: plain_number(float(v)) for n, v in zip(names, one[2:], strict=True)},
            }
            for one in values
        ]
        tests = {name: vars(test) for name, test in self.tests().items()}
        return {
            "loss": self.loss,
            "rows": self.rows,
            "residual": self.residual,
            "covers": self.covers,
            "coefficients": rows,
            "parties": tests,
            "columns": [{"party": pair[0], **vars(test)} for pair, test in self.column_tests().items()],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(found: Summary) -> list[str]:
    wide = [max(len(word) for word in (title, *words)) for title, words in _texts(found)]
    letter = "z" if found.residual is None else "t"
    titles = f"{'coef':>11} {'std err':>10} {letter:>8} {f'P>|{letter}|':>8} {'from':>11} {'to':>11}"
    lines = [f"{found.loss} loss, {plural(found.rows, 'row')}; 95 % intervals", found.covers, *found.remarks, ""]
    lines.append(f"{'party':<{wide[0]}}  {'column':<{wide[1]}} {titles}")
    rows = zip(found.parties, found.columns, found.coef, found.error, found.statistic, found.p, strict=True)
    for (party, column, coef, error, ratio, p), (low, high) in zip(rows, found.intervals(), strict=True):
        numbers = f"{coef:>11.5g} {error:>10.4g} {ratio:>8.3f} {p:>8.3f} {low:>11.5g} {high:>11.5g}"
        numbers = numbers if np.isfinite(error) else f"{coef:>11.5g} {'no row':>10}"
        lines.append(f"{party:<{wide[0]}}  {column:<{wide[1]}} {numbers}")
    columns = found.column_tests()
    if columns:
        lines += ["", "does a column add anything? (all of its coefficients 0, Wald)"]
        lines += [f"{party:<{wide[0]}}  {column:<{wide[1]}}  {test}" for (party, column), test in columns.items()]
    lines += ["", "does a party add anything? (all of its coefficients 0, Wald)"]
    return lines + [f"{name:<{wide[0]}}  {test}" for name, test in found.tests().items()]


def _texts(found: Summary) -> list[tuple[str, tuple[str, ...]]]:
    return [("party", found.parties), ("column", (*found.columns, *found._sources))]


# --- computing it ----------------------------------------------------------------------------------------


def _pieces(trained: TrainedOn) -> Iterator[Vector]:
    """The rows, all columns beside each other, a few thousand at a time."""
    for shards in trained.groups:
        rows = shards[0].features.shape[0]
        for start in range(0, rows, CHUNK):
            at = np.arange(start, min(start + CHUNK, rows))
            own = [_dense(shard.features, at) for shard in shards]
            ones = [np.ones((len(at), 1))] if trained.problem.fit_intercept else []
            yield np.hstack([*own, *ones])


def _dense(features: Matrix, rows: npt.NDArray[np.intp]) -> Vector:
    part = features[rows]
    if sparse.issparse(part) or isinstance(part, CurveMatrix):
        return np.asarray(part.toarray(), dtype=np.float64)
    return np.asarray(part, dtype=np.float64)


def summarize(trained: TrainedOn, coefs: Sequence[Vector], intercept: float) -> Summary:
    """Standard errors of a model.

    Parameters
    ----------
    trained : TrainedOn
        The rows, and what was minimised.
    coefs : sequence of arrays
        By party; one where the rows are split.
    intercept : float

    Raises
    ------
    InputError
        Where they do not exist, or cannot be computed: privacy, penalties and losses with kinks, columns that depend on
        each other without a penalty, too many columns, or rows that are not those of the model.
    """
    problem = trained.problem
    _check(trained)
    theta = np.concatenate([*coefs, *([[intercept]] if problem.fit_intercept else [])])
    _check_size(trained, theta.size)
    sums = _sums(trained, theta)
    penalty = np.full(theta.size, trained.total * problem.alpha * problem.regularizer.l2)
    if problem.fit_intercept:
        penalty[-1] = 0.0
    parties, columns = _names(trained)
    inverse = _inverse(sums.information + np.diag(penalty), columns)
    freedom = float(np.trace(inverse @ sums.information))
    left = len(trained.labels) - freedom
    if left < 1:
        raise InputError(
            f"{plural(len(trained.labels), 'row')} are too few for {plural(theta.size, 'coefficient')}: there is "
            "nothing left to measure errors by"
        )
    exact = not penalty.any() and trained.weights is None and problem.loss.name in LIKELIHOODS
    covariance = inverse * sums.dispersion(problem.loss, left) if exact else _sandwich(inverse, sums, left)
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    error[np.diag(sums.information) <= 0] = np.nan  # a category that no row has: its coefficient is not estimated
    remarks = _distance(inverse @ (sums.gradient + penalty * theta), error)
    residual = round(left) if exact and problem.loss.name == "squared" else None
    means = sums.mean_rows(trained)
    return Summary(
        problem.loss.name,
        len(trained.labels),
        parties,
        columns,
        theta,
        error,
        covariance,
        residual,
        _covers(problem, exact),
        remarks,
        {name: (encoder, means[name]) for name, encoder in trained.encoders.items()},
    )


def _check(trained: TrainedOn) -> None:
    """Refuse what has no standard errors, in one line."""
    problem = trained.problem
    loss, penalty = problem.loss, problem.regularizer
    if trained.private or isinstance(loss, Modified):
        raise InputError(PRIVATE)
    if getattr(loss, "outputs", 1) > 1:
        raise InputError("there are no standard errors for more than two classes yet: train one class against the rest")
    if isinstance(loss, RowLoss):
        raise InputError("there are no standard errors for rows with offset, exposure or weight yet: leave them out")
    if loss.name not in SMOOTH:
        raise InputError(f"there are no standard errors for loss {show(loss.name)}: use one of {', '.join(SMOOTH)}")
    bounded = any(np.isfinite(value) for value in (penalty.low, penalty.high, penalty.radius))
    if bounded or (penalty.l1 > 0 and problem.alpha > 0):
        raise InputError(
            f"there are no standard errors for penalty {show(penalty.name)}, which sets coefficients to a limit: use "
            '"l2" or "none"'
        )
    if any(isinstance(shard.features, ClusterRows) or problem.low_memory for own in trained.groups for shard in own):
        raise InputError("standard errors need the rows in memory: train without memory and without a cluster")


def _check_size(trained: TrainedOn, size: int) -> None:
    rows = len(trained.labels)
    if size > MOST_COLUMNS or rows * size**2 > MOST_WORK:
        raise InputError(
            f"{size:,} coefficients of {rows:,} rows are too many for a full covariance: use fewer columns"
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over all rows."""

    information: Vector
    outer: Vector
    gradient: Vector
    mean: Vector
    squares: float
    rows: int

    def dispersion(self, loss: Loss, left: float) -> float:
        """The residual variance of least squares; 1 for the other likelihoods."""
        return self.squares / left if loss.name == "squared" else 1.0

    @property
    def spread(self) -> Vector:
        """How much the gradient of a row varies, summed over the rows."""
        return self.outer - np.outer(self.gradient, self.gradient) / self.rows

    def mean_rows(self, trained: TrainedOn) -> dict[str, Vector]:
        """The mean encoded row of each name."""
        widths = [shard.features.shape[1] for shard in trained.groups[0]]
        ends = np.cumsum(widths)
        return {name: self.mean[end - w : end] for name, w, end in zip(trained.names, widths, ends, strict=True)}


def _sums(trained: TrainedOn, theta: Vector) -> _Sums:
    size, loss = theta.size, trained.problem.loss
    information, outer = np.zeros((size, size)), np.zeros((size, size))
    gradient, mean, squares, first = np.zeros(size), np.zeros(size), 0.0, 0
    for rows in _pieces(trained):
        at = slice(first, first + len(rows))
        g, h = loss.slopes(rows @ theta, trained.labels[at])
        if trained.weights is not None:
            g, h = g * trained.weights[at], h * trained.weights[at]
        information += (rows * h[:, None]).T @ rows
        outer += (rows * (g**2)[:, None]).T @ rows
        gradient += rows.T @ g
        mean += rows.sum(axis=0)
        squares += float(g @ g)
        first += len(rows)
    return _Sums(information, outer, gradient, mean / first, squares, first)


def _inverse(matrix: Vector, columns: Sequence[str]) -> Vector:
    """The inverse of a symmetric matrix; refused where it has none."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    if not np.isfinite(values).all() or values[0] <= SINGULAR:
        worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
        named = ", ".join(show(columns[k]) for k in worst)
        raise InputError(
            f"without a penalty some columns depend on each other, {named} among them: leave one out, or give "
            'penalty = "l2" with alpha above 0'
        )
    return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))


def _sandwich(inverse: Vector, sums: _Sums, left: float) -> Vector:
    return np.asarray(inverse @ sums.spread @ inverse * sums.rows / left)


def _distance(step: Vector, error: Vector) -> tuple[str, ...]:
    """How far the coefficients are from the optimum, in standard errors; refused where that is far."""
    seen = np.isfinite(error)
    far = float(np.max(np.abs(step[seen]) / np.maximum(error[seen], 1e-300), initial=0.0))
    if far > FAR:
        raise InputError(
            f"the model is {far:.1f} standard errors away from the optimum of these rows: it was trained on other "
            "rows, or training stopped early (lower tol)"
        )
    if far < NEAR:
        return ()
    return (f"training stopped up to {far:.2g} standard errors away from the optimum: lower tol for exact figures",)


def _covers(problem: Problem, exact: bool) -> str:
    """What the intervals cover."""
    if exact:
        return "intervals cover the coefficients of the model without a penalty, if it is right (maximum likelihood)"
    if problem.alpha > 0 and problem.regularizer.l2 > 0:
        return (
            f"intervals cover the coefficients that training with this penalty (alpha = {problem.alpha:g}) gives on "
            "average: they are pulled towards 0, and what was pulled off is not in the interval (sandwich)"
        )
    return "intervals cover the coefficients that minimise the mean loss over all such rows (sandwich)"


def _names(trained: TrainedOn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Party and column of each coefficient."""
    pairs = [
        (name, column) for name, shard in zip(trained.names, trained.groups[0], strict=True) for column in shard.columns
    ]
    pairs += [("", INTERCEPT)] if trained.problem.fit_intercept else []
    return tuple(name for name, _ in pairs), tuple(column for _, column in pairs)
