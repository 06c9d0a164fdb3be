"""Parties in this process whose every message is kept, and may be changed on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.alignment import CHUNK, Aligner, align
from tacit.data.align import Counts

Tamper = Callable[[str, str, dict[str, Any]], dict[str, Any]]


class Recorder:
    """Carries questions and answers, and keeps them as (party, step, payload, answer)."""

    def __init__(self, sets: Mapping[str, Any], tamper: Tamper | None = None) -> None:
        self.aligners = {name: Aligner(name, ids, list(sets)) for name, ids in sets.items()}
        self.tamper = tamper
        self.messages: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = []

    def ask(self, party: str, step: str, payload: dict[str, Any]) -> dict[str, Any]:
        answer = self.aligners[party].answer(step, payload)
        if self.tamper is not None:
            answer = self.tamper(party, step, answer)
        self.messages.append((party, step, payload, answer))
        return answer

    def run(self, chunk: int = CHUNK, at_once: bool = False) -> Counts:
        return align(list(self.aligners), self.ask, chunk=chunk, at_once=at_once)

    def rows(self, name: str) -> list[int]:
        alignment = self.aligners[name].alignment
        assert alignment is not None
        return alignment.rows.tolist()

    def elements(self, party: str, step: str, owner: str | None = None) -> list[bytes]:
        """Elements that a party sent in answer to a step, of the list of an owner."""
        found: list[bytes] = []
        for name, asked, payload, answer in self.messages:
            if (name, asked) == (party, step) and owner in (None, payload.get("owner")):
                found += [row.tobytes() for row in answer["elements"]]
        return found

    def received(self, party: str, step: str) -> list[dict[str, Any]]:
        """What a party was told in a step."""
        return [payload for name, asked, payload, _ in self.messages if (name, asked) == (party, step)]

    def transcript(self) -> bytes:
        """All that travelled, in one piece."""
        return b"\n".join(flat(part) for _, step, payload, answer in self.messages for part in (step, payload, answer))


def flat(value: Any) -> bytes:
    """Any value of a message as bytes."""
    if isinstance(value, Mapping):
        return b"\n".join(flat(part) for pair in value.items() for part in pair)
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return value if isinstance(value, bytes) else str(value).encode()


def common_ids(recorder: Recorder, sets: Mapping[str, Sequence[Any]]) -> list[list[Any]]:
    """For each party, the ids of its rows in the common order."""
    return [[ids[row] for row in recorder.rows(name)] for name, ids in sets.items()]
