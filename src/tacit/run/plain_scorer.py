"""A trained model as one file of plain Python: it needs nothing but Python itself, and holds all numbers of the model.

    python FILE < rows.csv > scores.csv             scores of the rows of a CSV file
    from scorer import score, predict               score({"age": 41, "city": "Bern"})

A row is a dictionary from columns to cells. A cell is a number, a text, a date (a text such as 2026-01-31), or None or
an empty text for a blank. What a model makes of a row is written below, step by step: `encode` makes numbers of cells,
`part_score` adds them up as one party does, and `score` adds up the parties.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import math
import sys
import unicodedata
from bisect import bisect_right
from typing import Any

MODEL: dict[str, Any] = {}

BLANKS = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "n/a", "nan", "null"),
}
SECONDS_OF_A_DAY = 86_400.0
STEPS = 1000.0  # places of a long range are linear up to one of so many steps of it
SCORE_CLIP = 4.0  # where a score is bent off
LONGEST = 1e60  # a row longer than this many times the norm of its clip counts as zeros
ZERO = 1e-35  # below which trees that take zeros for blanks see a zero

Row = dict[str, Any]
Column = dict[str, Any]


# --- cells ---------------------------------------------------------------------------------------------------


def text_of(cell: Any) -> str:
    """The text of a cell, without spaces around it; empty for a blank."""
    if cell is None or cell != cell:
        return ""
    return unicodedata.normalize("NFC", str(cell).strip())


def number_of(cell: Any, column: Column) -> float:
    """The number of a cell, or the days since 1970-01-01 of a date; NaN for a blank."""
    if isinstance(cell, datetime.date) or (column.get("days") and isinstance(cell, str) and cell.strip()):
        return _days(cell)
    if isinstance(cell, str) or cell is None:
        text = text_of(cell)
        return math.nan if text in BLANKS else _finite(float(text), column)
    return _finite(float(cell), column)


def _finite(number: float, column: Column) -> float:
    if math.isinf(number):
        raise ValueError(f"column {column['name']!r} holds an infinite number: fix it, or leave it blank")
    return number


def _days(cell: Any) -> float:
    when = datetime.datetime.fromisoformat(cell.strip() if isinstance(cell, str) else cell.isoformat())
    when = when.replace(tzinfo=datetime.timezone.utc) if when.tzinfo is None else when  # noqa: UP017
    return when.timestamp() / SECONDS_OF_A_DAY


# --- what cells become ---------------------------------------------------------------------------------------


def encode(column: Column, cell: Any) -> list[float]:
    """The numbers that a column makes of a cell."""
    return _ENCODERS[column["kind"]](column, cell)


def _as_it_is(column: Column, cell: Any) -> list[float]:
    number = number_of(cell, column)
    if math.isnan(number):
        raise ValueError(f"column {column['name']!r} is blank, and the model has no number for blanks: fill it in")
    return [number]


def _number(column: Column, cell: Any) -> list[float]:
    """(x - centre) / divisor, x clipped to a range where there is one."""
    number = number_of(cell, column)
    blank = math.isnan(number)
    value = column["fill"] if blank else number
    bounded = column["low"] is not None and column["high"] is not None
    if bounded:
        value = min(max(value, column["low"]), column["high"])
    if column["centre"] != 0.0 or column["divisor"] != 1.0:
        value = (value / 2 - column["centre"] / 2) / column["divisor"] * 2
        value = min(max(value, -1.0), 1.0) if bounded else value
    return [value, float(blank)] if column["missing"] else [value]


def _category(column: Column, cell: Any) -> list[float]:
    """One number for each category, one for all others, and one for blanks where the model has it."""
    values, text = column["values"], text_of(cell)
    blank = len(values) + 1 if column["missing"] else len(values)
    place = blank if text in ("", "missing") else values.index(text) if text in values else len(values)
    return _one_of(place, len(values) + 1 + column["missing"], column["height"])


def _buckets(column: Column, cell: Any) -> list[float]:
    """One number for each bucket that texts are hashed into, and one for blanks where the model has it."""
    text, count = text_of(cell), column["buckets"]
    digest = hashlib.sha256(f"{column['name']}={text}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") % count
    return _one_of(place if text else count, count + column["missing"], column["height"])


def _one_of(place: int, width: int, height: float) -> list[float]:
    return [height if k == place else 0.0 for k in range(width)]


def _part_of_way(value: float, low: float, high: float) -> float:
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _fourier(column: Column, cell: Any) -> list[float]:
    """Waves over a range, of heights that fall with the frequency."""
    number, heights = number_of(cell, column), column["heights"]
    blank = math.isnan(number)
    value = column["low"] / 2 + column["high"] / 2 if blank else min(max(number, column["low"]), column["high"])
    place = _part_of_way(value, column["low"], column["high"])
    place = math.asinh(STEPS * place) / math.asinh(STEPS) if column["log"] else place
    angles = [math.pi * (k + 1) * place for k in range(len(heights))]
    waves = [wave(angle) * height for wave in (math.cos, math.sin) for angle, height in zip(angles, heights)]  # noqa: B905
    code = waves or [2 * place - 1]
    if not column["missing"]:
        return code
    return [0.0] * len(code) + [1.0] if blank else [*code, 0.0]


def _spline(column: Column, cell: Any) -> list[float]:
    """A line and tents between knots, and spikes at some values; as at the outermost knots beyond them."""
    number, knots, shapes = number_of(cell, column), column["knots"], column["shapes"]
    blank = math.isnan(number)
    value = knots[0] if blank else min(max(number, knots[0]), knots[-1])
    below = max(min(bisect_right(knots, value) - 1, len(knots) - 2), 0)
    above = min(below + 1, len(knots) - 1)
    part = _part_of_way(value, knots[below], knots[above]) if above > below else 0.0
    curve = [(1 - part) * a + part * b for a, b in zip(shapes[below], shapes[above])]  # noqa: B905
    code = [*curve, *(float(value == spike) for spike in column["spikes"])]
    code = [0.0] * len(code) if blank else code
    return [column["unit"] * one for one in ([*code, float(blank)] if column["missing"] else code)]


def _code(column: Column, cell: Any) -> list[float]:
    """A cell as trees take it: a number, or the number of its category; NaN for blanks and for other categories."""
    if column["values"] is None:
        return [number_of(cell, column)]
    text = text_of(cell)
    return [float(column["values"].index(text)) if text in column["values"] else math.nan]


_ENCODERS = {
    "plain": _as_it_is,
    "number": _number,
    "category": _category,
    "buckets": _buckets,
    "fourier": _fourier,
    "spline": _spline,
    "raw": _code,
}


# --- scores --------------------------------------------------------------------------------------------------


def part_score(part: dict[str, Any], row: Row) -> list[float]:
    """What one party's part adds to a row: one number, or one for each of several classes."""
    numbers = [number for column in part["columns"] for number in encode(column, _cell(row, column))]
    if part["trees"] is None:
        scores = _linear(part, numbers)
    else:
        scores = [-offset for offset in part["offset"]]
        for place, tree in enumerate(part["trees"]):
            scores[place % len(scores)] += _leaf(tree, numbers)
    bend = part["bend"]
    return [one + bend * min(max(one, -SCORE_CLIP), SCORE_CLIP) for one in scores]


