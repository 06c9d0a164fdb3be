"""pdml: what is expected, and verdicts both ways on made-up outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdml_made_up import made_up
from tacit_papers.claims import FAILS, HOLDS, OPEN, read_expected
from tacit_papers.pdml import adult, beside, table
from tacit_papers.pdml import claims_measured as seen
from tacit_papers.pdml.claims import published
from tacit_papers.pdml.paper import PAPER
from tacit_papers.pdml.rows import BOUNDS, COLUMNS, LABELS_ONLY, SETS, USUAL

Spoil = Callable[[dict[str, Any]], None]
EXPECTED = read_expected("pdml")
BY_ITSELF = {"table-1/comparable", "table-1/banana/eps=0.4,R=9"}  # printed numbers that contradict their own claim


def verdicts(results: dict[str, Any]) -> dict[str, str]:
    return {one.item.id: one.verdict for one in PAPER.judge(results, EXPECTED)}


def test_printed_numbers_are_those_of_the_paper() -> None:
    assert published(EXPECTED, "german") == dict(
        zip(COLUMNS, (75.00, 71.00, 74.00, 69.67, 64.00, 74.33, 67.67), strict=True)
    )
    assert published(EXPECTED, "waveform") == dict(
        zip(COLUMNS, (88.93, 84.60, 87.93, 84.07, 80.47, 87.67, 81.73), strict=True)
    )
    assert EXPECTED.item("table-1/splice/eps=0.4").published == 46.84
    assert EXPECTED.item("table-1/banana/eps=0.4,R=9").published == 43.11
    assert EXPECTED.item("table-1/ringnorm/eps=1,R=1").published == 75.77
    assert EXPECTED.item("table-1/image/eps=1").published == 72.84
    assert EXPECTED.item("table-1/twonorm/none").published == 97.90
    plain = [item.tolerance for item in EXPECTED.items if item.id.endswith(("/none", "/eps=0.4", "/eps=1"))]
    assert plain == [3.0] * 21


def test_every_item_is_judged_in_order() -> None:
    judged = PAPER.judge(made_up(EXPECTED), EXPECTED)
    assert [one.item.id for one in judged] == [item.id for item in EXPECTED.items]
    assert len({item.id for item in EXPECTED.items}) == len(EXPECTED.items)
    assert all(item.why for item in EXPECTED.items)


def test_every_figure_is_shown_or_has_a_reason() -> None:
    numbers = ["Fig. 1", "Fig. 2", "Fig. 3(a)", "Fig. 3(b)", "Fig. 4(a)", "Fig. 4(b)", "Fig. 4(c)", "Table I"]
    assert [shown.number for shown in EXPECTED.figures] == numbers
    shown = {
        part.number for section in PAPER.sections(made_up(EXPECTED)) for part in (*section.figures, *section.tables)
    }
    for entry in EXPECTED.figures:
        assert bool(entry.reason) != (entry.number in shown), entry.number


def test_all_that_can_hold_holds_on_made_up_outcomes() -> None:
    found = verdicts(made_up(EXPECTED))
    assert {id for id, verdict in found.items() if verdict != HOLDS} == BY_ITSELF


def _last(results: dict[str, Any], setup: Any, key: str, factor: float) -> None:
    own = results[adult.name_of(setup)]
    own[key] = [[*curve[:-1], curve[-1] * factor] for curve in own[key]]


def _reverse_order(results: dict[str, Any]) -> None:
    for name in SETS[:2]:
        own = results[table.name_of(name)]["averaged"]
        own["eps=1,R=9"], own["none"] = own["none"], own["eps=1,R=9"]


def _turn_all(results: dict[str, Any]) -> None:
    for name in SETS:
        own = results[table.name_of(name)]["averaged"]
        for pair in (("eps=1", "eps=0.4"), ("eps=1,R=1", "eps=1,R=9")):
            own[pair[0]], own[pair[1]] = own[pair[1]], own[pair[0]]


def _suitable(name: str) -> Spoil:
    def spoil(results: dict[str, Any]) -> None:
        results[table.readings_name(name)]["accuracy"][table.EUCLIDEAN]["none"] = [80.0, 80.0]

    return spoil


def _shift(setup: Any, by: float) -> Spoil:
    def spoil(results: dict[str, Any]) -> None:
        own = results[adult.name_of(setup)]
        own["risk"] = [[value + by for value in curve] for curve in own["risk"]]

    return spoil


SPOILT: dict[str, Spoil] = {
    "fig-3a/distances": lambda r: _last(r, USUAL, "distance", 1e13),
    "fig-3b/converges": lambda r: _last(r, USUAL, "risk", 1.02),
    "fig-3b/longer": lambda r: r[adult.name_of(USUAL)].update(risk=r[adult.name_of(LABELS_ONLY)]["risk"]),
    "fig-3b/reference": _shift(LABELS_ONLY, -1.0),
    "fig-4a/gap": _shift(USUAL.with_(bound=BOUNDS[-1]), -10.0),
    "fig-4b/rounds": lambda r: r.update({adult.name_of(USUAL.with_(decay=0.9)): r[adult.name_of(LABELS_ONLY)]}),
    "fig-4b/same": _shift(USUAL.with_(decay=0.9), 1.0),
    "fig-4c/falls": _shift(LABELS_ONLY.with_(epsilon=0.6), 1.0),
    "fig-4c/phase-2": _shift(LABELS_ONLY.with_(epsilon=0.4), 5.0),
    "fig-4c/close-without": _shift(LABELS_ONLY.with_(epsilon=0.8), 0.1),
    "fig-4c/close-with": _shift(USUAL.with_(epsilon=0.8), 0.5),
    "table-1/german/none": lambda r: r[table.name_of("german")]["averaged"].update(none=[71.9, 71.9]),
    "table-1/order": _reverse_order,
    "table-1/better": _turn_all,
    "table-1/unsuitable/banana": _suitable("banana"),
    "table-1/unsuitable/splice": lambda r: r[table.readings_name("splice")].update(one_hot=[90.0, 91.0]),
    "sec-4a/labels": lambda r: r[adult.name_of(USUAL)].update(flipped=[0.25, 0.25]),
    "sec-4c/objective-noise": lambda r: r[beside.CANCELS].update(difference=[1e-6]),
    "sec-4c/whole-run": lambda r: r[adult.name_of(USUAL)].update(run_epsilon=1.0),
    "theorem-1/applies": lambda r: r[beside.BOUNDS]["graph"].update(met=0),
    "theorem-1/corrected": lambda r: r[beside.BOUNDS]["run"].update(measured=101.0),
    "corollary-1": lambda r: r[beside.BOUNDS]["optima"].append([1.0, 9.0, 5.1, 5.0, 9.0]),
    "corollary-2": lambda r: r[beside.BOUNDS]["optima"].append([1.0, 0.0, 5.1, 5.0, 9.0]),
}


@pytest.mark.parametrize("id", SPOILT)
def test_each_claim_fails_on_outcomes_against_it(id: str) -> None:
    results = made_up(EXPECTED)
    SPOILT[id](results)
    assert verdicts(results)[id] == FAILS


def test_every_kind_of_claim_was_spoilt() -> None:
    rest = {item.id for item in EXPECTED.items} - set(SPOILT) - BY_ITSELF
    assert all(id.startswith("table-1/") and id.split("/")[1] in SETS for id in rest)


def test_a_noise_term_that_is_too_small_is_said() -> None:
    results = made_up(EXPECTED)
    results[beside.BOUNDS]["optima"] = [[1.0, 9.0, 9.0, 20.0, 90.0], [1.0, 1.0, 0.09, 20.0, 90.0]]
    judged = next(one for one in PAPER.judge(results, EXPECTED) if one.item.id == "corollary-1")
    assert judged.verdict == HOLDS
    assert "R 9: 9 of 8.1" in judged.reason
    assert "R 1" not in judged.reason


def test_comparable_accuracy_can_hold() -> None:
    results = made_up(EXPECTED)
    for name in SETS:
        own = results[table.name_of(name)]["averaged"]
        own["eps=0.4,R=9"] = list(own["none"])
    assert verdicts(results)["table-1/comparable"] == HOLDS


def test_a_cell_off_the_printed_one_names_the_nearest_reading() -> None:
    results = made_up(EXPECTED)
    SPOILT["table-1/german/none"](results)
    results[table.readings_name("german")]["accuracy"]["a = 10"]["none"] = [75.0, 75.0]
    for reading in table.ALL_READINGS:
        if reading != "a = 10":
            results[table.readings_name("german")]["accuracy"][reading]["none"] = [60.0, 60.0]
    judged = next(one for one in PAPER.judge(results, EXPECTED) if one.item.id == "table-1/german/none")
    assert "nearest reading: a = 10, 75.0" in judged.reason


def test_what_is_not_at_hand_stays_open() -> None:
    results: dict[str, Any] = {piece.name: {"missing": "not here"} for piece in PAPER.pieces(True)}
    judged = PAPER.judge(results, EXPECTED)
    assert {one.verdict for one in judged} == {OPEN}
    assert all("data not at hand" in one.reason for one in judged)
    words = " ".join(word for section in PAPER.sections(results) for word in section.words)
    assert "cannot be rerun" in words


def test_rows_that_were_drawn_are_said_to_be() -> None:
    results = made_up(EXPECTED)
    results[table.name_of("twonorm")]["drawn"] = True
    judged = next(one for one in PAPER.judge(results, EXPECTED) if one.item.id == "table-1/twonorm/none")
    assert "drawn from the definition" in judged.reason
    found = [t for section in PAPER.sections(results) for t in section.tables if t.number == "Table I"]
    assert any("drawn" in row[0] for row in found[0].rows)


def test_settled_counts_the_rounds_until_the_last_one_that_is_away() -> None:
    risks = np.array([[2.0, 1.0, 1.5, 1.0, 1.0]])
    assert seen.settled(risks) == 4
    assert seen.settled(np.ones((2, 5))) == 1
    assert seen.settled(risks, [3.0]) == 5  # never reached: all rounds


def test_order_ignores_pairs_within_the_spread() -> None:
    outcome = made_up(EXPECTED)[table.name_of("twonorm")]
    row = published(EXPECTED, "twonorm")
    assert seen.order(outcome, row) == (21 - _within(row, 0.2), [])
    outcome["averaged"] = {column: [values[0] - 50, values[1] + 50] for column, values in outcome["averaged"].items()}
    assert seen.order(outcome, row) == (0, [])


def _within(row: dict[str, float], spread: float) -> int:
    values = list(row.values())
    return sum(abs(p - q) <= spread for k, p in enumerate(values) for q in values[k + 1 :])
