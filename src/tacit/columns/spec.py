"""What a job says about the columns of its parties; all of it is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tacit.columns.advice import IN_A_JOB, Advice
from tacit.errors import InputError
from tacit.text import show

NUMBER, CATEGORY, DATE = "number", "category", "date"
KINDS = (NUMBER, CATEGORY, DATE)
SCALES = ("standard", "range", "none")
LINEAR, SPLINE, AUTO = "linear", "spline", "auto"
TERMS = (LINEAR, SPLINE)
OTHER, MISSING = "other", "missing"
RANGE, CURVE = ("low", "high"), ("term", "log", "whole")  # keys that numbers alone have
ROWS, JOB = "rows", "job"  # where constants come from: rows that nobody protects, or the job


@dataclass(frozen=True)
class ColumnSpec:
    """What is known of one column without looking at its rows.

    Attributes
    ----------
    name : str
        The column's name; with the wildcards * ? and [...] those of several.
    kind : {"number", "category", "date"} or None
        None to go by the type of the file, which says enough for all but dates. A date is a number of days.
    low, high : float or None
        Range of a number: it is clipped to it and scaled to [-1, 1]. Of dates, in days since 1970-01-01.
    values : tuple of str or None
        The categories; every other one is "other".
    buckets : int or None
        Number of buckets that categories are hashed into.
    missing : bool or None
        Whether blanks get a column of their own; None for one where blanks occur in rows that nobody protects.
    term : {"linear", "spline"} or None
        What a number adds to the score: a line, or a smooth curve. None is what [model] says by `terms`.
    log : bool or None
        Whether the curve of a number follows its logarithm, counted from `low`; true needs low and high.
    whole : bool or None
        Whether a number is always whole, such as an age in years.
    optional : bool
        Whether there may be no such column, as with the entries of a code book; never in a file.
    """

    name: str
    kind: str | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] | None = None
    buckets: int | None = None
    missing: bool | None = None
    term: str | None = None
    log: bool | None = None
    whole: bool | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        number, curve, category = (self._given(*keys) for keys in (RANGE, CURVE, ("values", "buckets")))
        if len(category) == 2:
            raise InputError(f"column {show(self.name)} has both values and buckets: keep one")
        if len(number) == 1:
            raise InputError(f"column {show(self.name)} has {number[0]} alone: give both low and high")
        if self.low is not None and self.high is not None and not self.low / 2 < self.high / 2:
            raise InputError(f"column {show(self.name)}: low = {self.low:g} is not below high = {self.high:g}")
        if number and (category or self.kind == CATEGORY):
            raise InputError(f"column {show(self.name)}: low and high are for numbers: remove them, or the rest")
        if curve and (category or self.kind == CATEGORY):
            raise InputError(f"column {show(self.name)}: {curve[0]} is for numbers: remove it, or the rest")
        if category and self.kind in (NUMBER, DATE):
            raise InputError(f"column {show(self.name)}: {category[0]} is for categories: remove it, or the kind")
        if self.log and not number:
            raise InputError(f"column {show(self.name)}: log = true needs low and high: give both, or leave log out")

    def _given(self, *keys: str) -> list[str]:
        """Those of some keys that have a value."""
        return [key for key in keys if getattr(self, key) is not None]

    @property
    def given_kind(self) -> str | None:
        """The kind that follows from what is given; None where it is left to the file."""
        if self._given(*RANGE, *CURVE):
            return self.kind or NUMBER
        return CATEGORY if self.values is not None or self.buckets is not None else self.kind


class PairsRule(Protocol):
    """How many pairs of frequencies the curves of a party's protected rows have."""

    def pairs(self, rows: int, numbers: int, lists: Sequence[int]) -> int:
        """From how many rows are trained on, how many numbers there are, and what each list of categories becomes."""


@dataclass(frozen=True)
class EncodeRules:
    """The section [encode]: how columns become numbers, for all parties.

    Attributes
    ----------
    scale : {"standard", "range", "none"} or None
        What is done to numbers without low and high: mean 0 and deviation 1; smallest and largest to -1 and 1; or
        nothing. None is "standard", and "none" for a party whose rows are protected.
    rare : int
        A category in fewer rows counts as "other".
    most : int
        At most so many categories of a column, the most frequent ones.
    terms : {"linear", "spline", "auto"}
        What numbers add to the score, where a column does not say it: lines or smooth curves. It is `terms` of the
        section [model]. "auto": curves, but lines for a party whose rows are protected and whose numbers do not all
        have a range; without privacy a search settles it before anything is encoded.
    pairs : int or None
        How many pairs of waves make the curve of a protected number; None for a number that follows from how much
        noise there is.
    noise : PairsRule or None
        Public numbers about the noise that the rule for `pairs` needs; never in a file.
    parties, columns : int
        How many parties share one score, and how many columns this one has: curves of more columns are held flatter.
        Both follow from the job and the file, and are never in a file of their own.
    advice : Advice
        The words in which refusals say what to do.
    codebook : tuple of ColumnSpec
        What is known of columns of all parties, where a party does not say it itself: a CSV file whose header names
        `column` and keys of [party.columns], or what such a file says.
    """

    scale: str | None = None
    rare: int = 10
    most: int = 50
    terms: str = LINEAR
    pairs: int | None = None
    noise: PairsRule | None = field(default=None, repr=False)
    parties: int = field(default=1, repr=False)
    columns: int = field(default=1, repr=False)
    advice: Advice = field(default=IN_A_JOB, repr=False, compare=False)
    codebook: tuple[ColumnSpec, ...] = ()

    def scale_of(self, protected: bool) -> str:
        """What is done to the numbers of a party."""
        return self.scale or ("none" if protected else "standard")


def common_specs(parties: Sequence[tuple[str, Sequence[ColumnSpec]]]) -> tuple[ColumnSpec, ...]:
    """What several parties that hold the same columns say about them, each of which holds for all.

    What a party says itself comes before what is optional, whoever it is of.

    Raises
    ------
    InputError
        Where two parties do not say the same of a column.
    """
    found: dict[str, tuple[str, ColumnSpec]] = {}
    for party, specs in parties:
        for spec in specs:
            first, known = found.setdefault(spec.name, (party, spec))
            if known.optional and not spec.optional:
                found[spec.name] = (party, spec)
            elif known != spec and known.optional == spec.optional:
                raise InputError(
                    f"parties {show(first)} and {show(party)} say different things about column {show(spec.name)}: "
                    "all parties need the same, so say it once"
                )
    return tuple(spec for _, spec in found.values())
