"""Boosted trees over split columns beside LightGBM with all columns in one place.

"additive" is LightGBM on all columns whose trees may use the columns of one party only: the model class of the joint
run. "pooled" is without that, "alone" has the label holder's columns only. All have the same settings of trees, the
same fitted rows, and stop on the same held-out rows. HistGradientBoosting has scikit-learn's defaults.

Every cell is printed, won or lost. Settings were chosen on parts of the training rows of Adult and on generated and
small sets; nothing is chosen on test rows. Rounds to the additive optimum are counted on 15 % of the training rows that
no run saw.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error, roc_auc_score
from threadpoolctl import threadpool_limits

from bench import tree_peers as peers
from bench.curve_sets import SETS, Cut, missing
from bench.progress import say, tell
from bench.row import Row, seconds
from tacit import Privacy, VerticalBoostingClassifier, VerticalBoostingRegressor
from tacit.solvers.boosting.learner import TreeLearner
from tacit.solvers.boosting.settings import held_out
from tacit.solvers.boosting.sides import TreeHolder
from tacit.types import Vector

TITLE = "boosted trees: loss on test rows, mean and standard error over seeds; rounds, bytes, CPU seconds"
ONLY_WHEN_NAMED = True
SEEDS, QUICK_SEEDS = 5, 1
PARTIES = {2: (0.2795, 8), 3: (0.2785, 6), 5: (0.2780, 6), 10: (0.2780, 6)}  # most test loss; most rounds
MASKED = {3: 0.2782, 5: 0.2800, 10: 0.2809}  # most test loss with one step for all others
PRIVATE = {0.5: 0.3135, 1.0: 0.3090, 4.0: 0.3040}  # by epsilon; the other party's rows are protected
PRIVATE_LABELS = {1.0: 0.313, 2.0: 0.292, 4.0: 0.282}  # by epsilon; the labels are protected
NEAR = 0.001
LEVEL, MOST_ROUNDS = 1.02, 15
NOISE_COST = 0.0005
JUDGED = 0.15
OTHERS = ("heloc", "telco", "housing", "bike")
UNITS = {"classification": "log loss", "classes": "log loss", "regression": "mean squared error", "counts": "deviance"}


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to learn from and to judge by, and who holds which column."""

    kind: str
    cut: Cut
    groups: Mapping[str, list[str]]

    def tables(self, frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """Each party's columns."""
        return {name: frame[columns] for name, columns in self.groups.items()}

    def loss(self, prediction: Vector, y: Vector) -> float:
        """How wrong predictions are."""
        if self.kind in ("classification", "classes"):
            return float(log_loss(y, prediction))
        if self.kind == "counts":
            return float(mean_poisson_deviance(y, np.maximum(prediction, 1e-9)))
        return float(mean_squared_error(y, prediction))


def run(quick: bool = False) -> list[Row]:
    """Adult by the number of parties, other sets, a party of noise, and what it costs."""
    rows = []
    with threadpool_limits(1):  # all on one thread, whatever else runs
        for row in _rows(quick):
            tell(f"{row.name}: {row.measured} {row.target}")
            rows.append(row)
    return rows


def _rows(quick: bool) -> Iterator[Row]:
    if quick:
        yield from _set_rows("waves", "generated", _task_of(SETS["waves"], 0), 1, judged=False)
        yield from _cost_rows(_task_of(SETS["waves"], 0), judged=False)
        return
    if missing(SETS["adult"]):
        yield Row("adult", f"skipped: {missing(SETS['adult'])}")
    else:
        yield from _cost_rows(adult(2, 0), judged=True)
        for count, (most, most_rounds) in PARTIES.items():
            yield from _adult_rows(count, most, most_rounds)
        yield from _noise_rows()
        yield from _attack_rows(adult(2, 0))
        yield from _private_rows()
        yield from _label_rows(adult(2, 0))
    for name in OTHERS:
        why = missing(SETS[name])
        if why:
            yield Row(name, f"skipped: {why}")
        else:
            yield from _set_rows(name, name, _task_of(SETS[name], 0), SEEDS, judged=True)
    yield from _vehicle_rows()


# --- sets --------------------------------------------------------------------------------------------


def adult(parties: int, seed: int) -> Task:
    """Adult between two parties as elsewhere, or with its columns dealt out at random."""
    cut = SETS["adult"].cut(0)
    if parties == 2:
        return Task("classification", cut, {name: list(own) for name, own in cut.parties(cut.train).items()})
    order = np.random.default_rng(seed).permutation(len(cut.train.columns))
    dealt = [sorted(part) for part in np.array_split(order, parties)]
    names = list(cut.train)
    return Task("classification", cut, {f"party {k}": [names[j] for j in own] for k, own in enumerate(dealt, 1)})


def _task_of(one: Any, seed: int) -> Task:
    cut = one.cut(seed)
    return Task(one.task, cut, {name: list(own) for name, own in cut.parties(cut.train).items()})


def vehicle(seed: int) -> Task | None:
    """Four kinds of vehicles, columns as FATE cut them; None where the files are not at hand."""
    folder = Path(os.environ.get("TACIT_DATA") or ".")
    files = [folder / f"vehicle_scale_hetero_{side}.csv.gz" for side in ("guest", "host")]
    if not all(file.exists() for file in files):
        return None
    guest, host = (pd.read_csv(file, index_col="id") for file in files)
    y = guest.pop("y").to_numpy(dtype=float)
    frame = guest.add_prefix("guest_").join(host.add_prefix("host_")).reset_index(drop=True)
    test, train = np.split(np.random.default_rng(seed).permutation(len(y)), [round(0.3 * len(y))])
    cut = Cut(frame.iloc[train].reset_index(drop=True), y[train], frame.iloc[test].reset_index(drop=True), y[test])
    groups = {side: [name for name in frame if name.startswith(side)] for side in ("guest", "host")}
    return Task("classes", cut, groups)


# --- one fit -----------------------------------------------------------------------------------------


def estimator(kind: str, seed: int, **changed: Any) -> Any:
    """The joint estimator of a task."""
    if kind in ("classification", "classes"):
        return VerticalBoostingClassifier(random_state=seed, **changed)
    loss = "poisson" if kind == "counts" else "squared_error"
    return VerticalBoostingRegressor(loss=loss, random_state=seed, **changed)


def held_of(rows: int, seed: int) -> Any:
    """The rows that the joint run of this seed holds out."""
    plan_seed = int(np.random.RandomState(seed).randint(2**31 - 1))
    return held_out(rows, 0.15, plan_seed)


def joint_loss(task: Task, model: Any, frame: pd.DataFrame, y: Vector) -> float:
    """Loss of the joint model on rows."""
    tables = task.tables(frame)
    if task.kind in ("classification", "classes"):
        found = model.predict_proba(tables)
        return task.loss(found[:, 1] if task.kind == "classification" else found, y)
    return task.loss(model.predict(tables), y)


def _peer(task: Task, seed: int, columns: list[str], groups: Any) -> float:
    cut, held = task.cut, held_of(len(task.cut.y), seed)
    found = peers.boosted(task.kind, cut.train[columns], cut.y, cut.test[columns], held, groups)
    return task.loss(found, cut.y_test)


def additive(task: Task, seed: int) -> float:
    """All columns in one place, each tree on the columns of one party."""
    return _peer(task, seed, list(task.cut.train), list(task.groups.values()))


def pooled(task: Task, seed: int) -> float:
    """All columns in one place."""
    return _peer(task, seed, list(task.cut.train), None)


def alone(task: Task, seed: int) -> float:
    """The label holder's columns."""
    return _peer(task, seed, next(iter(task.groups.values())), None)


def histogram(task: Task, seed: int) -> float:
    """scikit-learn on all columns."""
    cut = task.cut
    return task.loss(peers.histogram(task.kind, cut.train, cut.y, cut.test, seed), cut.y_test)


COMPARED: dict[str, Callable[[Task, int], float]] = {
    "additive": additive,
    "pooled": pooled,
    "alone": alone,
    "HistGradientBoosting": histogram,
}


@dataclass(frozen=True, eq=False)
class Shared:
    """The joint runs of several seeds."""

    losses: Vector
    rounds: list[int]
    bytes: float
    seconds: float
    said: list[str]

    @property
    def shown(self) -> str:
        """Mean loss, and how the runs went."""
        went = f"rounds {' '.join(map(str, self.rounds))}; {self.bytes / 1e6:.1f} MB, {seconds(self.seconds)} CPU a fit"
        return f"{_mean(self.losses)}; {went}"


def shared(tasks: list[Task], seeds: int, **changed: Any) -> Shared:
    """Fit the joint model once for each seed."""
    losses, rounds, sent, spent, said = [], [], [], [], []
    for seed in range(seeds):
        task = tasks[seed]
        before = _cpu()
        model = estimator(task.kind, seed, **changed).fit(task.tables(task.cut.train), task.cut.y)
        spent.append(_cpu() - before)
        losses.append(joint_loss(task, model, task.cut.test, task.cut.y_test))
        rounds.append(model.n_rounds_)
        sent.append(model.traffic_["bytes_down"] + model.traffic_["bytes_up"])
        said.append(model.interaction_.sentence)
    return Shared(np.array(losses), rounds, float(np.mean(sent)), float(np.mean(spent)), said)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _mean(losses: Vector) -> str:
    error = losses.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
    return f"{losses.mean():.4f} ± {error:.4f}"


# --- rows of the table -------------------------------------------------------------------------------


def _adult_rows(count: int, most: float, most_rounds: int) -> Iterator[Row]:
    tasks = [adult(count, seed) for seed in range(SEEDS)]
    name = f"adult, {count} parties"
    say(name)
    found = shared(tasks, SEEDS)
    yield Row(f"{name}: joint, log loss", found.shown, float(found.losses.mean()), most, f"at most {most}")
    for peer, measure in COMPARED.items():
        if count == 2 or peer in ("additive", "alone"):
            losses = np.array([measure(task, seed) for seed, task in enumerate(tasks)])
            yield Row(f"{name}: {peer}, log loss", _mean(losses), float(losses.mean()))
    if count in MASKED:
        found = shared(tasks, SEEDS, secure_aggregation=True)
        most = MASKED[count]
        yield Row(
            f"{name}: joint under masks, log loss", found.shown, float(found.losses.mean()), most, f"at most {most}"
        )
    counts = [rounds_to_additive(task, seed) for seed, task in enumerate(tasks)]
    shown = f"{' '.join(map(str, counts))} of {SEEDS} seeds (99: never)"
    yield Row(
        f"{name}: rounds until within {NEAR} of additive", shown, max(counts), most_rounds, f"at most {most_rounds}"
    )


def rounds_to_additive(task: Task, seed: int) -> int:
    """Rounds until the loss on unseen training rows is near the additive model's; 99 where it does not get there."""
    order = np.random.default_rng(100 + seed).permutation(len(task.cut.y))
    judge, learn = np.split(order, [round(JUDGED * len(order))])
    cut = task.cut
    inner = Cut(
        cut.train.iloc[learn].reset_index(drop=True), cut.y[learn], cut.train.iloc[judge].reset_index(drop=True),
        cut.y[judge],
    )  # fmt: skip
    small = Task(task.kind, inner, task.groups)
    goal = additive(small, seed) + NEAR
    near = np.flatnonzero(losses_by_round(small, seed) <= goal)
    return int(near[0]) + 1 if near.size else 99


def losses_by_round(task: Task, seed: int) -> Vector:
    """Log loss of the joint model on the test rows after every round of one fit."""
    blocks: dict[int, list[tuple[float, Any]]] = {}
    settle = TreeLearner.settle

    def listening(learner: TreeLearner, step: float) -> None:
        if learner.pending is not None:
            blocks.setdefault(id(learner), []).append((step, learner.pending))
        settle(learner, step)

    with mock.patch.object(TreeLearner, "settle", listening):
        model = estimator(task.kind, seed).fit(task.tables(task.cut.train), task.cut.y)
    tables = [np.asarray(shard.features.values) for shard in model._new_shards(task.tables(task.cut.test))]
    added = np.zeros((model.n_rounds_, len(task.cut.y_test)))
    for table, own in zip(tables, blocks.values(), strict=True):  # the label holder settles first, as it comes first
        for row, (step, block) in zip(added, own, strict=True):
            row += step * block.score(table) if step else 0.0
    scores = np.cumsum(added, axis=0) + model._model.constant
    return np.array([task.loss(expit(one), task.cut.y_test) for one in scores])


def _set_rows(name: str, key: str, first: Task, seeds: int, *, judged: bool) -> Iterator[Row]:
    say(name)
    tasks = [first, *(_task_of(SETS[key], seed) for seed in range(1, seeds))] if key in SETS else [first]
    yield from _compared(name, tasks, judged=judged)


def _vehicle_rows() -> Iterator[Row]:
    tasks = [vehicle(seed) for seed in range(SEEDS)]
    known = [task for task in tasks if task is not None]
    if not known:
        yield Row("vehicle", "skipped: its files are in no folder named by the variable TACIT_DATA")
        return
    yield from _compared("vehicle, 4 classes", known, judged=True)


def _compared(name: str, tasks: list[Task], *, judged: bool) -> Iterator[Row]:
    unit = UNITS[tasks[0].kind]
    found = shared(tasks, len(tasks))
    best = np.array([additive(task, seed) for seed, task in enumerate(tasks)])
    ratio = float(found.losses.mean() / best.mean())
    limit = (LEVEL, f"at most {LEVEL} of additive") if judged else (None, "")
    yield Row(f"{name}: joint / additive, {unit}", f"{ratio:.4f} ({found.shown})", ratio, *limit)
    yield Row(f"{name}: additive, {unit}", _mean(best), float(best.mean()))
    for peer in ("pooled", "alone", "HistGradientBoosting"):
        losses = np.array([COMPARED[peer](task, seed) for seed, task in enumerate(tasks)])
        yield Row(f"{name}: {peer}, {unit}", _mean(losses), float(losses.mean()))
    most = (MOST_ROUNDS, f"at most {MOST_ROUNDS}") if judged else (None, "")
    yield Row(f"{name}: most rounds", str(max(found.rounds)), max(found.rounds), *most)
    yield Row(f"{name}: interactions across parties, seed 0", found.said[0])


def _noise_rows() -> Iterator[Row]:
    """A third party whose ten columns are noise."""
    base = adult(2, 0)
    noisy = [_with_noise(base, seed) for seed in range(SEEDS)]
    for label, changed in (("", {}), (", min_gain_se=2.5", {"min_gain_se": 2.5})):
        say(f"noise{label}")
        without = shared([base] * SEEDS, SEEDS, **changed)
        losses, weights = [], []
        for seed, task in enumerate(noisy):
            model = estimator(task.kind, seed, **changed).fit(task.tables(task.cut.train), task.cut.y)
            losses.append(joint_loss(task, model, task.cut.test, task.cut.y_test))
            weights.append(model.party_weights_["noise"])
        shown = " ".join(f"{weight:.3f}" for weight in weights)
        most = (0.0, "0 in every run") if changed else (None, "")
        yield Row(f"adult, a party of noise{label}: its weight", shown, max(weights), *most)
        cost = float(np.mean(losses) - without.losses.mean())
        shown = f"{cost:+.5f} ({np.mean(losses):.4f} against {without.losses.mean():.4f})"
        yield Row(f"adult, a party of noise{label}: what it costs", shown, cost, NOISE_COST, f"at most {NOISE_COST}")


def _with_noise(task: Task, seed: int) -> Task:
    rng = np.random.default_rng(seed)
    names = [f"noise{j}" for j in range(10)]
    frames = [
        frame.join(pd.DataFrame(rng.normal(size=(len(frame), 10)), columns=names))
        for frame in (task.cut.train, task.cut.test)
    ]
    cut = Cut(frames[0], task.cut.y, frames[1], task.cut.y_test, task.cut.held)
    return Task(task.kind, cut, {**task.groups, "noise": names})


SECRETS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "sex": lambda frame: frame["sex"] == "Male",
    "capital gain above 5000": lambda frame: frame["capital-gain"] > 5000,
    "married": lambda frame: frame["marital-status"] == "Married-civ-spouse",
    "born in the United States": lambda frame: frame["native-country"] == "United-States",
}
KNOWN = 0.1


