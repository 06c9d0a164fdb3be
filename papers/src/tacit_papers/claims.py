"""What a paper printed, what came out here, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

HOLDS: Literal["holds"] = "holds"
FAILS: Literal["does not hold"] = "does not hold"
OPEN: Literal["cannot be checked"] = "cannot be checked"
Verdict = Literal["holds", "does not hold", "cannot be checked"]


@dataclass(frozen=True)
class Item:
    """A number or a claim of a paper, as `expected.json` has it.

    Attributes
    ----------
    id : str
        As "table-1/german/plain".
    where : str
        As "Table I" or "Sec. V-B".
    claim : str
        What the paper says, in a line.
    published : float or str or None
        The number as printed, or the words; None where a figure shows it and no text states it.
    tolerance : float or None
        How far ours may be from a published number.
    why : str
        Why this tolerance, or how the words were turned into something that can be checked.
    """

    id: str
    where: str
    claim: str
    published: float | str | None
    tolerance: float | None
    why: str


@dataclass(frozen=True)
class Shown:
    """A figure or table of a paper: rerun here, or the reason why not (`reason` is empty where it is rerun)."""

    number: str
    what: str
    reason: str


@dataclass(frozen=True)
class Expected:
    """All that a paper printed that could be checked."""

    figures: tuple[Shown, ...]
    items: tuple[Item, ...]

    def item(self, id: str) -> Item:
        """The item of this id."""
        return next(item for item in self.items if item.id == id)


@dataclass(frozen=True)
class Judged:
    """An item with what came out here and the verdict; `reason` says why, in words a reader can check."""

    item: Item
    ours: float | str | None
    verdict: Verdict
    reason: str = ""

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "id": self.item.id,
            "where": self.item.where,
            "claim": self.item.claim,
            "published": self.item.published,
            "tolerance": self.item.tolerance,
            "ours": self.ours,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def read_expected(paper: str) -> Expected:
    """Read `expected.json` of a paper, which is part of the package."""
    text = (files("tacit_papers") / paper / "expected.json").read_text(encoding="utf-8")
    record = json.loads(text)
    return Expected(
        tuple(Shown(entry["number"], entry["what"], entry.get("reason", "")) for entry in record["figures"]),
        tuple(Item(**entry) for entry in record["items"]),
    )


def judge_number(item: Item, ours: float, reason: str = "") -> Judged:
    """Hold a number of ours against the published one and its tolerance."""
    assert isinstance(item.published, int | float)
    assert item.tolerance is not None
    within = abs(ours - item.published) <= item.tolerance
    return Judged(item, ours, HOLDS if within else FAILS, reason)


def judge_words(item: Item, ours: str, holds: bool, reason: str = "") -> Judged:
    """Hold what was measured, put in words, against a claim in words."""
    return Judged(item, ours, HOLDS if holds else FAILS, reason)


def leave_open(item: Item, reason: str) -> Judged:
    """An item that cannot be checked here, and why."""
    return Judged(item, None, OPEN, reason)


def count(judged: Sequence[Judged], verdict: Verdict) -> int:
    """How many items have this verdict."""
    return sum(one.verdict == verdict for one in judged)
