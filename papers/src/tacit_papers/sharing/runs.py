"""What is computed on data: baselines, ADMM and SGD by epoch, noise, and the sound forms beside it.

Every function takes the settings of a piece and returns its outcome. rho is that of the *summed* loss, alpha (the
paper's lambda over the rows) that of the mean loss.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from tacit import Privacy, VerticalClassifier
from tacit.errors import RunError
from tacit.mechanisms.published import NOISY
from tacit.mechanisms.shares.sides import sensitivity
from tacit.plan import FeatureSplit, Plan, TrainingRequest, make_plan
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease
from tacit.privacy.releases import Allowed
from tacit.run.star import Run
from tacit.types import Matrix, Vector
from tacit_papers.sharing.tasks import Task, load_task
from tacit_papers.work import Outcome, Settings

# --- runs of the real parties and coordinator, with the objective and the test loss after every round ---

UNBOUNDED = 1e6  # a row norm and a ball that no row and no coefficients here reach: the paper's experiments have none


@dataclass(frozen=True)
class Method:
    """What is run: a method by name, its penalty parameter on the *summed* loss, and the size of SGD's steps."""

    name: str
    rho: float | None = None
    step: float = 1.0  # times the default step of SGD
    seed: int = 0


def trained(task: Task, method: Method, alpha: float, rounds: int) -> dict[str, Any]:
    """Objective and test loss after every round of a run without noise; `note` says why it stopped early.

    For SGD the first entry is the random start, for the published form the first x-update, which stays at zero.
    """
    return _recorded(task, _plan(task, method, alpha, rounds), alpha, method.step)


def noisy(task: Task, mechanism: str, sigma: float, rho: float, alpha: float, rounds: int, seed: int) -> dict[str, Any]:
    """The same of the published iteration with published noise of standard deviation sigma in every round."""
    return _recorded(task, noisy_plan(task, mechanism, sigma, rho, alpha, rounds, seed), alpha)


def noisy_plan(task: Task, mechanism: str, sigma: float, rho: float, alpha: float, rounds: int, seed: int) -> Plan:
    """A plan of the published mechanism whose noise is given, not worked out from the paper's formulas."""
    privacy = Privacy(
        epsilon=1.0, mechanism=mechanism, row_norm=UNBOUNDED, coef_norm=UNBOUNDED, noise_seed=seed
    )  # this epsilon says nothing: the noise is put in below
    plan = _plan(task, Method("published", rho), alpha, rounds, privacy)
    private = plan.private
    assert private is not None
    releases = {name: (Allowed(NOISY, sigma, rounds),) for name in private.releases}
    return replace(plan, private=replace(private, releases=releases, rounds=rounds))


def _plan(task: Task, method: Method, alpha: float, rounds: int, privacy: Privacy | None = None) -> Plan:
    rows = task.y.size
    request = TrainingRequest(
        loss="logistic", penalty="l2", alpha=alpha, fit_intercept=False, method=method.name,
        rho="auto" if method.rho is None else method.rho / rows, max_rounds=rounds, tol=0.0, privacy=privacy,
        seed=method.seed,
    )  # fmt: skip
    names, size = tuple(shard.name for shard in task.shards()), 8 * rows * sum(task.columns)
    return make_plan(request, FeatureSplit(names, rows, tuple(task.columns), input_bytes=size))


def _recorded(task: Task, plan: Plan, alpha: float, step: float = 1.0) -> dict[str, Any]:
    objectives: list[float] = []
    losses: list[float] = []
    if plan.private is None and plan.recorded_method == "published":
        # Ours begins with z and is half an epoch ahead of the paper's, whose first x-update stays at zero.
        zeros = [np.zeros(count) for count in task.columns]
        objectives.append(task.objective(zeros, alpha))
        losses.append(task.test_loss(zeros))

    def record(run: Run) -> None:
        coefs: list[Vector] = [np.asarray(party.side.coef) for party in run.parties]
        objectives.append(task.objective(coefs, alpha))
        losses.append(task.test_loss(coefs))
        if plan.recorded_method == "sgd" and len(losses) == 1:
            run.coordinator.side.step *= step  # it is set in the first exchange, from the data's norms

    run = Run(plan, task.shards(), task.y)
    try:
        note = run.go(checkpoint=record).note
    except RunError as error:  # a run that overflows
        note = str(error)
    return {"objective": _finite(objectives), "test": _finite(losses), "note": note, "rounds": len(losses)}


