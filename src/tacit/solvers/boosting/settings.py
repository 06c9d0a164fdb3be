"""What a run of boosted trees is told, all of it public; and which rows are held out."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError
from tacit.problem.losses.modified import flip_of
from tacit.solvers.boosting.losses import TreeLoss

LEAST_ROWS = 2
RAMP = (10, 20, 30)  # trees of the first rounds; the last number goes on
MOST_GROWTH = 4  # times as many at most, of a party whose blocks are kept whole
WHOLE = 0.999  # a step from which on a block was kept whole
CALM_EPSILON = 1.0  # of labels: up to it randomized ones are so noisy that trees are kept small


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown and added up.

    Attributes
    ----------
    loss : TreeLoss
    learning_rate : float
    max_leaf_nodes : int
    max_depth : int or None
    min_samples_leaf : int or None
        None takes a fiftieth of the fitted rows, at least 5 and at most 40.
    l2_regularization : float
    max_bins : int
        Most different values of a number that a split can tell apart.
    trees : tuple of int
        Trees of each party in the first, second, ... round; the last number is that of all further ones, and where
        several parties are asked twice to four times as many for one whose blocks of this size are kept whole.
    validation_fraction : float
        The part of the rows that no tree is fitted on: steps are chosen on them. With 0 they are chosen on all rows.
    early_stopping : bool
        Whether a run ends when the held-out loss no longer falls.
    tol : float
        It falls, where it falls by more than this part of the loss of a constant.
    n_iter_no_change : int
        Rounds in which it may not fall before the run ends.
    min_gain_se : float
        A party adds nothing until its gain on held-out rows once exceeded so many standard errors.
    threads : int
        Of each party; the trees do not depend on it.
    parties : tuple of str
        The parties that are asked, in the order of the steps; a plan fills it in.
    common_step : bool
        Whether all asked parties get the same step, for which the sum of their answers is enough; a plan with masks
        asks for it.
    """

    loss: TreeLoss
    learning_rate: float = 0.08
    max_leaf_nodes: int = 15
    max_depth: int | None = None
    min_samples_leaf: int | None = None
    l2_regularization: float = 5.0
    max_bins: int = 255
    trees: tuple[int, ...] = RAMP
    validation_fraction: float = 0.15
    early_stopping: bool = True
    tol: float = 3e-4
    n_iter_no_change: int = 3
    min_gain_se: float = 0.0
    threads: int = 1
    parties: tuple[str, ...] = ()
    common_step: bool = False

    def check(self) -> None:
        """Refuse a value of the wrong kind.

        Raises
        ------
        InputError
            With one line that names the value and the way out.
        """
        _check_real("learning_rate", self.learning_rate, 0.0, 1.0, above=True)
        _check_real("l2_regularization", self.l2_regularization, 0.0, math.inf)
        _check_real("validation_fraction", self.validation_fraction, 0.0, 0.9)
        _check_real("tol", self.tol, 0.0, math.inf)
        _check_real("min_gain_se", self.min_gain_se, 0.0, math.inf)
        _check_whole("max_leaf_nodes", self.max_leaf_nodes, 2, 131_072)
        _check_whole("max_bins", self.max_bins, 2, 65_535)
        _check_whole("n_iter_no_change", self.n_iter_no_change, 1, 10**6)
        _check_whole("threads", self.threads, 1, 1024)
        if self.max_depth is not None:
            _check_whole("max_depth", self.max_depth, 1, 10**6)
        if self.min_samples_leaf is not None:
            _check_whole("min_samples_leaf", self.min_samples_leaf, 1, 10**9)
        if not isinstance(self.trees, tuple) or not self.trees:
            raise InputError(f"trees={self.trees!r} is not allowed: give numbers of trees, such as {RAMP}")
        for count in self.trees:
            _check_whole("trees", count, 1, 100_000)

    def trees_of(self, round_: int) -> int:
        """Trees that each party grows in a round; rounds count from 1."""
        return self.trees[min(round_, len(self.trees)) - 1]

    def growth_after(self, growth: int, trees: int, step: float) -> int:
        """How many times the usual trees a party grows next, after a round of so many trees and this step.

        A step of 1 is the largest one: more of the same would be kept. A step below tells that the block was too large.
        Where several parties are asked at the same time, some have such steps for many rounds while others are done.
        """
        whole = trees >= self.trees[-1] and step >= WHOLE
        return min(2 * growth, MOST_GROWTH) if whole and self.grows else 1

    @property
    def grows(self) -> bool:
        """Whether blocks may grow: where more than one party is asked."""
        return len(self.parties) > 1

    def least_leaf(self, fitted: int) -> int:
        """Fewest rows of a leaf."""
        return int(np.clip(fitted // 50, 5, 40)) if self.min_samples_leaf is None else self.min_samples_leaf

    def record(self) -> dict[str, Any]:
        """The settings as plain values, without threads, on which no tree depends, and what the plan says itself."""
        apart = ("loss", "threads", "parties", "trees", "common_step")
        names = [name for name in self.__dataclass_fields__ if name not in apart]
        own = {name: getattr(self, name) for name in names}
        return {"loss": self.loss.record(), **own, "trees": list(self.trees)}


def for_labels(settings: TreeSettings, label_epsilon: float | None, rows: int) -> TreeSettings:
    """The settings for labels that were randomized: their likelihood as the loss, and calmer trees for a small epsilon.

    How calm was chosen on training rows of one census.
    """
    if label_epsilon is None:
        return settings
    changed = replace(settings, loss=settings.loss.of_randomized(flip_of(label_epsilon)))
    if label_epsilon > CALM_EPSILON:
        return changed
    return replace(
        changed,
        max_leaf_nodes=min(settings.max_leaf_nodes, 8),
        min_samples_leaf=max(settings.least_leaf(rows), min(rows // 100, 200)),
        l2_regularization=max(settings.l2_regularization, 20.0),
    )


def held_out(rows: int, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are held out: the same at every party, from the number of rows and the seed alone.

    Rows are ordered by a hash of their place and the seed (splitmix64), and the first ones are held out.
    """
    count = min(round(fraction * rows), rows - 1) if fraction else 0
    chosen = np.zeros(rows, dtype=np.bool_)
    mixed = np.arange(rows, dtype=np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    with np.errstate(over="ignore"):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    chosen[np.argsort(mixed, kind="stable")[:count]] = True
    return chosen


def _check_real(name: str, value: Any, least: float, most: float, *, above: bool = False) -> None:
    ok = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(float(value))
    if not ok or not least <= value <= most or (above and value == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        end = "" if most == math.inf else f" and at most {most:g}"
        raise InputError(f"{name}={value!r} is not allowed: it must be a finite number {bound}{end}")


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise InputError(f"{name}={value!r} is not allowed: it must be a whole number from {least} to {most}")
