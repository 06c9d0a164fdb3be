"""Run pieces of work on all cores, keep every outcome as soon as it is there, and say how far it is."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tacit.errors import InputError
from tacit.papers.reproduction.store import Store
from tacit.papers.reproduction.work import Outcome, Piece, Settings

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
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
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


def _one_thread() -> None:
    """Keep each process to one core: the pieces are spread over the cores already."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _outcome(run: Callable[[Settings], Outcome], settings: Settings) -> Outcome:
    try:
        return run(settings)
    except InputError as error:
        return {MISSING: str(error)}
