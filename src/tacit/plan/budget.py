"""How a run fits into a stated amount of memory: what it must keep of every row, and how many past steps are left.

Of every row a lean run of method "memory" keeps 8 bytes for each of: the label, the joint prediction, the residual,
the metric, one answer of each party, and each past step. Beside that stand the interpreter with its libraries and the
buffers of the rows.
"""

from __future__ import annotations

import math

from tacit.data.wording import plural, size
from tacit.errors import InputError

APART = 500_000_000  # bytes: interpreter, libraries, buffers of the rows; 370 MB were measured
ALWAYS = 4  # vectors of one float64 per row, beside the parties' answers and the past steps
MOST_STEPS = 16


def fitting_window(memory: int, rows: int, parties: int) -> int:
    """Past steps that fit.

    Raises
    ------
    InputError
        Where not even one does; the message says how much memory it takes.
    """
    vectors = (memory - APART) // (8 * max(rows, 1))
    window = min(MOST_STEPS, vectors - ALWAYS - parties)
    if window < 1:
        least = math.ceil((APART + 8 * rows * (ALWAYS + parties + 1)) / 1e7) * 10_000_000
        raise InputError(
            f"memory = {size(memory)} is too little for {plural(rows, 'row')} of {plural(parties, 'party')}, whatever "
            f"the number of columns: give at least {size(least)}"
        )
    return int(window)


def check_lean(method: str, *, private: bool, secure: bool) -> None:
    """Refuse what keeps more numbers per row than a lean run may, or looks at single rows."""
    if private:
        raise InputError("memory does not go with [privacy]: leave memory out, or train without privacy")
    if secure:
        raise InputError("memory does not go with secure_aggregation: leave one of them out")
    if method != "memory":
        raise InputError(
            f'memory does not go with method "{method}", only with "memory": choose a smooth convex loss and penalty '
            "l2 or none, or leave memory out"
        )


ON_CLUSTER = ("memory", "averaged", "multipliers", "published")  # methods that use all rows together


def check_on_cluster(method: str, *, private: bool) -> None:
    """Refuse what looks at single rows, where rows are on a cluster.

    Raises
    ------
    InputError
    """
    if private:
        raise InputError("--dask does not go with [privacy]: leave --dask out, or train without privacy")
    if method not in ON_CLUSTER:
        raise InputError(f'--dask does not go with method "{method}": choose one of {", ".join(ON_CLUSTER)}')
