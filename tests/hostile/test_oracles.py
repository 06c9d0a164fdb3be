"""Whether a round ends, and what is said of it, tells nothing of the rows: no row and no message stops a private run.

The attacker is a neighbour, or the label holder, with software of its own. It may send anything; what it would like to
see is a round that stops on one data set and goes on with its neighbour, or a number that is computed without noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit.mechanisms.perturbed as papers_module
from tacit import PaperOptions, Privacy
from tacit.errors import InputError, TacitError
from tacit.mechanisms.perturbed import MODEL
from tacit.plan import Plan
from tacit.privacy.releases import Allowed, Releaser
from tacit.problem.losses import Huber
from tacit.run.graph import GraphRun
from tacit.run.node import Node
from tacit.run.party import Party
from tacit.run.star import Run
from tacit.solvers.consensus.everybody import DOWN, UP
from tacit.topologies import make_graph
from tacit.types import Message, Shard, Vector
from tests.plans import feature_plan as make_features
from tests.plans import sample_plan

PAPERS = ("dual", "primal", "pdml")
ROWS, COLUMNS = 40, 3
EXTREME = (1e300, -1e300, 1e-300, 5e-324, -0.0, 0.0, 1.0, 1e154, 1e60, 1e8, -1.0)


# --- the sample split ----------------------------------------------------------------------------------


def graph_plan(method: str, *, graph: str = "complete", nodes: int = 2, epsilon: float = 0.5, **changes: Any) -> Plan:
    """A private plan of the sample split."""
    asked: dict[str, Any] = {"epsilon": epsilon, **({"label_epsilon": 1.0} if method == "pdml" else {})}
    asked |= changes.pop("privacy", {})
    chosen = {"loss": "logistic", "penalty": "l2", "alpha": 1e-2, "fit_intercept": True, "published": False}
    chosen |= {"rho": "auto", "max_rounds": 4, "tol": 1e-6, **changes}
    return sample_plan(
        **chosen,
        method=method,
        privacy=Privacy(**asked),
        graph=make_graph(graph, nodes),
        rows=(ROWS,) * nodes,
        columns=COLUMNS,
    )


def two_data_sets() -> tuple[tuple[Vector, Vector], tuple[Vector, Vector]]:
    """Neighbours: one row and its label differ."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(ROWS, COLUMNS)), rng.choice([-1.0, 1.0], ROWS)
    other, others = rows.copy(), labels.copy()
    other[0], others[0] = -3 * rows[0], -labels[0]
    return (rows, labels), (other, others)


def told(plan: Plan, name: str, round_: int, model: Vector) -> dict[str, Message]:
    """What the neighbours of a node say in a round of a paper's method."""
    return {one: Message(one, round_, {MODEL: model}) for one in plan.graph.neighbours(name)}


def stops(plan: Plan, rows: Vector, labels: Vector, model: Vector) -> bool:
    """Whether a node that is told this after its first round stops in its second."""
    node = Node(Shard("node 1", rows), labels, None, plan)
    try:
        with np.errstate(all="ignore"):
            node.answer(1, {})
            node.answer(2, told(plan, "node 1", 1, model))
    except TacitError:
        return True
    return False


@pytest.mark.parametrize("method", PAPERS)
def test_no_message_of_a_neighbour_stops_a_round(method: str) -> None:
    """The attack: messages of growing size, until a round stops on one data set and goes on with its neighbour."""
    plan = graph_plan(method, privacy={"noise_seed": 1})
    first, second = two_data_sets()
    direction = np.array([1.0, -2.0, 0.5, 1.0])
    for size in (*np.geomspace(1.0, 1e12, 40), 1e60, 1e200, 4e307):
        found = [stops(plan, *data, size * direction) for data in (first, second)]
        assert found == [False, False], f"a message of size {size:.3g} stops {found}"


