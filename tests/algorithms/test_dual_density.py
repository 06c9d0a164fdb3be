"""Dual variable perturbation: the exact ratio of the densities of a model under neighbouring data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.mechanisms.perturbed import NOISE, at_round
from tacit.mechanisms.perturbed.dual import dual_round, published_round
from tacit.mechanisms.perturbed.plan import bounds
from tacit.plan import Plan
from tacit.types import Vector
from tests.algorithms.paper_nodes import Scripted, heard, plan, side


def planned_rate(made: Plan, round_: int, node: int = 0) -> float:
    assert made.private is not None
    planned = made.private.releases[made.graph.names[node]]
    return next(one.rate for one in planned if one.name == at_round(NOISE, round_))  # type: ignore[union-attr]


def needed_noise(made: Plan, X: Vector, y: Vector, own: Vector, others: Vector, dual: Vector, f: Vector) -> Any:
    """(noise that makes f the minimiser, Jacobian of f -> noise), from the definition alone."""
    assert made.private is not None
    n = made.private.settings.nodes[made.graph.names[0]]
    degree = len(made.graph.neighbours(made.graph.names[0]))
    extra = n.extra[1] if n.extra else 0.0
    margin = y * (X @ f)
    slopes = -y / (1 + np.exp(np.clip(margin, -700, 700)))
    bends = 1 / (2 + np.exp(np.clip(margin, -700, 700)) + np.exp(np.clip(-margin, -700, 700)))
    per_row, pull = n.weight / len(y), n.ridge + extra + 2 * n.penalty * degree
    gradient = per_row * X.T @ slopes + pull * f + 2 * dual - n.penalty * (degree * own + others)
    jacobian = (X.T * bends) @ X + pull / per_row * np.eye(len(f))
    return -gradient / per_row, jacobian


def log_ratio(made: Plan, rate: float, data: Any, other: Any, own: Vector, heard_: Vector, f: Vector) -> float:
    """log of density(f | data) / density(f | other) of the model of round 2, after checking it against the code."""
    n = made.private.settings.nodes[made.graph.names[0]]  # type: ignore[union-attr]
    degree = len(made.graph.neighbours(made.graph.names[0]))
    dual = 0.5 * n.penalty * degree * (own - heard_)
    logs, norms = [], []
    for X, y in (data, other):
        noise, jacobian = needed_noise(made, X, y, own, degree * heard_, dual, f)
        node = side(made, X, y, Scripted(draw=lambda name, size, noise=noise: noise))
        node.released = own
        node.step(2, heard(made, heard_))
        assert node.model == pytest.approx(f, abs=1e-6 * (1 + np.linalg.norm(f)))
        logs.append(np.linalg.slogdet(jacobian)[1])
        norms.append(float(np.linalg.norm(noise)))
    return float(rate * (norms[1] - norms[0]) + logs[0] - logs[1])


def worst_pair(rows: int, rng: np.random.Generator) -> tuple[Any, Any, Vector]:
    """Data in which one row's gradient turns round completely, at a model far out."""
    X = np.zeros((rows, 2))
    away = 0.05
    X[0] = (-away, math.sqrt(1 - away**2))
    other = X.copy()
    other[0, 1] *= -1
    y = np.ones(rows)
    return (X, y), (other, y), np.array([1e3, 0.0])


