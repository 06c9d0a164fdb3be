"""All parties in this process: messages are handed over, not copied."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.runtime.party import Party
from tacit.types import Message


class InProcess:
    """The default engine."""

    def __init__(self, parties: Sequence[Party]) -> None:
        self.parties = list(parties)

    def exchange(self, message: Message) -> list[Message]:
        """Let every party answer in turn."""
        return [party.answer(message) for party in self.parties]

    def close(self) -> None:
        """Nothing is held open."""
