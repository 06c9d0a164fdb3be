"""Runs of boosted trees: both losses fall, and threads and resuming change no bit of the trees."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.columns.raw import RawTable
from tacit.plan import FeatureSplit, TrainingRequest, make_plan
from tacit.run.checkpoint import read_checkpoint
from tacit.run.star import Run
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import TreeLoss, make_loss
from tacit.types import Shard

NAMES = ("bank", "shop", "phone")


def data(rows: int = 600, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(rows, 3)) for _ in NAMES]
    tables[1][:, 2] = rng.integers(0, 6, rows)
    tables[1][rng.random(rows) < 0.1, 0] = np.nan
    bank, shop, phone = tables
    score = bank[:, 0] * bank[:, 1] + np.nan_to_num(shop[:, 0]) + (shop[:, 2] == 3) + np.sin(2 * phone[:, 1])
    return tables, score + 0.3 * rng.normal(size=rows)


def labels_for(loss: TreeLoss, score: np.ndarray) -> np.ndarray:
    if loss.name == "softmax":
        return np.digitize(score, [-0.5, 0.8]).astype(float)
    if loss.task == "classification":
        return np.where(score > 0.2, 1.0, -1.0)
    return np.exp(score / 2) if loss.task == "counts" else score


def make_run(loss: TreeLoss, rows: int = 600, rounds: int = 6, secure: bool = False, **changed: Any) -> Run:
    tables, score = data(rows)
    shards = [
        Shard(name, RawTable(name, ("a", "b", "c"), table, (2,) if name == "shop" else ()), ("a", "b", "c"))
        for name, table in zip(NAMES, tables, strict=True)
    ]
    settings = TreeSettings(loss, trees=(5, 10), **changed)
    request = TrainingRequest(
        loss=loss.name, penalty="none", alpha=0.0, fit_intercept=False, tol=1e-4, max_rounds=rounds, seed=7,
        secure_aggregation=secure, trees=settings,
    )  # fmt: skip
    plan = make_plan(request, FeatureSplit(NAMES, rows=rows, columns=(3, 3, 3)))
    return Run(plan, shards, labels_for(loss, score))


LOSSES = [
    make_loss("logistic"),
    make_loss("randomized", flip=0.2),
    make_loss("softmax", classes=3),
    make_loss("squared"),
    make_loss("poisson"),
    make_loss("gamma"),
    make_loss("quantile", quantile=0.7),
]


def texts(run: Run) -> list[str]:
    return [part.text for part in run.result().model.parts]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_both_losses_fall_and_the_model_is_the_margin(loss: TreeLoss) -> None:
    run = make_run(loss)
    result = run.go()
    history = result.boosting
    assert history is not None
    for losses in (history.fitted, history.held_out):
        assert all(after <= before + 1e-12 for before, after in pairwise(losses)), losses
        assert losses[-1] < 0.97 * losses[0] if loss.name != "poisson" else losses[-1] < losses[0]
    side = run.coordinator.side
    scores = result.model.scores(run.shards)
    np.testing.assert_allclose(scores, side.z, atol=1e-5 * max(1.0, np.abs(side.z).max()))  # answers are float32


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_resumed_run_grows_the_same_trees(loss: TreeLoss) -> None:
    whole = make_run(loss, rounds=5)
    kept: list[Any] = []

    def keep(session: Any) -> None:
        if session.state.rounds == 2:
            states = {
                who: {name: np.array(array) for name, array in own.items()} for who, own in session.snapshot().items()
            }
            kept.append((states, type(session.state)(**vars(session.state))))

    whole.go(checkpoint=keep)
    again = make_run(loss, rounds=5)
    states, state = kept[0]
    state.trace = type(state.trace)(state.trace[:2])
    again.restore(states, state)
    again.go()
    assert texts(again) == texts(whole)
    assert again.result().boosting == whole.result().boosting


KILLED = """
import os, signal, sys
from pathlib import Path
from tacit.run.checkpoint import write_checkpoint
from tacit.solvers.boosting.losses import make_loss
from tests.boosting.test_runs import make_run

def checkpoint(session):
    if session.state.rounds == 3:  # in the middle of a run, without a word
        os.kill(os.getpid(), signal.SIGKILL)
    write_checkpoint(Path(sys.argv[1]), session)

make_run(make_loss("logistic"), rounds=5).go(checkpoint=checkpoint)
"""


def test_a_run_that_was_killed_ends_with_the_same_texts(tmp_path: Path) -> None:
    path, root = tmp_path / "checkpoint.npz", Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    whole, again = (make_run(make_loss("logistic"), rounds=5) for _ in range(2))
    whole.go()
    states, state = read_checkpoint(path)
    assert state.rounds == 2
    again.restore(states, state)
    again.go()
    assert texts(again) == texts(whole)
    assert [row.objective for row in again.state.trace] == [row.objective for row in whole.state.trace]


def test_blocks_that_are_kept_whole_grow() -> None:
    """After the ramp a party whose step is 1 grows twice as many trees the next time, up to four times as many."""
    run = make_run(make_loss("squared"), rounds=6, early_stopping=False)
    history = run.go().boosting
    assert history is not None
    learners = {"bank": run.coordinator.side.learner} | {party.name: party.side.learner for party in run.parties}
    grown = set()
    for name, steps in zip(history.parties, zip(*history.steps, strict=True), strict=True):
        kept, growth = iter(learners[name].blocks), 1
        for number, step in enumerate(steps):
            expected = (5, 10)[min(number, 1)] * growth
            if step > 0:
                used, block = next(kept)
                assert (used, len(block.trees)) == (step, expected)
                grown.add(growth)
            growth = min(2 * growth, 4) if step == 1 and number > 0 else 1
    assert grown == {1, 2, 4}
    two = replace(run.plan.problem.trees, parties=("shop",))
    assert two.growth_after(1, 10, 1.0) == 1  # with one party to ask blocks stay as they are


def test_threads_do_not_change_the_trees() -> None:
    one, two = (make_run(make_loss("logistic"), rows=600, rounds=1, threads=threads) for threads in (1, 2))
    one.go()
    two.go()
    assert texts(one) == texts(two)
    assert any("Tree=4" in text for text in texts(one))
