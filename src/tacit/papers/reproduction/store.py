"""Outcomes that were computed before, by everything they depend on: settings, data, the code, the libraries."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tacit
from tacit.data.datasets import SUMS
from tacit.data.public_files import atomic_write, cache_folder
from tacit.papers.reproduction.work import Outcome, Piece

# What computes: a change here may change any outcome. What draws, judges and prints does not.
_COMPUTING = ("problem", "topologies", "data", "privacy", "algorithms", "plan", "runtime", "estimators", "audit")
_NOT_COMPUTING = ("figures", "claims", "paper", "tables", "sections")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "dp-accounting")


class Store:
    """Outcomes of pieces in a folder, one file each; a file that cannot be read is computed anew."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = cache_folder() / "reproduction" if folder is None else folder

    def find(self, piece: Piece) -> Outcome | None:
        """The outcome that was kept for this piece, or None."""
        try:
            record = json.loads(self._path(piece).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        outcome = record.get("outcome") if isinstance(record, dict) else None
        return outcome if isinstance(outcome, dict) else None

    def keep(self, piece: Piece, outcome: Outcome) -> None:
        """Keep an outcome; where the folder cannot be written it is computed again another time."""
        record = {"name": piece.name, "settings": piece.settings, "outcome": outcome}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(self._path(piece)) as handle:
                handle.write(json.dumps(record).encode())
        except OSError:
            return

    def _path(self, piece: Piece) -> Path:
        return self._folder / f"{piece.name.replace('/', '-')}-{key(piece)[:16]}.json"


def key(piece: Piece) -> str:
    """Sum of all that decides the outcome of a piece."""
    source = Path(inspect.getfile(piece.run)).parent
    parts = {
        "run": f"{piece.run.__module__}.{piece.run.__qualname__}",
        "settings": piece.settings,
        "data": {name: SUMS[name] for name in piece.files},
        "code": _code(source),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _code(own: Path) -> str:
    """Sum of the source that computes: of the package, and of the folder of the run function."""
    package = Path(tacit.__file__).parent
    total = hashlib.sha256()
    for folder in [*(package / name for name in _COMPUTING), own]:
        for path in _modules(folder):
            total.update(path.name.encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def _modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not path.stem.startswith(_NOT_COMPUTING):
            yield path
