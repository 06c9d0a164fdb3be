"""Peers of boosted trees: LightGBM on all columns, free or held to the parties, on the same rows.

Each has the joint run's settings, learns from the rows that it fits, and stops on those that it holds out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from tacit.types import Vector

MOST_TREES, PATIENCE = 2000, 50
OBJECTIVES = {"classification": "binary", "regression": "regression", "counts": "poisson", "classes": "multiclass"}


def as_numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[Vector, Vector, list[int]]:
    """Both frames as numbers, text as codes of the sorted categories of the first; and which columns are such codes."""
    categorical = [j for j, name in enumerate(train) if not pd.api.types.is_numeric_dtype(train[name])]
    tables = []
    for frame in (train, test):
        table = np.empty(frame.shape)
        for j, name in enumerate(frame):
            if j in categorical:
                levels = sorted(train[name].dropna().unique())
                codes = pd.Categorical(frame[name], levels).codes.astype(float)
                table[:, j] = np.where(codes < 0, np.nan, codes)
            else:
                table[:, j] = frame[name].to_numpy(dtype=float)
        tables.append(table)
    return tables[0], tables[1], categorical


def boosted(
    task: str, train: pd.DataFrame, y: Vector, test: pd.DataFrame, held: Any, groups: Sequence[Sequence[str]] | None
) -> Vector:
    """Predictions of LightGBM with the joint run's settings; `groups` are columns that may be in one tree."""
    X, X_test, categorical = as_numbers(train, test)
    place = {name: j for j, name in enumerate(train)}
    fitted = int((~held).sum())
    params: dict[str, Any] = {
        "objective": OBJECTIVES[task], "learning_rate": 0.08, "num_leaves": 15, "lambda_l2": 5.0,
        "min_data_in_leaf": int(np.clip(fitted // 50, 5, 40)), "verbosity": -1, "num_threads": 1,
        "deterministic": True, "force_col_wise": True, "min_data_per_group": int(np.clip(fitted // 25, 5, 100)),
    }  # fmt: skip
    if task == "classes":
        params["num_class"] = int(y.max()) + 1
    if groups is not None:
        params["interaction_constraints"] = [[place[name] for name in group] for group in groups]
    labels = (y > 0).astype(float) if task == "classification" else y
    data = lgb.Dataset(X[~held], labels[~held], categorical_feature=categorical or "auto", params=params)
    valid = data.create_valid(X[held], labels[held])
    stop = lgb.early_stopping(PATIENCE, verbose=False)
    model = lgb.train(params, data, MOST_TREES, valid_sets=[valid], callbacks=[stop])
    return np.asarray(model.predict(X_test))


def histogram(task: str, train: pd.DataFrame, y: Vector, test: pd.DataFrame, seed: int) -> Vector:
    """Predictions of scikit-learn's boosting on all columns, with its own defaults and early stopping."""
    X, X_test, categorical = as_numbers(train, test)
    options = {"categorical_features": categorical or None, "early_stopping": True, "random_state": seed}
    if task in ("classification", "classes"):
        found = HistGradientBoostingClassifier(max_iter=500, **options).fit(X, y).predict_proba(X_test)
        return np.asarray(found[:, 1] if task == "classification" else found)
    loss = "poisson" if task == "counts" else "squared_error"
    return np.asarray(HistGradientBoostingRegressor(loss=loss, max_iter=500, **options).fit(X, y).predict(X_test))


def probabilities(task: str, scores: Vector) -> Vector:
    """Predictions from joint scores."""
    if task == "classification":
        return np.asarray(expit(scores))
    if task == "classes":
        return np.asarray(softmax(scores, axis=1))
    return np.exp(scores) if task == "counts" else scores
