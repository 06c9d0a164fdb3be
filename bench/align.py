"""Private alignment of two parties beside the library's own intersection of two sets, in the same run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.clock import timed
from bench.progress import say
from bench.row import Row, seconds
from tacit.alignment import Aligner, align_here

TITLE = "matching ids in private: two parties of 100,000 ids each, half of them common"
IDS, QUICK_IDS = 100_000, 1_000
MOST_SECONDS, MOST_RATIO = 90.0, 1.0
NAMES = ("first", "second")


@dataclass
class Found:
    """What each side of the comparison found: pairs of rows, and rows of the first party."""

    ours: set[tuple[int, int]]
    library: set[int]


def run(quick: bool) -> list[Row]:
    """Time both, and compare what they find with the plain intersection."""
    count = QUICK_IDS if quick else IDS
    sets = make_sets(count)
    found = Found(set(), set())
    say(f"aligning 2 x {count} ids")
    ours = timed(lambda: found.ours.update(align_pair(*sets)))
    say("the library's own intersection")
    library = timed(lambda: found.library.update(intersect(*sets)))
    right = plain_pairs(*sets)
    wrong = len(found.ours ^ right) + len(found.library ^ {first for first, _ in right})
    return rows(ours, library, wrong, judged=not quick)


def rows(ours: float, library: float, wrong: int, *, judged: bool) -> list[Row]:
    """The table."""
    limits = ((MOST_SECONDS, "at most 90 s"), (MOST_RATIO, "at most 1")) if judged else ((None, ""), (None, ""))
    return [
        Row("aligning both parties, all steps", seconds(ours), ours, *limits[0]),
        Row("the library's intersection, one side learns it", seconds(library), library),
        Row("ratio", f"{ours / library:.2f}", ours / library, *limits[1]),
        Row("rows that the plain intersection says otherwise", str(wrong), float(wrong), 0.0, "none"),
    ]


def make_sets(count: int) -> tuple[list[str], list[str]]:
    """Ids of two parties, in random orders, with half of them in common."""
    rng = np.random.default_rng(0)
    first = [f"person-{number:08d}" for number in rng.permutation(count)]
    second = [f"person-{number:08d}" for number in rng.permutation(count) + count // 2]
    return first, second


def align_pair(first: list[str], second: list[str]) -> set[tuple[int, int]]:
    """Rows that belong together, by the protocol."""
    aligners = [Aligner(name, ids, NAMES) for name, ids in zip(NAMES, (first, second), strict=True)]
    align_here(aligners)
    left, right = (aligner.alignment for aligner in aligners)
    assert left is not None
    assert right is not None
    return set(zip(left.rows.tolist(), right.rows.tolist(), strict=True))


def plain_pairs(first: list[str], second: list[str]) -> set[tuple[int, int]]:
    """Rows that belong together, by looking at the ids."""
    places = {identifier: place for place, identifier in enumerate(second)}
    return {(place, places[identifier]) for place, identifier in enumerate(first) if identifier in places}


def intersect(first: list[str], second: list[str]) -> list[int]:
    """The library as its documentation calls it: the client, and it alone, learns which of its ids are common."""
    import private_set_intersection.python as library

    client, server = (side.CreateWithNewKey(True) for side in (library.client, library.server))
    setup = server.CreateSetupMessage(1e-9, len(first), second, library.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(first))
    return list(client.GetIntersection(setup, response))
