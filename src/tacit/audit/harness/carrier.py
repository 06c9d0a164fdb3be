"""Sites in one process: what they ask of each other is taken down, and they die when they are told to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tacit.audit.harness.recording import Recording
from tacit.errors import FaultError
from tacit.federation.kit import Kit
from tacit.federation.loopback import Loopback
from tacit.federation.protocol import Answered, Scores, Step, encode
from tacit.federation.step_log import log_step

MOST_LIVES = 400


class KilledError(BaseException):
    """A process died; nobody in it can catch that."""


class Carrier(Loopback):
    """Carries what sites ask of each other, and takes it down.

    Parameters
    ----------
    files : mapping of str to Path
        Each site's own file.
    folder : Path
    record : Recording
    victim : str or None
        All processes are killed whenever this site has done a step for the first time, before its reply arrives, and
        whenever another site has done one for it.
    """

    def __init__(self, files: Mapping[str, Path], folder: Path, record: Recording, victim: str | None = None) -> None:
        super().__init__(files, folder)
        self.record, self.victim = record, victim
        self.seen: set[tuple[str, ...]] = set()

    def _carry(self, caller: str, name: str, request: Step) -> Step:
        step, size = type(request).__name__, len(encode(request))
        self.record.add(f"request {caller} -> {name}", step, {"": request, "bytes": size})
        reply = super()._carry(caller, name, request)
        answered = len(self.carried[-1].reply)
        self.record.add(f"reply {name} -> {caller}", step, {"": _covered(reply, request), "bytes": answered})
        own = cast("Kit", SimpleNamespace(logs=self.folder / f"{name}-logs"))
        log_step(own, request, reply, caller, size, answered, 0.0)
        self._perhaps_kill(caller, name, request)
        return reply

    def _perhaps_kill(self, caller: str, name: str, request: Step) -> None:
        if self.victim not in (caller, name):
            return
        message: Any = getattr(request, "message", request)
        key = (
            caller,
            name,
            type(request).__name__,
            str(getattr(message, "round", "")),
        )  # matching: once, it has few tries
        if key not in self.seen:
            self.seen.add(key)
            raise KilledError

    def live(self, text: str, run: str) -> int:
        """Lead the job where it is led, from the start again as often as processes are killed; the number of rounds."""
        for _ in range(MOST_LIVES):
            try:
                return self.run(text, run)
            except KilledError:
                self.record.life += 1
                self.restart()
        raise FaultError(f"the run did not end in {MOST_LIVES} lives")


def _covered(reply: Step, request: Step) -> Any:
    """A reply, without scores: these are exact functions of rows, and no claim covers them."""
    if not isinstance(request, Scores) or not isinstance(reply, Answered):
        return reply
    arrays = reply.message.arrays
    return {"kind": reply.message.kind, "arrays": {name: (one.kind, one.shape) for name, one in arrays.items()}}
