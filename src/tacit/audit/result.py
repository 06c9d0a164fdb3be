"""What one attack found, beside what was claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.errors import InputError

HOLDS, BROKEN, AS_STATED = "holds", "broken", "as stated"
VERDICTS = (HOLDS, BROKEN, AS_STATED)


@dataclass(frozen=True)
class AttackResult:
    """One line of an audit.

    Attributes
    ----------
    name : str
        What was tried.
    claimed, found : str
        What the certificate says of it, and what came out.
    verdict : {"holds", "broken", "as stated"}
        "holds": the claim withstood. "broken": it did not. "as stated": the attack succeeds, and the certificate itself
        says that this is not covered.
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
        return HOLDS
    return BROKEN if covered else AS_STATED
