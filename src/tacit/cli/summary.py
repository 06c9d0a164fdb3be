"""What `tacit train` says: while it trains, of the search for alpha, and at the end."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tacit.columns.spec import LINEAR, SPLINE
from tacit.errors import InputError
from tacit.run.progress import progress, progress_bar, working
from tacit.text import command, duration, listing, plural, size, tell, traffic, within
from tacit.training import JobObserver, Trained

if TYPE_CHECKING:
    from tacit.columns.constants import Encoding
    from tacit.job import Job
    from tacit.plan import Plan
    from tacit.run.drive import Observer
    from tacit.run.evaluation import Watch
    from tacit.run.folder import PreparedRun, RunFolder
    from tacit.run.result import Result
    from tacit.solvers.boosting.sides import BoostingHistory

# --- While it trains


class Terminal(JobObserver):
    """Shows at the terminal how the training of a job goes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.visible = options, not options.quiet

    def note(self, remark: str) -> None:
        """Say it on stderr, quiet or not."""
        tell(f"tacit: {remark}")

    def searched(self, record: dict[str, Any]) -> None:
        """Print the alphas that were tried."""
        if self.visible:
            print("\n".join(table(record)))

    def going_on(self, rounds: int) -> None:
        """Print after which round."""
        if self.visible:
            print(f"continuing after round {rounds}")

    @contextmanager
    def resumable(self, folder: Path) -> Iterator[None]:
        """Say how to go on with a run that is interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            again = command("tacit", "train", self.options.job, "--out", folder, *self._same(), "--resume")
            raise KeyboardInterrupt(f"stopped; continue with: {again}") from None

    def _same(self) -> tuple[str, ...]:
        """Where the rows are kept, for the command that goes on."""
        options = self.options
        memory = () if options.memory is None else ("--memory", options.memory)
        if options.dask is None:
            return memory
        tls = () if options.dask_tls is None else ("--dask-tls", options.dask_tls)
        return (*memory, "--dask", options.dask, *tls, *(("--dask-insecure",) if options.dask_insecure else ()))

    def working(self, what: str) -> AbstractContextManager[None]:
        """A line with the time that passed."""
        return working(what, visible=True) if self.visible else nullcontext()

    def rounds(self, plan: Plan) -> AbstractContextManager[Observer | None]:
        """A bar of rounds."""
        return progress(plan, visible=True) if self.visible else nullcontext()

    def comparing(self) -> AbstractContextManager[Watch | None]:
        """A bar of the models to compare with."""
        return progress_bar("comparing with", visible=True) if self.visible else nullcontext()


# --- Of the search for alpha


def table(record: dict[str, Any]) -> list[str]:
    """Every alpha with its loss and its rounds, the one taken marked; of lines and of curves where both were tried."""
    lines = [f"{'alpha':>12}  {'loss on left-out folds':>21}  {'rounds, by fold'}"]
    if "terms" not in record:
        return [*lines, *_tried(record, taken=True), ""]
    for key, terms, title in (("linear", LINEAR, "lines"), ("curve", SPLINE, "curves")):
        if record[key] is not None:
            lines += [title, *_tried(record[key], taken=record["terms"] == terms)]
    return [*lines, ""]


def _tried(record: dict[str, Any], *, taken: bool) -> list[str]:
    """The alphas of one search; the best is marked, as taken where its code was."""
    lines, mark = [], "  <- taken" if taken else "  <- best"
    for alpha, loss, rounds in zip(record["alphas"], record["mean_losses"], record["rounds_by_fit"], strict=True):
        shown = "not finite" if loss is None else f"{loss:.6g}"
        marked = mark if alpha == record["alpha"] else ""
        lines.append(f"{alpha:>12.4g}  {shown:>21}  {' '.join(map(str, rounds))}{marked}")
    return lines


def search_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The search in the summary: the terms and the alpha that it took, and what it cost."""
    cost = f"{record['traffic']['rounds']} rounds, {duration(record['seconds'])}, {traffic(record['traffic'])}"
    tried = f"{record['alpha']:.4g}, of {len(record['alphas'])} compared on {record['folds']} folds ({record['rule']})"
    if "terms" not in record:
        return [("alpha", f"{tried}: {cost}")]
    rows = [("terms", f"{_chosen(record)} ({record['folds']} folds)")]
    rows += [("alpha", tried)] if len(record["alphas"]) > 1 else []
    return [*rows, ("search", cost)]


