"""The certificate of a run: who is protected, from whom, how strongly, and what is not covered."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Certificate:
    """What may truthfully be said about the privacy of a run.

    Attributes
    ----------
    unit : str
        What is protected: "none" where nothing is.
    adversary : str
        From whom.
    covers, does_not_cover : tuple of str
        Plain sentences.
    per_party : mapping of str to str
        What leaves each party.
    theorem : str
        Name of the theorem behind the claim; empty where there is no claim.
    published_claim : str
        What the paper behind the method would have said, where that differs.
    """

    unit: str = "none"
    adversary: str = "anybody who sees the messages of the run"
    covers: tuple[str, ...] = ()
    does_not_cover: tuple[str, ...] = ()
    per_party: Mapping[str, str] = field(default_factory=dict)
    theorem: str = ""
    published_claim: str = ""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of the whole run at this delta; infinite without privacy."""
        return math.inf

    def delta(self, epsilon: float) -> float:
        """Smallest delta of the whole run at this epsilon; 1 without privacy."""
        return 1.0

    def to_json(self) -> str:
        """The certificate as JSON; an infinite epsilon is written as the string "infinity"."""
        record: dict[str, Any] = {"format": FORMAT, "private": False, "epsilon": "infinity", **asdict(self)}
        return json.dumps(record, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        lines = ["Privacy certificate", "This run is NOT differentially private: epsilon is infinite.", ""]
        lines += [f"Seen by: {self.adversary}."]
        for title, sentences in (("Covered", self.covers), ("Not covered", self.does_not_cover)):
            lines += [f"{title}:"] + [f"  - {sentence}" for sentence in sentences or ("nothing",)]
        lines += ["What leaves each party:"]
        lines += [f"  - {name}: {what}" for name, what in self.per_party.items()]
        return "\n".join(lines)


def not_private(parties: tuple[str, ...], rows: int) -> Certificate:
    """Certificate of a run without noise: raw data stay home, and nothing more is claimed."""
    return Certificate(
        covers=("feature values and coefficients are never sent as such (this is not a privacy guarantee)",),
        does_not_cover=(
            "the labels: the vector sent to every party in each round gives each label away by its sign",
            "the rows of every party: one number per row leaves it in each round, without noise",
            "predictions: each asked row discloses one score per party",
        ),
        per_party=dict.fromkeys(parties, f"in each round one number for each of {rows} rows, and a few sums"),
    )
