"""Secure aggregation: every party hides its vector under masks that cancel in the sum of all parties.

`docs/explanation/secure-aggregation.md` says in plain words who sees what, and what is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash

from tacit.errors import InputError, RunError
from tacit.privacy.fixed_point import FixedPoint
from tacit.privacy.keystream import LIMIT, Keystream, derive_key, pack
from tacit.types import Vector, Words

__all__ = ["FixedPoint", "MaskingParty", "explain_collusion", "fingerprint", "unmask_sum"]


class MaskingParty:
    """One party's side of secure aggregation: one key pair for one run.

    Parameters
    ----------
    name : str
        The party's name, different from all others.
    run : str
        Name of the run, the same for all parties.
    private_key : X25519PrivateKey, optional
        For tests only. A fresh one is drawn without it, also when a paused run goes on: a key that came back from a
        file would give the masks of rounds that were already played.
    """

    def __init__(self, name: str, run: str, private_key: X25519PrivateKey | None = None) -> None:
        self.name = name
        self._run = run
        self._key = private_key if private_key is not None else X25519PrivateKey.generate()
        self._secrets: dict[str, bytes] = {}
        self._roster = b""
        self._last_round: dict[str, int] = {}

    @property
    def public_bytes(self) -> bytes:
        """The public key, 32 bytes, for all other parties."""
        return self._key.public_key().public_bytes_raw()

    def agree(self, others: Mapping[str, bytes]) -> None:
        """Agree on a secret with every other party, given their public keys; once in the life of a key."""
        if self._secrets:
            raise RunError(f"{self.name} has already agreed on its keys: make a new MaskingParty for a new run")
        self._check_others(others)
        self._roster = _digest({**others, self.name: self.public_bytes})
        self._secrets = {other: self._exchange(other, key) for other, key in sorted(others.items())}

    def mask(self, round: int, name: str, vector: npt.ArrayLike, fixed_point: FixedPoint, seen: bytes = b"") -> Words:
        """The vector under masks that cancel in the sum over all parties.

        Parameters
        ----------
        round : int
            Must grow from call to call for one name: masks are never used twice.
        name : str
            Name of the array within the round.
        vector : array
            Finite, with entries within the bound of `fixed_point`.
        fixed_point : FixedPoint
            The same for all parties.
        seen : bytes
            Fingerprint of what the vector answers: masks cancel among those who answer the same alone, so that whoever
            asks different parties different things gets noise.

        Returns
        -------
        array of uint64
            Uniform to whoever lacks the secret with one other party.
        """
        if not self._secrets:
            raise RunError(f"{self.name} has no keys of the other parties yet: call agree first")
        fixed_point.check_room(self._names())
        masked = fixed_point.encode(vector, self.name)
        self._claim(round, name, masked.size)
        for other in self._secrets:
            mask = self._mask_with(other, round, name, masked.size, seen).reshape(masked.shape)
            combine = fixed_point.add if self.name < other else fixed_point.subtract
            combine(masked, mask)
        return masked

    def _mask_with(self, other: str, round: int, name: str, size: int, seen: bytes) -> Words:
        """The mask that this pair of parties shares for one array of one round: one adds it, one subtracts it."""
        first, second = sorted((self.name, other))
        context = ("mask", self._run, self._roster, first, second, round, name, seen)
        return Keystream(derive_key(self._secrets[other], *context)).words(size)

    def _claim(self, round: int, name: str, size: int) -> None:
        """Refuse to mask twice in one round: the difference of the two would be bare."""
        last = self._last_round.get(name, -1)
        if round <= last:
            raise RunError(
                f"{self.name}: round {round} of {name!r} is masked already (last: {last}): a mask is never used twice, "
                "so send the first answer again, or begin a new run"
            )
        if size > LIMIT:
            raise InputError(f"{name!r} has {size} entries, more than {LIMIT}: send it in parts")
        self._last_round[name] = round

    def _exchange(self, other: str, key: bytes) -> bytes:
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError as error:
            raise RunError(f"{other} sent a key that is no X25519 public key: ask it for a new one") from error

    def _check_others(self, others: Mapping[str, bytes]) -> None:
        if not others:
            raise InputError(f"{self.name} is alone: masks need at least one other party")
        if self.name in others:
            raise InputError(f"two parties are called {self.name}: give every party a name of its own")
        keys = [self.public_bytes, *others.values()]
        if len(set(keys)) < len(keys):
            raise RunError(f"two of {', '.join([self.name, *others])} have the same public key: each draws its own")

    def _names(self) -> list[str]:
        return sorted([self.name, *self._secrets])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MaskingParty is not copied, since two copies would use the same masks: make a new one")


def unmask_sum(masked: Mapping[str, Words], parties: Sequence[str], fixed_point: FixedPoint) -> Vector:
    """Sum of all parties' vectors from their masked ones.

    Parameters
    ----------
    masked : mapping of party name to array of uint64
        The answers of one round, from every party.
    parties : sequence of str
        Everybody who agreed on keys.
    fixed_point : FixedPoint
        The same that the parties used.

    Returns
    -------
    Vector
        Within len(parties) * step / 2 of the sum of the vectors, plus 2^-53 of itself where it exceeds 2^53 steps.
    """
    _check_answers(masked, parties)
    fixed_point.check_room(parties)
    arrays = list(masked.values())
    total = arrays[0].copy()
    for array in arrays[1:]:
        fixed_point.add(total, array)
    return fixed_point.decode_sum(total, len(parties))


def fingerprint(keys: Mapping[str, bytes]) -> str:
    """A short text for the names and public keys of all parties; people compare it over another channel."""
    digits = _digest(keys)[:16].hex()
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def explain_collusion(parties: Sequence[str], coordinator_is_party: bool) -> str:
    """Say in one paragraph who would have to work together to see one party's vector."""
    count = len(parties)
    if count < 2:
        return "Masks hide nothing: the sum over one party is its vector."
    if count == 2 and coordinator_is_party:
        return (
            "Masks hide nothing: the coordinator takes its own vector off the sum and has the other party's. "
            "Add a third party, or let somebody else coordinate."
        )
    spare = count - 2 - coordinator_is_party
    who = "The coordinator, a party itself," if coordinator_is_party else "The coordinator"
    alone = f"{who} sees only the sum over {_list(parties)}."
    if count == 2:
        return f"{alone} With one party it sees the other's vector, and a party that is told the sum sees it too."
    if spare == 0:
        return f"{alone} Together with any one other party it sees the vector of the last."
    return (
        f"{alone} Even with {spare} other {'party' if spare == 1 else 'parties'} it sees only the sum of the remaining "
        f"two; with {spare + 1} it sees the vector of the last."
    )


def _check_answers(masked: Mapping[str, Words], parties: Sequence[str]) -> None:
    if not parties:
        raise InputError("parties is empty: name everybody who agreed on keys")
    missing = [party for party in parties if party not in masked]
    if missing:
        raise RunError(f"no answer from {_list(missing)}: masks cancel only when all are there; resume when they are")
    strangers = [party for party in masked if party not in parties]
    if strangers:
        raise RunError(f"an answer from {_list(strangers)}, who did not agree on keys: leave it out")
    shape = masked[parties[0]].shape
    for party, array in masked.items():
        if array.dtype != np.uint64:
            raise RunError(f"{party} sent numbers of type {array.dtype}: masked vectors are uint64")
        if array.shape != shape:
            raise RunError(f"{party} sent an array of shape {array.shape}, {parties[0]} one of {shape}: send alike")


def _digest(keys: Mapping[str, bytes]) -> bytes:
    digest = Hash(SHA256())
    for name, key in sorted(keys.items()):
        digest.update(pack(name, key))
    return digest.finalize()


def _list(names: Iterable[str]) -> str:
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
