"""The command itself: help, version, exit codes, and what happens when things go wrong."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tacit as package
from tacit.cli import train
from tacit.cli.main import VERBS
from tacit.errors import RunError

COMMAND = [sys.executable, "-m", "tacit.cli.main"]


def test_help_names_every_verb(tacit: Any) -> None:
    for words in ([], ["--help"]):
        answer = tacit(*words)
        assert answer.code == 0
        assert all(verb in answer.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(tacit: Any, verb: str) -> None:
    answer = tacit(verb, "--help")
    assert answer.code == 0
    assert f"usage: tacit {verb}" in answer.out


def test_help_texts_fit_80_columns(tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], *([verb] for verb in VERBS)):
        assert max(len(line) for line in tacit(*words, "--help").out.splitlines()) <= 80


def test_version(tacit: Any) -> None:
    assert tacit("--version").out == f"tacit {package.__version__}\n"


def test_versions_for_a_bug_report(tacit: Any) -> None:
    lines = tacit("--version", "--verbose").out.splitlines()
    assert lines[0] == f"tacit {package.__version__}"
    assert f"python {platform.python_version()}" in lines
    assert f"numpy {np.__version__}" in lines
    assert all(re.fullmatch(r"\S+ (not installed|\S+)", line) for line in lines)
    assert len({line.split()[0] for line in lines}) == len(lines) > 15


def test_unknown_verb_suggests_the_nearest(refused: Any) -> None:
    assert 'did you mean "train"?' in refused("trian", "job.toml")
    assert (
        "choose one of demo, init, plan, train, report, predict, evaluate, summary, explain, curves, scorecard, "
        in refused("xyzzy")
    )


@pytest.mark.parametrize("words", [["--nonsense"], ["train"], ["train", "a", "--nonsense"], ["predict", "run"]])
def test_wrong_arguments_are_refused_in_one_line(refused: Any, words: list[str]) -> None:
    assert "--help" in refused(*words)


def test_unknown_arguments_point_to_the_help_of_the_verb_or_to_the_job_file(refused: Any) -> None:
    assert "see tacit report --help" in refused("report", "runs/a", "--paper")
    assert "see tacit predict --help" in refused("predict", "runs/a", "a.csv", "--fast", "1")
    for words in (["--holdout", "0.2"], ["--holdout=0.2"]):
        assert "write holdout = ... into [job] of the job file" in refused("train", "job.toml", *words)
    assert "write row_norm = ... into [privacy]" in refused("plan", "job.toml", "--row-norm", "2")


def test_run_error_is_one_line_and_exit_1(tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: Any) -> int:
        raise RunError("the run could not go on")

    monkeypatch.setattr(train, "run", fail)
    answer = tacit("train", "job.toml")
    assert (answer.code, answer.err) == (1, "tacit: error: the run could not go on\n")


@pytest.mark.parametrize("debug", ["", "1"])
def test_unexpected_error_hints_at_the_traceback(tacit: Any, monkeypatch: pytest.MonkeyPatch, debug: str) -> None:
    def fail(options: Any) -> int:
        raise ZeroDivisionError("first\nsecond")

    monkeypatch.setenv("TACIT_DEBUG", debug)
    monkeypatch.setattr(train, "run", fail)
    answer = tacit("train", "job.toml")
    assert answer.code == 1
    assert answer.err.endswith("tacit: error: ZeroDivisionError: first second (set TACIT_DEBUG=1 to see where)\n")
    assert ("Traceback" in answer.err) == bool(debug)


def test_interrupt_is_130(tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(options: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run", stop)
    answer = tacit("train", "job.toml")
    assert (answer.code, answer.err) == (130, "tacit: stopped\n")


def test_help_does_not_import_what_is_slow() -> None:
    code = "import sys; from tacit.cli.main import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    for module in ("numpy", "scipy", "sklearn", "numba", "pyarrow", "rich", "dp_accounting"):
        assert f"'{module}'" not in done.stderr


def test_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen([*COMMAND, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) in (0, 1)
    assert error == ""
