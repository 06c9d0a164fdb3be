"""Points of a trade-off: read from a file, with what they were measured under."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.papers.tuning_cost import TuningCost

MOST_POINTS = 100_000
ROUNDS, DELTA = 3, 1e-5


@dataclass(frozen=True)
class Measured:
    """Points, the bounds on what may be chosen, and the cost of a choice.

    Attributes
    ----------
    alphas, losses : list of float
        One entry for each run.
    rounds, delta
        Of every run.
    most_alpha, most_loss : float
        Bounds on alpha, and on the fitted loss.
    cost : callable
        What choosing an alpha costs.
    picture : Path or None
        Where to draw it.
    notes : tuple of str
        What else there is to say about how they were measured.
    next_steps : callable
        What to do with the alpha that was chosen, and with the epsilon of a run at it.
    """

    alphas: list[float]
    losses: list[float]
    rounds: int
    delta: float
    most_alpha: float
    most_loss: float
    cost: Callable[[float], TuningCost]
    picture: Path | None = None
    notes: tuple[str, ...] = ()
    next_steps: Callable[[float, float], list[str]] = lambda alpha, epsilon: []


def points_of_file(options: argparse.Namespace) -> Measured:
    """Points that were measured elsewhere."""
    from tacit.papers.tuning_cost import tuning_cost

    for name in ("alphas", "repeats", "out", "loss_bound"):
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} goes with a job file, and {options.source} holds points: leave {option} out")
    for name in ("max_alpha", "max_loss"):
        if getattr(options, name) is None:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} is missing: points need it, see tacit design --help")
    table = read_points(options.source)
    alphas = [alpha for alpha, _ in table]
    rounds = ROUNDS if options.rounds is None else options.rounds
    delta = DELTA if options.delta is None else options.delta

    def cost(alpha: float) -> TuningCost:
        return tuning_cost(
            alphas, alpha, rounds, delta,
            largest=options.max_alpha, tuned_on=options.tuned_on, loss_mu=options.loss_mu,
        )  # fmt: skip

    picture = None if options.picture is None else Path(options.picture)
    losses = [loss for _, loss in table]
    return Measured(alphas, losses, rounds, delta, options.max_alpha, options.max_loss, cost, picture)


def read_points(name: str | Path, columns: Sequence[str] = ("alpha", "loss")) -> list[list[float]]:
    """Columns of a CSV file, line by line."""
    from tacit.data.wording import show

    path = Path(name)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = [field.strip() for field in reader.fieldnames or []]
            reader.fieldnames = header
            missing = [column for column in columns if column not in header]
            if missing:
                wanted = " and ".join((", ".join(columns[:-1]), columns[-1]))
                raise InputError(f"{name} has no column {missing[0]!r}: its first line must name {wanted}")
            rows = [row for _, row in zip(range(MOST_POINTS + 1), reader, strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {show(str(name))} ({type(error).__name__}): give a CSV file") from error
    if len(rows) > MOST_POINTS:
        raise InputError(f"{name} has more than {MOST_POINTS} points: give fewer")
    return [[_number(row[column], column, line, str(name)) for column in columns] for line, row in enumerate(rows, 2)]


def _number(text: str | None, column: str, line: int, name: str) -> float:
    from tacit.data.wording import show

    try:
        return float(text or "")
    except ValueError:
        raise InputError(f"{name}, line {line}: {column} is {show(text)}, which is no number") from None
