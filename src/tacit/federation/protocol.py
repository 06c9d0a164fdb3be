"""What sites say to each other: every request and every reply, field by field, and why each field may leave its site.

A message is the number of its type (one byte) and msgpack. The type, and with it the largest size, is known before
anything is parsed; fields are read by their types, and nothing nests deeper than they say.

| request | who asks | what the site does | reply |
|---|---|---|---|
| Open | the lead | reads the job, which is data; nothing of its own | Opened |
| Prepare | the lead | first consent: matching and sizes; then reads its file | Prepared |
| Match | the lead | one step of private matching | Matched |
| Reveal | the lead | shows its number for the holdout, now that all are bound to theirs | Revealed |
| Shape | the lead | picks the common rows, holds some out, and encodes its columns | Shaped |
| Begin | the lead | second consent: the plan, which it makes itself; reserves its budget | Begun |
| Try, Settle | the lead | begins a fit of the search for alpha, or goes on with it; takes the alpha found | Done |
| Answer | the lead | one exchange of a feature split | Answered |
| Keys, Agree | the lead | a fresh public key for masks; the keys of all | Key, Done |
| Play, Resend | the lead | a round of a sample split; its messages once more | Played, Done |
| Finish | the lead | takes in the messages of the last round | Done |
| Put | a neighbour | takes in a message of a round | Done |
| Scores | the lead | third consent was given, or rows were held out: its scores of these rows, once | Answered |
| Tell | the lead | keeps what the label holder tells of the evaluation | Done |
| End, Forget | the lead | writes its own part of the model; deletes its journal | Done |

A site that does not do what it is asked replies Refused or Interrupted, with one of the constants of `Reason` and no
word of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from tacit.errors import FaultError, RunError
from tacit.run import door
from tacit.types import Message


class Origin(Enum):
    """Why a field may leave the site that sends it. A field without one of these cannot be sent."""

    JOB = "in the job, which all parties have"
    SIZE = "a public size that the party consented to"
    RELEASE = "a planned release"
    MASKED = "under masks or secret keys"
    TRANSCRIPT = "a function of the messages so far and of fresh coins alone"


class Reason(IntEnum):
    """Why a site does not do what it is asked; what its organisation can do about it stands in its own status."""

    NEVER = 1
    REFUSED = 2
    UNANSWERED = 3
    BUDGET = 4
    NOISE_SEED = 5
    VERSION = 6
    JOB = 7
    NOT_LEAD = 8
    NOT_NEIGHBOUR = 9
    BUSY = 10
    TURN = 11
    STOPPED = 12
    CHANGED = 13
    FEW_ROWS = 14
    MANY_IDS = 15
    TRIES = 16
    SIZES = 17
    PLAN = 18
    SECOND = 19
    OLD = 20
    NOT_AGREED = 21
    ANSWERED = 22
    MESSAGE = 23
    NOT_TRAINED = 24
    KEYS = 25
    OTHER_JOB = 26
    OVER = 27
    LOST = 28
    DISK = 30
    LOCKED = 31
    NOT_OPEN = 32
    UNREACHABLE = 33
    LIGHTGBM = 34
    NO_LIGHTGBM = 35
    BEGUN_WITH = 36
    RESTORED = 37

    @property
    def line(self) -> str:
        """The reason in words."""
        return LINES[self]


LINES = {
    Reason.NEVER: 'it takes part in no job (accept = "never")',
    Reason.REFUSED: "it was asked, and does not take part",
    Reason.UNANSWERED: "nobody there answered in time: run tacit accept there, and start the job again",
    Reason.BUDGET: "the job does not fit its privacy budget",
    Reason.NOISE_SEED: "the job has noise_seed, with which everybody could take the noise off: leave it out",
    Reason.VERSION: "it runs a different version of tacit: install the same version everywhere",
    Reason.JOB: "it cannot use this job; tacit status there says why",
    Reason.NOT_LEAD: "only the site that leads the job may ask this",
    Reason.NOT_NEIGHBOUR: "the message came from a site that is not its neighbour",
    Reason.BUSY: "another run is open there",
    Reason.TURN: "a step was asked for out of turn",
    Reason.STOPPED: "it stopped; tacit status there says why",
    Reason.CHANGED: "its data are not those that this run began with: start a new run",
    Reason.FEW_ROWS: "fewer rows are common to all parties than it allows",
    Reason.MANY_IDS: "a party brings more ids than it allows",
    Reason.TRIES: "ids were matched as often as it agreed to: start a new run",
    Reason.SIZES: "it was told different sizes than its own",
    Reason.PLAN: "it makes a different plan of this job: install the same version everywhere",
    Reason.SECOND: "it was asked twice under one number, with different content: a second answer is not given",
    Reason.OLD: "it was sent an old message, or one too soon",
    Reason.NOT_AGREED: "it has not agreed to this",
    Reason.ANSWERED: "it has answered this prediction: start a new one",
    Reason.MESSAGE: "it was sent a message that it cannot use",
    Reason.NOT_TRAINED: "it has no finished run of this name with these parties and this lead",
    Reason.KEYS: "its key is not the confirmed one, or nobody confirmed it: tacit federation members KIT shows both",
    Reason.OTHER_JOB: "the run of this name there is of a different job or lead: start a new run",
    Reason.OVER: "the run of this name is over there: start a new run",
    Reason.LOST: "it lost what it had written in this run: start a new run",
    Reason.DISK: "its disk refused to write",
    Reason.LOCKED: "another process there still works on this run",
    Reason.NOT_OPEN: "the job is not open there",
    Reason.UNREACHABLE: "it does not answer",
    Reason.LIGHTGBM: "it has a different version of LightGBM, which grows other trees: install the same one everywhere",
    Reason.NO_LIGHTGBM: "LightGBM is missing there, or cannot be loaded: install it with pip install 'tacit[trees]'",
    Reason.BEGUN_WITH: "it began this run with another version of tacit: finish it with that one, or start a new run",
    Reason.RESTORED: "a home was put back to an older copy, there or at who asks, and forgot what it spent since: "
    "see Operate a site",
}


class RefusalError(RunError):
    """A site does not do what it is asked: others get the reason; the detail stays with its own organisation."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(detail or reason.line)
        self.reason, self.detail = reason, detail


