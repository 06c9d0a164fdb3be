"""One fit of lines or curves on raw columns: run as `python -m bench.curves_size_run CASE ROWS`.

CASE is "linear", "spline", "private" (curves, the second party's rows protected at epsilon 1) or "written" (curves
whose encoded numbers are all written out, as those of small tables are).

Prints as JSON: bytes at the peak, before there were any data and of the raw columns; rounds; median seconds of a round
and of a whole fit, and the processor's seconds of it; numbers that are not 0 in an encoded row; the processor's seconds
of one Gram matrix by BLAS of as many dense rows and encoded columns as the last party has.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings

import numpy as np
import pandas as pd
from scipy.special import expit

from bench.peak_memory import read_status
from tacit import Privacy, VerticalClassifier
from tacit.columns import encoder
from tacit.columns.curves import fit_spline
from tacit.types import Vector

PARTIES, COLUMNS = 2, 20
COUNTED = 10_000
GRAM_ROWS = 8192
Frames = dict[str, pd.DataFrame]


def main(case: str, rows: int) -> None:
    """Fit a small problem, take the baseline, fit the large one."""
    encoder.COMPACT_FROM = 10**12 if case == "written" else 0  # both take the same way
    _fit(case, *raw_columns(2000))
    before = read_status("VmRSS")
    frames, y = raw_columns(rows)
    start, busy = time.perf_counter(), time.process_time()
    model = _fit(case, frames, y)
    spent, busy, peak = time.perf_counter() - start, time.process_time() - busy, read_status("VmHWM")
    marks = [row.seconds for row in model.trace_]
    found = {
        "peak": peak,
        "before": before,
        "raw": sum(frame.memory_usage(index=False).sum() for frame in frames.values()).item() + y.nbytes,
        "rounds": model.n_rounds_,
        "round": float(np.median(np.diff([0.0, *marks]))),
        "fit": spent,
        "processor": busy,
        "gram": gram_seconds(rows, len(model.coef_by_party_[-1])),
        "filled": _filled(case, frames),
    }
    print(json.dumps(found))


def raw_columns(rows: int) -> tuple[Frames, Vector]:
    """Twenty columns for each party: half of them even, half with a long tail; an additive score of all."""
    rng = np.random.default_rng(0)
    frames, score = {}, np.zeros(rows)
    for party in range(PARTIES):
        block = rng.uniform(size=(COLUMNS, rows))
        for column in block:
            score += 0.5 * np.sin(2 * np.pi * (rng.uniform() + column))
        for column in block[1::2]:
            np.exp(np.multiply(column, 6.0, out=column), out=column)
        frames[f"party {party + 1}"] = pd.DataFrame(block.T, columns=[f"x{j}" for j in range(COLUMNS)], copy=False)
    return frames, np.where(rng.random(rows) < expit(score), 1.0, -1.0)


def _fit(case: str, frames: Frames, y: Vector) -> VerticalClassifier:
    terms = "linear" if case == "linear" else "spline"
    model = VerticalClassifier(terms=terms)
    if case == "private":
        ranges = {f"x{j}": (1.0, math.exp(6.0)) if j % 2 else (0.0, 1.0) for j in range(COLUMNS)}
        model = VerticalClassifier(terms=terms, ranges=ranges, privacy=Privacy(epsilon=1.0, noise_seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the small one may not converge
        return model.fit(frames, y)


def gram_seconds(rows: int, columns: int) -> float:
    """Of the processor, for the Gram matrix of dense rows that are there already, some thousand at a time."""
    part = np.random.default_rng(0).normal(size=(GRAM_ROWS, columns))
    start = time.process_time()
    gram = np.zeros((columns, columns))
    for first in range(0, rows, GRAM_ROWS):
        some = part[: rows - first]
        gram += some.T @ some
    return time.process_time() - start


def _filled(case: str, frames: Frames) -> float:
    """Numbers that are not 0 in an encoded row of all parties, counted in the first rows."""
    if case == "linear":
        return float(PARTIES * COLUMNS)
    columns = [frame[name].to_numpy() for frame in frames.values() for name in frame]
    codes = [fit_spline("", x, (float(x.mean()), float(x.std())), 1.0).encode(x[:COUNTED]) for x in columns]
    return float(sum(np.count_nonzero(code) / len(code) for code in codes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