def _cell(row: Row, column: Column) -> Any:
    if column["name"] not in row:
        raise ValueError(f"the row has no column {column['name']!r}: give all columns of the model")
    return row[column["name"]]


def _dot(one: list[float], two: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, two))  # noqa: B905


def _linear(part: dict[str, Any], numbers: list[float]) -> list[float]:
    clip = part["clip"]
    if clip is None:
        return [_dot(numbers, coef) - offset for coef, offset in zip(part["coef"], part["offset"])]  # noqa: B905
    centre = clip["centre"] or [0.0] * len(numbers)
    shrink, factor = _clipped(clip, centre, numbers)
    row = [factor * (shrink * number - middle) + middle for number, middle in zip(numbers, centre)]  # noqa: B905
    return [_dot(row, coef) - offset for coef, offset in zip(part["coef"], part["offset"])]  # noqa: B905


def _clipped(clip: dict[str, Any], centre: list[float], row: list[float]) -> tuple[float, float]:
    """By what a row is shrunk to a norm, and then to a radius around a centre."""
    unsure = (len(row) + 16) * 2.0**-52  # the rounding of a norm
    squares = _dot(row, row) if max(map(abs, row)) < 1e150 else math.inf
    if not squares < (LONGEST * clip["norm"]) ** 2:
        return 0.0, _ratio(clip["radius"], _dot(centre, centre), unsure) if clip["centre"] else 1.0
    shrink = clip["norm"] / max(clip["norm"], (1 + unsure) * math.sqrt(squares))
    if not clip["centre"]:
        return shrink, 1.0
    size = _dot(centre, centre)
    away = max(shrink**2 * squares - 2 * shrink * _dot(row, centre) + size, 0.0)
    return shrink, _ratio(clip["radius"], away + unsure * (shrink**2 * squares + size), unsure)


