"""Public data sets of the papers and the benches, from a folder, the cache or their public source."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import scipy.sparse as sp

from tacit.errors import InputError
from tacit.text import one_line, raw, show
from tacit.types import Matrix, Vector

# --- Published files: from the folder TACIT_DATA, else the user's cache, else their public source, checked by sha256


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


# --- Data sets as matrices


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels (-1 and +1); the test part is None where the data set has no split."""

    X_train: Matrix
    y_train: Vector
    X_test: Matrix | None = None
    y_test: Vector | None = None


_A9A = PublicFile(
    "a9a.svm.gz",
    "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    _LIBSVM + "a9a",
)
_A9A_TEST = PublicFile(
    "a9a.t.svm.gz",
    "7d8c09f1120d9ff231d85caba98956906033f3c4d53e2b15ab7ef83710de6a76",
    _LIBSVM + "a9a.t",
)
_MNIST49 = PublicFile("mnist49.npz", "a27ceaec845632dc87ac07761b0a3a81786cf3ffc0c226bd20aceae4cb166191")
_GISETTE = tuple(
    PublicFile(f"{name}.gz", sha256, UCI + "gisette/" + folder + name)
    for name, sha256, folder in (
        ("gisette_train.data", "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389", "GISETTE/"),
        ("gisette_train.labels", "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075", "GISETTE/"),
        ("gisette_valid.data", "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254", "GISETTE/"),
        ("gisette_valid.labels", "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5", ""),
    )
)
_BASEHOCK = PublicFile("basehock.svm.gz", "650c703bcad63c59bd426f54f464a92aa4d7cb7caa1689083560431185cdf35a")


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
    X_train, y_train = _svmlight(content_of(_A9A), 123)
    X_test, y_test = _svmlight(content_of(_A9A_TEST), 123)
    return Dataset(X_train, y_train, X_test, y_test)


def load_gisette() -> Dataset:
    """Load gisette (digits 4 and 9 with many distractors; 6000 and 1000 rows, 5000 columns).

    The rows are those of the UCI repository; the test part is its validation part, as it is in LIBSVM. Every column is
    scaled from -1 to 1 by its range in the train part, as LIBSVM does.

    Returns
    -------
    Dataset
        Dense float64 features, labels -1 and +1, the published train and test parts.

    Raises
    ------
    InputError
        When a file is damaged, or is not at hand and cannot be downloaded.
    """
    X_train, y_train, X_test, y_test = (np.loadtxt(io.BytesIO(content_of(file))) for file in _GISETTE)
    low, high = X_train.min(axis=0), X_train.max(axis=0)
    spread = np.where(high > low, high - low, np.inf)  # a constant column says nothing: it becomes -1 everywhere
    return Dataset(2 * (X_train - low) / spread - 1, y_train, 2 * (X_test - low) / spread - 1, y_test)


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
    with np.load(io.BytesIO(content_of(_MNIST49)), allow_pickle=False) as arrays:
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
    counts, y = _svmlight(content_of(_BASEHOCK), 4862)
    return Dataset(counts.log1p(), y)


def _svmlight(content: bytes, n_features: int) -> tuple[Any, npt.NDArray[np.float64]]:
    """Parse LIBSVM text."""
    from sklearn.datasets import load_svmlight_file  # here: it is slow to import

    X, y = load_svmlight_file(io.BytesIO(content), n_features=n_features, zero_based=False)
    return sp.csr_array(X), y


# What an outcome depends on: the checked content of the files, by the name of the data set.
SUMS = {
    name: " ".join(file.sha256 for file in files)
    for name, files in {
        "a9a": (_A9A, _A9A_TEST),
        "gisette": _GISETTE,
        "mnist49": (_MNIST49,),
        "basehock": (_BASEHOCK,),
    }.items()
}


# --- Tables with raw columns (numbers, text, blanks), as pyarrow tables