def _chosen(record: dict[str, Any]) -> str:
    """Lines or curves, and why."""
    gain, error = record["gain"]["mean"], record["gain"]["error"]
    if record["curve"] is None:
        return "lines: no column has a curve"
    taken, other = ("curves", "lines") if record["terms"] == SPLINE else ("lines", "curves")
    if gain is None or error is None:
        return f"{taken}: the loss of {other} on left-out folds is not finite"
    text = f"loss on left-out folds {'lower' if gain > 0 else 'higher'} by {abs(gain):.2g}, standard error {error:.2g}"
    return f"curves: {text}" if taken == "curves" else f"lines: with curves {text}"


def refuse_search(job: Job, verb: str) -> None:
    """Refuse a job with a search where a verb needs one model."""
    if job.search is not None and not job.chooses_terms:
        raise InputError(f"{verb} takes one alpha: remove [search], and give the model.alpha that it took")
    if job.chooses_terms:
        raise InputError(f'{verb} takes one model: write terms = "linear" or "spline", whichever the search took')


# --- How good the model is, in one sentence; and its page


def report_if_possible(run: Path) -> Path | None:
    """Write the page of a run and return its path, or say in one line why there is none."""
    from tacit.report.pictures import NO_MATPLOTLIB, has_matplotlib
    from tacit.report.run import write_report

    if has_matplotlib():
        return write_report(run)
    tell(f"tacit: no report.html: {NO_MATPLOTLIB}")
    return None


def evaluated_on(record: Mapping[str, Any]) -> str:
    """How good the model is, against others, in one sentence."""
    from tacit.run.measures import TITLES, headline

    models: Sequence[Mapping[str, Any]] = record["models"]
    if not models:
        return str(record["notes"][0])
    measures = models[0]["measures"]
    key = headline(measures)
    others = ", ".join(
        f"{model['party'] + ' alone' if model['party'] else 'all data in one place'} {model['measures'][key]:.4g}"
        for model in models[1:]
        if key in model["measures"]
    )
    which = "held-out" if record["held_out"] else "training"
    text = f"{record['rows']['evaluated']:,} {which} rows: {TITLES[key]} {measures[key]:.4g}"
    text += f" ({others})" if others else ""
    if record.get("released"):
        return f"{text}; these figures have noise, and the certificate covers them"
    if record["private"]:
        return f"{text}; these figures are not for others: no certificate covers them"
    return text if record["held_out"] else f"{text}; every model looks better on rows that it was trained on"


def measured(model: Mapping[str, Any]) -> str:
    """Every measure of a model with its 95 % interval, in one line."""
    from tacit.run.measures import ORDER, TITLES

    values, pairs = model["measures"], model["intervals"]
    return ", ".join(f"{TITLES[key]} {values[key]:.4g}{_between(pairs.get(key))}" for key in ORDER if key in values)


def _between(pair: Sequence[float] | None) -> str:
    return f" ({pair[0]:.4g} to {pair[1]:.4g})" if pair else ""


# --- At the end: how the run went, where everything is, and what to do next


WIDTH = 88  # of a long text
ALONE = " (one party: nothing was trained jointly)"
CAUTION = "CAUTION: "  # how a line of a certificate begins that warns
_WRITTEN = ("model", "trace.jsonl", "certificate.txt", "result.json")


