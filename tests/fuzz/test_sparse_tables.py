"""Changed LIBSVM files: refused in one line, or read as the format's grammar says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.columns.table import MOST_COLUMNS, SparseTable
from tacit.data.read import read_table
from tests.fuzz.budget import SHARDS, bounded_memory, refusal, seeds
from tests.fuzz.mutate import Mutator
from tests.fuzz.reading import read_sparse

TABLE = "".join(
    f"{('+1', '-1')[k % 2]} 1:{k / 8} {'3:-2.5e-1 ' if k % 3 else ''}{4 + k % 3}:{k}{' # a note' if k == 4 else ''}\n"
    for k in range(8)
).encode()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_changed_file_is_refused_or_read_as_it_says(shard: int, tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    used = 0
    with bounded_memory():
        for seed in seeds("sparse tables", shard):
            content = Mutator(seed).sparse(TABLE)
            path.write_bytes(content)
            table, _ = refusal(lambda: read_table(path, party="a"))
            if table is not None:
                used += 1
                _check(table, content, seed)
    assert used > len(seeds("sparse tables", shard)) / 10


def _check(table: SparseTable, content: bytes, seed: int) -> None:
    labels, rows = read_sparse(content)
    np.testing.assert_array_equal(table.label, labels, err_msg=f"seed {seed}")
    width = max([1, *(max(row, default=0) for row in rows)])  # a file without any entry has one column of zeros
    assert table.columns == (*(str(number) for number in range(1, width + 1)), "label"), seed
    assert width <= MOST_COLUMNS
    found = [{} for _ in rows]
    coo = table.data.tocoo()
    for row, column, value in zip(coo.row, coo.col, coo.data, strict=True):
        found[row][int(column) + 1] = value
    for own, expected in zip(found, rows, strict=True):
        assert set(own) == set(expected), seed
        assert all(np.array_equal(own[key], expected[key], equal_nan=True) for key in own), seed
    names = table.default_features()
    matrix, _ = refusal(lambda: table.features(names)) if names else (None, "")
    if matrix is not None:
        assert all(np.isfinite(value) for row in rows for value in row.values()), seed
