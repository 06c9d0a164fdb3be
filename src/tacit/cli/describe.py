"""`tacit describe`: a look at the columns of a job before it is trained."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import day

if TYPE_CHECKING:
    from tacit.columns.table import Table
    from tacit.data.describe import Cells, ColumnFacts, LabelColumn, PartyFacts
    from tacit.data.load import PartySpec
    from tacit.job import Job

DESCRIPTION = """\
Look at the columns of a job before training: for each party rows, blanks,
quantiles, correlations and variance inflation (VIF) of its numbers; what each
column tells of the label (weight of evidence by bin, information value); and
with --against how much a column has moved since (stability index). Rows that
the job holds out are left out.

All files are read here. In a job with [privacy] each file is looked at by
itself, and nothing is shown of a party whose rows are protected: with
--party NAME that party looks at its own file, and at no other."""
EPILOG = """\
examples:
  tacit describe credit.toml
  tacit describe credit.toml --bins             weight of evidence of each bin
  tacit describe credit.toml --against bank=new/bank.csv
  tacit describe credit.toml --party phone      its own columns alone
  tacit describe credit.toml --json facts.json"""
PROTECTED = "its rows are protected by [privacy]: nothing is shown here; at its own side: tacit describe JOB --party {}"
STRENGTHS = ((0.02, "none"), (0.1, "weak"), (0.3, "medium"), (math.inf, "strong"))  # of an information value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file")
    parser.add_argument("--party", metavar="NAME", help="look at the file of this party alone")
    parser.add_argument("--against", metavar="PARTY=FILE", action="append", default=[], help="a later file of a party")
    parser.add_argument("--bins", action="store_true", help="show the weight of evidence of each bin")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE as JSON")


def run(options: argparse.Namespace) -> int:
    """Describe and print."""
    from tacit.files import writable, write_json
    from tacit.job import read_job
    from tacit.text import listing, nearest, show

    job = read_job(options.job)
    if job.engine == "flare":
        raise InputError('tacit describe reads all files here: with engine = "flare" each party has its own elsewhere')
    if options.party is not None and options.party not in job.names:
        near = nearest(options.party, job.names)
        raise InputError(f"there is no party {show(options.party)}{near}: the parties are {listing(job.names)}")
    later = _later(options.against, job)
    found = list(_described(job, options.party, later))
    for one in found:
        print("\n".join(party_lines(one, bins=options.bins)) if not isinstance(one, str) else one)
        print()
    if options.json is not None:
        facts = [_plain(dataclasses.asdict(one)) for one in found if not isinstance(one, str)]
        write_json(writable(options.json, "--json"), {"parties": facts}, secret=job.privacy is not None)
    return 0


def _later(arguments: Sequence[str], job: Job) -> dict[str, str]:
    """Later files by party."""
    from tacit.text import listing, show

    found = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or name not in job.names:
            raise InputError(f"--against {show(argument)} is not PARTY=FILE: the parties are {listing(job.names)}")
        found[name] = path
    return found


def _described(job: Job, party: str | None, later: Mapping[str, str]) -> Iterator[PartyFacts | str]:
    """Facts of each party, or why nothing is said of it."""
    from tacit.data.describe import describe_columns

    parts: Iterator[Part | str]
    if job.privacy is not None:  # each party by itself: no file is read beside another one
        parts = _each_alone(job, party)
    else:
        parts = _of_nodes(job) if job.rows_are_split else _of_parties(job)
    for one in parts:
        if isinstance(one, str):
            yield one
        elif party is None or one[0].name == party:
            spec, columns, label = one
            yield describe_columns(spec.name, columns, label, _other(spec, columns, later.get(spec.name)))


Part = tuple["PartySpec", "list[Cells]", "LabelColumn | None"]


def _of_parties(job: Job) -> Iterator[Part]:
    """Each party's columns of the matched rows that are trained on, and their label."""
    from tacit.plan.terms import loss_of
    from tacit.run.prepare import match_job_files

    files = match_job_files(job)
    held = files.held(job.holdout_rule)
    holder = next(spec for spec in job.parties if spec.label is not None)
    values = files.labels if held is None else files.labels[~held]
    label = _label(values, loss_of(job), holder)
    for spec, table, names, rows in zip(files.specs, files.tables, files.names, files.alignment.rows, strict=True):
        own = rows if held is None else rows[~held]
        yield spec, _columns(spec, table, names, own), label


def _of_nodes(job: Job) -> Iterator[Part]:
    """Each node's own rows and labels."""
    import numpy as np

    from tacit.data.labels import file_labels
    from tacit.data.nodes import node_columns, read_nodes
    from tacit.plan.terms import loss_of

    tables = read_nodes(job.parties, job.folder)
    names = node_columns(tables, job.parties)
    for spec, table in zip(job.parties, tables, strict=True):
        ids = None if spec.id is None else table.column(spec.id)
        held = job.holdout_rule.held(table, spec.holdout_column, None, ids)
        rows = np.arange(table.n_rows) if held is None else np.flatnonzero(~held)
        values = file_labels(table.column(spec.label or ""), party=spec.name)[rows]
        yield spec, _columns(spec, table, names, rows), _label(values, loss_of(job), spec)


def _each_alone(job: Job, party: str | None) -> Iterator[Part | str]:
    """The file of each party by itself; those of protected parties are opened for the party that asks for its own."""
    for spec in job.parties:
        if spec.name == party or (party is None and spec.name not in job.protected):
            yield _alone(job, spec)
        elif party is None:
            yield f"{spec.name}: {PROTECTED.format(spec.name)}"


