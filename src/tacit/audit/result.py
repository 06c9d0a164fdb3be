"""What one attack found, beside what was claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import InputError

NEIGHBOURS = "neighbours: every byte that leaves"  # the name of the replay on neighbouring data sets
NO_VIOLATION, BROKEN, AS_STATED = "no violation found", "broken", "as stated"
AT_95, AT_999 = f"{NO_VIOLATION} at 95 %", f"{NO_VIOLATION} at 99.9 %"  # of what is measured, and has an error
NOT_TRIED = "not tried"
VERDICTS = (NO_VIOLATION, AT_95, AT_999, AS_STATED, NOT_TRIED, BROKEN)


@dataclass(frozen=True)
class AttackResult:
    """One line of an audit.

    Attributes
    ----------
    name : str
        What was tried.
    claimed, found : str
        What the certificate says of it, and what came out.
    verdict : str
        "no violation found", with the confidence of a measurement: the claim withstood this attempt, which proves
        nothing. "broken": it did not. "as stated": the attack succeeds, and the certificate itself says that this is
        not covered. "not tried": this job cannot be attacked so.
    details : mapping
        The numbers behind it, as plain values.
    """

    name: str
    claimed: str
    found: str
    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict={self.verdict!r} is unknown: choose one of {', '.join(VERDICTS)}")

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "attack": self.name,
            "claimed": self.claimed,
            "found": self.found,
            "verdict": self.verdict,
            "details": dict(self.details),
        }


def judged(succeeded: bool, *, covered: bool) -> str:
    """The verdict on an attack, where the certificate covers what it aims at, or says that it does not."""
    if not succeeded:
        return NO_VIOLATION
    return BROKEN if covered else AS_STATED
