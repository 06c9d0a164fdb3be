"""What is computed of the paper's theorems: convergence, sensitivity, the noise's directions, labels, composition.

| symbol | meaning |
|---|---|
| M | parties, each with the same single column of norm 1 |
| L | curvature of the loss: 1 for the squared loss, 1/4 for the logistic one |
| sigma | D'D of a party, a number here: 1 |
| gamma_m, gamma | strong convexity of the x- and z-subproblems: rho sigma + lambda, and rho at least |

The published iteration on these data is a linear recursion where the loss is quadratic of curvature L: with r = L/rho,
(1 + r) z'' = (1 + 2r - 2Mr) z' - (1 - M) r z. It has an eigenvalue below -1 as soon as rho < L (3M - 4)/2, while
Assumption 1 asks only for rho + lambda >= 2, rho^2 > 2 L^2 and rho >= L, whatever M is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.audit.attacks import ROUNDING, check_lemma1, column_space_attack, labels_from_dual, largest, towards_residual
from tacit.blocks.dense import Block
from tacit.errors import RunError
from tacit.mechanisms.published import (
    NOISY,
    PublishedParty,
    PublishedSettings,
    corollary1_epsilon,
    corollary1_round_epsilon,
    lemma1_bound,
    theorem3_sigma,
)
from tacit.plan import FeatureSplit, TrainingRequest, make_plan
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease
from tacit.privacy.releases import Allowed, Releaser
from tacit.problem.registry import get_loss, get_regularizer
from tacit.run.star import Run
from tacit.solvers.base import Problem
from tacit.types import Message, Shard, Vector
from tacit_papers.sharing.runs import noisy_plan
from tacit_papers.sharing.tasks import Task, load_task
from tacit_papers.work import Outcome, Settings

# --- three short refutations by the audit's attacks: the column space, Lemma 1, labels from the dual ---

# Proofs: docs/proofs/published.md, sections 2, 3 and 5.


def version_of(released: Vector, versions: tuple[Vector, Vector]) -> int:
    """Which version of a party's data a release was made from: that whose column space leaves less of it over.

    Where both leave nothing, one space is within the other, and the release came from the smaller one: from the larger
    one it would have left the smaller with probability 1.
    """
    verdict = column_space_attack(released, *versions)
    if max(verdict.residuals) <= ROUNDING:
        return int(np.argmin([np.linalg.matrix_rank(version) for version in versions]))
    return verdict.chosen


def movement(features: Vector, others: Vector, z: Vector, dual: Vector, rho: float, weight: float) -> float:
    """How far the share of one of two parties moves, in units of Lemma 1's C, when its first column moves by norm 1.

    The column moves towards what the x-update leaves of its target; R = ||x||^2 / 2, and b1 is the smallest that
    Assumption 2.1 allows.
    """
    neighbour = towards_residual(features, z - others - dual / rho, weight / rho)
    check = check_lemma1(features, neighbour, others=others, z=z, dual=dual, rho=rho, weight=weight, blocks=2)
    return check.ratio


def labels_read(duals: Sequence[Vector], labels: Vector) -> float:
    """Part of the labels that are minus the sign of the dual, each row's of the round in which it is largest."""
    return float(np.mean(labels_from_dual(largest(duals)) == labels))


# --- what is computed of the paper's theorems: convergence, sensitivity, the noise's directions, labels, composition -

WEIGHT = 1e-3  # lambda, of the summed loss


# --- Theorems 1 and 2 --------------------------------------------------------------------------------


def same_columns(settings: Settings) -> Outcome:
    """The published iteration where all parties hold the same column and every part of Assumption 1 holds."""
    return {
        f"{case['loss']}, {case['parties']} parties": _same_column(case, settings["rows"], settings["rounds"])
        for case in settings["cases"]
    }


