"""What `tacit train` says at the end: how the run went, where everything is, and what to do next."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.evaluated import tried_on
from tacit.cli.wording import command, duration, size, traffic, within

if TYPE_CHECKING:
    from tacit.data.load import JobData
    from tacit.runtime.graph.run import GraphResult
    from tacit.runtime.result import RunResult
    from tacit.runtime.store import Begun

WIDTH = 88  # of a long text
CAUTION = "CAUTION: "  # how a line of a certificate begins that warns
_WRITTEN = ("model", "trace.jsonl", "certificate.txt", "result.json")


def is_finished(result: RunResult | GraphResult) -> bool:
    """Whether the run did what was planned: its stopping rule holds, or it went its fixed number of rounds."""
    return result.converged or result.plan.fixed_rounds


def summary(
    begun: Begun,
    result: RunResult | GraphResult,
    directory: Path,
    data: JobData | None,
    evaluated: dict[str, Any],
    searched: dict[str, Any] | None = None,
    page: Path | None = None,
) -> list[str]:
    """How the run went: `data` say how rows were matched, `searched` how alpha was chosen, `page` where its page is."""
    from tacit.cli.search import search_line
    from tacit.data.wording import plural
    from tacit.report.verdict import told, verdict
    from tacit.runtime.store import result_record

    record = result_record(result, begun)
    rounds = f"{plural(record['rounds'], 'round')}, {duration(result.seconds)}"
    rows = [
        *_wrapped("verdict", verdict(evaluated).sentence),
        ("job", begun.job.name),
        ("rows", _rows_of_nodes(begun) if data is None else _rows(data)),
        *_held_out(begun),
        *_columns(begun),
        *_classes(begun),
        *([] if searched is None else [("alpha", search_line(searched))]),
        ("rounds", rounds if is_finished(result) else f"{rounds}: NOT converged"),
        *_objective(record),
        *_wrapped("tried on", tried_on(evaluated)),
        ("traffic", _sent(record["traffic"]) if data is None else traffic(record["traffic"])),
        *_privacy(result, told(evaluated, result.outlook)),
        ("written", f"{directory}: {', '.join(_WRITTEN if searched is None else (*_WRITTEN, 'search.json'))}"),
        ("report", command("tacit", "report", directory) if page is None else str(page)),
    ]
    lines = [f"{title:<10} {text}".rstrip() for title, text in rows]
    if result.plan.private is not None and data is not None:  # of rows trained on, no certificate covers the scores
        return [*lines, "", "next, with files of new rows such as these:", f"  {_next(begun, directory, 'new/')}"]
    with_what = "with one of these files or with new rows" if data is None else "with these files or with new rows"
    return [*lines, "", f"next, {with_what}:", f"  {_next(begun, directory)}"]


def _objective(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The objective of the model; nothing in a private run, where it is a function of every row."""
    if not isinstance(record["objective"], float):
        return []
    gap = record["gap"] if isinstance(record["gap"], float) else math.inf
    return [("objective", f"{record['objective']:.6g}, {within(gap)}")]


def _privacy(result: RunResult | GraphResult, outlook: Sequence[str]) -> list[tuple[str, str]]:
    """What is proven, by which mechanism, and whether it was worth it."""
    from tacit.plan import GraphPlan
    from tacit.plan.describe import mechanism_words, strengths
    from tacit.plan.describe_graph import method_words

    certificate = str(result.certificate).splitlines()
    said = [("privacy", certificate[1]), *_cautions(certificate)]
    plan = result.plan
    if result.certificate.target is None:
        return said
    said += _wrapped("protects", strengths(result.certificate))
    said += _wrapped("mechanism", method_words(plan) if isinstance(plan, GraphPlan) else mechanism_words(plan))
    for number, text in enumerate(outlook):
        said += _wrapped("" if number else "worth it?", text)
    return said


def _cautions(certificate: Sequence[str]) -> list[tuple[str, str]]:
    """The lines of a certificate that warn."""
    warned = [line.removeprefix(CAUTION) for line in certificate if line.startswith(CAUTION)]
    return [row for line in warned for row in _wrapped("CAUTION", line)]


def _wrapped(title: str, text: str) -> list[tuple[str, str]]:
    """One row of the summary for each line of a long text."""
    return [("" if number else title, line) for number, line in enumerate(textwrap.wrap(text, WIDTH))]


def _rows(data: JobData) -> str:
    if data.ids is None:
        return f"{data.counts.kept}, matched by position"
    parts = (f"{name} {data.counts.kept} kept, {count} dropped" for name, count in data.counts.dropped.items())
    return f"{data.counts.kept} matched by id ({'; '.join(parts)})"


def _rows_of_nodes(begun: Begun) -> str:
    held = [0] * len(begun.shards) if begun.held is None else [s.features.shape[0] for s in begun.held.shards]
    parts = ", ".join(
        f"{shard.name} {shard.features.shape[0] + more}" for shard, more in zip(begun.shards, held, strict=True)
    )
    return f"{len(begun.labels.values) + sum(held)} ({parts})"


def _held_out(begun: Begun) -> list[tuple[str, str]]:
    if begun.held is None:
        return []
    return [("", f"{begun.held.rows} of them held out, {len(begun.labels.values)} trained on")]


def _sent(record: dict[str, int]) -> str:
    return f"{size(record['bytes'])} between neighbours, {size(record['bytes_busiest_edge'])} over the busiest edge"


def _columns(begun: Begun) -> list[tuple[str, str]]:
    """How the columns were encoded, by party, or once where all have the same."""
    from tacit.cli.encoding import train_lines

    lines = train_lines(begun.encodings, shared=begun.job.split == "samples")
    return [("" if number else "columns", line) for number, line in enumerate(lines)]


def _classes(begun: Begun) -> list[tuple[str, str]]:
    if not begun.labels.classes:
        return []
    negative, positive = begun.labels.classes
    label = next(spec.label for spec in begun.job.parties if spec.label is not None)
    before = "" if begun.labels.epsilons is None else "; randomized by the contributors"
    return [("label", f"{label}: {positive} is positive, {negative} negative{before}")]


def _next(begun: Begun, directory: Path, new: str = "") -> str:
    """The command that predicts, from the files of the job or from files of the same name elsewhere."""
    job = begun.job
    if job.split == "samples":
        return command("tacit", "predict", directory, job.folder / job.parties[0].data)
    files = (
        f"{spec.name}={new}{Path(spec.data).name}" if new else f"{spec.name}={job.folder / spec.data}"
        for spec in job.parties
    )
    return command("tacit", "predict", directory, *files)
