"""What the softmax loss promises: derivatives by differences, true bounds, a right conjugate, no bias of coins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from tacit.blocks import OneScore, SeveralBlock, SeveralScores
from tacit.blocks.dense import Block
from tacit.errors import InputError
from tacit.problem.losses import Logistic, Softmax, modified, of_classes, unbounded_reason
from tacit.problem.registry import LOSSES, get_loss, get_regularizer
from tacit.types import Vector

LOSSES_OF_CLASSES = [Softmax(3), Softmax(10), Softmax(3, 1.0), Softmax(5, 0.1), Softmax(4, 30.0)]
every_loss = pytest.mark.parametrize(
    "loss", LOSSES_OF_CLASSES, ids=lambda one: f"{one.outputs}" + (f"-{one.epsilon:g}" if one.epsilon else "")
)


def draw(loss: Softmax, rows: int = 60, scale: float = 2.0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(loss.outputs)
    return rng.normal(0.0, scale, rows * loss.outputs), rng.integers(0, loss.outputs, rows).astype(np.float64)


@every_loss
def test_value_is_the_log_loss_less_what_coins_add(loss: Softmax) -> None:
    z, y = draw(loss)
    rows = z.reshape(-1, loss.outputs)
    logs = -log_softmax(rows, axis=1)
    own = logs[np.arange(len(y)), y.astype(int)]
    wanted = own + loss.spread * (loss.outputs * own - logs.sum(axis=1))
    np.testing.assert_allclose(loss.value(z, y), wanted, rtol=1e-12, atol=1e-10 * (1 + loss.spread))
    np.testing.assert_allclose(loss.value(rows, y), loss.value(z, y))


@every_loss
def test_derivatives_are_differences(loss: Softmax) -> None:
    z, y = draw(loss)
    gap, slope, bend = 1e-5, np.zeros_like(z), np.zeros((len(y), loss.outputs, loss.outputs))
    for c in range(loss.outputs):
        step = np.zeros_like(z)
        step[c :: loss.outputs] = gap
        slope[c :: loss.outputs] = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * gap)
        bend[:, :, c] = (loss.grad(z + step, y) - loss.grad(z - step, y)).reshape(len(y), -1) / (2 * gap)
    np.testing.assert_allclose(loss.grad(z, y), slope, atol=1e-8 * (1 + loss.lipschitz))
    np.testing.assert_allclose(loss.hess(z, y), bend, atol=1e-8 * (1 + loss.lipschitz))
    p = loss.slopes(z, y)[1].reshape(len(y), -1)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@every_loss
def test_bounds_hold_and_are_met(loss: Softmax) -> None:
    z, y = draw(loss, scale=30.0)
    norms = np.linalg.norm(loss.grad(z, y).reshape(len(y), -1), axis=1)
    assert norms.max() <= loss.lipschitz * (1 + 1e-12)
    assert norms.max() >= 0.99 * loss.lipschitz * (1 if loss.spread == 0 else 0.5)
    assert np.linalg.norm(loss.hess(z, y), 2, axis=(1, 2)).max() <= loss.curvature + 1e-12
    half = np.full(loss.outputs, -50.0)
    half[:2] = 0.0  # two classes at one half: the largest curvature
    assert np.linalg.norm(loss.hess(half, y[:1]), 2, axis=(1, 2)).max() >= loss.curvature - 1e-12


@every_loss
def test_conjugate_is_the_largest_difference(loss: Softmax) -> None:
    z, y = draw(loss, rows=6)
    t = loss.grad(z, y)
    np.testing.assert_allclose(
        loss.conjugate(t, y), (t * z).reshape(len(y), -1).sum(axis=1) - loss.value(z, y), atol=1e-9 * (1 + loss.spread)
    )
    inner = 0.6 * t.reshape(len(y), -1) + 0.4 * loss.grad(0 * z, y).reshape(len(y), -1)
    for row in range(len(y)):
        one = y[row : row + 1]
        found = minimize(
            lambda v, one=one, row=row: float(loss.value(v, one)[0] - inner[row] @ v),
            np.zeros(loss.outputs),
            jac=lambda v, one=one, row=row: loss.grad(v, one) - inner[row],
            tol=1e-12,
        )
        assert loss.conjugate(inner[row], one)[0] == pytest.approx(-found.fun, abs=1e-6)
    off = t.copy()
    off[0] += 1e-6  # no longer sums to zero
    assert loss.conjugate(off, y)[0] == math.inf


def test_predictions_are_recovered_from_derivatives() -> None:
    loss = Softmax(4)
    z, y = draw(loss, rows=200)
    rows = z.reshape(-1, 4)
    found = loss.recover(loss.grad(z, y))
    assert found is not None
    np.testing.assert_allclose(found[0].reshape(-1, 4), rows - rows.mean(axis=1, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(found[1], loss.slopes(z, y)[1], rtol=1e-9)
    for far in (1e3, 1e6):
        assert all(np.isfinite(part).all() for part in loss.recover(loss.grad(far * z, y)) or ())
    assert Softmax(4, 1.0).recover(np.zeros(4)) is None


@pytest.mark.parametrize(("classes", "epsilon"), list(itertools.product([2, 3, 7], [0.01, 1.0, 5.0])))
def test_the_mean_over_the_coins_is_the_loss_of_the_true_label(classes: int, epsilon: float) -> None:
    plain, loss = Softmax(classes), modified(Softmax(classes), epsilon)
    assert isinstance(loss, Softmax)
    z, y = draw(plain)
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    assert loss.keep == pytest.approx(keep, rel=1e-12)
    value, slope = keep * loss.value(z, y), keep * loss.grad(z, y)
    for turn in range(1, classes):
        other = (y + turn) % classes
        value = value + (1 - keep) / (classes - 1) * loss.value(z, other)
        slope = slope + (1 - keep) / (classes - 1) * loss.grad(z, other)
    np.testing.assert_allclose(value, plain.value(z, y), atol=1e-12 * (1 + classes * loss.spread))
    np.testing.assert_allclose(slope, plain.grad(z, y), atol=1e-12 * (1 + classes * loss.spread))


def test_two_classes_are_the_logistic_loss_of_the_difference() -> None:
    z, y = draw(Softmax(2))
    rows, sign = z.reshape(-1, 2), 2 * y - 1
    np.testing.assert_allclose(Softmax(2).value(z, y), Logistic().value(rows[:, 1] - rows[:, 0], sign), atol=1e-12)
    ours, theirs = modified(Softmax(2), 1.5), modified(Logistic(), 1.5)
    np.testing.assert_allclose(ours.value(z, y), theirs.value(rows[:, 1] - rows[:, 0], sign), atol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    assert of_classes(get_loss("hinge"), 2).name == "hinge"
    for name in sorted(LOSSES):
        if get_loss(name).task == "classification" and name != "logistic":
            with pytest.raises(InputError, match="Only binary classification"):
                of_classes(get_loss(name), 3)
    for epsilon in (0.0, 1e-4, math.inf, math.nan, True):
        with pytest.raises(InputError, match="label epsilon"):
            Softmax(3, epsilon)
    with pytest.raises(InputError, match="modified already"):
        modified(Softmax(3, 1.0), 1.0)
    with pytest.raises(InputError, match="labels 0 to 2"):
        Softmax(3).check_labels(np.array([0.0, 3.0]))
    assert unbounded_reason(Softmax(3, 1.0), get_regularizer("none"), 0.0)
    assert not unbounded_reason(Softmax(3), get_regularizer("none"), 0.0)
    rare = np.repeat([0.0, 1.0, 2.0], [60, 38, 2])
    with pytest.raises(InputError, match="class 3 of 3 a share of -"):
        Softmax(3, 0.5).best_constant(rare, None, 40.0)


def test_products_are_those_of_the_long_matrices() -> None:
    """Every product of a party's map and of the metric against matrices that are written out."""
    rng = np.random.default_rng(0)
    n, d, c = 9, 2, 3
    D, m, steps = rng.normal(size=(n, d)), rng.random(n * c), rng.normal(size=(n * c, 2))
    m[:c] = 0.0  # a row that weighs nothing
    block, scores = SeveralBlock(Block(D), c), SeveralScores(c)
    long = np.kron(D, np.eye(c))
    W = np.zeros((n * c, n * c))
    for i in range(n):
        own = m[i * c : (i + 1) * c]
        W[i * c : (i + 1) * c, i * c : (i + 1) * c] = np.diag(own) - np.outer(own, own) / max(own.sum(), 1e-300)
    constants = np.kron(np.ones((n, 1)), np.eye(c))
    x, r = rng.normal(size=d * c), rng.normal(size=n * c)
    np.testing.assert_allclose(block.predict(x), long @ x, atol=1e-12)
    np.testing.assert_allclose(block.correlate(r), long.T @ r, atol=1e-12)
    np.testing.assert_allclose(m[:, None] * scores.away(m, steps), W @ steps, atol=1e-12)
    np.testing.assert_allclose(block.gram(m), long.T @ W @ long, atol=1e-12)
    np.testing.assert_allclose(block.pull(m), long.T @ W @ constants, atol=1e-12)
    np.testing.assert_allclose(scores.total(m), constants.T @ W @ constants, atol=1e-12)
    np.testing.assert_allclose(scores.columns_sums(m, steps), steps.T @ W @ constants, atol=1e-12)
    inverse = np.linalg.pinv(constants.T @ W @ constants, rcond=1e-10)
    swept = block.sweep(r, m, steps, gram=True, project=True)
    inside = W - W @ constants @ inverse @ constants.T @ W
    assert swept.gram is not None
    np.testing.assert_allclose(swept.gram, long.T @ inside @ long, atol=1e-10)
    np.testing.assert_allclose(swept.cross, long.T @ W @ steps, atol=1e-12)
    one = OneScore()
    assert one.solve(one.total(m), 2.0) == pytest.approx(2.0 / m.sum())
