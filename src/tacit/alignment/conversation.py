"""The coordinator's side of a private alignment: it carries lists from party to party, and compares them at the end.

Each party's list goes once round all parties, in their common order. Each adds its key and puts the list into a secret
order of its own. Then all lists are under all keys and can be compared, and nobody can tell whose place became which.
The places of the common elements go back the same way, each party undoing its own order, to the owner of the list.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.alignment.aligner import Aligner, check_names
from tacit.alignment.key import (
    Elements,
    NotAPointError,
    Positions,
    check_points,
    checked_elements,
    checked_positions,
    common_positions,
    refuse_repeated,
)
from tacit.data.align import Counts
from tacit.errors import InputError, RunError
from tacit.text import show

CHUNK = 50_000  # elements in one message: 1.65 MB
Ask = Callable[[str, str, dict[str, Any]], Mapping[str, Any]]
Observer = Callable[[str, float], None]


@dataclass(frozen=True)
class Question:
    """What one party is asked: `Aligner.answer(step, payload)`, over whatever carries it."""

    party: str
    step: str
    payload: dict[str, Any]


class Kept(Protocol):
    """Where the answers of a conversation are kept, so that another process can go on with it.

    Attributes
    ----------
    run : str
        The name of the alignment.
    """

    run: str

    def read(self, number: int) -> list[dict[str, Any]] | None:
        """The answers of a batch of questions; None where it was not answered."""

    def write(self, number: int, answers: Sequence[Mapping[str, Any]]) -> None:
        """Keep the answers of a batch, before the next one is asked."""


Talk = Generator[list[Question], Sequence[Mapping[str, Any]], None]


def converse(
    parties: Sequence[str], *, chunk: int = CHUNK, observe: Observer | None = None, run: str = ""
) -> Generator[list[Question], Sequence[Mapping[str, Any]], Counts]:
    """Yield questions and take their answers until all parties know their common rows.

    Parameters
    ----------
    parties : sequence of str
        Everybody who takes part, in the order that all of them know.
    chunk : int
        Elements in one message at most.
    observe : callable, optional
        Called with a text and the part that is done.
    run : str
        Names the alignment; drawn at random where it is left out.

    Yields
    ------
    list of Question
        Questions to different parties, which may be asked at once; send back their answers in the same order.

    Returns
    -------
    Counts
        Rows in common, and rows of each party that are not.

    Raises
    ------
    InputError
        Where no id is held by every party.
    RunError
        For answers that cannot be; the message names the party.
    """
    conversation = _Conversation(check_names(parties), chunk, observe, run)
    yield from conversation.run()
    return conversation.counts()


def align(
    parties: Sequence[str],
    ask: Ask,
    *,
    chunk: int = CHUNK,
    observe: Observer | None = None,
    at_once: bool = False,
    kept: Kept | None = None,
) -> Counts:
    """Hold the whole conversation by `ask(party, step, payload)`, which returns what the party answered.

    Parameters
    ----------
    parties, chunk, observe
        As in `converse`.
    ask : callable
        Carries a question to a party and its answer back.
    at_once : bool
        Whether different parties are asked at the same time, by threads; otherwise the caller's thread asks all.
    kept : Kept, optional
        Where answers are kept: what it holds is not asked again, so that a conversation goes on after a crash.

    Returns
    -------
    Counts
        Rows in common, and rows of each party that are not.
    """
    talk = converse(parties, chunk=chunk, observe=observe, run=kept.run if kept else "")
    answers: Sequence[Mapping[str, Any]] | None = None
    for number in itertools.count():
        try:
            questions = next(talk) if answers is None else talk.send(answers)
        except StopIteration as end:
            counts: Counts = end.value
            return counts
        answers = kept.read(number) if kept else None
        if answers is None:
            answers = _put_all(questions, ask, at_once)
            if kept:
                kept.write(number, answers)
    raise AssertionError


def _put_all(questions: Sequence[Question], ask: Ask, at_once: bool) -> list[Mapping[str, Any]]:
    """The answers to questions, in their order."""
    if not at_once:
        return [_put(question, ask) for question in questions]
    with ThreadPoolExecutor(len(questions)) as pool:
        return list(pool.map(lambda question: _put(question, ask), questions))


def _put(question: Question, ask: Ask) -> Mapping[str, Any]:
    """The answer of the party that a question is for."""
    return ask(question.party, question.step, question.payload)


def align_here(aligners: Sequence[Aligner], *, chunk: int = CHUNK, observe: Observer | None = None) -> Counts:
    """Align parties that are all in this process; each has its `alignment` afterwards."""
    by_name = {aligner.name: aligner for aligner in aligners}
    names = [aligner.name for aligner in aligners]
    return align(names, lambda party, step, payload: by_name[party].answer(step, payload), chunk=chunk, observe=observe)


class _Conversation:
    """The state of one conversation: the lists as they stand, by owner."""

    def __init__(self, names: tuple[str, ...], chunk: int, observe: Observer | None, run: str) -> None:
        self.names, self.chunk, self.observe = names, chunk, observe
        self.name = run or secrets.token_hex(8)
        self.sizes: dict[str, int] = {}
        self.lists: dict[str, Elements] = {}
        self.positions: dict[str, Positions] = {}
        self.done = 0

    def run(self) -> Talk:
        """Sizes, lists under all keys in turn, the comparison, and positions on their way back to each owner."""
        yield from self._sizes()
        yield from self._collect("list", {name: name for name in self.names})
        for stage in range(1, len(self.names)):
            holders = self._holders(stage)
            yield from self._hand_over(holders)
            yield from self._collect("mixed", holders, points=stage == len(self.names) - 1)
        self._compare()
        for stage in reversed(range(1, len(self.names))):
            yield from self._return(self._holders(stage))
        yield from self._tell_rows()

    def counts(self) -> Counts:
        """How many ids are common, and how many of each party are not: all parties may know this."""
        kept = len(self.positions[self.names[0]])
        return Counts(kept, {name: size - kept for name, size in self.sizes.items()})

    def _holders(self, stage: int) -> dict[str, str]:
        """For each owner, who adds a key to its list at this stage: the one that stands so many places after it."""
        count = len(self.names)
        return {owner: self.names[(place + stage) % count] for place, owner in enumerate(self.names)}

    def _sizes(self) -> Talk:
        """Ask every party how many ids it has."""
        answers = yield [Question(name, "size", {}) for name in self.names]
        for name, answer in zip(self.names, answers, strict=True):
            size = answer.get("size") if isinstance(answer, Mapping) else None
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise RunError(f"party {show(name)} did not say how many ids it has: its side must be fixed")
            self.sizes[name] = int(size)

    def _pieces(self, sizes: Mapping[str, int]) -> list[list[tuple[str, int, int]]]:
        """Batches of (owner, start, stop), each with one piece of every list that is not yet through."""
        starts = range(0, max(sizes.values()), self.chunk)
        return [
            [(owner, start, min(start + self.chunk, size)) for owner, size in sizes.items() if start < size]
            for start in starts
        ]

    def _hand_over(self, holders: Mapping[str, str]) -> Talk:
        """Give each list to the next party, piece by piece."""
        for batch in self._pieces(self.sizes):
            yield [
                Question(
                    holders[owner],
                    "add",
                    {
                        "owner": owner,
                        "size": self.sizes[owner],
                        "start": start,
                        "stop": stop,
                        "elements": self.lists[owner][start:stop],
                    },
                )
                for owner, start, stop in batch
            ]
            self._progress("adding keys", sum(stop - start for _, start, stop in batch))

    def _collect(self, step: str, holders: Mapping[str, str], *, points: bool = False) -> Talk:
        """Fetch each list from who has it, piece by piece; `points` checks what no party will look at."""
        parts: dict[str, list[Elements]] = {owner: [] for owner in self.names}
        for batch in self._pieces(self.sizes):
            answers = yield [
                Question(holders[owner], step, {"owner": owner, "start": start, "stop": stop})
                for owner, start, stop in batch
            ]
            for (owner, start, stop), answer in zip(batch, answers, strict=True):
                parts[owner].append(_received(answer, stop - start, f"party {show(holders[owner])}", points))
            if step == "list":
                self._progress("encrypting ids", sum(stop - start for _, start, stop in batch))
        for owner, collected in parts.items():
            self.lists[owner] = np.concatenate(collected)
            refuse_repeated(self.lists[owner], f"party {show(holders[owner])}")

    def _compare(self) -> None:
        """Find what all lists hold, in the order of the fully encrypted values, which is random to everybody."""
        found = common_positions([self.lists[name] for name in self.names])
        self.lists.clear()
        if len(found[0]) == 0:
            raise InputError("no id is held by every party: check that the id columns mean the same")
        self.positions = dict(zip(self.names, found, strict=True))

    def _return(self, holders: Mapping[str, str]) -> Talk:
        """Let each list's holder undo its order."""
        total = len(self.positions[self.names[0]])
        parts: dict[str, list[Positions]] = {owner: [] for owner in self.names}
        for batch in self._pieces(dict.fromkeys(self.names, total)):
            answers = yield [
                Question(
                    holders[owner],
                    "back",
                    {"owner": owner, "total": total, "positions": self.positions[owner][start:stop]},
                )
                for owner, start, stop in batch
            ]
            for (owner, start, stop), answer in zip(batch, answers, strict=True):
                who = f"party {show(holders[owner])}"
                parts[owner].append(checked_positions(answer, stop - start, self.sizes[owner], who))
        for owner, collected in parts.items():
            whole = {"positions": np.concatenate(collected)}
            who = f"party {show(holders[owner])}"
            self.positions[owner] = checked_positions(whole, total, self.sizes[owner], who)

    def _tell_rows(self) -> Talk:
        """Tell each owner which places of its own list are common."""
        total = len(self.positions[self.names[0]])
        for batch in self._pieces(dict.fromkeys(self.names, total)):
            yield [
                Question(
                    owner, "rows", {"run": self.name, "total": total, "positions": self.positions[owner][start:stop]}
                )
                for owner, start, stop in batch
            ]

    def _progress(self, text: str, elements: int) -> None:
        """Say how much is done: every element gets every key once."""
        self.done += elements
        if self.observe is not None:
            self.observe(text, self.done / (len(self.names) * sum(self.sizes.values())))


def _received(answer: Mapping[str, Any], count: int, who: str, points: bool) -> Elements:
    """A piece of a list as it came, checked."""
    elements = checked_elements(answer, count, who)
    if points:
        try:
            check_points(elements)
        except NotAPointError as error:
            raise RunError(f"{who} sent an encrypted id that is no point of the curve") from error
    return elements
