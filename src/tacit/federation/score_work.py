"""Joint prediction between sites: each scores its own rows, and only sums of scores leave where there are enough sites.

The request is data, as a job is:

    [predict]
    run = "credit-0123456789ab"            # the training whose model is used
    parties = ["bank", "shop", "phone"]    # as in that training; the first leads and gets the predictions

The lead, which trained with the labels, gets the sum of the others' scores: under masks where there are two others or
more, so that no single one can be read; with one other party its scores are that sum. Scores are exact: no certificate
covers them, so each site is asked for its consent.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from tacit.data.wording import one_line
from tacit.errors import InputError, RunError
from tacit.federation.matching import Matching
from tacit.federation.parts import check_about
from tacit.federation.site import Gate, Payload, check_run, own_data
from tacit.federation.wire import to_plain
from tacit.job.write import literal
from tacit.runtime import door
from tacit.runtime.masking import Masks
from tacit.runtime.own_scores import OwnScores, read_own_scores
from tacit.runtime.saved import MODEL
from tacit.types import Vector, Words

SHARE = "share"
LEAST = 2  # parties besides the lead whose scores can hide in a sum
ROUND = 1
RUN = "joint prediction"  # part of every mask


@dataclass(frozen=True)
class Request:
    """What is asked: the training whose model is used, and the parties of it, the one that leads first."""

    run: str
    parties: tuple[str, ...]

    @property
    def lead(self) -> str:
        """Who gets the predictions."""
        return self.parties[0]

    @property
    def masked(self) -> tuple[str, ...]:
        """Whose scores go under masks; nobody's where a sum would hide nothing."""
        return self.parties[1:] if len(self.parties) > LEAST else ()

    def to_toml(self) -> str:
        """The request as it travels."""
        return f"[predict]\nrun = {literal(self.run)}\nparties = {literal(self.parties)}\n"


def is_request(text: object) -> bool:
    """Whether a text asks for predictions, and not for training."""
    return isinstance(text, str) and text.lstrip().startswith("[predict]")


def read_request(text: str) -> Request:
    """The request of a text that came from elsewhere.

    Raises
    ------
    InputError
    """
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"the request is not valid TOML: {one_line(error)}") from error
    asked = document.get("predict")
    if set(document) != {"predict"} or not isinstance(asked, dict) or set(asked) != {"run", "parties"}:
        raise InputError("the request must be [predict] with run and parties, and nothing else")
    parties = asked["parties"]
    if not isinstance(parties, list) or not all(isinstance(name, str) for name in parties) or len(parties) < 2:
        raise InputError("parties of the request must be a list of two names or more")
    if len(set(parties)) < len(parties):
        raise InputError("a party is named twice in the request")
    return Request(check_run(asked["run"]), tuple(parties))


class ScoreWork:
    """One site's part in a joint prediction.

    Parameters
    ----------
    run : str
        Names this prediction at every site.
    request : Request
    name : str
    data : Path
        The site's file of rows to score.
    jobs : Path
        Where the site keeps its runs, that of the training among them.
    gate : Gate
    """

    def __init__(self, run: str, request: Request, name: str, data: Path, jobs: Path, gate: Gate) -> None:
        if name not in request.parties:
            raise InputError(f"the request has no party {name!r}: it is not for this organisation")
        self.run, self.request, self.name, self.gate = run, request, name, gate
        self.data, self.part = data, jobs / request.run / MODEL / f"{name}.json"
        self.folder = jobs / run
        self.own: OwnScores | None = None
        self.matching: Matching | None = None
        self.masks = Masks(name, request.masked, f"{RUN} {run}") if name in request.masked else None
        self.allowed = False

    def handle(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        """Do one step, for the lead alone."""
        if caller != self.request.lead:
            raise RunError(f"{caller!r} does not lead this prediction: refused")
        steps = {"open": self.open, "align": self.align, "begin": self.begin, "keys": self.keys, "scores": self.scores}
        if step not in steps:
            raise RunError(f"there is no step {step[:40]!r} in a prediction")
        return steps[step](payload)

    def open(self, payload: Payload) -> dict[str, Any]:
        """Read the part of the model and score the own rows."""
        check_about(self.part.parent.parent, self.request.lead, self.request.parties)
        with own_data():
            self.own = read_own_scores(self.part, self.data)
            self.matching = Matching(self.folder, self.name, self.request.parties, list(self.own.places), "id")
        return {"rows": len(self.own.places), "aligned": self.matching.run}

    def align(self, payload: Payload) -> dict[str, Any]:
        """One question of a private alignment."""
        assert self.matching is not None
        return self.matching.answer(payload)

    def begin(self, payload: Payload) -> dict[str, Any]:
        """See whether to take part, now that the number of common rows is known."""
        found = None if self.matching is None else self.matching.found
        if found is None:
            raise RunError(f"the rows of {self.name!r} were not aligned")
        self.gate.allow_scores(self.run, self.name, self.describe(len(found.rows)))
        self.allowed = True
        return {"rows": len(found.rows)}

    def describe(self, rows: int) -> list[str]:
        """What the organisation is shown before it takes part."""
        request = self.request
        others = len(request.masked)
        how = f"under masks: {request.lead} reads the sum over {others} parties" if others else "as they are"
        own = f"one score for each of {rows} rows, {how}"
        if self.name == request.lead:
            own = "nothing: you get the predictions"
        return [
            f"job          predictions by the model of run {request.run}",
            f"with         {', '.join(name for name in request.parties if name != self.name)}",
            f"you send     {own}",
            f"to           {request.lead}",
            "not covered  scores are exact functions of your rows: no certificate covers them",
        ]

    def keys(self, payload: Payload) -> dict[str, Any]:
        """The public key of the masks; with everybody's keys, agree on them."""
        if self.masks is None:
            return {}
        if payload.get("keys") is None:
            return {"key": self.masks.key}
        self.masks.agree(cast("Words", payload["keys"]))
        return {"fingerprint": self.masks.fingerprint}

    def scores(self, payload: Payload) -> dict[str, Any]:
        """The scores of the common rows, in their common order, once the site takes part."""
        if not self.allowed:
            raise RunError(f"{self.name!r} has not agreed to this prediction")
        arrays: dict[str, Vector | Words] = {SHARE: self.common_scores()}
        if self.masks is not None:
            arrays = dict(self.masks.hide(ROUND, arrays))
        return {"message": to_plain(door.leave(self.name, ROUND, arrays))}

    def common_scores(self) -> Vector:
        """The own scores of the common rows, in their common order."""
        assert self.own is not None
        assert self.matching is not None
        assert self.matching.found is not None
        return np.ascontiguousarray(self.own.scores[self.matching.found.rows])

    def common_ids(self) -> Sequence[str]:
        """The own ids of the common rows, in their common order."""
        assert self.own is not None
        assert self.matching is not None
        assert self.matching.found is not None
        ids = list(self.own.places)
        return [ids[row] for row in self.matching.found.rows]
