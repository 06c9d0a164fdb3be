"""For a test, on the path of the server's process alone: a server that was turned, and attacks what it passes on.

Python imports this file where it lies on PYTHONPATH. TACIT_TEST_TURNED names a folder whose file `plan` holds names
of attacks, one in each line; each is made once, on the first message on which it can be, and noted in `made`; keys are
swapped in every greeting. Between two attacks on the messages of the same two sites one answer gets through: a server
that lets none through can only end the run.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("TACIT_TEST_TURNED")
HEAD = 10  # bytes before the content of a message, the last 8 its length
Record = dict[str, Any]


class Turned:
    """Reads every message between sites, keeps it, and sometimes passes another one on."""

    def __init__(self, folder: Path) -> None:
        import msgpack

        self.folder, self.msgpack, self.lock = folder, msgpack, threading.Lock()
        self.requests: dict[str, list[bytes]] = {}
        self.replies: dict[str, list[bytes]] = {}
        self.attacked: set[frozenset[str]] = set()  # pairs of sites of which no answer got through since
        self.attacks: dict[str, Callable[[str, Record], Record | None]] = {
            "flip": self.flip,
            "speak as another": self.speak,
            "speak as nobody": self.stranger,
            "made up": self.made_up,
            "replay a request": self.replay,
            "raise the number": self.number,
            "ask without a seal": self.unsealed,
            "answer with the question": self.reflect,
            "answer with an old answer": self.old_answer,
            "flip an answer": self.flip_answer,
            "answer in clear": self.clear_answer,
            "swap the card": self.swap,
            "swap the key of the process": self.swap_process,
        }

    def passed(self, way: str, payload: bytes) -> bytes:
        """What is passed on in place of a message."""
        try:
            content = self.msgpack.unpackb(payload[HEAD:], strict_map_key=False)
        except Exception:
            return payload
        if not isinstance(content, dict):
            return payload
        pair = frozenset(way.split())
        with self.lock:
            for name in self._plan(pair):
                changed = self.attacks[name](way, self.msgpack.unpackb(payload[HEAD:], strict_map_key=False))
                packed = None if changed is None else self.msgpack.packb(changed, use_bin_type=True)
                if packed is not None and packed != payload[HEAD:]:
                    with open(self.folder / "made", "a") as file:
                        file.write(f"{name}\n")
                    self.attacked.add(pair)
                    return payload[: HEAD - 8] + len(packed).to_bytes(8, "big") + packed
            if content.get("method_name") == "take":
                self.requests.setdefault(way, []).append(payload[HEAD:])
            elif "salt" in _result(content):
                self.replies.setdefault(way, []).append(payload[HEAD:])
                self.attacked.discard(pair)
        return payload

    def _plan(self, pair: frozenset[str]) -> list[str]:
        plan, made = self.folder / "plan", self.folder / "made"
        done = made.read_text().splitlines() if made.exists() else []
        planned = plan.read_text().splitlines() if plan.exists() else []
        once = [] if pair in self.attacked else [name for name in planned if name not in done]
        return once + [name for name in planned if name.startswith("swap")]  # greetings are many

    # --- attacks: the changed message, or None where it cannot be made on this one ---

    def flip(self, way: str, content: Record) -> Record | None:
        return self._changed(content, content=lambda old: bytes([old[0] ^ 1]) + old[1:])

    def speak(self, way: str, content: Record) -> Record | None:
        others = [name for name in ("bank", "shop", "firm") if name not in way.replace(".", " ").split()]
        return self._changed(content, sender=lambda old: others[0])

    def stranger(self, way: str, content: Record) -> Record | None:
        return self._changed(content, sender=lambda old: "king")

    def made_up(self, way: str, content: Record) -> Record | None:
        return self._changed(content, content=lambda old: os.urandom(len(old)), salt=lambda old: os.urandom(32))

    def number(self, way: str, content: Record) -> Record | None:
        return self._changed(content, number=lambda old: old + 1)

    def unsealed(self, way: str, content: Record) -> Record | None:
        """What a site once answered in clear, to whoever FLARE said had asked."""
        if content.get("method_name") != "take":
            return None
        return {**content, "kwargs": {"number": 100_000, "step": "shape", "payload": {}}}

    def replay(self, way: str, content: Record) -> Record | None:
        known = self.requests.get(way, [])
        return self.msgpack.unpackb(known[0]) if known and content.get("method_name") == "take" else None

    def reflect(self, way: str, content: Record) -> Record | None:
        asked = self.requests.get(" ".join(reversed(way.split())), [])
        if "salt" not in _result(content) or not asked:
            return None
        sealed = self.msgpack.unpackb(asked[-1])["kwargs"]
        return {"result": {"salt": sealed["salt"], "content": sealed["content"]}}

    def old_answer(self, way: str, content: Record) -> Record | None:
        known = self.replies.get(way, [])
        return self.msgpack.unpackb(known[0]) if known and "salt" in _result(content) else None

    def flip_answer(self, way: str, content: Record) -> Record | None:
        result = _result(content)
        if "salt" not in result:
            return None
        return {"result": {**result, "content": result["content"][:-1] + bytes([result["content"][-1] ^ 1])}}

    def clear_answer(self, way: str, content: Record) -> Record | None:
        if "salt" not in _result(content):
            return None
        return {"result": {"step": "answer", "payload": {"message": {}}}}

    def swap(self, way: str, content: Record) -> Record | None:
        """The card that the server made for a site whose name it has: signed, and of another key."""
        if "cards" not in _result(content):
            return None
        identity = importlib.import_module("tacit.federation.identity")
        kit = importlib.import_module("tacit.federation.kit").Kit.from_environment()
        kept = __import__("dataclasses").replace(kit, name=content["result"]["cards"][0]["name"])
        return {"result": {**content["result"], "cards": identity.OwnKeys._made(kept, 1).cards()}}

    def swap_process(self, way: str, content: Record) -> Record | None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if "cards" not in _result(content):
            return None
        own = X25519PrivateKey.generate().public_key().public_bytes_raw()
        return {"result": {**content["result"], "process": own}}

    @staticmethod
    def _changed(message: Record, /, **changes: Callable[[Any], Any]) -> Record | None:
        if message.get("method_name") != "take":
            return None
        kwargs = message["kwargs"]
        return {**message, "kwargs": {**kwargs, **{key: change(kwargs[key]) for key, change in changes.items()}}}


def _result(content: Record) -> Record:
    result = content.get("result")
    return result if isinstance(result, dict) else {}


def turn(folder: Path) -> None:
    """Have the relay pass on what the attacks make of it."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

    forward, turned = CoreCell._forward, Turned(folder)

    def attack(self: Any, endpoint: Any, origin: str, destination: str, msg_type: str, message: Any) -> None:
        way = f"{origin.split('.')[0]} {destination.split('.')[0]}"
        if message.payload and "server" not in way:
            message.payload = turned.passed(way, bytes(message.payload))
            if message.get_header(StreamHeaderKey.SIZE):
                message.set_header(StreamHeaderKey.SIZE, len(message.payload))
        forward(self, endpoint, origin, destination, msg_type, message)

    CoreCell._forward = attack


if FOLDER:
    turn(Path(FOLDER))
