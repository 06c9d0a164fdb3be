"""A trained run, and its services."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.company import Company, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a bank and three parties."""
    folder = tmp_path_factory.mktemp("service")
    train(folder)
    return folder


@pytest.fixture
def company(trained: Path, tmp_path: Path) -> Iterator[Company]:
    """Its services, with nothing remembered yet."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    found = Company(tmp_path)
    yield found
    found.close()
