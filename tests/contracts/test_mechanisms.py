"""Every mechanism of the registry keeps to the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.mechanisms import MECHANISMS, mechanism_of
from tacit.privacy.request import Privacy
from tests.contracts.mechanism_contract import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_contract_is_kept(name: str, check: Callable[[str, Path], None], tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize("name", [name for name, one in MECHANISMS.items() if one.can_be_named])
def test_a_request_knows_who_may_leave_the_label_holder_unprotected(name: str) -> None:
    """Jobs ask the request, which is known before mechanisms are."""
    asked = Privacy(mechanism=name, protect="others")
    assert asked.spares_holder == MECHANISMS[name].can_leave_out_holder
    assert not replace(asked, protect="everyone").spares_holder


def test_the_default_mechanism_is_meant_too() -> None:
    asked = Privacy(protect="others")
    assert asked.spares_holder == mechanism_of(asked, "features").can_leave_out_holder
