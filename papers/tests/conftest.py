"""The command line called in this process, the quick version of all papers, and the public data sets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reproduction import Reproduced, reproduce_all
from tacit.cli.main import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session", autouse=True)
def home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what organisations own away from the home of whoever runs the tests."""
    os.environ["TACIT_HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: Any) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def refused(tacit: Any) -> Any:
    """Call the command line, which must refuse with exit code 2 and one line; return the line."""

    def call(*words: Any) -> str:
        answer = tacit(*words)
        assert answer.code == 2, answer
        assert answer.err.startswith("tacit: error: ")
        assert answer.err.count("\n") == 1
        assert answer.err.endswith("\n")
        return answer.err

    return call


@pytest.fixture
def real_data() -> Path:
    """The folder of public data sets; tests that need it are skipped where it is not given."""
    folder = os.environ.get("TACIT_DATA")
    if not folder:
        pytest.skip("needs the public data sets: set TACIT_DATA to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    """The command, once for all tests that look at its pages or outcomes; a warning ends it."""
    return reproduce_all(tmp_path_factory.mktemp("reproduction"))