def _attack_rows(task: Task) -> Iterator[Row]:
    """What a label holder who knows a tenth of the other party's rows finds out about the rest."""
    say("what the answers tell")
    answers: list[Vector] = []
    gather = TreeHolder.gather

    def listening(side: TreeHolder, came: Mapping[str, Any]) -> Any:
        answers.extend(arrays["added"] for arrays in came.values())
        return gather(side, came)

    with mock.patch.object(TreeHolder, "gather", listening):
        estimator(task.kind, 0).fit(task.tables(task.cut.train), task.cut.y)
    own, _, _ = peers.as_numbers(task.tables(task.cut.train)["holder"], task.tables(task.cut.test)["holder"])
    known = np.random.default_rng(0).random(len(own)) < KNOWN
    before = np.column_stack([own, task.cut.y])
    for name, secret in SECRETS.items():
        truth = secret(task.cut.train).to_numpy(dtype=bool)
        areas = []
        for seen in (before, np.column_stack([before, *answers])):
            guess = HistGradientBoostingClassifier(random_state=0).fit(seen[known], truth[known])
            areas.append(float(roc_auc_score(truth[~known], guess.predict_proba(seen[~known])[:, 1])))
        shown = f"{areas[0]:.3f} from own columns and labels, {areas[1]:.3f} with the answers"
        yield Row(f"adult: AUC of guessing the other party's column, {name}", shown, areas[1])


