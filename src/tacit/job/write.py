"""Values of a job as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def assignment(key: str, value: Any) -> str | None:
    """Return 'key = value' in TOML, or None for a value that is not given."""
    return None if value is None else f"{key} = {literal(value)}"


def literal(value: Any) -> str:
    """Write one of the few kinds of value that a job has."""
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
