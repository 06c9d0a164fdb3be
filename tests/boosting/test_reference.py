"""The run against a plain one in a single function: the same rows, trees and steps, and the same model."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.solvers.boosting.losses import TreeLoss, make_loss
from tacit.solvers.boosting.settings import held_out
from tests.boosting.test_runs import NAMES, data, labels_for, make_run

ROWS, ROUNDS = 1500, 4


def plain_run(loss: TreeLoss) -> tuple[np.ndarray, list[list[float]], np.ndarray]:
    """The joint margin, the steps by round, and the held-out losses; written without the classes that are tested."""
    tables, score = data(ROWS)
    y = labels_for(loss, score)
    held = held_out(ROWS, 0.15, 7)
    fit, rows = np.flatnonzero(~held), np.arange(ROWS)
    params = {
        "objective": "none", "num_class": loss.outputs, "learning_rate": 0.08, "num_leaves": 15, "lambda_l2": 5.0,
        "min_data_in_leaf": len(fit) // 50, "min_data_per_group": len(fit) // 25, "min_data_in_bin": 3,
        "feature_pre_filter": False, "verbosity": -1, "num_threads": 1, "deterministic": True, "force_col_wise": True,
        "seed": 7,
    }  # fmt: skip
    z = np.zeros((ROWS, loss.outputs)).squeeze() + loss.constant(y[fit])
    constant, steps, losses = loss.constant(y[fit]), [], [loss.mean(z[held], y[held])]

    def grow(table: np.ndarray, categorical: Any, trees: int) -> np.ndarray:
        whole = lgb.Dataset(table, np.zeros(ROWS), categorical_feature=categorical, params=params).construct()
        booster = lgb.Booster(params, whole.subset(fit, params=params))
        start = constant + (z - constant)[fit].astype(np.float32).astype(float)
        for _ in range(trees):
            own = booster.predict(table[fit], raw_score=True, num_threads=1) if booster.current_iteration() else 0.0
            if booster.update(fobj=lambda *_: loss.slopes(start + own, y[fit])):  # noqa: B023
                break
        return booster.predict(table, raw_score=True, num_threads=1).astype(np.float32).astype(float)

    growth = dict.fromkeys(NAMES, 1)  # blocks that are kept whole are twice as large the next time, up to four times
    for number in range(ROUNDS):
        steps.append([])
        for group in (NAMES[:1], NAMES[1:]):
            places = [NAMES.index(name) for name in group]
            usual = (5, 10)[min(number, 1)]
            added = [grow(tables[k], [2] if NAMES[k] == "shop" else "auto", usual * growth[NAMES[k]]) for k in places]

            def moved(w: Any, rows: Any, added: Any = added, z: np.ndarray = z) -> np.ndarray:
                return z[rows] + sum(step * own[rows] for step, own in zip(w, added, strict=True))

            found = minimize(
                lambda w: loss.mean(moved(w, held), y[held]), np.full(len(group), 1 / len(group)),
                bounds=[(0, 1)] * len(group), method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-10},
            )  # fmt: skip
            z = moved(np.where(found.x < 0.02, 0, found.x), rows)
            steps[-1] += found.x.tolist()
            for name, step in zip(group, found.x, strict=True):
                growth[name] = min(2 * growth[name], 4) if step > 0.999 and number > 0 else 1
        losses.append(loss.mean(z[held], y[held]))
    return z, steps, np.array(losses)


@pytest.mark.parametrize("loss", [make_loss("logistic"), make_loss("squared"), make_loss("softmax", classes=3)])
def test_the_run_is_the_plain_one(loss: TreeLoss) -> None:
    run = make_run(loss, rows=ROWS, rounds=ROUNDS, early_stopping=False)
    result = run.go()
    z, steps, losses = plain_run(loss)
    history = result.boosting
    assert history is not None
    np.testing.assert_allclose(history.held_out, losses, rtol=2e-3)
    np.testing.assert_allclose(history.steps, steps, atol=0.03)
    # steps are found by another minimiser, so that trees of later rounds may differ in a leaf
    spread = np.std(z)
    assert np.sqrt(np.mean((result.model.scores(run.shards) - z) ** 2)) < 0.05 * spread