class InterruptionError(FaultError):
    """A site cannot go on now, and nobody refused anything."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(detail or reason.line)
        self.reason, self.detail = reason, detail


class PartyRefusedError(RunError):
    """A party does not do what it was asked: whose refusal, and its constant reason."""

    def __init__(self, party: str, reason: Reason) -> None:
        super().__init__(f"party {party!r}: {reason.line}")
        self.party, self.reason = party, reason


class PartyInterruptedError(FaultError):
    """A party could not do what it was asked, and nobody refused."""

    def __init__(self, party: str, reason: Reason) -> None:
        super().__init__(f"party {party!r}: {reason.line}")
        self.party, self.reason = party, reason


def outcome_line(error: Exception) -> str:
    """What the server, and with it whoever handed the job in, is told of a run that was refused: a constant line."""
    match error:
        case PartyRefusedError() | PartyInterruptedError():
            return str(error)
    return "the leading party stopped the run; tacit status there says why"


def _origin(origin: Origin, **limits: Any) -> Meta:
    return Meta(extra={"origin": origin}, **limits)


# --- parts of messages ---------------------------------------------------------------------------------

KINDS = ("keys", "agree", "start", "step", "finish")
NUMBERS = ("f8", "f4", "u8", "i8", "u1")
LARGEST = 1e100  # beyond what columns of moderate size can lead to; sums of such numbers overflow
MOST_ROWS = 10**12
MOST_ROUNDS = 10**9
SMALL = 1 << 16  # bytes of a message without arrays
LARGE = (1 << 31) - (1 << 16)  # bytes of a message with arrays: what can be sealed in one piece
MOST_JOB = 1_000_000  # characters

_Count = Annotated[int, Meta(ge=0, le=MOST_ROWS)]
_Round = Annotated[int, Meta(ge=0, le=MOST_ROUNDS)]
_Name = Annotated[str, Meta(max_length=200)]
_Fingerprint = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
# Letters, digits and _ alone: fingerprints of messages tell names and numbers apart, and files keep each name as it is.
_ArrayName = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_]*\Z", max_length=100)]


class Numbers(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """An array: its type, its shape and its bytes, little-endian."""

    kind: Literal["f8", "f4", "u8", "i8", "u1"]
    shape: Annotated[list[_Count], Meta(max_length=8)]
    content: bytes

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Numbers:
        """The array as it travels."""
        kind = array.dtype.str[1:]
        if kind not in NUMBERS:
            raise RunError(f"arrays of type {array.dtype} do not travel between sites")
        return cls(kind, list(array.shape), np.ascontiguousarray(array, dtype=f"<{kind}").tobytes())  # type: ignore[arg-type]

    def array(self) -> npt.NDArray[Any]:
        """The array, a new one that may be written to.

        Raises
        ------
        RunError
            Where the bytes are not those of its shape, or a number is NaN, infinite or huge.
        """
        if math.prod(self.shape) * np.dtype(self.kind).itemsize != len(self.content):
            raise RunError(f"an array came with {len(self.content)} bytes, which are not those of its shape")
        found = np.frombuffer(self.content, dtype=f"<{self.kind}").astype(self.kind).reshape(self.shape)
        if self.kind in ("f8", "f4") and found.size and not float(np.abs(found).max()) <= LARGEST:  # nor NaN
            raise RunError(f"an array came with a number that is NaN, infinite or beyond {LARGEST:g}")
        return found


class Packet(Struct, forbid_unknown_fields=True):
    """A message of a run: named arrays, its round and kind. Who sent it is known from who carried it."""

    round: _Round
    kind: Literal["keys", "agree", "start", "step", "finish"]
    arrays: Annotated[dict[_ArrayName, Numbers], Meta(max_length=1000)]

    @classmethod
    def of(cls, message: Message) -> Packet:
        """A message as it travels."""
        arrays = {name: Numbers.of(array) for name, array in message.arrays.items()}
        return cls(message.round, message.kind, arrays)  # type: ignore[arg-type]

    def message(self, sender: str, *, singles: bool = False) -> Message:
        """The message that `sender` sent, by the one door; `singles` where there may be float32 numbers in it.

        Raises
        ------
        RunError
            Where an array is none, or of a type that no message has; the line names the sender.
        """
        arrays, allowed = {}, ("f8", "u8", "f4") if singles else ("f8", "u8")
        for name, numbers in self.arrays.items():
            if numbers.kind not in allowed:
                raise RunError(f"{sender!r} sent {name!r} as something else than {', '.join(allowed)} numbers")
            try:
                arrays[name] = numbers.array()
            except RunError as error:
                raise RunError(f"{sender!r} sent {name!r}: {error}") from error
        return door.arrive(sender, self.round, arrays, self.kind)


# --- requests ------------------------------------------------------------------------------------------


class Step(Struct, forbid_unknown_fields=True, kw_only=True):
    """One request or one reply."""


class Open(Step, omit_defaults=True):
    """Read a job; `lightgbm` is the lead's version of that package, empty where no trees are grown."""

    run: Annotated[str, _origin(Origin.JOB, pattern=r"^[A-Za-z0-9-]{8,100}$")]
    job: Annotated[str, _origin(Origin.JOB, max_length=MOST_JOB)]
    version: Annotated[str, _origin(Origin.JOB, max_length=100)]
    lightgbm: Annotated[str, _origin(Origin.JOB, max_length=100)] = ""


