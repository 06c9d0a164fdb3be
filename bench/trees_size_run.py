"""One fit of boosted trees on a large table: run as `python -m bench.trees_size_run CASE ROWS`.

CASE is "joint" (two parties with 20 columns each, two rounds) or "lightgbm" (LightGBM on all columns in one place, as
many trees as the joint run grew). Prints as JSON: bytes at the peak, before there were any data, and of the columns;
CPU seconds of the fit, and of a round.
"""

from __future__ import annotations

import json
import resource
import sys

import lightgbm as lgb
import numpy as np
from scipy.special import expit

from bench.peak_memory import read_status
from tacit import VerticalBoostingClassifier
from tacit.types import Vector

COLUMNS, ROUNDS, TREES = 20, 2, (10, 20)


def main(case: str, rows: int) -> None:
    """Fit a small problem, take the baseline, fit the large one."""
    _fit(case, *tables(2000, 2 if case == "joint" else 1))
    before = read_status("VmRSS")
    parts, y = tables(rows, 2 if case == "joint" else 1)
    raw, start = sum(part.nbytes for part in parts), _cpu()
    rounds = _fit(case, parts, y)
    spent = _cpu() - start
    print(json.dumps({"peak": read_status("VmHWM"), "before": before, "raw": raw, "fit": spent, "rounds": rounds}))


def tables(rows: int, parties: int) -> tuple[list[Vector], Vector]:
    """Forty columns: twenty for each of two parties, or all in one place."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(rows, 2 * COLUMNS // parties)) for _ in range(parties)]
    score = parts[0][:, 0] * parts[0][:, 1] + np.sin(2 * parts[-1][:, 2]) + parts[-1][:, 3]
    return parts, np.where(rng.random(rows) < expit(score), 1.0, -1.0)


def _fit(case: str, parts: list[Vector], y: Vector) -> int:
    if case == "joint":
        options = {"max_rounds": ROUNDS, "trees_per_round": TREES, "n_jobs": 1, "random_state": 0}
        return VerticalBoostingClassifier(**options).fit(parts, y).n_rounds_
    params = {"objective": "binary", "learning_rate": 0.08, "num_leaves": 15, "lambda_l2": 5.0, "verbosity": -1}
    params |= {"num_threads": 1, "deterministic": True, "force_col_wise": True, "min_data_in_leaf": 40}
    lgb.train(params, lgb.Dataset(parts[0], y > 0, params=params), 2 * sum(TREES))
    return ROUNDS


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
