"""What the loss of randomized labels promises: no bias, true constants, a right prox, and clear refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.privacy.randomness import keep_probability
from tacit.problem.losses import Logistic, Loss, Modified, Sigmoid, modified, unbounded_reason
from tacit.problem.registry import LOSSES, get_loss, get_regularizer
from tacit.problem.regularizers import L2, Box, ElasticNet
from tacit.types import Vector

EPSILONS = [1e-3, 0.1, 1.0, 4.0, 40.0, 800.0]
INSTANCES = [modified(inner, epsilon) for inner in (Logistic(), Sigmoid()) for epsilon in EPSILONS]
LOGISTIC = [loss for loss in INSTANCES if loss.convex]

every_loss = pytest.mark.parametrize("loss", INSTANCES, ids=lambda loss: f"{loss.inner.name}-{loss.epsilon:g}")
every_logistic = pytest.mark.parametrize("loss", LOGISTIC, ids=lambda loss: f"{loss.epsilon:g}")


def draw(size: int = 2000, scale: float = 3.0, seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, scale, size), rng.choice([-1.0, 1.0], size)


def size_of(loss: Modified) -> float:
    """The size of what is added up in a value at a prediction near 1."""
    return loss.scale + loss.tilt + loss.shift


# ------------------------------------------------------------------------------------------ no bias


def flipped(loss: Modified, z: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Mean of value and of slope over both outcomes of the flip."""
    keep = keep_probability(loss.epsilon)
    value = keep * loss.value(z, y) + (1 - keep) * loss.value(z, -y)
    return value, keep * loss.grad(z, y) + (1 - keep) * loss.grad(z, -y)


@every_loss
def test_the_mean_over_the_flip_is_the_loss_of_the_true_label(loss: Modified) -> None:
    z, y = draw()
    value, slope = flipped(loss, z, y)
    rounding = 4e-16 * size_of(loss) * (1 + np.abs(z))
    assert np.all(np.abs(value - loss.inner.value(z, y)) <= rounding + 1e-15 * (1 + np.abs(z)))
    assert np.all(np.abs(slope - loss.inner.grad(z, y)) <= rounding + 1e-15)


@every_loss
def test_value_is_the_published_estimator(loss: Modified) -> None:
    """Its definition, with both labels evaluated and nothing simplified."""
    z, y = draw()
    odds = math.exp(-loss.epsilon)
    published = (loss.inner.value(z, y) - odds * loss.inner.value(z, -y)) / -math.expm1(-loss.epsilon)
    np.testing.assert_allclose(loss.value(z, y), published, rtol=1e-12, atol=1e-12 * size_of(loss))


@pytest.mark.parametrize("other", [0.9, 1.1])
def test_another_epsilon_has_a_bias(other: float) -> None:
    """What the two tests above would miss if the mean were insensitive to epsilon."""
    z, y = draw()
    keep = keep_probability(1.0)
    loss = modified(Logistic(), other)
    mean = keep * loss.value(z, y) + (1 - keep) * loss.value(z, -y)
    assert np.abs(mean - Logistic().value(z, y)).max() > 0.1


# --------------------------------------------------------------------------------- slopes and constants


@every_loss
def test_slopes_are_those_of_value(loss: Modified) -> None:
    z, y = draw()
    gap, size = 1e-4, size_of(loss)
    slope = (loss.value(z + gap, y) - loss.value(z - gap, y)) / (2 * gap)
    bend = (loss.grad(z + gap, y) - loss.grad(z - gap, y)) / (2 * gap)
    np.testing.assert_allclose(loss.grad(z, y), slope, rtol=1e-7, atol=3e-9 * size)
    np.testing.assert_allclose(loss.hess(z, y), bend, rtol=1e-6, atol=3e-9 * size)
    for ours, single in zip(loss.slopes(z, y), (loss.grad(z, y), loss.hess(z, y)), strict=True):
        np.testing.assert_allclose(ours, single, rtol=1e-13)


