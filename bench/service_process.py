"""A service to load: run as `python -m bench.service_process KIND FOLDER`; it prints its address and answers.

KIND is "scores" (one party of two, with a session open already) or "echo" (FastAPI that sends back what it got).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fastapi import FastAPI

from tacit.run.own_scores import OwnScores
from tacit.service.access import ServiceAccess
from tacit.service.answering import Answerer, Rules
from tacit.service.app import make_app, serve
from tacit.service.identity import Identity
from tacit.service.state import State
from tacit.service.wire import AskScores, to_bytes

ROWS, SESSION, NAMES = 100_000, "session-of-the-bench", ("phone", "shop")


def main(kind: str, folder: str) -> None:
    """Answer until stopped."""
    door = ServiceAccess(insecure=True)
    app = _echo() if kind == "echo" else make_app(_party(Path(folder)), door)
    serve(app, door, lambda url: print(url, flush=True))


def _echo() -> FastAPI:
    app = FastAPI()

    @app.post("/v1/scores")
    async def echo(body: AskScores) -> AskScores:
        return body

    return app


def _party(folder: Path) -> Answerer:
    """One of two parties that have agreed on keys."""
    identities = {name: Identity() for name in NAMES}
    peers = {name: Ed25519PublicKey.from_public_bytes(to_bytes(one.text)) for name, one in identities.items()}
    scores = np.append(np.random.default_rng(0).normal(size=ROWS), 0.0)
    places = {f"c{row}": row for row in range(ROWS)}
    rules = Rules(least=2, per_day=10**9, seconds=3600.0)
    sides = [
        Answerer(OwnScores(name, scores, places), State(folder / f"{name}.db"), rules, identities[name], peers)
        for name in NAMES
    ]
    keys = [side.open("local", SESSION, NAMES) for side in sides]
    for side in sides:
        side.agree("local", SESSION, keys)
    return sides[0]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
