"""Outcomes of the pieces as the figures, tables and claims look at them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.errors import InputError
from tacit.types import Vector
from tacit_papers.design.tradeoff import LossCurve, PrivacyUtility, fit_loss_curve
from tacit_papers.dynamic.pieces import changed_name
from tacit_papers.dynamic.settings import ALPHAS, ETAS
from tacit_papers.work import Outcome, Results

MISSING = "missing"  # what the runner writes where data are not at hand
PRINTED = {"dvp": (0.2, 25.0), "pvp": (20.0, 20.0)}  # c4 and c5
UTILITY = PrivacyUtility()  # omegas as printed
NEAR, FAR = 5e-3, 2.0  # where a minimum of the balance is looked for


@dataclass(frozen=True)
class Readings:
    """Results by what they say. Losses are mean losses: the paper's divided by C^R."""

    results: Results

    @cached_property
    def missing(self) -> str:
        """Why there are no data; empty where there are."""
        return next((str(one[MISSING]) for one in self.results.values() if MISSING in one), "")

    @property
    def iterations(self) -> int:
        """Iterations before the stop time."""
        return len(self.curve("run/none"))

    def curve(self, name: str, what: str = "loss") -> Vector:
        """By iteration, in the mean over the seeds; what: "loss" of f_p, or "released" for what neighbours see."""
        return np.asarray(np.mean([seed[what] for seed in self.results[name]["seeds"]], axis=0))

    def variance(self, name: str) -> float:
        """Of the loss over the last four fifths of the iterations, in the mean over the seeds."""
        begin = self.iterations // 5
        return float(np.mean([np.var(seed["loss"][begin:]) for seed in self.results[name]["seeds"]]))

    def value(self, name: str, when: str, what: str = "loss") -> float:
        """At the "last" iteration or of the "final" output; what: "loss", "error" or "error_of_mean"."""
        return float(np.mean([seed[when][what] for seed in self.results[name]["seeds"]]))

    def values(self, name: str, when: str, what: str = "loss", alphas: tuple[float, ...] = ALPHAS) -> list[float]:
        """The same for several alphas."""
        return [self.value(f"run/{name}/{alpha}", when, what) for alpha in alphas]

    def changed(self, label: str, name: str) -> float:
        """Loss at the last iteration with one parameter changed."""
        return self.value(changed_name(label, name), "last")

    def by_eta(self, name: str, what: str = "loss") -> dict[float, float]:
        """By eta, at alpha 0.3 and the last iteration: "loss" or "error"; or the "variance" of the loss."""
        names = {eta: changed_name(f"eta/{eta:g}", name) for eta in ETAS}
        if what == "variance":
            return {eta: self.variance(one) for eta, one in names.items()}
        return {eta: self.value(one, "last", what) for eta, one in names.items()}

    def points(self, name: str, iteration: int) -> list[float]:
        """Loss at an iteration, for all alphas."""
        return [float(self.curve(f"run/{name}/{alpha}")[iteration - 1]) for alpha in ALPHAS]

    def fit(self, name: str, iteration: int, least: float = 0.0) -> LossCurve | None:
        """The fitted loss by alpha, for those of at least `least`; None where losses do not fall with alpha."""
        pairs = [pair for pair in zip(ALPHAS, self.points(name, iteration), strict=True) if pair[0] >= least]
        try:
            return fit_loss_curve([alpha for alpha, _ in pairs], [loss for _, loss in pairs])
        except InputError:
            return None

    def outcome(self, name: str) -> Outcome:
        """As it is."""
        return self.results[name]


def printed_curve(name: str, floor: float) -> LossCurve:
    """The paper's c4 and c5 above a floor of ours."""
    height, rate = PRINTED[name]
    return LossCurve(height, rate, floor)


def balance(curve: LossCurve, alpha: float) -> float:
    """L_acc - U_priv of equation (28)."""
    return curve(alpha) - UTILITY(alpha)


def inner_minimum(curve: LossCurve) -> float | None:
    """The alpha above NEAR at which the balance has its least local minimum; None where it has none."""
    grid = np.geomspace(NEAR, FAR, 4001)
    values = np.array([balance(curve, float(alpha)) for alpha in grid])
    inside = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] <= values[2:])) + 1
    return float(grid[inside[np.argmin(values[inside])]]) if inside.size else None


def undercut(curve: LossCurve) -> float | None:
    """log10 of an alpha from which down the balance is below its minimum inside; None where there is no such minimum.

    L_acc <= c4 + c6, and U_priv >= w1 ln(w2/(w3 alpha)) - w1 w4 alpha/w3: with the logarithm there always is one.
    """
    inside = inner_minimum(curve)
    if inside is None:
        return None
    room = curve.height + curve.floor - balance(curve, inside)
    log = -room / UTILITY.scale - math.log(UTILITY.linear / UTILITY.top) - UTILITY.square / UTILITY.linear
    return log / math.log(10)
