"""What is different between a record and what was found now, in lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

SAME, OTHER = 1e-12, 1e-6  # relative, on the machine of the record and on others
ROUNDING = 1e-12
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")
ROUNDS = ("trace", "transcript", "exchanged")  # lists whose length is the number of rounds
PLANNED = ("plan", "certificate")  # what does not depend on a machine's last bits, even where noise does
MEASURED = (".lines", ".roc")  # lists that are longer or shorter by what noise did to the model
SHOWN = 90
SUMS = 10  # a sum of n numbers is at most sqrt(n) times the root of their squares


class Comparison:
    """Compares a record with what was found.

    Parameters
    ----------
    here : bool
        Whether the record was made on a machine like this one. Else floats are compared to 1e-6, texts without their
        numbers, and neither digests nor whole numbers nor, in runs without noise, numbers of rounds are compared.
    noisy : bool
        Whether noise was drawn. It follows from every bit of the message that is answered, so on another machine only
        what was planned is compared by value: neither numbers nor predicted classes nor sentences about them.
    """

    def __init__(self, *, here: bool, noisy: bool) -> None:
        self.here, self.noisy = here, noisy
        self.part = SAME if here else OTHER

    def differences(self, kept: Any, found: Any, path: str = "") -> Iterator[str]:
        """One line for each difference."""
        if self._follows_noise(path) and any(word in path for word in MEASURED):
            return
        if type(kept) is not type(found):
            yield f"{path}: was {_show(kept)}, is {_show(found)}"
        elif isinstance(kept, dict) and "array" in kept and "array" in found:
            yield from self._arrays(kept, found, path)
        elif isinstance(kept, dict):
            yield from self._fields(kept, found, path)
        elif isinstance(kept, list):
            yield from self._lists(kept, found, path)
        elif not self._same(kept, found, path):
            yield f"{path}: was {_show(*_from_where(kept, found))}, is {_show(*_from_where(found, kept))}"

    def _follows_noise(self, path: str) -> bool:
        return not self.here and self.noisy and not any(word in path for word in PLANNED)

    def _same(self, kept: Any, found: Any, path: str) -> bool:
        if isinstance(kept, float):
            return self._close(kept, found, path, 0.0)
        if kept == found or isinstance(kept, bool):
            return bool(kept == found)
        if self.here:
            return False
        if isinstance(kept, str) and self._follows_noise(path):
            return True
        if isinstance(kept, int) or path.endswith(".sha256"):
            return True
        return isinstance(kept, str) and NUMBER.sub("#", kept) == NUMBER.sub("#", found)

    def _close(self, kept: float, found: float, path: str, scale: float) -> bool:
        if self._follows_noise(path):
            return True
        least = 0.0 if self.here else ROUNDING  # of what is zero but for rounding, no digit is the same elsewhere
        return math.isclose(kept, found, rel_tol=self.part, abs_tol=max(self.part * scale, least))

    def _fields(self, kept: dict[str, Any], found: dict[str, Any], path: str) -> Iterator[str]:
        if list(kept) != list(found):
            gone, new = [key for key in kept if key not in found], [key for key in found if key not in kept]
            said = [f"{word} {', '.join(keys)}" for word, keys in (("without", gone), ("with", new)) if keys]
            yield f"{path}: {' and '.join(said) or 'in another order'}"
        for key in kept:
            if key in found:
                yield from self.differences(kept[key], found[key], f"{path}.{key}".lstrip("."))

    def _lists(self, kept: list[Any], found: list[Any], path: str) -> Iterator[str]:
        free = not self.here and not self.noisy and any(word in path for word in ROUNDS)
        if len(kept) != len(found) and not free:
            yield f"{path}: had {len(kept)} entries, has {len(found)}"
        for number, (one, other) in enumerate(zip(kept, found, strict=False)):
            yield from self.differences(one, other, f"{path}[{number}]")

    def _arrays(self, kept: dict[str, Any], found: dict[str, Any], path: str) -> Iterator[str]:
        free = not self.here and not self.noisy and any(word in path for word in ROUNDS)
        if kept["array"] != found["array"] or kept.keys() != found.keys():
            if not free:
                yield f"{path}: was an array {kept['array']}, is {found['array']}"
            return
        values = [one for one in kept.get("values", ()) if isinstance(one, float)]
        largest = math.sqrt(kept["squares"]) if "squares" in kept else max(map(abs, values), default=0.0)
        scales = {"sum": SUMS * largest, "squares": largest**2}
        for key, scale in scales.items():
            if key in kept and not self._close(kept[key], found[key], path, scale):
                yield f"{path}.{key}: was {kept[key]!r}, is {found[key]!r}"
        for key in ("some", "values"):
            for number, (one, other) in enumerate(zip(kept.get(key, ()), found.get(key, ()), strict=True)):
                number_both = isinstance(one, float) and isinstance(other, float)
                same = self._close(one, other, path, largest) if number_both else self._same(one, other, path)
                if not same:
                    yield f"{path}.{key}[{number}]: was {_show(one)}, is {_show(other)}"
        if self.here and kept.get("sha256") != found.get("sha256"):
            yield f"{path}: has other whole numbers"


def _from_where(one: Any, other: Any) -> tuple[Any, str]:
    """A value, a long text from a little before the place where it differs from the other."""
    if not isinstance(one, str) or len(one) <= SHOWN:
        return one, ""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - SHOWN // 3)
    return one[start:], "..." if start else ""


def _show(value: Any, before: str = "") -> str:
    text = repr(value)
    return before + (text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
