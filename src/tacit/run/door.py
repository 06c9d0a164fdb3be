"""The one door: every message of a run, whoever sends it, is made here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.types import Message, Vector, Words


def leave(sender: str, round_: int, arrays: Mapping[str, Vector | Words], kind: str = "step") -> Message:
    """What leaves a party, or the side that holds the labels, as a message."""
    return Message(sender=sender, round=round_, arrays=arrays, kind=kind)


def arrive(sender: str, round_: int, arrays: Mapping[str, Vector | Words], kind: str) -> Message:
    """What left another organisation's door, as it arrives."""
    return Message(sender=sender, round=round_, arrays=arrays, kind=kind)
