"""The pages of papers that were rerun: one for each paper, and one over all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit import __version__
from tacit.errors import InputError
from tacit.report import pictures
from tacit.report.pictures import fill
from tacit_papers.claims import FAILS, HOLDS, OPEN, Expected, Judged, count
from tacit_papers.paper import Paper, Section
from tacit_papers.work import Results

HOME = "tacit_papers"  # of the templates


@dataclass(frozen=True)
class Rerun:
    """A paper with what came out."""

    paper: Paper
    expected: Expected
    results: Results
    judged: Sequence[Judged]

    @property
    def counts(self) -> dict[str, int]:
        """How many items have each verdict."""
        return {verdict: count(self.judged, verdict) for verdict in (HOLDS, FAILS, OPEN)}


def write_pages(reruns: Sequence[Rerun], folder: Path, quick: bool) -> list[Path]:
    """Write the page and pictures of each paper, the verdicts for machines, and index.html over all.

    Raises
    ------
    InputError
        Where matplotlib is not installed, or the folder cannot be written.
    """
    pictures.check_matplotlib()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pages = [_write_paper(rerun, folder, quick) for rerun in reruns]
        index = folder / "index.html"
        index.write_text(_index(reruns, quick), encoding="utf-8")
        record = {rerun.paper.name: [one.record() for one in rerun.judged] for rerun in reruns}
        (folder / "verdicts.json").write_text(json.dumps({"quick": quick, **record}, indent=1), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out") from error
    return [*pages, index]


def shown(value: float | str | None) -> str:
    """A value of a claim as people read it."""
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.4g}"


def _write_paper(rerun: Rerun, folder: Path, quick: bool) -> Path:
    paper = rerun.paper
    own = folder / paper.name
    own.mkdir(exist_ok=True)
    page = fill(
        "paper.html",
        home=HOME,
        title=paper.title,
        authors=paper.authors,
        summary=paper.summary,
        quick=quick,
        counts=rerun.counts,
        sections=[_section(section, own) for section in paper.sections(rerun.results)],
        judged=_rows(rerun.judged),
        figures=rerun.expected.figures,
        version=__version__,
        command=f"tacit reproduce {paper.name}{' --quick' if quick else ''}",
    )
    path = folder / f"{paper.name}.html"
    path.write_text(page, encoding="utf-8")
    (own / "outcomes.json").write_text(json.dumps(dict(rerun.results)), encoding="utf-8")
    return path


def _section(section: Section, folder: Path) -> dict[str, Any]:
    """A section with its pictures drawn, into files and into addresses."""
    figures = []
    for figure in section.figures:
        drawn = pictures.render(figure.draw, figure.size)
        pictures.write(drawn, folder / figure.slug)
        figures.append(
            {
                "number": figure.number,
                "title": figure.title,
                "caption": figure.caption,
                "slug": f"{folder.name}/{figure.slug}",
                "source": pictures.as_data(drawn["svg"]),
            }
        )
    return {"title": section.title, "words": section.words, "figures": figures, "tables": section.tables}


def _rows(judged: Sequence[Judged]) -> list[dict[str, str]]:
    return [
        {
            "where": one.item.where,
            "claim": one.item.claim,
            "why": one.item.why,
            "published": shown(one.item.published),
            "ours": shown(one.ours),
            "verdict": one.verdict,
            "reason": one.reason,
        }
        for one in judged
    ]


def _index(reruns: Sequence[Rerun], quick: bool) -> str:
    papers = [
        {
            "file": f"{rerun.paper.name}.html",
            "title": rerun.paper.title,
            "authors": rerun.paper.authors,
            "counts": rerun.counts,
            "judged": _rows(rerun.judged),
        }
        for rerun in reruns
    ]
    return fill("papers.html", home=HOME, title="The papers, rerun", papers=papers, quick=quick)
