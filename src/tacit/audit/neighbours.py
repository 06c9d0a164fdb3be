"""Looking for the worst pair of neighbours: directed ones first, then uphill from the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tacit.audit.replay import Cost
from tacit.audit.scene import Held, Stage
from tacit.types import Vector

ROUNDING = 1e-9  # a ratio may exceed 1 by this: the planned noise allows for the rounding of the sums
SAME = 1e-9  # messages of equal releases may differ by this: products are summed in another order
HUGE = 1e6
STARTS = 3  # the worst directed pairs, each from its own scene, from which the search goes uphill
REPLACE, ZERO = "replace-one", "zero-out"


@dataclass(frozen=True)
class Claimed:
    """What is claimed of one record: mu of the Gaussian releases, epsilon of the responses, and of other noise."""

    mu: float
    response: float
    neighbours: str = REPLACE
    row_norm: float = 1.0
    pure: float = 0.0


@dataclass(frozen=True)
class Worst:
    """The worst pair that was found.

    Attributes
    ----------
    pairs : int
        How many were tried.
    ratio : float
        Largest part of what was claimed that a pair used; above 1 the claim is false.
    leaks : float
        Largest change of what left although all releases were the same.
    first, second : Held
        The pair with the largest ratio.
    seed : int
        The noise of its transcript.
    kind : str
        Where the pair came from.
    scene : Stage
        Where it was played.
    """

    pairs: int
    ratio: float
    leaks: float
    first: Held
    second: Held
    seed: int
    kind: str
    scene: Stage

    @property
    def holds(self) -> bool:
        """Whether every pair stayed within the claim, and nothing left but the releases."""
        return self.ratio <= 1 + ROUNDING and self.leaks <= SAME


def directed(held: Held, norm: float, rng: np.random.Generator, *, labels: bool) -> Iterator[tuple[str, Vector, float]]:
    """Named replacements of row 0: (kind, row, label); the label changes where it belongs to the record."""
    row, own = held.rows[0], float(held.labels[0])
    other = -own if labels else own
    unit = row / max(float(np.linalg.norm(row)), 1e-300)
    turned = _unit(rng, row.size)
    turned = turned - (turned @ unit) * unit if row.size > 1 else turned
    size = max(float(np.linalg.norm(turned)), 1e-300)
    yield "opposite sign", -row, own
    yield "zero", np.zeros_like(row), own
    yield "at the clip bound", norm * unit, own
    yield "opposite, at the clip bound", -norm * unit, own
    yield "at a right angle", norm * turned / size, own
    yield "a copy of another row", held.rows[-1].copy(), float(held.labels[-1]) if labels else own
    yield "huge", HUGE * norm * _unit(rng, row.size), own
    yield "huge, opposite", -HUGE * norm * unit, own
    yield "a hair aside", row + 1e-3 * norm * _unit(rng, row.size), own
    yield "random", norm * rng.normal(size=row.size) * rng.exponential(), own
    if labels:
        yield "the other label", row.copy(), other
        yield "the other label, opposite", -norm * unit, other
        yield "the other label, zero", np.zeros_like(row), other
        yield "the other label, at a right angle", norm * turned / size, other
    if row.size > 1:
        yield "a mirror image", np.append(row[:-1], -row[-1]), own


def search(
    scenes: Callable[[np.random.Generator], Stage],
    claimed: Claimed,
    pairs: int,
    rng: np.random.Generator,
    observe: Callable[[int], None] | None = None,
    transcripts: int = 1,
) -> Worst:
    """Try at least so many pairs: half of them directed, in ever new scenes, half uphill from the worst.

    A claim speaks of every transcript, so one is enough to break it: that is what a replay looks for. Who has to tell
    neighbours apart by running the mechanism wants a pair that is bad in most transcripts: the mean over several.

    Parameters
    ----------
    scenes : callable
        Makes a scene from random numbers.
    claimed : Claimed
    pairs : int
    rng : Generator
    observe : callable, optional
        Told how many pairs were tried.
    transcripts : int
        Over how many the cost of a pair is averaged.
    """
    tried, leaks = 0, 0.0
    best: list[Worst] = []
    while tried < max(1, pairs // 2):
        scene, here = scenes(rng), None
        for kind, first, second in _pairs(scene, claimed, rng):
            seed = int(rng.integers(2**31))
            ratio, leak = _try(scene, first, second, seed, claimed, transcripts)
            tried, leaks = tried + 1, max(leaks, leak)
            if here is None or ratio > here.ratio:
                here = Worst(tried, ratio, leaks, first, second, seed, kind, scene)
        best = sorted([*best, *([here] if here else [])], key=lambda worst: -worst.ratio)[:STARTS]
        if observe:
            observe(tried)
    for number, start in enumerate(best):
        share = (pairs - tried) // (len(best) - number)
        best[number] = _climb(start, claimed, share, rng, transcripts)
        if observe:
            observe(tried + share)
        tried, leaks = tried + share, max(leaks, best[number].leaks)
    worst = max(best, key=lambda worst: worst.ratio)
    return replace(worst, pairs=tried, leaks=leaks)


def _pairs(scene: Stage, claimed: Claimed, rng: np.random.Generator) -> Iterator[tuple[str, Held, Held]]:
    held = scene.held
    if claimed.neighbours == ZERO:
        gone = held.with_row(0, np.zeros_like(held.rows[0]))
        for kind, row, label in directed(held, claimed.row_norm, rng, labels=scene.holder):
            yield f"{kind}, set to zero", held.with_row(0, row, label), gone
            yield f"zero, set to {kind}", gone, held.with_row(0, row, label)
        return
    for kind, row, label in directed(held, claimed.row_norm, rng, labels=scene.holder):
        yield kind, held, held.with_row(0, row, label)


def _try(scene: Stage, first: Held, second: Held, seed: int, claimed: Claimed, transcripts: int) -> tuple[float, float]:
    """Ratio and leaks of one pair, its cost averaged over some transcripts."""
    found = [scene.compare(first, second, seed + number) for number in range(transcripts)]
    squares = float(np.mean([pair.cost.squares for pair in found]))
    response = float(np.mean([pair.cost.response for pair in found]))
    pure = float(np.mean([sum(pair.cost.densities.values()) for pair in found]))
    cost = Cost(squares, response, densities={"": pure})
    return cost.ratio(claimed.mu, claimed.response, claimed.pure), max(pair.leaks for pair in found)


def _climb(start: Worst, claimed: Claimed, pairs: int, rng: np.random.Generator, transcripts: int) -> Worst:
    """Small random changes of both rows, the other rows and the noise; kept where they make it worse."""
    reach, found, leaks = 0.5, start, 0.0
    for tried in range(1, pairs + 1):
        first, second = _shaken(found, claimed, reach, rng)
        seed = found.seed if rng.random() < 0.7 else int(rng.integers(2**31))
        ratio, leak = _try(found.scene, first, second, seed, claimed, transcripts)
        leaks = max(leaks, leak)
        if ratio > found.ratio:
            kind = found.kind if found.kind.endswith("uphill") else f"{found.kind}, then uphill"
            found = Worst(tried, ratio, leaks, first, second, seed, kind, found.scene)
            reach = min(1.0, 1.3 * reach)
        else:
            reach = max(1e-3, 0.97 * reach)
    return replace(found, leaks=leaks)


def _shaken(found: Worst, claimed: Claimed, reach: float, rng: np.random.Generator) -> tuple[Held, Held]:
    step = reach * claimed.row_norm
    rows = found.first.rows + step * rng.normal(size=found.first.rows.shape) * (rng.random() < 0.5)
    first_row = found.first.rows[0] + step * rng.normal(size=rows.shape[1]) * (rng.random() < 0.7)
    second_row = found.second.rows[0] + step * rng.normal(size=rows.shape[1]) * (rng.random() < 0.7)
    if claimed.neighbours == ZERO:
        zero_first = not found.first.rows[0].any()
        first_row, second_row = (0 * first_row, second_row) if zero_first else (first_row, 0 * second_row)
    first = Held(rows, found.first.labels).with_row(0, first_row)
    second = Held(rows, found.second.labels).with_row(0, second_row)
    return first, second


def _unit(rng: np.random.Generator, size: int) -> Vector:
    vector = rng.normal(size=size)
    return np.asarray(vector / max(math.sqrt(float(vector @ vector)), 1e-300))


__all__ = ["Claimed", "Worst", "directed", "search"]
