"""A loss that is handed over as an object keeps the numbers that it was made with."""

from __future__ import annotations

import numpy as np

from tacit import HorizontalRegressor, VerticalRegressor
from tacit.problem.losses import NegativeBinomial
from tacit.problem.losses.base import RowLoss


def counts() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, rng.poisson(np.exp(0.4 * X[:, 0]) * rng.gamma(2.0, 0.5, size=120)).astype(float)


def test_a_dispersion_that_is_given_with_the_loss_is_not_estimated() -> None:
    X, y = counts()
    for make in (VerticalRegressor, HorizontalRegressor):
        given = make(parties=2, loss=NegativeBinomial(3.0), alpha=0.1).fit(X, y)
        named = make(parties=2, loss="negative_binomial", dispersion=3.0, alpha=0.1).fit(X, y)
        assert not hasattr(given, "dispersion_")
        np.testing.assert_allclose(given.predict(X), named.predict(X), rtol=1e-5)


def test_a_dispersion_that_is_left_open_is_estimated() -> None:
    X, y = counts()
    open_ = VerticalRegressor(parties=2, loss=NegativeBinomial(), alpha=0.1).fit(X, y)
    named = VerticalRegressor(parties=2, loss="negative_binomial", alpha=0.1).fit(X, y)
    assert open_.dispersion_ == named.dispersion_
    assert RowLoss(NegativeBinomial()).leaves_open
    assert not RowLoss(NegativeBinomial(1.0)).leaves_open
