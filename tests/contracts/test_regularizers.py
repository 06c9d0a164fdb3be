"""What every registered regularizer promises: a new registered one needs no further line."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.problem.registry import REGULARIZERS, get_regularizer
from tacit.problem.regularizers import Ball, Box, ElasticNet, NonNegative, Regularizer
from tacit.types import Vector

INSTANCES: list[Regularizer] = [
    *(get_regularizer(name) for name in sorted(REGULARIZERS)),
    ElasticNet(l1_ratio=0.0),
    ElasticNet(l1_ratio=0.9),
    ElasticNet(l1_ratio=1.0),
    Box(low=0.5, high=3.0),
    Ball(radius=7.0),
]


def label(regularizer: Regularizer) -> str:
    numbers = (regularizer.l1, regularizer.low, regularizer.high, regularizer.radius)
    return "-".join([regularizer.name, *(f"{number:g}" for number in numbers if math.isfinite(number))])


every_regularizer = pytest.mark.parametrize("regularizer", INSTANCES, ids=label)


def draw(size: int = 6, scale: float = 2.0, seed: int = 0) -> Vector:
    return np.random.default_rng(seed).normal(0.0, scale, size)


def feasible(regularizer: Regularizer, x: Vector) -> Vector:
    """A point of the domain near x, found from the numbers the class declares and not from its prox."""
    x = np.minimum(np.maximum(x, regularizer.low), regularizer.high)
    size = float(np.sqrt(np.sum(x * x)))
    return x if size <= regularizer.radius else x * (0.999 * regularizer.radius / size)


@every_regularizer
@settings(max_examples=60, deadline=None)
@given(log_step=st.floats(-8, 8), log_scale=st.floats(-4, 4), pick=st.integers(0, 2**31))
def test_prox_is_the_minimiser(regularizer: Regularizer, log_step: float, log_scale: float, pick: int) -> None:
    """The prox objective is 1-strongly convex, so another point costs half its squared distance."""
    step, rng = 10.0**log_step, np.random.default_rng(pick)
    v = rng.normal(size=6) * 10.0**log_scale
    best = regularizer.prox(v, step)
    lowest = step * regularizer.value(best) + 0.5 * np.sum(np.square(best - v))
    assert math.isfinite(lowest)
    for size in (1e-6, 1e-2, 1.0, 100.0):
        other = feasible(regularizer, best + size * rng.normal(size=6))
        cost = step * regularizer.value(other) + 0.5 * np.sum(np.square(other - v))
        scale = 1e-12 * (cost + lowest + np.sum(np.square(v)))
        assert cost - lowest >= 0.5 * np.sum(np.square(other - best)) - scale


@every_regularizer
@settings(max_examples=40, deadline=None)
@given(log_step=st.floats(-6, 6), pick=st.integers(0, 2**31))
def test_prox_is_firmly_nonexpansive(regularizer: Regularizer, log_step: float, pick: int) -> None:
    a, b = draw(seed=pick), draw(seed=pick + 1)
    moved = regularizer.prox(a, 10.0**log_step) - regularizer.prox(b, 10.0**log_step)
    assert np.dot(moved, moved) <= np.dot(moved, a - b) * (1 + 1e-12) + 1e-12


# prox of R*/s at v/s, from the known conjugates: the other half of Moreau's identity.
CONJUGATE_PROX: dict[str, Callable[[Regularizer, Vector, float], Vector]] = {
    "l2": lambda _, v, s: v / s / (1 + 1 / s),
    "l1": lambda _, v, s: np.clip(v / s, -1.0, 1.0),
    "ball": lambda r, v, s: v / s * max(0.0, 1 - r.radius / float(np.linalg.norm(v))),
    "box": lambda r, v, s: np.maximum(v - r.high, 0.0) / s + np.minimum(v - r.low, 0.0) / s,
    "none": lambda _, v, s: np.zeros_like(v),
    "nonnegative": lambda _, v, s: np.minimum(v / s, 0.0),
}


@every_regularizer
@pytest.mark.parametrize("step", [1e-3, 0.5, 1.0, 20.0])
def test_moreau_decomposition(regularizer: Regularizer, step: float) -> None:
    v = draw(20)
    near = regularizer.prox(v, step)
    dual = (v - near) / step
    if regularizer.name in CONJUGATE_PROX:
        np.testing.assert_allclose(dual, CONJUGATE_PROX[regularizer.name](regularizer, v, step), atol=1e-12)
    # For any R: (v - prox) / step is a subgradient at prox, so the inequality of Fenchel and Young is tight.
    tight = dual * regularizer.shrink(dual) if regularizer.name != "none" else np.zeros_like(v)
    np.testing.assert_allclose(tight, dual, atol=1e-12)
    total = regularizer.value(near) + regularizer.conjugate(tight)
    assert total == pytest.approx(float(np.dot(tight, near)), rel=1e-10, abs=1e-10)


@every_regularizer
@settings(max_examples=60, deadline=None)
@given(log_scale=st.floats(-3, 3), pick=st.integers(0, 2**31))
def test_fenchel_young_inequality(regularizer: Regularizer, log_scale: float, pick: int) -> None:
    x, v = feasible(regularizer, draw(seed=pick)), 10.0**log_scale * draw(seed=pick + 1)
    for dual in (v, regularizer.shrink(v) * v):
        total = regularizer.value(x) + regularizer.conjugate(dual)
        assert total >= np.dot(x, dual) - 1e-11 * (1 + np.abs(x) @ np.abs(dual))


@every_regularizer
def test_shrink_reaches_the_domain_and_is_largest(regularizer: Regularizer) -> None:
    for scale in (1e-3, 0.9, 30.0):
        for v in (draw(scale=scale), -np.abs(draw(scale=scale)), np.zeros(6)):
            factor = regularizer.shrink(v)
            assert 0.0 <= factor <= 1.0
            assert math.isfinite(regularizer.conjugate(factor * v))
            if factor < 1.0:
                assert math.isinf(regularizer.conjugate(max(factor * (1 + 1e-6), 1e-6) * v))


@every_regularizer
def test_declared_numbers_give_the_value(regularizer: Regularizer) -> None:
    """The x-update reads only form, l1, l2, low, high and radius: they must say the same as `value`."""
    for seed in range(20):
        x = draw(seed=seed)
        declared = regularizer.l1 * np.sum(np.abs(x)) + 0.5 * regularizer.l2 * np.sum(np.square(x))
        outside = x.min() < regularizer.low or x.max() > regularizer.high
        outside = outside or np.linalg.norm(x) > regularizer.radius
        assert regularizer.value(x) == (math.inf if outside else pytest.approx(declared))
        assert math.isfinite(regularizer.value(feasible(regularizer, x)))


@every_regularizer
def test_form_admits_the_declared_numbers(regularizer: Regularizer) -> None:
    bounded = math.isfinite(regularizer.low) or math.isfinite(regularizer.high)
    if regularizer.form != "separable":
        assert regularizer.l1 == (1.0 if regularizer.form == "group" else 0.0)
        assert not bounded
    assert (regularizer.form == "ball") == math.isfinite(regularizer.radius)
    assert regularizer.constraint == (regularizer.l1 == 0.0 and regularizer.l2 == 0.0)


@every_regularizer
def test_strong_convexity_is_a_tight_bound(regularizer: Regularizer) -> None:
    slacks = []
    for seed in range(50):
        a, b = (feasible(regularizer, draw(seed=seed + shift)) for shift in (0, 1000))
        middle = regularizer.value(0.5 * (a + b))
        slack = 0.5 * (regularizer.value(a) + regularizer.value(b)) - middle
        slacks.append(slack - regularizer.strong_convexity / 8 * np.sum(np.square(a - b)))
    a, b = feasible(regularizer, np.full(6, 0.1)), feasible(regularizer, np.full(6, 0.2))
    gap = 0.5 * (regularizer.value(a) + regularizer.value(b)) - regularizer.value(0.5 * (a + b))
    assert min(slacks) >= -1e-12
    assert gap == pytest.approx(regularizer.strong_convexity / 8 * np.sum(np.square(a - b)), abs=1e-12)


@every_regularizer
def test_a_projected_point_is_feasible_despite_rounding(regularizer: Regularizer) -> None:
    for scale in (1e-6, 1.0, 1e6):
        near = regularizer.prox(draw(1000, scale=scale), 1.0)
        assert math.isfinite(regularizer.value(near * (1 + 1e-13)))


@every_regularizer
@pytest.mark.parametrize("size", [1e100, 1e200, 1e300])
def test_extreme_coefficients_neither_warn_nor_give_nan(regularizer: Regularizer, size: float) -> None:
    v = size * np.array([1.0, -0.5, 0.0, 1e-3])
    near = regularizer.prox(v, 2.0)
    assert near.shape == v.shape
    assert np.all(np.isfinite(near))
    for number in (regularizer.value(v), regularizer.conjugate(v), regularizer.shrink(v)):
        assert not math.isnan(number)


@every_regularizer
def test_a_party_without_columns_costs_nothing(regularizer: Regularizer) -> None:
    empty = np.zeros(0)
    assert regularizer.value(empty) == 0.0
    assert regularizer.conjugate(empty) == 0.0
    assert regularizer.shrink(empty) == 1.0
    assert regularizer.prox(empty, 1.0).shape == (0,)


@every_regularizer
def test_prox_returns_a_new_array(regularizer: Regularizer) -> None:
    v = np.full(4, 0.6)
    near = regularizer.prox(v, 0.0)
    assert not np.shares_memory(near, v)
    if regularizer.name != "ball":
        np.testing.assert_array_equal(near, v)


def test_rounding_of_the_wrong_sign_keeps_the_certificate() -> None:
    v = np.array([-5.0, 1e-13, -1.0])
    assert NonNegative().shrink(v) == 1.0
    assert NonNegative().conjugate(v) == 0.0
    assert NonNegative().shrink(np.array([-5.0, 1e-6])) == 0.0


def test_elastic_net_ends_are_lasso_and_ridge() -> None:
    v = draw(30)
    for ratio, name in ((0.0, "l2"), (1.0, "l1")):
        ours, theirs = ElasticNet(l1_ratio=ratio), get_regularizer(name)
        np.testing.assert_allclose(ours.prox(v, 0.7), theirs.prox(v, 0.7))
        assert ours.value(v) == pytest.approx(theirs.value(v))
        assert ours.conjugate(v) == pytest.approx(theirs.conjugate(v))
        assert ours.shrink(v) == pytest.approx(theirs.shrink(v))


# ------------------------------------------------------------------------------------ names and input


def test_registry_names_match_the_classes() -> None:
    assert {name: cls.name for name, cls in REGULARIZERS.items()} == {name: name for name in REGULARIZERS}
    assert all(isinstance(get_regularizer(name), cls) for name, cls in REGULARIZERS.items())


def test_an_instance_is_returned_as_it_is() -> None:
    ball = Ball(radius=2.0)
    assert get_regularizer(ball) is ball


@pytest.mark.parametrize(("wrong", "near"), [("L2", "l2"), ("elasticnet", "elastic_net"), ("bal", "ball")])
def test_unknown_name_suggests_the_nearest_and_lists_all(wrong: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        get_regularizer(wrong)
    message = str(caught.value)
    assert f"penalty={wrong!r} is unknown: did you mean {near!r}?" in message
    assert all(name in message for name in REGULARIZERS)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ElasticNet(l1_ratio=1.5), "l1_ratio=1.5 is not allowed"),
        (lambda: ElasticNet(l1_ratio=math.nan), "l1_ratio=nan is not allowed"),
        (lambda: Box(low=1.0, high=1.0), "low=1, high=1 is not allowed"),
        (lambda: Box(low=0.0, high=math.inf), "low=0, high=inf is not allowed"),
        (lambda: Ball(radius=0.0), "radius=0 is not allowed"),
        (lambda: Ball(radius=math.inf), "radius=inf is not allowed"),
    ],
)
def test_parameters_are_checked(build: Callable[[], Regularizer], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()
