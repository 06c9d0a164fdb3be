"""The one door: every message of a run, whoever sends it, is made here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.types import Message, Single, Vector, Words


def leave(
    sender: str,
    round_: int,
    arrays: Mapping[str, Vector | Words],
    kind: str = "step",
    singles: Sequence[str] = (),
) -> Message:
    """What leaves a party, or the side that holds the labels, as a message; `singles` travel as float32."""
    sent = {name: _single(array) if name in singles else array for name, array in arrays.items()}
    return Message(sender=sender, round=round_, arrays=sent, kind=kind)


def arrive(sender: str, round_: int, arrays: Mapping[str, Vector | Words | Single], kind: str) -> Message:
    """What left another organisation's door, as it arrives."""
    return Message(sender=sender, round=round_, arrays=arrays, kind=kind)


def _single(array: Vector | Words) -> Vector | Words | Single:
    """Numbers of single precision as float32; words under masks as they are."""
    return array.astype(np.float32) if array.dtype == np.float64 else array
