"""How much a private fit bends to its own rows: told from a Gram matrix with noise as from the one without."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.algorithms.gram.fit import _Metric
from tacit.algorithms.gram.settings import FitSettings
from tacit.algorithms.gram.targets import Half

ROWS, COLUMNS = 1000, 40


@pytest.mark.parametrize("noise", [0.01, 1.0, 5.0, 50.0])
def test_noise_is_not_counted_as_freedom(noise):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(ROWS, COLUMNS)) * 0.7 ** np.arange(COLUMNS)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    target = Half(rng.normal(size=ROWS), np.where(rng.random(ROWS) < 0.5, 1.0, -1.0))
    gram = rows.T @ (target.weight[:, None] * rows)
    above = np.triu(noise / np.sqrt(2) * rng.normal(size=gram.shape), 1)
    seen = gram + above + above.T + np.diag(noise * rng.normal(size=COLUMNS))
    settings = FitSettings(30, 3.0, 1.0, 0.5, True, 1.0, noise, noise, noise, 10 * noise)
    metric = _Metric(seen, target, settings, float(target.weight.sum()))
    metric.set_ridge(1.0, 1.0)
    true = np.einsum("ij,ik,kj->j", metric.vectors, gram, metric.vectors)
    wanted = (
        float((true / (metric.values + metric.ridge)[:COLUMNS]).sum()) + 2
    )  # two side columns, whose sums are exact
    assert metric.freedom == pytest.approx(wanted, rel=0.15)
