"""The questions that jobs ask a party, and its answers, in files of the run's folder.

The process of a job has no terminal: it leaves a question, jobs/NAME/pending.json, and waits for accepted.json or
refused.json with the same digest, which somebody at the party writes with `tacit join` or `tacit accept`. An answer is
remembered: a job that goes on does not ask again.

Imports nothing that plans or trains: `tacit join` and `tacit accept` start at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import read_json, show_path, write_json
from tacit.records import as_choice, as_list, as_text
from tacit.text import show

POLICIES = ("ask", "within-budget", "always", "never")
PENDING, ACCEPTED, REFUSED = "pending.json", "accepted.json", "refused.json"


def read_policy(settings: Mapping[str, Any]) -> str:
    """The key `accept` of site.toml: "ask" where it says nothing."""
    return as_choice(settings.get("accept", POLICIES[0]), "accept", POLICIES)


def one_line_of(text: str) -> str:
    """A text from elsewhere as it may be shown at a terminal: printable, on one line."""
    return "".join(character if character.isprintable() else "?" for character in text)


def answer_to(folder: Path, digest: str) -> bool | None:
    """True, False, or None where there is none for this digest."""
    for name, meaning in ((REFUSED, False), (ACCEPTED, True)):
        if digest in answered(folder / name):
            return meaning
    return None


def answered(path: Path) -> list[str]:
    """The digests that a file of answers holds, one for each stage that was answered so."""
    if not path.exists():
        return []
    return [as_text(digest, "digests") for digest in as_list(read_json(path).get("digests"), "digests")]


@dataclass(frozen=True)
class PendingQuestion:
    """A job that waits for an answer."""

    folder: Path
    digest: str
    lines: tuple[str, ...]

    def answer(self, accepted: bool) -> None:
        """Answer what was shown; a job that was changed meanwhile asks again."""
        for name, holds in ((ACCEPTED, accepted), (REFUSED, not accepted)):
            others = [digest for digest in answered(self.folder / name) if digest != self.digest]
            write_json(self.folder / name, {"digests": [*others, self.digest] if holds else others}, secret=True)


def waits(folder: Path) -> bool:
    """Whether a run waits for an answer that nobody has given."""
    try:
        digest = as_text(read_json(folder / PENDING).get("digest"), "digest") if (folder / PENDING).exists() else ""
    except InputError:
        return (folder / PENDING).exists()
    return bool(digest) and answer_to(folder, digest) is None


def pending_since(folder: Path) -> tuple[float, str] | None:
    """Since when a run waits for an answer here, and for what: a stage of `progress.py`; None where it does not."""
    try:
        if not waits(folder):
            return None
        record = read_json(folder / PENDING)
        return float(record["since"]), as_text(record["stage"], "stage")
    except (InputError, KeyError, TypeError, ValueError):  # it has just been answered
        return None


def questions(kit_path: Path) -> list[PendingQuestion]:
    """The jobs of a kit that wait for an answer and have none yet."""
    found = []
    for path in sorted(Path(kit_path, "jobs").glob(f"*/{PENDING}")):
        try:
            record = read_json(path)
            digest = as_text(record.get("digest"), "digest")
            lines = tuple(one_line_of(as_text(line, "lines")) for line in as_list(record.get("lines"), "lines"))
        except InputError as error:
            if not path.exists():
                continue  # the job has ended meanwhile
            raise InputError(f"cannot read the question {show_path(path)}: {show(str(error))}") from error
        if answer_to(path.parent, digest) is None:
            found.append(PendingQuestion(path.parent, digest, lines))
    return found


def answer_pending(kit_path: Path, ask: Callable[[str, Sequence[str]], bool]) -> int:
    """Ask about every job of a kit that waits, and write the answers.

    Parameters
    ----------
    kit_path : Path
    ask : callable
        Takes the job's name and the lines to show, and returns whether the party takes part.

    Returns
    -------
    int
        How many were answered.
    """
    waiting = questions(kit_path)
    for question in waiting:
        question.answer(ask(question.folder.name, question.lines))
    return len(waiting)
