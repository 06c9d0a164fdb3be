"""The unbiased loss with an epsilon for each row: the same as `modified`, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.problem.losses import modified
from tacit.problem.losses.modified import modified_rows
from tacit.problem.registry import get_loss

EPSILONS = np.array([0.3, 0.3, 1.0, 1.0, 4.0, 20.0])
Z = np.array([-2.0, 3.0, 0.5, -40.0, 7.0, 0.0])
Y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize("part", ["value", "grad", "hess"])
def test_every_row_is_that_of_its_own_epsilon(part: str) -> None:
    whole = getattr(modified_rows(get_loss("logistic"), EPSILONS), part)(Z, Y)
    for i, epsilon in enumerate(EPSILONS):
        alone = getattr(modified(get_loss("logistic"), float(epsilon)), part)(Z[i : i + 1], Y[i : i + 1])
        assert whole[i] == pytest.approx(alone[0], rel=1e-12)


def test_totals_prox_and_conjugate_too() -> None:
    loss = modified_rows(get_loss("logistic"), EPSILONS)
    weights = np.arange(6.0)
    assert loss.total(Z, Y) == pytest.approx(loss.value(Z, Y).sum())
    assert loss.total(Z, Y, weights) == pytest.approx(weights @ loss.value(Z, Y))
    near = loss.prox(Z, Y, 0.7)
    assert near - Z + 0.7 * loss.grad(near, Y) == pytest.approx(np.zeros(6), abs=1e-9)
    slope = loss.grad(Z, Y)
    assert loss.conjugate(slope, Y) == pytest.approx(slope * Z - loss.value(Z, Y), abs=1e-7)


def test_the_mean_over_the_flips_is_the_true_loss() -> None:
    inner, loss = get_loss("logistic"), modified_rows(get_loss("logistic"), EPSILONS)
    keep = 1 / (1 + np.exp(-EPSILONS))
    mean = keep * loss.value(Z, Y) + (1 - keep) * loss.value(Z, -Y)
    assert mean == pytest.approx(inner.value(Z, Y), rel=1e-9, abs=1e-9)


def test_bounds_are_those_of_the_smallest_epsilon() -> None:
    loss = modified_rows(get_loss("logistic"), EPSILONS)
    assert loss.lipschitz == pytest.approx(1 / -np.expm1(-0.3))
    assert np.all(np.abs(loss.grad(np.full(6, -1e3), np.ones(6))) <= loss.lipschitz)


@pytest.mark.parametrize("epsilons", [[], [[1.0]], [0.0, 1.0], [1.0, np.inf], [np.nan]])
def test_refused(epsilons: list[float]) -> None:
    with pytest.raises(InputError):
        modified_rows(get_loss("logistic"), np.array(epsilons))
    with pytest.raises(InputError, match="use 'logistic'"):
        modified_rows(get_loss("hinge"), np.array([1.0]))
