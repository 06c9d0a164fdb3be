"""Changed CSV files: refused in one line, or read as an independent reader reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tacit.columns.spec import EncodeRules
from tacit.columns.table import kind_of_type
from tacit.data.load import JobData, PartySpec, load_training_data
from tacit.data.read import Table, read_table
from tests.fuzz.budget import SHARDS, bounded_memory, refusal, seeds
from tests.fuzz.mutate import Mutator
from tests.fuzz.reading import (
    BLANKS,
    NOTHING,
    Cells,
    UnreadableError,
    encoded,
    read_cells,
    reads_as_numbers,
    same_value,
)

CITIES, NOTES, LABELS = ("Bern", "Basel", "Zürich"), ("", "x y", "3"), ("no", "yes")
BANK = (
    "id,age,city,note,label\n"
    + "".join(f"c{n:02d},{20 + 1.5 * n},{CITIES[n % 3]},{NOTES[n % 3]},{LABELS[n * 7 % 2]}\n" for n in range(9))
).encode()
SHOP = (
    "id,spend,visits\n" + "".join(f"c{n:02d},{n * n / 7:.4f},{n % 4}\n" for n in (3, 1, 0, 2, 8, 7, 6, 4, 5))
).encode()
SPECS = [PartySpec("bank", "bank.csv", "id", "label"), PartySpec("shop", "shop.csv", "id")]
RULES = EncodeRules(scale="none", rare=1)


def load(folder: Path) -> JobData:
    return load_training_data(SPECS, folder, RULES)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_changed_table_is_refused_or_read_as_it_says(shard: int, tmp_path: Path) -> None:
    used = 0
    with bounded_memory():
        for seed in seeds("tables", shard):
            mutator = Mutator(seed)
            files = {"bank.csv": BANK, "shop.csv": SHOP}
            name = mutator.random.choice(sorted(files))
            files[name] = mutator.table(files[name])
            for file, content in files.items():
                (tmp_path / file).write_bytes(content)
            data, _ = refusal(lambda: load(tmp_path))
            if data is not None:
                used += 1
                _check(data, files, seed)
    assert used > len(seeds("tables", shard)) / 10  # many changes leave a table that can be used


def _check(data: JobData, files: dict[str, bytes], seed: int) -> None:
    """The data are those of the files, read by other means."""
    cells = [read_cells(files["bank.csv"]), read_cells(files["shop.csv"])]
    ids = [[text.strip() for text in own.column("id")] for own in cells]
    assert all(len(set(own)) == len(own) for own in ids), seed
    common = set(ids[0]) & set(ids[1])
    known = [str(one) for one in data.ids.tolist()] if data.ids is not None else []
    assert set(known) == common, seed
    assert data.counts.dropped == {"bank": len(ids[0]) - len(common), "shop": len(ids[1]) - len(common)}
    orders = [[own.index(one) for one in known] for own in ids]
    labels = [text.strip() for text in cells[0].column("label")]
    for row, value in zip(orders[0], data.labels.tolist(), strict=True):
        assert same_value(labels[row], value), (seed, labels[row], value)
    for shard, own, order in zip(data.shards, cells, orders, strict=True):
        _check_shard(shard.columns, shard.features, own, order, seed)


def _check_shard(columns: tuple[str, ...], features: object, cells: Cells, order: list[int], seed: int) -> None:
    """Every encoded column, by its name."""
    matrix = features.toarray() if sp.issparse(features) else np.asarray(features)
    expected: dict[str, np.ndarray] = {}
    for name in sorted(set(cells.header) - {"id", "label"}):
        own = cells.column(name)
        assert name in columns or not reads_as_numbers(own), (seed, name)
        filled = [cell for cell in own if cell.strip(BLANKS) not in NOTHING]
        numbers = name in columns
        assert numbers or filled, (seed, name)
        expected |= {name + end: values for end, values in encoded(own, order, numbers=numbers).items()}
    assert list(columns) == list(expected), seed
    for place, (name, values) in enumerate(expected.items()):
        np.testing.assert_allclose(matrix[:, place], values, rtol=1e-12, err_msg=f"seed {seed}, column {name}")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_typed_cells_are_those_of_the_file(shard: int, tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    for seed in seeds("tables", shard)[::2]:
        content = Mutator(seed + 10**6).table(SHOP)
        path.write_bytes(content)
        table, _ = refusal(lambda: read_table(path, party="shop"))
        if table is not None:
            _check_types(table, content, seed)


def _check_types(table: Table, content: bytes, seed: int) -> None:
    """Every cell of every column that could be used."""
    columns = {name: refusal(lambda name=name: table.arrow(name)) for name in table.columns}
    if any("is not UTF-8" in refused for _, refused in columns.values()):
        with pytest.raises(UnreadableError, match="no UTF-8"):
            read_cells(content)
        return
    cells = read_cells(content)
    assert list(table.columns) == cells.header, seed
    assert table.n_rows == len(cells.rows), seed
    for name, (arrow, _) in columns.items():
        if kind_of_type(arrow.type):
            for text, value in zip(cells.column(name), arrow.to_pylist(), strict=True):
                assert same_value(text, value), (seed, name, text, value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'id,a\n1,x\n2,"y\n3,z\n', "a quote stays open"),
        (b"id,a\n1\n", "rows of other lengths"),
        (b"id,id\n1,2\n", "a header without names"),
        (b"id\n\xff\n", "no UTF-8"),
    ],
)
def test_the_independent_reader_refuses(content: bytes, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_cells(content)
