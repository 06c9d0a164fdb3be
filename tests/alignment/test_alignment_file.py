"""An alignment is kept in a file, and a file of data that changed since is noticed."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.alignment import Aligner, Alignment, align_here
from tacit.errors import InputError

IDS = ["ann", "bob", "cy", "dé"]


@pytest.fixture
def alignment() -> Alignment:
    aligners = [Aligner("bank", IDS, ["bank", "shop"]), Aligner("shop", ["dé", "ann", "x"], ["bank", "shop"])]
    align_here(aligners)
    assert aligners[0].alignment is not None
    return aligners[0].alignment


def test_what_is_written_is_read(alignment: Alignment, tmp_path: Path) -> None:
    alignment.write(tmp_path / "bank.npz")
    found = Alignment.read(tmp_path / "bank.npz")
    assert (found.party, found.parties, found.run, found.size) == ("bank", ("bank", "shop"), alignment.run, 4)
    assert found.rows.tolist() == alignment.rows.tolist()
    assert sorted(found.rows) == [0, 3]
    found.check(IDS)
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "bank.npz").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "changed",
    [IDS[:-1], [*IDS, "new"], IDS[::-1], ["ann", "bob", "cy", "de"], ["an", "nbob", "cy", "dé"]],
)
def test_changed_ids_are_noticed(alignment: Alignment, changed: list[str]) -> None:
    with pytest.raises(InputError, match='party "bank": the ids in column "customer" are not the 4 that were aligned'):
        alignment.check(changed, column="customer")


def test_the_same_ids_in_another_type_are_the_same(alignment: Alignment) -> None:
    alignment.check(np.array(IDS, dtype=object))
    alignment.check([f" {identifier} " for identifier in IDS])


@pytest.mark.parametrize("rows", [[0, 4], [-1, 2], [1, 1], []])
def test_rows_that_the_file_does_not_have_are_refused(alignment: Alignment, rows: list[int], tmp_path: Path) -> None:
    replace(alignment, rows=np.array(rows, dtype=np.int64)).write(tmp_path / "bank.npz")
    with pytest.raises(InputError, match="no whole alignment; align again"):
        Alignment.read(tmp_path / "bank.npz")


def test_damaged_files_are_refused(alignment: Alignment, tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    alignment.write(path)
    whole = path.read_bytes()
    for content in (b"", b"{}", whole[: len(whole) // 2], whole[:200] + b"?" + whole[201:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="missing or no whole alignment"):
            Alignment.read(path)
    with pytest.raises(InputError, match="missing or no whole alignment"):
        Alignment.read(tmp_path / "nothing.npz")


def test_files_of_another_version_are_refused(
    alignment: Alignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.alignment.aligner.VERSION", 2)
    alignment.write(tmp_path / "bank.npz")
    Alignment.read(tmp_path / "bank.npz")
    monkeypatch.undo()
    with pytest.raises(InputError, match="missing or no whole alignment"):
        Alignment.read(tmp_path / "bank.npz")
