"""Published files: from the folder TACIT_DATA, else the user's cache, else their public source, checked by sha256."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tacit.errors import InputError
from tacit.text import one_line, raw, show

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_SECONDS = 30.0
_CHUNK = 1 << 16


@dataclass(frozen=True)
class PublicFile:
    """A known file: its name, the sha256 of its (unzipped) content, and where it is published."""

    name: str
    sha256: str
    url: str | None = None

    @property
    def zipped(self) -> bool:
        """Whether the file is kept zipped; what is published, and summed, is the content."""
        return self.name.endswith(".gz")


def cache_folder() -> Path:
    """Return the user's cache of data sets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tacit"


def content_of(file: PublicFile) -> bytes:
    """Return the checked content from the folder TACIT_DATA, else the cache, else the public source."""
    folders = [Path(os.environ["TACIT_DATA"])] if os.environ.get("TACIT_DATA") else []
    for folder in [*folders, cache_folder()]:
        path = folder / file.name
        if path.is_file():
            return _read(path, file)
    if file.url is None:
        raise InputError(
            f"{show(file.name)} is not at hand and has no public source to download it from: "
            f"put it in {show(str(cache_folder()))}, or in a folder named by the variable TACIT_DATA"
        )
    content = _download(file.url, file)
    _store(content, file)
    return content


def _read(path: Path, file: PublicFile) -> bytes:
    """Read a local copy and check its sum."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if file.zipped else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {show(str(path))} ({one_line(error)}): remove it or replace it") from error
    _check_sum(content, file, str(path))
    return content


def _check_sum(content: bytes, file: PublicFile, source: str) -> None:
    """Refuse content other than what the results were computed on."""
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise InputError(
            f"{source} is not the known {file.name} (sha256 {found[:12]}, expected {file.sha256[:12]}): "
            "remove it or replace it"
        )


def _download(url: str, file: PublicFile) -> bytes:
    """Fetch the content with a progress bar and check its sum."""
    import http.client  # here: needed once per machine
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as response:
            size = response.headers.get("Content-Length")
            content = b"".join(_with_progress(response, file.name, int(size) if size else None))
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        raise InputError(
            f"cannot download {url} ({one_line(error)}): connect to the internet, "
            f"or put {file.name} in {show(str(cache_folder()))} or in a folder named by TACIT_DATA"
        ) from error
    _check_sum(content, file, url)
    return content


def _with_progress(response: IO[bytes], name: str, size: int | None) -> Iterator[bytes]:
    """Yield the chunks of a response, showing how far it is."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=raw(sys.stderr)), transient=True) as progress:
        task = progress.add_task(f"downloading {name}", total=size)
        while chunk := response.read(_CHUNK):
            progress.advance(task, len(chunk))
            yield chunk


def _store(content: bytes, file: PublicFile) -> None:
    """Keep the content in the cache; a cache that cannot be written only costs another download."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / file.name) as handle:
            handle.write(gzip.compress(content, mtime=0) if file.zipped else content)
    except OSError:
        return


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only when it is whole."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
