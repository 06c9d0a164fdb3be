"""Public data sets of the papers and the benches, from a folder, the cache or their public source."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tacit.data.public_files import UCI, PublicFile, content_of
from tacit.types import Matrix, Vector

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
