"""What a job says about the columns of its parties; all of it is public.

Names may hold wildcards, which are settled where the names of the columns are known:

| | matches |
|---|---|
| `BILL_AMT*` | any text after BILL_AMT, also none |
| `Q?` | one character after Q |
| `Q[1-4]`, `Q[!5]` | one character of these, or none of these |

Capital letters count. A name that a column has is no wildcard. What a party says itself comes before what is optional
(the entries of a code book); then an exact name before a wildcard, and a longer wildcard before a shorter one.

How a refusal of columns says what to do: in the words of a job file, or in those of Python.

COLUMN stands for the name of the first column that a refusal is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from tacit.errors import InputError
from tacit.text import listing, nearest, show

# --- How a refusal of columns says what to do


@dataclass(frozen=True)
class Advice:
    """The ways out of refusals, in the words of who is asked.

    Attributes
    ----------
    style : {"toml", "python"}
        How names of columns are written.
    ranges, dates, lists, fills : str
        What a column of protected rows is to be given: a range, a range of dates, categories, or what blanks count as.
    lines : str
        What else may be done with a column without a range where numbers are curves.
    left : str
        Out of what a column is left.
    kinds : str
        What to do about numbers that are written as text.
    same : str
        What to do about a column whose kind is not the same at all parties.
    lost, amounts : str
        What to do about texts of which nothing would be used, and about amounts of money among them.
    """

    style: Literal["toml", "python"]
    ranges: str
    dates: str
    lists: str
    fills: str
    lines: str
    left: str
    kinds: str
    same: str
    lost: str
    amounts: str

    def of(self, way: str, column: str) -> str:
        """One of the ways out, with the name of a column in it."""
        plain = self.style == "toml" and re.fullmatch(r"[A-Za-z0-9_-]+", column)
        name = column if plain else show(column) if self.style == "toml" else repr(column)
        return str(getattr(self, way)).replace("COLUMN", name)


IN_A_JOB = Advice(
    style="toml",
    ranges="low and high in [party.columns]",
    dates="low and high in [party.columns], not taken from the rows, such as "
    "COLUMN = { low = 2000-01-01, high = 2030-01-01 }",
    lists="values = [...] or buckets = 32 in [party.columns]",
    fills="low and high (blanks become their middle), or missing = true (they become 0), in [party.columns]",
    lines='(values for categories), or term = "linear"',
    left=" of features",
    kinds='fix the file, or give it kind = "number" or kind = "category" in [party.columns]',
    same="fix one of the files, or give its kind in [party.columns]",
    lost='write numbers as 28453.4 and dates as 2023-08-07 (with kind = "date"), give it kind = "category" in '
    "[party.columns] to keep it as it is (all of it counts as other), or list features without it",
    amounts='say how the file writes numbers, as in numbers = "1.234,56" under its [[party]]; remove signs of percent '
    'and money, and replace other words by blanks; write dates as 2023-08-07 (with kind = "date"); or give it '
    'kind = "category" in [party.columns] to keep it as it is',
)

IN_PYTHON = Advice(
    style="python",
    ranges="a range, as in ranges={COLUMN: (low, high)}",
    dates="a range that is not taken from the rows, as in ranges={COLUMN: (date(2000, 1, 1), date(2030, 1, 1))}",
    lists="a list, as in categories={COLUMN: [...]}",
    fills="a range, as in ranges={COLUMN: (low, high)} (blanks become its middle), or fill them in",
    lines="(for categories a list, as in categories={COLUMN: [...]}), or use terms='linear'",
    left="",
    kinds="make it numbers (pandas.to_numeric), or categories (astype('category'))",
    same="give it the same type at both",
    lost="make numbers and dates columns of their own types (pandas.to_numeric, pandas.to_datetime), make it "
    "categories (astype('category')) to keep it as it is (all of it counts as other), or leave it out",
    amounts="make it numbers or dates (pandas.to_numeric, pandas.to_datetime), or categories (astype('category')) to "
    "keep it as it is",
)


NUMBER, CATEGORY, DATE = "number", "category", "date"
# --- What a job says about columns


KINDS = (NUMBER, CATEGORY, DATE)
SCALES = ("standard", "range", "none")
LINEAR, SPLINE, AUTO = "linear", "spline", "auto"
TERMS = (LINEAR, SPLINE)
OTHER, MISSING = "other", "missing"
RANGE, CURVE = ("low", "high"), ("term", "log", "whole", "repeats")  # keys that numbers alone have
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
    repeats : bool or None
        Whether exact values of a number come again and again, as fees and limits do: then each may add something of
        its own to the curve of protected rows, where the noise leaves room for it.
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
    repeats: bool | None = None
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

    def exact(self, rows: int, columns: int) -> int:
        """Buckets of exact values for a number whose values repeat, from how many rows and columns there are."""


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


# --- names with wildcards ------------------------------------------------------------------------------


SIGNS = frozenset("*?[")


def is_wildcard(name: str) -> bool:
    """Whether a name may stand for several columns."""
    return not SIGNS.isdisjoint(name)


def resolve_specs(specs: Sequence[ColumnSpec], names: Sequence[str], party: str) -> tuple[ColumnSpec, ...]:
    """What a party says of each of its columns, by exact names alone and in their order.

    A name that is neither a column nor a wildcard is kept, unless it is optional: `known_specs` refuses it.

    Parameters
    ----------
    specs : sequence of ColumnSpec
        As the job has them.
    names : sequence of str
        The party's feature columns.
    party : str
        Its name, for messages.

    Raises
    ------
    InputError
        For a wildcard that matches no column, and for two that match the same column and are equally long.
    """
    layers = _layers(specs, names)
    own = layers[0]
    for spec in own.wildcards:
        if not any(fnmatchcase(name, spec.name) for name in names):
            raise InputError(
                f"party {show(party)}: columns names {show(spec.name)}{nearest(spec.name, list(names))}, which matches "
                f"none of its features: they are {listing(names)}"
            )
    found = (_only(best, name, party) for name in names if (best := _best(layers, name)))
    return (*own.strays, *found)


def text_names(specs: Sequence[ColumnSpec], names: Sequence[str]) -> tuple[str, ...]:
    """Which of a file's columns are categories, to be read as text; nothing is refused yet."""
    layers = _layers(specs, names)
    return tuple(name for name in names if (best := _best(layers, name)) and best[0].given_kind == CATEGORY)


