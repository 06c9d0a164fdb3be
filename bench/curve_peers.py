"""What others make of the sets of `curves`: scikit-learn with all columns in one place, and DP-EBM.

None of them has to keep columns or rows apart. Their settings are in the functions below. Penalties, and the size of
boosting's trees, are chosen by cross-validation on the training rows; nothing is chosen on test rows, except the
learning rate 0.05 of "DP-EBM, tuned", which others found on Adult's test rows: an advantage that is left to it.

DP-EBM (package interpret) calibrates its noise to a row added or removed: its proof bounds a sum of residuals that
changes by one term. Replacing a row takes one away and adds another, so that a sum in one leaf may change by 2, and
two counts of a histogram by 1 each. At the same epsilon its claim is thus weaker than "one row replaced". It is shown
as it comes, at its own reading of epsilon (an advantage), and, as "one row replaced", with an epsilon of its own that
makes the same claim as all other rows: sqrt(2 b^2 + 4 t^2) = mu, where b and t are the Gaussian-DP parameters of its
binning and its trees. Its lists of categories come from the rows, unpaid; it has no loss for counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import SplineTransformer

from bench.curve_sets import HOLDER, CurveSet, Cut
from tacit.privacy.calibration import budget_mu
from tacit.types import Vector

DELTA = 1e-5
KNOTS = 8
FOLDS = 5
ALPHAS = tuple(10.0 ** (-k / 2) for k in range(0, 11))  # of the mean loss: 1 to 1e-5
LEAVES = (4, 31)  # the smallest trees that interact, and scikit-learn's own size
RATE, TREES, PATIENCE, HELD_OUT = 0.05, 1000, 20, 0.15
TUNED_RATE = 0.05
SCORERS = {
    "classification": "neg_log_loss",
    "regression": "neg_mean_squared_error",
    "counts": "neg_mean_poisson_deviance",
}
Predictions = Vector  # probability of +1; value; expected count


# --- scikit-learn ----------------------------------------------------------------------------------------


def linear(one: CurveSet, cut: Cut) -> Predictions:
    """Pooled linear model: standardised numbers, one-hot lists, ridge penalty by cross-validation."""
    return _penalised(one, cut, _line)


def splines(one: CurveSet, cut: Cut) -> Predictions:
    """Pooled cubic splines with 8 knots at quantiles, ridge penalty by cross-validation."""
    return _penalised(one, cut, _spline)


def boosting(one: CurveSet, cut: Cut) -> Predictions:
    """Pooled gradient boosting."""
    return _boosted(one, cut, list(cut.train), None)


def boosting_by_column(one: CurveSet, cut: Cut) -> Predictions:
    """Pooled gradient boosting of trees on one column each: additive, as curves are."""
    return _boosted(one, cut, list(cut.train), "no_interactions")


def holder_alone(one: CurveSet, cut: Cut) -> Predictions:
    """Gradient boosting by the label holder on its own columns."""
    return _boosted(one, cut, list(cut.parties(cut.train)[HOLDER]), None)


PEERS: dict[str, Callable[[CurveSet, Cut], Predictions]] = {
    "linear": linear,
    "splines": splines,
    "boosting": boosting,
    "boosting by column": boosting_by_column,
    "holder alone": holder_alone,
}


# --- penalised models ------------------------------------------------------------------------------------

Code = Callable[[Vector], Vector]


def _line(x: Vector) -> Code:
    """A number as it is, standardised."""
    mean, deviation = x.mean(), x.std() or 1.0
    return lambda cells: (cells[:, None] - mean) / deviation


def _spline(x: Vector) -> Code:
    """Cubic splines with knots at the distinct ones of 8 quantiles; a line where fewer than three are distinct."""
    knots = np.unique(np.quantile(x, np.linspace(0, 1, KNOTS)))
    if len(knots) < 3:
        return _line(x)
    made = SplineTransformer(knots=knots[:, None], extrapolation="constant").fit(x[:, None])
    return lambda cells: np.asarray(made.transform(cells[:, None]))


def _encoded(one: CurveSet, cut: Cut, code: Callable[[Vector], Code]) -> tuple[Vector, Vector]:
    """Train and test rows: numbers by the code with a column for blanks, which get the median; lists one-hot."""
    blocks: tuple[list[Vector], list[Vector]] = ([], [])
    for name in one.ranges:
        cells = [frame[name].to_numpy(dtype=float) for frame in (cut.train, cut.test)]
        middle, has_blanks = np.nanmedian(cells[0]), bool(np.isnan(cells[0]).any())
        encode = code(np.where(np.isnan(cells[0]), middle, cells[0]))
        for block, x in zip(blocks, cells, strict=True):
            block.append(encode(np.where(np.isnan(x), middle, x)))
            block += [np.isnan(x)[:, None].astype(float)] if has_blanks else []
    for name, words in one.lists.items():
        for block, frame in zip(blocks, (cut.train, cut.test), strict=True):
            block.append(np.asarray(frame[name], dtype=object)[:, None] == np.array(words, dtype=object))
    return np.hstack(blocks[0]), np.hstack(blocks[1])


def _penalised(one: CurveSet, cut: Cut, code: Callable[[Vector], Code]) -> Predictions:
    """The penalty of least mean loss over five folds of the training rows."""
    X, X_test = _encoded(one, cut, code)
    model, grid = _penalised_model(one.task, len(X))
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that cannot reach the last digits says so
        return _predicted(GridSearchCV(model, grid, scoring=SCORERS[one.task], cv=folds).fit(X, cut.y), X_test)


def _penalised_model(task: str, rows: int) -> tuple[Any, dict[str, list[float]]]:
    """The model and its penalties: (1/N) sum(loss) + alpha/2 ||coef||^2 with the same alphas for every task."""
    if task == "classification":
        return LogisticRegression(solver="newton-cholesky"), {"C": [1 / (alpha * rows) for alpha in ALPHAS]}
    if task == "regression":
        return Ridge(), {"alpha": [alpha * rows for alpha in ALPHAS]}
    return PoissonRegressor(solver="newton-cholesky"), {"alpha": list(ALPHAS)}


def _predicted(model: Any, X: Any) -> Predictions:
    return np.asarray(model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X))


# --- boosting --------------------------------------------------------------------------------------------


def _boosted(one: CurveSet, cut: Cut, columns: list[str], interactions: str | None) -> Predictions:
    """Rate 0.05, stopped on 15 % of the rows; the size of the trees by three folds of the training rows."""
    X, X_test = (_typed(one, frame[columns]) for frame in (cut.train, cut.test))
    settings = {
        "learning_rate": RATE, "max_iter": TREES, "early_stopping": True, "n_iter_no_change": PATIENCE,
        "validation_fraction": HELD_OUT, "interaction_cst": interactions, "random_state": 0,
    }  # fmt: skip
    model: Any = HistGradientBoostingClassifier(**settings)
    if one.task != "classification":
        loss = "poisson" if one.task == "counts" else "squared_error"
        model = HistGradientBoostingRegressor(loss=loss, **settings)
    folds = KFold(3, shuffle=True, random_state=0)
    found = GridSearchCV(model, {"max_leaf_nodes": LEAVES}, scoring=SCORERS[one.task], cv=folds)
    return _predicted(found.fit(X, cut.y), X_test)


def _typed(one: CurveSet, frame: pd.DataFrame) -> pd.DataFrame:
    """Text as categories by the public lists, which boosting then splits as such; blanks stay blanks."""
    types = {name: pd.CategoricalDtype(list(one.lists[name])) for name in frame if name in one.lists}
    return frame.astype({name: types.get(name, float) for name in frame})


# --- DP-EBM ----------------------------------------------------------------------------------------------


def ebm_missing(one: CurveSet) -> str:
    """Why DP-EBM cannot be run; empty where it can."""
    if one.task == "counts":
        return "DP-EBM has no loss for counts"
    return ebm_absent()


def ebm_absent() -> str:
    """How to install it; empty where it is installed."""
    return "" if find_spec("interpret") else "not installed: pip install interpret-core"


def dp_ebm(one: CurveSet, cut: Cut, epsilon: float, seed: int, rate: float | None = None) -> Predictions:
    """DP-EBM with all rows and columns in one place, ranges as for all others; rate None is its own."""
    from interpret import privacy

    asked: dict[str, Any] = {} if rate is None else {"learning_rate": rate}
    asked |= {"epsilon": epsilon, "delta": DELTA, "random_state": seed, "n_jobs": 1}
    asked |= {"feature_types": ["nominal" if name in one.lists else "continuous" for name in cut.train]}
    asked |= {"privacy_bounds": {name: tuple(map(float, bounds)) for name, bounds in one.ranges.items()}}
    if one.task == "regression":
        low, high = one.target_range or (0.0, 1.0)
        model = privacy.DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **asked)
    else:
        model = privacy.DPExplainableBoostingClassifier(**asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed is no protection: so it says
        return _predicted(model.fit(_plain(one, cut.train), cut.y), _plain(one, cut.test))


def _plain(one: CurveSet, frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers within their ranges; it takes no blanks: the middle of the range instead, and a word in text."""
    columns = {}
    for name in frame:
        if name in one.lists:
            columns[name] = frame[name].astype(object).where(frame[name].notna(), "blank")
        else:
            low, high = one.ranges[name]
            columns[name] = frame[name].astype(float).clip(low, high).fillna((low + high) / 2)
    return pd.DataFrame(columns)


def own_epsilon(epsilon: float, binning: float = 0.1) -> float:
    """The epsilon to give DP-EBM so that it spends `epsilon` on one row replaced."""

    def too_much(own: float) -> float:
        b, t = (budget_mu(share * own, DELTA / 2) for share in (binning, 1 - binning))
        return float(np.sqrt(2 * b**2 + 4 * t**2) - budget_mu(epsilon, DELTA))

    return float(brentq(too_much, epsilon / 20, epsilon))
