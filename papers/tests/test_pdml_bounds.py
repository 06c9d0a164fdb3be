"""Learning bounds of pdml: by hand, by what they must do, and against simulated runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.topologies import Graph, make_graph
from tacit.types import Vector
from tacit_papers.pdml.bounds import (
    Contraction,
    LearningTask,
    contraction,
    data_term,
    optimum_bound,
    published_run_bound,
    run_bound,
    run_term,
)

TASK = LearningTask((100, 400), radius=2.0, length=1.0, label_epsilon=math.log(3))


def simulate(graph: Graph, centres: Vector, curvature: float, beta: float, rounds: int, noise: Vector) -> list[Vector]:
    """Iterations (15) to (17) for J_i(w) = curvature/2 |w - centre_i|^2: models before noise, of every round."""
    degrees = np.array(graph.degrees, dtype=float)[:, None]
    adjacency = np.zeros((graph.nodes, graph.nodes))
    for a, b in graph.edges:
        adjacency[a, b] = adjacency[b, a] = 1.0
    noisy, dual, found = np.zeros_like(centres), np.zeros_like(centres), []
    for k in range(rounds):
        pulled = beta * (degrees * noisy + adjacency @ noisy)
        exact = (curvature * centres - dual + pulled) / (curvature + 2 * beta * degrees)
        noisy = exact + noise[k]
        dual = dual + beta * (degrees * noisy - adjacency @ noisy)
        found.append(exact)
    return found


def objective(models: Vector, centres: Vector, curvature: float) -> float:
    return 0.5 * curvature * float(np.sum((models - centres) ** 2))


def test_data_term_by_hand():
    # (3 + 1)/(3 - 1) = 2; complexities 2/10 and 2/20; c1 = ln(1 + e^2)
    loss = math.log(1 + math.exp(2.0))
    printed = (
        4
        * 2
        * (0.2 + 2 * loss * math.sqrt(2 * math.log(80) / 100) + 0.1 + 2 * loss * math.sqrt(2 * math.log(80) / 400))
    )
    assert data_term(TASK, 0.05, published=True) == pytest.approx(printed, rel=1e-12)
    proven = 4 * 2 * (0.3 + 2 * loss * math.sqrt(2 * math.log(320)) * (0.1 + 0.05))
    assert data_term(TASK, 0.05) == pytest.approx(proven, rel=1e-12)


def test_corollaries_by_hand():
    assert optimum_bound(TASK, 0.1) == pytest.approx(data_term(TASK, 0.1) / 2)
    more = optimum_bound(TASK, 0.1, columns=3, ridge=0.5, objective_noise=2.0) - optimum_bound(TASK, 0.1)
    assert more == pytest.approx(3 * 4 / (2 * 0.5) / 2)
    printed = optimum_bound(TASK, 0.1, ridge=0.5, objective_noise=2.0, published=True)
    assert printed == pytest.approx(data_term(TASK, 0.1, published=True) / 2 + 4 / (2 * 0.5))


def test_run_term_by_hand():
    ring = make_graph("ring", 4)  # 4 edges, every degree 2
    # beta/t (2 E W^2 + d sum N V^2 (1 + r + r^2))
    assert run_term(ring, 3, 0.6, 1.5, 5, 0.2, 0.5) == pytest.approx(0.2 * (2 * 4 * 2.25 + 5 * 4 * 2 * 0.04 * 1.75))
    assert run_term(ring, 3, 0.6, 1.5, 5, 0.2, 1.0) == pytest.approx(0.2 * (18 + 5 * 4 * 2 * 0.04 * 3))


def test_bounds_fall_with_rows_rounds_and_label_epsilon_and_rise_with_noise():
    ring = make_graph("ring", 3)

    def bound(rows=1000, epsilon=1.0, **changes):
        chosen = {"rounds": 10, "penalty": 0.1, "columns": 4, "first_sds": 0.1, "decay": 0.9, **changes}
        return run_bound(LearningTask((rows,) * 3, 2.0, label_epsilon=epsilon), ring, **chosen)

    assert bound(rows=4000) < bound() < bound(rows=500)
    assert bound(epsilon=2.0) < bound() < bound(epsilon=0.5)
    assert bound(rounds=40) < bound() < bound(first_sds=0.2)
    assert bound() < bound(decay=1.0)
    assert bound() < bound(objective_noise=0.1)
    assert bound() < bound(failure=0.001)


@pytest.mark.parametrize("kind", ["ring", "complete", "star"])
@pytest.mark.parametrize("decay", [0.8, 1.0])
def test_run_term_holds_and_is_not_far_off(kind, decay):
    graph, rounds, columns, sd, beta, curvature = make_graph(kind, 6), 12, 3, 0.4, 0.5, 0.2
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, columns))
    best = np.tile(centres.mean(axis=0), (6, 1))
    gaps = []
    for _ in range(400):
        scale = sd * decay ** (np.arange(rounds) / 2)
        noise = scale[:, None, None] * rng.normal(size=(rounds, 6, columns))
        mean = np.mean(simulate(graph, centres, curvature, beta, rounds, noise), axis=0)
        gaps.append(objective(mean, centres, curvature) - objective(best, centres, curvature))
    bound = run_term(graph, rounds, beta, float(np.linalg.norm(best[0])), columns, sd, decay)
    error = 4 * np.std(gaps) / math.sqrt(len(gaps))
    assert np.mean(gaps) + error <= bound
    assert bound < 60 * max(np.mean(np.abs(gaps)), 0.02)


def test_run_term_is_needed_in_full():
    """Without the noise term the bound fails: the noise is not free."""
    graph, rounds, sd, beta = make_graph("complete", 4), 8, 5.0, 0.3
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(4, 2))
    best = np.tile(centres.mean(axis=0), (4, 1))
    gaps = [
        objective(
            np.mean(simulate(graph, centres, 1.0, beta, rounds, sd * rng.normal(size=(rounds, 4, 2))), axis=0),
            centres,
            1.0,
        )
        - objective(best, centres, 1.0)
        for _ in range(300)
    ]
    radius = float(np.linalg.norm(best[0]))
    assert (
        run_term(graph, rounds, beta, radius, 2, 0.0, 1.0)
        < np.mean(gaps)
        < run_term(graph, rounds, beta, radius, 2, sd, 1.0)
    )


def test_whole_bound_holds_for_logistic_regression():
    """Rows from a known distribution: the gap of a fitted model is below the bound, which is loose."""
    rng = np.random.default_rng(2)
    truth, rows = np.array([1.5, -1.0]), 4000

    def drawn(count):
        X = rng.normal(size=(count, 2))
        X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
        return X, np.where(rng.random(count) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)

    from scipy.optimize import minimize

    def fit(X, y):
        return minimize(lambda w: np.logaddexp(0, -y * (X @ w)).mean() + 5e-4 * w @ w, np.zeros(2)).x

    X_all, y_all = drawn(200_000)
    ideal, model = fit(X_all, y_all), fit(*drawn(rows))
    risk = [np.logaddexp(0, -y_all * (X_all @ w)).mean() + 5e-4 * w @ w for w in (model, ideal)]
    bound = optimum_bound(LearningTask((rows,), radius=3.0), 0.05)
    assert 0 <= risk[0] - risk[1] <= bound
    assert bound > 10 * (risk[0] - risk[1])


# --- as printed --------------------------------------------------------------------------------------


def test_contraction_by_hand():
    # complete graph of 60: L+ has 118 and 58, L- has 60, so that sigma_min(Q)^2 = 30; degrees 59
    found = contraction(
        make_graph("complete", 60), strong=0.01, smooth=0.02, b=0.02, lambda1=11.0, lambda2=3.0, alpha=1e-3
    )
    low, high, phi = 3364.0, 13924.0, 10 / 11 * 2 * 0.01 * 30 * 3364 / (0.0004 * 3364 + 0.02 * 13924)
    assert found.phi == pytest.approx(phi)
    assert found.m1 == pytest.approx(0.02 * (1 + phi) * low * 2 / 3 / (4 * 0.02 * low * 2 / 3 + 16 * 59**2))
    assert found.m2 == pytest.approx((0.98 * (1 + phi) * low - high) / (4 * high + 4 * 0.98 * low))
    assert found.lambda3 == pytest.approx(1 + 0.02 * high / (0.0004 * low))
    lambda4 = 1 + math.sqrt((0.0004 * low + 0.02 * high) / (1e-3 * found.lambda3 * 0.0004 * low))
    assert found.lambda4 == pytest.approx(lambda4)
    assert found.beta == pytest.approx(
        math.sqrt(11 * found.lambda3 * (lambda4 - 1) * 0.0004 / (lambda4 * 10 * high * 30))
    )
    assert found.rate == pytest.approx(1.004 * high / (0.98 * (1 + phi - 0.004) * low))
    assert found.start_weight(2.0, 3.0) == pytest.approx(2 + 12 / (1.004 * high))
    with pytest.raises(InputError, match="alpha"):
        contraction(make_graph("complete", 60), strong=0.01, smooth=0.02, alpha=1.0)


@pytest.mark.parametrize(
    "graph",
    [make_graph(kind, nodes) for kind in ("ring", "star", "complete") for nodes in (3, 4, 10, 20)]
    + [make_graph("random", 10, seed) for seed in range(20)],
)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-9])
def test_condition_25_fails_on_the_papers_graphs_and_many_others(graph, scale):
    """Ten servers and 13 links among them; the best b, lambda1 and condition number change nothing."""
    with pytest.raises(InputError, match="condition"):
        contraction(graph, scale, scale, b=1e-9, lambda1=1e9)


def admissible() -> tuple[Graph, float, Contraction]:
    graph, scale = make_graph("complete", 60), 1e-6
    return graph, scale, contraction(graph, scale, scale)


def test_lemma_5_is_false_as_printed():
    """Noise-free quadratics of tiny scale: the distance is far above C^t H1, at the prescribed beta."""
    graph, scale, lemma = admissible()
    assert lemma.rate < 0.9
    assert 2 * 59 * lemma.beta > 100 * scale  # the pull of the neighbours against the objective
    rng = np.random.default_rng(0)
    centres = 5.0 + rng.normal(size=(60, 1))
    best = np.full_like(centres, centres.mean())
    rounds = 60
    models = simulate(graph, centres, scale, lemma.beta, rounds, np.zeros((rounds, 60, 1)))
    # r_opt: Q r = -grad/(2 beta), on the complements of the constants, where Q^2 = 30
    gradient = scale * (best - centres)
    start = lemma.start_weight(float(np.sum(best**2)), float(np.sum(gradient**2)) / (4 * lemma.beta**2 * 30))
    assert float(np.sum((models[-1] - best) ** 2)) > 1e3 * lemma.rate**rounds * start


def test_lemma_5_changes_with_the_unit_of_the_objective():
    graph = make_graph("complete", 60)
    one, other = (contraction(graph, scale, scale) for scale in (1e-2, 1e-6))
    assert other.beta / one.beta > 10 * 1e-4  # the same run would need beta in the same proportion


def test_published_run_bound_asks_for_a_fast_decay():
    graph, _, lemma = admissible()
    task = LearningTask((100,) * 60, 1.0)
    chosen = {"rounds": 5, "columns": 2, "first_sds": 0.1, "ridge": 1.0, "objective_noise": 0.0, "start": (1.0, 0.0)}
    with pytest.raises(InputError, match="rho < C"):
        published_run_bound(task, graph, lemma, decay=0.999999, **chosen)
    assert published_run_bound(task, graph, lemma, decay=lemma.rate / 2, **chosen) > data_term(
        task, 0.05, published=True
    )


@pytest.mark.parametrize("wrong", [{"rows": ()}, {"rows": (0,)}, {"radius": 0.0}, {"label_epsilon": -1.0}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError):
        LearningTask(**{"rows": (10,), "radius": 1.0, **wrong})
