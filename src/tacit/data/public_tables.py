"""Public tables with raw columns (numbers, text, blanks), as pyarrow tables, from a folder or the cache."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from tacit.data.public_files import UCI, PublicFile, content_of
from tacit.types import Vector

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
