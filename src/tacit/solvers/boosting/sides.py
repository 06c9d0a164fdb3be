"""The two sides of boosted trees: a party that is asked, and the label holder, which grows trees of its own first.

| letter | here | |
|---|---|---|
| b | constant | best margin that looks at no column |
| z | margin | joint margin of every row |
| d_m | added | what party m's new trees add to every row |
| w_m | steps | how much of d_m is kept, in [0, 1] |

In a round the label holder grows a block on its own columns, chooses its step, and sends z of the fitted rows; all
others grow a block at that z and answer with d_m; the label holder chooses their steps together. Steps are chosen on
held-out rows, whose labels are never sent, and halved until the loss on fitted rows does not rise. So both losses fall
with every round, or stay. Where answers travel under masks, the sum of all d_m is read, and gets one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.columns.raw import RawTable
from tacit.errors import InputError, RunError
from tacit.solvers.base import Problem, Progress
from tacit.solvers.boosting.interactions import InteractionTest, interactions_across
from tacit.solvers.boosting.learner import TreeLearner
from tacit.solvers.boosting.losses import TreeLoss
from tacit.solvers.boosting.settings import TreeSettings, held_out
from tacit.solvers.boosting.steps import choose_steps, guard
from tacit.types import Arrays, Vector

LARGEST_SLOPE = 1e15  # LightGBM keeps gains, sums of squares of slopes, in single precision
MODEL = "model"
GROWTH = "growth"
TOGETHER = "all others together"  # who adds the sum, where answers are not read one by one


def settings_of(problem: Problem) -> TreeSettings:
    """What a run of trees is told."""
    assert isinstance(problem.trees, TreeSettings), "the plan of a run of trees has their settings"
    return problem.trees


def _learner(problem: Problem, table: RawTable) -> TreeLearner:
    settings = settings_of(problem)
    held = held_out(problem.rows, settings.validation_fraction, problem.seed)
    return TreeLearner(table, held, settings, problem.seed, problem.row_weights)


def in_single(values: Vector) -> Vector:
    """Values as they travel: of single precision, in float64."""
    return values.astype(np.float32).astype(np.float64)


class GrowingLearner:
    """A party's trees and how many it grows at once: more, where the last block was kept whole."""

    def __init__(self, problem: Problem, table: RawTable) -> None:
        self.settings, self.learner = settings_of(problem), _learner(problem, table)
        self.growth, self.trees = 1, 0

    def grow(self, margin: Vector, labels: Vector, trees: int) -> Vector:
        """Grow a block in a round of so many trees; return what it adds to every row."""
        self.trees = trees
        return self.learner.grow(margin, labels, trees * self.growth)

    def settle(self, step: float) -> None:
        """Keep the last block with this step, or drop it where the step is 0."""
        self.learner.settle(step)
        self.growth = self.settings.growth_after(self.growth, self.trees, step)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {**self.learner.state(), GROWTH: np.array([float(self.growth), float(self.trees)])}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.learner.restore(state)
        self.growth, self.trees = (int(number) for number in state[GROWTH])


# --- a party that is asked ----------------------------------------------------------------------------


class TreeParty:
    """Grows trees at the margin it is sent; all that it gives out is what they add to each row."""

    def __init__(self, problem: Problem, table: RawTable, shared: Any = None) -> None:
        settings = settings_of(problem)
        self.name = table.party
        self.place = settings.parties.index(table.party)
        self.count = len(settings.parties)
        self.loss = settings.loss
        self.growing = GrowingLearner(problem, table)
        self.learner = self.growing.learner
        self.labels: Vector | None = None
        self.constant = np.zeros(self.loss.outputs)

    @property
    def coef(self) -> Vector:
        """None: trees have no coefficients."""
        return np.zeros(0)

    def start_at(self, coef: Vector) -> Arrays:
        """Trees have no warm start."""
        raise RunError("boosted trees cannot start from given coefficients")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Settle the last block, grow the next one, and say what it adds to each row."""
        if "labels" in inbox:
            self._begin(inbox)
        if self.labels is None:
            raise RunError(f"party {self.name!r}: no labels came with the first message")
        self._settle(inbox)
        margin = self._numbers(inbox, "margin", self._shape(len(self.learner.fitted)))
        trees = self._numbers(inbox, "trees", (1,))
        if not 1 <= trees[0] <= 100_000 or trees[0] != int(trees[0]):
            raise RunError(f"party {self.name!r}: it was asked for {trees[0]:g} trees")
        start = margin + (self.constant if self.loss.outputs > 1 else self.constant[0])
        if too_steep(self.loss, start, self.labels):
            raise RunError(f"party {self.name!r}: the labels and margins that came are too large for trees")
        return {"added": self.growing.grow(start, self.labels, int(trees[0]))}

    def _begin(self, inbox: Arrays) -> None:
        self.labels = self._numbers(inbox, "labels", (len(self.learner.fitted),))
        self.constant = self._numbers(inbox, "constant", (self.loss.outputs,))
        try:
            self.loss.check_labels(self.labels)
        except InputError as error:
            raise RunError(f"party {self.name!r}: the labels that came do not fit: {error}") from error

    def _settle(self, inbox: Arrays) -> None:
        if self.learner.pending is None:
            return
        steps = self._numbers(inbox, "steps", (self.count,))
        if not 0 <= steps[self.place] <= 1:
            raise RunError(f"party {self.name!r}: its step {steps[self.place]:g} is not between 0 and 1")
        self.growing.settle(float(steps[self.place]))

    def _shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.loss.outputs == 1 else (rows, self.loss.outputs)

    def _numbers(self, inbox: Arrays, name: str, shape: tuple[int, ...]) -> Vector:
        return checked(inbox, name, shape, self.name)

    def finish(self, inbox: Arrays) -> None:
        """Settle the last block."""
        self._settle(inbox)

    def part(self, scale: float) -> dict[str, Any]:
        """The party's part of the model."""
        return {MODEL: self.learner.model}

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        labels = {} if self.labels is None else {"labels": self.labels}
        return {**self.growing.state(), **labels, "constant": self.constant}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.growing.restore(state)
        self.labels, self.constant = state.get("labels"), state["constant"]


