"""Joint prediction between sites: each scores its own rows, and only sums of scores leave where there are enough sites.

The request is data, as a job is:

    [predict]
    run = "credit-0123456789ab"            # the training whose model is used
    parties = ["bank", "shop", "phone"]    # as in that training; the first leads and gets the predictions

The lead, which trained with the labels, gets the sum of the others' scores: under masks where there are two others or
more, so that no single one can be read; with one other party its scores are that sum. Scores are exact: no certificate
covers them, so each site is asked for its consent: to these rows in this order, by this part of the model. They are
sent once; whoever asks again gets the same bytes again. The difference of two orders would be a difference of scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from tacit.errors import InputError, RunError
from tacit.federation.matching import Matching, describe_matching
from tacit.federation.parts import check_about, write_masks
from tacit.federation.protocol import (
    Agree,
    Answered,
    Begin,
    Begun,
    Done,
    Key,
    Keys,
    Match,
    Matched,
    Numbers,
    Open,
    Packet,
    Prepare,
    Prepared,
    Reason,
    RefusalError,
    Scores,
    Step,
    decode_reply,
    encode,
)
from tacit.federation.site import Authorizer, Site, StepResult, check_asked, check_run, mask_cautions, private_errors
from tacit.files import literal, read_toml, text_digest, write_atomically
from tacit.plan.describe import many
from tacit.privacy.releases import arrays_digest
from tacit.run import door
from tacit.run.folder import RunFolder
from tacit.run.masking import KeySigner, Masks, unmask
from tacit.run.own_scores import OwnScores, read_own_scores
from tacit.types import Message, Vector, Words

SHARE = "share"
LEAST = 2  # parties besides the lead whose scores can hide in a sum
ROUND = 1
RUN = "joint prediction"  # part of every mask
SENT = "scores.sent"  # the answer of a run, to be given again as it was


@dataclass(frozen=True)
class PredictionRequest:
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


def read_request(text: str) -> PredictionRequest:
    """The request of a text that came from elsewhere.

    Raises
    ------
    InputError
    """
    document = read_toml(text, "the request")
    asked = document.get("predict")
    if set(document) != {"predict"} or not isinstance(asked, dict) or set(asked) != {"run", "parties"}:
        raise InputError("the request must be [predict] with run and parties, and nothing else")
    parties = asked["parties"]
    if not isinstance(parties, list) or not all(isinstance(name, str) for name in parties) or len(parties) < 2:
        raise InputError("parties of the request must be a list of two names or more")
    if len(set(parties)) < len(parties):
        raise InputError("a party is named twice in the request")
    return PredictionRequest(check_run(asked["run"]), tuple(parties))


class MaskedScores:
    """How one site's scores leave it: under fresh masks, or as they are where none are hidden in a sum.

    Parameters
    ----------
    name : str
    masked : sequence of str
        Whose scores go under masks; nobody's where it is empty.
    context : str
        What masks are bound to.
    folder : Path
        Where the fingerprints of their keys are kept.
    signer : KeySigner or None
    """

    def __init__(
        self, name: str, masked: Sequence[str], context: str, folder: Path, signer: KeySigner | None = None
    ) -> None:
        self.name, self.masked, self.context, self.folder, self.signer = name, tuple(masked), context, folder, signer
        self.masks = self._fresh()

    def _fresh(self) -> Masks | None:
        if self.name not in self.masked:
            return None
        return Masks(self.name, self.masked, self.context, signer=self.signer)

    def renew(self) -> None:
        """Draw new keys: masks are used once."""
        self.masks = self._fresh()

    def keys(self) -> Key:
        """The public key of the masks."""
        return Key() if self.masks is None else Key(key=Numbers.of(self.masks.key))

    def agree(self, request: Agree) -> Done:
        """Agree on masks with the others."""
        if self.masks is not None:
            self.masks.agree(request.keys.array())
            write_masks(self.folder, self.masks.fingerprint, self.masks.unchecked)
        return Done()

    def answer(self, scores: Vector, seen: str) -> Answered:
        """The scores as they leave; parties that have seen different rows give noise under masks."""
        arrays: dict[str, Vector | Words] = {SHARE: scores}
        if self.masks is not None:
            arrays = dict(self.masks.hide(ROUND, arrays, seen=seen.encode()))
        return Answered(message=Packet.of(door.leave(self.name, ROUND, arrays)))


def add_up(answers: Sequence[Message], masked: Sequence[str], shape: tuple[int, ...]) -> Vector:
    """The sum of scores that other sites sent, each of this shape.

    Raises
    ------
    RunError
        Where one sent something else; the line names it.
    """
    wanted = np.dtype(np.uint64 if masked else np.float64)
    for answer in answers:
        if set(answer.arrays) != {SHARE} or answer.arrays[SHARE].dtype != wanted:
            raise RunError(f"party {answer.sender!r} sent something else than its scores")
    parts = [unmask(answers, masked)[SHARE]] if masked else [answer.arrays[SHARE] for answer in answers]
    senders = [", ".join(masked)] if masked else [answer.sender for answer in answers]
    for part, sender in zip(parts, senders, strict=True):
        if part.shape != shape:
            scores = "one score" if len(shape) == 1 else f"{shape[1]} scores"
            raise RunError(f"the parties {sender} did not send {scores} for each of {shape[0]} rows")
    return np.asarray(np.sum(parts, axis=0), dtype=np.float64)


class ScoreHandler:
    """One site's part in a joint prediction.

    Parameters
    ----------
    run : str
        Names this prediction at every site.
    request : PredictionRequest
    name : str
    data : Path
        The site's file of rows to score.
    jobs : Path
        Where the site keeps its runs, that of the training among them.
    authorizer : Authorizer
    signer : KeySigner or None
        Vouches for the keys of masks.
    """

    own = StepResult[OwnScores]()
    matching = StepResult[Matching]()

    def __init__(
        self,
        run: str,
        request: PredictionRequest,
        name: str,
        data: Path,
        jobs: Path,
        authorizer: Authorizer,
        signer: KeySigner | None = None,
    ) -> None:
        self.run, self.request, self.name, self.authorizer, self.signer = run, request, name, authorizer, signer
        self.data, self.part = data, RunFolder(jobs / request.run).part(name)
        self.folder = jobs / run
        self.allowed = ""  # the digest of the rows and of the part that the site has agreed to

    @classmethod
    def open(cls, site: Site, request: Open, caller: str) -> ScoreHandler:
        """The part of a site in a prediction that somebody opens there.

        Raises
        ------
        RefusalError
            Where whoever asks does not lead it, or it is not for this site.
        """
        asked = read_request(request.job)
        check_asked(site.name, caller, asked.lead, asked.parties)
        return cls(request.run, asked, site.name, site.new, site.folder, site.authorizer, site.signer)

    def handle(self, request: Step, caller: str) -> Step:
        """Do one step, for the lead alone."""
        if caller != self.request.lead:
            raise RefusalError(Reason.NOT_LEAD)
        match request:
            case Prepare():
                return self.prepare()
            case Match():
                return self.match(request)
            case Begin():
                return self.begin()
            case Keys():
                return self.keys()
            case Agree():
                return self.agree(request)
            case Scores():
                return self.scores()
        raise RefusalError(Reason.TURN)

    @property
    def others(self) -> list[str]:
        """Everybody else in the request."""
        return [name for name in self.request.parties if name != self.name]

    @cached_property
    def masked(self) -> MaskedScores:
        """The masks of this process: never saved, and made once."""
        context = f"{RUN} {self.run} {text_digest(self.request.to_toml())}"
        return MaskedScores(self.name, self.request.masked, context, self.folder, self.signer)

    def prepare(self) -> Prepared:
        """Ask for the first consent, read the part of the model and score the own rows."""
        check_about(self.part.parent.parent, self.request.lead, self.request.parties)
        limits = self.authorizer.limits
        lines = [
            f"job          predictions by the model of run {self.request.run}: preparation",
            f"with         {', '.join(self.others)}",
            *describe_matching(limits, "your ids", self.request.lead),
        ]
        self.authorizer.allow_preparing(self.run, self.name, self.others, lines, self.request.to_toml())
        with private_errors():
            self.own = read_own_scores(self.part, self.data, hold=True)
            ids = list(self.own.places)
            self.matching = Matching(self.folder, self.name, self.request.parties, ids, "id", limits)
        return Prepared(matched=self.matching.run)

    def match(self, request: Match) -> Matched:
        """One question of a private alignment; none once scores were sent."""
        if self.answered:
            raise RefusalError(Reason.ANSWERED)
        self.allowed = ""  # a consent holds for one alignment
        return self.matching.answer(request)

    @property
    def answered(self) -> bool:
        """Whether the scores of this run have been sent."""
        return (self.folder / SENT).exists()

    def begin(self) -> Begun:
        """Ask for consent to send these scores, now that the common rows and their order are known."""
        rows = len(self.matching.rows)
        if self.answered:
            return Begun(rows=rows, at=ROUND)
        digest = self._digest()
        bound = {"rows": self.matching.digest, "part": sha256(self.own.part).hexdigest()}
        self.authorizer.allow_scores(self.run, self.name, self.describe(rows), {**bound, "scores": digest})
        self.allowed = digest
        return Begun(rows=rows)

    def _digest(self) -> str:
        """A fingerprint of the scores of the common rows in their order; it stays here."""
        return arrays_digest({SHARE: self.common_scores()})

    def describe(self, rows: int) -> list[str]:
        """What the organisation is shown before its scores leave."""
        request = self.request
        others = len(request.masked)
        how = f"under masks: {request.lead} reads the sum over {others} parties" if others else "as they are"
        scores = "one score" if self.own.outputs == 1 else f"{self.own.outputs} scores, one of each class,"
        own = f"{scores} for each of {rows} rows, once, {how}"
        if self.name == request.lead:
            own = "nothing: you get the predictions"
        lines = [
            f"job          predictions by the model of run {request.run}",
            f"with         {', '.join(self.others)}",
            f"you send     {own}",
        ]
        if self.name == request.lead:
            return lines
        unchecked = [] if self.signer is None or not others else self.signer.unchecked(request.masked)
        return [
            *lines,
            f"to           {request.lead}",
            *many("caution", mask_cautions([name for name in unchecked if name != self.name], request.lead)),
            "not covered  scores are exact functions of your rows: no certificate covers them",
        ]

    def keys(self) -> Key:
        """The public key of the masks."""
        if self.answered:
            raise RefusalError(Reason.ANSWERED)
        return self.masked.keys()

    def agree(self, request: Agree) -> Done:
        """Agree on masks with the others."""
        return self.masked.agree(request)

    def scores(self) -> Answered:
        """The scores of the common rows, as agreed to: made once, and on the disk before they leave."""
        matching = self.matching
        if self.answered:
            return self._sent()
        if not self.allowed or self.allowed != self._digest():
            raise RefusalError(Reason.NOT_AGREED)
        reply = self.masked.answer(self.common_scores(), matching.ids_print(matching.rows))
        write_atomically(self.folder / SENT, lambda file: file.write(encode(reply)), secret=True)
        return reply

    def _sent(self) -> Answered:
        reply = decode_reply((self.folder / SENT).read_bytes(), Scores())
        if not isinstance(reply, Answered):
            raise RefusalError(Reason.STOPPED, f"{SENT} is damaged: start a new prediction")
        return reply

    def common_scores(self) -> Vector:
        """The own scores of the common rows, in their common order."""
        return np.ascontiguousarray(self.own.scores[self.matching.rows])

    def common_ids(self) -> Sequence[str]:
        """The own ids of the common rows, in their common order."""
        ids = list(self.own.places)
        return [ids[row] for row in self.matching.rows]
