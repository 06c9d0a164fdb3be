"""Jobs of trees with something claimed, in process and between sites: nothing leaves but planned releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, Scope, Way, neighbour_test
from tacit.audit.harness.world import World, make_world
from tacit.cli.main import main
from tacit.job.file import parse_job
from tacit.mechanisms.gram.sides import GramParty
from tests.neighbour.worlds import CURVED, CURVED_COLUMNS, ROWS

pytest.importorskip("lightgbm", reason="needs tacit[trees]")

NAMES = ("bank", "shop", "phone")
CASES = {
    "rows": "[privacy]\nepsilon = 2",
    "rows and labels": "[privacy]\nepsilon = 2\nlabel_epsilon = 2",
    "labels": "[privacy]\nepsilon = 'none'\nlabel_epsilon = 2",
}
WAYS = [Way(where, restarts) for where in (IN_PROCESS, BETWEEN) for restarts in (False, True)]


def tree_world(case: str) -> World:
    """The labels and trees are with the first party; the columns of all have numbers, text, dates and blanks."""
    rounds = "rounds = 2" if case == "labels" else ""
    lines = ["[job]", 'name = "neighbours"\nengine = "flare"', rounds, '[model]\nkind = "trees"', CASES[case]]
    for name in NAMES:
        own = ['label = "y"'] if name == NAMES[0] else [CURVED] if case != "labels" else []
        lines += ["[[party]]", f'name = "{name}"', *own]
    job = parse_job("\n".join(lines), "a job")
    columns = dict.fromkeys(NAMES, CURVED_COLUMNS)
    return make_world(job, columns, dict.fromkeys(NAMES, ".csv"), dict.fromkeys(NAMES, ROWS))


@pytest.mark.parametrize("way", WAYS, ids=map(str, WAYS))
@pytest.mark.parametrize("case", CASES)
def test_neighbours_cannot_be_told_apart(case: str, way: Way) -> None:
    turn = 2 * list(CASES).index(case) + WAYS.index(way)
    found = neighbour_test(tree_world(case), main, Scope((way,), most=1 if way.restarts else 3, parties=1, turn=turn))
    assert found.comparisons > 100
    assert found.pairs > 0
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])


def small(case: str) -> Any:
    """One neighbour of the rows of a protected party, between sites."""
    return neighbour_test(tree_world(case), main, Scope((Way(BETWEEN, restarts=False),), most=1, parties=1))


def test_a_row_in_an_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = GramParty.step

    def telling(self: GramParty, round_: int, inbox: Any) -> Any:
        answer = plain(self, round_, inbox)
        return {
            name: array + 1e-6 * float(self.block.predict(np.ones(self.block.d))[0]) for name, array in answer.items()
        }

    monkeypatch.setattr(GramParty, "step", telling)
    found = small("rows")
    assert not found.passed
    assert {one.difference.channel for one in found.differences} >= {"reply shop -> bank"}