class Prepare(Step):
    """Ask for the first consent, and read the own file."""


class Match(Step):
    """One step of private matching; which fields it has depends on the step (`tacit.alignment`)."""

    step: Annotated[Literal["size", "list", "add", "mixed", "back", "rows"], _origin(Origin.JOB)]
    owner: Annotated[_Name, _origin(Origin.JOB)] = ""
    start: Annotated[_Count, _origin(Origin.SIZE)] = 0
    stop: Annotated[_Count, _origin(Origin.SIZE)] = 0
    size: Annotated[_Count, _origin(Origin.SIZE)] = 0
    total: Annotated[_Count, _origin(Origin.SIZE)] = 0
    run: Annotated[_Name, _origin(Origin.TRANSCRIPT)] = ""
    elements: Annotated[Numbers | None, _origin(Origin.MASKED)] = None
    positions: Annotated[Numbers | None, _origin(Origin.TRANSCRIPT)] = None


class Reveal(Step):
    """Show the own number for the holdout; `bound` has the fingerprints by which all parties are bound to theirs."""

    bound: Annotated[dict[_Name, _Fingerprint], _origin(Origin.TRANSCRIPT, max_length=10_000)]


class Shape(Step):
    """Pick the common rows and tell their sizes; `numbers` are those of all parties, of which the holdout follows."""

    numbers: Annotated[dict[_Name, _Fingerprint], _origin(Origin.TRANSCRIPT, max_length=10_000)] = {}


