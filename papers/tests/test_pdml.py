"""pdml rerun: the rows, the runs, and the whole paper in its quick version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pdml_made_up import made_up
from tacit.errors import InputError
from tacit_papers.claims import FAILS, HOLDS, OPEN, read_expected
from tacit_papers.pdml import adult, beside, rows, table
from tacit_papers.pdml.paper import PAPER
from tacit_papers.pdml.rows import COLUMNS, EDGES, LABELS_ONLY, NODES, SETS, USUAL, Setup
from tacit_papers.pdml.runs import accuracy, make_plan, optimum, risk, run_epsilon, servers, watch
from tacit_papers.work import MISSING, Store, run_pieces

EXPECTED = read_expected("pdml")


def _split(seed: int = 0, count: int = 400) -> rows.Split:
    rng = np.random.default_rng(seed)
    X = rows.shorten(rng.normal(size=(count, 4)))
    y = np.where(X @ np.array([2.0, -1.0, 0.5, 0.0]) + 0.2 * rng.normal(size=count) > 0, 1.0, -1.0)
    return rows.benchmark_split(X, y, seed)


# --- rows and runs -------------------------------------------------------------------------------------


def test_the_graph_is_that_of_the_paper() -> None:
    assert (servers().nodes, len(servers().edges)) == (NODES, EDGES) == (10, 13)


def test_readings_scale_as_they_say() -> None:
    X = np.array([[3.0, 4.0], [0.3, 0.4]])
    assert rows.prepare(X) is X
    assert np.linalg.norm(rows.prepare(X, rows.SHORTENED), axis=1) == pytest.approx([1.0, 0.5])
    assert np.linalg.norm(rows.prepare(X, "over the largest norm"), axis=1) == pytest.approx([1.0, 0.1])
    assert rows.prepare(X, "as in the files", constant=True)[:, 2].tolist() == [1.0, 1.0]
    assert rows.prepare(X, "standardised").std(axis=0) == pytest.approx([1.0, 1.0])
    assert rows.one_hot(np.array([[1.0, 4.0], [2.0, 4.0]])).tolist() == [[1, 0, 1], [0, 1, 1]]


def test_splits_are_70_to_30_and_servers_hold_equally_many() -> None:
    split = _split(count=1004)
    assert len(split.test_labels) == 301
    assert {len(y) for y in split.labels} == {70}


def test_admm_without_privacy_reaches_the_exact_optimum() -> None:
    split, setup = _split(), Setup(epsilon=None)
    seen = watch(make_plan(setup, split, 0), split, setup)
    best = optimum(np.vstack(split.tables), np.concatenate(split.labels), setup.weight)
    assert seen.averaged == pytest.approx(best, abs=1e-6)
    assert seen.risk[-1] == pytest.approx(risk(split.tables, split.labels, np.tile(best, (NODES, 1)), 1.0), rel=1e-9)
    assert seen.flipped == 0
    assert accuracy(split.test, split.test_labels, best) > 85


def test_randomized_labels_end_at_the_optimum_of_the_unbiased_loss() -> None:
    split, setup = _split(), LABELS_ONLY.with_(rounds=150)
    plan = make_plan(setup, split, 3)
    seen = watch(plan, split, setup)
    assert 0.15 < seen.flipped < 0.4
    assert seen.distance[-1] < 1e-4 * max(seen.distance)
    again = watch(plan, split, setup)
    assert again.risk == seen.risk  # the same seed, the same run
    assert run_epsilon(plan) is None


def test_noise_in_the_objective_moves_the_optimum_as_in_the_run() -> None:
    split = _split()
    X, y = np.vstack(split.tables), np.concatenate(split.labels)
    push = np.array([0.0, 0.0, 3.0, -3.0])
    moved = optimum(X, y, 1.0, None, push) - optimum(X, y, 1.0)
    assert moved[2] < -0.5
    assert moved[3] > 0.5
    gradient = -(y / (1 + np.exp(y * (X @ (optimum(X, y, 1.0, None, push)))))) @ X / len(y)
    assert gradient + 0.1 * optimum(X, y, 1.0, None, push) + push / NODES == pytest.approx(np.zeros(4), abs=1e-8)


def test_the_epsilon_of_a_run_grows_with_its_rounds_and_not_with_the_bound() -> None:
    split = _split()
    spent = [run_epsilon(make_plan(USUAL.with_(rounds=t), split, 0)) for t in (5, 10, 40)]
    assert None not in spent
    assert spent == sorted(spent, key=float)  # type: ignore[arg-type]
    assert run_epsilon(make_plan(USUAL.with_(rounds=5, bound=9.0), split, 0)) == pytest.approx(spent[0], rel=1e-6)


# --- without data --------------------------------------------------------------------------------------


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def absent(*_: object) -> Any:
        raise InputError("not at hand")

    rows.adult.cache_clear()
    rows.benchmark.cache_clear()
    monkeypatch.setattr(rows, "load_adult", absent)
    monkeypatch.setattr(rows, "load_raetsch", absent)
    yield
    rows.adult.cache_clear()
    rows.benchmark.cache_clear()


@pytest.mark.usefixtures("no_files")
def test_sets_without_a_file_are_drawn_or_stay_open(tmp_path: Any) -> None:
    wanted = [piece for piece in PAPER.pieces(True) if piece.name.startswith("readings/") or "reference" in piece.name]
    found = run_pieces(wanted, Store(tmp_path), jobs=1)
    drawn = {name for name in SETS if MISSING not in found[table.readings_name(name)]}
    assert drawn == {"twonorm", "ringnorm", "waveform"}
    assert all(found[table.readings_name(name)]["drawn"] for name in drawn)
    assert MISSING in found[adult.REFERENCE]
    results = made_up(EXPECTED)
    results |= {name: {MISSING: "x"} for name in results if name.startswith("adult/")}
    for name in set(SETS) - drawn:
        results[table.name_of(name)] = results[table.readings_name(name)] = {MISSING: "x"}
    judged = {one.item.id: one for one in PAPER.judge(results, EXPECTED)}
    assert judged["table-1/splice/none"].verdict == judged["table-1/order"].verdict == OPEN
    assert judged["table-1/twonorm/none"].verdict == HOLDS
    cells = next(t for section in PAPER.sections(results) for t in section.tables if t.number == "Table I").rows
    assert cells[0][1] == "cannot be checked: data not at hand"


# --- the quick version ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest) -> dict[str, Any]:
    try:
        rows.adult()
        rows.benchmark("splice")
    except InputError:
        pytest.skip("needs Adult and the benchmarks: set TACIT_DATA to their folder")
    return request.getfixturevalue("reproduced").outcomes(PAPER)


def test_quick_and_full_pieces_have_the_same_names() -> None:
    assert [piece.name for piece in PAPER.pieces(True)] == [piece.name for piece in PAPER.pieces(False)]


def test_rows_are_those_of_the_paper(quick: dict[str, Any]) -> None:
    assert rows.adult()[0].shape == (45_222, 105)
    sizes = {name: quick[table.name_of(name)]["rows"] for name in SETS}
    assert sizes == {
        "german": 1000, "image": 2086, "ringnorm": 7400, "banana": 5300, "splice": 2991, "twonorm": 7400,
        "waveform": 5000,
    }  # fmt: skip


def test_quick_outcomes_are_sane(quick: dict[str, Any]) -> None:
    assert not [name for name, outcome in quick.items() if MISSING in outcome]
    reference = quick[adult.REFERENCE]["seeds"][0]
    assert reference["risk"] == pytest.approx(reference["optimum"], rel=1e-6)
    assert reference["risk"] < NODES * math.log(2)
    for name, outcome in quick.items():
        if name.startswith("adult/pdml"):
            assert np.isfinite(outcome["risk"]).all()
            assert outcome["run_epsilon"] > 10
    for name in SETS:
        own = quick[table.name_of(name)]
        assert set(own["averaged"]) == set(COLUMNS)
        assert all(0 <= value <= 100 for values in own["averaged"].values() for value in values)
    assert min(quick[table.name_of("twonorm")]["averaged"]["none"]) > 96
    spent = [one["epsilon"] for one in quick[beside.SOUND]["adult"].values()]
    assert spent == pytest.approx([1.0, 1.0], abs=1e-3)
    assert max(spent) <= 1


def test_quick_verdicts_that_do_not_hang_on_size(quick: dict[str, Any]) -> None:
    found = {one.item.id: one.verdict for one in PAPER.judge(quick, EXPECTED)}
    assert OPEN not in found.values()
    for id in ("fig-3a/distances", "fig-4a/gap", "fig-4c/phase-2", "sec-4a/labels", "sec-4c/whole-run", "corollary-2"):
        assert found[id] == HOLDS, id
    for id in ("sec-4c/objective-noise", "theorem-1/applies", "table-1/unsuitable/splice", "table-1/comparable"):
        assert found[id] == FAILS, id


def test_quick_page_can_be_drawn(quick: dict[str, Any]) -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    slugs = []
    for section in PAPER.sections(quick):
        for part in section.figures:
            figure = matplotlib.Figure(figsize=part.size)
            part.draw(figure)
            assert figure.axes
            assert all(axes.has_data() for axes in figure.axes)
            slugs.append(part.slug)
        for shown in section.tables:
            assert shown.rows
            assert all(len(row) == len(shown.head) for row in shown.rows)
    assert len(slugs) == len(set(slugs)) == 7
