"""Kits and a running federation, made once."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.federation.kit import Kit
from tacit.federation.project import Federation, init
from tests.federation.live import Live, live_federation

collect_ignore_glob = [] if importlib.util.find_spec("nvflare") else ["test_*.py"]  # they need tacit[flare]
THREE = Federation("credit", "bank", "localhost", ("bank", "shop", "phone"), 8002)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What init makes; tests only read it."""
    place = tmp_path_factory.mktemp("made") / "credit"
    init(THREE, place)
    return place


@pytest.fixture
def kit(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Kit]:
    """A copy of one of the kits, to do anything with, and a home of its own."""
    monkeypatch.setenv("TACIT_HOME", str(tmp_path / "home"))

    def copy(name: str) -> Kit:
        shutil.copytree(made / name, tmp_path / name)
        found = Kit.open(tmp_path / name)
        found.make_home()
        return found

    return copy


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A federation of bank and shop that runs."""
    with live_federation(tmp_path_factory.mktemp("live")) as running:
        yield running
