"""`tacit reproduce`: rerun the figures and tables of the papers, and judge their claims."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.text import raw

if TYPE_CHECKING:
    from tacit_papers.pages import Rerun
    from tacit_papers.work import Outcome, Piece

WIDEST = 120  # characters of a line
NAMES = ("sharing", "dynamic", "pdml")
HELP = "rerun the papers and judge their claims"
DESCRIPTION = """\
Rerun every figure and table of the papers that this software is built from,
put the numbers beside the published ones, say of every claim whether it holds,
and draw one page for each paper:

  sharing   Learning Privately over Distributed Features: An ADMM Sharing
            Approach (features split between parties)
  dynamic   Dynamic Differential Privacy for ADMM-Based Distributed
            Classification Learning (rows split over a graph)
  pdml      Privacy-preserving Distributed Machine Learning via Local
            Randomization and ADMM Perturbation (randomized labels)

Data come from the folder named by TACIT_DATA, else from the cache, else from
their public source. What was computed is kept: a run that was stopped goes on
where it was."""
EPILOG = """\
examples:
  tacit reproduce all --quick
  tacit reproduce pdml --out papers
  tacit reproduce all --jobs 1 --fresh"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("paper", metavar="PAPER", help="sharing, dynamic, pdml or all")
    parser.add_argument("--quick", action="store_true", help="a small version of everything, in minutes")
    parser.add_argument("--out", metavar="FOLDER", default="reproduction", help="for pages and pictures (reproduction)")
    parser.add_argument("--jobs", metavar="N", type=int, help="processes (one for each core)")
    parser.add_argument("--fresh", action="store_true", help="compute everything anew, and use nothing that was kept")


def run(options: argparse.Namespace) -> int:
    """Compute, judge, draw, print."""
    from tacit.report.pictures import check_matplotlib
    from tacit_papers.pages import write_pages

    names = _names(options.paper)
    if options.jobs is not None and options.jobs < 1:
        raise InputError(f"--jobs {options.jobs} is not allowed: it must be at least 1")
    check_matplotlib()
    folder = Path(options.out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder: choose another with --out")
    reruns = [_rerun(name, options) for name in names]
    pages = write_pages(reruns, folder, options.quick)
    _print(reruns, pages, options.quick)
    return 0


def _names(paper: str) -> Sequence[str]:
    from tacit.text import nearest, show

    if paper == "all":
        return NAMES
    if paper not in NAMES:
        choices = [*NAMES, "all"]
        raise InputError(
            f"there is no paper {show(paper)}{nearest(paper, choices)}: choose one of {', '.join(choices)}"
        )
    return (paper,)


def _rerun(name: str, options: argparse.Namespace) -> Rerun:
    from importlib import import_module

    from tacit_papers.claims import read_expected
    from tacit_papers.pages import Rerun

    paper = import_module(f"tacit_papers.{name}.paper").PAPER
    results = _compute(name, paper.pieces(options.quick), options)
    expected = read_expected(name)
    return Rerun(paper, expected, results, paper.judge(results, expected))


def _compute(name: str, pieces: Sequence[Piece], options: argparse.Namespace) -> dict[str, Outcome]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from tacit_papers.work import Store, run_pieces

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=raw(sys.stderr))) as progress:
        task = progress.add_task(name, total=sum(piece.seconds for piece in pieces))

        def report(piece: Piece, kept: bool) -> None:
            progress.update(task, advance=piece.seconds, description=f"{name}: {piece.name}{' (kept)' if kept else ''}")

        try:
            results = run_pieces(pieces, Store(), options.jobs, options.fresh, report)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "stopped; what was computed is kept, and the same command goes on from there"
            ) from None
        progress.update(task, description=f"{name}: {len(pieces)} pieces")
    return results


def _print(reruns: Sequence[Rerun], pages: Sequence[Path], quick: bool) -> None:
    from rich.console import Console

    from tacit_papers.verdicts import claims

    console = Console()
    width = min(console.width, WIDEST) if sys.stdout.isatty() else WIDEST
    for rerun in reruns:
        for line in claims(rerun, width):
            console.print(line, soft_wrap=True)
        print()
    for rerun in reruns:
        counts = ", ".join(f"{number} {verdict}" for verdict, number in rerun.counts.items())
        print(f"{rerun.paper.name}: {counts}")
    print("Whole texts, figures and tables are in the pages.")
    if quick:
        print("This was the quick version, of few rows, rounds and seeds: judge the papers by the full one.")
    print("pages: " + ", ".join(str(page) for page in pages))
