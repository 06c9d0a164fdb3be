"""Private models of several classes and of counts: neighbours cannot be told apart, in process and between sites."""

from __future__ import annotations

import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, Scope, Way, neighbour_test
from tacit.cli.main import main
from tests.neighbour.worlds import FAMILIES, sample_world


@pytest.mark.parametrize("where", [IN_PROCESS, BETWEEN])
@pytest.mark.parametrize("case", FAMILIES)
def test_neighbours_cannot_be_told_apart(case: str, where: str) -> None:
    scope = Scope((Way(where, restarts=False),), most=3, parties=1, turn=2)
    found = neighbour_test(sample_world(case, "dense"), main, scope)
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])
    assert found.comparisons > 100
    assert {"the other label", "no count"} & found.kinds
    assert 0.3 < found.ratio <= 1 + 1e-9


def test_nor_when_everybody_dies_after_every_step() -> None:
    scope = Scope((Way(BETWEEN, restarts=True),), most=1, parties=1)
    found = neighbour_test(sample_world("gaussian, four classes", "dense"), main, scope)
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])
