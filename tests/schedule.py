"""How the tests are spread over processes: what stays together, and what starts first.

Tests of one file run in one process, so that what they share (a site, a federation, a cluster) is made once. Files that
share more stay together, too. Files that take long start first, so that no long one is left for the end, when the other
processes have nothing to do. `seconds.json` holds what each file took; a run with --write-seconds makes it anew.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import tacit

Group = list[pytest.Item]
SECONDS_FILE = Path(__file__).parent / "seconds.json"
SLOW = 2.0  # seconds; files that take longer are marked slow, and are left out by `make quick`
ALWAYS = ("tests/golden/", "tests/architecture/")  # what guards the structure is never marked slow
LIVE = (  # they start processes and wait for them most of the time: one after the other, beside those that compute
    "tests/federation/test_live.py",
    "tests/federation/test_trees_live.py",
    "tests/federation/test_faults_live.py",
    "tests/hostile/test_turned_server.py",
)
LIVE_TOO = (  # as many again, or they would end last
    "tests/federation/test_joint_live.py",
    "tests/federation/test_how_to.py",
    "tests/federation/test_traffic.py",
)
REPRODUCED = (  # they look at what one run of `tacit reproduce all --quick` left
    "papers/tests/test_all_quick.py",
    "papers/tests/test_dynamic.py",
    "papers/tests/test_pdml.py",
    "papers/tests/test_sharing_runs.py",
)
TOGETHER = {
    **dict.fromkeys(LIVE, "live"),
    **dict.fromkeys(LIVE_TOO, "live too"),
    **dict.fromkeys(REPRODUCED, "reproduced"),
}
COMPILE = ("tests/golden/test_golden.py", "tests/contracts/test_losses.py")  # they call what numba compiles
COMPILED = Path(tacit.__file__).parent / "problem" / "losses" / "__pycache__"
FOLDERS = ("tests/cluster/", "tests/service/")  # a cluster, a trained run


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.split("::", 1)[0]


def group_of(nodeid: str) -> str:
    """The name of all tests that run in one process with this one."""
    file = file_of(nodeid)
    return TOGETHER.get(file) or next((folder for folder in FOLDERS if file.startswith(folder)), file)


def read_seconds() -> dict[str, float]:
    """What each file took, in seconds; files that are not named are short."""
    seconds: dict[str, float] = json.loads(SECONDS_FILE.read_text(encoding="utf-8"))
    return seconds


def group_seconds() -> Counter[str]:
    """What each group took, in seconds."""
    total: Counter[str] = Counter()
    for file, seconds in read_seconds().items():
        total[group_of(file)] += seconds
    return total


def groups_of(items: list[pytest.Item]) -> list[Group]:
    """The tests in groups, those that take longest first."""
    total = group_seconds()
    groups: dict[str, Group] = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    return [groups[name] for name in sorted(groups, key=lambda name: -total[name])]


def compile_first(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """Groups to run before all others, and the others.

    Where numba has compiled nothing yet, processes that start at once would each compile the same functions.
    """
    new = not list(COMPILED.glob("*.nbc"))
    first = [group for group in groups if new and file_of(group[0].nodeid) in COMPILE]
    return first, [group for group in groups if group not in first]


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark the tests of files that take long, alone or with the files that share something with them."""
    seconds, total = read_seconds(), group_seconds()
    for item in items:
        file = file_of(item.nodeid)
        took = total[TOGETHER[file]] if file in TOGETHER else seconds.get(file, 0.0)
        if took > SLOW and not item.nodeid.startswith(ALWAYS):
            item.add_marker(pytest.mark.slow)


class Stopwatch:
    """Adds up what the tests of each file took, and writes it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        kept = {file: round(seconds, 1) for file, seconds in sorted(self.seconds.items()) if seconds >= 1}
        SECONDS_FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
