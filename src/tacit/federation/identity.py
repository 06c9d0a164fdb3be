"""A party's own keys: made on its own machine, never sent, and shown to others as a card that people compare.

The TLS keys of a kit were made by whoever made the kit. What sites send each other is protected by these keys instead.
A card holds the public halves. Its fingerprint is what people read to each other by telephone.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tacit.errors import InputError
from tacit.federation.kit import Kit, check_name, check_private
from tacit.files import open_lock, read_json, wait_for_lock, write_json
from tacit.privacy.randomness import pack
from tacit.text import show

__all__ = ["Card", "OwnKeys", "as_fingerprint", "read_chain"]

OWN = "own.json"
STARTS = "starts.json"
MOST_GENERATIONS = 1000
GROUPS = 10  # of four hexadecimal digits: 160 bits
_FIELDS = ("federation", "authority", "name", "generation", "signing", "sealing", "signature", "before")


@dataclass(frozen=True)
class Card:
    """The public half of a party's keys.

    Attributes
    ----------
    federation, authority : str
        The federation, and the fingerprint of its certificate.
    name : str
        The party.
    generation : int
        1 for the first keys, one more at each rotation.
    signing, sealing : bytes
        The Ed25519 and the X25519 public key.
    signature : bytes
        Of all this, by the signing key itself.
    before : bytes
        The same, by the signing key of the generation before; empty where no earlier key vouches for this one.
    """

    federation: str
    authority: str
    name: str
    generation: int
    signing: bytes
    sealing: bytes
    signature: bytes
    before: bytes = b""

    @property
    def body(self) -> bytes:
        """The bytes of the card that its owner signs."""
        about = (self.federation, self.authority, self.name, self.generation)
        return pack("tacit card", *about, self.signing, self.sealing)

    @property
    def digest(self) -> bytes:
        """SHA-256 of what is signed."""
        return hashlib.sha256(self.body).digest()

    @property
    def fingerprint(self) -> str:
        """The digest's first 160 bits, for people."""
        digits = self.digest.hex()
        return " ".join(digits[4 * group : 4 * group + 4] for group in range(GROUPS))

    def follows(self, earlier: Card) -> bool:
        """Whether the keys of `earlier` vouch for this card as the next generation."""
        same = (self.federation, self.authority, self.name, self.generation)
        return same == (earlier.federation, earlier.authority, earlier.name, earlier.generation + 1) and _signed(
            earlier.signing, self.before, self.body
        )

    def has_signed(self, statement: bytes, signature: bytes) -> bool:
        """Whether the party signed a statement with the keys of this card."""
        return _signed(self.signing, signature, statement)

    def record(self) -> dict[str, Any]:
        """The card as it is shown to others."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}

    @classmethod
    def read(cls, record: object) -> Card:
        """A card from plain values, which anybody may have written.

        Raises
        ------
        InputError
            Where it is none, or not signed by its own key.
        """
        if not isinstance(record, Mapping) or set(record) != set(_FIELDS):
            raise InputError("a card came that is none")
        texts = {name: record[name] for name in _FIELDS if name != "generation"}
        generation = record["generation"]
        if not all(isinstance(text, str) and len(text) <= 200 for text in texts.values()):
            raise InputError("a card came that is none")
        if type(generation) is not int or not 1 <= generation <= MOST_GENERATIONS:
            raise InputError("a card came without a generation")
        signing, sealing = (_from_hex(texts[name], (32,)) for name in ("signing", "sealing"))
        signature, before = _from_hex(texts["signature"], (64,)), _from_hex(texts["before"], (0, 64))
        about = (texts["federation"], texts["authority"], check_name(texts["name"], "party"), generation)
        card = cls(*about, signing, sealing, signature, before)
        if not _signed(card.signing, card.signature, card.body):
            raise InputError(f"the card of {show(card.name)} is not signed by its own key")
        return card


def read_chain(records: object) -> tuple[Card, ...]:
    """Cards of one party from an earlier generation to the present one, each vouched for by the one before.

    Raises
    ------
    InputError
        Where they are none, or do not follow each other.
    """
    if not isinstance(records, Sequence) or isinstance(records, str | bytes) or not 1 <= len(records) <= 50:
        raise InputError("no cards came where cards were asked for")
    cards = tuple(Card.read(record) for record in records)
    if not all(later.follows(earlier) for earlier, later in itertools.pairwise(cards)):
        raise InputError(f"the cards of {show(cards[0].name)} do not follow each other")
    return cards


def as_fingerprint(text: str) -> str:
    """A fingerprint that a person typed, in the form in which it is shown.

    Raises
    ------
    InputError
        Where it is none.
    """
    digits = re.sub(r"[\s:-]", "", text).lower()
    if not re.fullmatch(rf"[0-9a-f]{{{4 * GROUPS}}}", digits):
        raise InputError(f"{show(text)} is no fingerprint: give {GROUPS} groups of four digits 0 to 9 and a to f")
    return " ".join(digits[4 * group : 4 * group + 4] for group in range(GROUPS))


@dataclass(frozen=True)
class OwnKeys:
    """A party's own keys.

    Attributes
    ----------
    signing : Ed25519PrivateKey
    sealing : X25519PrivateKey
    chain : tuple of Card
        The own cards since the last keys that no earlier ones vouch for; the last is the present one.
    """

    signing: Ed25519PrivateKey
    sealing: X25519PrivateKey
    chain: tuple[Card, ...]

    @property
    def card(self) -> Card:
        """The present card."""
        return self.chain[-1]

    @classmethod
    def of(cls, kit: Kit) -> OwnKeys:
        """The keys of a party; made where it has none yet.

        Raises
        ------
        InputError
            Where they are damaged, of another party, or can be read by others.
        """
        path = kit.identity / OWN
        if not path.exists():
            with locked(kit):  # another process may have begun at the same moment
                if not path.exists():
                    return cls._made(kit, 1)._kept(path)
        check_private(path)
        found = cls._read(path)
        card = found.card
        if (card.federation, card.authority, card.name) != (kit.federation, kit.authority.fingerprint, kit.name):
            raise InputError(f"the keys in {show(str(path))} are of another party or federation: move them away")
        return found

    @classmethod
    def _read(cls, path: Path) -> OwnKeys:
        record = read_json(path)
        try:
            signing = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(record["signing"]))
            sealing = X25519PrivateKey.from_private_bytes(bytes.fromhex(record["sealing"]))
            chain = read_chain(record["cards"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the keys in {show(str(path))} are damaged: restore them from a backup") from error
        halves = (signing.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw())
        if halves != (chain[-1].signing, chain[-1].sealing):
            raise InputError(f"the keys in {show(str(path))} are damaged: restore them from a backup")
        return cls(signing, sealing, chain)

    @classmethod
    def _made(cls, kit: Kit, generation: int, before: OwnKeys | None = None) -> OwnKeys:
        signing, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        halves = (signing.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw())
        about = (kit.federation, kit.authority.fingerprint, kit.name, generation)
        body = Card(*about, *halves, b"").body
        vouched = before.signing.sign(body) if before is not None else b""
        card = Card(*about, *halves, signing.sign(body), vouched)
        return cls(signing, sealing, (*(before.chain if before is not None else ()), card))

    def _kept(self, path: Path) -> OwnKeys:
        record = {
            "signing": self.signing.private_bytes_raw().hex(),
            "sealing": self.sealing.private_bytes_raw().hex(),
            "cards": [card.record() for card in self.chain],
        }
        write_json(path, record, secret=True)
        return self

    def rotate(self, kit: Kit, *, stolen: bool = False) -> OwnKeys:
        """Make new keys in the place of these, which are deleted.

        Parameters
        ----------
        kit : Kit
        stolen : bool, default False
            Whether somebody else may have the present keys: then they do not vouch for the new ones, and everybody
            has to compare and confirm the new fingerprint.
        """
        before = None if stolen else self
        with locked(kit):
            return self._made(kit, self.card.generation + 1, before)._kept(kit.identity / OWN)

    def cards(self) -> list[dict[str, Any]]:
        """What is shown to others: the last 50 cards at most."""
        return [card.record() for card in self.chain[-50:]]


@contextmanager
def locked(kit: Kit) -> Iterator[None]:
    """Keep every other process away from the folder of the identity."""
    _make_folder(kit)
    with os.fdopen(open_lock(kit.identity / "lock"), "r+b") as file:
        wait_for_lock(file)
        yield


def count_start(kit: Kit) -> int:
    """How many processes of this site have begun to talk to others, this one included; grows on the disk."""
    with locked(kit):
        number = 1 + starts_of(kit)
        write_json(kit.identity / STARTS, {"starts": number}, secret=True)
    return number


def starts_of(kit: Kit) -> int:
    """How many processes of this site have begun to talk to others, by its own disk."""
    path = kit.identity / STARTS
    return int(read_json(path)["starts"]) if path.exists() else 0


def raise_starts(kit: Kit, least: int) -> int:
    """Let the next process have a larger number than others have seen; the number from which it goes on."""
    with locked(kit):
        number = max(least, starts_of(kit))
        write_json(kit.identity / STARTS, {"starts": number}, secret=True)
    return number


def start_statement(run: str, process: bytes, start: int) -> bytes:
    """What a site signs of a process of its own: its run, its key and its number."""
    return pack("tacit start", run, process, start)


def _make_folder(kit: Kit) -> None:
    kit.make_home()
    kit.identity.mkdir(mode=0o700, exist_ok=True)
    check_private(kit.identity)


def _signed(key: bytes, signature: bytes, body: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return False
    return True


def _from_hex(text: str, sizes: tuple[int, ...]) -> bytes:
    try:
        content = bytes.fromhex(text)
    except ValueError as error:
        raise InputError("a card came that is none") from error
    if len(content) not in sizes or content.hex() != text:
        raise InputError("a card came that is none")
    return content
