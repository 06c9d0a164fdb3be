"""Fits that were measured already: a file of JSON lines, so that a long bench that was stopped goes on where it was.

Each line names the fit and the code that it was made with (a hash of the files that decide its result). A fit counts
as measured only where both are the same, so that a change of the code measures anew what depends on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


class Kept:
    """The results in one file; without a file everything is measured, and nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._found: dict[str, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        text = path.read_text()
        if text and not text.endswith("\n"):  # stopped in the middle of a line
            path.write_text(text[: text.rfind("\n") + 1])
        for line in path.read_text().splitlines():
            record = json.loads(line)
            self._found[_name(record["fit"], record["code"])] = record["result"]

    def result(self, fit: Mapping[str, Any], code: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of a fit: from the file, or measured now and written there."""
        name = _name(fit, code)
        if name not in self._found:
            self._found[name] = measure()
            self._write({"fit": dict(fit), "code": code, "result": self._found[name]})
        return self._found[name]

    def _write(self, record: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")


def _name(fit: Mapping[str, Any], code: str) -> str:
    return json.dumps([fit, code], sort_keys=True)


def code_of(paths: Iterable[Path], *versions: str) -> str:
    """A short hash of files and of versions of libraries."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update("\0".join(versions).encode())
    return digest.hexdigest()[:12]
