"""`tacit plan` for split = "samples": from public sizes to the plan, printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.encode.fit import Encoding
    from tacit.job import Job
    from tacit.types import Vector


@dataclass(frozen=True)
class NodeSizes:
    """Rows by node, columns of all, epsilons of labels that came randomized, and whether files were opened."""

    rows: Mapping[str, int]
    columns: int
    epsilons: Mapping[str, Vector] = field(default_factory=dict)
    opened: bool = False
    encoding: Encoding | None = None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        from tacit.cli.encoding import encoding_record

        public = ["each party's number of rows", "the column names", *(["label epsilons"] if self.epsilons else [])]
        return {
            "rows": dict(self.rows),
            "columns": self.columns,
            "encoding": encoding_record({} if self.encoding is None else {"all parties": self.encoding}),
            "public": public,
            "opened": list(self.rows) if self.opened else [],
        }


def print_plan(job: Job, options: argparse.Namespace) -> None:
    """Plan the job and print the plan."""
    from tacit.data.holdout import held_count
    from tacit.plan.from_job import plan_nodes

    try:
        sizes = find_node_sizes(job, options.rows, options.columns)
        counts = [sizes.rows[name] for name in job.names]
        rows = tuple(count - held_count(count, job.holdout) for count in counts)
        plan = plan_nodes(job, rows, sizes.columns, _trained_epsilons(job, sizes, rows))
    except InputError as error:
        raise InputError(f"{Path(options.job).name}: {error}") from error
    if options.json:
        record = {"job": job.name, "sizes": sizes.record(), **plan.describe()}
        print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        from tacit.cli.encoding import plan_lines
        from tacit.cli.plan import label_lines

        encoding = plan_lines({} if sizes.encoding is None else {"all parties": sizes.encoding}, shared=True)
        lines = [f"{'job':<11} {job.name}", *_lines(job, sizes), *label_lines(job), *encoding, str(plan)]
        print("\n".join(lines))


def _trained_epsilons(job: Job, sizes: NodeSizes, rows: Sequence[int]) -> Mapping[str, Vector]:
    """The largest epsilons of as many labels as are trained on: a plan claims no more than the run will."""
    import numpy as np

    return (
        {
            name: np.sort(sizes.epsilons[name])[-count:]
            for name, count in zip(job.names, rows, strict=True)
            if name in sizes.epsilons
        }
        if job.holdout
        else sizes.epsilons
    )


def find_node_sizes(job: Job, rows: str | None, columns: str | None) -> NodeSizes:
    """Sizes from the options, or else from the files."""
    from tacit.data.sizes import node_sizes, public_nodes

    if (rows is None) != (columns is None):
        raise InputError('with split = "samples" give both --rows and --columns, or neither')
    if rows is None or columns is None:
        found, width, epsilons = public_nodes(job.parties, job.folder, protected=bool(job.protected))
        encoding = node_sizes(job.parties, job.folder, job.encode, protected=bool(job.protected))
        width = width if encoding is None else len(encoding.encoder.names)
        return NodeSizes(found, width, epsilons, True, encoding)
    names = list(job.names)
    widths = set(_by_party(columns, names, "--columns").values())
    if len(widths) > 1:
        raise InputError(f"--columns {columns}: all parties need the same columns, so give one number")
    return NodeSizes(_by_party(rows, names, "--rows"), widths.pop())


def _by_party(text: str, names: list[str], option: str) -> dict[str, int]:
    """'a=100,b=200', or one number for all."""
    from tacit.cli.plan import parse_columns, whole
    from tacit.data.wording import listing

    if "=" not in text:
        return dict.fromkeys(names, whole(option, text))
    found = parse_columns(text, names, option)
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{option} says nothing about party {listing(missing)}: add {missing[0]}=N")
    return found


def _lines(job: Job, sizes: NodeSizes) -> list[str]:
    from tacit.data.holdout import held_count
    from tacit.data.wording import plural

    parts = ", ".join(f"{name} {plural(count, 'row')}" for name, count in sizes.rows.items())
    read = "nothing else was used of the files" if sizes.opened else "nothing was read, labels count as not randomized"
    if sizes.encoding is not None and not sizes.encoding.protected:
        read = "the files were read, as their rows are not protected"
    also = " and the label epsilons" if sizes.epsilons else ""
    aside = sum(held_count(count, job.holdout) for count in sizes.rows.values())
    held = f"{'':<11} {plural(aside, 'row')} of them held out (holdout = {job.holdout:g}): not trained on"
    return [
        f"{'sizes':<11} {parts}; {plural(sizes.columns, 'column')}",
        *([held] if aside else []),
        f"{'':<11} numbers of rows, column names{also} count as public: {read}",
    ]
