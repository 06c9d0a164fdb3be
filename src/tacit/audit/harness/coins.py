"""Coins that are the same in two runs: keys of noise, masks and private matching follow from a number and a name.

Nothing of this is reachable from a run: it replaces makers of keys for as long as an audit needs, in its own process.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tacit.alignment.aligner import Aligner
from tacit.privacy.aggregation import MaskingParty
from tacit.privacy.randomness import NoiseSource
from tacit.privacy.releases import Releaser


@contextmanager
def fixed_coins(seed: int) -> Iterator[None]:
    """Inside, every key follows from the seed, its owner's name, and how many the owner has made before."""
    made: Counter[str] = Counter()

    def secret(*words: str) -> bytes:
        what = "/".join(words)
        made[what] += 1
        return hashlib.sha256(f"{seed}/{what}/{made[what]}".encode()).digest()

    with ExitStack() as stack:
        for change in (_noise(secret), _masks(secret), _matching(secret)):
            for one in change:
                stack.enter_context(one)
        yield


def _noise(secret: Any) -> list[Any]:
    make = Releaser.__init__

    def init(self: Releaser, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._key = secret("noise", self.owner)
        self._source = NoiseSource(key=self._key, stream="start")

    return [patch.object(Releaser, "__init__", init)]


def _masks(secret: Any) -> list[Any]:
    make = MaskingParty.__init__

    def init(self: MaskingParty, name: str, run: str, private_key: X25519PrivateKey | None = None) -> None:
        make(self, name, run, private_key or X25519PrivateKey.from_private_bytes(secret("masks", name, run)))

    return [patch.object(MaskingParty, "__init__", init)]


def _matching(secret: Any) -> list[Any]:
    make = Aligner.__init__

    def init(self: Aligner, name: str, *args: Any, **kwargs: Any) -> None:
        make(self, name, *args, **kwargs)
        assert self._key is not None
        self._key._key = secret("matching", name)

    def order(count: int) -> Any:
        return np.random.default_rng([seed_of(b"order"), count]).permutation(count).astype(np.int64)

    return [
        patch.object(Aligner, "__init__", init),
        patch("tacit.alignment.aligner.secret_order", order),
        patch("tacit.alignment.passing.secret_order", order),
        patch("tacit.alignment.conversation.secrets.token_hex", lambda count: "0" * 2 * count),
    ]


def seed_of(content: bytes) -> int:
    """A number that follows from some bytes."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
