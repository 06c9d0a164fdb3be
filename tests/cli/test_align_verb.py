"""`tacit align`: the rows of the plain join, one file for each party."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tacit.alignment import Alignment
from tacit.data.align import align
from tacit.data.read import read_table
from tests.cli.conftest import Files


def customers(path: Path) -> list[str]:
    with open(path, newline="") as file:
        return [row["customer"] for row in csv.DictReader(file)]


@pytest.fixture
def job(files: Files) -> Path:
    files.shop["customer"] = [f"c{number:04d}" for number in range(50, 50 + files.rows)]
    return files.write(shuffle=3)


def test_rows_are_those_of_the_join(tacit: Any, job: Path, tmp_path: Path) -> None:
    answer = tacit("align", job, "--out", tmp_path / "aligned")
    assert (answer.code, answer.err) == (0, "")
    assert "bank    120 rows, 50 left out" in answer.out
    assert "common  70 rows, in one order for all" in answer.out
    found = {name: Alignment.read(tmp_path / "aligned" / f"{name}.npz") for name in ("bank", "shop")}
    tables = [read_table(tmp_path / f"{name}.csv", party=name, id_column="customer") for name in found]
    plain = align(tables, ["customer", "customer"])
    for alignment, rows in zip(found.values(), plain.rows, strict=True):
        assert set(alignment.rows.tolist()) == set(rows.tolist())
        alignment.check(customers(tmp_path / f"{alignment.party}.csv"))
    in_order = [[customers(tmp_path / f"{name}.csv")[row] for row in found[name].rows] for name in found]
    assert in_order[0] == in_order[1]
    assert len(in_order[0]) == 70
    assert found["bank"].run == found["shop"].run


def test_goes_to_a_folder_of_the_jobs_name(
    tacit: Any, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = tacit("align", job, "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert sorted(path.name for path in Path("alignments/credit").iterdir()) == ["bank.npz", "shop.npz"]


def test_nothing_in_common_is_refused(files: Files, refused: Any) -> None:
    files.shop["customer"] = [f"d{number}" for number in range(files.rows)]
    assert "no id is held by every party" in refused("align", files.write(), "--out", files.folder / "out")
    assert not list((files.folder / "out").iterdir())


def test_jobs_without_rows_to_match_are_refused(files: Files, refused: Any, tmp_path: Path) -> None:
    files.shop_keys = ""
    assert 'party "shop" has no id column' in refused("align", files.write())
    files.shop_keys, files.bank_keys = 'label = "s0"', 'label = "default"'
    files.job = 'split = "samples"\n[graph]\nkind = "ring"'
    assert "nothing to align" in refused("align", files.write())
    (tmp_path / "file").write_text("")
    files.job, files.shop_keys, files.bank_keys = "", 'id = "customer"', 'id = "customer"\nlabel = "default"'
    assert "choose another --out" in refused("align", files.write(), "--out", tmp_path / "file")


def test_repeated_ids_are_refused_with_examples(files: Files, refused: Any) -> None:
    files.shop["customer"] = ["c0001"] * 2 + files.shop["customer"][2:]
    told = refused("align", files.write(), "--out", files.folder / "out")
    assert 'party "shop": id column "customer" has 1 repeated id: "c0001": keep one row for each id' in told
