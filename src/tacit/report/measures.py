"""How good scores are: measures, and the points of the curves that a page draws. Everything here comes from labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tacit.plan.terms import named_loss
from tacit.problem.losses import Loss
from tacit.problem.losses.rows import at_offsets
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
    "tweedie_deviance": "mean Tweedie deviance",
    "negative_binomial_deviance": "mean negative binomial deviance",
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
    scores, labels = at_offsets(scores, labels)
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
        found |= _deviance(known, scores, np.maximum(predicted, 1e-300), labels)
    return found


def _deviance(loss: Loss | TreeLoss, scores: Vector, predicted: Vector, labels: Vector) -> Measures:
    from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

    if loss.name in ("tweedie", "negative_binomial"):
        with np.errstate(over="ignore"):
            return {f"{loss.name}_deviance": 2 * float(np.mean(loss.value(scores, labels)))}
    if loss.name == "gamma":
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
        loss, f"mean {loss.replace('_', ' ')} loss"
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
