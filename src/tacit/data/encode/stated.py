"""Constants that a job states, and the refusal of those that it would have taken from protected rows."""

from __future__ import annotations

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


def refuse_learning(party: str, spec: ColumnSpec, kind: str, rules: EncodeRules) -> None:
    """Refuse a column of protected rows whose constants would come from them; `kind` is that of its file."""
    where = f"party {show(party)}: column {show(spec.name)}"
    category = (spec.given_kind or kind) == CATEGORY
    if category and spec.values is None and spec.buckets is None:
        raise InputError(
            f"{where} holds categories, and a list taken from its rows would not be private: give it values = [...] or "
            "buckets = 32 in [party.columns], or leave it out of features"
        )
    if not category and spec.low is None and rules.scale in ("standard", "range"):
        raise InputError(
            f'{where} would be scaled by its rows (scale = "{rules.scale}"), which would not be private: '
            'give it low and high in [party.columns], or write scale = "none"'
        )
