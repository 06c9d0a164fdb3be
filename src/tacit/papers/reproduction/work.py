"""Pieces of work: what is computed, from which settings, and by which function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Settings = Mapping[str, Any]  # of JSON: numbers, strings, lists, mappings, true, false, null
Outcome = dict[str, Any]  # of JSON, too
Results = Mapping[str, Outcome]  # by the name of the piece


@dataclass(frozen=True)
class Piece:
    """One piece of work, small enough to be lost when a run is killed, large enough to be worth storing.

    Attributes
    ----------
    name : str
        Unique within its paper, as "a9a/admm"; figures, tables and claims look the outcome up by it.
    run : callable
        A function of a module, so that another process can find it: settings to outcome. It is repeatable: all its
        randomness comes from seeds in the settings.
    settings : mapping
        All that decides the outcome, as JSON.
    files : tuple of str
        Names of the data sets it reads (keys of `tacit.data.datasets.SUMS`): another file is another outcome.
    seconds : float
        Rough time it takes, for the time left.
    """

    name: str
    run: Callable[[Settings], Outcome]
    settings: Settings
    files: tuple[str, ...] = ()
    seconds: float = 1.0


def seeds(first: int, count: int) -> Sequence[int]:
    """Seeds of repeated runs."""
    return list(range(first, first + count))
