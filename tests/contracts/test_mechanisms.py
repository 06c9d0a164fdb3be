"""Every mechanism of the registry keeps to the contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.mechanisms import MECHANISMS
from tests.contracts.mechanism_contract import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_contract_is_kept(name: str, check: Callable[[str, Path], None], tmp_path: Path) -> None:
    check(name, tmp_path)
