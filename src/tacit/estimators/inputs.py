"""Checks of what users hand over that every estimator shares: names of columns, labels, weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.checks import check_matrix
from tacit.errors import InputError
from tacit.estimators.blocks import column_names
from tacit.types import Vector


def checked_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns, none of them twice and each a column of numbers; None for what is no frame."""
    if not hasattr(X, "columns"):
        return None
    names = column_names(X)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"X has two columns of the name {twice[0]!r}: rename one")
    for name, own in zip(names, X.columns, strict=True):
        dtype = X[own].dtype
        numeric = getattr(dtype, "is_numeric", None)  # of polars, whose types have no kind
        if getattr(dtype, "kind", "f" if numeric is None or numeric() else "O") in "OUSMmV":
            check_matrix(np.asarray(X[own])[:, None], "X", (name,))
    return names


def real_labels(labels: npt.NDArray[Any], classifier: str) -> Vector:
    """Labels as finite numbers; `classifier` is what to use where they are not."""
    if labels.dtype.kind in "mM":
        raise InputError("the labels are dates or durations: give numbers")
    try:
        numbers = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the labels are not numbers ({labels[0]!r}, ...): use {classifier}") from error
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise InputError(f"y has NaN or infinity, first in row {bad[0]}: fill them in, or remove these rows")
    return numbers


def checked_weights(sample_weight: Any, rows: int) -> Vector | None:
    """One weight of at least 0 for each row; None where all are 1."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("sample_weight has an entry that is not a number: give one number for each row") from error
    weights = np.full(rows, weights) if weights.ndim == 0 else weights
    if weights.shape != (rows,):
        raise InputError(f"sample_weight has shape {weights.shape}: give one number for each of the {rows} rows")
    if not np.all(np.isfinite(weights)) or weights.min(initial=0.0) < 0:
        raise InputError("sample_weight has a negative, NaN or infinite entry: weights must be 0 or above")
    if weights.sum() <= 0:
        raise InputError("sample_weight is zero for every row: give at least one row a positive weight")
    return None if np.all(weights == 1.0) else weights
