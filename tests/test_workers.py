"""Tests that run in several processes: what came of each is reported, also where a process dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOOKS = "from tests.conftest import pytest_addoption, pytest_runtestloop\n"
SHARED = """
import pytest

@pytest.fixture(scope="session")
def shared():
    yield "made once"
    raise ValueError("cannot be put away")
"""
FIRST = """
import os, sys

def test_passes(tmp_path):
    print("nobody sees this")
    assert "worker-" in str(tmp_path)

def test_fails():
    print("said before")
    assert 1 == 2

def test_dies():
    os._exit(3)

def test_after_a_death():
    pass
"""
SECOND = """
import warnings, pytest

def test_shares(shared):
    assert shared == "made once"

def test_is_skipped():
    pytest.skip("there is a reason")

def test_warns():
    warnings.warn("look here")
"""


def test_outcomes_of_all_processes_are_reported(tmp_path: Path) -> None:
    files = {"conftest": HOOKS + SHARED, "test_first": FIRST, "test_second": SECOND}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--workers", "2", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    for said in (
        "assert 1 == 2",
        "said before",
        "died in or after",
        "there is a reason",
        "UserWarning: look here",
        "ValueError: cannot be put away",
        "1 failed, 4 passed, 1 skipped, 1 warning, 2 errors",
    ):
        assert said in done.stdout, done.stdout
    assert "nobody sees this" not in done.stdout
