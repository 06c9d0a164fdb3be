"""Parties that answer, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tacit.run.own_scores import OwnScores
from tacit.service.answering import Answerer, Rules
from tacit.service.identity import Identity
from tacit.service.state import State
from tacit.service.wire import SessionKey, to_bytes

NAMES = ("phone", "shop", "water")
IDS = [f"c{number}" for number in range(40)]
SESSION = "session-number-0001"


def own_scores(seed: int, party: str, outputs: int = 1) -> OwnScores:
    scores = np.random.default_rng(seed).normal(size=len(IDS) if outputs == 1 else (len(IDS), outputs))
    scores = np.concatenate([scores, np.zeros((1, *scores.shape[1:]))])
    return OwnScores(party, scores, {one: place for place, one in enumerate(IDS)}, b"part")


def parties(folder: Path, names: Sequence[str] = NAMES, outputs: int = 1, **rules: Any) -> dict[str, Answerer]:
    """Answerers that know each other."""
    identities = {name: Identity() for name in names}
    peers = {name: Ed25519PublicKey.from_public_bytes(to_bytes(identity.text)) for name, identity in identities.items()}
    allowed = Rules(**{"least": len(names), **rules})
    return {
        name: Answerer(own_scores(seed, name, outputs), State(folder / f"{name}.db"), allowed, identities[name], peers)
        for seed, name in enumerate(names)
    }


def meet(sides: Mapping[str, Answerer], session: str = SESSION, caller: str = "bank") -> list[SessionKey]:
    """Let all agree on keys."""
    keys = [side.open(caller, session, list(sides)) for side in sides.values()]
    prints = {side.agree(caller, session, keys) for side in sides.values()}
    assert len(prints) == 1
    return keys
