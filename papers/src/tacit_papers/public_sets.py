"""Public data sets that the papers alone use: UCI Adult, and Rätsch's benchmarks."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data import datasets
from tacit.data.datasets import UCI, PublicFile, content_of
from tacit.errors import InputError
from tacit.types import Vector

# --- the UCI Adult data set: census rows with six numbers and eight categories, whose values its description lists ---

ADULT = (
    PublicFile(
        "adult.data.gz", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", UCI + "adult/adult.data"
    ),
    PublicFile(
        "adult.test.gz", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", UCI + "adult/adult.test"
    ),
)
NUMBERS = {"age": 0, "fnlwgt": 2, "education-num": 4, "capital-gain": 10, "capital-loss": 11, "hours-per-week": 12}
CATEGORIES = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, "
    "Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, "
    "Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, "
    "Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, "
    "Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, "
    "Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), "
    "India, Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
    "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, "
    "Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands",
}
_CATEGORY_COLUMNS = {
    "workclass": 1,
    "education": 3,
    "marital-status": 5,
    "occupation": 6,
    "relationship": 7,
    "race": 8,
    "sex": 9,
    "native-country": 13,
}
_LABEL = 14
MISSING = -1


@dataclass(frozen=True, eq=False)
class Adult:
    """All rows, those of the train part first.

    Attributes
    ----------
    numbers : array of shape (48842, 6)
        In the order of NUMBERS.
    codes : array of shape (48842, 8)
        Places in the lists of CATEGORIES; -1 where the value is missing.
    y : array of shape (48842,)
        +1 for an income above 50 000 dollars a year, else -1.
    n_train : int
        How many rows are of the train part.
    """

    numbers: npt.NDArray[np.float64]
    codes: npt.NDArray[np.int64]
    y: Vector
    n_train: int

    def complete(self) -> npt.NDArray[np.bool_]:
        """Rows without a missing value (45222)."""
        return np.asarray((self.codes != MISSING).all(axis=1))

    def unary(self) -> npt.NDArray[np.float64]:
        """All rows as 105 columns: a column for each of the 99 listed values, then the numbers from 0 to 1.

        A missing value has no 1. The numbers are scaled by their ranges over all rows.
        """
        blocks = [
            (self.codes[:, [place]] == np.arange(len(values.split(", ")))).astype(float)
            for place, values in enumerate(CATEGORIES.values())
        ]
        low, high = self.numbers.min(axis=0), self.numbers.max(axis=0)
        return np.hstack([*blocks, (self.numbers - low) / (high - low)])


def load_adult() -> Adult:
    """Load Adult (census income; 32561 and 16281 rows, 6 numbers and 8 categories).

    Raises
    ------
    InputError
        When a file is damaged, or is not at hand and cannot be downloaded.
    """
    train, test = (_rows(content_of(file)) for file in ADULT)
    rows = train + test
    numbers = np.array([[float(row[place]) for place in NUMBERS.values()] for row in rows])
    codes = np.empty((len(rows), len(CATEGORIES)), dtype=np.int64)
    for place, (name, values) in enumerate(CATEGORIES.items()):
        known = {value: code for code, value in enumerate(values.split(", "))} | {"?": MISSING}
        codes[:, place] = [known[row[_CATEGORY_COLUMNS[name]]] for row in rows]
    y = np.array([1.0 if row[_LABEL].startswith(">") else -1.0 for row in rows])
    return Adult(numbers, codes, y, len(train))


def _rows(content: bytes) -> list[list[str]]:
    """The lines with all columns; the test part opens with a remark, and both end in an empty line."""
    lines = csv.reader(io.StringIO(content.decode("ascii")), skipinitialspace=True)
    return [line for line in lines if len(line) == _LABEL + 1]


# --- Rätsch's benchmarks: seven small two-class sets with their splits, three of which can be generated ---

RAETSCH = PublicFile("raetsch_benchmarks.npz", "804f9708d3c6d3a0a5428101f1b9b35d558242069f4ab031031dde3274718302")
NAMES = ("banana", "german", "image", "ringnorm", "splice", "twonorm", "waveform")
GENERATED = ("twonorm", "ringnorm", "waveform")


@dataclass(frozen=True, eq=False)
class Raetsch:
    """One of the sets.

    Attributes
    ----------
    X : array of shape (rows, columns)
        As published (standardised; splice: codes 1 to 4).
    y : array of shape (rows,)
        -1 and +1.
    train, test : arrays of shape (splits, rows of the part)
        Places of the rows of each published split.
    """

    X: npt.NDArray[np.float64]
    y: Vector
    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


def load_raetsch(name: str) -> Raetsch:
    """Load one of NAMES.

    Raises
    ------
    InputError
        For another name, or when the file is damaged or not at hand; it has no public source to download it from.
    """
    if name not in NAMES:
        raise InputError(f"there is no benchmark {name!r}: choose one of {', '.join(NAMES)}")
    with np.load(io.BytesIO(content_of(RAETSCH)), allow_pickle=False) as arrays:
        X, y, train, test = (arrays[f"{name}_{part}"] for part in ("X", "y", "train", "test"))
    return Raetsch(X.astype(float), y.astype(float), train.astype(np.int64), test.astype(np.int64))


def generate(name: str, rows: int, seed: int) -> tuple[npt.NDArray[np.float64], Vector]:
    """Draw rows of "twonorm", "ringnorm" (Breiman 1996) or "waveform" (Breiman et al. 1984) from their definitions.

    The published files hold standardised columns; these are standardised over the rows drawn, too.

    Returns
    -------
    X, y : arrays
        20 columns (21 of waveform) and labels -1 and +1.

    Raises
    ------
    InputError
        For another name.
    """
    if name not in GENERATED:
        raise InputError(f"{name!r} has no definition to draw it from: choose one of {', '.join(GENERATED)}")
    rng = np.random.default_rng(seed)
    X, y = _waveform(rng, rows) if name == "waveform" else _norms(rng, rows, ring=name == "ringnorm")
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def _norms(rng: np.random.Generator, rows: int, ring: bool) -> tuple[npt.NDArray[np.float64], Vector]:
    """Two normal classes in 20 dimensions: means +-2/sqrt(20), or N(0, 4 I) against N(2/sqrt(20), I)."""
    d = 20
    y = rng.choice([-1.0, 1.0], size=rows)
    noise = rng.standard_normal((rows, d))
    if ring:
        wide = (y > 0)[:, None]
        return np.where(wide, 2.0 * noise, noise + 2.0 / np.sqrt(d)), y
    return noise + y[:, None] * 2.0 / np.sqrt(d), y


def _waveform(rng: np.random.Generator, rows: int) -> tuple[npt.NDArray[np.float64], Vector]:
    """Random mixtures of two of three triangles, and noise; the second class against the other two."""
    places = np.arange(1, 22)
    waves = np.stack([np.maximum(6 - np.abs(places - peak), 0) for peak in (11, 15, 7)]).astype(float)
    kind = rng.integers(3, size=rows)
    share = rng.random((rows, 1))
    first, second = np.array([0, 0, 1])[kind], np.array([1, 2, 2])[kind]
    X = share * waves[first] + (1 - share) * waves[second] + rng.standard_normal((rows, 21))
    return X, np.where(kind == 1, 1.0, -1.0)


# What an outcome depends on: the checked content of the files, by the name of the data set.
SUMS = datasets.SUMS | {
    name: " ".join(file.sha256 for file in files) for name, files in {"adult": ADULT, "raetsch": (RAETSCH,)}.items()
}
