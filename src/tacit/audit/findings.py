"""An audit as text, as a table, as JSON and as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tacit.audit.attacks import AS_STATED, NEIGHBOURS, VERDICTS
from tacit.audit.auditor import Audit, GameResult, refutes
from tacit.audit.game import CONFIDENCE, SURE, Guesses, lower_bound, lower_rate, rates, upper_rate
from tacit.errors import InputError
from tacit.privacy.claim import Claim
from tacit.types import Vector

# --- An audit as text, as a table and as JSON


FORMAT = 2
TITLES = ("attack", "claimed", "found", "verdict")
NOTHING_CLAIMED = "No privacy is claimed, so nothing could be broken."
UNBROKEN = "No violation of a claim was found. An audit cannot prove a claim; it can only fail to refute it."
BROKEN_CLAIM = "Something that is claimed is BROKEN: do not rely on this certificate."


def lines(audit: Audit) -> list[tuple[str, str, str, str]]:
    """One line for each attack: attack, claimed, found, verdict."""
    return [(finding.name, finding.claimed, finding.found, finding.verdict) for finding in audit.findings]


def conclusion(audit: Audit) -> list[str]:
    """The whole in a sentence or two."""
    weak = sum(finding.verdict == AS_STATED for finding in audit.findings)
    weaknesses = [f"{weak} of {_count(audit)} attacks succeed where the certificate says that nothing is covered."]
    first = (UNBROKEN if audit.certificate.private else NOTHING_CLAIMED) if audit.unbroken else BROKEN_CLAIM
    return [first, *(weaknesses if weak else [])]


def _count(audit: Audit) -> int:
    """The attacks of the table: the replay on neighbouring data sets has a line of its own."""
    return sum(finding.name != NEIGHBOURS for finding in audit.findings)


def to_record(audit: Audit) -> dict[str, Any]:
    """The audit as its JSON file holds it."""
    target = audit.certificate.target
    verdicts = [finding.verdict for finding in audit.findings]
    return {
        "format": FORMAT,
        "mechanism": audit.mechanism,
        "private": audit.certificate.private,
        "claimed_epsilon": None if target is None else audit.certificate.epsilon(target.delta),
        "delta": None if target is None else target.delta,
        "broken": not audit.unbroken,
        "verdicts": {word: verdicts.count(word) for word in VERDICTS},
        "findings": [finding.record() for finding in audit.findings],
    }


def to_json(audit: Audit) -> str:
    """The audit as JSON; numbers that JSON does not know are written as strings."""
    return json.dumps(_plain(to_record(audit)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity" if value > 0 else "-infinity" if value < 0 else "not a number"
    return value


# --- The guessing game as a picture: wrong guesses of either kind, measured, against the least that the claim allows


MISSING = 'a picture needs matplotlib, which is not installed: pip install "tacit[plot]", or leave the picture out'
BLUE, GREY, RED = "#1f5f99", "#666666", "#b3261e"
POINTS = 60
EPSILONS = np.concatenate([np.linspace(0.0, 3.0, 61), np.linspace(3.2, 30.0, 60)])


def has_matplotlib() -> bool:
    """Whether a picture can be drawn."""
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


def draw(games: Sequence[GameResult], path: str | Path, labels: Sequence[str] | None = None) -> Path:
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
    # Heavy, and of tacit[plot], which need not be installed.
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


def _panel(panel: Any, game: GameResult, title: str) -> None:
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


def _words(game: GameResult) -> str:
    delta = game.bound.delta
    found = max(game.bound.epsilon_curve, game.bound.epsilon_any)
    return f"claimed epsilon {game.claim.epsilon(delta):.3g}, found at least {found:.2g} (delta {delta:g})"
