"""How good scores are: measures with intervals, and the points of the curves that a page draws; all from labels.

Every measure comes with what one row more would change it by (its influence, the derivative in the weight of the row).
The standard error is the root of the sum of their squares: the delta method, also called the infinitesimal jackknife.
Of a mean it is the usual standard error, of the AUC DeLong's. Nothing is drawn at random, and two models that are
evaluated on the same rows can be compared row by row. A 95 % interval is 1.96 standard errors on either side: on the
log-odds scale for measures between 0 and 1, as a logarithm for those above 0, of shares by Wilson. The largest distance
of two curves (KS) is taken as if its place were known, so that of few rows its interval is too far up.
`python -m bench --only coverage` measures how often the intervals hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, xlogy

from tacit.mechanisms.gram.fit import HeldOutRelease
from tacit.plan.terms import named_loss
from tacit.problem.losses import Loss
from tacit.problem.losses.base import at_offsets
from tacit.solvers.boosting import TreeLoss
from tacit.text import plural
from tacit.types import Vector

MOST_POINTS = 120  # of a curve: more cannot be told apart in a picture
GROUPS = 10  # of rows with similar predictions, in the picture of calibration
LEAST_IN_GROUP = 10  # rows: of fewer, a mean says nothing

Measures = dict[str, float]
Interval = list[float]  # low and high
AnyLoss = str | Loss | TreeLoss  # a name will do where the loss has no parameters
WIDE = 1.959964  # standard errors on either side: 95 %
LEAST_ROWS = 10  # with fewer, or fewer than LEAST_OF_CLASS of a class, there are no intervals
LEAST_OF_CLASS = 5
TOP = 0.1  # part of the rows, those with the highest scores, whose lift is measured
BETTER = {  # the others: lower
    "auc": "higher",
    "gini": "higher",
    "ks": "higher",
    "pr_auc": "higher",
    "lift": "higher",
    "accuracy": "higher",
    "r2": "higher",
    "d2": "higher",
    "skill": "higher",
    "base_rate": "neither",
    "coverage": "neither",
}
TITLES = {
    "auc": "AUC",
    "gini": "Gini",
    "ks": "KS",
    "pr_auc": "PR-AUC",
    "lift": "lift of the top 10 %",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "skill": "part of the base rate's log loss gone",
    "brier": "Brier score",
    "base_rate": "share of positive labels",
    "r2": "R²",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "deviance": "mean Poisson deviance",
    "gamma_deviance": "mean gamma deviance",
    "tweedie_deviance": "mean Tweedie deviance",
    "negative_binomial_deviance": "mean negative binomial deviance",
    "d2": "part of the deviance explained",
    "pinball": "mean quantile loss",
    "coverage": "share of labels below the prediction",
}
METHOD = "95 % intervals by the delta method (of shares by Wilson), for new rows like these"
ORDER = (  # the first that there is, is the headline: deviance of counts, R² of numbers, AUC of two classes
    "auc",
    "pinball",
    "deviance",
    "gamma_deviance",
    "tweedie_deviance",
    "negative_binomial_deviance",
    "coverage",
    "r2",
    "d2",
    "gini",
    "ks",
    "pr_auc",
    "lift",
    "accuracy",
    "log_loss",
    "skill",
    "brier",
    "base_rate",
    "rmse",
    "mae",
)
DEVIANCES = ("deviance", "gamma_deviance", "tweedie_deviance", "negative_binomial_deviance")
OF_LOSS = ("tweedie_deviance", "negative_binomial_deviance")  # twice the mean loss, whose least value is 0
COMPARED = ("auc", "pinball", *DEVIANCES, "coverage", "r2", "accuracy", "log_loss", "rmse", "mae")
SHARES = ("accuracy", "base_rate", "coverage")  # means of yes and no: Wilson's interval
PARTS = ("auc", "ks", "pr_auc", "gini")  # between 0 and 1 (Gini: -1 and 1), interval on the log-odds scale
POSITIVE = ("log_loss", "brier", "rmse", "mae", *DEVIANCES, "pinball", "lift")  # by their logarithm


def headline(measures: Mapping[str, float]) -> str:
    """The measure that is said first."""
    return next(name for name in ORDER if name in measures)


def _known(loss: AnyLoss) -> Loss | TreeLoss:
    return named_loss(loss) if isinstance(loss, str) else loss


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measure, and how much each row moves it: the derivative in its weight, whose squares sum to the variance."""

    value: float
    influence: Vector

    @property
    def error(self) -> float:
        """The standard error."""
        n = len(self.influence)
        return float(np.sqrt(np.sum(self.influence**2) * n / max(n - 1, 1)))

    def map(self, value: float, slope: float) -> Estimate:
        """A smooth function of it, by its value and derivative."""
        return Estimate(value, slope * self.influence)


