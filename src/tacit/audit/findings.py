"""An audit as text, as a table and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from tacit.audit.auditor import Audit
from tacit.audit.result import AS_STATED, NEIGHBOURS, VERDICTS

FORMAT = 2
TITLES = ("attack", "claimed", "found", "verdict")
NOTHING_CLAIMED = "No privacy is claimed, so nothing could be broken."
UNBROKEN = "No violation of a claim was found. An audit cannot prove a claim; it can only fail to refute it."
BROKEN_CLAIM = "Something that is claimed is BROKEN: do not rely on this certificate."


def lines(audit: Audit) -> list[tuple[str, str, str, str]]:
    """One line for each attack: attack, claimed, found, verdict."""
    return [(finding.name, finding.claimed, finding.found, finding.verdict) for finding in audit.findings]


def conclusion(audit: Audit) -> list[str]:
    """The whole in a sentence or two."""
    weak = sum(finding.verdict == AS_STATED for finding in audit.findings)
    said = [f"{weak} of {_count(audit)} attacks succeed where the certificate says that nothing is covered."]
    first = (UNBROKEN if audit.certificate.private else NOTHING_CLAIMED) if audit.unbroken else BROKEN_CLAIM
    return [first, *(said if weak else [])]


def _count(audit: Audit) -> int:
    """The attacks of the table: the replay on neighbouring data sets has a line of its own."""
    return sum(finding.name != NEIGHBOURS for finding in audit.findings)


def to_record(audit: Audit) -> dict[str, Any]:
    """The audit as plain values."""
    target = audit.certificate.target
    verdicts = [finding.verdict for finding in audit.findings]
    return {
        "format": FORMAT,
        "mechanism": audit.mechanism,
        "private": audit.certificate.private,
        "claimed_epsilon": None if target is None else audit.certificate.epsilon(target.delta),
        "delta": None if target is None else target.delta,
        "broken": not audit.unbroken,
        "verdicts": {word: verdicts.count(word) for word in VERDICTS},
        "findings": [finding.record() for finding in audit.findings],
    }


def to_json(audit: Audit) -> str:
    """The audit as JSON; numbers that JSON does not know are written as strings."""
    return json.dumps(_plain(to_record(audit)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity" if value > 0 else "-infinity" if value < 0 else "not a number"
    return value
