"""What is said about an encoding: columns by kind, and where its constants come from."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from tacit.data.encode.columns import JOB, ROWS, BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.encode.fit import Encoding, Fact
from tacit.data.wording import listing, plural

LISTED = 8
# Rows are clipped to row_norm in private runs: one column of thousands leaves nothing of those of about 1.
RANGES = "large numbers drown others under row_norm: give low and high to"
EPOCH = datetime.date(1970, 1, 1)


def column_lines(party: str, encoding: Encoding) -> list[str]:
    """One line about a party's columns, and one for those of each kind."""
    encoder = encoding.encoder
    before, after = len(encoder.sources), len(encoder.names)
    become = "" if before == after and encoder.sources == encoder.names else f", encoded as {after}"
    lines = [f"{party}: {plural(before, 'column')}{become}"]
    groups: dict[str, list[str]] = {}
    for column in encoder.columns:
        groups.setdefault(describe(column, encoding.facts.get(column.name)), []).append(column.name)
    lines += [f"  {what}: {listing(names, LISTED)}" for what, names in groups.items()]
    bare = [column.name for column in encoder.columns if _unbounded(column)]
    return [*lines, f"  {RANGES} {listing(bare, LISTED)}"] if encoding.protected and bare else lines


def _unbounded(column: Column) -> bool:
    return isinstance(column, NumberColumn) and column.low is None


def describe(column: Column, fact: Fact | None) -> str:
    """Kind and constants of a column in a few words; what was seen of its rows where these are not protected."""
    seen = [] if fact is None else _seen(column, fact)
    if isinstance(column, NumberColumn):
        return ", ".join([_number(column), *seen])
    if isinstance(column, BucketColumn):
        blanks = ["blanks apart"] if column.missing else []
        return ", ".join([f"category in {plural(column.buckets, 'bucket')}", *blanks, *seen])
    kept = plural(len(column.values), "category")
    if column.source == ROWS and fact is not None and fact.different > len(column.values):
        kept = f"{len(column.values)} of {fact.different} categories"
    blanks = [] if fact is not None else ["blanks apart" if column.missing else "blanks are other"]
    return ", ".join([f"category, {kept}", *blanks, *seen])


def _number(column: NumberColumn) -> str:
    what = "date" if column.days else "number"
    marked = " and are marked" if column.missing else ""
    if column.low is not None and column.high is not None:
        return f"{what} from {_end(column, column.low)} to {_end(column, column.high)}, blanks become " + (
            f"{_end(column, column.fill)}{marked}"
        )
    if column.centre == 0.0 and column.divisor == 1.0 and column.source == JOB:
        return f"{what} as it is" + (f", blanks become 0{marked}" if marked else "")
    return what


def _end(column: NumberColumn, value: float) -> str:
    """An end or the middle of a range, as a date where it is one."""
    if not column.days:
        return f"{value:g}"
    try:
        return str(EPOCH + datetime.timedelta(days=value))
    except OverflowError:
        return f"day {value:g}"


def _seen(column: Column, fact: Fact) -> list[str]:
    """What the rows showed: blanks, rare categories, and columns that are the same in all rows."""
    said = []
    if isinstance(column, CategoryColumn) and fact.other:
        said.append(f"{plural(fact.other, 'row')} other")
    if fact.blanks:
        said.append(plural(fact.blanks, "blank"))
    return [*said, "the same in all rows"] if fact.constant else said


def record(encoding: Encoding) -> list[dict[str, Any]]:
    """The columns as plain values; blanks and categories are counted only where rows are not protected."""
    found = []
    for column in encoding.encoder.columns:
        fact = encoding.facts.get(column.name)
        seen = {} if fact is None else {"blanks": fact.blanks, "different": fact.different, "other": fact.other}
        kind = "number" if isinstance(column, NumberColumn) else "category"
        found.append({"column": column.name, "kind": kind, "encoded": len(column.names), "from": column.source, **seen})
    return found


def constants(encodings: Mapping[str, Encoding], *, shared: bool) -> tuple[list[str], list[str]]:
    """What a certificate says about the constants: what it does not cover, and what it assumes.

    Parameters
    ----------
    encodings : mapping of str to Encoding
        By party.
    shared : bool
        Whether all parties have the same constants, as where the rows are split.
    """
    learnt = [name for name, own in encodings.items() if not own.protected and _sources(own) & {ROWS}]
    stated = [name for name, own in encodings.items() if own.protected]
    uncovered, assumed = [], []
    if learnt and shared:
        uncovered.append(
            "the constants of the encoding (means, deviations, which categories and blanks occur): they were taken "
            "from the rows of all parties and shared between them"
        )
    elif learnt:
        whose = "its" if len(learnt) == 1 else "each one's"
        uncovered.append(
            f"the constants of the encoding of {', '.join(learnt)} (means, deviations, which categories and blanks "
            f"occur): they were taken from {whose} rows and are saved with {whose} part of the model"
        )
    if stated:
        assumed.append(
            f"the constants of the encoding of {', '.join(stated)} (columns and their kinds, ranges, categories, "
            "buckets) are public: the job states them, and nobody took them from the rows"
        )
    return uncovered, assumed


def _sources(encoding: Encoding) -> set[str]:
    return {column.source for column in encoding.encoder.columns}
