"""Keys of masks, each vouched for by the own keys of the party that drew it.

The lead passes the keys of masks on. Were they only numbers, it could pass keys of its own on to everybody, and read
every party alone. So each comes with the card of its party and a signature, which says: this key is for the masks of
this run, job, plan and parties. A party that has confirmed the card of another refuses every other key in its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tacit.data.wording import one_line
from tacit.errors import InputError
from tacit.federation.identity import Card, Identity
from tacit.federation.kit import Kit
from tacit.federation.members import Members
from tacit.federation.protocol import Reason, RefusalError
from tacit.types import Words

__all__ = ["MaskSigner"]

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
    """Vouches for the own keys of masks, and checks those of others (a `tacit.runtime.masking.KeySigner`)."""

    words = sum(_SIZES) // 8

    def __init__(self, kit: Kit) -> None:
        self.identity, self.members = Identity.of(kit), Members(kit)

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
