"""`tacit reproduce all --quick`, run as a user would: its pages, and the outcomes it kept."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tacit_papers.paper import Paper
from tacit_papers.work import MISSING, Outcome, Piece, Store, run_pieces


@dataclass(frozen=True)
class Reproduced:
    """What the command left."""

    pages: Path
    store: Store

    def outcomes(self, paper: Paper) -> dict[str, Outcome]:
        """Of all pieces of a paper, by name; the command computed and kept every one whose data are at hand."""
        fresh: list[str] = []

        def note(piece: Piece, kept: bool) -> None:
            if not kept:
                fresh.append(piece.name)

        outcomes = run_pieces(paper.pieces(True), self.store, jobs=1, report=note)
        assert [name for name in fresh if MISSING not in outcomes[name]] == []
        return outcomes


def reproduce_all(base: Path) -> Reproduced:
    """Run the command in a folder of its own; a warning ends it."""
    words = ["reproduce", "all", "--quick", "--jobs", "1", "--out", str(base / "pages")]
    command = [sys.executable, "-W", "error", "-m", "tacit.cli.main", *words]
    own = os.environ | {"XDG_CACHE_HOME": str(base)}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return Reproduced(base / "pages", Store(base / "tacit" / "reproduction"))
