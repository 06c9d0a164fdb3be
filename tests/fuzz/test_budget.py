"""Enough inputs are tried, every one from its own seed, and what must fail does."""

from __future__ import annotations

import time

import pytest

from tacit.errors import InputError
from tests.fuzz import budget
from tests.fuzz.mutate import Mutator
from tests.fuzz.test_tables import BANK


def test_at_least_ten_thousand_inputs_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUZZ", raising=False)
    parts = [budget.seeds(kind, shard) for kind in budget.INPUTS for shard in range(budget.SHARDS)]
    assert sum(map(len, parts)) >= budget.LEAST
    monkeypatch.setenv("FUZZ", "100000")
    more = [budget.seeds(kind, shard) for kind in budget.INPUTS for shard in range(budget.SHARDS)]
    assert 99_000 <= sum(map(len, more)) <= 100_000


def test_no_seed_is_used_twice_and_inputs_differ() -> None:
    used = [seed for shard in range(budget.SHARDS) for seed in budget.seeds("tables", shard)]
    assert len(set(used)) == len(used)
    assert Mutator(7).table(BANK) == Mutator(7).table(BANK)
    assert len({Mutator(seed).table(BANK) for seed in range(1000)}) > 800


def test_a_refusal_is_one_line_and_nothing_else_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise InputError(text)

    assert budget.refusal(lambda: 3) == (3, "")
    assert budget.refusal(lambda: refuse("x = 3: fix it")) == (None, "x = 3: fix it")
    for text in ("", "two\nlines", "x" * 5000):
        with pytest.raises(AssertionError):
            budget.refusal(lambda text=text: refuse(text))
    with pytest.raises(KeyError):
        budget.refusal(lambda: {}["x"])
    monkeypatch.setattr(budget, "SECONDS", 0.05)
    with pytest.raises(AssertionError, match="it took more than"):
        budget.refusal(lambda: time.sleep(2))
