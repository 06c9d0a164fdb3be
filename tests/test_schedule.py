"""Files that the schedule of the tests names are there, and tests that share something stay together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import schedule

ROOT = Path(__file__).parents[1]


def test_every_file_that_is_named_is_there() -> None:
    named = {*schedule.TOGETHER, *schedule.COMPILE, *schedule.FOLDERS, *schedule.read_seconds()}
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_what_shares_a_federation_a_command_or_a_cluster_is_one_group() -> None:
    assert {schedule.group_of(f"{file}::test_a[x::y]") for file in schedule.LIVE} == {"live"}
    assert {schedule.group_of(f"{file}::test_a") for file in schedule.REPRODUCED} == {"reproduced"}
    assert schedule.group_of("tests/cluster/test_rows.py::test_a") == "tests/cluster/"
    assert schedule.group_of("tests/plan/test_requests.py::test_a[b]") == "tests/plan/test_requests.py"


def test_longest_groups_start_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "read_seconds", lambda: {"tests/long.py": 3.0, "tests/longest.py": 9.0})
    names = ["tests/short.py::a", "tests/long.py::a", "tests/longest.py::a", "tests/long.py::b"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    found = [[item.nodeid for item in group] for group in schedule.groups_of(items)]  # type: ignore[arg-type]
    assert found == [["tests/longest.py::a"], ["tests/long.py::a", "tests/long.py::b"], ["tests/short.py::a"]]


def test_what_compiles_runs_first_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ["tests/long.py::a", *(f"{file}::a" for file in schedule.COMPILE)]
    groups: list[schedule.Group] = [[SimpleNamespace(nodeid=name)] for name in names]  # type: ignore[list-item]
    monkeypatch.setattr(schedule, "COMPILED", tmp_path)
    assert schedule.compile_first(groups) == (groups[1:], groups[:1])
    (tmp_path / "logistic.nbc").touch()
    assert schedule.compile_first(groups) == ([], groups)