def _mean(values: Vector) -> Estimate:
    mean = float(np.mean(values))
    return Estimate(mean, (values - mean) / len(values))


def _one_minus_ratio(top: Estimate, bottom: Estimate) -> Estimate:
    """1 - top / bottom, as R²; `bottom` is above 0."""
    ratio = top.value / bottom.value
    return Estimate(1.0 - ratio, -(top.influence - ratio * bottom.influence) / bottom.value)


# --- all measures of a model ---------------------------------------------------------------------------


def measure(scores: Vector, labels: Vector, loss: AnyLoss) -> Measures:
    """The measures that fit a loss; AUC and its like only where both classes are there.

    Parameters
    ----------
    scores : array
        Of the model, one for each row.
    labels : array
        -1 and +1, or numbers.
    loss : str, Loss or TreeLoss
        The loss that the model was trained with.
    """
    return {name: one.value for name, one in estimates(scores, labels, loss).items()}


def intervals(scores: Vector, labels: Vector, loss: AnyLoss) -> dict[str, Interval]:
    """A 95 % interval for each measure; none where there are too few rows, or where no row tells of any error."""
    scores, labels = at_offsets(scores, labels)
    rows = len(labels)
    if rows < LEAST_ROWS:
        return {}
    found = estimates(scores, labels, loss)
    if _known(loss).task == "classification" and scores.ndim == 1:
        positive = int(np.sum(labels > 0))
        few = min(positive, rows - positive) < LEAST_OF_CLASS
        found = {name: one for name, one in found.items() if not few or name in SHARES}
    pairs = {name: _interval(name, one, rows) for name, one in found.items()}
    return {name: own for name, own in pairs.items() if own is not None}


def figures(scores: Vector, labels: Vector, loss: AnyLoss) -> dict[str, Any]:
    """All that is said of one model, as plain values: measures, intervals, deciles, and the points of curves."""
    known = _known(loss)
    scores, labels = at_offsets(scores, labels)
    ranked = known.task == "classification" and scores.ndim == 1
    return {
        "measures": measure(scores, labels, known),
        "intervals": intervals(scores, labels, known),
        "deciles": deciles(scores, labels) if ranked else [],
        "roc": roc(scores, labels) if ranked else [],
        "calibration": calibration(scores, labels, known),
    }


def estimates(scores: Vector, labels: Vector, loss: AnyLoss) -> dict[str, Estimate]:
    """Each measure with the influence of each row; as `measure`."""
    known = _known(loss)
    scores, labels = at_offsets(scores, labels)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if known.task == "classification":
            return _of_classes(scores, labels, known)
        if known.name == "quantile":
            below = (labels <= scores).astype(np.float64)
            return {"pinball": _mean(np.asarray(known.value(scores, labels))), "coverage": _mean(below)}
        return _of_numbers(scores, labels, known)


