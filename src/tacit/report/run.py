"""The page of a run: what was trained by whom, how good it is, how it went, and what its certificate says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from tacit.errors import InputError
from tacit.files import damaged, show_path, write_text
from tacit.privacy.certificate import blocks
from tacit.report import pictures, run_pictures, tree_words
from tacit.report import run_words as words
from tacit.report.curves import curve_section, run_curves
from tacit.report.pictures import Figure, figure, fill
from tacit.report.verdict import WORSE, still_true
from tacit.run.curves import Curve, model_curves, of_party
from tacit.run.evaluation import SAME_ALPHA
from tacit.run.folder import EVALUATION, REPORT
from tacit.run.measures import BETTER, METHOD, TITLES, headline
from tacit.run.saved import SavedRun, read_run
from tacit.text import one_line
from tacit.version import __version__


def write_report(run: str | Path, out: Path | None = None, party: str | None = None, *, saved: bool = True) -> Path:
    """Write the page of a finished run: one file that needs no other, no network and no script.

    Parameters
    ----------
    run : path
        Directory of the run.
    out : Path, optional
        The file; report.html in the directory of the run by default.
    party : str, optional
        Draw the curves of this party's columns alone.
    saved : bool
        Whether the run stays there, so that the page may say how to verify it.

    Returns
    -------
    Path
        Where it is. In a private run only its owner can read it.

    Raises
    ------
    InputError
        Where there is no finished run, a file is damaged, matplotlib is missing, or the page cannot be written.
    """
    pictures.check_matplotlib()
    known = read_run(run)
    path = known.path / REPORT if out is None else out
    check_page(path)
    curves = None if party is None else of_party(model_curves(known.model), party)
    try:
        page = report_page(known, curves, saved=saved)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, TemplateError) as error:
        raise damaged(
            known.path / EVALUATION, f"it does not fit the run ({type(error).__name__}: {one_line(error)})"
        ) from error
    write_text(path, page, secret=known.certificate.private)
    return path


def check_page(path: Path) -> None:
    """Refuse a place where no page can be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write {show_path(path)}: give --out the name of a file in a directory that is there")


def report_page(run: SavedRun, curves: Mapping[str, Sequence[Curve]] | None = None, *, saved: bool = True) -> str:
    """The page as text; with the curves that are given, else with those of a run whose numbers are curves."""
    evaluation = run.evaluation or {}
    return fill(
        "run.html",
        title=f"{run.job.name}: report of a run",
        name=run.job.name,
        lead=words.lead(run),
        outcome=words.outcome(run),
        verdict=words.verdict_sentences(run),
        worse=words.verdict_of(run)[0] == WORSE,
        day=words.day(run),
        searched=bool(evaluation.get("searched")) and SAME_ALPHA not in evaluation.get("notes", []),
        warning=words.NOT_FOR_OTHERS if run.certificate.private and _is_exact(evaluation) else "",
        on_graph=run.on_graph,
        tiles=words.tiles(run),
        job=_job(run),
        revealed=tree_words.revealed(run) if run.model.is_trees else "",
        across=tree_words.across(run) if run.model.is_trees else "",
        parties=words.node_rows(run) if run.on_graph else words.party_rows(run),
        matched=(evaluation.get("matching") or {}).get("by", ""),
        models=words.model_rows(run),
        measures=words.measure_rows(run),
        deciles=words.decile_rows(run),
        intervals=METHOD,
        held_out=bool(evaluation.get("held_out")),
        evaluated=f"{evaluation['rows']['evaluated']:,}" if evaluation.get("models") else "",
        notes=evaluation.get("notes", ["This run was not evaluated."]),
        quality=_quality(run),
        shares=None if run.on_graph else tree_words.share_rows(run) if run.model.is_trees else words.share_rows(run),
        shares_words=_score_words(run),
        share_figures=[*_shares(run), *tree_words.importance(run)],
        curves=curve_section(run, run_curves(run) if curves is None else curves),
        graph_figures=_graph(run),
        way=way(run),
        traffic=words.traffic_rows(run),
        outlook=still_true(evaluation, run.result.get("outlook", [])),
        certificate=blocks(run.certificate),
        private=run.certificate.private,
        versions=run.versions,
        version=__version__,
        path=show_path(run.path) if saved else "",
    )


