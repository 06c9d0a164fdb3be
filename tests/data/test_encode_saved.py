"""Encoders as JSON: written and read back as they were, and refused in a few words where they are damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tacit.columns.encoder import BucketColumn, CategoryColumn, Encoder, NumberColumn, from_record, to_record

ENCODER = Encoder(
    (
        NumberColumn("age", 0.1, 3.3, 0.1, missing=True, source="rows"),
        NumberColumn("pay", 5.0, 5.0, 5.0, 0.0, 10.0),
        NumberColumn("since", days=True),
        CategoryColumn("city", ("Basel", "Z\u00fcrich"), True, "rows"),
        CategoryColumn("only", ()),
        BucketColumn("code", 3, True),
    ),
    ("id", "label"),
)


def test_round_trip() -> None:
    assert from_record(json.loads(json.dumps(to_record(ENCODER)))) == ENCODER


def changed(place: int, key: str, value: Any) -> Any:
    record = json.loads(json.dumps(to_record(ENCODER)))
    record["columns"][place][key] = value
    return record


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        {"format": True, "columns": [], "unused": []},
        {"format": 1, "columns": [], "unused": []},
        {**to_record(ENCODER), "columns": [3]},
        {**to_record(ENCODER), "unused": [3]},
        changed(0, "kind", "text"),
        changed(0, "kind", ["number"]),
        changed(0, "name", ""),
        changed(0, "name", "pay"),
        changed(0, "missing", 1),
        changed(0, "source", "heaven"),
        changed(0, "centre", None),
        changed(0, "centre", 10**400),
        changed(0, "fill", "nan"),
        changed(0, "divisor", 0),
        changed(0, "days", None),
        changed(1, "low", None),
        changed(1, "low", 10.0),
        changed(3, "values", "abc"),
        changed(3, "values", ["a", "a"]),
        changed(3, "values", ["other"]),
        changed(5, "buckets", 0),
        changed(5, "buckets", 10**9),
        changed(5, "buckets", True),
    ],
)
def test_damaged_records(record: Any) -> None:
    with pytest.raises(ValueError, match=r"schema|both be encoded"):
        from_record(record)
