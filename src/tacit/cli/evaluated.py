"""What `tacit train` does after training: try the model, save what came out, and say it in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.wording import tell

if TYPE_CHECKING:
    from tacit.data.load import JobData
    from tacit.runtime.graph.run import GraphResult
    from tacit.runtime.result import RunResult
    from tacit.runtime.store import Begun, RunDirectory

FIRST = ("auc", "r2", "deviance", "accuracy", "rmse")  # which measure is said, of those that there are


def evaluate_and_finish(
    directory: RunDirectory,
    result: RunResult | GraphResult,
    begun: Begun,
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
