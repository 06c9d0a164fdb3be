"""How numbers and commands appear on the terminal."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping


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
    print(text, file=sys.stderr)