def _finite(values: list[float]) -> list[float | None]:
    """As JSON has them: none where a number has left the floats."""
    return [value if math.isfinite(value) else None for value in values]


# --- what is computed on data: baselines, ADMM and SGD by epoch, noise, and the sound forms beside it ---

NARROW = 1000  # up to so many columns a Newton method with factorisation is quickest
SHARE_BOUND = 1.0  # b: rows of norm at most 1, coefficients of norm at most 1


def task_of(settings: Settings) -> Task:
    """The data that a piece names."""
    return load_task(settings["data"], settings["rows"], settings.get("sizes"))


# --- baselines ---------------------------------------------------------------------------------------


def reference(settings: Settings) -> Outcome:
    """Test log loss of scikit-learn on all columns and on party 1's: our objective, and scikit-learn's own defaults."""
    task, alpha = task_of(settings), settings["alpha"]
    outcome: Outcome = {"rows": task.y.size, "test_rows": task.y_test.size, "columns": list(task.columns)}
    for name, count in (("pooled", len(task.columns)), ("local", 1)):
        X, X_test = _joined(task.blocks[:count]), _joined(task.test_blocks[:count])
        same = _sklearn(X, task.y, C=1.0 / (alpha * task.y.size), fit_intercept=False)
        own = _sklearn(X, task.y)
        outcome[name] = _loss(same, X_test, task)
        outcome[f"{name}_default"] = _loss(own, X_test, task)
        outcome[f"{name}_objective"] = task.objective(
            [*_cut(same.coef_[0], task.columns[:count]), *(np.zeros(n) for n in task.columns[count:])], alpha
        )
    return outcome


def _joined(blocks: Sequence[Matrix]) -> Matrix:
    if sparse.issparse(blocks[0]):
        return sparse.csr_array(sparse.hstack(list(blocks)))
    return np.hstack(list(blocks))


def _cut(coef: Any, sizes: Sequence[int]) -> list[Any]:
    return np.split(coef, np.cumsum(sizes)[:-1])