@every_loss
def test_total_is_the_sum_of_the_values(loss: Modified) -> None:
    z, y = draw(scale=30.0)
    weights = np.arange(z.size, dtype=float)
    for size in (0, 1, 7, z.size):
        value = loss.value(z[:size], y[:size])
        assert loss.total(z[:size], y[:size]) == pytest.approx(
            value.sum(), abs=1e-13 * (np.abs(value).sum() + size_of(loss))
        )
    value = weights * loss.value(z, y)
    assert loss.total(z, y, weights) == pytest.approx(value.sum(), abs=1e-13 * np.abs(value).sum())


@every_loss
def test_constants_are_bounds_and_tight(loss: Modified) -> None:
    z, y = draw(200_000)
    grad, hess = loss.slopes(z, y)
    assert np.abs(grad).max() <= loss.lipschitz * (1 + 1e-12)
    assert np.abs(grad).max() >= loss.lipschitz - 0.01 * loss.scale * loss.inner.lipschitz
    assert np.abs(hess).max() <= loss.curvature * (1 + 1e-12)
    assert np.abs(hess).max() >= 0.99 * loss.curvature
    assert -hess.min() <= loss.concavity * (1 + 1e-12)
    assert loss.convex or -hess.min() >= 0.99 * loss.concavity
    assert np.abs(grad).min() >= loss.least_slope
    assert np.abs(grad).min() <= loss.least_slope + 1e-3 * loss.scale


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
def test_the_slope_bound_of_the_logistic_loss_is_below_the_published_one(epsilon: float) -> None:
    loss = modified(Logistic(), epsilon)
    power = math.exp(epsilon)
    assert loss.lipschitz == pytest.approx(power / (power - 1), rel=1e-12)
    assert loss.least_slope == pytest.approx(1 / (power - 1), rel=1e-12)
    assert loss.lipschitz < (power + 1) / (power - 1)


@every_loss
def test_the_slope_has_the_sign_of_the_other_label(loss: Modified) -> None:
    z, y = draw(scale=20.0)
    assert np.all(-y * loss.grad(z, y) >= loss.least_slope)


@every_loss
def test_convex_where_promised(loss: Modified) -> None:
    z, y = draw()
    other = z[::-1].copy()
    excess = loss.value(0.5 * (z + other), y) - 0.5 * (loss.value(z, y) + loss.value(other, y))
    assert (excess.max() <= 1e-14 * size_of(loss)) == loss.convex == loss.inner.convex
    assert (loss.concavity == 0) == loss.convex


@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_the_refused_losses_would_not_be_convex(name: str) -> None:
    """The estimator of a refused loss bends downwards somewhere, for every epsilon."""
    inner, z = get_loss(name), np.linspace(-4.0, 4.0, 801)
    for epsilon in (0.1, 1.0, 4.0, 10.0):
        odds = math.exp(-epsilon)
        value = (inner.value(z, np.ones(801)) - odds * inner.value(z, -np.ones(801))) / (1 - odds)
        bend = value[2:] - 2 * value[1:-1] + value[:-2]
        assert bend.min() < -1e-10
    assert Logistic().hess(z, np.ones(801)) == pytest.approx(Logistic().hess(-z, np.ones(801)))


@every_logistic
def test_the_logistic_form_falls_for_ever(loss: Modified) -> None:
    far = np.array([1e2, 1e3, 1e6])
    fall = loss.value(far, np.ones(3)) / far
    np.testing.assert_allclose(fall, -loss.tilt, rtol=1e-9, atol=1e-40)
    assert (loss.tilt > 0) == (loss.least_slope > 0)


@every_loss
@pytest.mark.parametrize("size", [1e2, 1e154, 1e300])
def test_extreme_predictions_neither_warn_nor_give_nan(loss: Modified, size: float) -> None:
    z = np.array([-size, -0.5 * size, 0.0, 0.5 * size, size])
    for y in (np.ones(5), -np.ones(5)):
        for result in (*loss.slopes(z, y), loss.value(z, y), loss.grad(z, y), loss.hess(z, y)):
            assert np.all(np.isfinite(result))


# ------------------------------------------------------------------------------------ prox, conjugate


