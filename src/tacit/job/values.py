"""The kinds of value that a job file may hold, and the tables of keys that are read by them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.errors import InputError
from tacit.text import listing, nearest, show


@dataclass(frozen=True)
class Kind:
    """A kind of value: `parse` returns the value, or raises ValueError when it is not `allowed`."""

    allowed: str
    parse: Callable[[Any], Any]


def whole_number(least: int, most: int, allowed: str = "") -> Kind:
    """A whole number in a range; true is not 1."""

    def parse(value: Any) -> int:
        _need(isinstance(value, int) and not isinstance(value, bool) and least <= value <= most)
        return int(value)

    return Kind(allowed or f"a whole number from {least} to {most}", parse)


def number_between(least: float, most: float, *, above: bool = False, below: bool = False) -> Kind:
    """A number in a range; `above` and `below` say that its lower or upper end is not allowed."""

    def parse(value: Any) -> float:
        number = _number(value)
        _need(least < number if above else least <= number)
        _need(number < most if below else number <= most)
        return number

    start = f"a number above {least:g}" if above else f"a number from {least:g}"
    return Kind(f"{start} and below {most:g}" if below else f"{start} to {most:g}", parse)


def one_of(choices: Sequence[str]) -> Kind:
    """One of some words."""

    def parse(value: Any) -> str:
        _need(isinstance(value, str) and value in choices)
        return str(value)

    return Kind("one of " + ", ".join(f'"{choice}"' for choice in choices), parse)


def _need(condition: bool) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError


def _text(value: Any) -> str:
    """Parse text that is not empty."""
    _need(isinstance(value, str) and value != "")
    return str(value)


def _truth(value: Any) -> bool:
    """Parse true or false."""
    _need(isinstance(value, bool))
    return bool(value)


def _number(value: Any) -> float:
    """Parse a finite number not below 0."""
    _need(isinstance(value, (int, float)) and not isinstance(value, bool))
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError from error
    _need(math.isfinite(number) and number >= 0)
    return number


def _positive(value: Any) -> float:
    """Parse a finite number above 0."""
    number = _number(value)
    _need(number > 0)
    return number


def _positive_by_name(value: Any) -> float | dict[str, float]:
    """Parse a number above 0, or a table of such numbers by name."""
    if not isinstance(value, dict):
        return _positive(value)
    _need(len(value) > 0)
    return {name: _positive(number) for name, number in value.items()}


def _positives(value: Any) -> float | tuple[float, ...]:
    """Parse a number above 0, or a list of such numbers."""
    if not isinstance(value, list):
        return _positive(value)
    _need(len(value) > 0)
    return tuple(_positive(number) for number in value)


def _positives_by_name(value: Any) -> float | tuple[float, ...] | dict[str, float | tuple[float, ...]]:
    """Parse a number above 0, a list of such numbers, or a table of either by name."""
    if not isinstance(value, dict):
        return _positives(value)
    _need(len(value) > 0)
    return {name: _positives(own) for name, own in value.items()}


def _lists_by_name(value: Any) -> dict[str, tuple[float, ...]]:
    """Parse a table of lists of numbers above 0 by name."""
    _need(isinstance(value, dict) and len(value) > 0 and all(isinstance(own, list) and own for own in value.values()))
    return {name: tuple(_positive(number) for number in own) for name, own in value.items()}


def _part(value: Any) -> float:
    """Parse a part of a whole that leaves at least half of it."""
    number = _number(value)
    _need(number <= 0.5)
    return number


def _names(value: Any) -> tuple[str, ...]:
    """Parse a list of different names."""
    _need(isinstance(value, list) and len(value) > 0)
    names = tuple(_text(item) for item in value)
    _need(len(set(names)) == len(names))
    return names


def _edges(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse a list of pairs of names."""
    _need(isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value))
    return tuple((_text(a), _text(b)) for a, b in value)


_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _amount(value: Any) -> str:
    """Parse an amount of memory; it stays as written."""
    text = _text(value)
    bytes_of(text)
    return text


def bytes_of(amount: str) -> int:
    """Bytes of an amount such as "2GB" or "1.5 GB".

    Raises
    ------
    ValueError
        For anything else.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?) ?(kB|MB|GB|TB)", amount)
    _need(found is not None)
    assert found is not None
    return round(float(found[1]) * _UNITS[found[2]])


AMOUNT = Kind('an amount of memory such as "2GB" or "500MB"', _amount)
TEXT = Kind("text in quotes, not empty", _text)
TRUTH = Kind("true or false", _truth)
TRUTH_OR_AUTO = Kind('true, false or "auto"', lambda value: value if value == "auto" else _truth(value))
NUMBER = Kind("a number, 0 or above", _number)
PART = Kind("a number from 0 to 0.5", _part)
POSITIVE = Kind("a number above 0", _positive)
POSITIVE_OR_NONE = Kind('a number above 0, or "none"', lambda value: None if value == "none" else _positive(value))
POSITIVE_BY_NAME = Kind(
    "a number above 0, or a table with one for each party, such as { bank = 1.0, shop = 2.0 }", _positive_by_name
)
POSITIVES_BY_NAME = Kind(
    "a number above 0, a list with one for each round, or a table with either for each party, such as "
    "{ north = 0.1, east = [0.1, 0.2] }",
    _positives_by_name,
)
LISTS_BY_NAME = Kind(
    "a table with a list of numbers above 0 for each party, such as { north = [1.0, 2.0] }", _lists_by_name
)
POSITIVE_OR_AUTO = Kind('a number above 0, or "auto"', lambda value: value if value == "auto" else _positive(value))
NAMES = Kind("a list of column names in quotes, none twice, not empty", _names)
USUAL = {  # what other software calls a key
    "file": "data",
    "path": "data",
    "target": "label",
    "key": "id",
    "lambda": "alpha",
    "eps": "epsilon",
    "max_iter": "rounds",
    "test_size": "holdout",
    "random_state": "seed",
    "sep": "delimiter",
    "sample_weight": "weight",
}
EDGES = Kind('a list of pairs of parties, such as [["a", "b"], ["b", "c"]]', _edges)


def parse_keys(values: Mapping[str, Any], allowed: Mapping[str, Kind], place: str) -> dict[str, Any]:
    """Values of a table of the file, each of the kind that its key has; `place` is the table's name in refusals.

    Raises
    ------
    InputError
        For an unknown key, or a value that is not allowed.
    """
    parsed = {}
    for key, value in values.items():
        if key not in allowed:
            hint = nearest(USUAL.get(key, key), list(allowed))
            raise InputError(f"unknown key {show(f'{place}.{key}')}{hint}: allowed are {listing(allowed)}")
        try:
            parsed[key] = allowed[key].parse(value)
        except ValueError as error:
            must = allowed[key].allowed
            raise InputError(f"{place}.{key} = {show(value)} is not allowed: it must be {must}") from error
    return parsed
