"""`tacit demo`: what it prints, and that the commands it prints work as printed."""

from __future__ import annotations

import csv
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.demo import load_patients


def test_prints_a_table_and_commands_that_work(tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = tacit("demo")
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 80
    assert answer.out.isascii()
    for words in (
        "clinic alone",
        "lab alone",
        "both together",
        "all data in one place",
        "NOT differentially private",
        "both together, with epsilon 4",
        "clinic alone 0.",
    ):
        assert words in answer.out
    commands = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("  tacit ")]
    assert [words[1] for words in commands] == ["train", "predict"]
    assert tacit(*commands[0][1:]).code == 0
    rows = list(csv.DictReader(io.StringIO(tacit(*commands[1][1:]).out)))
    assert_accuracy_as_printed(answer.out, {row["patient"]: row["prediction"] for row in rows})
    again = tacit("demo").out
    assert "--out demo-run/run-2" in again


def assert_accuracy_as_printed(out: str, predictions: dict[str, str]) -> None:
    """The model trained from the files is the one in the table."""
    _, _, test = load_patients()
    right = sum(predictions[str(id_)] == label for id_, label in zip(test.ids, test.diagnosis, strict=True))
    printed = re.search(r"both together.* ([0-9.]+)%", out)
    assert printed is not None
    assert len(predictions) == len(test.ids)
    assert f"{right / len(test.ids):.1%}" == f"{printed[1]}%"


def test_joint_is_close_to_pooled(tacit: Any, tmp_path: Path) -> None:
    out = tacit("demo", "--out", tmp_path / "a b").out
    losses = [float(line.split()[-1]) for line in out.splitlines()[1:5]]
    assert abs(losses[2] - losses[3]) < 2e-3
    assert f"'{tmp_path}/a b/job.toml'" in out


def test_the_private_run_is_told_as_it_came_out(tacit: Any, tmp_path: Path) -> None:
    out = tacit("demo", "--out", tmp_path).out
    losses = [float(line.split()[-1]) for line in out.splitlines()[1:6]]
    words = " ".join(out.split())
    assert "differentially private (epsilon = 4 for each row of the lab, delta = 1e-05)" in words
    assert (": better than the clinic alone" in words) == (losses[4] < losses[0])
    assert "joint private model" in words
    assert "party 1" not in words


def test_files_do_not_share_the_order_of_rows(tacit: Any, tmp_path: Path) -> None:
    tacit("demo", "--out", tmp_path)
    clinic, lab = (
        [line.split(",")[0] for line in (tmp_path / f"{party}.csv").read_text().splitlines()[1:]]
        for party in ("clinic", "lab")
    )
    assert clinic != lab
    assert sorted(clinic) == sorted(lab)
    assert "diagnosis" not in (tmp_path / "lab.csv").read_text()


def test_refuses_a_directory_with_other_files(refused: Any, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("mine")
    assert "holds other files" in refused("demo", "--out", tmp_path)
    assert (tmp_path / "job.toml").read_text() == "mine"
    assert "cannot write into" in refused("demo", "--out", tmp_path / "job.toml")
