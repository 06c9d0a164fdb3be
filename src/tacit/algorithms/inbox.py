"""What a protected party lets in: its guarantee holds for every message that passes here.

The bounds of docs/proofs/gram.md need labels and symbols among those that were planned, and numbers that no
computation turns into something infinite. They need nothing else of what the label holder sends: neither that it
is honest, nor that it is sensible.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.errors import RunError
from tacit.types import Arrays, Vector

LARGEST = 1e100  # of a number that comes in: sums and products of such numbers and rows stay finite


class Inbox:
    """One message to a protected party."""

    def __init__(self, arrays: Arrays, owner: str) -> None:
        self.arrays, self.owner = arrays, owner

    def numbers(self, name: str, size: int) -> Vector:
        """`size` numbers of moderate size."""
        if name not in self.arrays:
            raise RunError(
                f"party {self.owner!r}: {name} is missing in what the label holder sent: nothing is released"
            )
        array = np.asarray(self.arrays[name])
        if array.dtype != np.float64 or array.shape != (size,):
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} of shape {array.shape} and type {array.dtype}, "
                f"not {size} float64 numbers: nothing is released"
            )
        if not np.all(np.abs(array) <= LARGEST):
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} with numbers that are not finite or beyond "
                f"{LARGEST:g}: nothing is released"
            )
        return array

    def choices(self, name: str, size: int, allowed: Iterable[float]) -> Vector:
        """`size` numbers, each of them one of those allowed."""
        array, among = self.numbers(name, size), [float(value) for value in allowed]
        if not np.all(np.isin(array, among)):
            listed = ", ".join(f"{value:g}" for value in among)
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} other than {listed}, for which no bound holds: "
                "nothing is released"
            )
        return array
