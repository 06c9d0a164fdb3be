"""Theorems 1 to 4 by brute force, and the constants of every target."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, softmax

from tacit.mechanisms.gram import fit, settings
from tacit.mechanisms.gram.fit import side_columns
from tacit.mechanisms.gram.settings import CLASS_CONSTANT, CONSTANT, ClassTarget, CountTarget, Response, bounds
from tacit.problem.losses.modified import flip_of, modified
from tacit.problem.registry import get_loss

MANY = 400_000


def vectors(rng):
    """Norms, cosines and derivatives, with corners among them."""
    alpha, beta = (np.where(rng.random(MANY) < 0.5, 1.0, rng.random(MANY)) for _ in range(2))
    rho = rng.uniform(-1, 1, MANY) ** rng.choice([1, 3], MANY)
    rho = np.where(rng.random(MANY) < 0.2, rng.choice([-1.0, 0.0, 1.0], MANY), rho)
    t, u = (np.where(rng.random(MANY) < 0.5, rng.choice([0.0, 1.0], MANY), rng.random(MANY)) for _ in range(2))
    return alpha, beta, rho, t, u


def gram(alpha, beta, rho):
    return alpha**4 + beta**4 - 2 * alpha**2 * beta**2 * rho**2


def gradient(alpha, beta, rho, t, u, side):
    return (t * alpha) ** 2 + (u * beta) ** 2 - 2 * t * u * alpha * beta * rho + (t - u) ** 2 * side


@pytest.mark.parametrize("one_signed", [True, False])
@pytest.mark.parametrize("steps", [1, 12])
def test_the_gram_matrix_and_the_gradients_together(one_signed, steps):
    alpha, beta, rho, t, u = vectors(np.random.default_rng(steps))
    if not one_signed:
        t, u = 2 * t - 1, 2 * u - 1
    slope, weight = 1.7, 0.4
    size = bounds(slope, weight, steps, one_signed=one_signed, neighbours="replace-one")
    side = 2.0 if one_signed else CONSTANT**2
    one = slope**2 * gradient(alpha, beta, rho, t, u, side)
    cost = steps * one / size.gradient**2 + weight**2 * gram(alpha, beta, rho) / size.gram**2
    assert cost.max() <= 1 + 1e-12
    assert cost.max() > 0.999


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_the_mean_and_the_trace_together(neighbours):
    alpha, beta, rho, *_ = vectors(np.random.default_rng(2))
    if neighbours == "zero-out":
        beta = 0 * beta
    weight = 0.3
    size = bounds(1.0, weight, 5, one_signed=True, neighbours=neighbours)
    moved = alpha**2 + beta**2 - 2 * alpha * beta * rho
    cost = weight**2 * (moved / size.mean**2 + (alpha**2 - beta**2) ** 2 / size.trace**2)
    assert cost.max() <= 1 + 1e-12
    assert cost.max() > 0.999


def test_zero_out_spends_as_much_on_centred_rows_as_replace_one():
    zero, replace = (bounds(1.0, 0.5, 7, one_signed=True, neighbours=n) for n in ("zero-out", "replace-one"))
    assert (zero.gram, zero.gradient) == (replace.gram, replace.gradient)
    assert zero.mean < replace.mean


def test_the_noise_of_the_trace_has_room():
    """Theorem 3, remark: its deviation could be 0.43 of what it is, not 0.42."""
    d = np.linspace(0, 1, 100_001)
    for part, fits in ((0.43, True), (0.42, False)):
        assert bool(((2 - d) ** 2 * (1 / 4 + d**2 / 8 / part**2)).max() <= 1 + 1e-12) is fits


OFFSETS = np.concatenate([np.linspace(-40, 40, 801), [-1e6, 1e6, -700.0, 700.0]])
LEVELS4 = settings.Levels(np.array([-1.0, 0.0, 1.0]), np.array([-2.0, -0.5, 0.5, 2.0]))


def every_target():
    """(name, target of one label, sign of its derivative or 0, L1, L2)."""
    for label in (-1.0, 1.0):
        labels = np.full(OFFSETS.size, label)
        yield f"half {label}", settings.HalfTarget(OFFSETS, labels), -label, 1.0, 0.5
        for epsilon in (0.1, 1.0, 5.0, 900.0):
            most = modified(get_loss("logistic"), epsilon).lipschitz
            made = settings.Randomized(OFFSETS, labels, flip_of(epsilon))
            yield f"logistic {label} {epsilon}", made, -label, most, 0.25
        for loss in (get_loss("hinge"), get_loss("sigmoid"), modified(get_loss("sigmoid"), 1.0)):
            yield (
                f"{loss.name} {label}",
                settings.Margin(OFFSETS, labels, loss),
                -label,
                loss.lipschitz,
                loss.lipschitz / 2,
            )
        for clip in (settings.RESIDUAL_CLIP, settings.ABSOLUTE_CLIP):
            yield f"residual {clip}", settings.Residual(OFFSETS, 3 * labels, clip), 0.0, clip, 1.0
        response = Response(0.7, 1, 0.5)
        made = settings.Bits(labels, response, settings.Levels(np.zeros(0), np.array([0.0, 1.0])))
        yield f"bits {label}", made, label, settings.symbol_slope(response), 0.25
    for symbol in range(8):
        response = Response(2.8, 4, 0.75)
        made = settings.Symbols(np.full(OFFSETS.size, float(symbol)), response, LEVELS4)
        yield f"symbol {symbol}", made, 1.0 if symbol % 2 == 0 else -1.0, settings.symbol_slope(response), 0.25


@pytest.mark.parametrize(
    ("target", "sign", "most", "heaviest"), [pytest.param(*t[1:], id=t[0]) for t in every_target()]
)
def test_the_constants_of_every_target(target, sign, most, heaviest):
    largest = 0.0
    for score in (-1e9, -50.0, -3.0, -0.5, 0.0, 0.5, 3.0, 50.0, 1e9):
        slopes = target.slope(np.full(OFFSETS.size, score))
        assert np.all(np.isfinite(slopes))
        assert np.all(np.abs(slopes) <= most * (1 + 1e-15))
        assert np.all(slopes * sign >= 0)
        largest = max(largest, float(np.abs(slopes).max()))
    assert largest > 0.999 * most, "the bound on the derivative is not tight"
    assert np.all((target.weight >= 0) & (target.weight <= heaviest))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0, 900.0])
def test_label_weights_are_at_most_one(epsilon):
    weight = settings.label_weight(OFFSETS, flip_of(epsilon))
    assert np.all((weight >= 0) & (weight <= 1 + 1e-15))
    p, q = expit(0.7), flip_of(epsilon)
    seen = q + (1 - 2 * q) * p
    assert settings.label_weight(np.array([0.7]), q)[0] == pytest.approx(p * (1 - p) / (seen * (1 - seen)))


def test_side_columns_have_squared_norm_of_at_most_two():
    squares = np.square(side_columns(OFFSETS, score_column=True)).sum(axis=1)
    assert squares.max() == 2.0
    assert np.all(side_columns(OFFSETS, score_column=False) == CONSTANT)


def test_the_derivative_of_half_is_that_of_its_loss():
    t = np.linspace(-3, 3, 601)
    target = settings.HalfTarget(np.zeros(t.size), np.ones(t.size))
    loss = np.where(t > 0, np.exp(-t) - 0.5, 0.5 - t)
    assert np.allclose(target.slope(t)[1:-1], np.gradient(loss, t)[1:-1], atol=1e-2)


@pytest.mark.parametrize("flip", [0.0, 0.2, 0.49])
def test_a_change_of_loss_is_clipped_and_unbiased(flip):
    rng = np.random.default_rng(0)
    base, score = rng.normal(0, 10, (2, 20_000))
    labels = rng.choice([-1.0, 1.0], base.size)
    clip = 0.5
    changes = {sign: fit.row_changes(base, score, sign * labels, clip, flip) for sign in (1, -1)}
    assert np.abs(changes[1]).max() <= clip / (1 - 2 * flip) * (1 + 1e-12)
    truth = fit.row_changes(base, score, labels, clip, 0.0)
    assert np.allclose((1 - flip) * changes[1] + flip * changes[-1], truth)
    assert math.isclose(np.abs(truth).max(), clip)


# --- several classes and counts ----------------------------------------------------------------------


def test_the_gram_matrix_and_the_gradients_of_classes_together():
    """Theorem 2a by brute force: any two rows, any two vectors of probabilities, one class."""
    rng = np.random.default_rng(5)
    alpha, beta, rho, *_ = vectors(rng)
    sure = np.where(rng.random((2, MANY, 1)) < 0.7, 1e9, rng.exponential(size=(2, MANY, 1)))
    p, q = softmax(sure * rng.normal(size=(2, MANY, 4)), axis=2)
    r, s = p - np.eye(4)[0], q - np.eye(4)[0]
    dot, steps, weight = (r * s).sum(axis=1), 12, 0.25
    one = (r**2).sum(axis=1) * alpha**2 + (s**2).sum(axis=1) * beta**2 - 2 * dot * alpha * beta * rho
    one += ((r - s) ** 2).sum(axis=1) * CLASS_CONSTANT**2
    size = bounds(math.sqrt(2), weight, steps, one_signed=True, neighbours="replace-one")
    cost = steps * one / size.gradient**2 + weight**2 * gram(alpha, beta, rho) / size.gram**2
    assert cost.max() <= 1 + 1e-12
    assert cost.max() > 0.999


@pytest.mark.parametrize("classes", [3, 10])
def test_the_constants_of_classes(classes):
    rng = np.random.default_rng(classes)
    offset = rng.normal(size=(500, classes)) * rng.choice([0.0, 1.0, 30.0, 1e6], size=(500, 1))
    labels = rng.integers(classes, size=500).astype(float)
    target = ClassTarget(offset.ravel(), labels, classes)
    score = rng.normal(size=(500, classes - 1)) * rng.choice([1.0, 1e3, 1e12], size=(500, 1))
    sizes = np.linalg.norm(target.slope(score), axis=1)
    assert 1.41 < sizes.max() <= math.sqrt(2)
    assert 0.999 / classes < target.weight.max() <= 1 / classes
    assert target.weight.min() >= 0
    wanted = softmax(target.offset + score @ target.directions.T, axis=1) - np.eye(classes)[labels.astype(int)]
    np.testing.assert_allclose(target.slope(score) @ target.directions.T, wanted, atol=1e-12)


def test_the_curvature_of_a_direction_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    offset, labels = rng.normal(size=(200, 4)), rng.integers(4, size=200).astype(float)
    target, step = ClassTarget(offset.ravel(), labels, 4), 1e-5
    for j, curvature in enumerate(target.curvatures):
        move = np.zeros((200, 3))
        move[:, j] = step
        bent = (target.slope(move) - target.slope(-move)).sum(axis=0) / (2 * step)
        np.testing.assert_allclose(bent, curvature * target.weight.sum() * np.eye(3)[j], atol=1e-6)


def test_the_constants_of_counts():
    rng = np.random.default_rng(0)
    offset = np.concatenate([rng.normal(size=500), [-1e100, -700.0, 700.0, 1e100]])
    for labels in (rng.poisson(3.0, 504).astype(float), np.zeros(504), np.full(504, 1e100)):
        target = CountTarget(offset[:500], labels[:500], 2.0)
        wide = CountTarget(offset, labels, 2.0)
        for one in (target, wide):
            for size in (0.0, 1.0, 1e3, 1e300):
                slope = one.slope(size * rng.normal(size=(one.offset.size, 1)))
                assert np.isfinite(slope).all()
                assert np.abs(slope).max() <= 2.0
            assert one.weight.min() >= 0
            assert one.weight.max() <= 1.0
    step, target = 1e-6, CountTarget(offset[:500], rng.poisson(3.0, 500).astype(float), 1e9)
    bent = (target.slope(np.full((500, 1), step)) - target.slope(np.full((500, 1), -step))).ravel() / (2 * step)
    usual = target.weight < 1
    np.testing.assert_allclose(bent[usual], target.curvatures[0] * target.weight[usual], rtol=1e-6)
