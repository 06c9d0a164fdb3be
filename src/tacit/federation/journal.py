"""What a site has answered so far, on its own disk: an answer is made once, kept, and sent again as it was.

A record holds the number of a step, a fingerprint of what was asked, the plain answer and the state after it. It is
written whole, and on the disk (`shelf.py`), before the answer leaves. Whoever asks the same thing again gets the same
answer again; whoever asks another thing under the same number is refused, for a second answer would be a second
release. The last two records are kept: a neighbour that died may need the answer before the last.

The files hold the keys of the noise, and state from which data could be found: they are their owner's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.shelf import Shelf
from tacit.types import Arrays

KEPT = 2


@dataclass(frozen=True, eq=False)
class Record:
    """One step: what was asked (as a fingerprint), what was answered, and the state after it, by who holds it."""

    number: int
    asked: str
    answer: Arrays
    states: Mapping[str, Arrays]


class Journal:
    """The journal of one job in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.shelf = Shelf(folder, KEPT)
        numbers = self.numbers()
        self.last = self.read(numbers[-1]) if numbers else None

    def numbers(self) -> list[int]:
        """Numbers of the steps that are kept, in order."""
        return self.shelf.numbers()

    @property
    def at(self) -> int:
        """Number of the last step; -1 where there is none."""
        return -1 if self.last is None else self.last.number

    def find(self, number: int, asked: str) -> Record | None:
        """The record of a step that was made before; None where it is the next one.

        Raises
        ------
        RefusalError
            Where another thing was asked under this number, or the step is neither the last nor the next.
        """
        if number == self.at + 1:
            return None
        if self.last is None or number != self.last.number:
            raise RefusalError(Reason.OLD)
        if asked != self.last.asked:
            raise RefusalError(Reason.SECOND)
        return self.last

    def write(self, record: Record) -> None:
        """Keep a record; it is on the disk when this returns, and nothing of it has left before."""
        arrays = {f"answer/{name}": array for name, array in record.answer.items()}
        for who, state in record.states.items():
            arrays |= {f"state/{who}/{name}": array for name, array in state.items()}
        self.shelf.put(record.number, arrays, {"asked": record.asked, "holders": sorted(record.states)})
        self.last = record

    def read(self, number: int) -> Record:
        """The record of a step that is kept.

        Raises
        ------
        RunError
            Where it is missing or damaged.
        """
        arrays, about = self.shelf.get(number)
        answer = {k.removeprefix("answer/"): array for k, array in arrays.items() if k.startswith("answer/")}
        states: dict[str, Arrays] = {who: {} for who in about["holders"]}
        for key, array in arrays.items():
            if key.startswith("state/"):
                who, name = key.removeprefix("state/").split("/", 1)
                states[who][name] = array
        return Record(number, str(about["asked"]), answer, states)

    def forget(self) -> None:
        """Delete the journal of a job that is over."""
        self.shelf.forget()
        self.last = None
