"""A small paper whose pieces are computed at once, for the tests of what is around papers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit_papers.claims import Expected, Item, Judged, Shown, judge_number, judge_words, leave_open
from tacit_papers.paper import Figure, Paper, Section, Table
from tacit_papers.work import Outcome, Piece, Results, Settings


def double(settings: Settings) -> Outcome:
    """Twice a number; leaves a trace of every call where it is asked to."""
    if "trace" in settings:
        with Path(settings["trace"]).open("a") as handle:
            handle.write(f"{os.getpid()}\n")
    return {"value": 2 * settings["number"]}


def absent(settings: Settings) -> Outcome:
    raise InputError("this set is not at hand")


def broken(settings: Settings) -> Outcome:
    raise ZeroDivisionError("a mistake")


def piece(number: int, **more: Any) -> Piece:
    return Piece(f"double/{number}", double, {"number": number, **more})


EXPECTED = Expected(
    (Shown("Fig. 1", "twice a number", ""), Shown("Fig. 2", "a diagram", "a drawing without data")),
    (
        Item("two", "Fig. 1", "twice one is two", 2.0, 0.1, "exact"),
        Item("five", "Fig. 1", "twice two is <b>five</b>", 5.0, 0.5, "exact"),
        Item("words", "Sec. 2", "it grows", "it grows", None, "larger at 2 than at 1"),
        Item("open", "Sec. 3", "it is liked", None, None, "no data"),
    ),
)


def draw(figure: Any) -> None:
    axes = figure.subplots()
    axes.plot([1, 2], [2, 4], label="twice")
    axes.legend()


def sections(results: Results) -> list[Section]:
    table = Table("Table I", "numbers", "all of them", ("name", "value"), [("one", str(results["double/1"]["value"]))])
    return [Section("Doubling", ("In <words>.",), (Figure("fig-1", "Fig. 1", "twice", "a line", draw),), (table,))]


def judge(results: Results, expected: Expected) -> list[Judged]:
    one, two = results["double/1"]["value"], results["double/2"]["value"]
    return [
        judge_number(expected.item("two"), one),
        judge_number(expected.item("five"), two),
        judge_words(expected.item("words"), f"{one} to {two}", two > one),
        leave_open(expected.item("open"), "nobody was asked"),
    ]


PAPER = Paper("toy", "On doubling", "N. N.", "It doubles.", lambda quick: [piece(1), piece(2)], sections, judge)
