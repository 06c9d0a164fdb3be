"""A cluster of two worker processes on this machine, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.local import local_cluster


@pytest.fixture(scope="session")
def workers() -> Iterator[Any]:
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def address(workers: Any) -> str:
    return str(workers.scheduler_address)
