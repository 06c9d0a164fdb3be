"""The neighbour test of a user's own job: its parties, columns, files and mechanism, on small generated data."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, Found, Scope, Way, neighbour_test
from tacit.audit.harness.play import Command
from tacit.audit.harness.tables import NUMBER, Column
from tacit.audit.harness.world import SPARSE, World, columns_of, make_world
from tacit.audit.result import BROKEN, NEIGHBOURS, NO_VIOLATION, NOT_TRIED, AttackResult
from tacit.data.encode.cells import kind_of_type
from tacit.data.load import PartySpec, read_training_table
from tacit.data.table import SparseTable
from tacit.errors import InputError, RunError
from tacit.job import Job

CLAIMED = "planned releases alone differ"
MOST_ROWS, MOST_COLUMNS, MOST_ROUNDS, MOST_NODES = 40, 8, 3, 12
CALM = Scope(tuple(Way(where, restarts=False) for where in (IN_PROCESS, BETWEEN)), most=3, parties=2)
STOPPED = Scope(tuple(Way(where, restarts=True) for where in (IN_PROCESS, BETWEEN)), most=1, parties=1)


def test_job(job: Job, command: Command) -> AttackResult | None:
    """The neighbour test as a line of an audit; None where nothing is claimed.

    Parameters
    ----------
    job : Job
        Its files are read for their columns and sizes.
    command : callable
        Runs the command line.
    """
    if job.privacy is None:
        return None
    reason = _unplayable(job)
    if reason:
        return AttackResult(NEIGHBOURS, CLAIMED, f"not played: {reason}", NOT_TRIED, {"played": False})
    found, world = Found(), job_world(job)
    try:
        for scope in (CALM, STOPPED):
            found.add(neighbour_test(world, command, replace(scope, ways=_ways(job, scope))))
    except (InputError, RunError) as error:
        return AttackResult(NEIGHBOURS, CLAIMED, f"not played: {error}", NOT_TRIED, {"played": False})
    return judge(found) if found.pairs else None


test_job.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def judge(found: Found) -> AttackResult:
    """What was found, as a line of an audit."""
    details: dict[str, Any] = {
        "played": True,
        "comparisons": found.comparisons,
        "steps": found.steps,
        "pairs": found.pairs,
        "ratio": found.ratio,
        "differences": [str(one) for one in found.differences[:20]],
    }
    return AttackResult(NEIGHBOURS, CLAIMED, found.line(), NO_VIOLATION if found.passed else BROKEN, details)


def _unplayable(job: Job) -> str:
    """Why the job cannot be played on small generated data; empty where it can."""
    if job.memory is not None:
        return "rows that are left on disk (memory) are not played"
    if job.split == "samples" and len(job.parties) > MOST_NODES:
        return f"more than {MOST_NODES} parties are not played"
    if job.options is not None and job.options.randomized:
        return "labels that were randomized beforehand are not played"
    return ""


def _ways(job: Job, scope: Scope) -> tuple[Way, ...]:
    """Without the library of private matching, ids are not matched between sites."""
    matched = any(spec.id is not None for spec in job.parties) and job.split == "features"
    missing = matched and importlib.util.find_spec("private_set_intersection") is None
    return tuple(way for way in scope.ways if not (missing and way.where == BETWEEN))


def job_world(job: Job) -> World:
    """Generated data of the job's columns, kinds and formats; fewer rows, columns and rounds where there are many."""
    columns, suffixes, rows, parties = {}, {}, {}, []
    for spec in job.parties:
        table = read_training_table(spec, job.folder)
        own, kept = _columns(spec, table)
        columns[spec.name], rows[spec.name] = own, min(table.n_rows, MOST_ROWS)
        suffixes[spec.name] = _suffix(spec.data)
        parties.append(replace(kept, positive=None))
    if job.split == "features":
        rows = dict.fromkeys(rows, min(rows.values()))
    small = replace(job, parties=tuple(parties), holdout=0.0, memory=None, rounds=_rounds(job))
    return make_world(small, columns, suffixes, rows)


def _rounds(job: Job) -> int:
    """Few rounds, unless the job gives numbers for each."""
    return job.rounds if job.split == "features" or job.options is not None else min(job.rounds, MOST_ROUNDS)


def _columns(spec: PartySpec, table: Any) -> tuple[tuple[Column, ...], PartySpec]:
    """The first columns of a party, those that the job speaks of before all others, and what the job says of them."""
    apart = {spec.id, spec.label}
    if isinstance(table, SparseTable):
        names = [name for name in spec.features or table.default_features() if name not in apart]
        count = min(len(names), MOST_COLUMNS)
        kept = replace(spec, features=None, width=count)
        return tuple(Column(str(number + 1)) for number in range(count)), kept
    named = [one.name for one in spec.columns]
    others = [name for name in spec.features or sorted(set(table.columns) - apart) if name not in named]
    names = [*named, *others][: max(MOST_COLUMNS, len(named))]
    kinds = {name: kind_of_type(table.arrow(name).type) or NUMBER for name in names}
    return columns_of(spec, kinds), replace(spec, features=None)


def _suffix(data: str) -> str:
    suffix = Path(data.removesuffix(".gz")).suffix.lower()
    return ".svm" if suffix in SPARSE else suffix
