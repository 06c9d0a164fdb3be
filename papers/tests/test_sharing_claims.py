"""The judge of the sharing paper on made-up outcomes: every item can hold, and every item can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sharing_results import curve, falling, made_up
from tacit_papers.claims import FAILS, HOLDS, OPEN, Judged, read_expected
from tacit_papers.sharing.claims import best_rho, edge, first_below, judge, published_epsilon, settled
from tacit_papers.sharing.paper import sections
from tacit_papers.sharing.pieces import INVERSE, PARTIES, STAND_INS, pieces
from tacit_papers.sharing.tasks import A9A_COLUMNS, GISETTE_COLUMNS

EXPECTED = read_expected("sharing")
THEOREMS = {"theorem-1", "theorem-2", "lemma-1"}  # those that need no data


def verdicts(results: dict[str, Any]) -> dict[str, Judged]:
    return {one.item.id: one for one in judge(results, EXPECTED)}


def test_the_numbers_are_those_of_the_text() -> None:
    """Typed from sections 4 and 5 of the paper."""
    assert EXPECTED.item("fig-2/admm-0.08").published == 0.08
    assert EXPECTED.item("fig-2/sgd-0.1").published == 0.1
    assert "less than 20" in EXPECTED.item("below-20").claim
    assert A9A_COLUMNS == (66, 57)
    assert GISETTE_COLUMNS == (2000, 2000, 1000)
    assert EXPECTED.item("fig-3a/admm").tolerance == 0.002
    assert EXPECTED.item("fig-3a/sgd").tolerance == 0.005


def test_every_figure_of_the_paper_is_listed_and_drawn() -> None:
    listed = {figure.number: figure for figure in EXPECTED.figures}
    assert list(listed) == [f"Fig. {number}({part})" for number in (1, 2, 3) for part in "ab"]
    for without in ([], ["gisette"]):
        shown = [figure for section in sections(made_up(without)) for figure in section.figures]
        numbers = {figure.number for figure in shown}
        assert all(figure.reason or number in numbers for number, figure in listed.items())
        assert len({figure.slug for figure in shown}) == len(shown)


def test_the_judge_covers_every_item_in_order() -> None:
    for without in ([], ["gisette"], ["gisette", *STAND_INS], ["a9a"], ["a9a", "gisette", *STAND_INS]):
        assert [one.item for one in judge(made_up(without), EXPECTED)] == list(EXPECTED.items)


def test_full_and_quick_pieces_have_the_same_names() -> None:
    assert [piece.name for piece in pieces(True)] == [piece.name for piece in pieces(False)]
    assert {piece.name for piece in pieces(False)} == set(made_up())


def test_everything_holds_where_everything_is_as_the_paper_says() -> None:
    found = verdicts(made_up())
    assert {id: one.verdict for id, one in found.items() if one.verdict != HOLDS} == {}


def test_without_gisette_its_numbers_stay_open_and_the_stand_ins_are_named() -> None:
    found = verdicts(made_up(["gisette"]))
    assert {id for id, one in found.items() if one.verdict == OPEN} == {"fig-2/admm-0.08", "fig-2/sgd-0.1"}
    for id in ("fig-2/quick", "fig-2/end", "fig-3b/better"):
        assert "mnist49 (stand-in for gisette)" in str(found[id].ours)


def test_without_data_only_what_needs_none_is_judged() -> None:
    found = verdicts(made_up(["a9a", "gisette", *STAND_INS]))
    assert {id for id, one in found.items() if one.verdict != OPEN} == THEOREMS
    words = [word for section in sections(made_up(["a9a", "gisette", *STAND_INS])) for word in section.words]
    assert any("a9a is not at hand" in word for word in words)


def test_stand_ins_that_disagree_leave_a_claim_open() -> None:
    results = made_up(["gisette"])
    results["basehock/sgd"]["steps"]["1"] = falling(0.69, 0.2, 40, 0.1)
    found = verdicts(results)["fig-2/end"]
    assert found.verdict == OPEN
    assert "it holds on mnist49 alone" in found.reason


def _slow_sgd(results: dict[str, Any]) -> None:
    results["a9a/sgd"]["steps"]["1"] = falling(0.69, 0.3, 41, 0.9)


def _sgd_elsewhere(results: dict[str, Any]) -> None:
    results["a9a/sgd"]["steps"]["1"] = falling(0.69, 0.306, 40, 0.1)


def _admm_elsewhere(results: dict[str, Any]) -> None:
    for rho in results["a9a/admm"]["published"]:
        results["a9a/admm"]["published"][rho] = falling(0.69, 0.3021, 40)


def _gisette(last: float, part: str) -> Callable[[dict[str, Any]], None]:
    def change(results: dict[str, Any]) -> None:
        for runs in results[f"gisette/{part}"].values():
            if isinstance(runs, dict) and "objective" not in runs:
                for key in runs:
                    runs[key] = falling(0.69, last, 40, 0.1)

    return change


def _poor_pool(results: dict[str, Any]) -> None:
    for name in PARTIES:
        results[f"{name}/reference"]["pooled"] = results[f"{name}/reference"]["local"] - 0.009


def _good_sklearn(results: dict[str, Any]) -> None:
    results["gisette/reference"]["pooled"] = 0.0805


def _noise(value: float) -> Callable[[dict[str, Any]], None]:
    def change(results: dict[str, Any]) -> None:
        for name in PARTIES:
            for level in results[f"{name}/noise"][INVERSE]:
                results[f"{name}/noise"][INVERSE][level] = [curve(value)]

    return change


def _no_rank(results: dict[str, Any]) -> None:
    results["a9a/spectrum"]["parties"][0] |= {"smallest": 0.0, "needed_rho": None}


def _grows(key: str) -> Callable[[dict[str, Any]], None]:
    def change(results: dict[str, Any]) -> None:
        results["theory/same-columns"]["squared, 4 parties"][key] = [1.0, 2.0, 4.0]

    return change


def _moves(results: dict[str, Any]) -> None:
    results["theory/lemma-1"]["cases"][0]["ratio"] = 1.01


def _attacked(results: dict[str, Any]) -> None:
    results["theory/column-space"][INVERSE] = {"1": {"record": {"right": 0.99, "trials": 10}}}


def _formula(results: dict[str, Any]) -> None:
    results["theory/composition"]["cases"][0]["said"] = 56.0


def _labels(results: dict[str, Any]) -> None:
    results["theory/labels"]["1"]["all"] = 1.0


@pytest.mark.parametrize(
    ("id", "change"),
    [
        ("fig-1/slower", _slow_sgd),
        ("fig-1/same-end", _sgd_elsewhere),
        ("fig-3a/admm", _admm_elsewhere),
        ("fig-3a/sgd", _sgd_elsewhere),
        ("fig-2/admm-0.08", _gisette(0.0905, "admm")),
        ("fig-2/sgd-0.1", _gisette(0.0895, "sgd")),
        ("fig-2/quick", _gisette(0.05, "sgd")),
        ("fig-2/end", _gisette(0.05, "sgd")),
        ("fig-3/boost", _poor_pool),
        ("fig-3b/better", _good_sklearn),
        ("noise/moderate", _noise(0.5)),
        ("noise/ruin", _noise(0.05)),
        ("assumption-1.2", _no_rank),
        ("theorem-1", _grows("primal")),
        ("theorem-2", _grows("stationarity")),
        ("lemma-1", _moves),
        ("theorem-3", _attacked),
        ("corollary-1", _attacked),
        ("below-20", _attacked),
        ("below-20", _formula),
        ("leakage", _labels),
        ("conclusion", _attacked),
        ("conclusion", _noise(0.5)),
    ],
)
def test_every_item_can_fail(id: str, change: Callable[[dict[str, Any]], None]) -> None:
    results = made_up()
    change(results)
    assert verdicts(results)[id].verdict == FAILS


def test_epochs_are_counted_from_where_a_curve_stays_below() -> None:
    assert first_below([0.5, 0.2, 0.4, 0.2, 0.1], 0.3) == 4
    assert first_below([0.2, 0.1], 0.3) == 1
    assert first_below([0.2, 0.4], 0.3) is None


def test_a_run_that_left_the_floats_is_never_the_best() -> None:
    results = made_up()
    results["a9a/admm"]["published"] = {"0.1": {**curve(0.1), "objective": [0.1, None]}, "0.5": curve(0.4)}
    assert best_rho(results, "a9a")[0] == "0.5"
    assert best_rho(results, "a9a", epoch=1)[0] == "0.1"
    assert settled(curve(9, 1, 1, 1, 1, 1)) == 1


def test_slower_stays_open_where_it_depends_on_the_way_to_count() -> None:
    results = made_up()
    jumps = [0.69, *[0.3] * 35, 0.32, *[0.3] * 4]  # near after one epoch, and away once more near the end
    results["a9a/sgd"]["steps"]["1"] = curve(*jumps)
    assert verdicts(results)["fig-1/slower"].verdict == OPEN


def test_an_infinite_epsilon_is_said_only_of_parties_with_fewer_columns_than_rows() -> None:
    results = made_up()
    results["a9a/reference"] |= {"rows": 100, "columns": [99, 5]}
    assert published_epsilon(results, "a9a") == "infinite"
    results["a9a/reference"]["columns"] = [100, 5]
    assert published_epsilon(results, "a9a") == "infinite for party 2; none proven for the others"
    results["a9a/reference"]["columns"] = [100, 101]
    assert published_epsilon(results, "a9a") == "none proven"


def test_the_best_at_the_end_of_a_grid_is_marked() -> None:
    assert edge("0.1", {"0.1": 0, "0.5": 0, "10": 0}) == edge("10", {"0.1": 0, "0.5": 0, "10": 0}) != ""
    assert edge("0.5", {"0.1": 0, "0.5": 0, "10": 0}) == ""
