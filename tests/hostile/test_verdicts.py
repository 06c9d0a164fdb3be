"""Figures and verdicts that users read: each was wrong once, and must not be again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.main import main
from tests.cli.conftest import Answer, Files
from tests.cli.wards import Nodes


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture[str]) -> Any:
    """The command line, in this process."""

    def call(*words: Any) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A bank with labels and a shop, in files."""
    return Files(tmp_path)


# --- the ids that a job names ----------------------------------------------------------------------------


def test_predictions_of_a_sample_split_keep_the_ids_of_the_file(tmp_path: Path, tacit: Any) -> None:
    """They were numbered instead, so that nobody could join them back."""
    nodes = Nodes(tmp_path)
    nodes.tables["north"]["patient"] = [f"{number:04d}" for number in range(60)][::-1]
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    said = tacit("predict", tmp_path / "run", tmp_path / "north.csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["id"] for row in rows] == nodes.tables["north"]["patient"]


def test_explain_of_a_sample_split_finds_a_row_by_its_id(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    nodes.tables["north"]["patient"][7] = "north3"  # a patient with two rows
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    words = ("explain", tmp_path / "run", tmp_path / "north.csv")
    record = json.loads(tacit(*words, "--id", "north5", "--json").out)
    assert (record["row"], record["id"]) == (6, "north5")
    assert tacit(*words, "--id", "north5").out.startswith("id north5\n")
    assert "2 rows have the id" in tacit(*words, "--id", "north3").err
    assert "no row has the id" in tacit(*words, "--id", "west1").err


def test_a_file_without_that_column_is_numbered(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    lines = [line.split(",", 1)[1] for line in (tmp_path / "north.csv").read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    said = tacit("predict", tmp_path / "run", tmp_path / "new.csv")
    assert said.out.startswith("row,score")
    assert "no id column" in tacit("explain", tmp_path / "run", tmp_path / "new.csv", "--id", "north1").err
