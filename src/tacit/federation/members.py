"""The keys of the other members, as people here have confirmed them, and keys of masks that these vouch for.

A card that comes for the first time is only kept. Somebody compares its fingerprint with its owner by telephone and
confirms it (`tacit federation members KIT --confirm NAME`). From then on another card of that name is refused, except
the next generation that the confirmed keys vouch for. A revoked card never comes back.

The lead passes the keys of masks on. Were they only numbers, it could pass keys of its own on to everybody, and read
every party alone. So each comes with the card of its party and a signature, which says: this key is for the masks of
this run, job, plan and parties. A party that has confirmed the card of another refuses every other key in its name.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tacit.errors import InputError
from tacit.federation.identity import OWN, Card, OwnKeys, as_fingerprint, locked, read_chain
from tacit.federation.kit import PARTY, Kit, check_private
from tacit.federation.protocol import Reason, RefusalError
from tacit.files import read_json, write_json
from tacit.records import as_list, as_record, as_text, check_names
from tacit.text import one_line, show
from tacit.types import Words

# --- The keys of the other members, as people at this organisation have confirmed them


FILE = "members.json"
WAITS = "waits.json"
SEEN = "starts-seen.json"  # numbers of the others' processes, with fingerprints of these
MOST_STARTS = 1000  # numbers of a member that are remembered
RESTORED_LINE = (
    "process {start} of {name} came a second time, as another process: the home of {name} was put back to an older "
    "copy, and forgot what it spent since; call them: tacit federation restored KIT --starts {seen} there"
)
CONFIRMED, UNCONFIRMED, REVOKED, UNKNOWN = "confirmed", "not confirmed", "revoked", "not seen yet"
STATES = (CONFIRMED, UNCONFIRMED, REVOKED, UNKNOWN)
_FIELDS = ("card", "seen", "pinned", "note")


@dataclass(frozen=True)
class KnownMember:
    """What is known of one member.

    Attributes
    ----------
    card : Card or None
        The confirmed one.
    seen : Card or None
        One that came and is not confirmed.
    pinned : str
        A fingerprint that was confirmed before its card came; empty where none was.
    note : str
        What happened last, for people.
    """

    card: Card | None = None
    seen: Card | None = None
    pinned: str = ""
    note: str = ""

    def record(self) -> dict[str, Any]:
        """The member as its entry in members.json."""
        cards = {
            name: None if card is None else card.record() for name, card in (("card", self.card), ("seen", self.seen))
        }
        return {**cards, "pinned": self.pinned, "note": self.note}

    @classmethod
    def read(cls, value: object) -> KnownMember:
        """The member of an entry in members.json, checked."""
        record = as_record(value, "a member")
        check_names(record, "a member", _FIELDS)
        card, seen = (None if record[name] is None else Card.read(record[name]) for name in ("card", "seen"))
        return cls(card, seen, as_text(record["pinned"], "pinned"), as_text(record["note"], "note"))


@dataclass(frozen=True)
class _Book:
    members: dict[str, KnownMember] = field(default_factory=dict)
    revoked: tuple[str, ...] = ()


class Members:
    """The other members of a federation, as one organisation knows them.

    Parameters
    ----------
    kit : Kit
        The organisation's.
    """

    def __init__(self, kit: Kit) -> None:
        self.kit, self.path = kit, kit.identity / FILE
        self._kept: tuple[object, _Book] = (None, _Book())  # what was read last, and from which file

    def names(self) -> list[str]:
        """Everyone in the kit, and whoever was seen since; without the own name."""
        known = dict.fromkeys((*self.kit.parties, *self._read().members))
        return [name for name in known if name != self.kit.name]

    def get(self, name: str) -> KnownMember:
        """What this organisation knows of a member; of one that it never heard of, nothing."""
        return self._read().members.get(name, KnownMember())

    def card(self, name: str) -> Card | None:
        """The card with which a member may talk now: confirmed and not revoked."""
        return self.get(name).card

    def state(self, name: str) -> str:
        """One of `STATES`."""
        found = self._read()
        member = found.members.get(name, KnownMember())
        if member.card is not None:
            return CONFIRMED
        if member.seen is not None:
            return REVOKED if member.seen.fingerprint in found.revoked else UNCONFIRMED
        return UNCONFIRMED if member.pinned else UNKNOWN

    def unchecked(self, names: Sequence[str]) -> list[str]:
        """Those of these members whose keys nobody here has compared."""
        book = self._read()
        known = {name: book.members.get(name, KnownMember()) for name in names if name != self.kit.name}
        return [name for name, member in known.items() if member.card is None and not member.pinned]

    def unconfirmed(self) -> list[Card]:
        """Cards that came and wait for somebody to compare them."""
        found = self._read()
        seen = [one.seen for one in found.members.values() if one.seen is not None and one.card is None]
        return [card for card in seen if card.fingerprint not in found.revoked]

    def meet(self, name: str, records: object) -> bool:
        """Take the cards that a member shows; whether it is confirmed with them.

        Raises
        ------
        InputError
            Where they are none, are of somebody else, or differ from what was confirmed. Nothing that was confirmed
            is changed then.
        """
        chain = read_chain(records)
        card = chain[-1]
        own = (self.kit.federation, self.kit.authority.fingerprint, name)
        if any((one.federation, one.authority, one.name) != own for one in chain) or name == self.kit.name:
            raise InputError(f"{show(name)} showed the card of somebody else")
        known = self._read()
        if known.members.get(name, KnownMember()).card == card:  # as nearly always: nothing to write
            return True
        with locked(self.kit):
            return self._meet(name, chain)

    def _meet(self, name: str, chain: Sequence[Card]) -> bool:
        book, card = self._read(), chain[-1]
        member = book.members.get(name, KnownMember())
        confirm = f"tacit federation members {self.kit.path}"
        if any(one.fingerprint in book.revoked for one in chain):
            raise InputError(f"the key of {show(name)} was revoked here: see {confirm}")
        trusted = member.card.fingerprint if member.card is not None else member.pinned
        if not trusted:
            if member.seen != card:
                self._write(book, name, KnownMember(seen=card, note=f"seen {_today()}"))
            return False
        if trusted not in [one.fingerprint for one in chain]:  # the chain is signed from card to card
            if member.seen != card:
                note = f"on {_today()} a key came that was never confirmed: {card.fingerprint}"
                self._write(book, name, KnownMember(member.card, card, member.pinned, note))
            raise InputError(
                f"{show(name)} shows another key than the confirmed one: call them; if it is theirs, "
                f"{confirm} --revoke {name}, then --confirm {name}"
            )
        rotated = "" if trusted == card.fingerprint else f", rotated to generation {card.generation}"
        note = member.note if member.card == card else f"confirmed{rotated} {_today()}"
        self._write(book, name, KnownMember(card, note=note))
        return True

    def confirm(self, name: str, fingerprint: str) -> str:
        """Confirm the key with this fingerprint; its card may come later. Returns what was done, for people.

        Raises
        ------
        InputError
            Where another key is confirmed, this one was revoked, or the card that came has another fingerprint.
        """
        wanted, own = as_fingerprint(fingerprint), OwnKeys.of(self.kit).card.fingerprint
        with locked(self.kit):
            book = self._read()
            member = book.members.get(name, KnownMember())
            if name == self.kit.name or wanted == own:
                raise InputError("this is your own name or your own fingerprint: confirm those of the others")
            if wanted in book.revoked:
                raise InputError(f"the key {wanted} of {show(name)} was revoked here, and stays so")
            if member.card is not None and member.card.fingerprint != wanted:
                raise InputError(f"{show(name)} is confirmed with another key: revoke that one first")
            if member.card is not None:
                return "confirmed before"
            if member.seen is not None and member.seen.fingerprint == wanted:
                self._write(book, name, KnownMember(member.seen, note=f"confirmed {_today()}"))
                return "confirmed"
            if member.seen is not None and member.seen.fingerprint not in book.revoked:
                raise InputError(
                    f"the key that came from {show(name)} has another fingerprint, {member.seen.fingerprint}: somebody "
                    "may stand between you; do not go on"
                )
            self._write(
                book, name, KnownMember(pinned=wanted, note=f"fingerprint noted {_today()}, before the key came")
            )
            return "fingerprint noted: its key has not come yet"

    def revoke(self, name: str) -> list[str]:
        """Let no key of this member's in again that is known now; the fingerprints."""
        with locked(self.kit):
            book = self._read()
            member = book.members.get(name, KnownMember())
            prints = [card.fingerprint for card in (member.card,) if card is not None]
            prints += [member.pinned] if member.pinned else []
            if not prints and member.seen is not None:
                prints = [member.seen.fingerprint]
            if not prints:
                raise InputError(f"no key of {show(name)} is known here: nothing to revoke")
            self._forget_starts(name)
            seen = member.seen if member.seen is not None else member.card
            grown = _Book(book.members, tuple(dict.fromkeys((*book.revoked, *prints))))
            self._write(grown, name, KnownMember(seen=seen, note=f"revoked {_today()}: {', '.join(prints)}"))
        return prints

    def note_start(self, name: str, process: bytes, start: int) -> None:
        """Remember which process of a member has which number; each number is of one process only.

        A site numbers its processes on its disk. Where a number comes again with another process, that disk was put
        back to an older copy: whatever the site spent since then it has forgotten.

        Raises
        ------
        RefusalError
            Then, and for a number below those that are remembered.
        """
        own = hashlib.sha256(process).hexdigest()[:32]
        with locked(self.kit):
            path = self.kit.identity / SEEN
            book = read_json(path) if path.exists() else {}
            known = dict(as_record(book.get(name, {}), name))
            forgotten = len(known) == MOST_STARTS and start < min(map(int, known))
            if known.get(str(start), own) != own or forgotten:
                about = {"name": name, "start": start, "seen": max(map(int, known))}
                raise RefusalError(Reason.RESTORED, RESTORED_LINE.format(**about))
            if str(start) not in known:
                last = sorted({*map(int, known), start})[-MOST_STARTS:]
                book[name] = {str(one): known.get(str(one), own) for one in last}
                write_json(path, book, secret=True)

    def _forget_starts(self, name: str) -> None:
        """Of a key that is let in no more: who makes new ones may number anew."""
        path = self.kit.identity / SEEN
        if path.exists():
            write_json(path, {key: value for key, value in read_json(path).items() if key != name}, secret=True)

    def starts_seen(self, name: str) -> int:
        """The largest number of a process of a member that came; 0 where none did."""
        path = self.kit.identity / SEEN
        known = as_record(read_json(path).get(name, {}), name) if path.exists() else {}
        return max(map(int, known), default=0)

    def wait_for(self, name: str, waiting: bool) -> None:
        """Take down whether a member has yet to confirm the own key, for people."""
        path = self.kit.identity / WAITS
        with locked(self.kit):
            before = self.waited_for()
            names = [*before, name] if waiting else [one for one in before if one != name]
            if names != before and (not waiting or name not in before):
                write_json(path, {"names": names}, secret=True)

    def waited_for(self) -> list[str]:
        """Members that have yet to confirm the own key, as far as they said so."""
        path = self.kit.identity / WAITS
        return [as_text(one, WAITS) for one in as_list(read_json(path)["names"], WAITS)] if path.exists() else []

    def _read(self) -> _Book:
        try:
            at = self.path.stat()
        except FileNotFoundError:
            return _Book()
        stamp = (at.st_ino, at.st_mtime_ns, at.st_size)  # it is always replaced, never changed
        if self._kept[0] != stamp:
            self._kept = (stamp, self._parsed())
        return self._kept[1]

    def _parsed(self) -> _Book:
        check_private(self.path)
        record = read_json(self.path)
        check_names(record, FILE, ("members", "revoked"))
        members = as_record(record["members"], "members")
        revoked = tuple(as_text(one, "revoked") for one in as_list(record["revoked"], "revoked"))
        return _Book({name: KnownMember.read(value) for name, value in members.items()}, revoked)

    def _write(self, book: _Book, name: str, member: KnownMember) -> None:
        members = {**book.members, name: member}
        record = {"members": {key: value.record() for key, value in members.items()}, "revoked": list(book.revoked)}
        write_json(self.path, record, secret=True)