def too_steep(loss: TreeLoss, z: Vector, labels: Vector) -> bool:
    """Whether slopes are beyond what LightGBM can add up."""
    return not all(np.isfinite(one).all() and np.abs(one).max() < LARGEST_SLOPE for one in loss.slopes(z, labels))


def checked(arrays: Arrays, name: str, shape: tuple[int, ...], party: str) -> Vector:
    """Numbers that came with a message: there, finite, and as many as there must be."""
    found = arrays.get(name)
    if found is None or np.shape(found) != shape or not np.isfinite(found).all():
        raise RunError(f"party {party!r}: {name} in a message is missing, or has not {shape} finite numbers")
    return np.asarray(found, dtype=np.float64)


# --- the label holder ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoostingHistory:
    """How a run of trees went, as the label holder knows it.

    Attributes
    ----------
    parties : tuple of str
        The label holder first.
    fitted, held_out : tuple of float
        Mean loss on the fitted and on the held-out rows: of the constant, and after each round.
    steps : tuple of tuple of float
        For each round the step of each party.
    interaction : InteractionTest
        What trees across parties would bring; tested when the run ends.
    """

    parties: tuple[str, ...]
    fitted: tuple[float, ...]
    held_out: tuple[float, ...]
    steps: tuple[tuple[float, ...], ...]
    interaction: InteractionTest


