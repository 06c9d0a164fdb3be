"""All parties in this process: messages are handed over, not copied."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from tacit.runtime.party import Party
from tacit.types import Message


class InProcess:
    """The default engine.

    Parameters
    ----------
    parties : sequence of Party
    at_once : bool
        Whether parties answer at the same time, in threads: those that read their rows from disk wait for each other
        otherwise.
    """

    def __init__(self, parties: Sequence[Party], *, at_once: bool = False) -> None:
        self.parties = list(parties)
        self.threads = min(len(self.parties), os.cpu_count() or 1) if at_once else 1

    def exchange(self, message: Message) -> list[Message]:
        """Let every party answer, in turn or at once."""
        if self.threads == 1:
            return [party.answer(message) for party in self.parties]
        contexts = [copy_context() for _ in self.parties]  # with what numpy was told about overflow
        with ThreadPoolExecutor(self.threads) as pool:
            answer = [pool.submit(c.run, p.answer, message) for c, p in zip(contexts, self.parties, strict=True)]
            return [coming.result() for coming in answer]

    def close(self) -> None:
        """Nothing is held open."""
