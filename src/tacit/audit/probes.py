"""Generated data on which a plan is attacked: a few rows of the plan's parties, never the job's own data.

The plan keeps its mechanism, its noise and its numbers; only the number of rows changes, and wide parties are narrowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.audit.scene import Listening, Scene, plain
from tacit.errors import RunError, TacitError
from tacit.plan import Plan
from tacit.privacy.releases import Planned
from tacit.runtime.result import Run, RunResult
from tacit.types import Arrays, Shard, Vector

TRIES = 50  # for a few rows, randomized labels may all be equal, and other refusals of real runs
SCENE_ROWS = (4, 12, 60)
SCENE_COLUMNS = 2
WATCHED_COLUMNS = 3  # few, so that shares span them before a run converges
WATCHED_ROUNDS = 12


def scenes(
    plan: Plan, party: str, rows: tuple[int, ...] = SCENE_ROWS, used: tuple[Planned, ...] | None = None
) -> Callable[[np.random.Generator], Scene]:
    """A maker of small scenes around one party."""

    def make(rng: np.random.Generator) -> Scene:
        for _ in range(TRIES):
            count = int(rng.choice(rows))
            shards = tuple(
                _shard(plan, name, count, SCENE_COLUMNS, rng, own=name == party) for name in plan.party_names
            )
            try:
                seed = int(rng.integers(2**31))
                return Scene(with_rows(plan, count), shards, _labels(plan, count, rng), party, used, seed)
            except TacitError as error:
                reason = str(error)
        raise RunError(f"no small run of this plan could be made to audit: {reason}")

    return make


@dataclass(frozen=True)
class Watched:
    """A run on generated rows with labels that are fair coins, and all that was said in it."""

    result: RunResult
    shards: tuple[Shard, ...]
    labels: Vector
    inboxes: tuple[Arrays, ...]
    answers: dict[str, list[Arrays]]

    def shares(self, party: str) -> Vector:
        """The shares that a party sent, one column a round, or a word under masks; none where it sends no shares."""
        sent = [np.atleast_2d(arrays["share"]) for arrays in self.answers.get(party, []) if "share" in arrays]
        return np.vstack(sent).T if sent else np.zeros((self.labels.size, 0))


def watch(plan: Plan, rows: int, rng: np.random.Generator, *, repeatable: bool = False) -> Watched:
    """Run the plan on generated rows and write down what is said."""
    reason = ""
    for _ in range(TRIES):
        shards = tuple(_shard(plan, name, rows, WATCHED_COLUMNS, rng, own=True) for name in plan.party_names)
        labels = _labels(plan, rows, rng)
        try:
            seed = int(rng.integers(2**31)) if repeatable else None
            run = Run(_watched(plan, rows, seed), shards, labels)
            engine = Listening(run.engine)
            run.engine = engine  # type: ignore[assignment]
            result = run.go()
        except TacitError as error:
            reason = str(error)
            continue
        inboxes = tuple(plain(said) for said, _ in engine.exchanges if said.kind == "step")
        answers: dict[str, list[Arrays]] = {}
        for _, heard in engine.exchanges:
            for answer in heard:
                answers.setdefault(answer.sender, []).append(plain(answer))
        return Watched(result, shards, labels, inboxes, answers)
    raise RunError(f"no run of this plan on generated rows could be made to audit: {reason}")


def _watched(plan: Plan, rows: int, seed: int | None) -> Plan:
    """The plan for these rows, with few rounds where their number is free, and none of them left out."""
    small = with_rows(plan, rows)
    private = small.private
    if private is not None:
        few = min(private.rounds, WATCHED_ROUNDS) if private.algorithm is None else private.rounds
        private = replace(private, rounds=few, privacy=replace(private.privacy, noise_seed=seed))
    problem = replace(small.problem, tol=0.0)
    return replace(small, problem=problem, private=private, max_rounds=min(plan.max_rounds, WATCHED_ROUNDS))


def with_rows(plan: Plan, rows: int) -> Plan:
    """The plan for another number of rows, its noise and numbers as they were."""
    return replace(plan, problem=replace(plan.problem, rows=rows))


def row_norm(plan: Plan, party: str) -> float:
    """The public norm of a party's rows; 1 where there is none."""
    return 1.0 if plan.private is None else plan.private.privacy.norm_of(party)


def _shard(plan: Plan, name: str, rows: int, columns: int, rng: np.random.Generator, *, own: bool) -> Shard:
    """Rows of about the public norm, often to one side; of a party that is not attacked, often zeros."""
    features = rng.normal(size=(rows, columns)) * row_norm(plan, name)
    aside = rng.random() < 0.5
    if own and columns == SCENE_COLUMNS and aside:
        features = 0.2 * features + row_norm(plan, name) * rng.normal(size=columns)
    if not own and aside:
        features[:] = 0.0
    return Shard(name, features, tuple(f"{name}{number}" for number in range(columns)))


def _labels(plan: Plan, rows: int, rng: np.random.Generator) -> Vector:
    """Fair coins; one of each, so that there are two classes."""
    if plan.problem.loss.task == "counts":
        return rng.poisson(2.0, size=rows).astype(np.float64)
    if plan.problem.loss.task != "classification":
        return np.asarray(rng.normal(size=rows))
    labels = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    labels[:2] = (1.0, -1.0)
    return labels
