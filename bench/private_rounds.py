"""What privacy costs in time and memory: private runs beside runs without privacy, in turns."""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import numpy as np

from bench.clock import Timing, interleave, time_rounds, timed
from bench.data import ALPHA, dense_blocks
from bench.growth import MOST_PER_DECADE, memory_row
from bench.progress import say
from bench.row import Row, seconds
from tacit import Privacy, VerticalClassifier
from tacit.mechanisms.gram.settings import steps_for
from tacit.types import Vector

TITLE = "two parties of 50 dense columns, mechanism gram, epsilon 2: noise included"
SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (2_000, 10_000)
ROUNDS = {"averaged": 15, "memory": 8}
MOST_RATIO = 3.0
REPEATS = 2

Data = tuple[list[Vector], Vector]


def run(quick: bool = False) -> list[Row]:
    """Whole runs and rounds at the largest size, then how a private run grows, then its memory."""
    sizes = QUICK_SIZES if quick else SIZES
    data = {n: dense_blocks(n) for n in sizes}
    _fit(data[sizes[0]], private=True)  # compiles what is compiled
    rows = [*_against_rounds(data[sizes[-1]], not quick), _growth(data, not quick)]
    del data
    return [*rows, memory_row("private", sizes[-1], not quick)]


def _fit(data: Data, *, private: bool, mechanism: str = "auto") -> VerticalClassifier:
    privacy = Privacy(mechanism=mechanism, noise_seed=0) if private else None
    return VerticalClassifier(alpha=ALPHA, privacy=privacy).fit(*data)


def _against_rounds(data: Data, judged: bool) -> list[Row]:
    """A private run / gradient steps beside rounds without privacy, and whole runs beside each other."""
    say(f"whole runs, {len(data[1])} rows")
    whole = interleave({"plain": lambda: _fit(data, private=False), "gram": lambda: _fit(data, private=True)}, REPEATS)
    private, plain = (float(np.median(whole[name])) for name in ("gram", "plain"))
    steps, _ = steps_for(len(data[1]))
    rows = [
        Row(
            f"private run, {len(data[1])} rows",
            f"{seconds(private)}: {steps} gradients of one protected party",
            private,
        ),
        Row("private run / whole run without privacy", f"{private / plain:.2f} ({seconds(plain)})", private / plain),
    ]
    for method, count in ROUNDS.items():
        say(f"rounds of {method}")
        timing = time_rounds(*data, method, count)
        rows.append(_ratio(f"private run / steps, over a round of {method}", private / steps, timing, judged))
        if method == "averaged":
            rows.append(_shares_row(data, timing, judged))
    return rows


def _ratio(name: str, own: float, timing: Timing, judged: bool) -> Row:
    other = timing.total / timing.rounds.size
    limits = {"limit": MOST_RATIO, "target": f"at most {MOST_RATIO:g}"} if judged else {}
    return Row(name, f"{own / other:.2f} ({seconds(own)} and {seconds(other)}, set-up included)", own / other, **limits)


def _shares_row(data: Data, timing: Timing, judged: bool) -> Row:
    """One exchange of noisy shares beside one of averaged sharing."""
    name = "round of noisy shares, over a round of averaged"
    if find_spec("tacit.mechanisms.shares.plan") is None:
        return Row(name, "skipped: this mechanism is not installed")
    say("noisy shares")
    models: list[VerticalClassifier] = []
    spent = timed(lambda: models.append(_fit(data, private=True, mechanism="shares")))
    return _ratio(name, spent / len(models[0].trace_), timing, judged)


def _growth(data: dict[int, Data], judged: bool) -> Row:
    """Seconds per row of a whole private run, each size over the one before it."""
    spent = {}
    for n, one in data.items():
        say(f"private run, {n} rows")
        spent[n] = float(np.median([timed(lambda one=one: _fit(one, private=True)) for _ in range(REPEATS)]))
    ratios = [spent[large] / large / (spent[small] / small) for small, large in itertools.pairwise(spent)]
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios) + f" ({', '.join(map(seconds, spent.values()))})"
    limits = {"limit": MOST_PER_DECADE, "target": "at most 1.3 per decade"} if judged else {}
    return Row("private run, seconds per row, each size over the one before", shown, max(ratios), **limits)
