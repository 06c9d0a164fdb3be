"""Private models of several classes and of counts: neighbours cannot be told apart, in process and between sites."""

from __future__ import annotations

import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, Scope, Way, neighbour_test
from tacit.audit.harness.world import World
from tacit.cli.main import main
from tests.neighbour.worlds import FAMILIES, FEATURE_FAMILIES, feature_world, sample_world


def world(case: str) -> World:
    return sample_world(case, "dense") if case in FAMILIES else feature_world(case, "dense")


@pytest.mark.parametrize("where", [IN_PROCESS, BETWEEN])
@pytest.mark.parametrize("case", [*FAMILIES, *FEATURE_FAMILIES])
def test_neighbours_cannot_be_told_apart(case: str, where: str) -> None:
    scope = Scope((Way(where, restarts=False),), most=3, parties=1, turn=2)
    found = neighbour_test(world(case), main, scope)
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])
    assert found.comparisons > 100
    if case in FAMILIES:  # there labels belong to the records
        assert {"the other label", "no count"} & found.kinds
    assert 0.2 < found.ratio <= 1 + 1e-9


@pytest.mark.parametrize("case", ["gaussian, four classes", "gram, four classes"])
def test_nor_when_everybody_dies_after_every_step(case: str) -> None:
    found = neighbour_test(world(case), main, Scope((Way(BETWEEN, restarts=True),), most=1, parties=1))
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])