@every_loss
@pytest.mark.parametrize("step", [1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e5])
def test_prox_satisfies_the_optimality_condition(loss: Modified, step: float, size: float) -> None:
    v, y = draw(300, scale=size)
    z = loss.prox(v, y, step)
    gap = 1e-11 * np.maximum(1.0, np.abs(z))
    noise = 1e-15 * (np.abs(v) + step * size_of(loss) + np.abs(z))
    assert np.all((z - gap) + step * loss.grad(z - gap, y) <= v + noise)
    assert np.all((z + gap) + step * loss.grad(z + gap, y) >= v - noise)


@every_loss
@settings(max_examples=30, deadline=None)
@given(v=st.floats(-1e3, 1e3), log_step=st.floats(-6, 3), pick=st.integers(0, 2**31))
def test_prox_beats_other_points(loss: Modified, v: float, log_step: float, pick: int) -> None:
    rng = np.random.default_rng(pick)
    y, points, step = rng.choice([-1.0, 1.0], 200), np.full(200, v), np.full(200, 10.0**log_step)
    best = loss.prox(points, y, step)
    spread = rng.normal(size=200) * 10.0 ** rng.uniform(-6, 2, 200)

    def objective(z: Vector) -> Vector:
        return step * loss.value(z, y) + 0.5 * np.square(z - v)

    scale = 1 + v**2 + step * size_of(loss) * (1 + np.abs(best)) + np.square(best)
    for other in (best + spread, points + spread, y * 20.0):
        assert np.all(objective(other) - objective(best) >= -1e-12 * scale)


@every_loss
def test_prox_takes_one_step_per_row_and_zero_steps(loss: Modified) -> None:
    v, y = draw(4)
    steps = np.array([0.0, 1e-3, 1.0, 30.0])
    apart = [loss.prox(v[i : i + 1], y[i : i + 1], steps[i])[0] for i in range(4)]
    np.testing.assert_array_equal(loss.prox(v, y, steps), apart)
    np.testing.assert_array_equal(loss.prox(v, y, 0.0), v)


@every_loss
@settings(max_examples=40, deadline=None)
@given(z=st.floats(-30, 30), part=st.floats(-1.5, 1.5), pick=st.integers(0, 2**31))
def test_fenchel_young_inequality(loss: Modified, z: float, part: float, pick: int) -> None:
    y = np.random.default_rng(pick).choice([-1.0, 1.0], 50)
    t = part * loss.lipschitz
    sums = loss.value(np.full(50, z), y) + loss.conjugate(np.full(50, t), y)
    assert not np.any(np.isnan(sums))
    assert np.all(sums >= t * z - 1e-11 * (1 + abs(z)) * size_of(loss))


@every_logistic
def test_fenchel_young_equality_at_the_derivative(loss: Modified) -> None:
    z, y = draw(scale=10.0)
    t = loss.grad(z, y)
    np.testing.assert_allclose(loss.value(z, y) + loss.conjugate(t, y), t * z, rtol=1e-11, atol=1e-11 * size_of(loss))


@every_logistic
def test_the_domain_of_the_conjugate_is_what_slopes_reach(loss: Modified) -> None:
    y = np.array([-1.0, 1.0])
    inside = np.array([loss.least_slope, 0.5 * (loss.least_slope + loss.lipschitz), loss.lipschitz])
    outside = np.array([loss.least_slope - 1e-3, loss.lipschitz + 1e-3])
    for label in y:
        assert np.all(np.isfinite(loss.conjugate(-label * inside, np.full(3, label))))
        assert np.all(np.isinf(loss.conjugate(-label * outside, np.full(2, label))))


def test_the_conjugate_of_the_sigmoid_form_is_minus_its_least_value() -> None:
    loss = modified(Sigmoid(), 1.0)
    assert loss.conjugate(np.zeros(1), np.ones(1))[0] == pytest.approx(-loss.value(np.array([800.0]), np.ones(1))[0])


