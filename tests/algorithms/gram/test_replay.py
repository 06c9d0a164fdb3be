"""The cost of neighbours through the real code, for every target: never above what is certified, and near it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.mechanisms.gram.settings import ClassTarget
from tests.algorithms.gram.cases import CLASSES, COLUMNS, ROWS, TARGETS, TWO_SIGNED, case, pair, script, still, turned
from tests.algorithms.gram.replay import Case, deviations

TINY = 1e-9
ZERO_OUT = ("half", "hinge", "sigmoid", "classes", *TWO_SIGNED)
FORM_C = ("bits", "symbols")


def generator(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def wicked(target: str, rng: np.random.Generator, **more) -> Case:
    """A random case whose transcript is noise of some size, or goes wherever it hurts."""
    wide = rng.choice([0.0, 2.0, 30.0, 1e6])
    if rng.random() < 0.4:
        return case(target, rng, wide=wide, size=rng.choice([0.0, 1.0, 30.0]), **more)
    chosen = script(rng, centre=rng.choice(["zero", "end"]), push=rng.choice([0.0, 0.1, 10.0, 1e4, 1e9]))
    return case(target, rng, wide=wide, script=chosen, **more)


def check(found: dict[str, float]) -> None:
    assert found, "nothing was released twice"
    for group, ratio in found.items():
        assert ratio <= 1 + TINY, f"{group} costs {ratio} of what is certified"


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_replaced_row_costs_at_most_what_is_certified(target, is_sparse):
    rng = generator("replace", target, is_sparse)
    for _ in range(60):
        rows, other = pair(rng)
        found = wicked(target, rng, sparse=is_sparse).compare(rows, other, rng)
        assert all(ratio <= 1 + TINY for ratio in found.values()), found


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("target", ZERO_OUT)
def test_a_zeroed_row_costs_at_most_what_is_certified(target, is_sparse):
    rng = generator("zero", target, is_sparse)
    for _ in range(40):
        rows, _ = pair(rng)
        other = rows.copy()
        other[0] = 0.0
        found = wicked(target, rng, sparse=is_sparse, neighbours="zero-out").compare(rows, other, rng)
        assert all(ratio <= 1 + TINY for ratio in found.values()), found


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("target", FORM_C)
def test_a_replaced_row_and_label_of_the_label_holder_costs_at_most_what_is_certified(target, is_sparse):
    rng = generator("holder", target, is_sparse)
    for _ in range(100):
        rows, other = pair(rng)
        labels = rng.choice([-1.0, 1.0], ROWS)
        changed = labels * np.append(rng.choice([-1.0, 1.0]), np.ones(ROWS - 1))
        check(wicked(target, rng, sparse=is_sparse).compare((rows, labels), (other, changed), rng) or {"none": 0.0})


@settings(max_examples=150, deadline=None)
@given(
    target=st.sampled_from(sorted(TARGETS)),
    seed=st.integers(0, 2**32 - 1),
    first=st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=COLUMNS, max_size=COLUMNS),
    second=st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=COLUMNS, max_size=COLUMNS),
    offset=st.floats(-50, 50),
)
def test_no_pair_of_rows_is_found_that_costs_more(target, seed, first, second, offset):
    rng = np.random.default_rng(seed)
    rows, _ = pair(rng)
    other = rows.copy()
    rows[0], other[0] = first, second
    one = wicked(target, rng, sparse=bool(seed % 2))
    if "offset" in one.inbox:
        one.inbox["offset"][0] = offset
    found = one.compare(rows, other, rng)
    assert all(ratio <= 1 + TINY for ratio in found.values()), found


def class_pushes() -> list[np.ndarray]:
    """Gradients after which two rows are each sure of a class, the same one or another, and both are wrong."""
    uniform, found = ClassTarget(np.zeros(4 * ROWS), np.ones(ROWS), 4), []
    for first, second in ((0, 2), (0, 0), (2, 3)):
        push = np.zeros((COLUMNS + 1, 4))
        push[0, first], push[1, second] = -1e9, -1e12
        found.append((push @ uniform.directions).T.ravel())
    return found


def directed(target: str, neighbours: str = "replace-one", **more) -> dict[str, float]:
    """The largest ratio of each group over pairs for which the bounds were made."""
    rng, best = generator("directed", target), {}
    loss_side = case(target, rng).plan.private.settings.fits["guest"]
    width = COLUMNS + (2 if loss_side.score_column else 1)
    width *= CLASSES.outputs - 1 if target == "classes" else 1
    pushes = [None]
    for size in (1e9, -1e9):
        for place in (0, COLUMNS):
            push = np.zeros(width)
            push[place] = size
            pushes.append(push)
    turn = np.zeros(width)
    turn[1] = 1e15
    for push in [*pushes, turn, -turn, *(class_pushes() if target == "classes" else ())]:
        for cosine, second in (
            (-1.0, 1.0),
            (-0.5, 1.0),
            (-0.25, 1.0),
            (0.0, 1.0),
            (-1.0, 0.0),
            (0.917, 1.0),
            (1 - 1e-6, 1.0),
        ):
            for offset, label in ((0.0, 1.0), (-3.0, 1.0), (3.0, 1.0)):
                one = case(target, rng, neighbours=neighbours, script=still(push=push), **more)
                if "offset" in one.inbox:
                    one.inbox["offset"][:], one.inbox["labels"][:] = offset, label
                if target == "symbols":
                    one.inbox["symbols"][:] = 1.0
                if target == "counts":
                    one.inbox["labels"][0] = 1e6  # so far from the others that both ends of the clip are reached
                rows, other = turned(cosine, 1.0, second)
                for group, ratio in one.compare(rows, other, rng).items():
                    best[group] = max(best.get(group, 0.0), ratio)
    return best


@pytest.mark.parametrize("target", TARGETS)
def test_the_bounds_are_tight(target):
    best = directed(target)
    print(f"{target}: " + ", ".join(f"{group} {ratio:.6f}" for group, ratio in best.items()))
    check(best)
    assert best.get("fit", best.get("all", 0.0)) > 0.9


def test_the_bounds_of_the_label_holder_are_tight():
    rng, best = generator("tight holder"), 0.0
    for cosine in (1.0, 0.99, 0.917, 0.5, 0.0):
        rows, other = turned(cosine)
        labels = np.ones(ROWS)
        changed = labels.copy()
        changed[0] = -1.0
        one = case("symbols", rng, script=still())
        best = max(best, *one.compare((rows, labels), (other, changed), rng).values())
    print(f"label holder: {best:.6f}")
    assert 0.9 < best <= 1 + TINY


def test_deviations_are_those_of_the_plan():
    one = case("half", generator("plan"))
    assert set(deviations(one.plan, "guest")) == {"mean", "trace", "gram", "gradient", "check"}
