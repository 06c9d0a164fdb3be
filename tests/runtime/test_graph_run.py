"""Nodes, delivery and loop of the sample split: neighbours only, one door, one round of stopping, pausing."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from tacit import InputError, Privacy, RunError
from tacit.mechanisms import MECHANISMS
from tacit.mechanisms.base import PrivatePlan
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease
from tacit.privacy.releases import Allowed
from tacit.run import door
from tacit.run.checkpoint import read_checkpoint, write_checkpoint
from tacit.run.graph import GraphRun
from tacit.solvers.consensus import PrivateConsensus, Sent
from tacit.solvers.consensus.base import private_progress
from tacit.topologies import make_graph
from tacit.types import Shard
from tests.plans import sample_plan

ALPHA = 1e-3


def data(nodes, rows=60, d=6, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rows * np.ones(nodes, dtype=int)
    coef = rng.normal(size=d)
    tables = [rng.normal(size=(n, d)) for n in sizes]
    labels = [
        np.where(rng.random(n) < 1 / (1 + np.exp(-X @ coef - 0.5)), 1.0, -1.0)
        for n, X in zip(sizes, tables, strict=True)
    ]
    return tables, labels


def plan_for(graph, tables, **changes):
    settings = {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": ALPHA,
        "fit_intercept": True,
        "method": "none",
        "published": False,
        "rho": "auto",
        "max_rounds": 400,
        "tol": 1e-6,
        "privacy": None,
        "graph": graph,
        "rows": tuple(table.shape[0] for table in tables),
        "columns": tables[0].shape[1],
    }
    return sample_plan(**{**settings, **changes})


def make_run(kind="random", nodes=6, **changes):
    graph = make_graph(kind, nodes)
    tables, labels = data(nodes)
    shards = [Shard(name, table) for name, table in zip(graph.names, tables, strict=True)]
    return GraphRun(plan_for(graph, tables, **changes), shards, labels)


def pooled(tables, labels):
    rows = sum(len(own) for own in labels)
    model = LogisticRegression(C=1 / (ALPHA * rows), tol=1e-12, solver="newton-cholesky", max_iter=500)
    return model.fit(np.vstack(tables), np.concatenate(labels))


@pytest.mark.parametrize(
    ("kind", "nodes"), [("random", 6), ("ring", 9), ("star", 5), ("complete", 4), ("grid", 6), ("ring", 1), ("ring", 2)]
)
def test_every_node_finds_the_pooled_model_and_all_stop_in_the_same_round(kind, nodes):
    result = make_run(kind, nodes, tol=1e-10).go()  # go() itself refuses where some would stop and some not
    assert result.converged
    best = pooled(*data(nodes))
    for node in result.model.parts:
        np.testing.assert_allclose(node.coef, best.coef_[0], atol=2e-5)
        assert -node.offset == pytest.approx(best.intercept_[0], abs=2e-5)


def test_the_gap_is_below_tol_for_the_mean_and_for_every_node():
    for tol in (1e-2, 1e-4, 1e-6):
        run = make_run("ring", 8, tol=tol)
        result = run.go()
        best = pooled(*data(8))
        optimum = sum(node.objective(best.coef_[0], best.intercept_[0]) for node in run.nodes)
        for coef, intercept in [
            (result.model.coef, result.model.intercept),
            *((m.coef, -m.offset) for m in result.model.parts),
        ]:
            value = sum(node.objective(coef, intercept) for node in run.nodes)
            assert -1e-12 < value / optimum - 1 < tol


def test_trace_and_traffic_say_what_was_carried():
    run = make_run("random", 6)
    result = run.go()
    assert [row.round for row in result.trace] == list(range(1, len(result.trace) + 1))
    assert (
        sum(row.bytes_up for row in result.trace) == result.traffic["bytes"] == sum(run.engine.bytes_by_edge.values())
    )
    assert set(run.engine.bytes_by_edge) == {
        (run.plan.graph.names[a], run.plan.graph.names[b]) for a, b in run.plan.graph.edges
    }
    assert all(count > 0 for count in run.engine.bytes_by_edge.values())
    assert math.isinf(result.certificate.epsilon(1e-5))
    assert "neighbours see its model" in str(result.certificate)


# --- who gets what ---------------------------------------------------------------------------------------


def watched(run, monkeypatch):
    """Everything that nodes took in and that passed the door, as bytes."""
    taken, left = [], set()
    leave = door.leave

    def seen_leaving(sender, round_, arrays, kind="step"):
        left.add((sender, round_, *sorted((k, a.tobytes()) for k, a in arrays.items())))
        return leave(sender, round_, arrays, kind)

    monkeypatch.setattr(door, "leave", seen_leaving)
    for node in run.nodes:

        def step(round_, inbox, own=node.side.step, name=node.name):
            for sender, arrays in inbox.items():
                taken.append((name, sender, round_ - 1, *sorted((k, a.tobytes()) for k, a in arrays.items())))
            return own(round_, inbox)

        monkeypatch.setattr(node.side, "step", step)
    return taken, left


def test_a_node_gets_messages_of_its_neighbours_only_and_all_of_them_passed_the_door(monkeypatch):
    run = make_run("random", 8)
    taken, left = watched(run, monkeypatch)
    result = run.go()
    graph = run.plan.graph
    for receiver, sender, *_ in taken:
        assert sender in graph.neighbours(receiver)
    assert len(taken) == (len(result.trace) - 1) * 2 * len(graph.edges)
    assert {tuple(one[1:]) for one in taken} <= left
    raw = b"".join(b"".join(array for _, array in one[3:]) for one in taken)
    for node in run.nodes:  # no row and no vector of labels travels as it is
        assert node.data.labels.tobytes() not in raw
        assert all(row.tobytes() not in raw for row in np.asarray(node.data.rows.matrix))


def test_a_change_at_a_node_is_seen_only_as_far_as_messages_have_travelled():
    graph = make_graph([(k, k + 1) for k in range(5)], 6)  # a path
    tables, labels = data(6)
    other = [tables[0] + 1.0, *tables[1:]]
    shards = [[Shard(name, t) for name, t in zip(graph.names, own, strict=True)] for own in (tables, other)]
    for rounds in (1, 2, 3, 4):
        runs = [GraphRun(plan_for(graph, tables, max_rounds=rounds), one, labels) for one in shards]
        models = [[node.coef for node in run.go().model.parts] for run in runs]
        changed = [not np.array_equal(a, b) for a, b in zip(*models, strict=True)]
        assert changed == [k < rounds for k in range(6)]


def test_sending_to_a_stranger_or_what_is_not_finite_is_refused(monkeypatch):
    run = make_run("ring", 5)
    monkeypatch.setattr(run.nodes[0].side, "step", lambda *_: Sent({}, {"node 3": {"model": np.zeros(2)}}))
    with pytest.raises(RunError, match="'node 3' is no neighbour"):
        run.go()
    run = make_run("ring", 5)
    monkeypatch.setattr(run.nodes[0].side, "step", lambda *_: {"model": np.array([np.nan])})
    with pytest.raises(RunError, match="node 'node 1': model of round 1 is not finite"):
        run.go()


def test_a_node_refuses_messages_that_are_missing_late_or_from_strangers():
    run = make_run("ring", 5)
    run.engine.exchange(1)
    node, inbox = run.nodes[0], dict(run.engine.inboxes["node 1"])
    with pytest.raises(RunError, match="round 2 has no message"):
        node.answer(2, {"node 2": inbox["node 2"]})
    with pytest.raises(RunError, match="expected the message of round 2 from 'node 2'"):
        node.answer(3, inbox)
    stranger = run.engine.inboxes["node 2"]["node 3"]
    with pytest.raises(RunError, match="got one from 'node 3'"):
        node.answer(2, {**inbox, "node 2": stranger})


# --- pausing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pause", [1, 2, 4, 9])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_result(pause, tmp_path):
    unbroken = make_run("random", 6)
    whole = unbroken.go()
    first = make_run("random", 6, max_rounds=pause)
    first.go(checkpoint=lambda run: write_checkpoint(tmp_path / "state.npz", run))
    states, state = read_checkpoint(tmp_path / "state.npz")
    second = make_run("random", 6)
    second.restore(states, state)
    result = second.go()
    assert len(result.trace) == len(whole.trace)
    np.testing.assert_allclose(result.model.coef, whole.model.coef, atol=1e-9)
    assert second.engine.bytes_by_edge == unbroken.engine.bytes_by_edge


# --- private methods plug in -------------------------------------------------------------------------------


class Shouting:
    """A node that releases one noisy number in each round, and adds up what it hears."""

    def __init__(self, problem, place, node_data, settings, release):
        self.value, self.release = float(node_data.labels.sum()), release
        self.heard, self.progress = np.zeros(1), private_progress(0.0)
        self.coef, self.intercept = np.zeros(place.columns), 0.0

    def step(self, round_, inbox):
        self.heard = self.heard + sum(float(arrays["shout"][0]) for arrays in inbox.values())
        return {"shout": self.release.add("shout", [self.value])}

    def finish(self, inbox):
        self.heard = self.heard + sum(float(arrays["shout"][0]) for arrays in inbox.values())

    def state(self):
        return {"heard": self.heard}

    def restore(self, state):
        self.heard = state["heard"]


def private_run(rounds=3, planned=3, nodes=4):
    graph = make_graph("ring", nodes)
    tables, labels = data(nodes)
    event = GaussianRelease(2.0, 5.0, rounds, released="a shout", party="node 1", unit="record")
    certificate = Certificate(
        unit="record",
        claims=(Claim("record", "node 1", "replace-one", "neighbours", (event,), "for this test"),),
        target=Target(8.0, 1e-5),
    )
    private = PrivatePlan(
        Privacy(noise_seed=1),
        MECHANISMS["gaussian"],
        PrivateConsensus("shouting", Shouting),
        SimpleNamespace(row_norm=1.0),
        {name: (Allowed("shout", 5.0, planned),) for name in graph.names},
        certificate,
        rounds,
        {"shout": 5.0},
        ("an outlook",),
    )
    shards = [Shard(name, table) for name, table in zip(graph.names, tables, strict=True)]
    return GraphRun(replace(plan_for(graph, tables), private=private), shards, labels)


def test_a_private_run_goes_its_rounds_and_shows_no_objective():
    run = private_run()
    result = run.go()
    assert len(result.trace) == 3
    assert all(math.isnan(row.objective) for row in result.trace)
    assert result.trace[0].epsilon == result.certificate.epsilon(1e-5) < math.inf
    assert result.outlook == ("an outlook",)
    exact = sum(float(np.sum(own)) for own in (data(4)[1][1], data(4)[1][3]))
    assert run.nodes[0].side.heard[0] != 3 * exact


def test_a_private_node_releases_no_more_than_was_planned():
    with pytest.raises(RunError, match="node 1: shout was released 2 times as planned"):
        private_run(planned=2).go()


def test_noise_of_a_repeated_round_is_the_same_and_of_another_inbox_is_not(tmp_path):
    run = private_run()

    def stop(run):
        write_checkpoint(tmp_path / "state.npz", run)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.go(checkpoint=stop)
    assert run.state.trace[0].bytes_up > 0
    said = [run.nodes[0].answer(2, run.engine.inboxes["node 1"])["node 2"].arrays["shout"][0]]
    again = private_run()
    again.restore(*read_checkpoint(tmp_path / "state.npz"))
    said.append(again.nodes[0].answer(2, again.engine.inboxes["node 1"])["node 2"].arrays["shout"][0])
    assert said[0] == said[1]
    third = private_run()
    third.restore(*read_checkpoint(tmp_path / "state.npz"))
    inbox = dict(third.engine.inboxes["node 1"])
    inbox["node 2"] = replace(inbox["node 2"], arrays={"shout": np.array([7.0])})
    assert third.nodes[0].answer(2, inbox)["node 2"].arrays["shout"][0] != said[0]


# --- what a plan refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method='magic' is unknown: choose one of auto, none"),
        ({"rho": -1}, 'rho=-1 is not allowed: it must be positive, or "auto"'),
        ({"rows": (1, 0, 3)}, "node 2 has no rows"),
        ({"rows": (1, 3)}, "graph has 3 nodes: the data have 2"),
        ({"loss": "hinge"}, "loss='hinge' has a kink"),
        ({"loss": "sigmoid"}, "loss='sigmoid' is not convex"),
        ({"penalty": "l1"}, "penalty='l1' is not available in the sample split"),
        ({"max_rounds": 0}, "max_rounds=0 is not allowed"),
        ({"published": 1}, "published=1 is not allowed: it must be True or False"),
        ({"alpha": -1}, "alpha=-1 is not allowed"),
        ({"privacy": 3}, "privacy=3 is not allowed: give tacit.Privacy"),
        ({"privacy": Privacy(), "sizes": (1.0, 2.0, 3.0)}, "sample_weight is not available with privacy"),
        ({"privacy": Privacy(), "method": "none"}, "method='none' has no privacy to offer"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(InputError, match=message) as refusal:
        plan_for(make_graph("ring", 3), data(3)[0], **changes)
    assert "\n" not in str(refusal.value)


def test_many_columns_and_sparse_rows_agree_with_the_pooled_fit():
    rng = np.random.default_rng(0)
    graph, d = make_graph("random", 5), 2000
    tables = [sparse.random_array((60, d), density=0.02, format="csr", random_state=rng) for _ in range(5)]
    labels = [np.where(rng.random(60) < 0.5, 1.0, -1.0) for _ in range(5)]
    shards = [Shard(name, table) for name, table in zip(graph.names, tables, strict=True)]
    result = GraphRun(plan_for(graph, tables, alpha=1e-2, tol=1e-8), shards, labels).go()
    assert result.converged
    best = LogisticRegression(C=1 / (1e-2 * 300), tol=1e-10, solver="newton-cg").fit(
        sparse.vstack(tables), np.concatenate(labels)
    )
    np.testing.assert_allclose(result.model.coef, best.coef_[0], atol=1e-4)
