"""A question that is asked again is done once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tacit.federation.once import KEPT, Once
from tacit.federation.protocol import Reason, Refused, encode


def test_the_same_number_is_done_once_and_answered_alike() -> None:
    once, done = Once(), []
    for number in (1, 1, 2, 1, 2):
        once.do("bank", number, lambda number=number: done.append(number) or {"at": number})
    assert done == [1, 2]
    assert once.do("bank", 2, dict) == {"at": 2}
    assert once.do("shop", 2, lambda: {"other": True}) == {"other": True}  # numbers are each caller's own


def test_a_question_that_comes_while_it_is_being_done_waits_for_the_answer() -> None:
    once, begun, go = Once(), threading.Event(), threading.Event()
    done = []

    def work() -> dict[str, int]:
        begun.set()
        assert go.wait(10)
        done.append(1)
        return {"at": 7}

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.do, "bank", 1, work)
        assert begun.wait(10)
        second = pool.submit(once.do, "bank", 1, work)
        go.set()
        assert first.result(10) == second.result(10) == {"at": 7}
    assert done == [1]


def test_a_question_that_is_long_over_is_not_done() -> None:
    once = Once()
    for number in range(1, KEPT + 2):
        once.do("bank", number, bytes)
    assert once.do("bank", 1, lambda: pytest.fail("it was done")) == encode(Refused(reason=Reason.OLD))


def test_what_went_wrong_goes_wrong_for_whoever_waits() -> None:
    once = Once()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            once.do("bank", 1, lambda: {"at": 1 // 0})