def _of_numbers(scores: Vector, labels: Vector, loss: Loss | TreeLoss) -> dict[str, Estimate]:
    predicted = np.exp(scores) if loss.task == "counts" else scores
    error = predicted - labels
    squared = _mean(error**2)
    root = float(np.sqrt(squared.value))
    found = {"rmse": squared.map(root, 0.5 / root if root else 0.0), "mae": _mean(np.abs(error))}
    spread = _mean((labels - labels.mean()) ** 2)
    if spread.value > 0:
        found["r2"] = _one_minus_ratio(squared, spread)
    return found | _deviances(np.maximum(predicted, 1e-300), labels, loss) if loss.task == "counts" else found


def _deviances(predicted: Vector, labels: Vector, loss: Loss | TreeLoss) -> dict[str, Estimate]:
    """The mean deviance, and which part of that of a constant prediction is gone."""
    name = f"{loss.name}_deviance" if f"{loss.name}_deviance" in DEVIANCES else "deviance"

    def unit(mean: Vector) -> Vector:
        if name in OF_LOSS:
            return 2 * np.asarray(loss.value(np.log(mean), labels))
        return (_gamma if loss.name == "gamma" else _poisson)(mean, labels)

    own, constant = _mean(unit(predicted)), _mean(unit(np.full(labels.shape, max(labels.mean(), 1e-300))))
    return {name: own, **({"d2": _one_minus_ratio(own, constant)} if constant.value > 0 else {})}


def _poisson(predicted: Vector, labels: Vector) -> Vector:
    return np.asarray(2 * (xlogy(labels, labels / predicted) - labels + predicted))


def _gamma(predicted: Vector, labels: Vector) -> Vector:
    return np.asarray(2 * (np.log(predicted / labels) + labels / predicted - 1))


def _of_classes(scores: Vector, labels: Vector, loss: Loss | TreeLoss) -> dict[str, Estimate]:
    if scores.ndim > 1:
        right = (scores.argmax(axis=1) == labels).astype(np.float64)
        return {"accuracy": _mean(right), "log_loss": _mean(np.asarray(loss.value(scores, labels)))}
    positive = (labels > 0).astype(np.float64)
    rate = _mean(positive)
    found = _of_ranks(scores, positive, rate) if 0 < rate.value < 1 else {}
    found["accuracy"] = _mean(((scores > 0) == (labels > 0)).astype(np.float64))
    if loss.log_odds:
        found |= _of_probabilities(scores, positive, rate)
    return found | {"base_rate": rate}


def _of_probabilities(scores: Vector, positive: Vector, rate: Estimate) -> dict[str, Estimate]:
    """Log loss, Brier score, and which part of the log loss of the base rate is gone."""
    lost = _mean(np.logaddexp(0.0, np.where(positive > 0, -scores, scores)))
    found = {"log_loss": lost, "brier": _mean((expit(scores) - positive) ** 2)}
    if 0 < rate.value < 1:
        base = -(xlogy(rate.value, rate.value) + xlogy(1 - rate.value, 1 - rate.value))
        constant = rate.map(float(base), float(-np.log(rate.value / (1 - rate.value))))
        found["skill"] = _one_minus_ratio(lost, constant)
    return found


# --- of two classes, by the order of the scores ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Rows by falling score, those with the same score as one group.

    Attributes
    ----------
    group : array
        The group of each row.
    rows, hits : array
        Rows and positive labels of each group.
    """

    group: npt.NDArray[np.intp]
    rows: Vector
    hits: Vector

    @classmethod
    def of(cls, scores: Vector, positive: Vector) -> _Ranked:
        group = np.unique(-scores, return_inverse=True)[1]
        rows = np.bincount(group).astype(np.float64)
        return cls(group, rows, np.bincount(group, weights=positive).astype(np.float64))


def _of_ranks(scores: Vector, positive: Vector, rate: Estimate) -> dict[str, Estimate]:
    ranked = _Ranked.of(scores, positive)
    auc = _auc(ranked, positive)
    return {
        "auc": auc,
        "gini": auc.map(2 * auc.value - 1, 2.0),
        "ks": _ks(ranked, positive),
        "pr_auc": _average_precision(ranked, positive),
        "lift": _lift(ranked, positive, rate),
    }


def _auc(ranked: _Ranked, positive: Vector) -> Estimate:
    """Half the ties count; a row's influence is that of DeLong, DeLong and Clarke-Pearson (1988)."""
    hits, misses = ranked.hits, ranked.rows - ranked.hits
    above = np.cumsum(hits) - hits / 2  # positive rows above each group
    below = misses.sum() - np.cumsum(misses) + misses / 2
    value = float(hits @ below) / (hits.sum() * misses.sum())
    own = np.where(positive > 0, (below / misses.sum())[ranked.group], (above / hits.sum())[ranked.group])
    return Estimate(value, (own - value) / np.where(positive > 0, hits.sum(), misses.sum()))


