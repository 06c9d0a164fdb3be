"""Numbers that claims, tables and figures share, from the outcomes of pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from tacit_papers.pdml import adult, table
from tacit_papers.pdml.rows import BOUND, COLUMNS, SETS, Array, Setup
from tacit_papers.work import MISSING, Outcome, Results

CLOSE = 0.001  # part of the last risk within which a run has converged


def at_hand(results: Results, *names: str) -> bool:
    """Whether all these pieces have an outcome."""
    return all(MISSING not in results[name] for name in names)


def curve(results: Results, setup: Setup, key: str = "risk") -> Array:
    """A curve of a setting on Adult: seeds x rounds."""
    return np.array(results[adult.name_of(setup)][key], dtype=float)


def last_risk(results: Results, setup: Setup) -> float:
    """Risk in the last round, mean over seeds."""
    return float(curve(results, setup)[:, -1].mean())


def reference(results: Results) -> float:
    """Risk of general ADMM with the original data, mean over seeds."""
    return float(np.mean([one["risk"] for one in results[adult.REFERENCE]["seeds"]]))


def settled(risks: Array, target: Sequence[float] | None = None, close: float = CLOSE) -> float:
    """Rounds until a risk stays within 0.1 % of its last value, or of a target by seed; mean over seeds."""
    found = []
    for seed, own in enumerate(risks):
        goal = own[-1] if target is None else target[seed]
        away = np.flatnonzero(np.abs(own - goal) > close * goal)
        found.append(min(len(own), int(away[-1]) + 2 if len(away) else 1))
    return float(np.mean(found))


# --- Table I -------------------------------------------------------------------------------------------


def cell(outcome: Outcome, column: str) -> tuple[float, float, int]:
    """(mean, deviation over splits, number of splits) of a cell."""
    values = outcome["averaged"][column]
    return float(np.mean(values)), deviation(values), len(values)


def deviation(values: Sequence[float]) -> float:
    """Sample deviation; 0 of a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def order(outcome: Outcome, published: Mapping[str, float]) -> tuple[int, list[tuple[str, str]]]:
    """(number of decisive pairs, those that our mean reverses by more than its standard error)."""
    decisive, reversed_ = 0, []
    for p, q in combinations(COLUMNS, 2):
        (mean_p, sd_p, count), (mean_q, sd_q, _) = cell(outcome, p), cell(outcome, q)
        spread = math.hypot(sd_p, sd_q)
        printed = published[p] - published[q]
        if abs(printed) <= spread:
            continue
        decisive += 1
        ours = mean_p - mean_q
        if ours * printed < 0 and abs(ours) > spread / math.sqrt(count):
            reversed_.append((p, q))
    return decisive, reversed_


def claimed_pairs() -> list[tuple[str, str]]:
    """(better, worse) by the claim that a larger eps and a smaller R are better: one of the two differs, by a step."""
    bounds = (0.0, BOUND, 9.0)
    name = {value: key for key, value in COLUMNS.items()}
    pairs = [(name[1.0, bound], name[0.4, bound]) for bound in bounds]
    pairs += [(name[eps, bounds[k]], name[eps, bounds[k + 1]]) for eps in (0.4, 1.0) for k in range(2)]
    return pairs


def claimed_order(results: Results) -> tuple[int, int]:
    """(pairs in the claimed order, pairs whose means differ by more than the standard error), over all sets."""
    right = clear = 0
    for name in present(results):
        outcome = results[table.name_of(name)]
        for better, worse in claimed_pairs():
            (mean_b, sd_b, count), (mean_w, sd_w, _) = cell(outcome, better), cell(outcome, worse)
            if abs(mean_b - mean_w) <= math.hypot(sd_b, sd_w) / math.sqrt(count):
                continue
            clear += 1
            right += mean_b > mean_w
    return right, clear


def present(results: Results) -> list[str]:
    """Sets of Table I whose rows are at hand, or could be drawn."""
    return [name for name in SETS if at_hand(results, table.name_of(name))]


def reading_mean(results: Results, name: str, reading: str, column: str) -> float:
    """Mean accuracy of a cell in another reading."""
    return float(np.mean(results[table.readings_name(name)]["accuracy"][reading][column]))


def nearest_reading(results: Results, name: str, column: str, published: float) -> tuple[str, float]:
    """The reading whose accuracy is nearest to the published one."""
    found = {reading: reading_mean(results, name, reading, column) for reading in table.ALL_READINGS}
    best = min(found, key=lambda reading: abs(found[reading] - published))
    return best, found[best]


def nearest_row(results: Results, name: str, row: Mapping[str, float]) -> tuple[str, list[float], list[float]]:
    """The reading nearest to a printed row: its differences in the columns without noise, deviations of single runs."""
    plain = [column for column, (_, bound) in COLUMNS.items() if not bound]
    away = {
        reading: [reading_mean(results, name, reading, column) - row[column] for column in plain]
        for reading in table.ALL_READINGS
    }
    best = min(away, key=lambda reading: max(abs(one) for one in away[reading]))
    found = results[table.readings_name(name)]["accuracy"][best]
    return best, away[best], [deviation(found[column]) for column in plain]


def best_plain(results: Results, name: str) -> tuple[str, float]:
    """The reading with the best accuracy without privacy, one-hot codes among them."""
    found = {reading: reading_mean(results, name, reading, "none") for reading in table.ALL_READINGS}
    coded = results[table.readings_name(name)]["one_hot"]
    if coded is not None:
        found["one-hot codes, column of ones"] = float(np.mean(coded))
    best = max(found, key=lambda reading: found[reading])
    return best, found[best]
