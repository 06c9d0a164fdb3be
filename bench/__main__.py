"""Run the bench: `python -m bench [--only NAME ...] [--json FILE] [--plots DIR] [--quick]`; --help has the rest."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import align_peers, curves, diffprivlib_peer, private_peers, terms
from bench.clock import blas_threads
from bench.parts import PARTS
from bench.progress import showing
from bench.report import Outcome, console, print_part, print_summary, write_json
from tacit.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen parts and print their tables."""
    options = _parser().parse_args(arguments)
    if options.diffprivlib:
        diffprivlib_peer.use(options.diffprivlib)
    if options.spu:
        align_peers.use(options.spu)
    _choose(options)
    out, outcomes = console(), []
    out.print(_machine())
    for name in options.only or _usual():
        outcome = _run(name, options.quick)
        print_part(out, outcome)
        outcomes.append(outcome)
    print_summary(out, outcomes)
    if options.json:
        write_json(options.json, outcomes)
    if options.plots:
        _draw(options.plots, outcomes)
    return 0


def _choose(options: argparse.Namespace) -> None:
    try:
        curves.choose(options.sets, options.cells, options.runs, options.epsilons, options.keep)
        private_peers.choose(options.sets, options.cells, options.runs, options.epsilons, options.keep)
        terms.choose(options.sets, options.runs)
    except InputError as error:
        sys.exit(f"python -m bench: {error}")


def _usual() -> list[str]:
    """The parts that run where none is named: those that take very long do not."""
    return [name for name, part in PARTS.items() if not getattr(part, "ONLY_WHEN_NAMED", False)]


def _run(name: str, quick: bool) -> Outcome:
    start = time.perf_counter()
    with showing(name):
        rows = PARTS[name].run(quick)
    return Outcome(name, PARTS[name].TITLE, rows, time.perf_counter() - start)


def _draw(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Draw the parts that have a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        draw = getattr(PARTS[outcome.part], "draw", None)
        if draw is not None:
            print(draw(outcome.rows, folder / f"{outcome.part}.png"))


def _machine() -> str:
    """What the times depend on."""
    load = f", load average {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{os.cpu_count()} cores, {blas_threads()} BLAS threads{load}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tacit against its targets and peers.")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="NAME", help=f"parts: {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row to this file")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw what has a picture into this directory")
    parser.add_argument(
        "--diffprivlib", metavar="PYTHON", help="a Python that has diffprivlib, for graph-methods and private-peers"
    )
    parser.add_argument("--spu", metavar="PYTHON", help="a Python that has SecretFlow's spu, for align_peers")
    parser.add_argument(
        "--sets", type=_names, default=[], metavar="A,B", help="curves, private-peers, terms: only these sets"
    )
    parser.add_argument(
        "--cells", type=_names, default=[], metavar="A,B", help="curves, private-peers: only these forms of privacy"
    )
    parser.add_argument("--runs", type=int, metavar="N", help="curves, private-peers, terms: so many runs of each cell")
    parser.add_argument(
        "--epsilons", type=_numbers, default=[], metavar="A,B", help="curves, private-peers: only these epsilons"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="curves, private-peers: keep each fit in this file, and go on from it"
    )
    parser.add_argument("--quick", action="store_true", help="a small version in less than a minute; times unjudged")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[float]:
    return [float(name) for name in _names(text)]


if __name__ == "__main__":
    sys.exit(main())
