"""The guessing game as a picture: wrong guesses of either kind, measured, against the least that the claim allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.audit.auditor import Measured, refutes
from tacit.audit.game import rates
from tacit.audit.lower_bound import CONFIDENCE, SURE, Guesses, lower_bound, lower_rate, upper_rate
from tacit.errors import InputError
from tacit.privacy.claim import Claim
from tacit.types import Vector

MISSING = 'a picture needs matplotlib, which is not installed: pip install "tacit[plot]", or leave the picture out'
BLUE, GREY, RED = "#1f5f99", "#666666", "#b3261e"
POINTS = 60
EPSILONS = np.concatenate([np.linspace(0.0, 3.0, 61), np.linspace(3.2, 30.0, 60)])


def has_matplotlib() -> bool:
    """Whether a picture can be drawn."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def claimed_misses(claim: Claim, alarms: Vector) -> Vector:
    """Least rate of misses at each rate of false alarms: max over epsilon of the two lines that (epsilon, delta) gives.

    1 - delta - e^eps alarms, and e^-eps (1 - delta - alarms): the trade-off function of the claim.
    """
    least = np.zeros_like(alarms)
    for epsilon in EPSILONS:
        delta = claim.delta(float(epsilon))
        least = np.maximum(least, 1 - delta - np.exp(epsilon) * alarms)
        least = np.maximum(least, np.exp(-epsilon) * (1 - delta - alarms))
    return np.clip(least, 0.0, 1.0)


def band(guesses: Guesses, thresholds: Vector, confidence: float = CONFIDENCE) -> tuple[Vector, Vector]:
    """Lower and upper ends of the misses at each threshold, each with the given confidence on its own."""
    second = guesses.scores[guesses.truths]
    counts = [int(np.sum(second <= threshold)) for threshold in thresholds]
    error = (1 - confidence) / 2
    low = [lower_rate(count, second.size, error) for count in counts]
    high = [upper_rate(count, second.size, error) for count in counts]
    return np.array(low), np.array(high)


def draw(games: Sequence[Measured], path: str | Path, labels: Sequence[str] | None = None) -> Path:
    """Draw one panel for each game into a PNG or SVG file.

    Raises
    ------
    InputError
        Where there is no game, matplotlib is not installed, or the file cannot be written.
    """
    if not games:
        raise InputError("there is no guessing game to draw: nothing is claimed about any rows")
    if not has_matplotlib():
        raise InputError(MISSING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.0 + 4.4 * len(games), 4.9), dpi=150)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(games), squeeze=False, gridspec_kw={"wspace": 0.3})[0]
    for number, (panel, game) in enumerate(zip(panels, games, strict=True)):
        _panel(panel, game, labels[number] if labels else f"rows of {game.party}")
    out = Path(path)
    try:
        figure.savefig(out, bbox_inches="tight", pad_inches=0.15)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the picture {out}: {error}") from error
    return out


def _panel(panel: Any, game: Measured, title: str) -> None:
    alarms = np.concatenate([np.linspace(0.0, 0.05, 40), np.linspace(0.05, 1.0, 120)])
    least = claimed_misses(game.claim, alarms)
    panel.fill_between(alarms, 0, least, color=GREY, alpha=0.13, linewidth=0, label="impossible if the claim is true")
    panel.plot(alarms, least, color=GREY, linewidth=1.4)
    panel.plot([0, 1], [1, 0], color=GREY, linewidth=0.8, linestyle=(0, (2, 3)), label="guessing by a coin")
    thresholds = np.quantile(game.guesses.scores, np.linspace(0.002, 0.998, POINTS))
    measured, misses = rates(game.guesses, thresholds)
    low, high = band(game.guesses, thresholds)
    broken = refutes(lower_bound(game.guesses, game.bound.delta, SURE), game.claim)
    colour = RED if broken else BLUE
    panel.fill_between(measured, low, high, color=colour, alpha=0.22, linewidth=0)
    runs = game.guesses.truths.size
    panel.plot(measured, misses, color=colour, linewidth=1.6, label=f"measured ({runs} runs, 95 % band)")
    panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    panel.set_xlabel("false alarms: the first data set taken for the second")
    panel.set_ylabel("misses: the second taken for the first")
    verdict = "BROKEN" if broken else "no violation found"
    panel.set_title(f"{title}: {verdict}\n{_words(game)}", fontsize=9.5, loc="left", pad=10)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(loc="upper right", fontsize=7.5, frameon=False)


def _words(game: Measured) -> str:
    delta = game.bound.delta
    found = max(game.bound.epsilon_curve, game.bound.epsilon_any)
    return f"claimed epsilon {game.claim.epsilon(delta):.3g}, found at least {found:.2g} (delta {delta:g})"