def _ks(ranked: _Ranked, positive: Vector) -> Estimate:
    """The largest distance of the two classes' distributions of scores."""
    shares = np.array([np.cumsum(one) / one.sum() for one in (ranked.hits, ranked.rows - ranked.hits)])
    at = int(np.argmax(np.abs(shares[0] - shares[1])))
    sign = 1.0 if shares[0, at] >= shares[1, at] else -1.0
    own = (ranked.group <= at).astype(np.float64)
    of_hits = positive * (own - shares[0, at]) / ranked.hits.sum()
    of_misses = (1 - positive) * (own - shares[1, at]) / (ranked.rows - ranked.hits).sum()
    return Estimate(float(abs(shares[0, at] - shares[1, at])), sign * (of_hits - of_misses))


def _average_precision(ranked: _Ranked, positive: Vector) -> Estimate:
    """Mean over the positive rows of the precision at their score, as scikit-learn's average precision."""
    total, hits, rows = ranked.hits.sum(), np.cumsum(ranked.hits), np.cumsum(ranked.rows)
    precision = hits / rows
    value = float(ranked.hits @ precision) / total
    later = np.cumsum((ranked.hits / rows)[::-1])[::-1] / total  # what a positive row adds to precision further down
    diluted = np.cumsum((ranked.hits * precision / rows)[::-1])[::-1] / total  # what any row takes off it there
    own = positive * ((precision - value) / total + later)[ranked.group] - diluted[ranked.group]
    return Estimate(value, own)


def _lift(ranked: _Ranked, positive: Vector, rate: Estimate) -> Estimate:
    """How many times the base rate the rows with the highest scores have; a group that is cut counts in part."""
    n, wanted = len(positive), max(1.0, round(TOP * len(positive)))
    shares = _shares_within(ranked, 0.0, wanted)
    hits = float(ranked.hits @ shares)
    beside = _shares_within(ranked, 0.5 * wanted, min(1.5 * wanted, n))
    edge = float(ranked.hits @ beside) / max(float(ranked.rows @ beside), 1.0)  # rate around the last row that is in
    top = hits / wanted
    inside = shares[ranked.group]
    own = (inside * (positive - edge) - wanted / n * (top - edge)) / wanted
    return Estimate(top / rate.value, (own - top / rate.value * rate.influence) / rate.value)


def _shares_within(ranked: _Ranked, first: float, last: float) -> Vector:
    """Which part of each group lies between two places in the order."""
    end = np.cumsum(ranked.rows)
    inside = np.minimum(end, last) - np.maximum(end - ranked.rows, first)
    return np.clip(inside / ranked.rows, 0.0, 1.0)


