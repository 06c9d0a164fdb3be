"""Steps of the gradient form suit the curvature of the loss: more epsilon gives a better model of numbers, too."""

import numpy as np
import pytest

from tacit import HorizontalRegressor, Privacy
from tacit.mechanisms.gaussian.settings import LONGEST_STEP, bend, gradient_rounds
from tacit.problem.losses.half import Half
from tacit.problem.losses.residual import Huber


def test_two_classes_keep_their_steps() -> None:
    assert LONGEST_STEP / bend(Half(), 1.0) == 5.0


@pytest.mark.parametrize("threshold", [0.2, 1.0, 3.0])
def test_numbers_have_steps_that_settle(threshold: float) -> None:
    """Gradient descent on l(r)/slope along a direction of curvature lam settles if step lam l''/slope is below 2."""
    loss = Huber(threshold)
    worst = float(loss.hess(np.zeros(1), np.zeros(1))[0]) / threshold
    assert LONGEST_STEP / bend(loss, threshold) * worst < 2.0


def test_smaller_steps_get_more_rounds() -> None:
    assert gradient_rounds(0.01, 1000, 1.0) > gradient_rounds(0.01, 1000, 0.25)


def _friedman(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-1, 1, size=(rows, 6))
    return x, np.tanh(2 * x[:, 0]) + x[:, 1] ** 2 - 0.5 * x[:, 2] + 0.2 * rng.normal(size=rows)


def _lines(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = np.clip(rng.normal(size=(rows, 6)) @ (np.eye(6) + 0.5) / 3, -1, 1)
    return x, x @ np.array([1.0, -0.5, 0.5, 0.0, 0.3, -1.0]) + 0.2 * rng.normal(size=rows)


@pytest.mark.parametrize("drawn", [_friedman, _lines])
def test_more_epsilon_gives_a_better_model(drawn) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    (x, y), (x_test, y_test) = drawn(6000, rng), drawn(4000, rng)
    error = {}
    for epsilon in (0.5, 8.0):
        model = HorizontalRegressor(
            parties=4, graph="star", secure_aggregation=True, random_state=0,
            privacy=Privacy(epsilon=epsilon, delta=1e-5, row_norm=np.sqrt(6), label_norm=2.0, noise_seed=0),
        ).fit(x, y)  # fmt: skip
        error[epsilon] = float(np.mean((model.predict(x_test) - y_test) ** 2))
    best = float(np.mean((HorizontalRegressor(parties=4).fit(x, y).predict(x_test) - y_test) ** 2))
    assert error[8.0] < error[0.5]
    assert error[8.0] < 1.1 * best
