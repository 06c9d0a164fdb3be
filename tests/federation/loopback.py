"""Sites in one process, for tests, without waiting for the disk."""

from __future__ import annotations

import os

import pytest

from tacit.federation.loopback import Carried, Loopback

__all__ = ["Carried", "Loopback", "no_waiting_for_the_disk"]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die in these tests, machines do not: what was written need not be on the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
