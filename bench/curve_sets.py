"""The sets of `curves`: raw columns as frames, labels, fixed splits, and what is public about each column.

Ranges and lists of categories are written by hand from the sets' descriptions (code book knowledge: what a column
means, in which unit, where its publisher caps it), or are those of the generator. None is computed from rows. Cells
beyond a range are taken as at its end. That exact amounts of Adult's capital gains and losses come again and again,
most of them 0, was seen on its training rows. `trees` alone says it, and shows figures with and without.

The label holder has every other column, from the first on; the other party has the rest. Adult: the label holder knows
the person's work (age, workclass, fnlwgt, education, education-num, occupation, hours-per-week), the other party family
and money, of which capital gain tells most: the harder way to cut it, and the one that its targets were set for.
"adult-even" is Adult with every other column; rows split know no difference.

Adult has its published test part. Of the other files 30 % of the rows, drawn with the number of the run as seed, are
for testing; generated sets are drawn anew, with the number of the run as seed. Housing: the median value in units of
100,000 dollars above 200,000 (the publisher caps it at 500,001). Bike: the count of an hour, without its two parts.
Rätsch: columns standardised by their publisher, so that three deviations are the public range; splice: four letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from tacit.data import datasets
from tacit.errors import InputError
from tacit.types import Vector

TEST_SHARE = 0.3
HOLDER, OTHER = "holder", "other"
Ranges = Mapping[str, tuple[float, float]]
Lists = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows to learn from and rows to judge by."""

    train: pd.DataFrame
    y: Vector
    test: pd.DataFrame
    y_test: Vector
    held: tuple[str, ...] = ()  # columns of the label holder; every other one where empty

    def parties(self, frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """Each party's columns."""
        held = self.held or tuple(frame)[::2]
        return {HOLDER: frame[list(held)], OTHER: frame[[name for name in frame if name not in held]]}


@dataclass(frozen=True, eq=False)
class CurveSet:
    """A set by name: `task` says how it is judged, `cut` draws the rows of a run.

    Attributes
    ----------
    task : {"classification", "regression", "counts"}
        Judged by log loss, by root mean squared error, by mean Poisson deviance.
    real : bool
        From a file; else generated.
    one_split : bool
        The publisher's split: runs differ by their noise alone.
    columns_only : bool
        The same rows as another set: only what depends on who holds which column.
    target_range : pair or None
        Public range of labels that are numbers.
    repeats : tuple of str
        Numbers whose exact values come again and again.
    """

    name: str
    task: str
    ranges: Ranges
    lists: Lists
    cut: Callable[[int], Cut]
    real: bool = True
    one_split: bool = False
    columns_only: bool = False
    target_range: tuple[float, float] | None = None
    repeats: tuple[str, ...] = ()

    def public(self, *, repeats: bool = False) -> dict[str, Any]:
        """Ranges and lists for an estimator, with what is known of exact values where that is to be said."""
        said = {
            name: (*own, "repeats") if repeats and name in self.repeats else own for name, own in self.ranges.items()
        }
        return {"ranges": said, "categories": {name: list(words) for name, words in self.lists.items()}}


# --- files -----------------------------------------------------------------------------------------------

_ADULT_RANGES: Ranges = {
    "age": (17, 90),
    "fnlwgt": (0, 1.5e6),
    "education-num": (1, 16),
    "capital-gain": (0, 1e5),
    "capital-loss": (0, 5000),
    "hours-per-week": (1, 99),
}
_ADULT_LISTS: Lists = {
    name: words.split()
    for name, words in {
        "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
        "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
        "1st-4th 10th Doctorate 5th-6th Preschool",
        "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
        "Married-AF-spouse",
        "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
        "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv "
        "Protective-serv Armed-Forces",
        "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
        "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
        "sex": "Female Male",
        "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
        "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
        "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    }.items()
}
# Scores and percentages to 100, months to 50 years or to those since a recent event, counts of accounts by habit;
# -9, -8 and -7 are the publisher's codes for no usual value, and stand below 0.
_HELOC_RANGES: Ranges = {
    f"x{number}": (-9.0, float(high))
    for number, high in enumerate(
        (100, 600, 120, 300, 80, 20, 20, 100, 90, 9, 9, 100, 20, 100, 24, 30, 30, 200, 200, 30, 20, 20, 100), start=1
    )
}
_TELCO_RANGES: Ranges = {
    "SeniorCitizen": (0, 1),
    "tenure": (0, 72),
    "MonthlyCharges": (0, 150),
    "TotalCharges": (0, 10000),
}
_YES_NO = ("No", "Yes")
_BY_INTERNET = ("No", "No internet service", "Yes")
_TELCO_LISTS: Lists = {
    "gender": ("Female", "Male"),
    "Partner": _YES_NO,
    "Dependents": _YES_NO,
    "PhoneService": _YES_NO,
    "MultipleLines": ("No", "No phone service", "Yes"),
    "InternetService": ("DSL", "Fiber optic", "No"),
    "OnlineSecurity": _BY_INTERNET,
    "OnlineBackup": _BY_INTERNET,
    "DeviceProtection": _BY_INTERNET,
    "TechSupport": _BY_INTERNET,
    "StreamingTV": _BY_INTERNET,
    "StreamingMovies": _BY_INTERNET,
    "Contract": ("Month-to-month", "One year", "Two year"),
    "PaperlessBilling": _YES_NO,
    "PaymentMethod": ("Bank transfer (automatic)", "Credit card (automatic)", "Electronic check", "Mailed check"),
}
_HOUSING_RANGES: Ranges = {
    "longitude": (-125, -114),
    "latitude": (32, 42),
    "housing_median_age": (0, 52),
    "total_rooms": (0, 40000),
    "total_bedrooms": (0, 7000),
    "population": (0, 40000),
    "households": (0, 7000),
    "median_income": (0, 15),
}
_HOUSING_LISTS: Lists = {"ocean_proximity": ("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN")}
_BIKE_RANGES: Ranges = {
    "yr": (0, 1),
    "mnth": (1, 12),
    "hr": (0, 23),
    "holiday": (0, 1),
    "weekday": (0, 6),
    "workingday": (0, 1),
    "temp": (0, 1),
    "atemp": (0, 1),
    "hum": (0, 1),
    "windspeed": (0, 1),
}
_BIKE_LISTS: Lists = {
    "season": ("winter", "spring", "summer", "fall"),
    "weathersit": ("clear", "mist", "light rain", "heavy rain"),
}
DEVIATIONS = 3.0
RAETSCH = {"german": 20, "image": 18, "banana": 2, "waveform": 21, "ringnorm": 20, "twonorm": 20, "splice": 60}


ADULT_WORK = ("age", "workclass", "fnlwgt", "education", "education-num", "occupation", "hours-per-week")


def _adult_small(seed: int) -> Cut:
    whole = _adult(seed)
    return Cut(whole.train[:3000], whole.y[:3000], whole.test[:3000], whole.y_test[:3000], ADULT_WORK)


@cache
def _adult_tables() -> Cut:
    train, test = (table.to_pandas() for table in datasets.load_adult())
    labels = [_signs(frame.pop("income") == ">50K") for frame in (train, test)]
    return Cut(train, labels[0], test, labels[1], ADULT_WORK)


def _adult(_: int) -> Cut:
    return _adult_tables()


def _adult_even(_: int) -> Cut:
    return replace(_adult_tables(), held=())


@cache
def _heloc() -> tuple[pd.DataFrame, Vector]:
    frame = datasets.load_heloc().to_pandas()
    return frame, _signs(frame.pop("y") == 1)


@cache
def _telco() -> tuple[pd.DataFrame, Vector]:
    frame = datasets.load_telco().to_pandas()
    return frame, _signs(frame.pop("Churn") == "Yes")


@cache
def _housing() -> tuple[pd.DataFrame, Vector]:
    frame = datasets.load_housing().to_pandas()
    return frame, (frame.pop("median_house_value").to_numpy() - 2e5) / 1e5


@cache
def _bike() -> tuple[pd.DataFrame, Vector]:
    frame = datasets.load_bike().to_pandas()
    counts = frame["cnt"].to_numpy(dtype=float)
    for name, words in _BIKE_LISTS.items():
        frame[name] = frame[name].map(dict(enumerate(words, start=1)))
    return frame[[name for name in frame if name in _BIKE_RANGES or name in _BIKE_LISTS]], counts


def _raetsch(name: str) -> Callable[[], tuple[pd.DataFrame, Vector]]:
    @cache
    def load() -> tuple[pd.DataFrame, Vector]:
        X, y = datasets.load_raetsch(name)
        names = [f"x{j}" for j in range(1, X.shape[1] + 1)]
        if name == "splice":
            return pd.DataFrame(np.array(list("-ACGT"), dtype=object)[X.astype(int)], columns=names), y
        return pd.DataFrame(X, columns=names), y

    return load


def _drawn(load: Callable[[], tuple[pd.DataFrame, Vector]]) -> Callable[[int], Cut]:
    """Train and test rows of a file without published parts."""

    def cut(seed: int) -> Cut:
        frame, y = load()
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = np.split(order, [round(TEST_SHARE * len(order))])
        return Cut(frame.iloc[train].reset_index(drop=True), y[train], frame.iloc[test].reset_index(drop=True), y[test])

    return cut


def _signs(positive: Any) -> Vector:
    return np.where(positive, 1.0, -1.0)


# --- generated -------------------------------------------------------------------------------------------

TRAIN, TEST = 8000, 8000
Score = Callable[[np.random.Generator, int], tuple[pd.DataFrame, Vector]]
_LETTERS = ("a", "b", "c", "d", "e", "f")


def _generated(score: Score, train: int = TRAIN, test: int = TEST) -> Callable[[int], Cut]:
    """Rows with labels whose log odds are the score."""

    def cut(seed: int) -> Cut:
        rng = np.random.default_rng(1000 + seed)
        frame, scores = score(rng, train + test)
        y = _signs(rng.random(train + test) < expit(scores))
        return Cut(frame[:train], y[:train], frame[train:].reset_index(drop=True), y[train:])

    return cut


def _uniform(rng: np.random.Generator, rows: int, columns: int) -> pd.DataFrame:
    return pd.DataFrame(rng.uniform(size=(rows, columns)), columns=[f"x{j}" for j in range(1, columns + 1)])


def _waves(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Vector]:
    """Eight columns, four of them sines of one to two and a half periods, two steps, two without effect."""
    frame = _uniform(rng, rows, 8)
    x = frame.to_numpy()
    sines = sum(1.5 * np.sin(2 * np.pi * (1 + j / 2) * x[:, j] + j) for j in range(4))
    return frame, np.asarray(sines + 1.5 * (x[:, 4] > 0.35) + 1.5 * (np.abs(x[:, 5] - 0.5) < 0.2) - 1.3)


def _friedman(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Vector]:
    """Friedman's first function of five of ten columns, one product of two among its terms."""
    frame = _uniform(rng, rows, 10)
    x = frame.to_numpy()
    f = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return frame, np.asarray((f - 14.4) / 2.5)


def _mixed(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Vector]:
    """Five numbers (one with a long tail, one whole, one with blanks) and five lists, all additive."""
    age, wait = rng.integers(18, 91, rows), rng.uniform(0, 30, rows)
    income, load, level = np.exp(rng.normal(10, 1, rows)), rng.uniform(0, 1, rows), rng.normal(0, 1, rows)
    kinds = rng.integers(0, 6, size=(rows, 5))
    effects = np.random.default_rng(7).normal(0, 0.7, size=(5, 6))  # the same in every run
    score = 2 * np.sin((age - 18) / 12) + 2 * np.abs(np.log(income) - 10) - 1.6 + 1.5 * ((wait > 8) & (wait < 17))
    score = score + 2 * np.cos(2 * np.pi * load) + level + effects[np.arange(5), kinds].sum(axis=1)
    level[rng.random(rows) < 0.05] = np.nan
    numbers = (age.astype(float), income, wait, load, level)
    words = np.array(_LETTERS, dtype=object)
    lists = {f"kind{j + 1}": words[kinds[:, j]] for j in range(5)}
    return pd.DataFrame({**dict(zip(_MIXED_RANGES, numbers, strict=True)), **lists}), score


def _linear(rng: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Vector]:
    """Fifteen correlated normal columns with a linear score."""
    x = np.sqrt(0.8) * rng.normal(size=(rows, 15)) + np.sqrt(0.2) * rng.normal(size=(rows, 1))
    coef = np.random.default_rng(8).normal(0, 0.4, size=15)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(1, 16)]), x @ coef


