"""Plain values checked against a shape: every refusal is one line that names the field and how to fix it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from tacit.errors import InputError

# --- Plain values in and out of JSON: every refusal is one line that names the field and the way out


Record = dict[str, Any]
_LONGEST = 60


def show(value: object) -> str:
    """A value for a message: on one line, cut when long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, values nested without end
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def load(text: str | bytes) -> Record:
    """The JSON object in `text`; a field given twice, NaN and Infinity are refused."""
    try:
        record = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_no_twins)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or nested without end
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"not whole JSON ({reason[:120]}): give the file as it was written") from error
    return as_record(record, "the whole")


def dump(record: Mapping[str, Any]) -> str:
    """Strict JSON, whose numbers read back exactly."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: float) -> float | str:
    """A number for strict JSON, which has no infinity."""
    return "infinity" if value == math.inf else value


def as_record(value: object, where: str) -> Record:
    """A JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"{where} is {show(value)}: it must be a JSON object")
    return value


def as_list(value: object, where: str) -> list[Any]:
    """A JSON array."""
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} is {show(value)}: it must be a list")
    return list(value)


def as_text(value: object, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(f"{where}={show(value)} is not allowed: it must be text")
    return value


def as_number(value: object, where: str, *, infinite: bool = False) -> float:
    """A finite number, or also "infinity" where `infinite` is set."""
    if infinite and (value == "infinity" or value == math.inf):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        allowed = 'a number or "infinity"' if infinite else "a finite number"
        raise InputError(f"{where}={show(value)} is not allowed: it must be {allowed}")
    return float(value)


def as_whole(value: object, where: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**9:
        raise InputError(f"{where}={show(value)} is not allowed: it must be a whole number from {least} to 10^9")
    return value


def as_choice(value: object, where: str, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{where}={show(value)} is not allowed: choose one of {', '.join(allowed)}")
    return value


def at_least(value: object, where: str, least: float) -> float:
    """A finite number not below `least`."""
    number = as_number(value, where)
    if number < least:
        raise InputError(f"{where}={show(value)} is not allowed: it must be at least {least:g}")
    return number


def positive(value: object, where: str) -> float:
    """A finite number above 0."""
    number = as_number(value, where)
    if number <= 0:
        raise InputError(f"{where}={show(value)} is not allowed: it must be positive")
    return number


def probability(value: object, where: str) -> float:
    """A number from 0 to below 1."""
    number = as_number(value, where)
    if not 0 <= number < 1:
        raise InputError(f"{where}={show(value)} is not allowed: it must be at least 0 and below 1, 1e-5 say")
    return number


def texts(value: object, where: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(as_text(item, f"{where}[{number}]") for number, item in enumerate(as_list(value, where)))


def text_map(value: object, where: str) -> dict[str, str]:
    """A JSON object whose values are texts."""
    return {name: as_text(item, f"{where}.{name}") for name, item in as_record(value, where).items()}


def check_names(record: Record, where: str, needed: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Refuse a field that is missing, and one that nobody knows."""
    needed = list(needed)
    for name in needed:
        if name not in record:
            raise InputError(f"{where} has no field {name}: give the file as it was written")
    for name in record:
        if name not in needed and name not in optional:
            raise InputError(f"{where} has an unknown field {show(name)}: a field that is not understood is refused")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _no_twins(pairs: list[tuple[str, Any]]) -> Record:
    record: Record = {}
    for name, value in pairs:
        if name in record:
            raise InputError(f"the field {show(name)} is given twice: it must be given once")
        record[name] = value
    return record
