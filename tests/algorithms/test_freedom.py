"""How much a private fit bends to its own rows: told from a Gram matrix with noise as from the one without."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.mechanisms.gram.fit import _Metric, side_columns
from tacit.mechanisms.gram.settings import FitSettings, HalfTarget

ROWS, COLUMNS = 1000, 40


@pytest.mark.parametrize("noise", [0.01, 1.0, 5.0, 20.0])
def test_noise_is_not_counted_as_freedom(noise):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(ROWS, COLUMNS)) * 0.7 ** np.arange(COLUMNS)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    target = HalfTarget(rng.normal(size=ROWS), np.where(rng.random(ROWS) < 0.5, 1.0, -1.0))
    gram = rows.T @ (target.weight[:, None] * rows)
    above = np.triu(noise / np.sqrt(2) * rng.normal(size=gram.shape), 1)
    seen = gram + above + above.T + np.diag(noise * rng.normal(size=COLUMNS))
    settings = FitSettings(30, 3.0, 1.0, 0.5, True, 1.0, noise, noise, noise, 10 * noise)
    side = side_columns(target.offset, score_column=settings.score_column)
    metric = _Metric(seen, side, target.weight, settings, float(target.weight.sum()))
    metric.set_ridge(1.0, 1.0)
    # without noise in the gradients, by the steps themselves: what a derivative of every row adds to its own score
    step, moved = (
        np.zeros((COLUMNS, ROWS)),
        (metric.vectors.T @ rows.T) / (metric.values + metric.ridge)[:COLUMNS, None],
    )
    curvature = (metric.vectors.T @ gram @ metric.vectors) / (metric.values + metric.ridge)[:COLUMNS, None]
    ridge = (metric.ridge / (metric.values + metric.ridge))[:COLUMNS, None]
    for k in range(settings.steps):
        step += settings.decay / (k + settings.decay) * (moved - curvature @ step - ridge * step)
    own = np.einsum("ij,ij->j", metric.vectors.T @ rows.T, step)
    wanted = float(target.weight @ own) + 2  # and two side columns
    assert 0.85 * wanted <= metric.freedom <= 1.5 * wanted  # equal small eigenvalues have the most freedom
