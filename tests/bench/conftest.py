"""Let the bench be imported from the root of the repository, and never from the network."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise OSError("no downloads in tests")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