def _private_rows() -> Iterator[Row]:
    """The other party's rows protected: the label holder has trees on the first six columns, the other curves.

    Once as the ranges are, and once more where it makes a difference that amounts are said to repeat.
    """
    one, cut = SETS["adult"], SETS["adult"].cut(0)
    names = list(cut.train)
    task = Task("classification", cut, {"holder": names[:6], "other": names[6:]})
    for epsilon, most in PRIVATE.items():
        name = f"adult, rows of the other party at epsilon {epsilon:g}: log loss"
        plain, said = (_private_losses(task, epsilon, one.public(repeats=repeats)) for repeats in (False, True))
        yield Row(name, _over_noise(plain), float(plain.mean()), most, f"at most {most}")
        if not np.array_equal(plain, said):  # not judged: that they repeat was seen on the training rows
            yield Row(f"{name}, amounts said to repeat", _over_noise(said), float(said.mean()))


def _private_losses(task: Task, epsilon: float, public: Mapping[str, Any]) -> Vector:
    """Loss on test rows, for each seed of the noise."""
    say(f"private rows, epsilon {epsilon:g}")
    asked = [Privacy(epsilon=epsilon, delta=1e-5, noise_seed=seed) for seed in range(SEEDS)]
    return _losses(task, asked, public)


def _label_rows(task: Task) -> Iterator[Row]:
    """The labels protected, by randomized response."""
    for epsilon, most in PRIVATE_LABELS.items():
        say(f"private labels, epsilon {epsilon:g}")
        found = _losses(task, [Privacy(None, label_epsilon=epsilon, noise_seed=seed) for seed in range(SEEDS)], {})
        name = f"adult, labels at epsilon {epsilon:g}: log loss"
        yield Row(name, _over_noise(found), float(found.mean()), most, f"at most {most}")


