"""A request that a party refuses: the HTTP status, and one line for whoever asked."""

from __future__ import annotations

import base64
from typing import Annotated

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from tacit.errors import TacitError
from tacit.types import Words

# --- A request that a party refuses: the HTTP status, and one line for whoever asked


class RefusedError(TacitError):
    """A request is refused.

    Parameters
    ----------
    status : int
        HTTP status.
    text : str
        Why, and the way out; never an id or a score.
    retry_after : int, optional
        Seconds after which the same request may be answered.
    """

    def __init__(self, status: int, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after


# --- What travels: the requests and answers of the service, version 1


VERSION = 1
MOST_IDS, MOST_PARTIES, MOST_NUMBER = 10_000, 64, 2**53 - 1
SESSION = "^[A-Za-z0-9_-]{16,64}$"

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
SessionName = Annotated[str, StringConstraints(pattern=SESSION)]
Key = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9+/]{43}=$")]  # 32 bytes in base64
Signature = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9+/]{86}==$")]  # 64 bytes


def _whole(value: object) -> object:
    """JSON has one kind of numbers: 2.0 is a whole one, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Number = Annotated[int, Field(ge=0, le=MOST_NUMBER), BeforeValidator(_whole)]


class Strict(BaseModel):
    """Nothing but what is named, of the type that is named."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ProblemReply(Strict, title="Problem"):
    """Why a request was refused, in one line."""

    __qualname__ = "Problem"  # its name in openapi.json

    detail: str


class Health(Strict):
    """The service runs."""

    status: str


class ModelCard(Strict):
    """What may be known of a party's part of the model: no coefficients, no columns, no numbers of rows.

    `least` parties must answer together; 1 means that the party answers alone, in the clear. `fingerprint` changes with
    the part; nobody can compute it from a guess of the part. `outputs` is how many numbers a score has: 1, or of more
    than two classes one for each.
    """

    version: int
    party: str
    fingerprint: str
    identity: str
    least: int
    most_ids: int
    per_day: int
    outputs: int = 1


class OpenSession(Strict):
    """Begin a session: its name, fresh, and all parties that shall answer together."""

    session: SessionName
    parties: Annotated[list[Name], Field(min_length=2, max_length=MOST_PARTIES)]


class SessionKey(Strict):
    """A party's public key for one session, with its signature."""

    party: Name
    key: Key
    signature: Signature


class PassKeys(Strict):
    """The keys of all parties of a session."""

    keys: Annotated[list[SessionKey], Field(min_length=2, max_length=MOST_PARTIES)]


class Agreed(Strict):
    """The fingerprint of all keys: the same at every party."""

    fingerprint: str


class AskScores(Strict):
    """Ask for scores; `number` grows from request to request of a session. Who answers alone has no session."""

    session: SessionName | None = None
    number: Number
    ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_IDS)]


class ScoresReply(Strict, title="Scores"):
    """Scores in the order of the ids: `masked` (64-bit words in base64), or `scores` of a party that answers alone.

    Of more than two classes a score is a list, with a number for each class; under masks these follow each other.
    """

    __qualname__ = "Scores"  # its name in openapi.json
    party: str
    number: int
    masked: str | None = None
    scores: list[float] | list[list[float]] | None = None


def to_text(data: bytes) -> str:
    """Bytes as base64."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """The bytes that a base64 text stands for; ValueError where it is none."""
    return base64.b64decode(text, validate=True)


def words_to_text(words: Words) -> str:
    """Masked numbers as base64 of little-endian words, the lowest words of all numbers first."""
    return to_text(words.astype("<u8").tobytes())


def words_from_text(text: str, count: int, words: int) -> Words:
    """Masked numbers again; ValueError where there are not `count` of them."""
    return np.frombuffer(to_bytes(text), dtype="<u8").astype(np.uint64).reshape(words, count)
