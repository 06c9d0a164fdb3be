"""A small problem of three parties, with and without masks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.plan import Plan
from tacit.run.star import Run
from tacit.types import Shard
from tests.conftest import correlated
from tests.plans import feature_plan

ROUNDS = 8  # before any of the methods has nothing left to do but rounding
NAMES = ("bank", "phone", "shop")
TASKS = {"squared": "regression", "huber": "regression", "absolute": "regression", "poisson": "counts"}


def problem(
    method: str = "memory", loss: str = "logistic", penalty: str = "l2", *, secure: bool = True, **changes: Any
) -> tuple[Plan, list[Shard], np.ndarray]:
    X, labels = correlated(TASKS.get(loss, "classification"), columns=34)
    X = np.delete(X, np.s_[::10], axis=1)  # constant columns, whose coefficients nothing determines
    shards = [Shard(name, X[:, 10 * i : 10 * i + 10]) for i, name in enumerate(NAMES)]
    settings = {"tol": 0.0, "max_rounds": ROUNDS, "party_names": NAMES, "rows": len(labels), **changes}
    plan = feature_plan(
        loss=loss,
        penalty=penalty,
        alpha=1e-2,
        fit_intercept=True,
        method=method,
        rho="auto",
        privacy=None,
        input_bytes=X.nbytes,
        secure_aggregation=secure,
        **settings,
    )
    return plan, shards, labels


def same_model(a: Any, b: Any, tolerance: float) -> None:
    for one, other in zip(a.model.parts, b.model.parts, strict=True):
        scale = max(1e-3, float(np.abs(other.coef).max()))
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=tolerance * scale)
    assert a.model.intercept == pytest.approx(b.model.intercept, rel=tolerance, abs=tolerance)


def copied(run: Run) -> tuple[Any, Any]:
    copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
    return copies, replace(run.state, trace=type(run.state.trace)(run.state.trace))
