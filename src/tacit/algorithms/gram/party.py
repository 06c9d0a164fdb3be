"""A protected party: it answers what the label holder sent with the outcome of its private fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.algorithms.base import Problem, Release
from tacit.algorithms.block import Block
from tacit.algorithms.gram.check import row_changes
from tacit.algorithms.gram.fit import CHECK, LEAST_WEIGHT, PrivateFit, private_fit, side_columns
from tacit.algorithms.gram.settings import FitSettings, GramSettings, Response
from tacit.algorithms.gram.targets import (
    Bits,
    Half,
    Levels,
    Margin,
    Randomized,
    Residual,
    Symbols,
    Target,
)
from tacit.algorithms.inbox import LARGEST, Inbox
from tacit.algorithms.rows import RowClip
from tacit.errors import RunError
from tacit.types import Arrays, Vector

SHARE_CLIP = 1.5  # a score is clipped at this many times its released root mean square before it becomes a bit
BITS = "bits"
ASKED = ("offset", "labels")  # what a second exchange needs of the first one


class GramParty:
    """Fits once; all that it gives out is private."""

    def __init__(self, problem: Problem, block: Block, settings: GramSettings, release: Release) -> None:
        self.problem, self.block, self.settings, self.release = problem, block, settings, release
        self.own: FitSettings = settings.fits[release.owner]
        self.fit: PrivateFit | None = None
        self.inbox: Arrays = {}

    @property
    def coef(self) -> Vector:
        """The private coefficients, before damping."""
        return np.zeros(self.block.d) if self.fit is None else self.fit.coef

    def start_at(self, coef: Vector) -> Arrays:
        """A private run has no warm start: one would depend on the data."""
        raise RunError("a private run cannot start from given coefficients")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """The private fit; or, in a second exchange, one randomized bit for each row."""
        if self.fit is not None:
            return self._second(self.fit, inbox)
        target = self._target(inbox)
        self.inbox = {name: inbox[name] for name in ASKED if name in inbox}  # as they were checked, and nothing else
        excess = self._excess(target)
        ridge = self.problem.rows * self.settings.alpha
        self.fit = private_fit(self.block, target, self.own, self.release, ridge=ridge, excess=excess)
        return fit_to_arrays(self.fit)

    def _target(self, inbox: Arrays) -> Target:
        """What was sent, as something to fit; the bounds hold for whatever passes the checks of `Inbox`."""
        sent, rows, response = Inbox(inbox, self.release.owner), self.block.n, self.settings.response
        if response is not None:
            levels = Levels(sent.numbers("cuts", response.levels - 1), sent.numbers("middles", max(2, response.levels)))
            if response.levels == 1:
                return Bits(sent.choices("symbols", rows, (-1.0, 1.0)), response, levels)
            return Symbols(sent.choices("symbols", rows, range(response.symbols)), response, levels)
        offset = sent.numbers("offset", rows)
        if self.settings.target == "residual":
            return Residual(offset, sent.numbers("labels", rows), self.own.slope)
        labels = sent.choices("labels", rows, (-1.0, 1.0))
        if self.settings.target == "half":
            return Half(offset, labels)
        if self.settings.target == "logistic":
            return Randomized(offset, labels, flip_of(self.settings.label_epsilon))
        return Margin(offset, labels, self.settings.seen_loss)

    def _excess(self, target: Target) -> float:
        """How much more a derivative varies than its curvature says."""
        if isinstance(target, Bits | Symbols):
            slopes = target.slope(np.zeros(self.block.n))
            return max(1.0, float(np.mean(slopes**2)) / max(float(np.mean(target.weight)), LEAST_WEIGHT))
        return 1.0 / (1 - 2 * flip_of(self.settings.label_epsilon)) ** 2  # exactly so at the best weights

    def _second(self, fit: PrivateFit, inbox: Arrays) -> Arrays:
        """What follows the fit: bits for a refit, or how the fit changes the loss."""
        if self.settings.refit is not None:
            return {BITS: self._bits(fit, self.settings.refit)}
        kept = Inbox(self.inbox, self.release.owner)
        offset, labels = (kept.numbers(name, self.block.n) for name in ASKED)
        side = side_columns(offset, bent=self.own.bent)
        base = offset + side @ Inbox(inbox, self.release.owner).numbers("side", side.shape[1])
        scores = self.settings.damping * fit.clip.apply(self.block).predict(fit.coef)
        changes = row_changes(base, scores, labels, self.own.check_clip, flip_of(self.settings.label_epsilon))
        return {CHECK: self.release.add(CHECK, [float(changes.sum())])}

    def _bits(self, fit: PrivateFit, refit: Response) -> Vector:
        """The sign of each row's score, rounded at random so that it is unbiased, then randomized."""
        scores = fit.clip.apply(self.block).predict(fit.coef)
        likely = 0.5 * (1 + np.clip(scores / share_clip(fit), -1.0, 1.0))
        bits = self.release.respond(BITS, (self.release.uniform(scores.size) < likely).astype(np.int64))
        return bits.astype(np.float64)

    def part(self, scale: float) -> dict[str, Any]:
        """The party's part of the model from its own fit: coef, offset, clip.

        `scale` is the size of residuals in a regression, which the label holder found. It is the only number of the
        part that another party sets, and it is 1 for all other targets.
        """
        allowed = 0 < scale <= LARGEST if self.settings.target == "residual" else scale == 1.0
        if self.fit is None or not allowed:
            raise RunError(f"party {self.release.owner!r}: there is no part of the model with scale {scale:g}")
        return part_of(self.fit, self.settings.damping * scale)

    def finish(self, inbox: Arrays) -> None:
        """Nothing is left to do."""

    def state(self) -> Arrays:
        """The fit and what it answered, where there is one."""
        if self.fit is None:
            return {}
        return {**fit_to_arrays(self.fit), **{f"inbox.{name}": array for name, array in self.inbox.items()}}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.fit = fit_from_arrays(state, self.own.row_norm) if "coef" in state else None
        self.inbox = {name: state[f"inbox.{name}"] for name in ASKED if f"inbox.{name}" in state}


def part_of(fit: PrivateFit, scale: float) -> dict[str, Any]:
    """A part of the model from a private fit: coef, offset, clip."""
    assert fit.clip.centre is not None
    coef = scale * fit.coef
    return {"coef": coef, "offset": float(fit.clip.centre @ coef), "clip": fit.clip}


def flip_of(label_epsilon: float | None) -> float:
    """Probability with which a label was flipped."""
    return 0.0 if label_epsilon is None else 1 / (1 + math.exp(min(label_epsilon, 700.0)))


def share_clip(fit: PrivateFit) -> float:
    """Where a score is clipped before it becomes a bit: a function of released values."""
    return SHARE_CLIP * math.sqrt(max(fit.spread, 1e-4))


def fit_to_arrays(fit: PrivateFit) -> Arrays:
    """A private fit as it travels."""
    assert fit.clip.centre is not None
    return {
        "coef": fit.coef,
        "centre": fit.clip.centre,
        "side": fit.side,
        "numbers": np.array([fit.clip.radius, fit.spread, fit.freedom]),
    }


def fit_from_arrays(arrays: Arrays, row_norm: float) -> PrivateFit:
    """The private fit that travelled."""
    radius, spread, freedom = (float(value) for value in arrays["numbers"])
    if not radius > 0 or arrays["coef"].shape != arrays["centre"].shape:
        raise RunError("the outcome of a private fit is damaged: its radius or its sizes are wrong")
    return PrivateFit(RowClip(row_norm, arrays["centre"], radius), arrays["coef"], arrays["side"], spread, freedom)
