"""What a job says about columns: the section [encode], and columns and positive of a party."""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.data.encode.saved import MOST_BUCKETS
from tacit.data.encode.spec import DATE, KINDS, SCALES, ColumnSpec
from tacit.data.wording import show
from tacit.errors import InputError
from tacit.job.values import TRUTH, Kind, one_of, parse_keys, whole_number
from tacit.privacy.request import Privacy

if TYPE_CHECKING:
    from tacit.data.load import PartySpec

EPOCH = datetime.date(1970, 1, 1)


def _value(value: Any) -> str:
    """Parse one category: text, a whole number, or true and false as a file would write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int) or not str(value).strip():
        raise ValueError
    return unicodedata.normalize("NFC", str(value).strip())  # as cells of a file are read


def _values(value: Any) -> tuple[str, ...]:
    """Parse a list of different categories; their order does not matter."""
    if not isinstance(value, list) or not value:
        raise ValueError
    values = tuple(sorted(_value(item) for item in value))
    if len(set(values)) < len(values):
        raise ValueError
    return values


def _limit(value: Any) -> float:
    """Parse an end of a range: a finite number, or a date as days since 1970-01-01."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return float((value - EPOCH).days)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    if not math.isfinite(number):
        raise ValueError
    return number


def _positive(value: Any) -> str | int | float | bool:
    """Parse a label: text, a finite number, or true and false."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError


def _table(value: Any) -> dict[str, Any]:
    """Parse a table; what is in it is checked by `make_columns`."""
    if not isinstance(value, dict):
        raise ValueError
    return value


KEYS: dict[str, Kind] = {
    "scale": one_of(SCALES),
    "rare": whole_number(1, 10**9),
    "most": whole_number(1, 10**6),
}
COLUMN_KEYS: dict[str, Kind] = {
    "kind": one_of(KINDS),
    "low": Kind("a number, or a date such as 2026-01-31 without quotes", _limit),
    "high": Kind("a number, or a date such as 2026-01-31 without quotes", _limit),
    "values": Kind('a list of categories, such as ["Basel", "Bern"], none twice', _values),
    "buckets": whole_number(1, MOST_BUCKETS),
    "missing": TRUTH,
}
COLUMNS = Kind("a table of columns, such as { age = { low = 18, high = 90 } }", _table)
POSITIVE_LABEL = Kind("a label: text, a number, true or false", _positive)


def make_columns(values: Mapping[str, Any], number: int) -> tuple[ColumnSpec, ...]:
    """What a party says about its columns, sorted by name; `number` counts the parties from 1.

    Raises
    ------
    InputError
        For an unknown key, a value that is not allowed, or values that do not fit each other.
    """
    return tuple(_column(name, values[name], f"party {number}.columns.{name}") for name in sorted(values))


def _column(name: str, values: Any, place: str) -> ColumnSpec:
    """One column."""
    if not isinstance(values, dict):
        raise InputError(f"{place} = {show(values)} is not allowed: write a table, such as {{ low = 18, high = 90 }}")
    parsed = parse_keys(values, COLUMN_KEYS, place)
    if any(isinstance(values.get(key), datetime.date) for key in ("low", "high")):
        parsed.setdefault("kind", DATE)
    return ColumnSpec(name, **parsed)


def columns_record(columns: Sequence[ColumnSpec]) -> dict[str, dict[str, Any]] | None:
    """What a party says about its columns, for writing; None where it says nothing."""
    found = {
        spec.name: {key: getattr(spec, key) for key in COLUMN_KEYS if getattr(spec, key) is not None}
        for spec in columns
    }
    return found or None


def check_columns(spec: PartySpec) -> None:
    """Refuse what cannot be said of a party's id and label, and `positive` without a label."""
    for role, column in (("id", spec.id), ("label", spec.label)):
        if column is not None and any(known.name == column for known in spec.columns):
            raise InputError(
                f"party {show(spec.name)}: the {role} {show(column)} is among its columns: remove it there"
            )
    if spec.positive is not None and spec.label is None:
        raise InputError(f"party {show(spec.name)} has positive = {show(spec.positive)} and no label: remove it")


def protected_parties(privacy: Privacy | None, split: str, parties: Sequence[PartySpec]) -> frozenset[str]:
    """The parties whose rows are to be protected, so that no constant of an encoding may be taken from them."""
    if privacy is None or privacy.epsilon is None:  # labels alone: no constant depends on a label
        return frozenset()
    fits_once = split == "features" and privacy.mechanism in ("auto", "gram")
    if fits_once and privacy.protect == "others":
        return frozenset(party.name for party in parties if party.label is None)
    return frozenset(party.name for party in parties)