def _alone(job: Job, spec: PartySpec) -> Part:
    """The file of one party by itself, all of its rows: no other file is opened."""
    from tacit.data.labels import file_labels
    from tacit.data.load import feature_names, read_training_table
    from tacit.plan.terms import loss_of

    table = read_training_table(spec, job.folder)
    names = feature_names(table, spec, spec.label or "")
    label = None
    if spec.label is not None:
        label = _label(file_labels(table.column(spec.label), party=spec.name), loss_of(job), spec)
    return spec, _columns(spec, table, names, None), label


def _columns(spec: PartySpec, table: Table, names: Sequence[str], rows: Any) -> list[Cells]:
    from tacit.columns.spec import CATEGORY
    from tacit.data.describe import read_cells

    known = {column.name: column.given_kind for column in spec.known_columns(names)}
    return [read_cells(table, name, rows, text=known.get(name) == CATEGORY) for name in names]


def _label(values: Any, loss: Any, spec: PartySpec) -> LabelColumn | None:
    """The label as the loss takes it; nothing for more than two classes, or where one class alone is there."""
    import numpy as np

    from tacit.data.describe import LabelColumn
    from tacit.data.labels import encode_labels

    if loss.task == "classification":
        if len(set(values.tolist())) != 2:
            return None
        return LabelColumn(positive=encode_labels(values, loss, spec.name, spec.positive).values > 0)
    return LabelColumn(numbers=np.asarray(encode_labels(values, loss, spec.name).values))


def _other(spec: PartySpec, columns: Sequence[Cells], path: str | None) -> dict[str, Cells] | None:
    """The same columns of a later file."""
    from tacit.columns.spec import CATEGORY
    from tacit.data.describe import read_cells
    from tacit.data.read import read_table

    if path is None:
        return None
    text = tuple(cells.name for cells in columns if cells.kind == CATEGORY)
    table = read_table(path, party=spec.name, id_column=spec.id, text_columns=text)
    return {cells.name: read_cells(table, cells.name, None, text=cells.name in text) for cells in columns}


# --- for people ------------------------------------------------------------------------------------------------


def party_lines(facts: PartyFacts, *, bins: bool = False) -> list[str]:
    """A party's columns as tables of text."""
    from tacit.text import plural

    lines = [f"{facts.party}: {plural(facts.rows, 'row')}, {plural(len(facts.columns), 'column')}"]
    lines += _grid([_head(facts), *(_row(facts, column) for column in facts.columns)])
    texts = [column for column in facts.columns if column.common]
    if texts:
        lines += ["", "commonest values"]
        lines += [f"  {one.name}: {', '.join(f'{value} {count}' for value, count in one.common)}" for one in texts]
    if facts.correlations:
        lines += ["", "numbers that go together most (correlation)"]
        lines += [f"  {a} and {b}: {value:+.3f}" for a, b, value in facts.correlations]
    if bins:
        for column in facts.columns:
            lines += _bin_lines(column)
    return [*lines, *facts.remarks]


def _head(facts: PartyFacts) -> list[str]:
    head = ["column", "kind", "blank", "distinct", "mean", "min", "5 %", "25 %", "50 %", "75 %", "95 %", "max", "VIF"]
    return [*head, *(title for title, _ in _extra(facts))]


def _extra(facts: PartyFacts) -> list[tuple[str, str]]:
    """Titles of figures that some columns have, and their attributes."""
    known = (
        ("information value", "evidence"),
        ("correlation with label", "label_correlation"),
        ("stability", "stability"),
    )
    return [pair for pair in known if any(getattr(column, pair[1]) is not None for column in facts.columns)]


def _row(facts: PartyFacts, column: ColumnFacts) -> list[str]:
    from tacit.columns.spec import DATE

    numbers = [column.mean, *(column.quantiles or (None,) * 7)]
    shown = [_date(value) if column.kind == DATE else _number(value) for value in numbers] + [_number(column.vif)]
    blank = f"{column.blanks / max(column.rows, 1):.1%}"
    return [
        column.name,
        column.kind,
        blank,
        str(column.distinct),
        *shown,
        *(_figure(column, name) for _, name in _extra(facts)),
    ]


def _figure(column: ColumnFacts, name: str) -> str:
    if name != "evidence":
        return _number(getattr(column, name))
    if column.evidence is None:
        return "-"
    strength = next(word for limit, word in STRENGTHS if column.evidence.value < limit)
    return f"{column.evidence.value:.3f} {strength}"


def _date(value: float | None) -> str:
    """A day, from days since 1970-01-01."""
    return "-" if value is None else day(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _bin_lines(column: ColumnFacts) -> list[str]:
    if column.evidence is None:
        return []
    own = column.evidence
    rows = zip(own.bins, own.rows, own.positive, own.weights, strict=True)
    table = [[name, str(count), str(hits), f"{weight:+.3f}"] for name, count, hits, weight in rows]
    return ["", f"{column.name}: information value {own.value:.4f}"] + _grid(
        [["bin", "rows", "positive", "weight of evidence"], *table]
    )


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  " + "  ".join(_padded(row, wide)) for row in rows]


def _padded(row: Sequence[str], wide: Sequence[int]) -> list[str]:
    return [f"{cell:<{w}}" if k == 0 else f"{cell:>{w}}" for k, (cell, w) in enumerate(zip(row, wide, strict=True))]


def _plain(value: Any) -> Any:
    """Plain values for JSON, which has no infinities."""
    from tacit.files import plain_number

    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return plain_number(value) if isinstance(value, float) else value
