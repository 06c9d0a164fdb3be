"""TOML: reading what somebody else may have written, and writing the few kinds of value that settings have.

Such TOML is small, flat, and in characters that a terminal shows as they are. The parser of the standard library takes
time that grows with the square of the number of parts of a dotted key, so the text is looked at once, in time that
grows with its length, before it is parsed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tacit.errors import InputError
from tacit.text import is_control, one_line, show

# --- Reading


MOST_BYTES = 1_000_000
DEEPEST = 16  # parts of a dotted key, and brackets inside brackets

# Text and comments, which may hold anything. What is not closed goes on to the end of the text: every match is final.
_QUOTED = re.compile(
    r'"""(?:[^\\"]|\\(?s:.)|"(?!""))*+(?:"{3,5}|\Z)|'
    r"'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)|"
    r'"(?:[^\\"\n]|\\[^\n])*+(?:"|\n|\\|\Z)|'
    r"'[^'\n]*+(?:'|\n|\Z)|"
    r"(#)[^\n]*+"
)
_DOTTED = re.compile(r"[^=,\[\]{}\n]++")  # a key or a value, of which none has many dots outside of quotes


def read_toml(text: str, what: str) -> dict[str, Any]:
    """Parse a text.

    Parameters
    ----------
    text : str
    what : str
        What it is, for the message: "the file", "the job".

    Raises
    ------
    InputError
        With the reason: it is too long, too deep, no TOML, or holds control characters.
    """
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise InputError(f"{what} is longer than {MOST_BYTES:,} bytes: that is no list of settings; shorten it")
    _check_depth(text, what)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, which says the line, is a ValueError
        raise InputError(f"{what} is not valid TOML: {one_line(error)}") from error
    _check_characters(document, what)
    return document


def _check_depth(text: str, what: str) -> None:
    """Refuse what a parser would take long for, or run out of stack."""
    plain = _QUOTED.sub(lambda found: "" if found[1] else "s", text)
    if any(found[0].count(".") >= DEEPEST for found in _DOTTED.finditer(plain)):
        raise InputError(f"{what} has a dotted key of more than {DEEPEST} parts: no setting is so deep; shorten it")
    depth = 0
    for bracket in re.findall(r"[\[\]{}\n]", plain):
        if bracket in "[{":
            depth += 1
        elif bracket in "]}":
            depth = max(0, depth - 1)
        if depth > DEEPEST:
            raise InputError(f"{what} has more than {DEEPEST} brackets inside each other: no setting is so deep")


def _check_characters(value: Any, what: str, where: str = "") -> None:
    """Refuse characters that would move the cursor or turn the text around where a name is shown."""
    if isinstance(value, str):
        if not value.isprintable() and any(map(is_control, value)):
            place = f" in {where}" if where else ""
            raise InputError(f"{what} has a control character{place}, {show(value)}: leave it out")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_characters(key, what, where or "a key")
            _check_characters(item, what, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for item in value:
            _check_characters(item, what, where)


# --- Writing


def assignment(key: str, value: Any) -> str | None:
    """Return 'key = value' in TOML, or None for a value that is not given."""
    return None if value is None else f"{key} = {literal(value)}"


def literal(value: Any) -> str:
    """Write one of the few kinds of value that settings have."""
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{literal(key)} = {literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return repr(value)


def _escaped(character: str) -> str:
    """Escape what TOML does not allow inside double quotes."""
    if character in '"\\':
        return "\\" + character
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