def _ratio(radius: float, squares: float, unsure: float) -> float:
    return radius / max(radius, (1 + unsure) * math.sqrt(squares))


def _leaf(tree: dict[str, Any], row: list[float]) -> float:
    """The value of the leaf that a row comes to; an inner node is (place of a column, rule, left, right)."""
    at = 0 if tree["nodes"] else -1
    while at >= 0:
        place, rule, left, right = tree["nodes"][at]
        at = left if _goes_left(row[place], rule) else right
    return float(tree["leaves"][-at - 1])


def _goes_left(value: float, rule: dict[str, Any]) -> bool:
    """A rule is a set of categories, or a threshold and what becomes of blanks ("number", "zero" or "blank")."""
    if "categories" in rule:
        return not math.isnan(value) and int(value) in rule["categories"]
    if math.isnan(value) and rule["blanks"] != "blank":
        value = 0.0
    if (rule["blanks"] == "zero" and abs(value) <= ZERO) or math.isnan(value):
        return bool(rule["blanks_left"])
    return value <= float(rule["threshold"])


def score(row: Row, model: dict[str, Any] | None = None) -> Any:
    """The score of a row: one number, or a list with one for each of several classes."""
    model = MODEL if model is None else model
    parts = [part_score(part, row) for part in model["parts"]]
    totals = [math.fsum(own) for own in zip(model["constant"], *parts)]  # noqa: B905
    totals = [total + _row_offset(row, model) for total in totals]
    return totals[0] if len(totals) == 1 else totals


def _row_offset(row: Row, model: dict[str, Any]) -> float:
    """What a row adds by itself, where the model was trained with an offset or an exposure; 0 without its column."""
    total = 0.0
    for role, name in model["row_columns"]:
        if name in row:
            number = number_of(row[name], {"name": name})
            total += math.log(number) if role == "exposure" else number
    return total


def predict(row: Row, model: dict[str, Any] | None = None) -> dict[str, Any]:
    """The score of a row, what it predicts, and the probability where the model has one.

    A part of a model has a score alone: what it predicts follows from the sum over all parties.
    """
    model = MODEL if model is None else model
    found = score(row, model)
    if not model["whole"]:
        return {"score": found}
    if model["task"] == "counts":
        return {"score": found, "prediction": math.exp(found) if found < 709.0 else math.inf}
    if model["task"] != "classification":
        return {"score": found, "prediction": found}
    if isinstance(found, list):
        odds = [math.exp(one - max(found)) for one in found]
        label = model["classes"][found.index(max(found))]
        return {"score": found, "prediction": label, "probability": [one / sum(odds) for one in odds]}
    above = found > math.log(model["threshold"] / (1 - model["threshold"]))
    told = {"score": found, "prediction": model["classes"][int(above)]}
    return {**told, "probability": _expit(found)} if model["log_odds"] else told


def _expit(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def main() -> None:
    """Read rows from CSV at the standard input, and write their scores as CSV."""
    writer = None
    for row in csv.DictReader(sys.stdin):
        told = predict(dict(row))
        flat: dict[str, Any] = {}
        for name, value in told.items():
            several = isinstance(value, list)
            flat.update({f"{name} {k}": one for k, one in zip(MODEL["classes"], value)} if several else {name: value})  # noqa: B905
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(flat), lineterminator="\n")
            writer.writeheader()
        writer.writerow(flat)


if __name__ == "__main__":
    main()
