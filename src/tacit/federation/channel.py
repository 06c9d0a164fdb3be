"""What sites send each other, sealed end to end between their own keys. Knows no transport.

Each process of a site has an X25519 key of its own besides the site's lasting one. Two processes agree on secrets by
X25519 between all four keys (as the pattern KK of the Noise framework does), and HKDF-SHA256 of the results, bound to
the cards of both sites, to the run, to who asks and who answers, and to the process keys. Each message has a key of its
own, made from a secret and 32 random bytes, for ChaCha20-Poly1305. All of it is from the `cryptography` package.

| what somebody in the middle tries | why it fails |
|---|---|
| read or change a message | ChaCha20-Poly1305 under keys that need a private key of one of the two sites |
| send as another site | the lasting key of that site is needed; its card was confirmed by people |
| replay a message of an earlier process or run | the process keys and the run are in the secrets |
| replay or reorder within a run | requests are numbered; each says below which number nothing is awaited any more |
| hand a reply to another request | the reply is bound to the random bytes and the tag of its request |
| reflect a message to who sent it | requests and replies, and the two directions of asking, have different secrets |
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import TacitError
from tacit.federation.identity import Card, OwnKeys, start_statement
from tacit.privacy.randomness import KEY_BYTES, derive_key, pack

__all__ = ["Channel", "PeerConnection", "SealError", "Sealed", "SealedRequest", "UnconfirmedError"]

SALT = 32
TAG = 16
MOST_OPEN = 64  # requests of one site that it may await at once
MOST_BYTES = 2**31 - 1  # what ChaCha20Poly1305 of the package takes
_ONCE = bytes(12)  # each key seals one message


class SealError(TacitError):
    """A message that nobody confirmed has sealed so; why is for the log of this site alone."""


class UnconfirmedError(SealError):
    """A message from somebody whose card is not confirmed here."""


class Sealed(NamedTuple):
    """A sealed message: random bytes, and what is sealed."""

    salt: bytes
    content: bytes

    @property
    def message_id(self) -> bytes:
        """What names this message: nobody else can make another one with it."""
        return self.salt + self.content[-TAG:]


class SealedRequest(NamedTuple):
    """A request as it travels: who says to have sent it, from which process, its numbers, and the sealed content."""

    sender: str
    process: bytes
    start: int
    number: int
    floor: int
    sealed: Sealed


@dataclass
class PeerConnection:
    """The way from this process, which asks, to one process of another site, which answers.

    Attributes
    ----------
    name : str
        The other site.
    process : bytes
        The public key of its process.
    """

    name: str
    process: bytes
    _own: tuple[str, bytes, int]
    _secrets: tuple[bytes, bytes]
    _next: int = 1
    _open: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seal(self, content: bytes) -> SealedRequest:
        """A request with the next number; `done` says that its answer is no longer awaited."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._open.add(number)
            floor = min(self._open)
        sealed = _seal(self._secrets[0], content, pack("request", number, floor))
        return SealedRequest(*self._own, number, floor, sealed)

    def open(self, request: SealedRequest, reply: Sealed) -> bytes:
        """The content of a reply to this request.

        Raises
        ------
        SealError
            Where it is not the answer of that process to this request.
        """
        return _open(self._secrets[1], reply, pack("reply", request.number, request.sealed.message_id))

    def done(self, request: SealedRequest) -> None:
        """Say that the answer to a request came, or is no longer awaited."""
        with self._lock:
            self._open.discard(request.number)


class _Inbox:
    """The requests of one process of another site: each number is answered once, and old ones never."""

    def __init__(self, card: bytes, process: bytes, start: int, secrets: tuple[bytes, bytes]) -> None:
        self.of, self.start, self.secrets = (card, process), start, secrets
        self._floor, self._lock = 1, threading.Lock()
        self._answers: dict[int, tuple[bytes, Future[Sealed]]] = {}

    def answer(self, request: SealedRequest, content: bytes, work: Callable[[bytes], bytes]) -> Sealed:
        """The sealed answer; where the same request came before, the same one, which may have to be waited for."""
        with self._lock:
            if request.number < self._floor or request.number >= request.floor + MOST_OPEN:
                raise SealError(f"number {request.number} came, of which nobody awaits the answer")
            self._floor = max(self._floor, request.floor)
            for old in [number for number in self._answers if number < self._floor]:
                del self._answers[old]
            new = request.number not in self._answers
            message_id, answer = self._answers.setdefault(request.number, (request.sealed.message_id, Future()))
            if message_id != request.sealed.message_id:
                raise SealError(f"two requests came with number {request.number}")
        if new:
            try:
                context = pack("reply", request.number, request.sealed.message_id)
                answer.set_result(_seal(self.secrets[1], work(content), context))
            except BaseException as error:
                answer.set_exception(error)
        return answer.result()


