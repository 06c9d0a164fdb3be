"""How good scores are: measures, and the points of the curves that a page draws. Everything here comes from labels.

The same from a release with noise (docs/proofs/evaluation.md): the label holder knows the labels and its own scores,
and of the joint scores a noisy histogram and noisy sums. The errors that are stated are those of noise and of the rows
that happened to be held out together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tacit.mechanisms.gram.fit import HeldOutRelease
from tacit.plan.terms import named_loss
from tacit.problem.losses import Loss
from tacit.solvers.boosting import TreeLoss
from tacit.types import Vector

MOST_POINTS = 120  # of a curve: more cannot be told apart in a picture
GROUPS = 10  # of rows with similar predictions, in the picture of calibration
LEAST_IN_GROUP = 10  # rows: of fewer, a mean says nothing

Measures = dict[str, float]
AnyLoss = str | Loss | TreeLoss  # a name will do where the loss has no parameters
BETTER = {"auc": "higher", "accuracy": "higher", "r2": "higher", "coverage": "neither"}  # the others: lower
TITLES = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "r2": "R²",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "deviance": "mean Poisson deviance",
    "gamma_deviance": "mean gamma deviance",
    "pinball": "mean quantile loss",
    "coverage": "share of labels below the prediction",
}


def _known(loss: AnyLoss) -> Loss | TreeLoss:
    return named_loss(loss) if isinstance(loss, str) else loss


def measure(scores: Vector, labels: Vector, loss: AnyLoss) -> Measures:
    """The measures that fit a loss; AUC only where both classes are there.

    Parameters
    ----------
    scores : array
        Of the model, one for each row.
    labels : array
        -1 and +1, or numbers.
    loss : str, Loss or TreeLoss
        The loss that the model was trained with.
    """
    known = _known(loss)
    if known.task == "classification":
        return _of_classes(scores, labels, known)
    if known.name == "quantile":
        return {"pinball": float(np.mean(known.value(scores, labels))), "coverage": float(np.mean(labels <= scores))}
    predicted = np.exp(scores) if known.task == "counts" else scores
    error = predicted - labels
    found = {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.mean(np.abs(error)))}
    spread = float(np.sum((labels - labels.mean()) ** 2))
    if spread > 0:
        found["r2"] = 1.0 - float(np.sum(error**2)) / spread
    if known.task == "counts":
        found |= _deviance(known.name, np.maximum(predicted, 1e-300), labels)
    return found


def _deviance(loss: str, predicted: Vector, labels: Vector) -> Measures:
    from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

    if loss == "gamma":
        return {"gamma_deviance": float(mean_gamma_deviance(labels, predicted))}
    return {"deviance": float(mean_poisson_deviance(labels, predicted))}


def _of_classes(scores: Vector, labels: Vector, loss: Loss | TreeLoss) -> Measures:
    from sklearn.metrics import roc_auc_score

    if scores.ndim > 1:
        right = scores.argmax(axis=1) == labels
        return {"accuracy": float(np.mean(right)), "log_loss": float(np.mean(loss.value(scores, labels)))}
    found = {}
    if len(np.unique(labels)) == 2:
        found["auc"] = float(roc_auc_score(labels, scores))
    found["accuracy"] = float(np.mean((scores > 0) == (labels > 0)))
    if loss.log_odds:
        found["log_loss"] = float(np.mean(np.logaddexp(0.0, -labels * scores)))
    return found


def row_losses(scores: Vector, labels: Vector, loss: AnyLoss) -> Vector:
    """The loss of each row that a model was trained on: log loss, squared error, or what the loss is."""
    known = _known(loss)
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
        loss, f"mean {loss.replace('_', ' ')} loss"
    )


def roc(scores: Vector, labels: Vector) -> list[list[float]]:
    """False and true positive rates, thinned out; empty where one class is missing."""
    from sklearn.metrics import roc_curve

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
    predicted, outcome = scores, labels
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
    sd, totals = release.settings.histogram_sd, _totals(release.labels)
    counts, rows = _with_totals(release.counts, totals), float(totals.sum())
    right = np.zeros_like(counts)
    right[_above(release), 1] = right[~_above(release), 0] = 1.0
    share = float(np.clip((counts * right).sum() / rows, 0.0, 1.0))
    found = {"accuracy": share}
    errors = {"accuracy": math.sqrt(share * (1 - share) / rows + (sd * _size(right) / rows) ** 2)}
    if totals.min() > 0:
        found["auc"], errors["auc"] = _auc(counts, totals, sd)
    return found, errors


def _auc(counts: Vector, totals: Vector, sd: float) -> tuple[float, float]:
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
    noise = (sd / totals[1] * _size(below)) ** 2 + (sd / totals[0] * _size(above)) ** 2
    product = len(below) ** 2 / 2 * (sd / totals[0]) ** 2 * (sd / totals[1]) ** 2  # of both noises together
    return held, math.sqrt(sampling + noise + product)


def released_calibration(release: HeldOutRelease) -> list[dict[str, Any]]:
    """As `calibration`, of bins that hold enough rows beside their noise, neighbours taken together until they do."""
    counts = _with_totals(release.counts, _totals(release.labels))
    middles = expit(_middles(release.cuts))
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


def _totals(labels: Vector) -> Vector:
    return np.array([np.sum(labels < 0), np.sum(labels > 0)], dtype=np.float64)


def _with_totals(counts: Vector, totals: Vector) -> Vector:
    """Counts that add up to what is known of both labels, all moved alike."""
    return np.asarray(counts - (counts.sum(axis=0) - totals) / len(counts))


def _above(release: HeldOutRelease) -> npt.NDArray[np.bool_]:
    """Bins in which the positive class is predicted: above the cut at 0."""
    return np.arange(len(release.counts)) > int(np.argmin(np.abs(release.cuts)))


def _size(weights: Vector) -> float:
    """Norm of weights on counts whose sums are known, by label where there are two columns."""
    return float(np.linalg.norm(weights - weights.mean(axis=0)))


def _middles(cuts: Vector) -> Vector:
    """A score for each bin; the outer ones reach as far as their neighbours."""
    inner = (cuts[1:] + cuts[:-1]) / 2
    return np.concatenate([[cuts[0] - (inner[0] - cuts[0])], inner, [cuts[-1] + (cuts[-1] - inner[-1])]])