class TreeHolder:
    """Holds the labels and columns of its own, and decides how much of each party's trees is kept."""

    def __init__(self, problem: Problem, labels: Vector, table: RawTable) -> None:
        self.settings, self.seed, self.table = settings_of(problem), problem.seed, table
        self.loss: TreeLoss = self.settings.loss
        self.name, self.others = table.party, self.settings.parties
        self.loss.check_labels(labels)
        self.growing = GrowingLearner(problem, table)
        self.learner = self.growing.learner
        self.labels, self.fitted = labels, self.learner.fitted
        self.judge = self.learner.held if self.learner.held.size else self.fitted
        self.weights = problem.row_weights
        self.round = 0
        self.constant = self.loss.constant(labels[self.fitted], self._weights_of(self.fitted))
        shape = (len(labels),) if self.loss.outputs == 1 else (len(labels), self.loss.outputs)
        self.z: Vector = np.zeros(shape) + self.constant
        self._check_size()
        self.losses = [self._losses()]
        self.steps: list[list[float]] = []
        self.best, self.waited = self.losses[0][1], 0
        self.entered: set[str] = set()
        self.read = (TOGETHER,) if self.settings.common_step and self.others else self.others
        self.scores = {name: np.zeros(shape) for name in self.read}  # what each adds to every row, so far
        self.interaction = InteractionTest()
        self.sent: Arrays | None = None

    def _check_size(self) -> None:
        if too_steep(self.loss, self.z, self.labels):
            raise InputError("y has values that are too large for single precision: divide the labels by their size")

    def _weights_of(self, rows: Any) -> Vector | None:
        return None if self.weights is None else self.weights[rows]

    def _losses(self) -> tuple[float, float]:
        """Mean loss on the fitted rows, and on those that steps are chosen on."""
        parts = (self.fitted, self.judge)
        fitted, judged = (self.loss.mean(self.z[rows], self.labels[rows], self._weights_of(rows)) for rows in parts)
        return fitted, judged

    # --- a round --------------------------------------------------------------------------------------

    def broadcast(self) -> Arrays:
        """The margin of the fitted rows after a block of its own; with the first one also their labels."""
        if self.sent is None:
            self.round += 1
            first = {"labels": self.labels[self.fitted], "constant": self.constant} if self.round == 1 else {}
            last = {"steps": np.array(self.steps[-1][1:])} if self.steps else {}
            trees = self.settings.trees_of(self.round)
            self._own_block(trees)
            margin = in_single((self.z - self.constant)[self.fitted])
            self.sent = {**first, **last, "margin": margin, "trees": np.array([float(trees)])}
        return self.sent

    def _own_block(self, trees: int) -> None:
        margin = self.constant + in_single((self.z - self.constant)[self.fitted])
        added = self.growing.grow(margin, self.labels[self.fitted], trees)
        step = self._add([self.name], added[None])[0]
        self.growing.settle(step)
        self.steps.append([step])

    def gather(self, answers: Mapping[str, Arrays]) -> Progress:
        """Choose the steps of the others' blocks, together."""
        added = [checked(answers[name], "added", self.z.shape, name) for name in self.others]
        return self._advance([np.sum(added, axis=0)] if self.settings.common_step and added else added)

    def combine(self, total: Arrays) -> Progress:
        """Choose one step for the sum of the others' blocks."""
        return self._advance([checked(total, "added", self.z.shape, TOGETHER)])

    def _advance(self, added: list[Vector]) -> Progress:
        """Move on by what was read of the others."""
        if added:
            steps = self._add(list(self.read), np.array(added))
            self.steps[-1] += steps if self.read == self.others else steps * len(self.others)
            for name, step, own in zip(self.read, steps, added, strict=True):
                self.scores[name] += step * own
        self.sent = None
        self.losses.append(self._losses())
        return self._progress()

    def _add(self, names: list[str], added: Vector) -> list[float]:
        """Move the margin along what these parties add, and return how far."""
        judge, fitted = self.judge, self.fitted
        sure = [0.0 if name in self.entered else self.settings.min_gain_se for name in names]
        rows = (self.loss, self.z[judge], self.labels[judge], added[:, judge])
        w = choose_steps(*rows, sure, self._weights_of(judge))
        w = guard(self.loss, self.z[fitted], self.labels[fitted], added[:, fitted], w, self._weights_of(fitted))
        if w.any():
            self.z = self.z + np.tensordot(w, added, 1)
        self.entered |= {name for name, step in zip(names, w, strict=True) if step > 0}
        return [float(step) for step in w]

    def _progress(self) -> Progress:
        fitted, judged = self.losses[-1]
        if judged < self.best - self.settings.tol * abs(self.losses[0][1]):
            self.best, self.waited = judged, 0
        else:
            self.waited += 1
        still = not any(self.steps[-1])
        done = still or (self.settings.early_stopping and self.waited >= self.settings.n_iter_no_change)
        return Progress(objective=fitted, done=done)

    # --- the end --------------------------------------------------------------------------------------

    def closing(self) -> Arrays:
        """The steps of the last blocks; and here, without a message, the test for interactions across parties."""
        held = np.zeros(len(self.labels), dtype=np.bool_)
        held[self.learner.held] = True
        self.interaction = interactions_across(
            self.settings, self.table, self.scores, self.z, self.labels, held, self.weights, self.seed
        )
        return {"steps": np.array(self.steps[-1][1:])} if self.steps else {}

    @property
    def intercept(self) -> Any:
        """The constant of the joint scores: a number, or one for each class."""
        return self.constant if self.loss.outputs > 1 else float(self.constant[0])

    def parts(self) -> dict[str, dict[str, Any]]:
        """The label holder's own part of the model; the others make theirs."""
        return {self.name: {MODEL: self.learner.model}}

    @property
    def history(self) -> BoostingHistory:
        """How the run went."""
        fitted, held = zip(*self.losses, strict=True)
        return BoostingHistory((self.name, *self.others), fitted, held, tuple(map(tuple, self.steps)), self.interaction)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on, after a whole round."""
        return {
            **self.growing.state(),
            "margin": self.z,
            "losses": np.array(self.losses),
            "steps": np.array(self.steps),
            "numbers": np.array([self.round, self.best, self.waited]),
            "entered": np.array([float(name in self.entered) for name in (self.name, *self.read)]),
            **{f"score.{place}": self.scores[name] for place, name in enumerate(self.read)},
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.growing.restore(state)
        self.z = state["margin"]
        self.losses = [(float(fitted), float(held)) for fitted, held in state["losses"]]
        self.steps = [list(map(float, row)) for row in state["steps"]]
        self.round, self.best, self.waited = (
            int(state["numbers"][0]),
            float(state["numbers"][1]),
            int(state["numbers"][2]),
        )
        names = (self.name, *self.read)
        self.entered = {name for name, there in zip(names, state["entered"], strict=True) if there}
        self.scores = {name: state[f"score.{place}"].copy() for place, name in enumerate(self.read)}
        self.sent = None
