"""A lying label holder: whatever it sends, a party's guarantee holds, or the party releases nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.blocks.dense import Block
from tacit.errors import RunError
from tacit.mechanisms.gram.sides import GramParty
from tacit.privacy.releases import Releaser
from tacit.types import Message
from tests.algorithms.gram.cases import COLUMNS, ROWS, TARGETS, case

BAD_NUMBERS = {
    "nan": np.append(np.nan, np.zeros(ROWS - 1)),
    "infinite": np.append(np.inf, np.zeros(ROWS - 1)),
    "huge": np.append(1e200, np.zeros(ROWS - 1)),
    "short": np.zeros(1),
    "a matrix": np.zeros((ROWS, 1)),
    "whole numbers": np.zeros(ROWS, dtype=int),
    "complex": np.zeros(ROWS, dtype=complex),
    "words": np.array(["1"] * ROWS),
}


class Silent:
    """A release that must not be reached."""

    owner = "guest"

    def add(self, name, value):
        raise AssertionError(f"{name} left")

    respond = uniform = add


def party(one, release=None) -> GramParty:
    rows = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    return GramParty(one.plan.problem, Block(rows), one.plan.private.settings, release or Silent())


def names(target: str) -> tuple[str, ...]:
    return ("symbols", "middles", "cuts") if target in ("bits", "symbols") else ("offset", "labels")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_arrays_that_are_no_numbers_of_the_right_size_are_refused(target, bad):
    for name in names(target):
        one = case(target, np.random.default_rng(0))
        with pytest.raises(RunError, match=f"party 'guest'.* {name}.*nothing is released"):
            party(one).step(1, {**one.inbox, name: BAD_NUMBERS[bad]})


@pytest.mark.parametrize("target", TARGETS)
def test_a_missing_array_is_refused(target):
    one = case(target, np.random.default_rng(0))
    for name in names(target):
        rest = {key: value for key, value in one.inbox.items() if key != name}
        with pytest.raises(RunError, match=f"{name} is missing"):
            party(one).step(1, rest)


@pytest.mark.parametrize("target", ["half", "logistic", "hinge", "sigmoid", "sigmoid, labels", "refit"])
@pytest.mark.parametrize("label", [0.0, 2.0, -1.0 - 1e-9, 1e6])
def test_labels_that_are_not_of_two_kinds_are_refused(target, label):
    one = case(target, np.random.default_rng(0))
    one.inbox["labels"][0] = label
    with pytest.raises(RunError, match="labels other than -1, 1"):
        party(one).step(1, one.inbox)


@pytest.mark.parametrize(
    ("target", "symbol"), [("bits", 0.0), ("bits", 3.0), ("symbols", 8.0), ("symbols", -1.0), ("symbols", 0.5)]
)
def test_symbols_that_were_not_planned_are_refused(target, symbol):
    one = case(target, np.random.default_rng(0))
    one.inbox["symbols"][0] = symbol
    with pytest.raises(RunError, match="symbols other than"):
        party(one).step(1, one.inbox)


@pytest.mark.parametrize("side", [np.array([np.nan, 0.0]), np.array([1e300, 0.0]), np.zeros(3), np.zeros((1, 2))])
def test_side_sums_out_of_range_are_refused(side):
    one = case("half", np.random.default_rng(0))
    releaser = Releaser(one.plan.private.releases["guest"], "guest", seed=1)
    guest = party(one, releaser)
    guest.step(1, one.inbox)
    used = releaser.state()["releases.used"].copy()
    with pytest.raises(RunError, match=r"side.*nothing is released"):
        guest.step(2, {"side": side})
    assert np.array_equal(used, releaser.state()["releases.used"])


def test_scores_that_leave_nothing_to_learn_end_well():
    """No weight is left where every offset is far out: the outcome is dull, and finite."""
    for target in ("half", "logistic", "hinge", "sigmoid", "symbols"):
        one = case(target, np.random.default_rng(0))
        for name in ("offset", "middles"):
            if name in one.inbox:
                one.inbox[name][:] = 1e99
        answer = party(one, Releaser(one.plan.private.releases["guest"], "guest", seed=1)).step(1, one.inbox)
        assert all(np.all(np.isfinite(array)) for array in answer.values())


def test_the_same_message_twice_gets_independent_noise():
    """Else whoever repeats it sees one noise on two values, and takes it off."""
    plan = case("half", np.random.default_rng(0)).plan
    releaser = Releaser(plan.private.releases["guest"], "guest", seed=1)
    message = Message("coordinator", 1, {"offset": np.zeros(ROWS)})
    sds = {one.name: one.sd for one in plan.private.releases["guest"]}
    releaser.begin(message)
    first = releaser.add("trace", [0.0])[0] / sds["trace"]
    kept = releaser.state()
    releaser.begin(message)
    second = releaser.add("check", [0.0])[0] / sds["check"]
    assert abs(first - second) > 1e-3
    releaser.restore(kept)
    releaser.begin(message)
    assert releaser.add("check", [0.0])[0] / sds["check"] == second, "the same noise after a crash"


def test_nothing_is_released_more_often_than_planned():
    one = case("half", np.random.default_rng(0))
    releaser = Releaser(one.plan.private.releases["guest"], "guest", seed=1)
    guest = party(one, releaser)
    guest.step(1, one.inbox)
    guest.step(2, {"side": np.zeros(2)})
    with pytest.raises(RunError, match="not once more"):
        guest.step(3, {"side": np.ones(2)})
    guest.fit = None
    with pytest.raises(RunError, match="not once more"):
        guest.step(4, one.inbox)