def _same_column(case: dict[str, Any], rows: int, rounds: int) -> dict[str, Any]:
    parties, rho, loss = case["parties"], case["rho"], get_loss(case["loss"])
    rng = np.random.default_rng(0)
    labels = 1 + rng.normal(size=rows) if case["loss"] == "squared" else np.where(np.arange(rows) < 0.6 * rows, 1.0, -1)
    column = np.full((rows, 1), 1 / math.sqrt(rows))
    shards = [Shard(f"party {k + 1}", column, ("x0",)) for k in range(parties)]
    request = TrainingRequest(
        loss=loss, penalty="l2", alpha=WEIGHT / rows, fit_intercept=False, method="published", rho=rho / rows,
        max_rounds=rounds, tol=0.0,
    )  # fmt: skip
    names = tuple(shard.name for shard in shards)
    plan = make_plan(request, FeatureSplit(names, rows, (1,) * parties, input_bytes=8 * rows * parties))
    run = Run(plan, shards, labels)
    try:
        note = run.go().note
    except RunError as error:
        note = str(error)
    return {
        "rho": rho,
        "assumption": assumption(rho, loss.curvature),
        "threshold": loss.curvature * (3 * parties - 4) / 2,
        "primal": [row.primal for row in run.state.trace],
        "stationarity": [row.stationarity for row in run.state.trace],
        "note": note,
    }


def assumption(rho: float, curvature: float, smallest: float = 1.0, largest: float = 1.0) -> dict[str, bool]:
    """Each part of Assumption 1.2 for R = ||x||^2/2 and a convex loss, from the eigenvalues of D'D."""
    return {
        "full column rank": smallest > 0,
        "(b)": rho * smallest + WEIGHT >= 2 * largest,
        "(c)": rho * rho > 2 * curvature**2 and rho >= curvature,
    }


def spectrum(settings: Settings) -> Outcome:
    """Smallest and largest eigenvalue of D'D of each party, and the rho that Assumption 1.2(b) would need."""
    task = load_task(settings["data"], settings["rows"])
    found = []
    for block in task.blocks:
        values = np.linalg.eigvalsh(Block(block).gram(np.ones(block.shape[0])))
        low = max(float(values[0]), 0.0)
        low = 0.0 if low < 1e-9 * float(values[-1]) else low
        found.append(
            {"columns": block.shape[1], "smallest": low, "largest": float(values[-1]),
             "needed_rho": 2 * float(values[-1]) / low if low else None}
        )  # fmt: skip
    return {"parties": found}


# --- Lemma 1 and Theorem 3 ---------------------------------------------------------------------------


def lemma1(settings: Settings) -> Outcome:
    """How far a share moves when one column does, in units of what Lemma 1 allows."""
    rows = []
    for sizes in settings["sizes"]:
        for rho in settings["rhos"]:
            ratios = [_moved(sizes[0], sizes[1], rho, seed) for seed in settings["seeds"]]
            rows.append({"rows": sizes[0], "columns": sizes[1], "rho": rho, "ratio": float(np.mean(ratios))})
    return {"cases": rows}


def _moved(rows: int, columns: int, rho: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    features, other = _unit_rows(rng, rows, columns), _unit_rows(rng, rows, columns)
    z, dual, direction = rng.normal(size=rows), 0.3 * rng.normal(size=rows), rng.normal(size=columns)
    others, weight = other @ (direction / np.linalg.norm(direction)), 1e-4 * rows
    return movement(features, others, z, dual, rho, weight)


def _unit_rows(rng: np.random.Generator, rows: int, columns: int) -> Vector:
    features = rng.normal(size=(rows, columns))
    return np.asarray(features / np.linalg.norm(features, axis=1, keepdims=True))


def column_space(settings: Settings) -> Outcome:
    """How often one release of party 2 tells which of two versions of its rows it was made from, by noise and law."""
    task = load_task("a9a", settings["rows"])
    features = task.blocks[1].toarray()
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0) * (1 + 1e-9)
    outcome: Outcome = {}
    for law in ("published-inverse", "published", "isotropic"):
        outcome[law] = {}
        for level in settings["levels"]:
            outcome[law][f"{level:g}"] = {
                unit: _wins(features, law, level, unit, settings["trials"]) for unit in ("column", "record")
            }
    return outcome


