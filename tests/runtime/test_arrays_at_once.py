"""Files of arrays that several threads read at the same time are read as they are."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.alignment import Alignment
from tacit.audit.harness.recording import content_of
from tacit.federation.journal import Journal, JournalRecord
from tacit.run.checkpoint import read_checkpoint, write_checkpoint
from tacit.run.drive import LoopState

WAIT = 0.3  # seconds in which a second reader would come
PARSE = ast.literal_eval


class OneParser:
    """Parses headers as Python before 3.11.8 may: of two threads inside at once, one fails."""

    def __init__(self) -> None:
        self.inside, self.met, self.first = threading.Lock(), threading.Event(), True

    def __call__(self, text: str) -> Any:
        if not self.inside.acquire(blocking=False):
            self.met.set()
            raise SystemError("AST constructor recursion depth mismatch")
        with_wait, self.first = self.first, False
        try:
            if with_wait:
                self.met.wait(WAIT)
            return PARSE(text)
        finally:
            self.inside.release()


def journal(folder: Path) -> Callable[[], Any]:
    kept = Journal(folder)
    kept.write(JournalRecord(1, "round 1", {"done": np.ones(1)}, {"node": {"large": np.arange(5000.0)}}))
    return lambda: kept.read(1).states["node"]["large"].tolist()


def checkpoint(folder: Path) -> Callable[[], Any]:
    run: Any = SimpleNamespace(state=LoopState(), snapshot=lambda: {"node": {"part": np.arange(3.0)}})
    write_checkpoint(folder / "checkpoint.npz", run)
    return lambda: read_checkpoint(folder / "checkpoint.npz")[0]["node"]["part"].tolist()


def alignment(folder: Path) -> Callable[[], Any]:
    Alignment("bank", ("bank", "shop"), "run", 4, "print", np.array([0, 3])).write(folder / "bank.npz")
    return lambda: Alignment.read(folder / "bank.npz").rows.tolist()


def recording(folder: Path) -> Callable[[], Any]:
    np.savez(folder / "arrays.npz", part=np.arange(3.0))
    return lambda: content_of(folder / "arrays.npz")["part"].tolist()


@pytest.mark.parametrize("kind", [journal, checkpoint, alignment, recording])
def test_two_threads_read_one_kind_of_file_at_once(
    tmp_path: Path, kind: Callable[[Path], Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    reads = [kind(folder) for folder in folders]
    monkeypatch.setattr(ast, "literal_eval", OneParser())
    with ThreadPoolExecutor(2) as pool:
        found = [one.result() for one in [pool.submit(read) for read in reads]]
    assert found[0] == found[1] == reads[0]()
