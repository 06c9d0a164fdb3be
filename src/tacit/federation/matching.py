"""A site's part in finding the common rows: private matching, within the limits that the party consented to.

And its part in saying which of them are held out, so that nobody chooses (`tacit.data.holdout.CommonKey`): it binds
itself to a number before ids are matched, and shows it afterwards. From then on ids are not matched again in this run.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.alignment import Aligner, Alignment
from tacit.alignment.aligner import fingerprint, ids_as_text
from tacit.data.holdout import CommonKey
from tacit.errors import InputError, RunError
from tacit.federation.journal import VersionedArrays
from tacit.federation.protocol import Match, Matched, Numbers, Reason, RefusalError
from tacit.federation.site import MatchingLimits, private_errors
from tacit.files import open_arrays, read_json, write_atomically, write_json
from tacit.privacy.releases import arrays_digest
from tacit.text import plural

ALIGNMENT, TRIES = "alignment.npz", "matching.json"
STATES, ANSWERS, NAME = "matching-state", "matching-answers", "run.json"  # while ids are matched, and no longer
HOLDOUT = "holdout.json"  # the own number, and what all were bound to when it was shown
_FIELDS = {  # of each step, as `tacit.alignment` asks it
    "size": (),
    "list": ("start", "stop"),
    "add": ("owner", "size", "start", "stop", "elements"),
    "mixed": ("owner", "start", "stop"),
    "back": ("owner", "total", "positions"),
    "rows": ("run", "total", "positions"),
}


def to_request(step: str, payload: Mapping[str, Any]) -> Match:
    """A question of the alignment as a request."""
    plain = {key: Numbers.of(value) if isinstance(value, np.ndarray) else value for key, value in payload.items()}
    return Match(step=step, **{key: plain[key] for key in _FIELDS[step]})  # type: ignore[arg-type]


def from_reply(reply: Matched) -> dict[str, Any]:
    """The answer to a question of the alignment."""
    arrays = {"elements": reply.elements, "positions": reply.positions}
    return {"size": reply.size, **{key: value.array() for key, value in arrays.items() if value is not None}}


def describe_matching(limits: MatchingLimits, ids: str, lead: str, also: str = "") -> list[str]:
    """What an organisation is shown before its ids are matched; `also` is told besides."""
    return [
        f"matching     {ids}, by private set intersection led by {lead}",
        f"you tell     the number of your ids; how many are common to all{also}",
        f"limits       others bring at most {limits.most_ids} ids each; at least {limits.least_common} of them must be",
        f"             common to all; ids are matched at most {plural(limits.tries, 'time')} in this run",
        "not covered  every party learns which of the ids it brings all others hold; it may bring invented ids;",
        f"             {lead} says which rows are common: a dishonest one can choose among your rows unseen",
    ]


class Matching:
    """One site's alignment in one run.

    Parameters
    ----------
    folder : Path
        Where the site keeps the run.
    name : str
    parties : sequence of str
        Everybody who aligns, in the order of the job.
    ids : array-like
        The site's ids, in the order of its file.
    column : str
        Name of the id column, for messages.
    limits : MatchingLimits
        What the party consented to.
    """

    def __init__(
        self, folder: Path, name: str, parties: Sequence[str], ids: Any, column: str, limits: MatchingLimits
    ) -> None:
        self.folder, self.name, self.parties = folder, name, tuple(parties)
        self.ids, self.column, self.limits = ids, column, limits
        self.aligner: Aligner | None = None
        self.counted = False  # whether the key in use is among the tries on the disk
        self.found: Alignment | None = None
        self.states = VersionedArrays(folder / STATES, 1)
        if (folder / ALIGNMENT).exists():
            found = Alignment.read(folder / ALIGNMENT)
            found.check(ids, column=column)
            self.found = found
        else:
            self._go_on()

    @property
    def run(self) -> str:
        """Names an alignment that was finished, the same at all its sites; empty before."""
        return "" if self.found is None else self.found.run

    @property
    def rows(self) -> Any:
        """The common rows, in the common order.

        Raises
        ------
        RefusalError
            Where they were not found, or are fewer than the party allows.
        """
        if self.found is None:
            raise RefusalError(Reason.TURN)
        self._check_common(len(self.found.rows))
        return self.found.rows

    @property
    def digest(self) -> str:
        """A fingerprint of which rows are common and of their order, for consent; it stays here."""
        return arrays_digest({"rows": np.asarray(self.rows)})

    def ids_print(self, rows: Any) -> str:
        """A fingerprint of the ids of these rows in their order: the same at every party that was told the truth."""
        return fingerprint(ids_as_text(self.name, self.ids, self.column).take(np.asarray(rows)))

    def answer(self, request: Match) -> Matched:
        """One question of a private alignment; the first one begins it anew, as often as was agreed to."""
        if request.step == "size":
            self._begin()
        if self.aligner is None and self._told(request):
            return Matched()
        if self.aligner is None:
            raise RefusalError(Reason.TURN)
        self._check(request)
        if request.step in ("list", "add"):  # no result is taken before
            self._count()
        payload = {key: getattr(request, key) for key in _FIELDS[request.step]}
        try:
            arrays = {key: value.array() for key, value in payload.items() if isinstance(value, Numbers)}
            reply = self.aligner.answer(request.step, {**payload, **arrays})
        except RunError as error:
            raise RefusalError(Reason.MESSAGE, str(error)) from error
        if self.aligner.alignment is not None:
            self.found = self.aligner.alignment
            self.found.write(self.folder / ALIGNMENT)
            self.aligner = None
            self.states.forget()
        elif request.step != "size" and not (request.step == "mixed" and request.start):  # a list is mixed once
            self._keep()
        plain: dict[str, Any] = {k: Numbers.of(v) if isinstance(v, np.ndarray) else v for k, v in reply.items()}
        return Matched(**plain)

    def _begin(self) -> None:
        """Draw a new key, where one more may be used."""
        if self._tries() >= self.limits.tries:
            raise RefusalError(Reason.TRIES)
        self.states.forget()
        with private_errors():
            self.aligner, self.counted = Aligner(self.name, self.ids, self.parties, column=self.column), False

    def _keep(self) -> None:
        """Have the key and the lists on the disk before an answer leaves: the same ones go on after a crash."""
        assert self.aligner is not None
        number = max(self.states.numbers(), default=0) + 1
        self.states.put(number, self.aligner.state(), {"ids": self._ids_print(), "counted": self.counted})

    def _go_on(self) -> None:
        """Take up a matching that was interrupted, where the ids are the same."""
        if not self.states.numbers():
            return
        arrays, about = self.states.get(self.states.numbers()[-1])
        if about["ids"] == self._ids_print():
            self.aligner, self.counted = (
                Aligner(self.name, self.ids, self.parties, column=self.column),
                about["counted"],
            )
            self.aligner.restore(arrays)

    def _ids_print(self) -> str:
        """A fingerprint of all ids, which stays here."""
        return fingerprint(ids_as_text(self.name, self.ids, self.column))

    def _told(self, request: Match) -> bool:
        """Whether the last words of the alignment that was found are said once more."""
        found = self.found
        return (
            request.step == "rows"
            and found is not None
            and (request.run, request.total) == (found.run, len(found.rows))
        )

    def _tries(self) -> int:
        path = self.folder / TRIES
        return int(read_json(path)["tries"]) if path.exists() else 0

    def _count(self) -> None:
        """Count a key on the disk before anything is encrypted with it."""
        if not self.counted:
            write_json(self.folder / TRIES, {"tries": self._tries() + 1}, secret=True)
            self.counted = True

    def _check(self, request: Match) -> None:
        """Refuse lists that are longer than was agreed to, and too few common rows."""
        if request.step == "add" and request.size > self.limits.most_ids:
            raise RefusalError(Reason.MANY_IDS)
        if request.step == "add":
            self._check_common(request.size)  # a shorter list has no more rows in common
        if request.step in ("back", "rows"):
            self._check_common(request.total)

    def _check_common(self, count: int) -> None:
        if count < self.limits.least_common:
            raise RefusalError(Reason.FEW_ROWS)


class AnswerLog:
    """What sites have answered in a matching, at the site that leads it, so that it goes on after a crash.

    Attributes
    ----------
    run : str
        Names the alignment.
    begun : bool
        Whether it holds answers of an earlier process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / ANSWERS
        self.begun = (self.folder / NAME).exists()
        if not self.begun:
            self.forget()
            self.folder.mkdir()
            write_json(self.folder / NAME, {"run": secrets.token_hex(8)}, secret=True)
        self.run = str(read_json(self.folder / NAME)["run"])

    def read(self, number: int) -> list[dict[str, Any]] | None:
        """The answers of a batch of questions; None where it was not answered."""
        if not self._path(number).exists():
            return None
        with open_arrays(self._path(number)) as file:
            answers: list[dict[str, Any]] = [{} for _ in range(int(file["answers"]))]
            for name in file.files:
                if "/" in name:
                    place, key = name.split("/", 1)
                    answers[int(place)][key] = file[name] if file[name].ndim else int(file[name])
        return answers

    def write(self, number: int, answers: Sequence[Mapping[str, Any]]) -> None:
        """Keep the answers of a batch."""
        arrays = {f"{k}/{key}": np.asarray(value) for k, own in enumerate(answers) for key, value in own.items()}
        arrays["answers"] = np.asarray(len(answers))
        write_atomically(self._path(number), lambda file: np.savez(file, **arrays), secret=True)  # type: ignore[arg-type]

    def forget(self) -> None:
        """Delete what was answered."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


class HoldoutNumber:
    """One site's number for the holdout of one run: drawn once, and on the disk before anybody is bound to it."""

    def __init__(self, folder: Path, name: str, parties: Sequence[str]) -> None:
        self.path, self.name, self.parties = folder / HOLDOUT, name, tuple(parties)
        if not self.path.exists():
            write_json(self.path, {"number": CommonKey.draw(name), "bound": {}}, secret=True)
        record = read_json(self.path)
        self.number, self.bound = str(record["number"]), {str(k): str(v) for k, v in record["bound"].items()}

    @property
    def fingerprint(self) -> str:
        """What binds this site to its number."""
        return CommonKey.bind(self.number)

    @property
    def shown(self) -> bool:
        """Whether the number has been shown."""
        return bool(self.bound)

    def show(self, bound: Mapping[str, str]) -> str:
        """The number, now that everybody is bound; once, for these fingerprints alone.

        Raises
        ------
        RefusalError
            Where a party is missing, this one's fingerprint was changed, or others were named before.
        """
        if set(bound) != set(self.parties) or bound[self.name] != self.fingerprint:
            raise RefusalError(Reason.MESSAGE, "the fingerprints of the numbers for the holdout are not those of all")
        if self.shown and dict(bound) != self.bound:
            raise RefusalError(Reason.SECOND)
        if not self.shown:
            write_json(self.path, {"number": self.number, "bound": dict(bound)}, secret=True)
            self.bound = dict(bound)
        return self.number

    def key(self, numbers: Mapping[str, str]) -> str:
        """The key of the holdout; refused where a number is not the one that its party was bound to."""
        if not self.shown:
            raise RefusalError(Reason.TURN)
        try:
            return CommonKey.of(numbers, self.bound)
        except InputError as error:
            raise RefusalError(Reason.MESSAGE, str(error)) from error