def aimed(made: Plan, data: Any, f: Vector, along: Vector) -> Vector:
    """A neighbour's model that makes the noise needed for f point along a vector."""
    assert made.private is not None
    zero = np.zeros(2)
    n = made.private.settings.nodes[made.graph.names[0]]
    noise, _ = needed_noise(made, *data, zero, zero, zero, f)
    per_row = n.weight / len(data[1])
    # linear = 2 lambda - eta (own + other) = -2 eta other, for own = 0 and one neighbour
    return (along - noise) * per_row / (2 * n.penalty)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_the_worst_pair_reaches_alpha_and_never_more(alpha: float) -> None:
    made = plan(options={"alphas": alpha, "rounds": 2}, privacy={"epsilon": 100.0})
    data, other, f = worst_pair(50, np.random.default_rng(0))
    target = aimed(made, data, f, np.array([0.0, 30.0]))
    rate = planned_rate(made, 2)
    found = max(log_ratio(made, rate, a, b, np.zeros(2), target, f) for a, b in ((data, other), (other, data)))
    assert 0.9 * alpha - 0.03 < found <= alpha


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_half_the_noise_is_caught(alpha: float) -> None:
    made = plan(options={"alphas": alpha, "rounds": 2}, privacy={"epsilon": 100.0})
    data, other, f = worst_pair(50, np.random.default_rng(0))
    target = aimed(made, data, f, np.array([0.0, 30.0]))
    rate = 2 * planned_rate(made, 2)
    assert (
        max(log_ratio(made, rate, a, b, np.zeros(2), target, f) for a, b in ((data, other), (other, data)))
        > 1.5 * alpha
    )


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_the_printed_noise_is_caught_and_its_certificate_says_twice_as_much(alpha: float) -> None:
    made = plan(options={"alphas": alpha, "rounds": 2}, published=True, alpha=1.0)
    data, other, f = worst_pair(50, np.random.default_rng(0))
    target = aimed(made, data, f, np.array([0.0, 30.0]))
    rate = planned_rate(made, 2)
    found = max(log_ratio(made, rate, a, b, np.zeros(2), target, f) for a, b in ((data, other), (other, data)))
    assert found > 1.5 * alpha
    certificate = made.certificate()
    assert certificate.epsilon(0.0) == pytest.approx(2 * certificate.main_claims[0].events[0].epsilon)  # type: ignore[attr-defined]
    assert 2 * found <= certificate.epsilon(0.0)  # two rounds
    assert "alpha" in certificate.published_claim
    assert certificate.target.epsilon is None


@pytest.mark.parametrize("seed", range(4))
def test_no_random_pair_exceeds_alpha(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        rows, columns = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        alpha = float(rng.choice([0.05, 0.3, 1.0, 4.0]))
        made = plan(
            rows=(rows, rows),
            columns=columns,
            alpha=float(rng.choice([1e-3, 0.1, 2.0])),
            rho=float(rng.choice([1e-3, 0.1, 2.0])),
            options={"alphas": alpha, "rounds": 2},
            privacy={"epsilon": 100.0},
        )
        X = rng.normal(size=(rows, columns))
        X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
        y = rng.choice([-1.0, 1.0], rows)
        other, flipped = X.copy(), y.copy()
        row = rng.normal(size=columns)
        other[0], flipped[0] = row / np.linalg.norm(row), rng.choice([-1.0, 1.0])
        f, own, heard_ = (rng.normal(size=columns) * 10 ** rng.uniform(-1, 1.3) for _ in range(3))
        found = log_ratio(made, planned_rate(made, 2), (X, y), (other, flipped), own, heard_, f)
        assert abs(found) <= alpha * (1 + 1e-9)


def test_extra_curvature_comes_in_where_the_volume_would_take_too_much() -> None:
    made = plan(rows=(2, 2), alpha=1e-3, rho=1e-3, options={"alphas": 0.5, "rounds": 1}, privacy={"epsilon": 100.0})
    assert made.private is not None
    node = bounds(made.private.privacy, made.problem, made.samples, "dual", None)[0]
    one = dual_round(node, 0.5)
    assert one.extra > 0
    assert one.volume == pytest.approx(0.5 / (2 * math.sqrt(2)))  # two columns
    assert one.rate * node.change == pytest.approx(0.5 - one.volume)
    wide = dual_round(replace(node, rows=10**6), 0.5)
    assert wide.extra == 0
    assert wide.rate * node.change == pytest.approx(0.5, rel=1e-4)
    printed = published_round(node, 0.5)
    assert printed.rate == pytest.approx(0.25 / (node.change / 2))
    # phi of Algorithm 2: c1 / ((B/C)(e^(alpha/4) - 1)) - rho - 2 eta N_p
    assert printed.extra == pytest.approx(0.25 * node.per_row / math.expm1(0.125) - node.modulus)
    assert one.extra < printed.extra
