"""The constants of one column, and what they make of its cells."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.encode.cells import Rows, Texts
from tacit.data.encode.spec import MISSING, OTHER
from tacit.types import Vector

ROWS, JOB = "rows", "job"  # where constants come from


@dataclass(frozen=True)
class NumberColumn:
    """A number: (x - centre) / divisor, x clipped to low .. high where these are given.

    Attributes
    ----------
    name : str
    centre, divisor : float
    fill : float
        What stands for a blank, before centre and divisor.
    low, high : float or None
    missing : bool
        Whether a second column says where blanks are.
    days : bool
        Whether the cells are dates, as days since 1970-01-01.
    source : {"rows", "job"}
        Where the constants come from.
    """

    name: str
    centre: float = 0.0
    divisor: float = 1.0
    fill: float = 0.0
    low: float | None = None
    high: float | None = None
    missing: bool = False
    days: bool = False
    source: str = JOB

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name, f"{self.name} {MISSING}") if self.missing else (self.name,)

    def encode(self, cells: Vector) -> Vector:
        """Encoded numbers, blanks filled in."""
        values = np.where(np.isnan(cells), self.fill, cells)
        if self.low is not None and self.high is not None:
            values = np.clip(values, self.low, self.high)
        if self.centre == 0.0 and self.divisor == 1.0:
            return np.asarray(values)
        # Halves, as the difference of two large numbers may be no finite number.
        return np.asarray((values / 2 - self.centre / 2) / self.divisor * 2)


@dataclass(frozen=True)
class CategoryColumn:
    """A category: one column for each, one for all others, and one for blanks where `missing`.

    A cell that says "other" counts as one of the others, and one that says "missing" as a blank.

    Attributes
    ----------
    name : str
    values : tuple of str
        The categories, sorted; neither "other" nor "missing" is among them.
    missing : bool
    source : {"rows", "job"}
    """

    name: str
    values: tuple[str, ...]
    missing: bool = False
    source: str = JOB

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        own = [f"{self.name}={value}" for value in (*self.values, OTHER)]
        return tuple([*own, f"{self.name}={MISSING}"] if self.missing else own)

    def places(self, texts: Texts) -> Rows:
        """Which of the columns is 1, for each row."""
        known = {value: place for place, value in enumerate(self.values)}
        other = len(self.values)
        blank = other + 1 if self.missing else other
        known[MISSING] = blank
        return _placed(texts, [known.get(value, other) for value in texts.values], blank)

    def unknown(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """Rows whose category is none of those, nor blank."""
        known = {*self.values, OTHER, MISSING}
        new = np.array([value not in known for value in texts.values] + [False], dtype=np.bool_)
        return np.asarray(new[texts.codes])


@dataclass(frozen=True)
class BucketColumn:
    """A category by the bucket that its text is hashed into; blanks have a column of their own or none.

    The buckets are the same for everyone: the first 8 bytes of sha256 of "column=category", as a number, modulo their
    number.
    """

    name: str
    buckets: int
    missing: bool = False
    source: str = JOB

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        own = [f"{self.name}=bucket {number}" for number in range(self.buckets)]
        return tuple([*own, f"{self.name}={MISSING}"] if self.missing else own)

    def bucket(self, value: str) -> int:
        """The bucket of a category."""
        digest = hashlib.sha256(f"{self.name}={value}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.buckets

    def places(self, texts: Texts) -> Rows:
        """Which of the columns is 1, for each row; -1 for none."""
        return _placed(texts, [self.bucket(value) for value in texts.values], self.buckets if self.missing else -1)


Column = NumberColumn | CategoryColumn | BucketColumn


def _placed(texts: Texts, places: list[int], blank: int) -> Rows:
    """The place of each row's text; the last entry of the table is that of a blank, whose code is -1."""
    return np.asarray(np.array([*places, blank], dtype=np.int64)[texts.codes])