def _losses(task: Task, asked: Sequence[Privacy], public: Mapping[str, Any]) -> Vector:
    """Loss on test rows of a fit with each of these."""
    cut, losses = task.cut, []
    for seed, privacy in enumerate(asked):
        model = estimator(task.kind, seed, privacy=privacy, **public).fit(task.tables(cut.train), cut.y)
        losses.append(joint_loss(task, model, cut.test, cut.y_test))
    return np.array(losses)


def _over_noise(losses: Vector) -> str:
    return f"{losses.mean():.4f}, standard deviation {losses.std(ddof=1):.4f} over the noise"


def _cost_rows(task: Task, *, judged: bool) -> Iterator[Row]:
    """CPU seconds of the joint fit against pooled LightGBM with as many trees; both on arrays, one thread."""
    import lightgbm as lgb

    X, _, categorical = peers.as_numbers(task.cut.train, task.cut.test)
    place = {name: j for j, name in enumerate(task.cut.train)}
    columns = [[place[name] for name in own] for own in task.groups.values()]
    ratios, shown = [], []
    for seed in range(3):
        before = _cpu()
        model = estimator(task.kind, seed, parties=columns, categorical_features=categorical, n_jobs=1)
        model.fit(X, task.cut.y)
        joint = _cpu() - before
        params = {"objective": "binary", "learning_rate": 0.08, "num_leaves": 15, "lambda_l2": 5.0, "verbosity": -1}
        params |= {"num_threads": 1, "deterministic": True, "force_col_wise": True, "min_data_in_leaf": 40}
        trees = sum(model.n_trees_.values())
        before = _cpu()
        data = lgb.Dataset(X, task.cut.y > 0, categorical_feature=categorical or "auto", params=params)
        lgb.train(params, data, trees)
        whole = _cpu() - before
        ratios.append(joint / whole)
        shown.append(f"{seconds(joint)} / {seconds(whole)} for {trees} trees")
    ratio = float(np.median(ratios))
    limit = (2.5, "at most 2.5") if judged else (None, "")
    yield Row(
        "CPU seconds of fit / pooled LightGBM with as many trees", f"{ratio:.2f} ({'; '.join(shown)})", ratio, *limit
    )