_MIXED_RANGES: Ranges = {"age": (18, 90), "income": (0, 1e6), "wait": (0, 30), "load": (0, 1), "level": (-4, 4)}


def _numbered(columns: int, low: float, high: float) -> Ranges:
    return {f"x{j}": (low, high) for j in range(1, columns + 1)}


# --- all of them -----------------------------------------------------------------------------------------


def _raetsch_set(name: str, columns: int) -> CurveSet:
    ranges = {} if name == "splice" else _numbered(columns, -DEVIATIONS, DEVIATIONS)
    lists = {f"x{j}": tuple("ACGT") for j in range(1, columns + 1)} if name == "splice" else {}
    return CurveSet(name, "classification", ranges, lists, _drawn(_raetsch(name)))


def _made(name: str, score: Score, ranges: Ranges, lists: Lists | None = None, train: int = TRAIN) -> CurveSet:
    return CurveSet(name, "classification", ranges, lists or {}, _generated(score, train), real=False)


SETS = {
    one.name: one
    for one in (
        CurveSet(
            "adult",
            "classification",
            _ADULT_RANGES,
            _ADULT_LISTS,
            _adult,
            one_split=True,
            repeats=("capital-gain", "capital-loss"),
        ),
        CurveSet(
            "adult-even", "classification", _ADULT_RANGES, _ADULT_LISTS, _adult_even, one_split=True, columns_only=True
        ),
        CurveSet("heloc", "classification", _HELOC_RANGES, {}, _drawn(_heloc)),
        CurveSet("telco", "classification", _TELCO_RANGES, _TELCO_LISTS, _drawn(_telco)),
        CurveSet("housing", "regression", _HOUSING_RANGES, _HOUSING_LISTS, _drawn(_housing), target_range=(-2.0, 3.1)),
        CurveSet("bike", "counts", _BIKE_RANGES, _BIKE_LISTS, _drawn(_bike)),
        *(_raetsch_set(name, columns) for name, columns in RAETSCH.items()),
        _made("waves", _waves, _numbered(8, 0, 1)),
        _made("friedman", _friedman, _numbered(10, 0, 1)),
        _made("mixed", _mixed, _MIXED_RANGES, {f"kind{j}": _LETTERS for j in range(1, 6)}),
        _made("linear", _linear, _numbered(15, -4, 4)),
    )
}
QUICK = {
    one.name: one
    for one in (
        CurveSet("adult-small", "classification", _ADULT_RANGES, _ADULT_LISTS, _adult_small, one_split=True),
        _made("waves", _waves, _numbered(8, 0, 1), train=2000),
        _made("mixed", _mixed, _MIXED_RANGES, {f"kind{j}": _LETTERS for j in range(1, 6)}, train=2000),
    )
}


def missing(one: CurveSet) -> str:
    """Why a set is not at hand; empty where it is."""
    try:
        one.cut(0)
    except InputError as error:
        return str(error)
    return ""
