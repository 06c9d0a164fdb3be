"""The parts of consensus ADMM: local solves, sums along a tree, flooded maxima, tuning, metrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from tacit.blocks import SeveralBlock
from tacit.blocks.dense import Block
from tacit.problem.losses.logistic import Softmax
from tacit.problem.registry import LOSSES, get_loss
from tacit.solvers.consensus import NodeData
from tacit.solvers.consensus import local as local_module
from tacit.solvers.consensus.admm import EXACT, FULL, DenseMetric, LowRankMetric, joint_metric, own_part, tune
from tacit.solvers.consensus.base import UNKNOWN, Flood, TreeSum
from tacit.solvers.consensus.local import LocalProblem
from tacit.topologies import make_graph

SMOOTH = sorted(name for name, loss in LOSSES.items() if loss.smooth and loss.convex)


def labels_for(name, rng, n):
    task = get_loss(name).task
    if task == "classification":
        return np.where(rng.random(n) < 0.4, 1.0, -1.0)
    counts = rng.poisson(2.0, size=n).astype(float)
    return rng.normal(size=n) if task == "regression" else counts + (0.5 if name == "gamma" else 0.0)


def problem(name="logistic", n=40, d=5, *, intercept=True, weights=False, as_sparse=False):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    rows = Block(sparse.csr_array(X) if as_sparse else X)
    data = NodeData(rows, labels_for(name, rng, n), rng.random(n) if weights else None)
    return LocalProblem(data, get_loss(name), 1.0 / n, 0.01, intercept), rng


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_local_solve_agrees_with_scipy(name, weights, intercept):
    local, rng = problem(name, weights=weights, intercept=intercept)
    linear, centre = 0.1 * rng.normal(size=(2, local.size))
    data, loss = local.data, local.loss

    def whole(w):
        scores = data.rows.predict(w[:5]) + (w[5] if intercept else 0.0)
        own = np.ones(40) if data.weights is None else data.weights
        far = w - centre
        return own @ loss.value(scores, data.labels) / 40 + 0.005 * w[:5] @ w[:5] + linear @ w + 0.15 * far @ far

    solved = local.solve(linear, 0.3, centre, 1e-10)
    assert solved.gradient_norm <= 1e-10
    found = optimize.minimize(whole, centre, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(solved.point, found, atol=2e-6)


def test_a_solve_that_rounding_has_stopped_ends():
    """Weights that differ by ten millions: steps of a billionth bring nothing, and were once taken a hundred times."""
    rng, y = np.random.default_rng(1), np.arange(15.0) % 3
    X = rng.normal(size=(15, 2)) + 2 * np.array([[0, 0], [1, 2], [3, 0]])[y.astype(int)]
    data = NodeData(SeveralBlock(Block(X), 3), y, np.where(y == 0, 1e3, 1e-4))
    local = LocalProblem(data, Softmax(3), 5e-5, 1e-6, True)
    start = np.full(local.size, 3.0)
    solved = local.solve(np.zeros(local.size), 1e-6, start, 0.0)
    assert solved.steps < 60
    assert solved.gradient_norm < 1e-7 * np.linalg.norm(local.gradient(start))


def test_stated_gradient_norm_is_the_gradient_norm():
    local, rng = problem()
    linear, centre = rng.normal(size=(2, local.size))
    solved = local.solve(linear, 0.3, centre, 0.0, relative=0.5)
    numeric = optimize.approx_fprime(
        solved.point, lambda w: local.value(w) + linear @ w + 0.15 * (w - centre) @ (w - centre)
    )
    assert solved.gradient_norm == pytest.approx(float(np.linalg.norm(numeric)), rel=1e-3)


def test_every_form_of_the_pull_is_the_same():
    local, rng = problem()
    linear, centre = rng.normal(size=(2, local.size))
    columns = rng.normal(size=(local.size, 2))
    low = LowRankMetric(columns, 0.3)
    forms = [low, low.dense(), columns @ columns.T + 0.3 * np.eye(local.size)]
    points = [local.solve(linear, pull, centre, 1e-11).point for pull in forms]
    np.testing.assert_allclose(points[0], points[1], atol=1e-9)
    np.testing.assert_allclose(points[0], points[2], atol=1e-9)
    number = [local.solve(linear, pull, centre, 1e-11).point for pull in (0.7, np.full(local.size, 0.7))]
    np.testing.assert_allclose(number[0], number[1], atol=1e-9)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_conjugate_gradients_find_the_same_point(monkeypatch, as_sparse):
    local, rng = problem(as_sparse=as_sparse)
    linear, centre = rng.normal(size=(2, local.size))
    pull = LowRankMetric(rng.normal(size=(local.size, 2)), 0.1)
    direct = local.solve(linear, pull, centre, 1e-11)
    monkeypatch.setattr(local_module, "WIDE", 0)
    by_products = problem(as_sparse=as_sparse)[0].solve(linear, pull, centre, 1e-11)
    assert by_products.gradient_norm <= 1e-11
    np.testing.assert_allclose(direct.point, by_products.point, atol=1e-9)


def test_a_far_start_is_brought_back_by_backtracking():
    local, rng = problem("poisson")
    solved = local.solve(np.zeros(local.size), 0.1, np.zeros(local.size), 1e-9, 3.0 * rng.normal(size=local.size))
    assert solved.gradient_norm <= 1e-9


@pytest.mark.parametrize(("kind", "nodes"), [("random", 10), ("ring", 7), ("star", 5), ("complete", 4), ("ring", 1)])
def test_a_sum_reaches_every_node_in_the_same_round(kind, nodes):
    graph = make_graph(kind, nodes)
    values = np.random.default_rng(0).normal(size=(nodes, 3))
    sums = [TreeSum(graph, name) for name in graph.names]
    inboxes = {name: {} for name in graph.names}
    results = {}
    for round_ in range(4, 4 + 2 * nodes + 2):
        sent = {}
        for name, value, one in zip(graph.names, values, sums, strict=True):
            if round_ == 5:
                one.begin(round_, value)
            out = one.step(round_, inboxes[name])
            assert set(out) <= set(graph.neighbours(name))
            sent[name] = out
            total = one.result(round_)
            if total is not None:
                results[name] = (round_, total)
        inboxes = {name: {other: out[name] for other, out in sent.items() if name in out} for name in graph.names}
    assert {when for when, _ in results.values()} == {5 + sums[0].rounds}
    assert len(results) == nodes
    assert len({total.tobytes() for _, total in results.values()}) == 1
    np.testing.assert_allclose(results[graph.names[0]][1], values.sum(axis=0), atol=1e-14)


@pytest.mark.parametrize(("kind", "nodes"), [("random", 10), ("ring", 9), ("star", 6), ("ring", 1)])
def test_flooded_maxima_are_those_of_diameter_rounds_ago_at_every_node(kind, nodes):
    graph = make_graph(kind, nodes)
    numbers = np.random.default_rng(0).random((40, nodes, 2))
    floods = [Flood(graph.diameter, 2) for _ in graph.names]
    messages = [flood.message for flood in floods]
    for t, own in enumerate(numbers):
        last, messages = messages, []
        seen = [f.step(own[k], [last[j] for j in graph.adjacent[k]]) for k, f in enumerate(floods)]
        messages = [flood.message for flood in floods]
        wanted = numbers[t - graph.diameter].max(axis=0) if t >= graph.diameter else np.full(2, UNKNOWN)
        assert all(np.array_equal(one, wanted) for one in seen)


def averaged(graph, eta, relaxation, parts, rounds):
    """Distance from the mean after plain ADMM on scalar quadratics, by the formulas and no matrix."""
    rng = np.random.default_rng(0)
    goal, dual = rng.normal(size=graph.nodes), np.zeros(graph.nodes)
    target, degrees = np.zeros(graph.nodes), np.array(graph.degrees)
    mean = parts @ goal / parts.sum()
    for _ in range(rounds):
        w = (parts * goal + 2 * eta * target - 2 * dual) / (parts + 2 * eta * degrees)
        near = np.array([sum(w[j] for j in own) for own in graph.adjacent])
        dual += 0.5 * relaxation * eta * (degrees * w - near)
        target = relaxation * 0.5 * (degrees * w + near) + (1 - relaxation) * target
    return float(np.abs(w - mean).max())


@pytest.mark.parametrize(("kind", "nodes"), [("random", 10), ("ring", 20), ("star", 8), ("complete", 6)])
@pytest.mark.parametrize("equal", [True, False])
def test_the_promised_rate_is_the_one_seen_and_hard_to_beat(kind, nodes, equal):
    graph = make_graph(kind, nodes)
    sizes = tuple(np.ones(nodes)) if equal else tuple(np.linspace(1, 20, nodes))
    found = tune(graph, sizes)
    parts = np.array(sizes) / sum(sizes)
    rounds = int(np.log(1e-9) / np.log(found.rate))
    ours = averaged(graph, found.eta, found.relaxation, parts, rounds)
    assert ours < 1e-6
    for factor in (0.2, 5.0):
        assert ours < averaged(graph, factor * found.eta, found.relaxation, parts, rounds)


@pytest.mark.parametrize("kind", ["ring", "complete", "star", "grid"])
@pytest.mark.parametrize("nodes", [4, 6, 9, 12, EXACT + 4])
def test_nodes_whose_processors_round_differently_choose_the_same_penalty(kind, nodes, monkeypatch):
    """On regular graphs several penalties have the same rate: the last bits must not decide between them."""
    graph, sizes = make_graph(kind, nodes), (1.0,) * nodes
    there = tune(graph, sizes)
    rng = np.random.default_rng(0)
    exact = np.linalg.eigvals
    monkeypatch.setattr(np.linalg, "eigvals", lambda a: exact(a) * (1 + 1e-9 * rng.standard_normal()))
    for _ in range(5):
        tune.cache_clear()
        here = tune(graph, sizes)
        assert (here.eta, here.relaxation) == (there.eta, there.relaxation)
        assert here.rate == pytest.approx(there.rate, abs=1e-7)
    tune.cache_clear()


def test_large_graphs_are_tuned_by_their_spectrum_alone():
    graph = make_graph("ring", EXACT + 4)  # regular, so that the short cut is exact
    small = tune(make_graph("ring", EXACT), (1.0,) * EXACT)
    large = tune(graph, (1.0,) * graph.nodes)
    assert large.rate == pytest.approx(small.rate, abs=0.02)
    parts = np.full(graph.nodes, 1.0 / graph.nodes)
    rounds = int(np.log(1e-9) / np.log(large.rate))
    assert averaged(graph, large.eta, large.relaxation, parts, rounds) < 1e-6


def test_the_metric_is_the_joint_curvature():
    first, second = problem()[0], problem("squared", n=30)[0]
    w = np.full(first.size, 0.3)
    metric = joint_metric(own_part(first, w, 0) + own_part(second, w, 0), first.size, 0.02, 0)
    assert isinstance(metric, DenseMetric)
    np.testing.assert_allclose(metric.matrix, first.hessian(w) + second.hessian(w), rtol=1e-8)


def test_the_metric_of_many_columns_has_the_largest_directions():
    rng = np.random.default_rng(0)
    d = FULL + 50
    X = rng.normal(size=(200, 20)) @ rng.normal(size=(20, d)) + 0.01 * rng.normal(size=(200, d))
    node = NodeData(Block(X), labels_for("logistic", rng, 200))
    local = LocalProblem(node, get_loss("logistic"), 1 / 200, 1e-3, False)
    zero = np.zeros(d)
    metric = joint_metric(own_part(local, zero, 5), d, 1e-3, 5)
    assert isinstance(metric, LowRankMetric)
    hessian = local.hessian(zero)
    np.testing.assert_allclose(local.hessian_times(zero, np.eye(d)[:, :3]), hessian[:, :3], atol=1e-10)
    seen = np.linalg.eigvalsh(np.linalg.solve(metric.dense(), hessian))
    assert seen.max() < 2
    top = np.linalg.eigh(hessian)[1][:, -15:]
    ratio = np.diag(top.T @ hessian @ top) / np.diag(top.T @ metric.dense() @ top)
    np.testing.assert_allclose(ratio, 1.0, atol=0.05)
    v = rng.normal(size=d)
    np.testing.assert_allclose(metric.times(metric.solve(v)), v, atol=1e-6)
