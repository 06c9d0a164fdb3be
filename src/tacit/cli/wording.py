"""How numbers and commands appear on the terminal."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping

from tacit.data.wording import duration, plain, size

__all__ = ["command", "duration", "plain", "size", "tell", "traffic", "within"]


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
