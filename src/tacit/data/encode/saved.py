"""An encoder as plain values for JSON, and back without trust."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tacit.data.encode.columns import JOB, ROWS, BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.encode.encoder import Encoder
from tacit.data.encode.spec import MISSING, OTHER
from tacit.data.wording import show

FORMAT = 1
MOST_BUCKETS = 2**20
_KINDS: dict[str, type[NumberColumn | CategoryColumn | BucketColumn]] = {
    "number": NumberColumn,
    "category": CategoryColumn,
    "buckets": BucketColumn,
}


def to_record(encoder: Encoder) -> dict[str, Any]:
    """The encoder as plain values."""
    kinds = {cls: kind for kind, cls in _KINDS.items()}
    columns = [{"kind": kinds[type(column)], **asdict(column)} for column in encoder.columns]
    return {"format": FORMAT, "columns": columns, "unused": list(encoder.unused)}


def from_record(record: Any) -> Encoder:
    """The encoder that `to_record` wrote.

    Raises
    ------
    ValueError
        In a few words that name what is wrong.
    """
    if not isinstance(record, Mapping) or record.get("format") != FORMAT or isinstance(record["format"], bool):
        raise ValueError("its schema has no format that this version reads")
    columns, unused = record.get("columns"), record.get("unused")
    if not isinstance(columns, list) or not columns:
        raise ValueError("its schema has no columns")
    if not isinstance(unused, list) or not all(isinstance(name, str) for name in unused):
        raise ValueError("its schema has no list of unused columns")
    return Encoder(tuple(_column(column) for column in columns), tuple(unused))


def _column(record: Any) -> Column:
    """One column, every value checked."""
    if not isinstance(record, Mapping) or record.get("kind") not in tuple(_KINDS):
        raise ValueError(f"its schema has a column {show(record)}")
    kind = record["kind"]
    name, missing, source = record.get("name"), record.get("missing"), record.get("source")
    if not isinstance(name, str) or not name:
        raise ValueError(f"its schema has a column named {show(name)}")
    if not isinstance(missing, bool) or source not in (JOB, ROWS):
        raise ValueError(f"the schema of column {show(name)} has missing = {show(missing)}, source = {show(source)}")
    if kind == "number":
        return _number(record, name, missing, source)
    if kind == "category":
        return CategoryColumn(name, _values(record.get("values"), name), missing, source)
    buckets = record.get("buckets")
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"the schema of column {show(name)} has {show(buckets)} buckets")
    return BucketColumn(name, buckets, missing, source)


def _number(record: Mapping[str, Any], name: str, missing: bool, source: str) -> NumberColumn:
    centre, divisor, fill = (_finite(record.get(key), name, key) for key in ("centre", "divisor", "fill"))
    given = [key for key in ("low", "high") if record.get(key) is not None]
    low, high = (_finite(record[key], name, key) if given else None for key in ("low", "high"))
    days = record.get("days")
    if divisor <= 0 or not isinstance(days, bool) or (low is not None and high is not None and not low < high):
        raise ValueError(f"the schema of column {show(name)} does not fit together")
    return NumberColumn(name, centre, divisor, fill, low, high, missing, days, source)


def _values(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(v, str) and v not in ("", OTHER, MISSING) for v in values):
        raise ValueError(f"the schema of column {show(name)} has no list of categories")
    return tuple(values)


def _finite(value: Any, name: str, key: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"the schema of column {show(name)} has {key} = {show(value)}")