@pytest.mark.parametrize("method", PAPERS)
def test_the_way_in_which_a_minimum_is_found_does_not_show(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Newton steps fail, what is found by other means is as near to the minimiser as the plan counts."""
    plan = graph_plan(method, privacy={"noise_seed": 1})
    assert plan.private is not None
    (rows, labels), _ = two_data_sets()
    models = []
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(papers_module.PaperNode, "_newton", lambda *_: None)
        node = Node(Shard("node 1", rows), labels, None, plan)
        node.answer(1, {})
        models.append(np.array(node.side.model))  # type: ignore[attr-defined]
    numbers = plan.private.settings.nodes["node 1"]
    modulus = 2 * numbers.penalty * 1 + (numbers.extra[0] if numbers.extra else 0.0)
    assert np.linalg.norm(models[0] - models[1]) <= 2 * numbers.tolerance / modulus
    assert not np.array_equal(models[0], np.zeros(COLUMNS + 1))


@pytest.mark.parametrize("method", ["dual", "primal", "pdml", "gaussian"])
def test_what_is_told_of_a_round_is_the_same_for_neighbouring_rows(method: str) -> None:
    """The attack: the residual of a solve, in the trace and in what a node tells of its progress."""
    plan = graph_plan(method, nodes=3, privacy={"noise_seed": 1}, max_rounds=60 if method == "gaussian" else 4)
    rng = np.random.default_rng(1)
    shared = [(rng.normal(size=(ROWS, COLUMNS)), rng.choice([-1.0, 1.0], ROWS)) for _ in range(2)]
    said = []
    for rows, labels in two_data_sets():
        held = [(rows, labels), *shared]
        run = GraphRun(
            plan, [Shard(n, X) for n, (X, _) in zip(plan.graph.names, held, strict=True)], [y for _, y in held]
        )
        result = run.go()
        assert not any(math.isfinite(row.dual) or math.isfinite(row.objective) for row in result.trace)
        progress = [(one.progress.rho, str(one.progress.dual), str(one.progress.primal)) for one in run.nodes]
        said.append((progress, [(row.round, row.rho, row.bytes_up, row.epsilon) for row in result.trace]))
    assert said[0] == said[1]


def test_a_residual_in_a_private_trace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leak put back: a row of a private trace that holds the residual of a solve is not written."""
    from tacit.solvers.consensus.base import NodeProgress

    plan = graph_plan("primal")
    (rows, labels), _ = two_data_sets()
    monkeypatch.setattr(papers_module, "private_progress", lambda rho: NodeProgress(dual=1e-13, rho=rho))
    run = GraphRun(plan, [Shard(name, rows) for name in plan.graph.names], [labels, labels])
    with pytest.raises(TacitError, match="the trace of a private run would hold dual"):
        run.go()


wicked = st.sampled_from(EXTREME) | st.floats(-3, 3)


@st.composite
def rows_of(draw: st.DrawFn, columns: int = COLUMNS) -> Vector:
    """Rows with a few wicked ones among usual ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    rows = rng.normal(size=(ROWS, columns))
    kind = draw(st.sampled_from(["some", "zeros", "equal", "one-hot", "one"]))
    if kind == "zeros":
        rows[:] = 0.0
    elif kind == "equal":
        rows[:] = draw(wicked)
    elif kind == "one-hot":
        rows[:] = np.eye(columns)[rng.integers(0, columns, ROWS)]
    count = {"some": 5, "one": 1}.get(kind, 0)
    for row in range(count):
        rows[row] = [draw(wicked) for _ in range(columns)]
    return rows


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=rows_of(), values=st.lists(wicked, min_size=4, max_size=4), method=st.sampled_from(PAPERS))
def test_no_row_and_no_message_stops_a_paper_method(rows: Vector, values: list[float], method: str) -> None:
    plan = graph_plan(method)
    assert plan.private is not None
    labels = np.where(np.arange(ROWS) % 3 == 0, 1.0, -1.0)
    node = Node(Shard("node 1", rows), labels, None, plan)
    with np.errstate(all="ignore"):
        for round_ in range(1, plan.private.rounds + 1):
            sent = node.answer(round_, told(plan, "node 1", round_ - 1, np.array(values)) if round_ > 1 else {})
            for message in sent.values():
                assert np.isfinite(message.arrays[MODEL]).all()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=rows_of(), value=wicked, loss=st.sampled_from(["logistic", "squared", Huber(1e-3), "absolute"]))
def test_no_row_and_no_message_stops_gaussian(rows: Vector, value: float, loss: Any) -> None:
    plan = graph_plan("gaussian", graph="star", nodes=3, loss=loss, max_rounds=6)
    assert plan.private is not None
    labels = np.where(np.arange(ROWS) % 3 == 0, 1.0, -1.0)
    if plan.problem.loss.task == "regression":
        labels = labels * np.where(np.arange(ROWS) < 3, abs(value), 1.0)
    leaf = plan.graph.names[2]
    middle = plan.graph.neighbours(leaf)[0]
    node = Node(Shard(leaf, rows), labels, None, plan)
    size = plan.private.settings.centre_size if plan.private.settings.centred else COLUMNS + 1
    with np.errstate(all="ignore"):
        sent = node.answer(1, {})
        assert np.isfinite(sent[middle].arrays[UP]).all()
        node.answer(2, {middle: Message(middle, 1, {})})
        for round_ in range(3, 8):
            arrays = {DOWN: np.full(size, value)} if round_ % 2 else {}
            out = node.answer(round_, {middle: Message(middle, round_ - 1, arrays)})
            assert all(np.isfinite(a).all() for m in out.values() for a in m.arrays.values())
            size = COLUMNS + 1 if round_ % 2 else size


@pytest.mark.parametrize("threshold", [1e-300, 1e-30, 1e30, 1e300])
def test_absurd_thresholds_are_refused_before_any_row_is_read(threshold: float) -> None:
    with pytest.raises(InputError, match="threshold"):
        graph_plan("gaussian", loss=Huber(threshold), max_rounds=6)


# --- the feature split ---------------------------------------------------------------------------------

NAMES = ("holder", "b", "c")
FORMS: dict[str, dict[str, Any]] = {
    "A": {},
    "A, labels": {"label_epsilon": 2.0},
    "B": {"refit": True},
    "C": {"protect": "everyone"},
    "C, at the holder": {"protect": "everyone", "predictions": "label-holder"},
    "shares": {"mechanism": "shares"},
    "published": {"mechanism": "published"},
}


def feature_plan(form: str, rows: int = ROWS, columns: int = COLUMNS, **changes: Any) -> Any:
    """A private plan of the feature split."""
    chosen = {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": 1e-3,
        "fit_intercept": True,
        "method": "auto",
        "rho": "auto",
    }
    return make_features(
        **{**chosen, **changes}, max_rounds=3, tol=1e-4, privacy=Privacy(**{"epsilon": 4.0, **FORMS[form]}),
        party_names=NAMES, rows=rows, input_bytes=0, columns=(columns,) * 3,
    )  # fmt: skip


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("form", FORMS)
@given(rows=rows_of(), own=rows_of())
def test_no_row_stops_a_run_of_the_feature_split(form: str, rows: Vector, own: Vector) -> None:
    rng = np.random.default_rng(0)
    holder = own if "C" in form else rng.normal(size=(ROWS, COLUMNS))
    shards = [Shard("holder", holder), Shard("b", rows), Shard("c", rng.normal(size=(ROWS, COLUMNS)))]
    labels = np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)
    result = Run(feature_plan(form), shards, labels).go()
    assert result.note == "" or form == "published"
    for part in result.model.parts:
        assert np.isfinite(part.coef).all()
        assert np.isfinite(part.offset)


@pytest.mark.parametrize("size", [1e155, 1e300, 1.7e308])
def test_one_huge_row_of_the_label_holder_does_not_stop_its_own_fit(size: float) -> None:
    """Form C with predictions at the label holder: the exact fit of rows that are not clipped is its own affair."""
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(ROWS, COLUMNS)) for _ in NAMES]
    blocks[0][0] = size * np.sign(blocks[0][0])
    labels = np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)
    shards = [Shard(name, block) for name, block in zip(NAMES, blocks, strict=True)]
    result = Run(feature_plan("C, at the holder"), shards, labels).go()
    assert all(np.isfinite(part.coef).all() for part in result.model.parts)


@pytest.mark.parametrize("rho", [1e-300, 1e-12, 1e-3, 1.0, 1e9, 1e300])
@pytest.mark.parametrize(("rows", "columns"), [(400, 3), (300, 2000)])
def test_no_penalty_of_the_coordinator_stops_noisy_shares(rho: float, rows: int, columns: int) -> None:
    """The attack: a ridge so small that a share can be certified on one data set and not on its neighbour."""
    plan = feature_plan("shares", rows, columns)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, columns)) / math.sqrt(columns)
    features[: rows // 2] = features[0]  # many equal rows make the outer matrix singular
    party = Party(Shard("b", features), plan, None)
    with np.errstate(all="ignore"):
        sent = party.answer(Message("coordinator", 1, {"q": rng.normal(size=rows), "control": np.array([rho])}))
    assert np.isfinite(sent.arrays["share"]).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_release_never_refuses_a_value(bad: float) -> None:
    """The attack: a value beyond 2^62 steps of the grid stops the round, and that it did is seen."""
    releaser = Releaser([Allowed("share", 1.0)], "b", seed=1)
    assert np.isfinite(releaser.add("share", [0.0, bad])).all()


def test_an_answer_that_is_no_number_leaves_as_the_public_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A private party gives no sign that something went wrong: that would be a function of its rows."""
    plan = feature_plan("shares")
    party = Party(Shard("b", np.ones((ROWS, COLUMNS))), plan, None)
    monkeypatch.setattr(Releaser, "add", lambda self, name, value: np.full(ROWS, math.nan))
    sent = party.answer(Message("coordinator", 1, {"q": np.zeros(ROWS), "control": np.array([0.1])}))
    assert np.array_equal(sent.arrays["share"], np.zeros(ROWS))


def test_papers_options_still_plan() -> None:
    """Every option of the papers' methods leads to a plan whose solves cannot fail: the numbers are there."""
    plan = sample_plan(
        loss="logistic", penalty="l2", alpha=0.1, fit_intercept=False, method="primal", published=False, rho=0.1,
        max_rounds=9, tol=1e-6, privacy=Privacy(epsilon=2.0), graph=make_graph("ring", 3), rows=(50, 60, 70), columns=2,
        options=PaperOptions(rounds=5, noise="norm"),
    )  # fmt: skip
    assert plan.private is not None
    for numbers in plan.private.settings.nodes.values():
        assert 0 < numbers.push / (2 * numbers.penalty * 2) <= numbers.reach <= numbers.farthest < math.inf
        assert 0 < numbers.tolerance < 1e-6 * numbers.push
