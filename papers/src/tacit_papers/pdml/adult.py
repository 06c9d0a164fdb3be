"""Pieces of work on Adult: Fig. 3 and 4, the reference, and how much hangs on what the paper does not state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit_papers.pdml.rows import (
    ADULT_ROWS,
    BOUNDS,
    DECAYS,
    EPSILONS,
    LABELS_ONLY,
    USUAL,
    Setup,
    adult_split,
)
from tacit_papers.pdml.runs import accuracy, make_plan, optimum, risk, run_epsilon, watch
from tacit_papers.work import Outcome, Piece, Settings, seeds

REFERENCE = "adult/reference"
SEEDS, QUICK_ROWS, QUICK_ROUNDS = 3, 3000, 40
OTHERS: dict[str, dict[str, float]] = {  # one thing other than chosen at a time
    "a = 0.1": {"weight": 0.1},
    "a = 10": {"weight": 10.0},
    "a = 100": {"weight": 100.0},
    "beta = 0.03": {"penalty": 0.03},
    "beta = 0.3": {"penalty": 0.3},
    "V = 0.01": {"first_sd": 0.01},
    "V = 1": {"first_sd": 1.0},
}


def name_of(setup: Setup) -> str:
    """Name of the piece that runs a setting of Fig. 3 or 4."""
    if setup.decay is None:
        return f"adult/labels/eps={setup.epsilon:g}"
    return f"adult/pdml/eps={setup.epsilon:g},R={setup.bound:g},decay={setup.decay:g}"


def other_name(what: str) -> str:
    """Name of the piece with one thing other than chosen."""
    return "adult/other/" + what.replace(" ", "")


def setups() -> list[Setup]:
    """All settings of Fig. 3 and 4, each once."""
    found = [LABELS_ONLY.with_(epsilon=epsilon) for epsilon in EPSILONS]
    found += [USUAL.with_(epsilon=epsilon) for epsilon in EPSILONS]
    found += [USUAL.with_(bound=bound) for bound in BOUNDS]
    found += [USUAL.with_(decay=decay) for decay in DECAYS]
    return list(dict.fromkeys(found))


def run_setup(settings: Settings) -> Outcome:
    """Curves of one setting, for each seed; the reference of each beside."""
    setup = Setup(**settings["setup"])
    found: Outcome = {"rounds": setup.rounds, "setup": setup.record()}
    lists: dict[str, list[object]] = {
        key: [] for key in ("risk", "averaged_risk", "distance", "norm_gap", "flipped", "accuracy", "norm", "reference")
    }
    for seed in settings["seeds"]:
        split = adult_split(settings["rows"], seed)
        plan = make_plan(setup, split, seed)
        seen = watch(plan, split, setup)
        X, y = np.vstack(split.tables), np.concatenate(split.labels)
        best = optimum(X, y, setup.weight)
        values = (
            seen.risk, seen.averaged_risk, seen.distance, seen.norm_gap, seen.flipped,
            accuracy(X, y, seen.averaged), seen.largest_norm,
            risk(split.tables, split.labels, np.tile(best, (len(split.tables), 1)), setup.weight),
        )  # fmt: skip
        for key, value in zip(lists, values, strict=True):
            lists[key].append(value)
        found["run_epsilon"] = run_epsilon(plan)
    return found | lists


def run_reference(settings: Settings) -> Outcome:
    """General ADMM with the original data, and the exact optimum; with the rows' size."""
    setup, found = Setup(epsilon=None), []
    for seed in settings["seeds"]:
        split = adult_split(settings["rows"], seed)
        seen = watch(make_plan(setup, split, seed), split, setup)
        X, y = np.vstack(split.tables), np.concatenate(split.labels)
        best = optimum(X, y, setup.weight)
        exact = risk(split.tables, split.labels, np.tile(best, (len(split.tables), 1)), setup.weight)
        found.append(
            {
                "risk": seen.risk[-1],
                "rounds": len(seen.risk),
                "optimum": exact,
                "accuracy": accuracy(X, y, best),
                "norm": float(np.linalg.norm(best)),
                "share": 100 * float(np.mean(y < 0)),
            }
        )
    return {"seeds": found, "columns": split.columns, "rows": len(y)}


def pieces(quick: bool) -> Sequence[Piece]:
    """All pieces on Adult."""
    rows, count = (QUICK_ROWS, 1) if quick else (ADULT_ROWS, SEEDS)
    rounds = QUICK_ROUNDS if quick else USUAL.rounds
    found = [Piece(REFERENCE, run_reference, {"rows": rows, "seeds": list(seeds(0, count))}, ("adult",), 2.0)]
    for setup in setups():
        settings = {"rows": rows, "seeds": list(seeds(0, count)), "setup": setup.with_(rounds=rounds).record()}
        found.append(Piece(name_of(setup), run_setup, settings, ("adult",), 1.0 if quick else 10.0))
    for what, changes in OTHERS.items():
        settings = {"rows": rows, "seeds": [0], "setup": USUAL.with_(rounds=rounds, **changes).record()}
        found.append(Piece(other_name(what), run_setup, settings, ("adult",), 1.0 if quick else 4.0))
    return found
