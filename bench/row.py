"""One line of a result table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """A measurement, with the target it is held to where there is one.

    Attributes
    ----------
    name : str
        What was measured.
    measured : str
        The result as shown.
    value : float or None
        The number that is compared with `limit`; None for a remark.
    limit : float or None
        The most that `value` may be; None where the row is only shown.
    target : str
        The limit as shown.
    """

    name: str
    measured: str
    value: float | None = None
    limit: float | None = None
    target: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none."""
        if self.limit is None or self.value is None:
            return None
        return self.value <= self.limit

    def record(self) -> dict[str, Any]:
        """The row as plain values that JSON can hold."""
        value = self.value if self.value is not None and math.isfinite(self.value) else None
        return {
            "name": self.name,
            "measured": self.measured,
            "value": value,
            "limit": self.limit,
            "target": self.target,
            "met": self.met,
        }


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    if value < 1e-3:
        return f"{1e6 * value:.0f} us"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