def deciles(scores: Vector, labels: Vector) -> list[dict[str, float]]:
    """Ten groups of rows by falling score: rows, share of positive labels, lift, and the part of them found so far.

    Rows with the same score are spread evenly, so that their order in the file does not matter. Nothing where one class
    is missing, or there are fewer than 10 rows.
    """
    scores, labels = at_offsets(scores, labels)
    positive = (labels > 0).astype(np.float64)
    if len(labels) < GROUPS or not 0 < positive.sum() < len(labels):
        return []
    ranked, rate = _Ranked.of(scores, positive), float(positive.mean())
    edges = np.round(np.linspace(0, len(labels), GROUPS + 1))
    hits = np.array(
        [ranked.hits @ _shares_within(ranked, *pair) for pair in itertools.pairwise(edges)],
        dtype=np.float64,
    )
    rows, found = np.diff(edges), np.cumsum(hits) / hits.sum()
    return [
        {"rows": int(n), "rate": float(h / n), "lift": float(h / n / rate), "captured": float(c)}
        for n, h, c in zip(rows, hits, found, strict=True)
    ]


# --- intervals ---------------------------------------------------------------------------------------


def _interval(name: str, one: Estimate, rows: int) -> Interval | None:
    if name in SHARES:
        return _wilson(one.value, rows)
    wide = WIDE * one.error
    if not np.isfinite([one.value, wide]).all() or wide == 0:
        return None
    if name in PARTS:
        low, high = (-1.0, 1.0) if name == "gini" else (0.0, 1.0)
        return _on_log_odds(one.value, wide, low, high)
    if name in POSITIVE and one.value > 0:
        factor = float(np.exp(wide / one.value))
        return [one.value / factor, one.value * factor]
    return [one.value - wide, one.value + wide]


def _wilson(share: float, rows: int) -> Interval:
    """Wilson's interval for a share, which is never empty."""
    z = WIDE**2 / rows
    centre, wide = (share + z / 2) / (1 + z), WIDE * np.sqrt(share * (1 - share) / rows + z / (4 * rows)) / (1 + z)
    return [max(0.0, float(centre - wide)), min(1.0, float(centre + wide))]


def _on_log_odds(value: float, wide: float, low: float, high: float) -> Interval | None:
    """Normal on the scale of log odds of the place between `low` and `high`; none at an end."""
    share = (value - low) / (high - low)
    if not 0 < share < 1:
        return None
    middle, step = logit(share), wide / (high - low) / (share * (1 - share))
    return [float(low + (high - low) * expit(middle + sign * step)) for sign in (-1, 1)]


# --- for people ----------------------------------------------------------------------------------------


def evaluation_lines(rows: int, figures: Mapping[str, Any]) -> list[str]:
    """Measures with their intervals, and tenths of the rows by falling score, as a table of text."""
    values, pairs = figures["measures"], figures["intervals"]
    shown = [key for key in ORDER if key in values]
    wide = max(len(TITLES[key]) for key in shown)
    lines = [f"{plural(rows, 'row')}; {METHOD}", "", f"{'':<{wide}} {'value':>10} {'from':>10} {'to':>10}"]
    for key in shown:
        low, high = pairs.get(key, (math.nan, math.nan))
        between = f" {low:>10.4g} {high:>10.4g}" if key in pairs else ""
        lines.append(f"{TITLES[key]:<{wide}} {values[key]:>10.4g}{between}")
    if not figures["deciles"]:
        return lines
    lines += ["", f"{'tenth, highest first':<20} {'rows':>8} {'positive':>9} {'lift':>7} {'found so far':>13}"]
    for k, one in enumerate(figures["deciles"], start=1):
        lines.append(f"{k:<20} {one['rows']:>8,} {one['rate']:>9.1%} {one['lift']:>7.3g} {one['captured']:>13.1%}")
    return lines


# --- models against each other, and curves -------------------------------------------------------------


def row_losses(scores: Vector, labels: Vector, loss: AnyLoss) -> Vector:
    """The loss of each row that a model was trained on: log loss, squared error, or what the loss is."""
    known = _known(loss)
    scores, labels = at_offsets(scores, labels)
    with np.errstate(over="ignore"):
        values = np.asarray(known.value(scores, labels), dtype=np.float64)
    return 2 * values if known.name == "squared" else values


