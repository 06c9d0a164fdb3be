"""Recording every byte of a run: what an engine carries, and what passes the one door out of a party."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tacit.run.party import Party
from tacit.types import Message


@dataclass(frozen=True)
class Carried:
    """One message as it was when it passed: names, types, shapes and bytes, copied."""

    sender: str
    round: int
    kind: str
    arrays: tuple[tuple[str, str, tuple[int, ...], bytes], ...]

    @classmethod
    def of(cls, message: Message) -> Carried:
        parts = ((name, str(a.dtype), np.shape(a), np.asarray(a).tobytes()) for name, a in message.arrays.items())
        return cls(message.sender, message.round, message.kind, tuple(parts))

    @property
    def nbytes(self) -> int:
        return sum(len(content) for _, _, _, content in self.arrays)

    def array(self, name: str) -> np.ndarray:
        """One array, by name."""
        _, dtype, shape, content = next(part for part in self.arrays if part[0] == name)
        return np.frombuffer(content, dtype).reshape(shape)


class RecordingEngine:
    """An engine that keeps a copy of every byte it carries; put it around the engine of a run."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.down: list[Carried] = []
        self.up: list[Carried] = []

    def exchange(self, message: Message) -> list[Message]:
        self.down.append(Carried.of(message))
        answers = self.engine.exchange(message)
        self.up += [Carried.of(answer) for answer in answers]
        return answers

    def close(self) -> None:
        self.engine.close()


@dataclass
class Door:
    """What passed `Party.send`: bare as the party gave it, and as it left."""

    bare: list[dict[str, np.ndarray]] = field(default_factory=list)
    released: list[Carried] = field(default_factory=list)


def watch_door(monkeypatch: pytest.MonkeyPatch) -> Door:
    """Record all that passes the one door of every party until the test ends."""
    door, send = Door(), Party.send

    def watched(self: Party, message: Message, arrays: dict[str, np.ndarray]) -> Message:
        bare = {name: np.array(array) for name, array in arrays.items()}
        result = send(self, message, arrays)
        door.bare.append(bare)
        door.released.append(Carried.of(result))
        return result

    monkeypatch.setattr(Party, "send", watched)
    return door


def record(run: Any) -> RecordingEngine:
    """Put a recording engine into a run."""
    run.engine = RecordingEngine(run.engine)
    return run.engine