_ADULT = PublicFile(
    "adult.data.gz",
    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    UCI + "adult/adult.data",
)
_ADULT_TEST = PublicFile(
    "adult.test.gz",
    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    UCI + "adult/adult.test",
)
_HELOC = PublicFile("heloc.csv.gz", "b3dee3039da3c3359705f434951542737e7cf9faa04d2a1a3c607f9a1f91dab9")
_TELCO = PublicFile("telco_churn.csv.gz", "d01dab7c465241a21d9b894d1737fe70eed6b73571a364f37be1d02718d11e1e")
_HOUSING = PublicFile("california_housing.csv.gz", "8a3727f4cf54ac1a327f69b1d5b4db54c5834ea81c6e4efc0d163300022a685e")
_BIKE = PublicFile("bike_hour.csv.gz", "8dd24333c2e034412124c39d74ce7cc62647488061dcd637499dd729c7676952")
_RAETSCH = PublicFile("raetsch_benchmarks.npz", "804f9708d3c6d3a0a5428101f1b9b35d558242069f4ab031031dde3274718302")

ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def load_adult() -> tuple[Any, Any]:
    """Load UCI Adult, raw: 32561 and 16281 rows of 14 columns, and "income" (<=50K, >50K).

    Returns
    -------
    tuple of pyarrow.Table
        The published train and test parts; "?" is a blank.

    Raises
    ------
    InputError
        When a file is damaged, or is not at hand and cannot be downloaded.
    """
    return _adult(content_of(_ADULT)), _adult(content_of(_ADULT_TEST))


def load_heloc() -> Any:
    """Load FICO's HELOC credit: 10459 rows, "y" (1: bad) and x1 to x23; -7, -8 and -9 are codes for no usual value.

    Raises
    ------
    InputError
        When the file is damaged or not at hand; it is published to those who register for FICO's challenge.
    """
    return _table(content_of(_HELOC))


def load_telco() -> Any:
    """Load IBM's telco churn: 7043 rows of 19 columns, most of them text, and "Churn" (No, Yes).

    Raises
    ------
    InputError
        When the file is damaged or not at hand; IBM publishes it among the samples of its Cognos software.
    """
    return _table(content_of(_TELCO))


def load_housing() -> Any:
    """Load California housing: 20640 districts, 8 numbers, "ocean_proximity" (text) and "median_house_value".

    Raises
    ------
    InputError
        When the file is damaged or not at hand; the numbers without the text are `fetch_california_housing` of sklearn.
    """
    return _table(content_of(_HOUSING))


def load_bike() -> Any:
    """Load bike sharing by the hour: 17520 rows; "cnt" is the count, the sum of "casual" and "registered".

    Of these 141 are hours without a record, with a count of 0 and a blank weather.

    Raises
    ------
    InputError
        When the file is damaged or not at hand; UCI publishes it without those 141 rows.
    """
    return _table(content_of(_BIKE))


def load_raetsch(name: str) -> tuple[Vector, Vector]:
    """Load all rows of a Rätsch set ("banana", "german", "image", "ringnorm", "splice", "twonorm", "waveform").

    Returns
    -------
    tuple of arrays
        Features, standardised by their publisher (splice: codes 1 to 4), and labels -1 and +1.

    Raises
    ------
    InputError
        When the file is damaged or not at hand; it has no public source to download it from.
    """
    with np.load(io.BytesIO(content_of(_RAETSCH)), allow_pickle=False) as arrays:
        return arrays[f"{name}_X"].astype(float), arrays[f"{name}_y"].astype(float)


def _adult(content: bytes) -> Any:
    """Rows of one file, without the first line of the test part, the dots behind its labels, and empty lines."""
    lines = [line.rstrip(b".").replace(b", ", b",") for line in content.splitlines() if line.count(b",") == 14]
    return _table(b"\n".join(lines), ADULT_COLUMNS)


def _table(content: bytes, names: tuple[str, ...] | None = None) -> Any:
    """Parse a table; empty cells, spaces and "?" are blanks."""
    table: pa.Table = pacsv.read_csv(
        io.BytesIO(content),
        read_options=pacsv.ReadOptions(column_names=names),
        convert_options=pacsv.ConvertOptions(null_values=["", " ", "?"], strings_can_be_null=True),
    )
    return table
