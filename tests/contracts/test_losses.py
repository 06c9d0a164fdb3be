"""What every registered loss promises: a new one in `LOSSES` is tested here without a further line."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.problem.losses import Huber, Logistic, Loss, NegativeBinomial, Poisson, Quantile, Sigmoid, Tweedie
from tacit.problem.losses.families import BoundedPoisson
from tacit.problem.losses.half import Half
from tacit.problem.registry import LOSSES, get_loss, make_loss
from tacit.types import Vector

OTHERS: list[Loss] = [Huber(threshold=0.3), Half(), Quantile(0.9), Tweedie(1.1), Tweedie(1.9)]
OTHERS += [NegativeBinomial(0.05), NegativeBinomial(20.0), BoundedPoisson()]
INSTANCES: list[Loss] = [get_loss(name) for name in sorted(LOSSES)] + OTHERS
CONVEX = [loss for loss in INSTANCES if loss.convex]
STEPS = [0.0, 1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e5, 1e8]


def label(loss: Loss) -> str:
    return "".join([loss.name, *(f"{value:g}" for value in loss.settings.values())])


every_loss = pytest.mark.parametrize("loss", INSTANCES, ids=label)
every_convex_loss = pytest.mark.parametrize("loss", CONVEX, ids=label)


def draw_labels(loss: Loss, size: int, rng: np.random.Generator) -> Vector:
    if loss.task == "classification":
        return rng.choice([-1.0, 1.0], size)
    if isinstance(loss, BoundedPoisson):
        return rng.choice([0.0, 0.2, 0.9, 1.0], size)
    if loss.task == "counts":
        return rng.poisson(2.0, size).astype(float) + (0.1 if loss.name == "gamma" else 0.0)
    return rng.normal(0.0, 2.0, size)


def draw(loss: Loss, size: int = 2000, scale: float = 3.0, seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, scale, size), draw_labels(loss, size, rng)


def away_from_kinks(loss: Loss, z: Vector, y: Vector, gap: float) -> np.ndarray:
    """Rows where the one-sided second derivatives at distance gap agree."""
    left, right = loss.hess(z - gap, y), loss.hess(z + gap, y)
    first = np.abs(loss.grad(z + gap, y) - loss.grad(z - gap, y)) <= 4 * gap * (1.0 + np.abs(left))
    return first & (np.abs(left - right) <= 0.01 * (1.0 + np.abs(left)))


@every_loss
def test_grad_is_the_slope_of_value(loss: Loss) -> None:
    z, y = draw(loss)
    gap = 1e-5
    keep = away_from_kinks(loss, z, y, 2 * gap)
    slope = (loss.value(z + gap, y) - loss.value(z - gap, y)) / (2 * gap)
    assert keep.mean() > 0.95
    np.testing.assert_allclose(loss.grad(z, y)[keep], slope[keep], rtol=1e-6, atol=1e-7)


@every_loss
def test_hess_is_the_slope_of_grad(loss: Loss) -> None:
    z, y = draw(loss)
    gap = 1e-5
    keep = away_from_kinks(loss, z, y, 2 * gap)
    slope = (loss.grad(z + gap, y) - loss.grad(z - gap, y)) / (2 * gap)
    assert keep.mean() > 0.95
    np.testing.assert_allclose(loss.hess(z, y)[keep], slope[keep], rtol=1e-6, atol=1e-7)


@every_loss
def test_slopes_and_total_agree_with_the_methods_they_stand_for(loss: Loss) -> None:
    z, y = draw(loss, scale=30.0)
    grad, hess = loss.slopes(z, y)
    np.testing.assert_allclose(grad, loss.grad(z, y), rtol=1e-13)
    np.testing.assert_allclose(hess, loss.hess(z, y), rtol=1e-13)
    for size in (0, 1, 7, z.size):
        assert loss.total(z[:size], y[:size]) == pytest.approx(loss.value(z[:size], y[:size]).sum(), rel=1e-13)
    weights = np.arange(z.size, dtype=float)
    assert loss.total(z, y, weights) == pytest.approx(weights @ loss.value(z, y), rel=1e-13)


@every_loss
def test_value_is_never_negative_and_comes_near_zero(loss: Loss) -> None:
    _, y = draw(loss, 1)
    value = loss.value(np.linspace(-40.0, 40.0, 800_001), np.full(800_001, y[0]))
    assert value.min() >= 0.0
    assert value.min() < 1e-4


@every_loss
def test_constants_are_bounds_and_tight(loss: Loss) -> None:
    z, y = draw(loss, 200_000)
    grad, hess = loss.grad(z, y), loss.hess(z, y)
    # The curvature also bounds how fast grad moves between points, where hess may not exist.
    order = np.random.default_rng(1).permutation(z.size)
    spread = np.abs(loss.grad(z[order], y) - grad)
    assert np.abs(grad).max() <= loss.lipschitz * (1 + 1e-12)
    assert np.abs(hess).max() <= loss.curvature * (1 + 1e-12)
    assert -hess.min() <= loss.concavity * (1 + 1e-12)
    if math.isfinite(loss.lipschitz):
        assert np.abs(grad).max() >= 0.99 * loss.lipschitz
    if math.isfinite(loss.curvature):
        assert np.all(spread <= loss.curvature * np.abs(z[order] - z) * (1 + 1e-9) + 1e-15)
        assert np.abs(hess).max() >= 0.99 * loss.curvature
    if loss.concavity:
        assert -hess.min() >= 0.99 * loss.concavity


@every_loss
def test_infinite_constants_are_needed(loss: Loss) -> None:
    z, y = np.array([-1e9, -1e3, 1e3, 1e9]), np.full(4, 1e9 if loss.task == "counts" else 1.0)
    if math.isinf(loss.lipschitz):
        assert np.abs(loss.grad(z, y)).max() > 1e8
    if math.isinf(loss.curvature):
        near = np.linspace(-800.0, 800.0, 2_000_001)
        moves = np.abs(np.diff(np.clip(loss.grad(near, np.full(near.size, y[0])), -1e300, 1e300)))
        assert moves.max() / (near[1] - near[0]) > 100
    assert loss.lipschitz > 0


@every_loss
def test_convex_flag_is_true(loss: Loss) -> None:
    z, y = draw(loss)
    other = z[::-1].copy()
    excess = loss.value(0.5 * (z + other), y) - 0.5 * (loss.value(z, y) + loss.value(other, y))
    assert (excess.max() <= 1e-12 * loss.value(z, y).max()) == loss.convex
    assert (loss.concavity == 0.0) == loss.convex


@every_loss
def test_smooth_flag_is_true(loss: Loss) -> None:
    near = np.linspace(-4.0, 4.0, 800_001)
    jump = np.abs(np.diff(loss.grad(near, np.ones(near.size)))).max()
    assert (jump < 1e-2) == loss.smooth


@every_loss
@pytest.mark.parametrize("size", [1e2, 1e8, 1e154, 1e300])
def test_extreme_predictions_neither_warn_nor_give_nan(loss: Loss, size: float) -> None:
    z = np.array([-size, -0.5 * size, 0.0, 0.5 * size, size])
    numbers = [0.0, 1.0] if isinstance(loss, BoundedPoisson) else [0.0, 1.0, 1e6][loss.name == "gamma" :]
    for target in [-1.0, 1.0] if loss.task == "classification" else numbers:
        y = np.full(z.size, target)
        for result in (*loss.slopes(z, y), loss.value(z, y), loss.grad(z, y), loss.hess(z, y)):
            assert result.shape == z.shape
            assert not np.any(np.isnan(result))
        assert np.all(loss.value(z, y) >= 0)
        if loss.task != "counts":
            assert np.all(np.isfinite(loss.grad(z, y)))
            assert np.all(np.isfinite(loss.hess(z, y)))


# ---------------------------------------------------------------------------------------------- prox


def objective(loss: Loss, z: Vector, v: Vector, y: Vector, step: Vector) -> Vector:
    with np.errstate(over="ignore"):
        return step * loss.value(z, y) + 0.5 * np.square(z - v)


@every_loss
@settings(max_examples=60, deadline=None)
@given(v=st.floats(-1e3, 1e3), log_step=st.floats(-8, 4), pick=st.integers(0, 2**31), far=st.floats(-20, 20))
def test_prox_beats_other_points(loss: Loss, v: float, log_step: float, pick: int, far: float) -> None:
    rng = np.random.default_rng(pick)
    y = draw_labels(loss, 200, rng)
    points, step = np.full(200, v), np.full(200, 10.0**log_step)
    best = loss.prox(points, y, step)
    spread = rng.normal(size=200) * 10.0 ** rng.uniform(-6, 2, 200)
    for other in (best + spread, points + spread, np.full(200, far), y + spread):
        gap = objective(loss, other, points, y, step) - objective(loss, best, points, y, step)
        scale = objective(loss, best, points, y, step) + np.square(v) + 1.0
        assert np.all(gap >= -1e-12 * scale)
        if loss.convex:  # the objective is 1-strongly convex: being the minimiser costs a square
            finite = gap < 1e250
            assert np.all((gap - 0.5 * np.square(other - best) >= -1e-11 * scale)[finite])


@every_loss
@pytest.mark.parametrize("step", STEPS[1:])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e5, 1e8])
def test_prox_satisfies_the_optimality_condition(loss: Loss, step: float, size: float) -> None:
    """(v - z) / step is a (sub)gradient at z: it lies between the slopes just below and just above z."""
    v, y = draw(loss, 300, scale=size)
    z = loss.prox(v, y, step)
    assert z.shape == v.shape
    assert np.all(np.isfinite(z))
    gap = 1e-11 * np.maximum(1.0, np.abs(z))
    below = (z - gap) + step * loss.grad(z - gap, y)
    above = (z + gap) + step * loss.grad(z + gap, y)
    noise = 1e-15 * (np.abs(v) + step * np.abs(y) + np.abs(z))
    assert np.all(below <= v + noise)
    assert np.all(above >= v - noise)


@every_loss
def test_prox_takes_one_step_per_row_and_zero_steps(loss: Loss) -> None:
    v, y = draw(loss, 9)
    steps = np.array(STEPS)
    together = loss.prox(v, y, steps)
    apart = [loss.prox(v[i : i + 1], y[i : i + 1], steps[i])[0] for i in range(9)]
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(loss.prox(v, y, 0.0), v)
    np.testing.assert_array_equal(loss.prox(v, y, np.zeros(9)), v)
    square = loss.prox(v.reshape(3, 3), y.reshape(3, 3), steps.reshape(3, 3))
    np.testing.assert_array_equal(square, together.reshape(3, 3))
    assert loss.prox(v[:0], y[:0], 1.0).shape == (0,)


@every_loss
def test_prox_leaves_its_arguments_alone_and_reads_views(loss: Loss) -> None:
    v, y = draw(loss, 20)
    kept, labels = v.copy(), y.copy()
    v.flags.writeable = False
    expected = loss.prox(kept, labels, 2.0)[::2]
    np.testing.assert_array_equal(loss.prox(v[::2], y[::2], 2.0), expected)
    np.testing.assert_array_equal(v, kept)
    assert not np.shares_memory(loss.prox(v, y, 0.0), v)


@every_loss
@pytest.mark.parametrize("size", [1e12, 1e100, 1e300])
def test_prox_of_extreme_points(loss: Loss, size: float) -> None:
    v = np.array([-size, size])
    for step in STEPS:
        z = loss.prox(v, np.ones(2), step)
        assert np.all(np.isfinite(z))
        assert np.all(np.abs(z) <= size * (1 + 1e-12) + step * (1 + 1e-12))


@every_convex_loss
@settings(max_examples=60, deadline=None)
@given(first=st.floats(-1e4, 1e4), second=st.floats(-1e4, 1e4), log_step=st.floats(-8, 8))
def test_prox_is_firmly_nonexpansive(loss: Loss, first: float, second: float, log_step: float) -> None:
    y = draw_labels(loss, 20, np.random.default_rng(3))
    a, b = (loss.prox(np.full(20, v), y, 10.0**log_step) for v in (first, second))
    moved = a - b
    assert np.all(moved * (first - second) - np.square(moved) >= -1e-10 * (1 + abs(first - second)))


def exact_logistic(z: Decimal, y: Decimal) -> Decimal:
    return -y / (1 + (y * z).exp())


def exact_poisson(z: Decimal, y: Decimal) -> Decimal:
    return z.exp() - y


def exact_gamma(z: Decimal, y: Decimal) -> Decimal:
    return 1 - y * (-z).exp()


def exact_tweedie(z: Decimal, y: Decimal) -> Decimal:
    return (z / 2).exp() - y * (-z / 2).exp()


def exact_negative_binomial(z: Decimal, y: Decimal) -> Decimal:
    return (y + 1) / (1 + (-z).exp()) - y


def exact_sigmoid(z: Decimal, y: Decimal) -> Decimal:
    tail = (y * z).exp()
    return -y * tail / (1 + tail) ** 2


EXACT: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "gamma": exact_gamma,
    "logistic": exact_logistic,
    "negative_binomial": exact_negative_binomial,
    "poisson": exact_poisson,
    "sigmoid": exact_sigmoid,
    "tweedie": exact_tweedie,
}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_prox_without_closed_form_is_right_to_1e_12(name: str) -> None:
    """In 60 digits, the slope of the prox objective changes sign within 1e-12 of the answer."""
    loss, rng = get_loss(name), np.random.default_rng(7)
    v = rng.normal(size=300) * 10.0 ** rng.uniform(-3, 8, 300)
    step = 10.0 ** rng.uniform(-8, 8 if loss.convex else math.log10(0.99 / loss.concavity), 300)
    v[::3] = -step[::3] * rng.uniform(0.0, 1.2, 100)  # where the pull of the loss and v nearly cancel
    counts = loss.task == "counts"
    y = rng.choice([0.5 if name == "gamma" else 0.0, 1.0, 8.0] if counts else [-1.0, 1.0], 300)
    z = loss.prox(v, y, step)
    with localcontext() as context:
        context.prec = 60
        context.Emin, context.Emax = -(10**12), 10**12
        for i in range(300):
            edge = Decimal("1e-12") * max(1, abs(Decimal(z[i])))
            for sign in (-1, 1):
                at = Decimal(z[i]) + sign * edge
                slope = at - Decimal(v[i]) + Decimal(step[i]) * EXACT[name](at, Decimal(y[i]))
                # Rounding step * y is a change of y by one unit in the last place: allowed.
                assert sign * slope > -Decimal("2.3e-16") * Decimal(step[i] * (y[i] + 1) if counts else 0)


@pytest.mark.parametrize("step", [1e-3, 1.0, 37.0, 1e4, 1e8])
def test_logistic_prox_keeps_relative_accuracy_near_zero(step: float) -> None:
    """Around y v = -step / 2 the margin crosses 0: there it is known to relative, not absolute, accuracy."""
    offset = np.array([1e-12, 1e-9, 1e-6, 1e-3]) * step
    v = offset - 0.5 * step
    center = v + 0.5 * step
    z = Logistic().prox(v, np.ones(4), step)
    np.testing.assert_allclose(z + 0.5 * step * np.tanh(0.5 * z), center, rtol=1e-13)


def test_logistic_prox_is_odd_in_the_label() -> None:
    v, y = draw(Logistic(), 500, scale=10.0)
    np.testing.assert_array_equal(Logistic().prox(-v, -y, 50.0), -Logistic().prox(v, y, 50.0))


@pytest.mark.parametrize("step", [0.5, 10.0, 11.0, 30.0, 1e3, 1e6])
def test_sigmoid_prox_is_the_global_minimiser(step: float) -> None:
    """Against a fine grid, over the whole range of v where there are two local minimisers."""
    loss = Sigmoid()
    for v in np.linspace(-0.26 * step - 6.0, 6.0, 41):
        z = loss.prox(np.array([v]), np.ones(1), step)
        grid = np.concatenate([np.linspace(v, v + 0.25 * step, 4001), np.linspace(-20.0, 20.0, 4001)])
        ours = loss.value(z, np.ones(1)) + np.square(z - v) / (2 * step)
        theirs = loss.value(grid, np.ones(grid.size)) + np.square(grid - v) / (2 * step)
        assert ours[0] <= theirs.min() + 1e-12


# ----------------------------------------------------------------------------------------- conjugate


@every_loss
@settings(max_examples=60, deadline=None)
@given(z=st.floats(-30, 30), t=st.floats(-5, 5), pick=st.integers(0, 2**31))
def test_fenchel_young_inequality(loss: Loss, z: float, t: float, pick: int) -> None:
    y = draw_labels(loss, 50, np.random.default_rng(pick))
    values = loss.value(np.full(50, z), y)
    sums = values + loss.conjugate(np.full(50, t), y)
    assert not np.any(np.isnan(sums))
    assert np.all(sums >= t * z - 1e-11 * (1 + abs(z) + abs(t * z) + values))  # |t| <= 1e-12 counts as 0


@every_convex_loss
def test_fenchel_young_equality_at_the_derivative(loss: Loss) -> None:
    z, y = draw(loss)
    t = loss.grad(z, y)
    conjugate = loss.conjugate(t, y)
    scale = 1 + np.abs(t * z)
    assert np.all(np.isfinite(conjugate))
    np.testing.assert_array_less(np.abs(loss.value(z, y) + conjugate - t * z) / scale, 1e-10)


@every_loss
def test_conjugate_is_the_supremum(loss: Loss) -> None:
    """On a grid of z wide enough to show divergence outside the domain."""
    rng = np.random.default_rng(4)
    grid = np.sort(np.concatenate([np.linspace(-30.0, 30.0, 60_001), [-1e9, -1e6, 1e6, 1e9]]))
    for t, y in zip(rng.uniform(-2.5, 2.5, 40), draw_labels(loss, 40, rng), strict=True):
        conjugate = loss.conjugate(np.array([t]), np.array([y]))[0]
        best = np.max(t * grid - loss.value(grid, np.full(grid.size, y)))
        if math.isinf(conjugate):
            assert best > 1e3
        else:
            assert best == pytest.approx(conjugate, abs=1e-3)


@every_convex_loss
def test_derivatives_shrunk_towards_zero_stay_in_the_domain(loss: Loss) -> None:
    """The duality certificates rely on it: 0 and every derivative lie in the domain, which is an interval."""
    z, y = draw(loss)
    t = loss.grad(z, y)
    for factor in (0.0, 0.3, 1.0):
        assert np.all(np.isfinite(loss.conjugate(factor * t, y)))


@every_convex_loss
def test_rounding_of_the_wrong_sign_counts_as_zero(loss: Loss) -> None:
    z, y = draw(loss, 50)
    t = loss.grad(z, y)
    quiet = t.copy()
    counts = loss.task == "counts" and loss.name != "gamma"
    y[0], t[0], quiet[0] = (0.0, -1e-14, 0.0) if counts else (1.0, 1e-14, 0.0)
    np.testing.assert_allclose(loss.conjugate(t, y), loss.conjugate(quiet, y), atol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "hinge", "squared_hinge"])
def test_a_real_wrong_sign_is_outside_the_domain(name: str) -> None:
    assert get_loss(name).conjugate(np.array([-0.5, 1e-6]), np.ones(2))[1] == math.inf


def test_poisson_conjugate_at_the_edge_is_its_constant() -> None:
    y = np.array([0.0, 1.0, 5.0])
    constant = np.array([0.0, -1.0, 5 * math.log(5) - 5])
    np.testing.assert_allclose(Poisson().conjugate(-y, y), -constant, rtol=1e-14)


# ------------------------------------------------------------------------------------------- recover


@every_loss
def test_recover_inverts_grad(loss: Loss) -> None:
    z, y = draw(loss, scale=5.0)
    known = loss.recover(loss.grad(z, y))
    if known is None:
        assert loss.name not in {"logistic", "squared"}
        return
    moved, hess = known
    shift = y if loss.name == "squared" else 0.0  # the promise is "up to a constant per row"
    np.testing.assert_allclose(moved + shift, z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(hess, loss.hess(z, y), rtol=1e-9, atol=1e-15)


def test_recover_logistic_is_finite_where_the_derivative_saturates() -> None:
    z, hess = Logistic().recover(np.array([-1.0, 1.0, -0.0, 0.0, 1e-310]))
    assert np.all(np.isfinite(z))
    assert np.all(hess >= 0)
    np.testing.assert_array_equal(np.sign(z), [-1.0, 1.0, 1.0, -1.0, -1.0])


# ------------------------------------------------------------------------------------ names and input


def test_registry_names_match_the_classes() -> None:
    assert {name: cls.name for name, cls in LOSSES.items()} == {name: name for name in LOSSES}
    assert all(isinstance(get_loss(name), cls) for name, cls in LOSSES.items())


def test_an_instance_is_returned_as_it_is() -> None:
    loss = Huber(threshold=2.0)
    assert get_loss(loss) is loss


@pytest.mark.parametrize(("wrong", "near"), [("logistik", "logistic"), ("Huber", "huber"), ("sqared", "squared")])
def test_unknown_name_suggests_the_nearest_and_lists_all(wrong: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        get_loss(wrong)
    message = str(caught.value)
    assert f"loss={wrong!r} is unknown: did you mean {near!r}?" in message
    assert all(name in message for name in LOSSES)
    assert "\n" not in message


@pytest.mark.parametrize("wrong", ["", "xyz", None, 3])
def test_hopeless_name_lists_all_without_a_guess(wrong: object) -> None:
    with pytest.raises(InputError, match=r"is unknown: choose one of absolute, gamma"):
        get_loss(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.inf, math.nan])
def test_huber_threshold_is_checked(threshold: float) -> None:
    with pytest.raises(InputError, match=rf"threshold={threshold:g} is not allowed"):
        Huber(threshold=threshold)


@pytest.mark.parametrize(
    ("name", "wrong", "match"),
    [
        ("quantile", {"quantile": 0.0}, "quantile=0.0 is not allowed: it must lie between 0 and 1"),
        ("quantile", {"quantile": 1.0}, "quantile=1.0 is not allowed"),
        ("quantile", {"quantile": math.nan}, "quantile=nan is not allowed"),
        ("tweedie", {"power": 1.0}, "power=1.0 is not allowed: .* loss='poisson'"),
        ("tweedie", {"power": 2.0}, "power=2.0 is not allowed: .* loss='gamma'"),
        ("tweedie", {"power": "1.5"}, "power='1.5' is not allowed"),
        ("negative_binomial", {"dispersion": 0.0}, "dispersion=0.0 is not allowed: .* loss='poisson'"),
        ("negative_binomial", {"dispersion": math.inf}, "dispersion=inf is not allowed"),
        ("poisson", {"power": 1.5}, "power is for loss='tweedie', not for loss='poisson': leave it out"),
    ],
)
def test_numbers_of_a_loss_are_checked(name: str, wrong: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make_loss(name, **wrong)


def test_a_loss_is_made_with_its_numbers() -> None:
    assert make_loss("tweedie", power=1.7, quantile=None).settings == {"power": 1.7}
    assert make_loss("quantile").settings == {"quantile": 0.5}
    assert make_loss("squared").settings == {}


@every_loss
def test_labels_are_checked(loss: Loss) -> None:
    _, y = draw(loss)
    loss.check_labels(y)
    wrong = {"classification": [0.0, 1.0], "counts": [1.0, -2.0]}.get(loss.task)
    if wrong is not None:
        with pytest.raises(InputError, match=f"loss='{loss.name}' needs labels"):
            loss.check_labels(np.array(wrong))