class Channel:
    """One process of a site, which asks others and answers them.

    Parameters
    ----------
    identity : OwnKeys
        The site's own keys.
    card_of : callable
        The confirmed card of a site by its name; None where there is none.
    run : str
        The run that this process is for: nothing of another is taken.
    start : int
        Which process of this site it is: later ones have larger numbers.
    """

    def __init__(self, identity: OwnKeys, card_of: Callable[[str], Card | None], run: str, start: int) -> None:
        self.identity, self.card_of, self.run, self.start = identity, card_of, run, start
        self._process = X25519PrivateKey.generate()
        self._inboxes: dict[str, _Inbox] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of this process's own site."""
        return self.identity.card.name

    @property
    def process(self) -> bytes:
        """The public key of this process."""
        return self._process.public_key().public_bytes_raw()

    def start_proof(self) -> bytes:
        """The site's signature of the number of this process."""
        return self.identity.signing.sign(start_statement(self.run, self.process, self.start))

    def line(self, name: str, process: bytes) -> PeerConnection:
        """A way to a process of another site, by the public key that it gave.

        Raises
        ------
        UnconfirmedError
            Where the card of that site is not confirmed here.
        SealError
            Where the key is none.
        """
        card = self._card(name)
        context = self._context(self.identity.card, self.process, self.start, card, process)
        secrets = self._agree(card, process, context, asks=True)
        return PeerConnection(name, process, (self.name, self.process, self.start), secrets)

    def answer(self, request: SealedRequest, work: Callable[[bytes, str], bytes]) -> Sealed:
        """Do what a request asks for, once, and seal the answer.

        Parameters
        ----------
        request : SealedRequest
            As it came: anybody may have made it.
        work : callable
            Takes the content and the name of the site that sealed it, and returns the answer.

        Raises
        ------
        UnconfirmedError
            Where the card of who says to have sent it is not confirmed here.
        SealError
            Where that site did not seal it, for this process, in this run; or where it is old.
        """
        inbox = self._inbox(request)
        content = _open(inbox.secrets[0], request.sealed, pack("request", request.number, request.floor))
        with self._lock:  # only now it is sure who sent it
            known = self._inboxes.get(request.sender)
            if known is None or known.start < inbox.start:
                self._inboxes[request.sender] = inbox
            elif known.of != inbox.of:
                raise SealError(f"a message of an earlier process of {request.sender!r} came")
            else:
                inbox = known
        return inbox.answer(request, content, lambda plain: work(plain, request.sender))

    def _inbox(self, request: SealedRequest) -> _Inbox:
        card = self._card(request.sender)  # also of one who was heard before: it may have been revoked since
        context = self._context(card, request.process, request.start, self.identity.card, self.process)
        with self._lock:
            known = self._inboxes.get(request.sender)
        if known is not None and (known.of, known.start) == ((card.digest, request.process), request.start):
            return known
        secrets = self._agree(card, request.process, context, asks=False)
        return _Inbox(card.digest, request.process, request.start, secrets)

    def _card(self, name: str) -> Card:
        card = self.card_of(name) if name != self.name else None
        if card is None:
            raise UnconfirmedError(f"no key of {name[:80]!r} is confirmed here")
        return card

    def _context(self, asking: Card, process: bytes, start: int, answering: Card, other: bytes) -> bytes:
        """Who asks and who answers, with their cards (which name the federation), and in which run."""
        return pack("tacit channel 1", self.run, asking.digest, start, process, answering.digest, other)

    def _agree(self, card: Card, process: bytes, context: bytes, *, asks: bool) -> tuple[bytes, bytes]:
        """The secrets of requests and of replies."""
        try:
            lasting, passing = (X25519PublicKey.from_public_bytes(key) for key in (card.sealing, process))
            ours, own = self.identity.sealing, self._process
            crossed = [ours.exchange(passing), own.exchange(lasting)]  # the asking site's lasting key first
            shared = [ours.exchange(lasting), own.exchange(passing), *(crossed if asks else reversed(crossed))]
        except ValueError as error:  # of a wrong length, or a point of small order
            raise SealError(f"{card.name!r} gave a key that is none") from error
        made = HKDF(algorithm=SHA256(), length=2 * KEY_BYTES, salt=None, info=context).derive(b"".join(shared))
        return made[:KEY_BYTES], made[KEY_BYTES:]


def _seal(secret: bytes, content: bytes, about: bytes) -> Sealed:
    if len(content) > MOST_BYTES - TAG:
        raise SealError(f"a message of {len(content)} bytes is too large to be sealed")
    salt = os.urandom(SALT)
    return Sealed(salt, ChaCha20Poly1305(derive_key(secret, "message", salt)).encrypt(_ONCE, content, about))


def _open(secret: bytes, sealed: Sealed, about: bytes) -> bytes:
    if len(sealed.salt) != SALT:
        raise SealError("a message came with random bytes of another length")
    try:
        return ChaCha20Poly1305(derive_key(secret, "message", sealed.salt)).decrypt(_ONCE, sealed.content, about)
    except (InvalidTag, ValueError, OverflowError) as error:
        raise SealError("a message came that was not sealed by who it says, for this process") from error