@every_logistic
def test_recover_gives_prediction_and_curvature_back(loss: Modified) -> None:
    z, y = draw(scale=2.0)
    recovered = loss.recover(loss.grad(z, y))
    assert recovered is not None
    known = 4e-16 * size_of(loss) / loss.hess(z, y)  # a rounding of the slope, seen through the curvature
    assert np.all(np.abs(recovered[0] - z) <= 1e-12 + 4 * known)
    np.testing.assert_allclose(recovered[1], loss.hess(z, y), rtol=1e-12, atol=1e-15 * size_of(loss))
    far, curvature = loss.recover(loss.grad(np.array([-1e3, 1e3]), np.array([-1.0, 1.0]))) or (None, None)
    assert far is not None
    assert np.all(np.isfinite(far))
    assert np.all(np.sign(far) == [-1.0, 1.0])
    assert np.all(np.asarray(curvature) >= 0)


def test_recover_is_impossible_for_the_sigmoid_form() -> None:
    assert modified(Sigmoid(), 1.0).recover(np.zeros(1)) is None


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"logistic", "sigmoid"}))
def test_other_losses_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match=f"loss='{name}' is not for randomized labels") as caught:
        modified(get_loss(name), 1.0)
    assert "\n" not in str(caught.value)
    assert ("not convex" in str(caught.value)) == (get_loss(name).task == "classification")


def test_a_modified_loss_is_not_modified_again() -> None:
    with pytest.raises(InputError, match="modified already"):
        modified(modified(Logistic(), 1.0), 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-4, math.inf, math.nan, True, "1", None])
def test_epsilon_out_of_range_is_refused(epsilon: object) -> None:
    with pytest.raises(InputError, match="label epsilon="):
        modified(Logistic(), epsilon)  # type: ignore[arg-type]


def test_names_tell_epsilons_apart() -> None:
    names = [loss.name for loss in INSTANCES]
    assert len(set(names)) == len(names)
    assert modified(Logistic(), 0.5).name == "logistic of labels randomized at epsilon 0.5"


def test_scores_are_log_odds_where_those_of_the_inner_loss_are() -> None:
    assert modified(Logistic(), 1.0).log_odds
    assert not modified(Sigmoid(), 1.0).log_odds
    assert [name for name in LOSSES if get_loss(name).log_odds] == ["logistic"]


def test_labels_other_than_two_are_refused() -> None:
    with pytest.raises(InputError, match="needs labels -1 and \\+1"):
        modified(Logistic(), 1.0).check_labels(np.array([0.0, 1.0]))


COERCIVE = {"l2", "elastic_net", "ball", "box"}


@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic_net", "nonnegative", "box", "ball", "none"])
def test_only_penalties_that_hold_every_column_are_taken(penalty: str) -> None:
    reason = unbounded_reason(modified(Logistic(), 1.0), get_regularizer(penalty), 0.1)
    assert (reason == "") == (penalty in COERCIVE)
    assert "\n" not in reason
    for loss in (Logistic(), modified(Sigmoid(), 1.0)):
        assert unbounded_reason(loss, get_regularizer(penalty), 0.0) == ""


def test_alpha_and_the_squared_part_must_be_there() -> None:
    loss: Loss = modified(Logistic(), 1.0)
    assert "alpha=0" in unbounded_reason(loss, L2(), 0.0)
    assert "without a squared part" in unbounded_reason(loss, ElasticNet(l1_ratio=1.0), 0.1)
    assert unbounded_reason(loss, ElasticNet(l1_ratio=0.99), 0.1) == ""
    assert unbounded_reason(loss, Box(-2.0, 2.0), 0.0) == ""


def test_what_is_refused_does_run_away() -> None:
    """A column that is nonzero on one row only: without a squared penalty its coefficient falls for ever."""
    loss = modified(Logistic(), 1.0)
    for penalty, sign in itertools.product(("none", "l1", "nonnegative"), (1.0, -1.0)):
        regularizer = get_regularizer(penalty)
        worth = [
            float(loss.value(np.array([sign * x]), np.array([sign]))[0]) + 0.1 * regularizer.value(np.array([x]))
            for x in (1e1, 1e2, 1e3)
        ]
        assert worth[0] > worth[1] > worth[2]
