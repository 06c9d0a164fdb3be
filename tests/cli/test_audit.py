"""`tacit audit`: exit codes, the table, and what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.audit.attacks import AT_95, AT_999, NO_VIOLATION, AttackResult
from tacit.audit.auditor import Audit
from tacit.audit.findings import has_matplotlib
from tacit.privacy.certificate import not_private
from tests.algorithms.paper_nodes import plan


def test_a_job_without_privacy(tacit: Any, files: Any, tmp_path: Path) -> None:
    answer = tacit("audit", files.write(), "--quick", "--seed", 1, "--out", tmp_path / "audit")
    assert answer.code == 0, answer
    assert answer.err == ""
    assert "mechanism  none" in answer.out
    assert "NOT differentially private" in answer.out
    assert "100.0 %" in answer.out
    assert "No privacy is claimed" in answer.out
    assert max(len(line) for line in answer.out.splitlines()[:-1]) <= 100
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert record["broken"] is False
    assert record["verdicts"]["as stated"] == 5


def test_the_same_seed_says_the_same(tacit: Any, files: Any) -> None:
    job = files.write()
    assert tacit("audit", job, "--quick", "--seed", 1).out == tacit("audit", job, "--quick", "--seed", 1).out


def test_the_methods_by_name(tacit: Any, files: Any) -> None:
    files.model = 'loss = "logistic"\nalpha = 0.01\nmethod = "averaged"'
    answer = tacit("audit", files.write(), "--quick", "--seed", 1)
    assert answer.code == 0
    assert "combined vector q" in " ".join(answer.out.split())


def test_a_broken_claim_is_exit_code_1(tacit: Any, files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Audit(not_private(("bank",), 3), "toy", (AttackResult("rows", "epsilon 1", "epsilon >= 2", "broken"),))
    monkeypatch.setattr("tacit.audit.auditor.audit", lambda *_: broken)
    answer = tacit("audit", files.write())
    assert answer.code == 1
    assert answer.err == ""
    assert "Something that is claimed is BROKEN" in answer.out


@pytest.mark.parametrize(("option", "value"), [("--runs", 10), ("--pairs", 0), ("--seed", -1), ("--runs", "many")])
def test_wrong_options_are_refused(refused: Any, files: Any, option: str, value: object) -> None:
    assert option.removeprefix("--") in refused("audit", files.write(), option, value)


def test_a_missing_job_is_refused(refused: Any, tmp_path: Path) -> None:
    assert "there is no job file" in refused("audit", tmp_path / "none.toml")


def test_a_directory_that_cannot_be_made_is_refused_at_once(refused: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "give another one with --out" in refused("audit", files.write(), "--out", tmp_path / "file" / "audit")


def test_help_names_the_verdicts_and_exit_codes(tacit: Any) -> None:
    answer = tacit("audit", "--help")
    assert answer.code == 0
    assert "as\nstated" in answer.out
    assert "no violation found (at 95 %" in answer.out
    assert "exit codes: 0" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_a_private_job(tacit: Any, files: Any, tmp_path: Path) -> None:
    path = files.write()
    path.write_text(path.read_text() + "[privacy]\nepsilon = 2.0\n")
    answer = tacit("audit", path, "--pairs", 60, "--runs", 200, "--seed", 1, "--out", tmp_path / "audit")
    assert answer.code == 0, answer
    assert "mechanism  gram" in answer.out
    assert "differentially private: epsilon = 2 at delta" in answer.out
    assert "rows of shop: guessing game" in " ".join(answer.out.split())
    assert any(line.rstrip().endswith("no violation found") for line in answer.out.splitlines())
    line = next(line for line in answer.out.splitlines() if line.startswith("neighbours "))
    assert re.fullmatch(
        r"neighbours +\d{4,} comparisons over \d{3,} steps, 0 differences outside planned releases; .*", line
    )
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert record["findings"][0]["details"]["comparisons"] > 1000
    assert (tmp_path / "audit" / "audit.png").exists() == has_matplotlib()


def test_a_plan_of_the_sample_split(tacit: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("dual", published=True, alpha=1.0, options={"alphas": 0.5, "rounds": 2})
    monkeypatch.setattr("tacit.run.prepare.prepare", lambda job, note: SimpleNamespace(plan=made))
    answer = tacit("audit", files.write(), "--pairs", 40, "--runs", 60, "--seed", 1, "--out", tmp_path / "audit")
    assert answer.code == 0, answer
    assert "mechanism  dual" in answer.out
    assert "1 of 5 attacks succeed where the certificate says that nothing is covered" in answer.out
    record = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert record["verdicts"] == {NO_VIOLATION: 3, AT_95: 1, AT_999: 0, "as stated": 1, "not tried": 0, "broken": 0}
    weak = [finding["attack"] for finding in record["findings"] if finding["verdict"] == "as stated"]
    assert weak == ["rows of node 1: the paper's claim on a round"]
    assert (tmp_path / "audit" / "audit.png").exists() == has_matplotlib()


def test_a_private_job_of_curves(tacit: Any, files: Any, tmp_path: Path) -> None:
    path = files.write()
    text = (
        path.read_text().replace("[model]", '[model]\nterms = "spline"')
        + "[party.columns]\n'*' = { low = -3, high = 3 }\n"
    )
    path.write_text(text + "[privacy]\nepsilon = 2.0\n")
    answer = tacit("audit", path, "--pairs", 30, "--runs", 60, "--seed", 1)
    assert answer.code == 0, answer
    assert "mechanism  gram" in answer.out
    line = next(line for line in answer.out.splitlines() if line.startswith("neighbours "))
    assert "0 differences outside planned releases" in line
