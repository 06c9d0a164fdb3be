"""Group lasso over the encoded columns of a column, against cvxpy; it drops whole columns and curves."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import HorizontalClassifier, VerticalClassifier, VerticalRegressor
from tacit.errors import InputError
from tacit.problem.regularizers import GroupLasso

ROWS, ALPHA = 150, 0.03


def tables() -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    rng = np.random.default_rng(0)
    bank = pd.DataFrame({"age": rng.normal(size=ROWS), "noise": rng.normal(size=ROWS)})
    shop = pd.DataFrame({"town": rng.choice(["a", "b", "c"], ROWS), "spent": rng.normal(size=ROWS)})
    shop["random"] = rng.choice(["u", "v", "w", "x"], ROWS)
    y = np.sin(2 * bank["age"]) + (shop["town"] == "b") + 0.3 * rng.normal(size=ROWS)
    return {"bank": bank, "shop": shop}, y.to_numpy()


def pooled(model: VerticalRegressor, parts: dict[str, pd.DataFrame]) -> tuple[np.ndarray, list[int]]:
    """The encoded columns of all parties, and how many belong to each column."""
    shards = model._new_shards(parts)
    widths = [width for encoder in model.encoders_.values() for width in encoder.widths]
    return np.hstack([np.asarray(shard.features) for shard in shards]), widths


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_it_reaches_the_optimum_and_drops_whole_columns(loss: str) -> None:
    parts, y = tables()
    model = VerticalRegressor(loss, "group_lasso", ALPHA, terms="spline", tol=1e-8, max_rounds=3000).fit(parts, y)
    assert model.converged_
    X, widths = pooled(model, parts)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    starts = np.cumsum([0, *widths])
    penalty = sum(np.sqrt(width) * cp.norm2(w[at : at + width]) for at, width in zip(starts, widths, strict=False))
    error = X @ w + b - y
    fit = cp.sum_squares(error) / (2 * ROWS) if loss == "squared" else cp.norm1(error) / ROWS
    best = cp.Problem(cp.Minimize(fit + ALPHA * penalty)).solve(solver=cp.CLARABEL)
    found = model.coef_
    at = X @ found + model.intercept_ - y
    groups = [np.linalg.norm(found[at : at + width]) for at, width in zip(starts, widths, strict=False)]
    value = (at @ at / (2 * ROWS) if loss == "squared" else np.abs(at).mean()) + ALPHA * np.sqrt(widths) @ groups
    assert value == pytest.approx(best, abs=2e-6)
    dropped = [size == 0 for size in groups]
    assert dropped[0] is np.False_ or not dropped[0]
    assert any(dropped)
    for at, width, out in zip(starts, widths, dropped, strict=False):
        assert out == (not np.any(found[at : at + width]))


@pytest.mark.parametrize("step", [1e-3, 0.5, 1.0, 20.0])
def test_prox_and_conjugate_of_groups(step: float) -> None:
    """The prox against cvxpy; (v - prox) / step is a subgradient there, so that Fenchel's inequality is tight."""
    groups, v = GroupLasso([2, 1, 3]), np.random.default_rng(1).normal(0, 2.0, 6)
    near, x = groups.prox(v, step), cp.Variable(6)
    norms = np.sqrt(2) * cp.norm2(x[:2]) + cp.abs(x[2]) + np.sqrt(3) * cp.norm2(x[3:])
    cp.Problem(cp.Minimize(step * norms + cp.sum_squares(x - v) / 2)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(near, x.value, atol=1e-5)
    dual = (v - near) / step
    assert groups.shrink(dual) == pytest.approx(1.0)
    assert groups.value(near) + groups.conjugate(groups.shrink(dual) * dual) == pytest.approx(dual @ near, abs=1e-9)
    assert groups.conjugate(1.01 * groups.shrink(1e9 * v) * 1e9 * v) == np.inf


def test_a_job_drops_columns_too(tmp_path: Path) -> None:
    parts, y = tables()
    parts["bank"].assign(y=y).to_csv(tmp_path / "bank.csv", index=False)
    parts["shop"].to_csv(tmp_path / "shop.csv", index=False)
    (tmp_path / "job.toml").write_text(
        f'[job]\ntol = 1e-8\nrounds = 3000\n[model]\nloss = "squared"\npenalty = "group_lasso"\nalpha = {ALPHA}\n'
        'terms = "spline"\n[[party]]\nname = "bank"\ndata = "bank.csv"\nlabel = "y"\n'
        '[[party]]\nname = "shop"\ndata = "shop.csv"\n'
    )
    run = tacit.run_job(tmp_path / "job.toml", tmp_path / "run")
    model = VerticalRegressor("squared", "group_lasso", ALPHA, terms="spline", tol=1e-8, max_rounds=3000).fit(parts, y)
    for name in parts:
        np.testing.assert_allclose(list(run.coef[name].values()), model.coef_by_party_[name], atol=1e-4)
    assert run.result["objective"] == pytest.approx(min(row.objective for row in run.trace), rel=1e-9)


def test_where_it_cannot_be_solved_it_is_refused() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(InputError, match="penalty='group_lasso' is not available in the sample split"):
        HorizontalClassifier(penalty="group_lasso").fit(X, y)
    with pytest.raises(InputError, match="penalty='group_lasso' has groups"):
        VerticalClassifier(penalty="group_lasso", method="averaged").fit(X, y)
    with pytest.raises(InputError, match="penalty='group_lasso' needs a convex loss: loss='sigmoid' is not convex"):
        VerticalClassifier("sigmoid", penalty="group_lasso").fit(X, y)