def difference(joint: Vector, other: Vector) -> Measures:
    """Mean losses of two models on the same rows, how much more the first has, and the standard error of that.

    Nothing where there are fewer than two rows, or where a loss is not finite.
    """
    if len(joint) < 2 or not (np.isfinite(joint).all() and np.isfinite(other).all()):
        return {}
    return {
        "joint": float(joint.mean()),
        "other": float(other.mean()),
        "difference": float((joint - other).mean()),
        "error": float((joint - other).std(ddof=1) / np.sqrt(len(joint))),
    }


def loss_title(loss: str) -> str:
    """The mean of a loss in words."""
    return {"logistic": "log loss", "softmax": "log loss", "squared": "mean squared error"}.get(
        loss, f"mean {loss.replace('_', ' ').replace('poisson', 'Poisson').replace('tweedie', 'Tweedie')} loss"
    )


def roc(scores: Vector, labels: Vector) -> list[list[float]]:
    """False and true positive rates, thinned out; empty where one class is missing."""
    from sklearn.metrics import roc_curve

    scores, labels = at_offsets(scores, labels)
    if len(np.unique(labels)) < 2:
        return []
    false, true, _ = roc_curve(labels, scores)
    keep = _spread_out(false + true)  # steps of equal length along the curve
    return [false[keep].round(4).tolist(), true[keep].round(4).tolist()]


