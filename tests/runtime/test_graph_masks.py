"""Masks on a star: what the middle sees, that only the sum comes out, and that keys are never used again."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import RunError
from tacit.privacy.request import Privacy
from tacit.run.graph import GraphRun
from tacit.run.node import agree_on_masks
from tacit.solvers.consensus.base import TOGETHER, UP
from tacit.topologies import make_graph
from tacit.types import Message, Shard
from tests.plans import sample_plan


def make_run() -> GraphRun:
    rows = (30, 40, 50, 60)
    plan = sample_plan(
        loss="logistic",
        penalty="l2",
        alpha=0.0,
        fit_intercept=True,
        method="gaussian",
        published=False,
        rho="auto",
        max_rounds=4,
        tol=1e-4,
        privacy=Privacy(epsilon=1.0),
        graph=make_graph("star", 4),
        rows=rows,
        columns=3,
        secure_aggregation=True,
    )
    rng = np.random.default_rng(0)
    shards = [Shard(name, rng.normal(size=(m, 3))) for name, m in zip(plan.graph.names, rows, strict=True)]
    return GraphRun(plan, shards, [rng.choice([-1.0, 1.0], m) for m in rows])


def test_the_middle_reads_the_sum_and_nothing_else() -> None:
    run = make_run()
    middle, leaves = run.nodes[0], run.nodes[1:]
    for round_ in (1, 3, 5):
        run.engine.exchange(round_)
        inbox = run.engine.inboxes[middle.name]
        told = {leaf.name: leaf.sent.to_one[middle.name][UP] for leaf in leaves}
        for leaf in leaves:
            seen = inbox[leaf.name].arrays[UP]
            assert seen.dtype == np.uint64
            # uniform words: about half of all bits are set, whatever hides below
            bits = np.unpackbits(seen.view(np.uint8))
            assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
        opened = middle.masks.open(inbox)  # type: ignore[union-attr]
        assert all(UP not in opened[leaf.name].arrays for leaf in leaves)
        np.testing.assert_array_equal(opened[TOGETHER].arrays[UP], sum(told.values()))  # exact: all on one grid
        run.engine.exchange(round_ + 1)


def test_a_sum_that_lacks_one_part_is_refused() -> None:
    run = make_run()
    run.engine.exchange(1)
    middle = run.nodes[0]
    inbox = dict(run.engine.inboxes[middle.name])
    inbox["node 2"] = Message("node 2", 1, {})
    with pytest.raises(RunError, match="some node sent nothing"):
        middle.masks.open(inbox)  # type: ignore[union-attr]


def test_masks_of_other_keys_do_not_cancel() -> None:
    run = make_run()
    run.engine.exchange(1)
    middle = run.nodes[0]
    inbox = dict(run.engine.inboxes[middle.name])
    agree_on_masks(run.nodes)
    leaf = run.nodes[2]
    inbox[leaf.name] = leaf._send(1, leaf.sent, leaf._seen())[middle.name]
    with pytest.raises(RunError, match="did not cancel"):
        middle.masks.open(inbox)  # type: ignore[union-attr]


def test_a_run_that_goes_on_draws_new_keys_and_hides_the_same_value_anew() -> None:
    run = make_run()
    run.engine.exchange(1)
    middle, leaf = run.nodes[0], run.nodes[1]
    before = np.array(run.engine.inboxes[middle.name][leaf.name].arrays[UP])
    fingerprint = leaf.masks.fingerprint  # type: ignore[union-attr]
    run.state.rounds = 1
    run.restore(run.snapshot(), run.state)
    after = run.engine.inboxes[middle.name][leaf.name].arrays[UP]
    assert leaf.masks.fingerprint != fingerprint  # type: ignore[union-attr]
    assert not np.array_equal(before, after)
    told = sum(node.sent.to_one[middle.name][UP] for node in run.nodes[1:])
    opened = middle.masks.open(run.engine.inboxes[middle.name])  # type: ignore[union-attr]
    np.testing.assert_array_equal(opened[TOGETHER].arrays[UP], told)
    prints = {node.masks.fingerprint for node in run.nodes[1:]}  # type: ignore[union-attr]
    assert len(prints) == 1


def test_the_same_round_is_never_masked_twice() -> None:
    run = make_run()
    run.engine.exchange(1)
    leaf = run.nodes[1]
    with pytest.raises(RunError, match="never used twice"):
        leaf._send(1, leaf.sent, leaf._seen())
