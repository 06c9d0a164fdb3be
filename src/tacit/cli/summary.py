"""What `tacit train` does and says after training: the search, the evaluation, how the run went, what to do next."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import command, duration, size, tell, traffic, within

if TYPE_CHECKING:
    from tacit.data.load import JobData
    from tacit.job import Job
    from tacit.run.folder import PreparedRun, RunFolder
    from tacit.run.result import Result


# --- The search for alpha of `tacit train`: made once, kept in search.json, and told as a table


def with_alpha(begun: PreparedRun, directory: RunFolder, *, quiet: bool) -> tuple[PreparedRun, dict[str, Any] | None]:
    """What is to be trained with the alpha that the job's search takes, and the record of the search; None without one.

    A run that goes on takes the alpha that its search took.
    """
    plan = begun.plan
    if begun.job.search is None:
        return begun, None
    record = directory.read_search()
    if record is None:
        record = _search(begun)
        if not quiet:
            print("\n".join(table(record)))
        if record["unfinished"]:
            fits = len(record["alphas"]) * record["folds"]
            tell(
                f"tacit: {record['unfinished']} of the {fits} fits of the search did not converge: "
                "raise rounds or tol, or scale the columns to similar size"
            )
        if record["remark"]:
            tell(f"tacit: {record['remark']}")
    return replace(begun, plan=replace(plan, problem=replace(plan.problem, alpha=record["alpha"]))), record


def _search(begun: PreparedRun) -> dict[str, Any]:
    from tacit.run.search import search_job

    assert begun.job.search is not None
    return search_job(begun.plan, begun.shards, begun.labels, begun.job.search).record()


def table(record: dict[str, Any]) -> list[str]:
    """Every alpha with its loss and its rounds, the one taken marked."""
    lines = [f"{'alpha':>12}  {'loss of rows left out':>21}  {'rounds, by fold'}"]
    for alpha, loss, rounds in zip(record["alphas"], record["mean_losses"], record["rounds_by_fit"], strict=True):
        shown = "not finite" if loss is None else f"{loss:.6g}"
        taken = "  <- taken" if alpha == record["alpha"] else ""
        lines.append(f"{alpha:>12.4g}  {shown:>21}  {' '.join(map(str, rounds))}{taken}")
    return [*lines, ""]


def search_line(record: dict[str, Any]) -> str:
    """The search in a line of the summary."""
    return (
        f"{record['alpha']:.4g}, of {len(record['alphas'])} tried on {record['folds']} folds "
        f"({record['rule']}): {record['traffic']['rounds']} rounds, {duration(record['seconds'])}, "
        f"{traffic(record['traffic'])}"
    )


def refuse_search(job: Job, verb: str) -> None:
    """Refuse a job with [search] where a verb needs one alpha."""
    if job.search is not None:
        raise InputError(f"{verb} takes one alpha: remove [search], and give the model.alpha that it took")


# --- What `tacit train` does after training: try the model, save what came out, and say it in one sentence


FIRST = ("auc", "r2", "deviance", "accuracy", "rmse")  # which measure is said, of those that there are


def evaluate_and_finish(
    directory: RunFolder,
    result: Result,
    begun: PreparedRun,
    data: JobData | None,
    *,
    quiet: bool = True,
) -> dict[str, Any]:
    """Evaluate a run that came to its end, write evaluation.json and then the rest, and return the evaluation.

    In this order, as a run that is killed before it is evaluated would else count as finished, and never be.
    """
    from tacit.cli.bar import progress_bar
    from tacit.report import evaluation

    try:
        with progress_bar("comparing with", visible=not quiet) as watch:
            record = evaluation.evaluate(result, begun, watch)
    except Exception:
        directory.finish(result, begun)  # the model is there, and going on would only fail again
        raise
    if data is not None:
        record["matching"] = {"by": "position" if data.ids is None else "id", "dropped": dict(data.counts.dropped)}
    directory.write_evaluation(record)
    directory.finish(result, begun)
    return record


def report_if_possible(run: Path) -> Path | None:
    """Write the page of a run and return its path, or say in one line why there is none."""
    from tacit.report.pictures import NO_MATPLOTLIB, has_matplotlib
    from tacit.report.run import write_report

    if has_matplotlib():
        return write_report(run)
    tell(f"tacit: no report.html: {NO_MATPLOTLIB}")
    return None


def tried_on(record: Mapping[str, Any]) -> str:
    """How good the model is, against others, in one sentence."""
    from tacit.report.measures import TITLES

    models: Sequence[Mapping[str, Any]] = record["models"]
    if not models:
        return str(record["notes"][0])
    measures = models[0]["measures"]
    key = next(name for name in FIRST if name in measures)
    others = ", ".join(
        f"{model['party'] + ' alone' if model['party'] else 'all data in one place'} {model['measures'][key]:.4g}"
        for model in models[1:]
        if key in model["measures"]
    )
    which = "held-out" if record["held_out"] else "trained"
    said = f"{record['rows']['evaluated']:,} {which} rows: {TITLES[key]} {measures[key]:.4g}"
    said += f" ({others})" if others else ""
    if record["private"]:
        return f"{said}; these figures are not for others: no certificate covers them"
    return said if record["held_out"] else f"{said}; every model looks better on rows that it was trained on"


# --- What `tacit train` says at the end: how the run went, where everything is, and what to do next


WIDTH = 88  # of a long text
CAUTION = "CAUTION: "  # how a line of a certificate begins that warns
_WRITTEN = ("model", "trace.jsonl", "certificate.txt", "result.json")


def is_finished(result: Result) -> bool:
    """Whether the run did what was planned: its stopping rule holds, or it went its fixed number of rounds."""
    return result.converged or result.plan.fixed_rounds


def summary(
    begun: PreparedRun,
    result: Result,
    directory: Path,
    data: JobData | None,
    evaluated: dict[str, Any],
    searched: dict[str, Any] | None = None,
    page: Path | None = None,
) -> list[str]:
    """How the run went: `data` say how rows were matched, `searched` how alpha was chosen, `page` where its page is."""
    from tacit.report.verdict import told, verdict
    from tacit.run.folder import saved_result
    from tacit.text import plural

    record = saved_result(result, begun).record()
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


def _privacy(result: Result, outlook: Sequence[str]) -> list[tuple[str, str]]:
    """What is proven, by which mechanism, and whether it was worth it."""
    from tacit.plan.describe import mechanism_words, strengths

    certificate = str(result.certificate).splitlines()
    said = [("privacy", certificate[1]), *_cautions(certificate)]
    plan = result.plan
    if result.certificate.target is None:
        return said
    said += _wrapped("protects", strengths(result.certificate))
    said += _wrapped("mechanism", mechanism_words(plan))
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


def _rows_of_nodes(begun: PreparedRun) -> str:
    held = [0] * len(begun.shards) if begun.held is None else [s.features.shape[0] for s in begun.held.shards]
    parts = ", ".join(
        f"{shard.name} {shard.features.shape[0] + more}" for shard, more in zip(begun.shards, held, strict=True)
    )
    return f"{len(begun.labels.values) + sum(held)} ({parts})"


def _held_out(begun: PreparedRun) -> list[tuple[str, str]]:
    if begun.held is None:
        return []
    return [("", f"{begun.held.rows} of them held out, {len(begun.labels.values)} trained on")]


def _sent(record: dict[str, int]) -> str:
    return f"{size(record['bytes'])} between neighbours, {size(record['bytes_busiest_edge'])} over the busiest edge"


def _columns(begun: PreparedRun) -> list[tuple[str, str]]:
    """How the columns were encoded, by party, or once where all have the same."""
    from tacit.cli.prepare import train_lines

    lines = train_lines(begun.encodings, shared=begun.job.split == "samples")
    return [("" if number else "columns", line) for number, line in enumerate(lines)]


def _classes(begun: PreparedRun) -> list[tuple[str, str]]:
    if not begun.labels.classes:
        return []
    negative, positive = begun.labels.classes
    label = next(spec.label for spec in begun.job.parties if spec.label is not None)
    before = "" if begun.labels.epsilons is None else "; randomized by the contributors"
    return [("label", f"{label}: {positive} is positive, {negative} negative{before}")]


def _next(begun: PreparedRun, directory: Path, new: str = "") -> str:
    """The command that predicts, from the files of the job or from files of the same name elsewhere."""
    job = begun.job
    if job.split == "samples":
        return command("tacit", "predict", directory, job.folder / job.parties[0].data)
    files = (
        f"{spec.name}={new}{Path(spec.data).name}" if new else f"{spec.name}={job.folder / spec.data}"
        for spec in job.parties
    )
    return command("tacit", "predict", directory, *files)
