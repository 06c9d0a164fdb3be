"""A mechanism of one module and one line of the registry does all that others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.mechanisms import MECHANISMS
from tests.contracts.mechanism_contract import CHECKS, plan_of
from tests.contracts.toy_mechanism import ToyMechanism


@pytest.fixture(autouse=True)
def _one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "toy", ToyMechanism())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check: Callable[[str, Path], None], tmp_path: Path) -> None:
    check("toy", tmp_path)


def test_it_is_named_where_others_are() -> None:
    plan = plan_of("toy")
    assert plan.served
    assert plan.asked_parties == plan.party_names
    assert "toy" in plan.describe()["mechanism"]