def introduce(kits: Sequence[Kit]) -> None:
    """Confirm everybody's keys at everybody: for organisations that are all on this machine, as in a trial."""
    parties = [kit for kit in kits if kit.role == PARTY]
    prints = {kit.name: OwnKeys.of(kit).card.fingerprint for kit in parties}
    for kit in parties:
        for name in prints:
            if name != kit.name:
                Members(kit).confirm(name, prints[name])


def _today() -> str:
    return time.strftime("%Y-%m-%d")


# --- Keys of masks, each vouched for by the own keys of the party that drew it


_KEY, _SIGNATURE = 32, 64
_SIZES = (
    8,
    _KEY,
    _KEY,
    _SIGNATURE,
    _SIGNATURE,
    _SIGNATURE,
)  # of a card: generation, keys, signatures; of the statement


class MaskSigner:
    """Vouches for the own keys of masks, and checks those of others (a `tacit.run.masking.KeySigner`)."""

    words = sum(_SIZES) // 8

    def __init__(self, kit: Kit) -> None:
        self.identity, self.members = OwnKeys.of(kit), Members(kit)

    def unchecked(self, names: Sequence[str]) -> list[str]:
        """Parties whose keys nobody here has compared."""
        return self.members.unchecked(names)

    def prove(self, statement: bytes) -> Words:
        """The own card, and its signature of a statement."""
        card = self.identity.card
        before = card.before or bytes(_SIGNATURE)
        about = (card.generation.to_bytes(8, "big"), card.signing, card.sealing, card.signature, before)
        proof = b"".join((*about, self.identity.signing.sign(statement)))
        return np.frombuffer(proof, dtype="<u8").astype(np.uint64)

    def check(self, name: str, statement: bytes, proof: Words) -> bool:
        """Whether the card of a party that was confirmed here vouches for a statement; False where none was confirmed.

        Raises
        ------
        RefusalError
            Where the signature is false, or the card is not the confirmed one.
        """
        *about, signature = _split(np.ascontiguousarray(proof, dtype="<u8").tobytes())
        try:
            card = self._card(name, about)
            if not card.has_signed(statement, signature):
                raise InputError(f"the key of {name!r} for masks is not signed by it for this run")
            known = self.members.card(name)
            chain = [known, card] if known is not None and card.follows(known) else [card]
            return self.members.meet(name, [one.record() for one in chain])
        except InputError as error:
            raise RefusalError(Reason.KEYS, one_line(error)) from error

    def _card(self, name: str, about: list[bytes]) -> Card:
        generation, signing, sealing, signature, before = about
        own = self.identity.card
        vouched = before if any(before) else b""
        number = int.from_bytes(generation, "big")
        card = Card(own.federation, own.authority, name, number, signing, sealing, signature, vouched)
        return Card.read(card.record())


def _split(content: bytes) -> list[bytes]:
    ends = np.cumsum(_SIZES)
    return [content[cast("int", end) - size : end] for size, end in zip(_SIZES, ends, strict=True)]


def confirmation_lines(kit: Kit) -> list[str]:
    """Whose key waits to be compared and confirmed: theirs here, and the own one there."""
    if not (kit.identity / OWN).exists():
        return []
    members = Members(kit)
    lines = [
        f"{card.name} is not confirmed: its fingerprint here is {card.fingerprint}; compare it with them by telephone, "
        f"then tacit federation members {kit.path} --confirm {card.name}"
        for card in members.unconfirmed()
    ]
    own = OwnKeys.of(kit).card.fingerprint
    return lines + [f"{name} has not confirmed you: read them your fingerprint, {own}" for name in members.waited_for()]
