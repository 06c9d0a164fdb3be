"""An independent reading of CSV and LIBSVM bytes: Python's csv module and the rules as documented, without Arrow."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

# What the readers take for no value in a column of numbers.
NOTHING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "n/a", "nan", "null"),
}
TRUTH = {
    "1": True,
    "true": True,
    "True": True,
    "TRUE": True,
    "0": False,
    "false": False,
    "False": False,
    "FALSE": False,
}
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
BLANKS = " \t"


class UnreadableError(Exception):
    """The bytes are no table."""


@dataclass(frozen=True)
class Cells:
    """Header and rows of a file as texts."""

    header: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def read_cells(content: bytes) -> Cells:
    """The cells, where every row has as many as the header and no quote stays open."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("no UTF-8") from error
    csv.field_size_limit(10**9)
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UnreadableError("a quote stays open") from error
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise UnreadableError("rows of other lengths")
    if len(set(rows[0])) < len(rows[0]) or "" in rows[0]:
        raise UnreadableError("a header without names")
    return Cells(rows[0], rows[1:])


def same_value(text: str, value: Any) -> bool:
    """Whether a value of a typed column is what its cell says; None stands for a blank."""
    if isinstance(value, str):
        return value == text
    if value is None:
        return text.strip(BLANKS) in NOTHING
    bare = text.strip(BLANKS)
    if isinstance(value, bool):
        return TRUTH.get(bare) is value
    if isinstance(value, datetime.datetime):
        return datetime.datetime.fromisoformat(bare).replace(tzinfo=None) == value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.date.fromisoformat(bare) == value
    if isinstance(value, datetime.time):
        return datetime.time.fromisoformat(bare) == value
    return same_number(bare, value)


def same_number(bare: str, value: float) -> bool:
    """Whether a number is the nearest one to what is written."""
    if re.fullmatch("[-+]?0[xX][0-9a-fA-F]+", bare):
        return int(bare, 16) == value
    if NUMBER.fullmatch(bare):
        return float(bare) == value
    return not math.isfinite(value) and bare.lower().lstrip("+-") in ("inf", "infinity", "nan")


def reads_as_numbers(cells: list[str]) -> bool:
    """Whether nobody could take a column for anything but numbers."""
    bare = [cell.strip(BLANKS) for cell in cells if cell.strip(BLANKS) not in NOTHING]
    return bool(bare) and all(NUMBER.fullmatch(cell) for cell in bare)


def encoded(cells: list[str], order: list[int], *, numbers: bool) -> dict[str, np.ndarray]:
    """What the columns of one column must hold without scaling, where every category counts."""
    if numbers:
        bare = [cells[row].strip(BLANKS) for row in order]
        blank = np.array([cell in NOTHING for cell in bare])
        values = np.array([math.nan if cell in NOTHING else _number(cell) for cell in bare])
        mean = math.fsum(values[~blank] / max(1, np.sum(~blank)))  # of values near the largest float, too
        found = {"": np.where(blank, mean, values)}
        return found | {" missing": blank.astype(float)} if blank.any() and not blank.all() else found
    texts = [unicodedata.normalize("NFC", cells[row].strip()) for row in order]
    values = sorted({text for text in texts if text not in ("", "other", "missing")})
    own = {f"={value}": np.array([text == value for text in texts], dtype=float) for value in values}
    missing = np.array([text in ("", "missing") for text in texts], dtype=float)
    own["=other"] = np.array([text == "other" for text in texts], dtype=float)
    return own | {"=missing": missing} if missing.any() else own


def _number(bare: str) -> float:
    if bare in TRUTH and not NUMBER.fullmatch(bare):
        return float(TRUTH[bare])
    return float(int(bare, 16)) if bare[:2].lower() == "0x" else float(bare)


def read_sparse(content: bytes) -> tuple[list[float], list[dict[int, float]]]:
    """Labels and entries of a LIBSVM file, by the format's own grammar."""
    labels: list[float] = []
    rows: list[dict[int, float]] = []
    for line in content.split(b"\n"):
        words = line.split(b"#", 1)[0].decode("latin-1").split()
        if not words:
            continue
        labels.append(_plain(words[0]))
        entries: dict[int, float] = {}
        last = 0
        for word in words[1:]:
            name, _, value = word.partition(":")
            if name == "qid" and word is words[1]:
                continue
            if not re.fullmatch("[+]?[0-9]+", name) or int(name) <= last:
                raise UnreadableError(word)
            last = int(name)
            entries[last] = _plain(value)
        rows.append(entries)
    if not rows:
        raise UnreadableError("no rows")
    return labels, rows


def _plain(text: str) -> float:
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(text)
    if not NUMBER.fullmatch(text):
        raise UnreadableError(text)
    return float(text)