def _sklearn(X: Matrix, y: Any, **own: Any) -> Any:
    """Solve to the last digits where the objective is ours; leave everything at its default otherwise."""
    exact = {"solver": "newton-cholesky" if X.shape[1] <= NARROW else "newton-cg", "tol": 1e-8, "max_iter": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a default of 100 iterations may end early, as it did for the paper
        return LogisticRegression(**(exact | own if own else {})).fit(X, y)


def _loss(model: Any, X: Matrix, task: Task) -> float:
    return float(np.logaddexp(0.0, -task.y_test * model.decision_function(X)).mean())


# --- by epoch ----------------------------------------------------------------------------------------


def admm(settings: Settings) -> Outcome:
    """Curves of the published iteration for every rho, of the averaged form and of our default method."""
    task, alpha, rounds = task_of(settings), settings["alpha"], settings["rounds"]
    published = {f"{rho:g}": trained(task, Method("published", rho), alpha, rounds) for rho in settings["rhos"]}
    return {
        "published": published,
        "averaged": trained(task, Method("averaged"), alpha, rounds),
        "default": trained(task, Method("auto"), alpha, rounds),
    }


def sgd(settings: Settings) -> Outcome:
    """Curves of FDML-style SGD for every size of its steps, and for more seeds at the default size."""
    task, alpha, epochs = task_of(settings), settings["alpha"], settings["epochs"]
    first, *more = settings["seeds"]
    steps = {
        f"{step:g}": trained(task, Method("sgd", step=step, seed=first), alpha, epochs + 1)
        for step in settings["steps"]
    }
    return {"steps": steps, "seeds": [trained(task, Method("sgd", seed=seed), alpha, epochs + 1) for seed in more]}


def many_parties(settings: Settings) -> Outcome:
    """The published and the averaged form with the columns dealt to more parties, for every rho."""
    outcome: Outcome = {}
    for parties in settings["parties"]:
        sizes = [len(part) for part in np.array_split(np.arange(sum(settings["columns"])), parties)]
        task = load_task(settings["data"], settings["rows"], sizes)
        outcome[str(parties)] = {
            name: {
                f"{rho:g}": _end(trained(task, Method(name, rho), settings["alpha"], settings["rounds"]))
                for rho in settings["rhos"]
            }
            for name in ("published", "averaged")
        }
    return outcome


def sensitivity_table(settings: Settings) -> Outcome:
    """Where the published form ends for every lambda and rho, beside scikit-learn at that lambda."""
    task = task_of(settings)
    outcome: Outcome = {}
    for alpha in settings["alphas"]:
        X, X_test = _joined(task.blocks), _joined(task.test_blocks)
        exact = _sklearn(X, task.y, C=1.0 / (alpha * task.y.size), fit_intercept=False)
        ends = {
            f"{rho:g}": _end(trained(task, Method("published", rho), alpha, settings["rounds"]))
            for rho in settings["rhos"]
        }
        outcome[f"{alpha:g}"] = {
            "pooled": _loss(exact, X_test, task),
            "optimum": task.objective(_cut(exact.coef_[0], task.columns), alpha),
            "ends": ends,
        }
    return outcome


def _end(curve: dict[str, Any]) -> dict[str, Any]:
    return {
        "objective": curve["objective"][-1],
        "test": curve["test"][-1],
        "best": min((value for value in curve["objective"] if value is not None), default=None),
        "note": curve["note"],
        "rounds": curve["rounds"],
    }


# --- noise -------------------------------------------------------------------------------------------


def noise(settings: Settings) -> Outcome:
    """Test loss by epoch of the published private iteration for both of its noises, every level and seed."""
    task = task_of(settings)
    fixed = (settings["rho"], settings["alpha"], settings["rounds"])
    return {
        law: {f"{level:g}": [noisy(task, law, level, *fixed, seed) for seed in settings["seeds"]] for level in levels}
        for law, levels in settings["levels"].items()
    }


def sound(settings: Settings) -> Outcome:
    """What the same noise is worth if it is put on the shares themselves, and what our default reaches at epsilon 1."""
    task, delta = task_of(settings), settings["delta"]
    shares = {}
    for level in settings["levels"]:
        event = GaussianRelease(sensitivity("replace-one", SHARE_BOUND), level, settings["rounds"])
        epsilon = accountant.epsilon([event], delta)
        asked: dict[str, Any] = {"mechanism": "shares", "coef_norm": SHARE_BOUND, "row_norm": 1.0}
        shares[f"{level:g}"] = {
            "epsilon": epsilon,
            "test": [_private(task, settings, seed, epsilon=epsilon, **asked) for seed in settings["seeds"]],
        }
    gram = [
        _private(task, settings, seed, epsilon=settings["epsilon"], fit_intercept=True) for seed in settings["seeds"]
    ]
    return {"shares": shares, "gram": {"epsilon": settings["epsilon"], "test": gram}, "delta": delta}


def _private(task: Task, settings: Settings, seed: int, fit_intercept: bool = False, **asked: Any) -> float:
    """Test loss of a private run of the package itself; its noise comes from a seed, so that it can be repeated."""
    privacy = Privacy(delta=settings["delta"], noise_seed=seed, **asked)
    model = VerticalClassifier(
        alpha=settings["alpha"], fit_intercept=fit_intercept, max_rounds=settings["rounds"], privacy=privacy
    )
    scores = model.fit(list(task.blocks), task.y).decision_function(list(task.test_blocks))
    return float(np.logaddexp(0.0, -task.y_test * scores).mean())
