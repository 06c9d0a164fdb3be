"""Every mechanism of both splits, on every kind of file, in process and between sites: nothing leaves but releases."""

from __future__ import annotations

import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, NeighbourFindings, Scope, Way, neighbour_test
from tacit.audit.harness.world import World
from tacit.cli.main import main
from tests.neighbour.worlds import FEATURES, SAMPLES, SUFFIX, feature_world, sample_world

CASES = [(make, case) for make, cases in ((feature_world, FEATURES), (sample_world, SAMPLES)) for case in cases]
CALM = [(*case, kind) for case in CASES for kind in SUFFIX]
STOPPED = [(*case, kind, where) for case in CASES for kind in ("encoded", "curves") for where in (IN_PROCESS, BETWEEN)]
CALM_WAYS = (Way(IN_PROCESS, restarts=False), Way(BETWEEN, restarts=False))
TOTAL, RAN = NeighbourFindings(), set()
KINDS = {
    "another record",
    "all zero",
    "opposite",
    "huge",
    "beyond every sum",
    "tiny",
    "the last column alone",
    "blank cells",
    "a category of its own",
    "an unknown category",
    "a date out of range",
    "the other label",
}


def name(values: tuple) -> str:
    make, *rest = values
    return ", ".join([make.__name__.removesuffix("_world"), *rest])


def check(world: World, scope: Scope, what: object) -> None:
    found = neighbour_test(world, main, scope)
    TOTAL.add(found)
    RAN.add(what)
    assert found.comparisons > 100
    assert found.pairs > 0
    assert found.passed, "\n".join([found.line(), *map(str, found.differences[:10])])


@pytest.mark.parametrize("case", CALM, ids=map(name, CALM))
def test_neighbours_cannot_be_told_apart(case: tuple) -> None:
    make, what, kind = case
    turn = CALM.index(case)
    check(make(what, kind), Scope(CALM_WAYS, most=2, parties=1, turn=turn), case)


@pytest.mark.parametrize("case", STOPPED, ids=map(name, STOPPED))
def test_nor_when_everybody_dies_after_every_step(case: tuple) -> None:
    make, what, kind, where = case
    turn = STOPPED.index(case)
    check(make(what, kind), Scope((Way(where, restarts=True),), most=1, parties=1, turn=turn), case)


@pytest.mark.parametrize(("make", "case"), [(feature_world, "gram"), (sample_world, "gaussian")])
def test_nor_by_the_page_of_a_report(make: object, case: str) -> None:
    found = neighbour_test(make(case, "dense"), main, Scope(CALM_WAYS[:1], most=1, parties=1, report=True))
    assert found.passed, "\n".join(map(str, found.differences[:10]))


def test_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    if len(RAN) < len(CALM) + len(STOPPED):
        pytest.skip("only a part of the neighbour test was run")
    with capsys.disabled():
        print(f"\nneighbour test: {TOTAL.pairs} pairs of runs, {TOTAL.line()}")
    assert TOTAL.kinds == KINDS
    assert TOTAL.comparisons > 100_000
    assert not TOTAL.differences
    assert 0.5 < TOTAL.ratio <= 1 + 1e-9