class Begin(Step):
    """Ask for the second consent: the plan is made by everybody from these sizes, and must be the lead's.

    `curve_columns` is what each party said by `Shaped`; empty where no columns are split.
    """

    rows: Annotated[list[_Count], _origin(Origin.SIZE, max_length=10_000)]
    columns: Annotated[list[_Count], _origin(Origin.SIZE, max_length=10_000)]
    plan: Annotated[str, _origin(Origin.TRANSCRIPT, max_length=64)]
    curve_columns: Annotated[list[_Count], _origin(Origin.SIZE, max_length=10_000)] = []


class Try(Step):
    """A fit of the search for alpha: on the rows that `seen` marks, or where it is None on those of the last one.

    Folds are dealt out so that each has its share of both labels: without privacy every message tells of labels.
    """

    alpha: Annotated[float, _origin(Origin.JOB)]
    seen: Annotated[Numbers | None, _origin(Origin.RELEASE)] = None


class Settle(Step):
    """Train with the alpha that the search took."""

    alpha: Annotated[float, _origin(Origin.RELEASE)]


class Answer(Step):
    """Answer a message of the coordinator."""

    message: Annotated[Packet, _origin(Origin.RELEASE)]


class Keys(Step):
    """Draw a fresh key for masks."""


class Agree(Step):
    """Agree on masks, given everybody's public key."""

    keys: Annotated[Numbers, _origin(Origin.TRANSCRIPT)]


class Resend(Step):
    """Send the messages of a round that was played to the neighbours once more, the same."""

    round: Annotated[_Round, _origin(Origin.TRANSCRIPT)]


class Play(Step):
    """Play a round."""

    round: Annotated[_Round, _origin(Origin.TRANSCRIPT)]


class Put(Step):
    """A neighbour's message of a round: a planned release, under masks where the plan has them."""

    message: Annotated[Packet, _origin(Origin.RELEASE)]


class Finish(Step):
    """Take in the messages of the last round."""

    round: Annotated[_Round, _origin(Origin.TRANSCRIPT)]


class Scores(Step):
    """Send the scores of the common rows, or in a training those of the rows that were held out."""


class Tell(Step):
    """How good the joint model is on the rows held out, as far as the label holder tells it.

    `joint` and `alone` are measures by name, of the joint model and of the label holder's own; `errors` are standard
    errors of the first where they have noise, and `against` compares the losses of both. All are empty where the label
    holder keeps them.
    """

    rows: Annotated[_Count, _origin(Origin.SIZE)]
    joint: Annotated[dict[_ArrayName, float], _origin(Origin.RELEASE, max_length=20)] = {}
    errors: Annotated[dict[_ArrayName, float], _origin(Origin.RELEASE, max_length=20)] = {}
    alone: Annotated[dict[_ArrayName, float], _origin(Origin.RELEASE, max_length=20)] = {}
    against: Annotated[dict[_ArrayName, float], _origin(Origin.RELEASE, max_length=20)] = {}