def _score_words(run: SavedRun) -> str:
    """What a score is made of."""
    if run.model.outputs == 1:
        return "The score of a row is a sum: one number from each party, and a constant."
    return (
        f"A row has {run.model.outputs} scores, one of each class. Each is a sum: one number from each party, and a "
        "constant. Spreads and pictures are over all rows and classes."
    )


def _is_exact(evaluation: Mapping[str, Any]) -> bool:
    """Whether there are figures that no release paid for."""
    return bool(evaluation.get("models")) and not evaluation.get("released")


def _job(run: SavedRun) -> list[tuple[str, str]]:
    """What was trained and how, by the kind of model."""
    own = tree_words.job_rows(run) if run.model.is_trees else words.job_rows(run)
    return [*words.label_rows(run), *own, *words.held_rows(run)]


# --- pictures ----------------------------------------------------------------------------------------


def _quality(run: SavedRun) -> list[Figure]:
    """ROC, calibration and the first measure of each model."""
    models, figures = words.models_of(run), []
    if not models:
        return []
    key = headline(models[0]["measures"])
    dots = [(words.title_of(model), model["measures"][key]) for model in models if key in model["measures"]]
    curves = [(words.title_of(m), m["roc"], m["measures"]["auc"]) for m in models if m["roc"]]
    if curves:
        caption = "True positive rate against false positive rate; the dotted line is chance."
        tall = run_pictures.SIZE[1] + 0.19 * len(curves[:6]) + 0.2
        figures.append(figure(run_pictures.roc(curves[:6]), "roc", "ROC", caption, (run_pictures.SIZE[0], tall)))
    groups = models[0]["calibration"]
    if groups:
        probability = bool(run.model.classes)
        caption = (
            f"The joint model, in {len(groups)} groups of rows with similar predictions; dotted: perfect calibration."
        )
        figures.append(figure(run_pictures.calibration(groups, probability), "calibration", "Calibration", caption))
    if len(dots) > 1 and not curves:
        title = TITLES[key]
        caption = f"{title[0].upper()}{title[1:]}: {BETTER.get(key, 'lower')} is better."
        figures.append(figure(run_pictures.bars(dots, title), "models", "Joint, alone, together", caption))
    return figures


def _shares(run: SavedRun) -> list[Figure]:
    known = (run.evaluation or {}).get("shares")
    if not known:
        return []
    caption = "Thin line: 90 % of the rows. Thick line: half of them. Mark: the median. 0: the party adds nothing."
    tall = 1.1 + 0.45 * len(known)
    draw = run_pictures.shares(known)
    return [figure(draw, "shares", "What each party adds to a score", caption, (run_pictures.SIZE[0], tall))]


def _graph(run: SavedRun) -> list[Figure]:
    if not run.on_graph:
        return []
    graph = run.job.make_graph()
    caption = f"{graph.nodes} nodes, {len(graph.edges)} edges. Larger nodes have more rows."
    figures = [figure(run_pictures.graph(graph, run.plan["rows"]), "graph", "Who talks to whom", caption)]
    draw = run_pictures.disagreement(run.trace)
    if draw is not None:
        caption = "Largest distance of a node's model from the mean, relative to the mean."
        figures.append(figure(draw, "agreement", "Agreement between nodes", caption))
    return figures


def way(run: SavedRun) -> list[Figure]:
    """How the objective fell, and how near the optimum it came."""
    if run.model.is_trees:
        return tree_words.way(run)
    figures = []
    draw = run_pictures.objective(run.trace)
    if draw is not None:
        figures.append(figure(draw, "objective", "Objective", "Loss and penalty of the joint model after each round."))
    if run.on_graph:
        return figures
    found = run_pictures.convergence(run.trace)
    if found is not None:
        figures.append(figure(found[0], "convergence", "Convergence", f"{found[1].capitalize()}, on a log scale."))
    return figures
