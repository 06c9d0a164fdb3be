"""What the private method of the sample split says of its own noise is about the spread of its runs."""

from __future__ import annotations

import numpy as np

from tacit.columns.curves import FourierColumn
from tacit.mechanisms.gaussian.node import _averaged
from tacit.plan import SampleSplit, TrainingRequest, make_plan
from tacit.privacy.request import Privacy
from tacit.run.graph import GraphRun
from tacit.topologies import Graph
from tacit.types import Shard

ROWS, COLUMNS, PAIRS, RUNS = 6000, 4, 3, 24


def test_what_is_left_of_the_noise_of_a_round() -> None:
    rounds, kept = 9, np.array([0.0, 0.5, 0.9, 1.0])
    for start in range(rounds):
        error, mean = np.zeros(4), np.zeros(4)
        for k in range(rounds):
            error = kept * error + (k == start)
            if k >= rounds // 2:
                mean += error / (rounds - rounds // 2)
        np.testing.assert_allclose(_averaged(kept, rounds)[start], mean, rtol=1e-12)


def test_bands_hold_the_mean_over_runs_at_least_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(ROWS, COLUMNS))
    curves = [FourierColumn(f"x{j}", 0.0, 1.0, PAIRS) for j in range(COLUMNS)]
    code = np.hstack([curve.encode(x[:, j]) for j, curve in enumerate(curves)])
    labels = np.where(rng.logistic(size=ROWS) < 2 * np.sin(3 * x[:, 0]) + 2 * (x[:, 1] > 0.5) - 2, 1.0, -1.0)
    names = tuple(f"c{j}" for j in range(code.shape[1]))
    shards = [Shard(f"node{k}", code[k::2], names) for k in range(2)]
    privacy = Privacy(epsilon=4, delta=1e-5, row_norm=2.0)
    request = TrainingRequest("logistic", "l2", 1e-4, fit_intercept=True, tol=1e-4, privacy=privacy)
    graph = Graph(("node0", "node1"), ((0, 1),))
    plan = make_plan(request, SampleSplit(graph, (ROWS // 2,) * 2, code.shape[1]))
    values, deviations = [], []
    for _ in range(RUNS):
        mean = GraphRun(plan, shards, [labels[k::2] for k in range(2)]).go().model.mean
        assert mean is not None
        assert mean.clip is not None
        assert mean.clip.centre is not None
        assert mean.noise is not None
        cells = [curve.encode(curve.grid()) for curve in curves]
        for j, own in enumerate(cells):
            at = slice(2 * PAIRS * j, 2 * PAIRS * (j + 1))
            away = own - mean.clip.centre[at]
            values.append(away @ mean.coef[at])
            deviations.append(np.sqrt(np.einsum("ij,jk,ik->i", away, mean.noise[at, at], away)))
    found, wide = (np.array(one).reshape(RUNS, -1) for one in (values, deviations))
    apart = np.abs(found - found.mean(axis=0)) * np.sqrt(RUNS / (RUNS - 1))
    assert 0.9 < (apart <= 1.96 * wide).mean() < 0.999
    assert (apart <= 0.98 * wide).mean() < 0.9, "half as wide a band would be seen to be too narrow"
    assert 0.85 < np.sqrt(np.mean(wide**2) / np.mean(found.var(axis=0, ddof=1))) < 1.8