def _wins(features: Vector, law: str, level: float, unit: str, trials: int) -> dict[str, float]:
    won = 0
    for trial in range(trials):
        rng = np.random.default_rng((trial, unit == "record"))
        truth = int(rng.integers(2))
        versions = (features, _neighbour(features, unit, rng))
        won += version_of(_release(versions[truth], law, level, trial), versions) == truth
    return {"right": won / trials, "trials": trials}


def _neighbour(features: Vector, unit: str, rng: np.random.Generator) -> Vector:
    """One record replaced by another one of the set, or one column moved by a vector of norm at most 1."""
    other = features.copy()
    if unit == "record":
        place = int(rng.integers(len(other)))
        differing = np.flatnonzero(np.any(features != features[place], axis=1))
        other[place] = features[rng.choice(differing)]
        return other
    used = np.flatnonzero(np.count_nonzero(other, axis=0) > len(other) // 20)  # a column that is not all but empty
    column = int(rng.choice(used))
    change = other[:, column] * rng.uniform(0.0, 1.0, size=len(other))
    other[:, column] -= change / max(float(np.linalg.norm(change)), 1.0)
    return other


def _release(features: Vector, law: str, level: float, seed: int) -> Vector:
    """What the party sends in one round of the mechanism itself; isotropic noise on its share to compare."""
    rows = len(features)
    rng = np.random.default_rng((seed, 7))
    inbox = {name: rng.normal(size=rows) for name in ("residual", "dual")}
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-4, False, 2, rows, 1e-4)
    settings = PublishedSettings(0.5, 1.0, 1.0, law == "published-inverse")
    name = "share" if law == "isotropic" else NOISY
    releaser = Releaser((Allowed(name, level, 1),), "party 2", seed)
    if law == "isotropic":
        return releaser.add(name, features @ (0.1 * rng.normal(size=features.shape[1])))
    releaser.begin(Message("coordinator", 1, inbox))
    return PublishedParty(problem, Block(features), settings, releaser).step(1, inbox)["share"]


# --- labels ------------------------------------------------------------------------------------------


def labels(settings: Settings) -> Outcome:
    """Share of the labels that a party reads off the dual variable it is sent, by level of the noise."""
    task = load_task("a9a", settings["rows"])
    return {f"{level:g}": _labels_read(task, level, settings) for level in settings["levels"]}


def _labels_read(task: Task, level: float, settings: Settings) -> dict[str, float]:
    fixed = (settings["rho"], settings["alpha"], settings["rounds"])
    run = Run(noisy_plan(task, "published-inverse", level, *fixed, seed=0), task.shards(), task.y)
    duals: list[Vector] = []
    run.go(checkpoint=lambda now: duals.append(now.coordinator.side.y.copy()))  # what the next broadcast carries
    guess = max(float(np.mean(task.y > 0)), float(np.mean(task.y < 0)))  # of who says the commoner label everywhere
    return {"first": labels_read(duals[:1], task.y), "all": labels_read(duals, task.y), "guess": guess}


# --- Corollary 1 -------------------------------------------------------------------------------------


def composition(settings: Settings) -> Outcome:
    """What Corollary 1 says of T rounds, beside the exact number if Lemma 1 were true; and its noise at epsilon 1."""
    delta = settings["delta"]
    cases = []
    for one in settings["epsilons"]:
        for rounds in settings["rounds"]:
            slack, each = delta / 2, delta / 2 / rounds
            sigma = theorem3_sigma(1.0, one, each)  # in units of C
            exact = accountant.epsilon([GaussianRelease(1.0, sigma, rounds)], delta)
            cases.append({"one": one, "rounds": rounds, "said": corollary1_epsilon(one, rounds, slack), "exact": exact})
    one = corollary1_round_epsilon(1.0, 20, delta / 2)
    sizes = {"columns": 66, "rho": 0.5, "weight": 1e-4 * 32561, "curvature": 1.0, "blocks": 2, "bound": 1.0}
    planned = theorem3_sigma(lemma1_bound(**sizes), one, delta / 40)  # type: ignore[arg-type]
    return {"cases": cases, "delta": delta, "sigma_at_one": planned}
