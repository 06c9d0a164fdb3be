"""What a party's features may be, and the block that fits them: in memory, as curves, on disk, on a cluster."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.blocks.cluster import ClusterBlock
from tacit.blocks.curves import CurveBlock, TableBlock
from tacit.blocks.dense import Block
from tacit.blocks.streamed import SparseStreamedBlock, StreamedBlock
from tacit.columns.compact import CurveMatrix
from tacit.columns.raw import OwnColumns, RawTable
from tacit.data.cluster import ClusterRows
from tacit.data.rows_on_disk import SparseRows, StreamedRows
from tacit.errors import InputError
from tacit.types import Matrix, Shard


def block_of(shard: Shard) -> Block:
    """The block of a party's features, which knows the curves among them."""
    block = make_block(shard.features)
    if isinstance(block, Block):
        block.curves = shard.curves
    return block


def make_block(features: Matrix) -> Block:
    """The block of these features, wherever they are; what trees take needs none."""
    if isinstance(features, RawTable | OwnColumns):
        return cast("Block", features)
    if isinstance(features, CurveMatrix):
        return TableBlock(features) if features.is_tabled else CurveBlock(features)
    if isinstance(features, SparseRows):
        return SparseStreamedBlock(features)
    if isinstance(features, ClusterRows):
        return ClusterBlock(features)
    return StreamedBlock(features) if isinstance(features, StreamedRows) else Block(features)


# --- Matrices that users hand over: every refusal names the party and the column


def check_matrix(block: Any, party: str, columns: tuple[str, ...] | None = None) -> Matrix:
    """One party's features as a finite float matrix: dense (float32 stays) or CSR; nothing is copied needlessly."""
    if sparse.issparse(block):
        matrix = block.tocsr()
        matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
        if not matrix.has_canonical_format:  # entries stored twice are added up first: their sum may be infinite
            matrix = matrix.copy()
            with np.errstate(over="ignore"):
                matrix.sum_duplicates()
    else:
        matrix = _dense(block, party, columns)
    if matrix.ndim != 2:
        raise InputError(f"{party}: its data have {matrix.ndim} dimension(s): give one row for each sample")
    if matrix.shape[1] == 0:
        raise InputError(f"{party} has no columns, 0 feature(s): give it at least 1, or leave it out")
    if matrix.shape[0] == 0:
        raise InputError(f"{party} has no rows, 0 sample(s): give at least 2")
    check_finite(matrix, party, columns)
    return matrix


def check_finite(matrix: Matrix, party: str, columns: tuple[str, ...] | None = None) -> None:
    """Refuse NaN and infinity, naming the column and the first row."""
    values = matrix.data if sparse.issparse(matrix) else matrix
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)) or np.isfinite(values).all():
            return
    row, column = _first_bad(matrix)
    value = matrix[row, column]
    what = "NaN" if np.isnan(value) else "infinity"
    name = columns[column] if columns else column
    raise InputError(
        f"{party}, column {name!r}: {what} in row {row}; Tacit does not accept missing values encoded as NaN, "
        "nor infinity: fill them in, or remove these rows"
    )


def _dense(block: Any, party: str, columns: tuple[str, ...] | None) -> npt.NDArray[Any]:
    if isinstance(block, np.ma.MaskedArray):
        raise InputError(f"{party}: masked arrays are not supported: fill in what is masked")
    array = np.asarray(block)
    if array.dtype in (np.float32, np.float64):
        return array
    if np.iscomplexobj(array):
        raise InputError(f"{party}: Complex data not supported: give real numbers")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(_not_numeric(array, party, columns)) from error


def _not_numeric(array: npt.NDArray[Any], party: str, columns: tuple[str, ...] | None) -> str:
    if array.ndim != 2:
        return f"{party}: its data are not a table of numbers: give one row for each sample"
    for j in range(array.shape[1]):
        for value in array[:, j]:
            try:
                float(value)
            except (TypeError, ValueError):
                name = columns[j] if columns else j
                kind = " (argument must be a string or a number)" if isinstance(value, dict) else ""
                held = value.item() if isinstance(value, np.generic) else value
                return f"{party}, column {name!r}: {held!r} is not a number{kind}: encode it first, or leave it out"
    return f"{party}: its data are not numbers"


def _first_bad(matrix: Matrix) -> tuple[int, int]:
    if sparse.issparse(matrix):
        position = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
        return row, int(matrix.indices[position])
    row, column = np.argwhere(~np.isfinite(matrix))[0]
    return int(row), int(column)
