"""Keys and random words: HKDF-SHA256 and ChaCha20 of the `cryptography` package, with the arguments that Tacit uses."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.types import Words

KEY_BYTES = 32
LIMIT = 2**33  # words under one key: 64 GiB, a quarter of where ChaCha20's block counter would start again
_ZEROS = bytes(2**19)


def pack(*fields: str | bytes | int) -> bytes:
    """The fields as bytes, each with its kind and length in front, so that no two lists of fields pack alike."""
    return b"".join(_with_length(field) for field in fields)


def derive_key(secret: bytes, *context: str | bytes | int) -> bytes:
    """A 32-byte key made from a secret for one use only, which the context names (HKDF-SHA256)."""
    return derive_packed(secret, pack("tacit", *context))


def derive_packed(secret: bytes, packed: bytes) -> bytes:
    """The same for a context that is packed already, "tacit" in front: packed fields can be put one after another."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=packed).derive(secret)


class Keystream:
    """The ChaCha20 keystream of one key as 64-bit words; `room` is how many words the key still has."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        self.room = LIMIT

    def words(self, count: int) -> Words:
        """The next words of the stream, uniform in 0 .. 2^64 - 1."""
        if count > self.room:
            raise ValueError(f"{count} words asked of a key that has {self.room} left: take a new key")
        self.room -= count
        buffer = bytearray(8 * count)
        for start in range(0, len(buffer), len(_ZEROS)):
            part = memoryview(buffer)[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(part)], part)
        return np.frombuffer(buffer, dtype="<u8").astype(np.uint64, copy=False)


def _with_length(field: str | bytes | int) -> bytes:
    body = field if isinstance(field, bytes) else str(field).encode()
    return f"{type(field).__name__} {len(body)} ".encode() + body
