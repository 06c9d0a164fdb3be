"""The UCI Adult data set: census rows with six numbers and eight categories, whose values its description lists."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.public_files import UCI, PublicFile, content_of
from tacit.types import Vector

FILES = (
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
    train, test = (_rows(content_of(file)) for file in FILES)
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
