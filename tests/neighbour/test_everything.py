"""Every mechanism of both splits, on every kind of file, in process and between sites: nothing leaves but releases.

What is compared depends on the mechanism (what is sent), on the kind of file (what is read), on the place (which code
sends it), and on whether processes die. Every two of mechanism, kind and place are played together, not all three: a
leak comes from one of them, or from how two meet. In process and between sites take turns along kinds and mechanisms,
as do the two kinds of file with restarts, so that half of the runs has every pair.
"""

from __future__ import annotations

import pytest

from tacit.audit.harness.check import BETWEEN, IN_PROCESS, NeighbourFindings, Scope, Way, neighbour_test
from tacit.audit.harness.world import World
from tacit.cli.main import main
from tests.neighbour.worlds import FEATURES, SAMPLES, SUFFIX, feature_world, sample_world

CASES = [(make, case) for make, cases in ((feature_world, FEATURES), (sample_world, SAMPLES)) for case in cases]
PLACES = (IN_PROCESS, BETWEEN)
STOPPED_KINDS = ("encoded", "curves")
CALM = [(*case, kind, PLACES[(i + j) % 2]) for i, case in enumerate(CASES) for j, kind in enumerate(SUFFIX)]
STOPPED = [(*case, kind, PLACES[(i + j) % 2]) for i, case in enumerate(CASES) for j, kind in enumerate(STOPPED_KINDS)]
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
    make, what, kind, where = case
    turn = CALM.index(case)
    check(make(what, kind), Scope((Way(where, restarts=False),), most=2, parties=1, turn=turn), ("calm", case))


@pytest.mark.parametrize("case", STOPPED, ids=map(name, STOPPED))
def test_nor_when_everybody_dies_after_every_step(case: tuple) -> None:
    make, what, kind, where = case
    turn = STOPPED.index(case)
    check(make(what, kind), Scope((Way(where, restarts=True),), most=1, parties=1, turn=turn), ("stopped", case))


def test_every_two_of_mechanism_kind_and_place_are_played_together() -> None:
    for played, kinds in ((CALM, SUFFIX), (STOPPED, STOPPED_KINDS)):
        for one, other, wanted in ((1, 2, len(CASES) * len(kinds)), (1, 3, 2 * len(CASES)), (2, 3, 2 * len(kinds))):
            assert len({(case[0], case[one], case[other]) for case in played}) >= wanted
    assert len({case[1] for case in CALM}) == len(CASES)


@pytest.mark.parametrize(("make", "case"), [(feature_world, "gram"), (sample_world, "gaussian")])
def test_nor_by_the_page_of_a_report(make: object, case: str) -> None:
    found = neighbour_test(
        make(case, "dense"), main, Scope((Way(IN_PROCESS, restarts=False),), most=1, parties=1, report=True)
    )
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
