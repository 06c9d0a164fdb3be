"""For a test, on the path of the server's process alone: write down every message that it passes on between sites."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

PLACE = os.environ.get("TACIT_TEST_RELAY")
HEADERS = ("origin", "destination", "channel", "topic", "secure", "encrypted")


def watch(place: str) -> None:
    """Have the relay leave each message in a file: a line of headers, then the payload as it is passed on."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey

    forward, lock = CoreCell._forward, threading.Lock()

    def keep(self: Any, endpoint: Any, origin: str, destination: str, msg_type: str, message: Any) -> None:
        payload = bytes(message.payload or b"")
        record = {name: message.get_header(getattr(MessageHeaderKey, name.upper())) for name in HEADERS}
        with lock, open(place, "ab") as file:
            file.write(json.dumps({**record, "length": len(payload)}, default=str).encode() + b"\n" + payload)
        forward(self, endpoint, origin, destination, msg_type, message)

    CoreCell._forward = keep


if PLACE:
    watch(PLACE)
