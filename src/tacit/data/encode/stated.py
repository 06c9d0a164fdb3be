"""Constants that a job states, and the refusal of those that it would have taken from protected rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tacit.data.encode.columns import BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.encode.encoder import Encoder
from tacit.data.encode.spec import CATEGORY, DATE, MISSING, OTHER, ColumnSpec, EncodeRules
from tacit.data.wording import listing, nearest, show
from tacit.errors import InputError


def public_encoder(
    names: Sequence[str],
    specs: Sequence[ColumnSpec],
    unused: tuple[str, ...] = (),
) -> Encoder:
    """The encoder of columns of which nothing is known but what the job says; the others are numbers, as they are."""
    given = {spec.name: spec for spec in specs}
    return Encoder(tuple(stated_column(given.get(name, ColumnSpec(name))) for name in names), unused)


def known_specs(specs: Sequence[ColumnSpec], names: Sequence[str], party: str) -> dict[str, ColumnSpec]:
    """What the job says by column; refused where it names a column that is no feature."""
    for spec in specs:
        if spec.name not in names:
            raise InputError(
                f"party {show(party)}: columns names {show(spec.name)}{nearest(spec.name, list(names))}, which is none "
                f"of its features: they are {listing(names)}"
            )
    return {spec.name: spec for spec in specs}


def stated_column(spec: ColumnSpec) -> Column:
    """The constants that a job states about one column."""
    missing, days = bool(spec.missing), spec.kind == DATE
    if spec.buckets is not None:
        return BucketColumn(spec.name, spec.buckets, missing)
    if spec.values is not None:
        return CategoryColumn(spec.name, listed_values(spec.values), missing or MISSING in spec.values)
    if spec.low is None or spec.high is None:
        return NumberColumn(spec.name, missing=missing, days=days)
    centre, half = spec.low / 2 + spec.high / 2, spec.high / 2 - spec.low / 2
    return NumberColumn(spec.name, centre, half, centre, spec.low, spec.high, missing, days)


def listed_values(values: Sequence[str]) -> tuple[str, ...]:
    """The categories of a list, sorted, without those that have columns of their own."""
    return tuple(sorted({*values} - {OTHER, MISSING}))


def unlearnable(columns: Sequence[tuple[ColumnSpec, str]], rules: EncodeRules) -> list[str]:
    """Columns of protected rows whose constants would come from them, a sentence for each reason.

    Parameters
    ----------
    columns : sequence of (ColumnSpec, str)
        What the job says of each column, and its kind in the file.
    rules : EncodeRules
    """
    dates, listed, scaled = [], [], []
    for spec, kind in columns:
        if lacks_range(spec, kind):
            dates.append(spec.name)
            continue
        category = (spec.given_kind or kind) == CATEGORY
        if category and spec.values is None and spec.buckets is None:
            listed.append(spec.name)
        elif not category and spec.low is None and rules.scale in ("standard", "range"):
            scaled.append(spec.name)
    said = _undated(dates)
    if listed:
        what, them = ("holds categories, and a list taken from its rows", "it")
        if len(listed) > 1:
            what, them = ("hold categories, and lists taken from their rows", "them")
        said.append(
            f"{named(listed)} {what} would not be private: give {'it' if them == 'it' else 'each'} values = [...] or "
            f"buckets = 32 in [party.columns], or leave {them} out of features"
        )
    if scaled:
        its, it = ("its", "it") if len(scaled) == 1 else ("their", "each")
        said.append(
            f'{named(scaled)} would be scaled by {its} rows (scale = "{rules.scale}"), which would not be private: '
            f'give {it} low and high in [party.columns], or write scale = "none"'
        )
    return said


def lacks_range(spec: ColumnSpec, kind: str) -> bool:
    """Whether a column of protected rows holds dates of which the job does not say what to do with them."""
    return kind == DATE and spec.given_kind not in (DATE, CATEGORY)


def _undated(columns: Sequence[str]) -> list[str]:
    """What is said of dates; their kind alone would not do, as days are so many that they drown other columns."""
    if not columns:
        return []
    hold, each, them = ("holds", "it", "it") if len(columns) == 1 else ("hold", "each", "them")
    key = columns[0] if re.fullmatch(r"[A-Za-z0-9_-]+", columns[0]) else show(columns[0])
    return [
        f"{named(columns)} {hold} dates: give {each} low and high in [party.columns], not taken from the rows, such as "
        f"{key} = {{ low = 2000-01-01, high = 2030-01-01 }}, or leave {them} out of features"
    ]


def named(columns: Sequence[str]) -> str:
    """Columns in a message: all of them, so that a job is fixed at once."""
    return f"{'column' if len(columns) == 1 else 'columns'} {listing(columns)}"


def refuse(party: str, said: Sequence[str]) -> None:
    """Refuse a party's columns for these reasons, if there are any."""
    if said:
        raise InputError(f"party {show(party)}: {'; '.join(said)}")
