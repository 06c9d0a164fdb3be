"""Masks on any graph: what can be read of all messages, that only the sum comes out, and that masks never come back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.errors import RunError
from tacit.privacy.randomness import pack
from tacit.privacy.releases import Releaser
from tacit.privacy.request import Privacy
from tacit.run.graph import GraphRun
from tacit.run.masking import point_of
from tacit.run.node import GraphMasks, agree_on_masks
from tacit.solvers.consensus.base import DOWN, UP, TreeSum
from tacit.topologies import Graph, make_graph
from tacit.types import Message, Shard, Words
from tests.plans import sample_plan

POINT = point_of(UP)
PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]  # the root is in the middle: two nodes add up what others hide
GRAPHS: dict[str, Any] = {"star": "star", "ring": "ring", "path": PATH}


def make_run(graph: Any = "star", nodes: int = 4, seed: int | None = None, epsilon: float = 1.0) -> GraphRun:
    rows = tuple(30 + 10 * k for k in range(nodes))
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
        privacy=Privacy(epsilon=epsilon, noise_seed=seed),
        graph=make_graph(graph, nodes),
        rows=rows,
        columns=3,
        secure_aggregation=True,
    )
    rng = np.random.default_rng(0)
    shards = [Shard(name, rng.normal(size=(m, 3))) for name, m in zip(plan.graph.names, rows, strict=True)]
    return GraphRun(plan, shards, [rng.choice([-1.0, 1.0], m) for m in rows])


def play(run: GraphRun, rounds: int, first: int = 1) -> list[tuple[str, str, Message]]:
    """All messages of some rounds: from whom, to whom, what."""
    seen = []
    for round_ in range(first, first + rounds):
        run.engine.exchange(round_)
        run.state.rounds = round_
        seen += [(one, to, m) for to, inbox in run.engine.inboxes.items() for one, m in inbox.items()]
    return seen


def read(parts: Sequence[Words], nodes: int) -> np.ndarray | None:
    """What can be read of a sum of hidden parts: nothing where masks are left in it."""
    total = np.zeros_like(parts[0])
    for part in parts:
        POINT.add(total, part)
    try:
        return POINT.decode_sum(total, nodes)
    except RunError:
        return None


@pytest.mark.parametrize("kind", GRAPHS)
def test_everybody_gets_the_exact_sum_of_the_released_values(kind: str) -> None:
    run = make_run(GRAPHS[kind], 5)
    depth = TreeSum(run.plan.graph, "node 1").depth
    for number in range(2):
        begun = 1 + 2 * depth * number
        play(run, 1, begun)
        own = [node.side.tree.partial for node in run.nodes]  # type: ignore[attr-defined]
        play(run, 2 * depth - 1, begun + 1)
        for node in run.nodes:  # the last of them hear of it in the round in which the next sum begins
            told = [
                message.arrays[DOWN] for message in run.engine.inboxes[node.name].values() if DOWN in message.arrays
            ]
            tree = node.side.tree  # type: ignore[attr-defined]
            total = told[0] if told else tree.total
            np.testing.assert_array_equal(total, sum(own))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", GRAPHS)
def test_no_sum_of_some_messages_can_be_read(kind: str) -> None:
    """Not the sum of a branch by the node above it, and not that of all others by whoever sees all messages."""
    run = make_run(GRAPHS[kind], 5)
    depth = TreeSum(run.plan.graph, "node 1").depth
    seen = play(run, depth)
    words = [message.arrays[UP] for _, _, message in seen if UP in message.arrays]
    assert len(words) == 4  # everybody but the root sends one part
    assert all(one.dtype == np.uint64 for one in words)
    for count in range(1, 5):
        for some in combinations(words, count):
            assert read(some, 5) is None


def test_hidden_parts_are_uniform() -> None:
    """A chi-square test of all bytes that go up, whose values are small numbers: most bytes would be 0 or 255."""
    words = [m.arrays[UP] for _, _, m in play(make_run(PATH, 5), 17) if UP in m.arrays]
    counts = np.bincount(np.concatenate([one.ravel() for one in words]).view(np.uint8), minlength=256)
    assert counts.sum() > 256 * 5
    assert chisquare(counts).pvalue > 1e-4
    bare = np.concatenate([POINT.encode(np.arange(8.0), "x").ravel() for _ in range(10)])
    assert chisquare(np.bincount(bare.view(np.uint8), minlength=256)).pvalue < 1e-9


# --- a coalition that has every message and its own secrets --------------------------------------------


def hidden(masks: Sequence[GraphMasks], values: np.ndarray, seen: Sequence[bytes]) -> list[Words]:
    return [one.hide(1, value, own) for one, value, own in zip(masks, values, seen, strict=True)]


def without_known(part: Words, own: GraphMasks, coalition: Sequence[GraphMasks], seen: bytes) -> Words:
    """A hidden part without the masks that its node shares with members of a coalition, who know them."""
    left = part.copy()
    for other in coalition:
        party = other._masks._party
        if own.name in party._secrets:
            mask = party._mask_with(own.name, pack(1, UP, seen), part.size).reshape(part.shape)
            POINT.add_masks(left, [(mask, own.name < other.name)])
    return left


PARTNERS = {
    "all pairs": make_graph("complete", 5),
    "circle": make_graph("ring", 5),
    "path": make_graph(PATH, 5),
    "a node in between": make_graph([(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)], 5),
}


@pytest.mark.parametrize("kind", PARTNERS)
@pytest.mark.parametrize("lied_to", [None, 3])
def test_a_coalition_reads_sums_over_whole_honest_parts_alone(kind: str, lied_to: int | None) -> None:
    """And where one node was told another total than the others, nothing of any part that it is in."""
    graph: Graph = PARTNERS[kind]
    masks = [GraphMasks(name, graph) for name in graph.names]
    agree_on_masks([type("Holder", (), {"masks": one})() for one in masks])
    seen = [b"another" if k == lied_to else b"the same" for k in range(5)]
    values = np.random.default_rng(0).normal(size=(5, 3))
    parts = hidden(masks, np.round(values * 2**20) / 2**20, seen)
    for size in range(4):
        for coalition in combinations(range(5), size):
            honest = [k for k in range(5) if k not in coalition]
            pooled = [masks[k] for k in coalition]
            left = {k: without_known(parts[k], masks[k], pooled, seen[k]) for k in honest}
            whole = [part for part in graph.parts_without(coalition) if part == {lied_to} or lied_to not in part]
            for count in range(1, len(honest) + 1):
                for some in combinations(honest, count):
                    union = set().union(*(part for part in whole if part <= set(some))) == set(some)
                    assert (read([left[k] for k in some], 5) is not None) is union


def test_a_node_that_tells_a_branch_another_total_reads_nothing_of_the_next_sum() -> None:
    """The attack: the root tells one branch another total, so that its next gradients stand out."""
    run = make_run(PATH, 5)
    play(run, 3)
    root = run.nodes[2]
    lied = dict(run.engine.inboxes["node 2"])
    honest = lied[root.name]
    lied[root.name] = Message(root.name, honest.round, {DOWN: honest.arrays[DOWN] + 1000.0}, honest.kind)
    run.engine.inboxes["node 2"] = lied
    play(run, 3, 4)
    with pytest.raises(RunError, match="did not cancel"):
        play(run, 1, 7)


def test_a_sum_that_lacks_one_part_is_refused() -> None:
    run = make_run(PATH, 5)
    play(run, 1)
    inbox = run.engine.inboxes["node 2"]
    inbox["node 1"] = Message("node 1", 1, {})
    with pytest.raises(RunError, match="a branch sent no part"):
        play(run, 1, 2)


def test_a_part_is_added_once() -> None:
    run = make_run([(k, k + 1) for k in range(6)], 7)  # node 3 waits for two rounds
    play(run, 2)
    part = run.engine.inboxes["node 3"]["node 2"]
    run.nodes[2].answer(3, run.engine.inboxes["node 3"])
    with pytest.raises(RunError, match="twice"):
        run.nodes[2].side.tree.step(4, {"node 2": dict(part.arrays)})  # type: ignore[attr-defined]


def test_no_node_can_be_made_to_send_its_part_without_that_of_its_branch() -> None:
    """A total that comes down before its time passes by the branch in the round in which its part should come up."""
    run = make_run([(k, k + 1) for k in range(8)], 9)
    play(run, 1)
    size = run.nodes[3].side.tree.partial.size  # type: ignore[attr-defined]
    run.engine.inboxes["node 4"]["node 5"] = Message("node 5", 1, {DOWN: np.zeros(size)})
    play(run, 2, 2)
    assert UP not in run.engine.inboxes["node 4"]["node 3"].arrays
    with pytest.raises(RunError, match="a branch sent no part"):
        play(run, 1, 4)


@pytest.mark.parametrize("part", [np.zeros(4), np.zeros((3, 5), np.uint64), np.zeros((3, 4), np.int64)])
def test_a_part_that_is_not_under_masks_is_refused(part: np.ndarray) -> None:
    run = make_run()
    play(run, 1)
    run.engine.inboxes["node 1"]["node 2"] = Message("node 2", 1, {UP: part})
    with pytest.raises(RunError, match="not under masks"):
        play(run, 1, 2)


def test_a_bare_part_does_not_pass_the_door() -> None:
    run = make_run()
    leaf = run.nodes[1]
    leaf.side.tree.cover = None  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="does not leave"):
        leaf.answer(1, {})


def test_a_total_that_does_not_come_ends_the_run() -> None:
    run = make_run()
    play(run, 2)
    run.engine.inboxes["node 2"]["node 1"] = Message("node 1", 2, {})
    with pytest.raises(RunError, match="no neighbour sent the sum"):
        play(run, 1, 3)


# --- masks are used once, and noise is drawn once --------------------------------------------------------


def test_the_same_round_is_never_masked_twice() -> None:
    run = make_run()
    play(run, 1)
    leaf = run.nodes[1]
    with pytest.raises(RunError, match="never used twice"):
        leaf.again(1, {}, {})


def test_a_sum_on_its_way_does_not_go_on_without_new_masks_from_its_beginning() -> None:
    run = make_run(PATH, 5)
    play(run, 1)
    run.nodes[1].restore(run.nodes[1].state())
    with pytest.raises(RunError, match="must begin again"):
        play(run, 1, 2)


def noise_of_the_root(shift: float, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The noise of the second release of a root with a fixed key, where a neighbour adds `shift` to the first sum."""
    run = make_run(PATH, 5, seed=3)
    root, depth, noise = run.nodes[2], 2, list[np.ndarray]()
    assert root.side.tree.parent is None  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        inner = root.releaser.add  # type: ignore[union-attr]
        patch.setattr(root.releaser, "add", lambda name, x: noise.append(inner(name, x) - x) or noise[-1] + x)
        play(run, depth)
        own = run.engine.inboxes[root.name]["node 2"].arrays[UP]
        POINT.add(own, POINT.encode(np.full(own.shape[1:], shift), "node 2"))  # type: ignore[arg-type]
        play(run, depth + 1, depth + 1)
    assert len(noise) == 2
    return noise[1]


