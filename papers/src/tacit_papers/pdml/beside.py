"""Pieces of work beside the paper's: what its noise is worth, its bounds, and the cost of privacy that holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.estimators.horizontal import HorizontalClassifier
from tacit.mechanisms.perturbed.pdml import PdmlNode
from tacit.privacy.request import Privacy
from tacit.run.graph import GraphRun
from tacit.types import Shard, Vector
from tacit_papers.pdml.bounds import LearningTask, contraction, optimum_bound, run_bound
from tacit_papers.pdml.rows import (
    ADULT_ROWS,
    DELTA,
    EPSILON,
    NODES,
    PENALTY,
    SETS,
    SHORTENED,
    USUAL,
    WEIGHT,
    Array,
    Setup,
    Split,
    adult,
    adult_split,
    benchmark,
    benchmark_split,
    prepare,
)
from tacit_papers.pdml.runs import make_plan, optimum, risk, servers, watch
from tacit_papers.work import Outcome, Piece, Settings, seeds

CANCELS, BOUNDS, SOUND = "beside/noise in the objective", "beside/bounds", "beside/sound"
FAILURE = 0.05
CURVATURE = 0.25  # c3 of the logistic loss on rows of norm 1
METHODS = ("pdml", "gaussian")


# --- what neighbours compute from released models ------------------------------------------------------


def run_cancelling(settings: Settings) -> Outcome:
    """Error of a server's gradient as its neighbours compute it: in each round, and in differences of two rounds."""
    setup = USUAL.with_(rounds=settings["rounds_run"])
    split = adult_split(settings["rows"], 0)
    plan = make_plan(setup, split, 0)
    columns = tuple(f"x{j}" for j in range(split.columns))
    shards = [Shard(name, table, columns) for name, table in zip(plan.graph.names, split.tables, strict=True)]
    run = GraphRun(plan, shards, split.labels)
    sides = [node.side for node in run.nodes if isinstance(node.side, PdmlNode)]
    before, errors, true = np.zeros((NODES, split.columns)), [], []

    def look(run: GraphRun) -> None:
        nonlocal before
        side, near = sides[0], run.plan.graph.adjacent[0]
        pull = side.numbers.penalty * (side.degree * before[0] + before[list(near)].sum(axis=0))
        computed = pull - 2 * side.multiplier - 2 * side.numbers.penalty * side.degree * side.released
        gradient = side.local.gradient(side.model)
        errors.append(computed - gradient)
        true.append(gradient)
        before = np.array([one.released for one in sides])

    run.go(checkpoint=look)
    steps = [float(np.linalg.norm(b - a)) for a, b in pairwise(errors)]
    return {
        "one_round": [float(np.linalg.norm(error)) for error in errors],
        "difference": steps,
        "gradient": float(np.linalg.norm(true[-1])),
        "bound": setup.bound,
    }


# --- the bounds ----------------------------------------------------------------------------------------


def run_bounds(settings: Settings) -> Outcome:
    """Measured and bounded error where all is known: the 45,222 rows are the distribution from which rows are drawn.

    Drawn with replacement, so that they are independent, as the theorems ask.
    """
    X, y = adult()
    best = optimum(X, y, WEIGHT)
    lowest = _regularized(X, y, best)
    rng = np.random.default_rng(settings["seed"])
    drawn = rng.integers(len(y), size=settings["rows"])
    parts = np.split(drawn, NODES)
    split = Split([X[part] for part in parts], [y[part] for part in parts], X[:1], y[:1])
    found: Outcome = {"lowest": lowest, "optima": [], "graph": _conditions(settings["graphs"])}
    for epsilon in (0.4, 1.0):
        for bound in (0.0, 1.0, 9.0):
            w = _noisy_optimum(X[drawn], y[drawn], epsilon, bound, rng)
            radius = float(max(np.linalg.norm(w), np.linalg.norm(best)))
            task = LearningTask(tuple(len(part) for part in parts), radius, label_epsilon=epsilon)
            shared: dict[str, Any] = {"columns": X.shape[1], "ridge": WEIGHT, "objective_noise": bound}
            printed, proven = (optimum_bound(task, FAILURE, published=flag, **shared) for flag in (True, False))
            measured = _regularized(X, y, w) - lowest
            found["optima"].append([epsilon, bound, measured, printed, proven])
    found["run"] = _run_error(split, X, y, lowest, Setup(rounds=settings["rounds_run"]))
    return found


def _run_error(split: Split, X: Array, y: Vector, lowest: float, setup: Setup) -> dict[str, float]:
    """Theorem 1, corrected, for a whole run; the noise is one draw of what the theorem takes the mean over."""
    seen = watch(make_plan(setup, split, 0), split, setup)
    measured = sum(_regularized(X, y, w) - lowest for w in seen.averaged_by_server)
    task = LearningTask(tuple(len(own) for own in split.labels), seen.largest_norm, label_epsilon=setup.epsilon)
    proven = run_bound(
        task, servers(), rounds=setup.rounds, penalty=setup.penalty, columns=split.columns, first_sds=setup.first_sd,
        decay=setup.decay or 1.0, ridge=setup.weight, objective_noise=setup.bound, failure=FAILURE,
    )  # fmt: skip
    return {"measured": float(measured), "proven": proven, "rounds": setup.rounds}


