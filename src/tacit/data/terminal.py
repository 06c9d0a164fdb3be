"""Between the commands and the terminal: names from files and from other parties are shown, and never act.

A name may hold an escape sequence that clears the screen, sets its title or overwrites a line, or a mark that turns the
text around. All that the commands print goes through `PlainStream`, so no print has to remember it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from tacit.data.wording import plain


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