def calibration(scores: Vector, labels: Vector, loss: AnyLoss) -> list[dict[str, Any]]:
    """Mean prediction and mean outcome of groups of rows with similar predictions, about equal in size.

    For a loss with probabilities these are probabilities of the positive class, else predicted numbers; nothing for
    losses whose scores are neither.
    """
    kind = _known(loss)
    if kind.name == "quantile" or (kind.task == "classification" and not kind.log_odds):
        return []
    predicted, outcome = scores, labels = at_offsets(scores, labels)
    if kind.task == "classification":
        predicted, outcome = expit(scores), (labels > 0).astype(np.float64)
    elif kind.task == "counts":
        predicted = np.exp(scores)
    count = min(GROUPS, len(labels) // LEAST_IN_GROUP)
    if count < 2:
        return []
    parts = np.array_split(np.argsort(predicted, kind="stable"), count)
    return [
        {"predicted": float(predicted[p].mean()), "observed": float(outcome[p].mean()), "rows": len(p)} for p in parts
    ]


def spread(values: Vector) -> dict[str, Any]:
    """Standard deviation and five quantiles."""
    quantiles = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    return {"deviation": float(np.std(values)), "quantiles": [float(value) for value in quantiles]}


def _spread_out(position: Vector) -> npt.NDArray[np.int64]:
    """Indices of at most so many points, the first and the last among them, evenly along `position`, which rises."""
    if len(position) <= MOST_POINTS:
        return np.arange(len(position))
    wanted = np.linspace(position[0], position[-1], MOST_POINTS)
    return np.unique(np.append(np.searchsorted(position, wanted[:-1]), len(position) - 1))


# --- The same from a release with noise


def released_difference(release: HeldOutRelease) -> Measures:
    """As `difference`, of the joint model and the label holder alone; row differences were clipped before."""
    rows, settings = len(release.labels), release.settings
    if rows < 2:
        return {}
    mean = float(release.sums[0]) / rows
    noise = settings.difference_sd / rows
    square = (float(release.sums[1]) + settings.difference_sd) / math.sqrt(2) / rows  # not below the truth, mostly
    spread = min(max(square - mean**2, 0.0), 1.0)
    other = float(np.mean(np.logaddexp(0.0, -release.labels * release.alone)))
    moved = settings.clip * mean
    error = settings.clip * math.sqrt(spread / (rows - 1) + noise**2)
    return {"joint": other + moved, "other": other, "difference": moved, "error": error}


def released_measures(release: HeldOutRelease) -> tuple[Measures, Measures]:
    """AUC and accuracy of the joint model, and their standard errors; AUC where both classes are there.

    How many labels are positive is known, so noise that would change it is taken off.
    """
    sd, totals = release.settings.histogram_sd, _released_totals(release.labels)
    counts, rows = _released_with_totals(release.counts, totals), float(totals.sum())
    right = np.zeros_like(counts)
    right[_released_above(release), 1] = right[~_released_above(release), 0] = 1.0
    share = float(np.clip((counts * right).sum() / rows, 0.0, 1.0))
    found = {"accuracy": share}
    errors = {"accuracy": math.sqrt(share * (1 - share) / rows + (sd * _released_size(right) / rows) ** 2)}
    if totals.min() > 0:
        found["auc"], errors["auc"] = _released_auc(counts, totals, sd)
    return found, errors


def _released_auc(counts: Vector, totals: Vector, sd: float) -> tuple[float, float]:
    """The share of pairs in the right order, ties in one bin counted half, and its standard error."""
    negative, positive = counts[:, 0] / totals[0], counts[:, 1] / totals[1]
    below = np.cumsum(negative) - negative / 2  # of the negatives, for a positive in each bin
    above = positive.sum() - np.cumsum(positive) + positive / 2
    area = float(positive @ below)
    held = float(np.clip(area, 0.0, 1.0))
    spread = [
        float(np.clip(share @ rank**2 - area**2, 0.0, held * (1 - held) + 1e-12))
        for share, rank in ((positive, below), (negative, above))
    ]
    sampling = spread[0] / totals[1] + spread[1] / totals[0]
    noise = (sd / totals[1] * _released_size(below)) ** 2 + (sd / totals[0] * _released_size(above)) ** 2
    product = len(below) ** 2 / 2 * (sd / totals[0]) ** 2 * (sd / totals[1]) ** 2  # of both noises together
    return held, math.sqrt(sampling + noise + product)


def released_calibration(release: HeldOutRelease) -> list[dict[str, Any]]:
    """As `calibration`, of bins that hold enough rows beside their noise, neighbours taken together until they do."""
    counts = _released_with_totals(release.counts, _released_totals(release.labels))
    middles = expit(_released_middles(release.cuts))
    least = max(LEAST_IN_GROUP, 4.0 * release.settings.histogram_sd)
    found, group = [], []
    for place in range(len(counts)):
        group.append(place)
        inside = counts[group]
        if inside.sum() >= least * math.sqrt(len(group)):
            weights = np.maximum(inside.sum(axis=1), 1e-9)
            observed = float(np.clip(inside[:, 1].sum() / inside.sum(), 0.0, 1.0))
            predicted = float(middles[group] @ weights / weights.sum())
            found.append({"predicted": predicted, "observed": observed, "rows": round(float(inside.sum()))})
            group = []
    return found if len(found) > 1 else []


def _released_totals(labels: Vector) -> Vector:
    return np.array([np.sum(labels < 0), np.sum(labels > 0)], dtype=np.float64)


def _released_with_totals(counts: Vector, totals: Vector) -> Vector:
    """Counts that add up to what is known of both labels, all moved alike."""
    return np.asarray(counts - (counts.sum(axis=0) - totals) / len(counts))


def _released_above(release: HeldOutRelease) -> npt.NDArray[np.bool_]:
    """Bins in which the positive class is predicted: above the cut at 0."""
    return np.arange(len(release.counts)) > int(np.argmin(np.abs(release.cuts)))


def _released_size(weights: Vector) -> float:
    """Norm of weights on counts whose sums are known, by label where there are two columns."""
    return float(np.linalg.norm(weights - weights.mean(axis=0)))


def _released_middles(cuts: Vector) -> Vector:
    """A score for each bin; the outer ones reach as far as their neighbours."""
    inner = (cuts[1:] + cuts[:-1]) / 2
    return np.concatenate([[cuts[0] - (inner[0] - cuts[0])], inner, [cuts[-1] + (cuts[-1] - inner[-1])]])
