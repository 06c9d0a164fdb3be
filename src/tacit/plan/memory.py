"""How a run fits into a stated amount of memory: what it must keep of every row, and how many past steps are left.

Of every row a run of solver "memory" keeps 8 bytes for each of: the label, the joint prediction, the residual,
the metric, one answer of each party, and each past step. Beside that stand the interpreter with its libraries, the
buffers of the rows, and matrices with a number for every two columns of a party.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.errors import InputError
from tacit.problem.losses import Loss
from tacit.solvers import SOLVERS
from tacit.text import plural, size

APART = 500_000_000  # bytes: interpreter, libraries, buffers of the rows; 370 MB were measured
ALWAYS = 4  # vectors of one float64 per row, beside the parties' answers and the past steps
MOST_STEPS = 16
KEPT_MATRICES, PASSING_MATRICES = 2, 5  # of d x d: each party's Gram matrix and its factor; while one is made
COLUMNS_APART = 64_000_000  # bytes for reading columns of a file, which `APART` has already


def apart_from_rows(columns: Sequence[int]) -> int:
    """Bytes beside the numbers of every row, for parties with so many columns each."""
    squares = [8 * width**2 for width in columns]
    return APART + KEPT_MATRICES * sum(squares) + PASSING_MATRICES * max(squares)


def fitting_window(memory: int, rows: int, columns: Sequence[int]) -> int:
    """Past steps that fit, for parties with so many columns each.

    Raises
    ------
    InputError
        Where not even one does; the message says how much memory it takes.
    """
    parties, apart = len(columns), apart_from_rows(columns)
    vectors = (memory - apart) // (8 * max(rows, 1))
    window = min(MOST_STEPS, vectors - ALWAYS - parties)
    if window < 1:
        raise _too_little(memory, rows, columns, apart + 8 * rows * (ALWAYS + parties + 1))
    return int(window)


def check_reading(memory: int, reading: int, rows: int, columns: Sequence[int]) -> None:
    """Refuse a file of which so much is held while it is read that the numbers per row would not fit beside it.

    Raises
    ------
    InputError
        The message says how much memory it takes.
    """
    least = APART + max(0, reading - COLUMNS_APART) + 8 * rows * (len(columns) + 2)  # ids, labels and places
    if memory < least:
        raise _too_little(memory, rows, columns, least)


def _too_little(memory: int, rows: int, columns: Sequence[int], least: int) -> InputError:
    held = f"{plural(rows, 'row')} of {plural(len(columns), 'party')}, the widest with {plural(max(columns), 'column')}"
    return InputError(
        f"memory = {size(memory)} is too little for {held}: give at least {size(math.ceil(least / 1e7) * 10_000_000)}"
    )


def check_low_memory(solver: str, *, private: bool, secure: bool) -> None:
    """Refuse what keeps more numbers per row than such a run may, or looks at single rows."""
    if private:
        raise InputError("memory does not go with [privacy]: leave memory out, or train without privacy")
    if secure:
        raise InputError("memory does not go with secure_aggregation: leave one of them out")
    if solver != "memory":
        raise InputError(
            f'memory does not go with method "{solver}", only with "memory": choose a smooth convex loss and penalty '
            "l2 or none, or leave memory out"
        )


def check_one_score(loss: Loss, what: str) -> None:
    """Refuse more than two classes, where rows are not in memory.

    Raises
    ------
    InputError
    """
    if loss.outputs > 1:
        raise InputError(f"{what} does not go with more than two classes: leave it out, or join them into two")


def check_on_cluster(solver: str, *, private: bool) -> None:
    """Refuse what looks at single rows, where rows are on a cluster.

    Raises
    ------
    InputError
    """
    if private:
        raise InputError("--dask does not go with [privacy]: leave --dask out, or train without privacy")
    if not SOLVERS[solver].on_cluster:
        able = ", ".join(name for name, one in SOLVERS.items() if one.on_cluster)
        raise InputError(f'--dask does not go with method "{solver}": choose one of {able}')