@dataclass(frozen=True)
class _Layer:
    """Statements of the same weight: by the names of columns, by wildcards, and by names that no column has."""

    exact: dict[str, ColumnSpec]
    wildcards: tuple[ColumnSpec, ...]
    strays: tuple[ColumnSpec, ...]


def _layers(specs: Sequence[ColumnSpec], names: Sequence[str]) -> tuple[_Layer, _Layer]:
    """What the party says itself, and what is optional."""
    known = frozenset(names)
    own, optional = ([spec for spec in specs if spec.optional is which] for which in (False, True))
    return _layer(own, known), _layer(optional, known)


def _layer(specs: Sequence[ColumnSpec], known: frozenset[str]) -> _Layer:
    others = [spec for spec in specs if spec.name not in known]
    return _Layer(
        {spec.name: spec for spec in specs if spec.name in known},
        tuple(spec for spec in others if is_wildcard(spec.name)),
        tuple(spec for spec in others if not is_wildcard(spec.name)),
    )


def _best(layers: Sequence[_Layer], name: str) -> list[ColumnSpec]:
    """The statements about a column that no other comes before: none, one, or several that are equally good."""
    for layer in layers:
        if name in layer.exact:
            return [layer.exact[name]]
        found = [spec for spec in layer.wildcards if fnmatchcase(name, spec.name)]
        longest = max((len(spec.name) for spec in found), default=0)
        if found:
            return [spec for spec in found if len(spec.name) == longest]
    return []


def _only(found: Sequence[ColumnSpec], name: str, party: str) -> ColumnSpec:
    """The one statement about a column, under its name."""
    if len(found) > 1:
        raise InputError(
            f"party {show(party)}: column {show(name)} matches both {show(found[0].name)} and {show(found[1].name)}: "
            "make one of them longer, or give the column by its own name"
        )
    return replace(found[0], name=name)