class End(Step):
    """Write the own part of the model; `scale` is the one number of it that the lead sets, where the plan has it."""

    scale: Annotated[float, _origin(Origin.RELEASE)] = 1.0


class Forget(Step):
    """Delete the journal of a run that is over everywhere."""


# --- replies -------------------------------------------------------------------------------------------


class Opened(Step):
    """The job was read; nothing of the site's data was."""


class Prepared(Step):
    """The site takes part in the preparation.

    `matched` names the alignment of this run that it has, if any. `bound` is the fingerprint of its number for the
    holdout, where the job has one and no seed. `rows`, `columns` and `names` (a fingerprint of the
    column names) are those of a node of a sample split, and 0 and empty elsewhere.
    """

    matched: Annotated[_Name, _origin(Origin.TRANSCRIPT)] = ""
    rows: Annotated[_Count, _origin(Origin.SIZE)] = 0
    columns: Annotated[_Count, _origin(Origin.SIZE)] = 0
    names: Annotated[str, _origin(Origin.SIZE, max_length=64)] = ""
    bound: Annotated[str, _origin(Origin.TRANSCRIPT, max_length=64)] = ""


class Revealed(Step):
    """The own number for the holdout: fresh coins."""

    number: Annotated[_Fingerprint, _origin(Origin.TRANSCRIPT)]


class Matched(Step):
    """What a step of private matching gives."""

    size: Annotated[_Count, _origin(Origin.SIZE)] = 0
    elements: Annotated[Numbers | None, _origin(Origin.MASKED)] = None
    positions: Annotated[Numbers | None, _origin(Origin.TRANSCRIPT)] = None


class Shaped(Step):
    """Rows and columns that the party trains on.

    `curve_columns` is the number of its columns before encoding, where the norm of its rows follows from it: where
    they are protected and have curves. It is 0 elsewhere.
    """

    rows: Annotated[_Count, _origin(Origin.SIZE)]
    columns: Annotated[_Count, _origin(Origin.SIZE)]
    curve_columns: Annotated[_Count, _origin(Origin.SIZE)] = 0


class Begun(Step):
    """The site takes part.

    `at` is the exchange or round that its journal stands at; in a prediction 1 where its scores were sent before, and
    `rows` the number of common rows.
    """

    at: Annotated[_Round, _origin(Origin.TRANSCRIPT)] = 0
    rows: Annotated[_Count, _origin(Origin.SIZE)] = 0


class Answered(Step):
    """The answer to a message, or the scores: a planned release, under masks where the plan has them."""

    message: Annotated[Packet, _origin(Origin.RELEASE)]


class Key(Step):
    """A public key for masks, fresh; None where the site hides nothing."""

    key: Annotated[Numbers | None, _origin(Origin.TRANSCRIPT)] = None


class Played(Step):
    """A round was played.

    `done` follows from the messages of a run without privacy, and from the number of the round with it. `residual` is
    None in a private run.
    """

    done: Annotated[bool, _origin(Origin.TRANSCRIPT)]
    sent: Annotated[_Count, _origin(Origin.TRANSCRIPT)]
    residual: Annotated[float | None, _origin(Origin.RELEASE)] = None


class Done(Step):
    """It was done."""


class Refused(Step):
    """It is not done, and the run cannot go on."""

    reason: Annotated[Reason, _origin(Origin.TRANSCRIPT)]


class Interrupted(Step):
    """It could not be done now; the run goes on when the job is opened again."""

    reason: Annotated[Reason, _origin(Origin.TRANSCRIPT)]


def party_error(party: str, reply: Refused | Interrupted) -> PartyRefusedError | PartyInterruptedError:
    """What is raised where a party replied that it does not do what it was asked, or cannot now."""
    kind = PartyRefusedError if isinstance(reply, Refused) else PartyInterruptedError
    return kind(party, reply.reason)


