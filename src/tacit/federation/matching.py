"""A site's part in finding the common rows: the private alignment of a run, begun, kept and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.alignment import Aligner, Alignment
from tacit.errors import RunError
from tacit.federation.site import Payload, own_data

ALIGNMENT = "alignment.npz"


class Matching:
    """One site's alignment in one run.

    Parameters
    ----------
    folder : Path
        Where the site keeps the run.
    name : str
    parties : sequence of str
        Everybody who aligns, in the order of the job.
    ids : array-like
        The site's ids, in the order of its file.
    column : str
        Name of the id column, for messages.
    """

    def __init__(self, folder: Path, name: str, parties: Sequence[str], ids: Any, column: str) -> None:
        self.path, self.name, self.parties = folder / ALIGNMENT, name, tuple(parties)
        self.ids, self.column = ids, column
        self.aligner: Aligner | None = None
        self.found: Alignment | None = None
        if self.path.exists():
            found = Alignment.read(self.path)
            found.check(ids, column=column)
            self.found = found

    @property
    def run(self) -> str:
        """Names an alignment that was finished, the same at all its sites; empty before."""
        return "" if self.found is None else self.found.run

    def answer(self, payload: Payload) -> dict[str, Any]:
        """One question of a private alignment; the first one begins it anew."""
        step = str(payload["step"])
        if step == "size":
            with own_data():
                self.aligner = Aligner(self.name, self.ids, self.parties, column=self.column)
        if self.aligner is None:
            raise RunError("an alignment was not begun")
        reply = self.aligner.answer(step, payload["payload"])
        if self.aligner.alignment is not None:
            self.found = self.aligner.alignment
            self.found.write(self.path)
            self.aligner = None
        return {"reply": reply}
