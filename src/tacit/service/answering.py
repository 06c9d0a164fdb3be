"""A party's side: what it answers to whom, under which rules; nothing here knows about HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tacit.errors import InputError, RunError
from tacit.privacy.aggregation import SHARE, MaskingParty, fingerprint
from tacit.privacy.randomness import pack
from tacit.run.own_scores import OwnScores
from tacit.service.identity import Identity, same, statement, vouched
from tacit.service.state import ScoreSession, ScoreSessions, State
from tacit.service.wire import (
    MOST_IDS,
    VERSION,
    ModelCard,
    RefusedError,
    ScoresReply,
    SessionKey,
    to_bytes,
    to_text,
    words_to_text,
)
from tacit.text import listing, show

ALONE = 1


@dataclass(frozen=True)
class Rules:
    """What a party allows.

    Attributes
    ----------
    least : int
        Parties that must answer together, this one included; 1 answers alone, in the clear.
    per_day : int
        Ids that one caller may ask for in a day (UTC).
    most_ids : int
        Ids in one request.
    sessions, seconds : int, float
        Sessions of one caller at a time, and how long one lasts.
    """

    least: int
    per_day: int = 1000
    most_ids: int = 1000
    sessions: int = 16
    seconds: float = 900.0

    def __post_init__(self) -> None:
        for name, most in (("least", None), ("per_day", None), ("most_ids", MOST_IDS), ("sessions", None)):
            value = getattr(self, name)
            if value < 1 or (most is not None and value > most):
                upper = "" if most is None else f" to {most}"
                raise InputError(f"{name.replace('_', '-')} {value} is not allowed: it must be from 1{upper}")


class Answerer:
    """One party that answers.

    Parameters
    ----------
    own : OwnScores
    state : State
    rules : Rules
    identity : Identity
    peers : mapping of str to Ed25519PublicKey
        Identities of the parties with which this one answers; it may be among them. Not used where it answers alone.
    """

    def __init__(
        self,
        own: OwnScores,
        state: State,
        rules: Rules,
        identity: Identity,
        peers: Mapping[str, Ed25519PublicKey] | None = None,
    ) -> None:
        self.own, self.state, self.rules, self.identity = own, state, rules, identity
        self._peers = dict(peers or {})
        told = self._peers.pop(own.party, None)
        if told is not None and not same(told, identity):
            raise InputError(f"the peers know another identity of {show(own.party)}: it is {identity.text}")
        if rules.least > 1 + len(self._peers):
            raise InputError(f"least {rules.least} is not allowed: with its peers there are {1 + len(self._peers)}")
        self._sessions = ScoreSessions(rules.sessions, rules.seconds)

    @property
    def card(self) -> ModelCard:
        """What anybody who may ask can know."""
        return ModelCard(
            version=VERSION,
            party=self.own.party,
            fingerprint=self.state.digest("part", self.own.part).hex(),
            identity=self.identity.text,
            least=self.rules.least,
            most_ids=self.most_ids,
            per_day=self.rules.per_day,
            outputs=self.own.outputs,
        )

    @property
    def most_ids(self) -> int:
        """Ids in one request: so many that an answer has at most `MOST_IDS` numbers."""
        return max(1, min(self.rules.most_ids, MOST_IDS // self.own.outputs))

    def open(self, caller: str, name: str, parties: Sequence[str]) -> SessionKey:
        """Draw a key for a session with these parties; the same again where it is open already."""
        self._check_roster(parties)
        roster = tuple(sorted(parties))

        def make(ends: float) -> ScoreSession:
            masks = MaskingParty(self.own.party, name)
            signature = self.identity.sign(statement(name, self.own.party, roster, masks.public_bytes))
            return ScoreSession(caller, roster, masks, signature, ends)

        session = self._sessions.open(name, caller, make)
        if session.roster != roster:
            raise RefusedError(409, "a session of this name is open with other parties: take a fresh name")
        key, signature = to_text(session.masks.public_bytes), to_text(session.signature)
        return SessionKey(party=self.own.party, key=key, signature=signature)

    def agree(self, caller: str, name: str, keys: Sequence[SessionKey]) -> str:
        """Agree on secrets with the others, whose keys were passed on; return the fingerprint of all keys."""
        session = self._sessions.get(name, caller)
        told = {one.party: one for one in keys}
        if tuple(sorted(told)) != session.roster or len(told) < len(keys):
            raise RefusedError(409, f"the keys are not those of {listing(session.roster)}: pass one of each on")
        raw = {party: to_bytes(one.key) for party, one in told.items()}
        for party in session.roster:
            signature = to_bytes(told[party].signature)
            if party != self.own.party and not vouched(self._peers, name, party, session.roster, raw[party], signature):
                raise RefusedError(403, f"the key of {show(party)} is not signed by its identity for this session")
        if raw[self.own.party] != session.masks.public_bytes:
            raise RefusedError(403, f"{show(self.own.party)} was passed a key as its own that is not")
        print_ = fingerprint(raw)
        with session.lock:
            if not session.fingerprint:
                try:
                    session.masks.agree({party: key for party, key in raw.items() if party != self.own.party})
                except RunError as error:
                    raise RefusedError(403, str(error)) from error
                session.fingerprint = print_
        if session.fingerprint != print_:
            raise RefusedError(409, "this session has agreed on other keys: open a new one")
        return print_

    def answer(self, caller: str, name: str | None, number: int, ids: Sequence[str]) -> tuple[ScoresReply, int]:
        """Scores of the ids, masked; and how many ids are unknown, which is for the party's own log alone."""
        plain = [one.strip() for one in ids]  # as ids of a file are
        if len(plain) > self.most_ids:
            raise RefusedError(403, f"{len(plain)} ids in one request, more than {self.most_ids}: ask in parts")
        if self.rules.least == ALONE:
            return self._answer_alone(caller, name, number, plain)
        if name is None:
            raise RefusedError(403, "this party answers with others alone: open a session with them")
        session = self._sessions.get(name, caller)
        digest = hashlib.sha256(pack(*plain)).digest()
        with session.lock:
            unknown = 0
            if not self._is_repeated(session, number, digest):
                self.state.take(caller, plain, session.roster, self.rules.per_day)
                scores, unknown = self.own.of(plain)
                # Masks cancel where all parties were asked for the same ids, and nowhere else.
                masked = session.masks.mask(number, f"scores {digest.hex()}", scores, SHARE)
                session.number, session.digest, session.answer = number, digest, words_to_text(masked)
            return ScoresReply(party=self.own.party, number=number, masked=session.answer), unknown

    def _answer_alone(self, caller: str, name: str | None, number: int, ids: Sequence[str]) -> tuple[ScoresReply, int]:
        if name is not None:
            raise RefusedError(403, "this party answers alone: leave the session out")
        self.state.take(caller, ids, (self.own.party,), self.rules.per_day)
        scores, unknown = self.own.of(ids)
        return ScoresReply(party=self.own.party, number=number, scores=scores.tolist()), unknown

    def _check_roster(self, parties: Sequence[str]) -> None:
        if self.rules.least == ALONE:
            raise RefusedError(403, "this party answers alone: it has no sessions")
        if len(set(parties)) < len(parties) or self.own.party not in parties:
            raise RefusedError(403, f"name each party once, {show(self.own.party)} among them")
        strangers = sorted(set(parties) - {self.own.party, *self._peers})
        if strangers:
            raise RefusedError(403, f"{show(self.own.party)} has no identity of {listing(strangers)}")
        if len(parties) < self.rules.least:
            raise RefusedError(
                403, f"{show(self.own.party)} answers together with at least {self.rules.least - 1} others"
            )

    def _is_repeated(self, session: ScoreSession, number: int, digest: bytes) -> bool:
        """Whether this is the last request again; a number that was used for other ids is refused."""
        if not session.fingerprint:
            raise RefusedError(409, "this session has no keys of the others yet: pass them on first")
        if number < session.number:
            raise RefusedError(409, f"request {number} is over: numbers grow, the last was {session.number}")
        if number == session.number and digest != session.digest:
            raise RefusedError(409, f"request {number} was for other ids: take the next number")
        return number == session.number