# --- bytes ---------------------------------------------------------------------------------------------

REQUESTS: tuple[type[Step], ...] = (
    Open,
    Prepare,
    Match,
    Reveal,
    Shape,
    Begin,
    Try,
    Settle,
    Answer,
    Keys,
    Agree,
    Resend,
    Play,
    Put,
    Finish,
    Scores,
    End,
    Tell,
    Forget,
)
REPLIES: dict[type[Step], type[Step]] = {
    Open: Opened,
    Prepare: Prepared,
    Match: Matched,
    Reveal: Revealed,
    Shape: Shaped,
    Begin: Begun,
    Try: Done,
    Settle: Done,
    Answer: Answered,
    Keys: Key,
    Agree: Done,
    Resend: Done,
    Play: Played,
    Put: Done,
    Finish: Done,
    Scores: Answered,
    End: Done,
    Tell: Done,
    Forget: Done,
}
FAILURES: tuple[type[Step], ...] = (Refused, Interrupted)
_ALL: tuple[type[Step], ...] = (*REQUESTS, *dict.fromkeys(REPLIES.values()), *FAILURES)
_NUMBER = {kind: number for number, kind in enumerate(_ALL)}

Reply = TypeVar("Reply", bound=Step)


def origins(kind: type[Struct]) -> dict[str, Origin]:
    """Why each field of a request or reply may leave.

    Raises
    ------
    TypeError
        For a field that does not say so: such a type cannot be sent.
    """
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        metas = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Meta) and one.extra]
        said = [one.extra["origin"] for one in metas if one.extra and "origin" in one.extra]
        if len(said) != 1:
            raise TypeError(f"{kind.__name__}.{name} does not say why it may leave a site: give it one Origin")
        found[name] = said[0]
    return found


def _largest(kind: type[Step]) -> int:
    """Bytes that a message of this type may have."""
    if kind is Open:
        return 4 * MOST_JOB + SMALL
    if kind in (Reveal, Shape):
        return MOST_JOB
    arrays = any(part in str(hint) for hint in get_type_hints(kind).values() for part in ("Numbers", "Packet"))
    return LARGE if arrays else SMALL


ORIGINS: Mapping[type[Step], Mapping[str, Origin]] = {kind: origins(kind) for kind in _ALL}
_LARGEST = {kind: _largest(kind) for kind in _ALL}
_DECODERS: dict[type[Step], Any] = {kind: msgspec.msgpack.Decoder(kind) for kind in _ALL}
_ENCODER = msgspec.msgpack.Encoder()


def encode(message: Step) -> bytes:
    """A request or reply as it travels.

    Raises
    ------
    TypeError
        For anything that the protocol does not declare.
    """
    number = _NUMBER.get(type(message))
    if number is None:
        raise TypeError(f"{type(message).__name__} is no message of the protocol: it is not sent")
    buffer = bytearray([number])
    _ENCODER.encode_into(message, buffer, 1)
    return bytes(buffer)


def decode_request(content: bytes) -> Step:
    """The request of bytes that anybody may have made.

    Raises
    ------
    RunError
        Where they are none.
    """
    return _decode(content, REQUESTS)


def decode_reply(content: bytes, to: Step) -> Step:
    """The reply to a request: of its type, or a refusal or an interruption.

    Raises
    ------
    RunError
        Where it is none of them.
    """
    return _decode(content, (REPLIES[type(to)], *FAILURES))


def _decode(content: bytes, allowed: tuple[type[Step], ...]) -> Step:
    kind = _ALL[content[0]] if isinstance(content, bytes) and content and content[0] < len(_ALL) else None
    if kind is None or kind not in allowed:
        raise RunError("a message came that is not one of those that are due")
    if len(content) > _LARGEST[kind]:
        raise RunError(f"a message came with {len(content)} bytes, more than {_LARGEST[kind]}")
    try:
        found: Step = _DECODERS[kind].decode(memoryview(content)[1:])
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise RunError("a message came that cannot be read") from error
    return found
