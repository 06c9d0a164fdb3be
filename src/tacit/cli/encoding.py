"""What `tacit plan` and `tacit train` say about the encoding of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.data.encode.fit import Encoding

ALL = "all parties"


def encoding_record(encodings: Mapping[str, Encoding]) -> dict[str, Any]:
    """For each party whether its rows are protected, and its columns, as plain values."""
    from tacit.data.encode.words import record

    return {name: {"protected": own.protected, "columns": record(own)} for name, own in encodings.items()}


def train_lines(encodings: Mapping[str, Encoding], *, shared: bool) -> list[str]:
    """The columns of each party, by kind; those of all in one where they are the same."""
    from tacit.data.encode.words import column_lines

    if shared and encodings:
        encoding = next(iter(encodings.values()))
        how = "" if encoding.protected else "; scales and categories were shared between the parties"
        first, *rest = column_lines(ALL, encoding)
        return [first + how, *rest]
    return [line for name, own in encodings.items() for line in column_lines(name, own)]


def plan_lines(encodings: Mapping[str, Encoding], *, shared: bool) -> list[str]:
    """The columns of each party, and where the constants of their encoding come from."""
    from tacit.data.encode.words import column_lines, constants
    from tacit.plan.describe import many

    lines = [line for name, own in encodings.items() for line in column_lines(name, own)]
    titled = [f"{'' if number else 'columns':<11} {line}" for number, line in enumerate(lines)]
    uncovered, assumed = constants(encodings, shared=shared)
    if any(own.protected for own in encodings.values()):
        assumed.append("columns that the job says nothing about count as numbers: training refuses text in them")
    return [*titled, *many("encoding", [*(f"not covered: {text}" for text in uncovered), *assumed])]