def summary(trained: Trained, folder: Path, page: Path | None = None) -> list[str]:
    """How the run went, where it is, and what to do next; `page` is its report, where one was written."""
    from tacit.columns.words import raw_lines
    from tacit.report.verdict import still_true, verdict
    from tacit.run.folder import saved_result

    prepared, result, searched = trained.prepared, trained.result, trained.search
    words = _WORDS[prepared.job.split]
    record = saved_result(result, prepared).record()
    rounds = f"{plural(record['rounds'], 'round')}, {duration(result.seconds)}"
    rows = [
        *_wrapped("verdict", verdict(trained.evaluation).sentence),
        ("job", prepared.job.name + (ALONE if len(prepared.job.parties) == 1 else "")),
        ("rows", words.rows(prepared)),
        *_held_out(prepared),
        *_titled("columns", [*raw_lines(prepared.raw), *words.columns(prepared.encodings)]),
        *_classes(prepared),
        *([] if searched is None else search_rows(searched)),
        ("rounds", rounds if trained.ended_as_planned else f"{rounds}: NOT converged"),
        *(_objective(record) if result.boosting is None else _boosted(result.boosting)),
        *_wrapped("evaluated", evaluated_on(trained.evaluation)),
        *_intervals(trained.evaluation),
        ("traffic", words.traffic(record["traffic"])),
        *_privacy(result, still_true(trained.evaluation, result.outlook)),
        ("written", f"{folder}: {', '.join(_WRITTEN if searched is None else (*_WRITTEN, 'search.json'))}"),
        ("report", command("tacit", "report", folder) if page is None else str(page)),
    ]
    lines = [f"{title:<10} {text}".rstrip() for title, text in rows]
    return [*lines, "", *words.next_steps(prepared, folder)]


def finished_before(folder: RunFolder) -> list[str]:
    """That a run was finished before, and nothing was done."""
    return [f"the run in {folder.path} is finished ({folder.read_result().get('rounds')} rounds): nothing to do"]


