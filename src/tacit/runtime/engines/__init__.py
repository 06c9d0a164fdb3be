"""Engines: how messages travel between the coordinator and the parties."""

from __future__ import annotations

from typing import Protocol

from tacit.types import Message


class Engine(Protocol):
    """Carries one message to every party and their answers back."""

    def exchange(self, message: Message) -> list[Message]:
        """Send to every party; return the answers in the parties' order, without those of parties that are gone."""

    def close(self) -> None:
        """Release whatever the engine holds."""