def _regularized(X: Array, y: Vector, w: Vector) -> float:
    """J_P of (18): the mean loss under the distribution, and a/(2n) |w|^2."""
    return float(np.logaddexp(0.0, -y * (X @ w)).mean()) + 0.5 * WEIGHT / NODES * float(w @ w)


def _noisy_optimum(X: Array, y: Vector, epsilon: float, bound: float, rng: np.random.Generator) -> Vector:
    flipped = np.where(rng.random(len(y)) < 1 / (1 + np.exp(epsilon)), -y, y)
    noise = rng.uniform(-bound, bound, size=(NODES, X.shape[1])).mean(axis=0)
    return optimum(X, flipped, WEIGHT, epsilon, noise)


def _conditions(count: int) -> dict[str, Any]:
    """On how many random graphs of 13 links lemma 5, and so theorem 1 as printed, says anything."""
    met, reason, smooth = 0, "", NODES * CURVATURE + WEIGHT
    for seed in range(count):
        try:
            contraction(servers(seed), WEIGHT, smooth)
            met += 1
        except InputError as error:
            reason = reason or str(error)
    return {"tried": count, "met": met, "reason": reason}


# --- privacy that holds --------------------------------------------------------------------------------


def run_sound(settings: Settings) -> Outcome:
    """Accuracy at a whole-run epsilon of 1: pdml in its sound form, and the package's default."""
    found: Outcome = {"epsilon": settings["epsilon"], "accuracy": {}, "adult": {}}
    for name in settings["sets"]:
        try:
            X, y, _ = benchmark(name)
        except InputError:
            continue
        for method in METHODS:
            rows = prepare(X, SHORTENED) if method == "pdml" else X
            splits = [benchmark_split(rows, y, seed) for seed in settings["seeds"]]
            found["accuracy"].setdefault(name, {})[method] = [
                _score(method, split, seed, settings["epsilon"]) for seed, split in enumerate(splits)
            ]
    try:
        split = adult_split(settings["rows"], 0)
    except InputError as error:
        return found | {"adult_missing": str(error)}
    for method in METHODS:
        model = _fit(method, split, 0, settings["epsilon"])
        tables, coef = split.tables, np.asarray(model.coef_[0])
        scores = np.vstack(tables) @ coef + float(model.intercept_[0])
        labels = np.concatenate(split.labels)
        found["adult"][method] = {
            "accuracy": 100 * float(np.mean(np.where(scores >= 0, 1.0, -1.0) == labels)),
            "log_loss": float(np.logaddexp(0.0, -labels * scores).mean()),
            "risk": risk(tables, split.labels, np.tile(coef, (NODES, 1)), WEIGHT) if method == "pdml" else None,
            "epsilon": model.certificate_.epsilon(DELTA),
        }
    return found


def _fit(method: str, split: Split, seed: int, epsilon: float) -> HorizontalClassifier:
    privacy = Privacy(
        epsilon=epsilon, delta=DELTA, label_epsilon=EPSILON if method == "pdml" else None, noise_seed=seed
    )
    edges = servers().edges
    if method == "pdml":
        model = HorizontalClassifier(
            alpha=WEIGHT / NODES, fit_intercept=False, rho=PENALTY / NODES, graph=edges, privacy=privacy
        )
    else:
        model = HorizontalClassifier(graph=edges, privacy=privacy)
    return model.fit(split.tables, split.labels)


def _score(method: str, split: Split, seed: int, epsilon: float) -> float:
    model = _fit(method, split, seed, epsilon)
    return 100 * float(np.mean(model.predict(split.test) == split.test_labels))


def pieces(quick: bool) -> Sequence[Piece]:
    """All pieces that stand beside."""
    rows, rounds = (4500, 40) if quick else (ADULT_ROWS, USUAL.rounds)
    sets, count = (SETS[:3], 1) if quick else (SETS, 4)
    sound = {"rows": rows, "sets": list(sets), "seeds": list(seeds(0, count)), "epsilon": 1.0}
    bounds = {"rows": rows, "seed": 0, "rounds_run": rounds, "graphs": 50 if quick else 500}
    cancels = {"rows": rows, "rounds_run": 60 if quick else rounds}  # until the noise on models is gone
    return [
        Piece(CANCELS, run_cancelling, cancels, ("adult",), 5.0),
        Piece(BOUNDS, run_bounds, bounds, ("adult",), 5.0),
        Piece(SOUND, run_sound, sound, ("adult", "raetsch"), 15.0),
    ]