def _intervals(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every measure on held-out rows, with its interval; on rows trained on intervals would say nothing."""
    if not record["models"] or not record["held_out"]:
        return []
    return _wrapped("measures", f"{measured(record['models'][0])}; in brackets 95 % intervals")


def _objective(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The objective of the model; nothing in a private run, where it is a function of every row."""
    if not isinstance(record["objective"], float):
        return []
    gap = record["gap"] if isinstance(record["gap"], float) else math.inf
    return [("objective", f"{record['objective']:.6g}, {within(gap)}")]


def _boosted(history: BoostingHistory) -> list[tuple[str, str]]:
    """Where the losses began and ended, and how much of each party's trees was kept."""
    kept = [sum(steps) for steps in zip(*history.steps, strict=True)]
    shown = [f"{total:.3g}" if total else "nothing" for total in kept]
    used = ", ".join(f"{name} {total}" for name, total in zip(history.parties, shown, strict=True))
    ends = [f"{losses[0]:.5g} to {losses[-1]:.5g}" for losses in (history.held_out, history.fitted)]
    return [
        ("loss", f"from {ends[0]} on rows that choose the steps, from {ends[1]} on rows with trees"),
        ("kept", f"of {plural(len(history.steps), 'block')} of trees each: {used}"),
    ]


def _privacy(result: Result, outlook: Sequence[str]) -> list[tuple[str, str]]:
    """What is proven, by which mechanism, and whether it was worth it."""
    from tacit.plan.describe import mechanism_words, strengths

    certificate = str(result.certificate).splitlines()
    rows = [("privacy", certificate[1]), *_cautions(certificate)]
    plan = result.plan
    if result.certificate.target is None:
        return rows
    rows += _wrapped("protects", strengths(result.certificate))
    rows += _wrapped("mechanism", mechanism_words(plan))
    for number, text in enumerate(outlook):
        rows += _wrapped("" if number else "worth it?", text)
    return rows


def _cautions(certificate: Sequence[str]) -> list[tuple[str, str]]:
    """The lines of a certificate that warn."""
    warned = [line.removeprefix(CAUTION) for line in certificate if line.startswith(CAUTION)]
    return [row for line in warned for row in _wrapped("CAUTION", line)]


def _wrapped(title: str, text: str) -> list[tuple[str, str]]:
    """One row of the summary for each line of a long text."""
    return _titled(title, textwrap.wrap(text, WIDTH))


def _titled(title: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """One row of the summary for each line, the first with the title."""
    return [("" if number else title, line) for number, line in enumerate(lines)]


def _held_out(prepared: PreparedRun) -> list[tuple[str, str]]:
    if prepared.held is None:
        return []
    if prepared.job.holds_out_files:
        return [("", f"{prepared.held.rows} more in files of their own, held out")]
    return [("", f"{prepared.held.rows} of them held out, {len(prepared.labels.values)} trained on")]


def _classes(prepared: PreparedRun) -> list[tuple[str, str]]:
    if not prepared.labels.classes:
        return []
    if len(prepared.labels.classes) > 2:
        return [("label", f"{len(prepared.labels.classes)} classes: {listing(prepared.labels.classes, 8)}")]
    negative, positive = prepared.labels.classes
    label = next(spec.label for spec in prepared.job.parties if spec.label is not None)
    before = "" if prepared.labels.epsilons is None else "; randomized by the contributors"
    return [("label", f"{label}: {positive} is positive, {negative} negative{before}")]


# --- What is said of either split in its own words


class _Words(Protocol):
    """What a summary says of rows, columns, traffic and next steps."""

    def rows(self, prepared: PreparedRun) -> str: ...

    def columns(self, encodings: Mapping[str, Encoding]) -> list[str]: ...

    def traffic(self, record: dict[str, int]) -> str: ...

    def next_steps(self, prepared: PreparedRun, folder: Path) -> list[str]: ...


class _OfParties:
    """Parties with different columns of the same rows."""

    def rows(self, prepared: PreparedRun) -> str:
        """How many were matched, and how."""
        assert prepared.matching is not None
        counts = prepared.matching.counts
        if not prepared.matching.by_id:
            return f"{counts.kept}, matched by position"
        parts = (f"{name} {counts.kept} kept, {count} dropped" for name, count in counts.dropped.items())
        return f"{counts.kept} matched by id ({'; '.join(parts)})"

    def columns(self, encodings: Mapping[str, Encoding]) -> list[str]:
        """How each party's were encoded."""
        from tacit.columns.words import column_lines

        return [line for name, encoding in encodings.items() for line in column_lines(name, encoding)]

    def traffic(self, record: dict[str, int]) -> str:
        """Bytes to and from the parties."""
        return traffic(record)

    def next_steps(self, prepared: PreparedRun, folder: Path) -> list[str]:
        """The command that predicts, from the files of the job; where it is private, from new ones of the same name.

        Of rows trained on, no certificate covers the scores.
        """
        job = prepared.job
        if prepared.plan.private is None:
            files = [f"{spec.name}={job.folder / spec.data}" for spec in job.parties]
            return ["next, with these files or with new rows:", f"  {command('tacit', 'predict', folder, *files)}"]
        files = [f"{spec.name}=new/{Path(spec.data).name}" for spec in job.parties]
        return ["next, with files of new rows such as these:", f"  {command('tacit', 'predict', folder, *files)}"]


class _OfNodes:
    """Nodes with different rows and the same columns."""

    def rows(self, prepared: PreparedRun) -> str:
        """How many each node has, those held out with them."""
        held = prepared.held
        none = held is None or prepared.job.holds_out_files
        more = [0] * len(prepared.shards) if held is None or none else [one.features.shape[0] for one in held.shards]
        pairs = zip(prepared.shards, more, strict=True)
        parts = ", ".join(f"{shard.name} {shard.features.shape[0] + aside}" for shard, aside in pairs)
        return f"{len(prepared.labels.values) + sum(more)} ({parts})"

    def columns(self, encodings: Mapping[str, Encoding]) -> list[str]:
        """How they were encoded, once for all."""
        from tacit.columns.words import column_lines
        from tacit.run.result import ALL_PARTIES

        if not encodings:
            return []
        encoding = next(iter(encodings.values()))
        how = "" if encoding.protected else "; scales and categories were shared between the parties"
        first, *rest = column_lines(ALL_PARTIES, encoding)
        return [first + how, *rest]

    def traffic(self, record: dict[str, int]) -> str:
        """Bytes along the edges."""
        busiest = size(record["bytes_busiest_edge"])
        return f"{size(record['bytes'])} between neighbours, {busiest} over the busiest edge"

    def next_steps(self, prepared: PreparedRun, folder: Path) -> list[str]:
        """The command that predicts, from the file of the first node."""
        file = prepared.job.folder / prepared.job.parties[0].data
        title = "next, with one of these files or with new rows:"
        return [title, f"  {command('tacit', 'predict', folder, file)}"]


_WORDS: dict[str, _Words] = {"features": _OfParties(), "samples": _OfNodes()}
