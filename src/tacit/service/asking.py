"""A line to one party: requests with time limits, replies checked, refusals as one line."""

from __future__ import annotations

import math
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import numpy as np
from pydantic import BaseModel, ValidationError

from tacit.errors import InputError, RunError
from tacit.privacy.aggregation import SHARE, unmask_sum
from tacit.run.own_scores import ABSENT
from tacit.service.access import is_loopback
from tacit.service.wire import VERSION, Agreed, ModelCard, ScoresReply, SessionKey, words_from_text
from tacit.text import listing, one_line, plural, show
from tacit.types import Vector, Words

# --- A line to one party: requests with time limits, replies checked, refusals as one line


Called_ = TypeVar("Called_", bound=BaseModel)
MOST_BYTES = 2**22  # of an answer: 10,000 scores take a tenth of it
AWAY = (502, 503, 504)  # a party behind a proxy that is away, or has too many connections


class AwayError(RunError):
    """A party that cannot be reached, or does not answer in time."""


class PartyClient:
    """How one party is reached.

    Parameters
    ----------
    name, url : str
    token : str, optional
    tls : ssl.SSLContext, optional
        What is trusted, and the caller's certificate.
    seconds : float
        How long to wait for an answer.
    """

    def __init__(
        self, name: str, url: str, token: str | None = None, tls: ssl.SSLContext | None = None, seconds: float = 30.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{show(url)} is no address of {show(name)}: give http://HOST:PORT or https://HOST:PORT")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InputError(f"{show(url)} would send ids and token in the clear: use https://")
        self.name, self.url, self._seconds = name, url.rstrip("/"), seconds
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Accept-Encoding": "identity"} | ({} if token is None else {"Authorization": f"Bearer {token}"}),
            verify=tls if tls is not None else True,
            timeout=httpx.Timeout(seconds, connect=min(5.0, seconds)),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections to this party."""
        self._client.close()

    def get(self, path: str, kind: type[Called_]) -> Called_:
        """The reply of the party to a GET request, checked against its kind."""
        return self._call("GET", path, None, kind, 1)

    def post(self, path: str, body: dict[str, Any], kind: type[Called_], *, tries: int = 1) -> Called_:
        """Send something; the same request again gets the same answer, so that it may be tried twice."""
        return self._call("POST", path, body, kind, tries)

    def _call(self, method: str, path: str, body: dict[str, Any] | None, kind: type[Called_], tries: int) -> Called_:
        try:
            response = self._whole(method, path, body)
        except httpx.TransportError as error:
            if tries > 1:
                return self._call(method, path, body, kind, tries - 1)
            if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error) or "certificate" in str(error):
                raise RunError(f"{self.name} and we do not trust each other's certificates: {error}") from error
            raise AwayError(f"{self.name} is away") from error
        if response.status_code in AWAY:
            raise AwayError(f"{self.name} is away")
        if response.status_code != httpx.codes.OK:
            raise RunError(f"{self.name} refuses: {_reason(response)}")
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise RunError(f"{self.name} sent what is no {kind.__name__}: is it this service?") from error

    def _whole(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        """The answer, read as far as an answer can be long, in a bounded time."""
        until, parts, size = time.monotonic() + self._seconds, list[bytes](), 0
        with self._client.stream(method, path, json=body) as response:
            for part in response.iter_raw():  # as it comes: what was packed could unpack to any size
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES or time.monotonic() > until:
                    raise RunError(f"{self.name} sent more than an answer can be, or too slowly: is it this service?")
            return httpx.Response(response.status_code, headers=_plain_reply(response.headers), content=b"".join(parts))


def _plain_reply(headers: httpx.Headers) -> httpx.Headers:
    """Without what would make the content be unpacked."""
    return httpx.Headers([(name, value) for name, value in headers.items() if name != "content-encoding"])


def _reason(response: httpx.Response) -> str:
    try:
        text = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        text = response.reason_phrase
    wait = response.headers.get("Retry-After")
    line = one_line(RunError(text))
    return line if wait is None else f"{line} (again in {one_line(RunError(wait))} s)"


# --- The asking side: open a session between the parties, ask each for its masked scores, and add them up


RENEW = 300.0  # seconds after which a new session is opened, well before the parties end the old one
Reply_ = TypeVar("Reply_", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class ScoreSum:
    """The sum of the parties' scores.

    Attributes
    ----------
    total : Vector
        One number for each id; of more than two classes a row, with a number for each class.
    replaced : tuple of str
        Parties that were away; each counts as `ABSENT`, the part of an average row.
    fingerprint : str
        Of the keys of the last session; empty where nothing was masked.
    """

    total: Vector
    replaced: tuple[str, ...]
    fingerprint: str


class Asker:
    """Somebody who asks.

    Parameters
    ----------
    lines : mapping of str to PartyClient
        How each party is reached.
    degrade : bool
        Whether to go on without parties that are away; their peers must allow it.
    outputs : int
        Numbers of a score: 1, or of more than two classes how many there are.
    """

    def __init__(self, lines: Mapping[str, PartyClient], *, degrade: bool = False, outputs: int = 1) -> None:
        self._lines, self._degrade, self._outputs = dict(lines), degrade, outputs
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(lines)))

    def close(self) -> None:
        """Close the connections to all parties."""
        self._pool.shutdown()
        for line in self._lines.values():
            line.close()

    def ask(self, ids: Sequence[str]) -> ScoreSum:
        """The sum of all parties' scores of each id.

        Raises
        ------
        RunError
            Where a party is away or refuses; the message names it.
        """
        cards, away = self._each(list(self._lines), lambda line: line.get("/v1/model", ModelCard))
        self._check(cards)
        self._accept(away)
        meeting = self._meet(cards, away)
        size = min((card.most_ids for card in cards.values()), default=1)
        total = np.full(self._shape(len(ids)), ABSENT * len(away))
        for start in range(0, len(ids), size):
            if meeting.is_old:
                meeting = self._renew(meeting, cards, start)
            part = ids[start : start + size]
            total[start : start + len(part)] += self._sum(meeting, part, start)
        replaced = tuple(name for name in self._lines if name not in meeting.parties)
        return ScoreSum(total, replaced, meeting.fingerprint)

    def _meet(self, cards: Mapping[str, ModelCard], away: Sequence[str]) -> _Meeting:
        """Agree on keys; whoever goes away meanwhile is left out, as nothing was asked yet."""
        alone = [name for name, card in cards.items() if card.least == 1]
        masked = sorted(set(cards) - set(alone))
        while True:
            meeting = _Meeting(secrets.token_urlsafe(24), tuple(alone), tuple(masked), time.monotonic())
            if not masked:
                return meeting
            gone = self._agree(meeting)
            if not gone:
                return meeting
            away = [*away, *gone]
            self._accept(away)
            masked = [name for name in masked if name not in gone]

    def _renew(self, old: _Meeting, cards: Mapping[str, ModelCard], done: int) -> _Meeting:
        """A new session of the same parties, so that all rows are sums over the same ones."""
        new = self._meet({name: cards[name] for name in old.parties}, [])
        if new.parties != old.parties:
            gone = set(old.parties) - set(new.parties)
            raise RunError(f"{listing(sorted(gone))} went away after {plural(done, 'id')}: ask again for the rest")
        return new

    def _agree(self, meeting: _Meeting) -> list[str]:
        """Let the parties of a meeting agree on keys; return who is gone."""
        names, path = list(meeting.masked), "/v1/sessions"
        body: dict[str, Any] = {"session": meeting.session, "parties": names}
        keys, gone = self._each(names, lambda line: line.post(path, body, SessionKey))
        if gone:
            return gone
        told = {"keys": [key.model_dump() for key in keys.values()]}
        agreed, gone = self._each(names, lambda line: line.post(f"{path}/{meeting.session}/keys", told, Agreed))
        prints = {one.fingerprint for one in agreed.values()}
        if len(prints) > 1:
            raise RunError("the parties agreed on different keys: somebody changed them on the way")
        meeting.fingerprint = "" if gone else prints.pop()
        return gone

    def _sum(self, meeting: _Meeting, ids: Sequence[str], done: int) -> Vector:
        """The sum for some ids, which is asked once: with fewer parties it would tell the score of who is missing."""
        body: dict[str, Any] = {"number": meeting.number, "ids": list(ids)}
        masked = body | {"session": meeting.session}
        meeting.number += 1

        def post(line: PartyClient) -> ScoresReply:
            return line.post("/v1/scores", masked if line.name in meeting.masked else body, ScoresReply, tries=2)

        answers, gone = self._each(meeting.parties, post)
        if gone:
            raise RunError(
                f"{listing(gone)} went away after {plural(done, 'id')}: ask again when it is back, since the others do "
                "not answer for these ids without it"
            )
        shape = self._shape(len(ids))
        total = np.zeros(shape)
        for name in meeting.alone:
            total += _plain(answers[name], shape)
        if meeting.masked:
            words = {name: _masked(answers[name], shape) for name in meeting.masked}
            total += unmask_sum(words, meeting.masked, SHARE)
        return total

    def _shape(self, ids: int) -> tuple[int, ...]:
        return (ids,) if self._outputs == 1 else (ids, self._outputs)

    def _each(self, names: Sequence[str], call: Callable[[PartyClient], Reply_]) -> tuple[dict[str, Reply_], list[str]]:
        """Call several parties at once: their answers, and who is away."""
        waiting = {name: self._pool.submit(call, self._lines[name]) for name in names}
        found, away = {}, []
        for name, answer in waiting.items():
            try:
                found[name] = answer.result()
            except AwayError:
                away.append(name)
        return found, away

    def _accept(self, away: Sequence[str]) -> None:
        if len(away) == len(self._lines):
            raise RunError(f"{listing(away)}: nobody is there; ask again later")
        if away and not self._degrade:
            raise RunError(f"{listing(away)} is away: ask again later, or count its part as average with --degrade")

    def _check(self, cards: Mapping[str, ModelCard]) -> None:
        for name, card in cards.items():
            if card.party != name:
                raise RunError(f"{self._lines[name].url} is {card.party}, not {name}: fix the address")
            if card.version != VERSION:
                raise RunError(f"{name} speaks version {card.version}, this is version {VERSION}: update one of them")
            if card.outputs != self._outputs:
                raise RunError(
                    f"{name} answers with {plural(card.outputs, 'number')} for each id, and this model needs "
                    f"{self._outputs}: its service must have its part of this run"
                )


@dataclass
class _Meeting:
    """Who answers in a session, and the number of the next request."""

    session: str
    alone: tuple[str, ...]
    masked: tuple[str, ...]
    opened: float
    fingerprint: str = ""
    number: int = 0

    @property
    def parties(self) -> tuple[str, ...]:
        return (*self.alone, *self.masked)

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self.opened > RENEW


def _plain(answer: ScoresReply, shape: tuple[int, ...]) -> Vector:
    lists = answer.scores or []
    even = len({np.shape(one) for one in lists}) == 1  # numpy makes no array of lists that differ in length
    scores = np.array(lists if even else [], dtype=np.float64)
    if scores.shape != shape or not np.all(np.abs(scores) <= SHARE.bound):
        raise RunError(f"{answer.party} did not answer with {plural(shape[0], 'score')}")
    return scores


def _masked(answer: ScoresReply, shape: tuple[int, ...]) -> Words:
    try:
        return words_from_text(answer.masked or "", math.prod(shape), SHARE.words).reshape(-1, *shape)
    except ValueError as error:
        raise RunError(f"{answer.party} did not answer with {plural(shape[0], 'masked score')}") from error
