"""Pieces of work: what is computed, what is kept of it, and how all cores compute what is not kept yet."""

from __future__ import annotations

import hashlib
import inspect
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import tacit
from tacit.data.datasets import atomic_write, cache_folder
from tacit.errors import InputError
from tacit_papers import public_sets
from tacit_papers.public_sets import SUMS

# --- pieces of work: what is computed, from which settings, and by which function --------------------

Settings = Mapping[str, Any]  # of JSON: numbers, strings, lists, mappings, true, false, null
Outcome = dict[str, Any]  # of JSON, too
Results = Mapping[str, Outcome]  # by the name of the piece


@dataclass(frozen=True)
class Piece:
    """One piece of work, small enough to be lost when a run is killed, large enough to be worth storing.

    Attributes
    ----------
    name : str
        Unique within its paper, as "a9a/admm"; figures, tables and claims look the outcome up by it.
    run : callable
        A function of a module, so that another process can find it: settings to outcome. It is repeatable: all its
        randomness comes from seeds in the settings.
    settings : mapping
        All that decides the outcome, as JSON.
    files : tuple of str
        Names of the data sets it reads (keys of `tacit_papers.public_sets.SUMS`): another file is another outcome.
    seconds : float
        Rough time it takes, for the time left.
    """

    name: str
    run: Callable[[Settings], Outcome]
    settings: Settings
    files: tuple[str, ...] = ()
    seconds: float = 1.0


def seeds(first: int, count: int) -> Sequence[int]:
    """Seeds of repeated runs."""
    return list(range(first, first + count))


# --- outcomes that were computed before, by everything they depend on: settings, data, the code, the libraries ---

# What computes: a change here may change any outcome. What draws, judges and prints does not.
_COMPUTING = (
    *("problem", "topologies", "columns", "data", "privacy", "blocks", "solvers", "mechanisms", "plan", "run"),
    *("estimators", "audit"),
)
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
    """Sum of the source that computes: of Tacit, of the folder of the run function, and of the data sets."""
    package = Path(tacit.__file__).parent
    total = hashlib.sha256()
    folders = [*(package / name for name in _COMPUTING), own]
    for path in [*(path for folder in folders for path in _modules(folder)), Path(public_sets.__file__)]:
        total.update(path.name.encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def _modules(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.py")):
        if not path.stem.startswith(_NOT_COMPUTING):
            yield path


# --- run pieces of work on all cores, keep every outcome as soon as it is there, and say how far it is ---

MISSING = "missing"  # the outcome of a piece whose data are not at hand: the reason, under this key
Report = Callable[[Piece, bool], None]  # piece, and whether it had been kept from before


def run_pieces(
    pieces: Sequence[Piece], store: Store, jobs: int | None = None, fresh: bool = False, report: Report | None = None
) -> dict[str, Outcome]:
    """Outcomes of all pieces by name: those in the store as they are, the others computed and stored.

    Parameters
    ----------
    pieces : sequence of Piece
    store : Store
    jobs : int, optional
        Processes; by default one for each core. 1 computes in this process.
    fresh : bool
        Compute everything anew.
    report : callable, optional
        Called after every piece.

    Raises
    ------
    RuntimeError
        With the name of a piece whose function failed otherwise than for missing data.
    """
    done: dict[str, Outcome] = {}
    open_pieces: list[Piece] = []
    for piece in pieces:
        known = None if fresh else store.find(piece)
        if known is None:
            open_pieces.append(piece)
        else:
            done[piece.name] = known
            if report:
                report(piece, True)

    def finish(piece: Piece, outcome: Outcome) -> None:
        if MISSING not in outcome:
            store.keep(piece, outcome)
        done[piece.name] = outcome
        if report:
            report(piece, False)

    workers = min(jobs or os.cpu_count() or 1, len(open_pieces))
    if workers <= 1:
        for piece in open_pieces:
            finish(piece, _outcome(piece.run, piece.settings))
    else:
        _spread(open_pieces, workers, finish)
    return {piece.name: done[piece.name] for piece in pieces}


def _spread(pieces: Sequence[Piece], workers: int, finish: Callable[[Piece, Outcome], None]) -> None:
    """Longest first, on processes of one thread each."""
    modules = sorted({piece.run.__module__ for piece in pieces})
    with ProcessPoolExecutor(workers, mp_context=_context(modules), initializer=_one_thread) as pool:
        waiting: dict[Future[Outcome], Piece] = {
            pool.submit(_outcome, piece.run, piece.settings): piece
            for piece in sorted(pieces, key=lambda piece: -piece.seconds)
        }
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    finish(waiting.pop(future), future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise


def _context(modules: list[str]) -> BaseContext:
    """How processes start: from one that has imported what the pieces need, where the system can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(modules)
    return context


def _one_thread() -> None:
    """Keep each process to one core: the pieces are spread over the cores already."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _outcome(run: Callable[[Settings], Outcome], settings: Settings) -> Outcome:
    try:
        return run(settings)
    except InputError as error:
        return {MISSING: str(error)}