def test_the_root_has_other_noise_for_another_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the sum in words under masks. With the same noise for two sums, the difference of releases is bare."""
    first, again, other = (noise_of_the_root(shift, monkeypatch) for shift in (0.0, 0.0, 512.0))
    np.testing.assert_allclose(again, first, rtol=0, atol=1e-6)
    assert np.abs(other - first).min() > 1e-3


@pytest.mark.parametrize("kind", ["star", "path"])
def test_a_run_that_goes_on_after_any_round_has_new_masks_the_same_noise_and_the_same_model(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[tuple[str, str, int], set[bytes]] = {}
    inner = Releaser.add

    def add(self: Releaser, name: str, value: Any) -> Any:
        found = inner(self, name, value)
        made.setdefault((self.owner, name, self._used[name]), set()).add(found.tobytes())
        return found

    monkeypatch.setattr(Releaser, "add", add)
    calm = make_run(GRAPHS[kind], 5, seed=3)
    wanted = calm.go().model
    for stop in range(1, len(calm.state.trace)):
        run = make_run(GRAPHS[kind], 5, seed=3)
        run.state.exchange = run.state.rounds = stop
        seen = play(run, stop)
        fingerprint = run.nodes[0].masks.fingerprint  # type: ignore[union-attr]
        fresh = make_run(GRAPHS[kind], 5, seed=3)
        fresh.restore(run.snapshot(), run.state)
        prints = {node.masks.fingerprint for node in fresh.nodes}  # type: ignore[union-attr]
        assert len(prints) == 1
        assert fingerprint not in prints
        for one, to, before in seen:
            again = fresh.engine.inboxes[to][one]
            if before.round == stop and UP in before.arrays:
                assert not np.array_equal(again.arrays[UP], before.arrays[UP])
            elif before.round == stop:
                assert set(again.arrays) == set(before.arrays)
        np.testing.assert_array_equal(fresh.go().model.coef, wanted.coef)
    assert len(made) == 5 * len({key[1:] for key in made})
    assert all(len(values) == 1 for values in made.values())  # one release once, whatever was stopped


def test_the_law_of_the_model_does_not_depend_on_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise by node and release alone the model is the same to the bit, whoever relays which sums."""
    inner = Releaser.begin_round
    monkeypatch.setattr(Releaser, "begin_round", lambda self, *_: inner(self, sum(self._used.values()), {}))
    monkeypatch.setattr(Releaser, "_seen", property(lambda _: b"", lambda *_: None), raising=False)
    models = [make_run(graph, 5, seed=1).go().model for graph in GRAPHS.values()]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef, models[0].coef)
        assert model.intercept == models[0].intercept
