"""Public data sets of the papers and the benches, from a folder, the cache or their public source."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tacit.data.wording import one_line, show
from tacit.errors import InputError
from tacit.types import Matrix, Vector

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_SECONDS = 30.0
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels (-1 and +1); the test part is None where the data set has no split."""

    X_train: Matrix
    y_train: Vector
    X_test: Matrix | None = None
    y_test: Vector | None = None


@dataclass(frozen=True)
class _File:
    """A known file: its name, the sha256 of its (unzipped) content, and where it is published."""

    name: str
    sha256: str
    url: str | None = None

    @property
    def zipped(self) -> bool:
        """Whether the file is kept zipped; what is published, and summed, is the content."""
        return self.name.endswith(".gz")


_A9A = _File(
    "a9a.svm.gz",
    "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    _LIBSVM + "a9a",
)
_A9A_TEST = _File(
    "a9a.t.svm.gz",
    "7d8c09f1120d9ff231d85caba98956906033f3c4d53e2b15ab7ef83710de6a76",
    _LIBSVM + "a9a.t",
)
_MNIST49 = _File("mnist49.npz", "a27ceaec845632dc87ac07761b0a3a81786cf3ffc0c226bd20aceae4cb166191")
_BASEHOCK = _File("basehock.svm.gz", "650c703bcad63c59bd426f54f464a92aa4d7cb7caa1689083560431185cdf35a")


def load_a9a() -> Dataset:
    """Load a9a (census income; 32561 and 16281 rows, 123 binary columns).

    Returns
    -------
    Dataset
        CSR float64 features, labels -1 and +1, the published train and test parts.

    Raises
    ------
    InputError
        When a file is damaged, or is not at hand and cannot be downloaded.
    """
    X_train, y_train = _svmlight(_content(_A9A), 123)
    X_test, y_test = _svmlight(_content(_A9A_TEST), 123)
    return Dataset(X_train, y_train, X_test, y_test)


def load_mnist49() -> Dataset:
    """Load the digits 4 (-1) and 9 (+1) of MNIST (11791 and 1991 rows, 784 pixels from 0 to 1).

    Returns
    -------
    Dataset
        Dense float64 features, labels -1 and +1, the published train and test parts.

    Raises
    ------
    InputError
        When the file is damaged or not at hand; it has no public source to download it from.
    """
    with np.load(io.BytesIO(_content(_MNIST49)), allow_pickle=False) as arrays:
        X_train, X_test = arrays["X_train"] / 255.0, arrays["X_test"] / 255.0
        y_train, y_test = arrays["y_train"].astype(float), arrays["y_test"].astype(float)
    return Dataset(X_train, y_train, X_test, y_test)


def load_basehock() -> Dataset:
    """Load BASEHOCK (two newsgroups; 1993 rows, 4862 words as log(1 + count)).

    Returns
    -------
    Dataset
        CSR float64 features and labels -1 and +1; no test part.

    Raises
    ------
    InputError
        When the file is damaged or not at hand; it has no public source to download it from.
    """
    counts, y = _svmlight(_content(_BASEHOCK), 4862)
    return Dataset(counts.log1p(), y)


def _svmlight(content: bytes, n_features: int) -> tuple[Any, npt.NDArray[np.float64]]:
    """Parse LIBSVM text."""
    from sklearn.datasets import load_svmlight_file  # here: it is slow to import

    X, y = load_svmlight_file(io.BytesIO(content), n_features=n_features, zero_based=False)
    return sp.csr_array(X), y


def _cache_folder() -> Path:
    """Return the user's cache of data sets."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tacit"


def _content(file: _File) -> bytes:
    """Return the checked content from the folder TACIT_DATA, else the cache, else the public source."""
    folders = [Path(os.environ["TACIT_DATA"])] if os.environ.get("TACIT_DATA") else []
    for folder in [*folders, _cache_folder()]:
        path = folder / file.name
        if path.is_file():
            return _read(path, file)
    if file.url is None:
        raise InputError(
            f"{show(file.name)} is not at hand and has no public source to download it from: "
            f"put it in {show(str(_cache_folder()))}, or in a folder named by the variable TACIT_DATA"
        )
    content = _download(file.url, file)
    _store(content, file)
    return content


def _read(path: Path, file: _File) -> bytes:
    """Read a local copy and check its sum."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if file.zipped else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {show(str(path))} ({one_line(error)}): remove it or replace it") from error
    _check_sum(content, file, str(path))
    return content


def _check_sum(content: bytes, file: _File, source: str) -> None:
    """Refuse content other than what the results were computed on."""
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise InputError(
            f"{source} is not the known {file.name} (sha256 {found[:12]}, expected {file.sha256[:12]}): "
            "remove it or replace it"
        )


def _download(url: str, file: _File) -> bytes:
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
            f"or put {file.name} in {show(str(_cache_folder()))} or in a folder named by TACIT_DATA"
        ) from error
    _check_sum(content, file, url)
    return content


def _with_progress(response: IO[bytes], name: str, size: int | None) -> Iterator[bytes]:
    """Yield the chunks of a response, showing how far it is."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"downloading {name}", total=size)
        while chunk := response.read(_CHUNK):
            progress.advance(task, len(chunk))
            yield chunk


def _store(content: bytes, file: _File) -> None:
    """Keep the content in the cache; a cache that cannot be written only costs another download."""
    folder = _cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _atomic(folder / file.name) as handle:
            handle.write(gzip.compress(content, mtime=0) if file.zipped else content)
    except OSError:
        return


@contextmanager
def _atomic(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only when it is whole."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
