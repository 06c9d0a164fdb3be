"""Wording: how values, names and numbers appear in messages and on a terminal.

Names from files and from other parties are shown, and never act. A name may hold an escape sequence that clears the
screen, sets its title or overwrites a line, or a mark that turns the text around. All that the commands print goes
through `PlainStream`, so no print has to remember it.
"""

from __future__ import annotations

import datetime
import difflib
import math
import os
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, TextIO, cast

# --- How values appear in messages: on one line, quoted, and cut when long


_LONGEST = 60
_LISTED = 12
_MOST_NEAR = 20_000  # names that one is compared with
# Marks, embeddings, overrides and isolates of the direction of writing.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def show(value: object) -> str:
    """Return `value` for a message: one line, text in double quotes, cut at 60 characters."""
    try:
        text = str(value)
    except (ValueError, RecursionError):  # whole numbers of thousands of digits, values nested as deep
        text = f"a very long {type(value).__name__}"
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    printable = "".join(_escape(character) for character in text)
    return f'"{printable}"' if isinstance(value, str) else printable


def _escape(character: str) -> str:
    """Escape what would break the line, the terminal or the encoding of the message."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def is_control(character: str) -> bool:
    """Whether a character acts instead of being shown: controls, line separators, and what turns text around."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _TURNING


def plain(text: str, keep: str = "") -> str:
    """Text from outside for a terminal, uncut: characters that would act are written as JSON writes them."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(one):04x}" if is_control(one) and one not in keep else one for one in text)


def listing(values: Iterable[object], limit: int = _LISTED) -> str:
    """Return the first `limit` values, comma separated, and how many more there are."""
    values = list(values)
    shown = ", ".join(show(value) for value in values[:limit])
    more = len(values) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def day(days: float) -> str:
    """The date of so many days since 1970-01-01; the number where there is no such date."""
    try:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(days))).isoformat()
    except OverflowError:
        return f"{days:.6g}"


def plural(count: int, noun: str) -> str:
    """Return '1 row', '3 rows' or '2 parties'."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def nearest(name: str, allowed: Sequence[str]) -> str:
    """Return ' (did you mean "rounds"?)' for the allowed name closest to `name`, or nothing."""
    # A very long name is no typing slip, and matching it would take quadratic time; so would very many.
    if len(name) > _LONGEST or len(allowed) > _MOST_NEAR:
        return ""
    same = [other for other in allowed if other.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, allowed, n=1)
    return f" (did you mean {show(close[0])}?)" if close else ""


def one_line(error: BaseException) -> str:
    """Return the first line of an exception of a library, without its closing full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(". ") if lines else type(error).__name__
    return "".join(_escape(character) for character in text[:200])


def size(count: float) -> str:
    """Bytes for people: 512 B, 3.2 kB, 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration(seconds: float) -> str:
    """Time for people: 0.03 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 99.5:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


# --- Between the commands and the terminal: names from files and from other parties are shown, and never act


class PlainStream:
    """A stream on which only the ends of lines and tabs act; everything else is the stream's own.

    Parameters
    ----------
    stream : text stream
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich, whose own output has colours, looks for it under this name

    def write(self, text: str) -> int:
        """Write a text, with what would act escaped."""
        self.rich_proxied_file.write(plain(text, keep="\n\t"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def plain_streams() -> Iterator[None]:
    """Let stdout and stderr show what is written, for a while."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, PlainStream(raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def raw(stream: TextIO) -> TextIO:
    """The stream itself: for progress bars, and for files that were asked for on stdout."""
    return cast(TextIO, getattr(stream, "rich_proxied_file", stream))


# --- How numbers and commands appear on the terminal


def within(gap: float) -> str:
    """How sure the objective is: 'certified within 3e-06 of the optimum'."""
    if not math.isfinite(gap):
        return "no bound on its distance to the optimum"
    return f"certified within {max(gap, 0.0):.1e} of the optimum"


def command(*words: str | os.PathLike[str]) -> str:
    """A command that a shell takes as it is."""
    return shlex.join(os.fspath(word) for word in words)


def traffic(sent: Mapping[str, int]) -> str:
    """What was sent, for people."""
    return f"{size(sent['bytes_down'])} to the parties, {size(sent['bytes_up'])} back"


def tell(text: str) -> None:
    """Say on stderr what is no result."""
    print(plain(text, keep="\n"), file=sys.stderr)


# --- How results appear in a notebook


_CARD = "border:1px solid #8886;border-radius:6px;padding:.6em 1em;max-width:46em;margin:.3em 0;line-height:1.45"
_CELL = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0"


def html_card(title: str, rows: Iterable[tuple[str, str | Sequence[str]]], *, head: str = "") -> str:
    """A box for a notebook: a title, a sentence, and named values; a list of several is folded. All text is escaped."""
    parts = [f'<div style="{_CARD}"><strong>{escape(title)}</strong>']
    parts += [f'<p style="margin:.3em 0">{escape(head)}</p>'] if head else []
    rows = list(rows)
    pairs = [(name, value) for name, value in rows if isinstance(value, str)]
    cells = (
        f'<tr><th scope="row" style="{_CELL}">{escape(name)}</th>'
        f'<td style="{_CELL};overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for name, value in pairs
    )
    parts += [f'<table style="margin:.3em 0">{"".join(cells)}</table>'] if pairs else []
    for name, lines in ((name, value) for name, value in rows if not isinstance(value, str)):
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<details><summary>{escape(name)} ({len(lines)})</summary><ul>{items}</ul></details>")
    return "".join([*parts, "</div>"])
