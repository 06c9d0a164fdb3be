"""Folds of rows: who is left out when, dealt out by a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError

Rows = npt.NDArray[np.intp]
Splits = list[tuple[Rows, Rows]]


def deal_folds(
    count: Any, rows: int, seed: int, kinds: npt.NDArray[Any] | None = None, *, name: str = "folds"
) -> Splits:
    """Rows to train on and rows to test on, for each fold; every row is tested on once.

    Parameters
    ----------
    count : int
        How many folds.
    rows : int
    seed : int
        Of the permutation in which the rows are dealt out.
    kinds : array or None
        The class of each row: every fold gets its share of each, to within one row.
    name : str
        What users call the count.

    Raises
    ------
    InputError
        For a count that is no whole number of at least 2, or more than there are rows.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
        raise InputError(f"{name}={count!r} is not allowed: it must be a whole number of at least 2")
    if count > rows:
        raise InputError(f"{name}={count} needs at least {count} rows: there are n_samples={rows}")
    order = np.random.RandomState(seed).permutation(rows)
    if kinds is not None:
        order = order[np.argsort(np.asarray(kinds)[order], kind="stable")]
    fold = np.empty(rows, dtype=np.intp)
    fold[order] = np.arange(rows) % int(count)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(count))]
