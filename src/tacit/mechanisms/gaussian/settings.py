"""Public numbers of the private method of the sample split: all of them from sizes and from what was asked.

| symbol | here | meaning |
|---|---|---|
| n, N, d | nodes, total, columns | nodes, rows of all nodes, columns |
| T | rounds | noisy releases of each node after the centre |
| b | CONSTANT | the constant beside a centred row |
| s | centre_noise | deviation of the noise in each entry of the mean row |
| nu | noise | deviation of the noise in each entry of the mean gradient, all rounds together |
| q | pull | strength with which a node's model is held near the others' |
| tau | tolerance | gradient norm that every local solve must reach |

The rule is q = T nu, and for the gradient form step = min(1/(nu T), 1.25/(lam c)), up to four times that along the
model itself, where c is the mean curvature of the loss over its slope (`bend`); proofs are in docs/proofs/graph.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.blocks.dense import ROWS_AT_ONCE
from tacit.mechanisms.gram.settings import rounding
from tacit.problem.losses.base import Loss

TOO_NOISY = 0.3  # norm of the noise in the mean row from which it is not worth its price
CONSTANT = 0.3
LEAST_SPREAD, MOST_SPREAD = 0.3, 1.0  # the mean squared distance of rows from the mean is taken to be between these
EXACT_ROUNDS = 25
LEAST_ROUNDS, MOST_ROUNDS = 60, 150  # of the gradient form
LONGEST_STEP = 1.25  # in units of 1 over the largest curvature of the mean loss: steps beyond 2 would not settle
HALF_BEND = 0.25  # mean curvature of the half loss: that of a row is min(p, 1 - p), between 0 and 1/2
ALONG = 3.0  # steps more along the model, where the noise is that of one number and not of all columns
WIDE = 1000  # columns from which the Gram matrix is left out
TOLERANCE = 1e-4  # gradient norm that a local solve may leave, in units of n/N
SOLVABLE = 4.0  # times the rounding of a gradient: what that norm is at least, so that every solve reaches it
MOST_ROUNDING = 0.1  # of a row's own part in a sensitivity: a plan in which rounding may add more is refused
UNIT = 2.0**-53
LARGEST_ROW = 4.0  # bound on the norm of a centred row with its constant: 2 / sqrt(0.3) + 0.3


@dataclass(frozen=True)
class GaussianSettings:
    """A whole run.

    Attributes
    ----------
    form : {"exact", "gradient"}
        Whether a node releases the minimiser of its own problem, or its gradient.
    masked : bool
        Whether only sums over the nodes can be read, so that all share one noise.
    loss : Loss
        What is summed over the rows; its derivative is at most `slope`.
    slope : float
    row_norm, label_norm : float
        Public units of rows and of labels that are numbers.
    total : float
        N.
    nodes, columns, rounds : int
        n, d and T.
    centred, with_gram : bool
        Whether rows are centred by a private mean; whether the Gram matrix comes with it, or its trace alone.
    centre_noise, noise, pull, tolerance : float
        s, nu, q and tau.
    ridge : float
        Weight of 1/2 ||coef||^2 for a model of the rows as they are given.
    """

    form: str
    masked: bool
    loss: Loss
    slope: float
    row_norm: float
    label_norm: float
    total: float
    nodes: int
    columns: int
    rounds: int
    centred: bool
    with_gram: bool
    centre_noise: float
    noise: float
    pull: float
    tolerance: float
    ridge: float

    @property
    def scale(self) -> float:
        """Weight of a node's sum of losses, such that the nodes' mean is the mean over all rows."""
        return self.nodes / self.total

    @property
    def longest_step(self) -> float:
        """Of the gradient form, in units of 1/lam."""
        return LONGEST_STEP / bend(self.loss, self.slope)

    @property
    def score_unit(self) -> float:
        """What a score of 1 is: one unit of the labels, or where scores are logarithms 1."""
        return self.label_norm if self.loss.task == "regression" else 1.0

    @property
    def score_shift(self) -> float:
        """What is added to a score: the logarithm of the unit of counts."""
        return math.log(self.label_norm) if self.loss.task == "counts" else 0.0

    @property
    def outputs(self) -> int:
        """Scores of a row: 1, or one for each of more than two classes."""
        return self.loss.outputs

    @property
    def size(self) -> int:
        """Numbers of a model in the coordinates of the method."""
        return (self.columns + 1) * self.outputs

    @property
    def free(self) -> int:
        """Numbers of a model that predictions depend on: of several classes one is given by the others."""
        return (self.columns + 1) * max(1, self.outputs - 1)

    @property
    def reach(self) -> float:
        """Largest norm of what a node starts a round from: beyond it is noise alone, and it is scaled down."""
        return 1000.0 + 100.0 * math.sqrt(self.nodes * self.size)

    @property
    def centre_size(self) -> int:
        """Numbers in the release of the centre."""
        d = self.columns
        return d + (d * (d + 1) // 2 if self.with_gram else 1)


def exact_rounds(most: int) -> int:
    """T of the exact form."""
    return min(EXACT_ROUNDS, most)


def bend(loss: Loss, slope: float) -> float:
    """Mean curvature of a loss over its slope; of any but the half loss the largest, as all rows may be where it is."""
    return HALF_BEND if loss.task == "classification" and loss.outputs == 1 else loss.curvature / slope


def gradient_rounds(noise: float, most: int, bent: float) -> int:
    """T of the gradient form: enough for steps that are stable whatever the rows are."""
    return min(most, max(LEAST_ROUNDS, min(MOST_ROUNDS, math.ceil(bent / (LONGEST_STEP * noise)))))


def gradients_fit(noise: float, columns: int, most: int) -> bool:
    """Whether gradients of two classes end in the rounds that are allowed, and have a Gram matrix for their steps."""
    return columns <= WIDE and gradient_rounds(noise, MOST_ROUNDS, HALF_BEND) <= most


def averaged_noise(mus: Sequence[float], total: float) -> float:
    """Deviation of the noise in a mean over all rows of vectors of norm 1, when node i spends mus[i] on it."""
    return 2.0 * math.sqrt(math.fsum(mu**-2 for mu in mus)) / total


def sum_rounding(rows: int) -> float:
    """Relative growth of the sensitivity of a plain sum over the rows by rounding (graph.md, section 7)."""
    return rounding(rows, ROWS_AT_ONCE)


def farthest(settings: GaussianSettings, rows: int) -> float:
    """Bound on the norm of the minimiser of a node's own problem, and of every point that is near enough to it."""
    return settings.reach + (rows + 1.0) * settings.scale / settings.pull


def gradient_rounding(settings: GaussianSettings, rows: int) -> float:
    """Bound on the norm of the rounding error of a sum of `rows` gradients of norm 1 at most (graph.md, section 7)."""
    far = farthest(settings, rows) if settings.form == "exact" else settings.reach
    bent = settings.loss.curvature / settings.slope
    scores = 4.0 * (settings.columns + 32) * UNIT * LARGEST_ROW * far * bent
    return rows * (scores + 32.0 * settings.outputs * UNIT) + sum_rounding(rows)


def solve_rounding(settings: GaussianSettings, rows: int) -> float:
    """Bound on the norm of the rounding error of the gradient of a node's own problem."""
    far = farthest(settings, rows)
    held = (settings.pull + settings.ridge / (settings.row_norm**2 * LEAST_SPREAD)) * 16.0 * UNIT * 2.0 * far
    return settings.scale * gradient_rounding(settings, rows) * (1 + 1e-9) + held


def model_sensitivity(settings: GaussianSettings, rows: int) -> float:
    """Delta: how far one row can move the model that a node releases."""
    left = settings.tolerance + solve_rounding(settings, rows)
    return (2.0 * settings.scale + 2.0 * left) / settings.pull * (1 + 1e-14)


def gradient_sensitivity(settings: GaussianSettings, rows: int) -> float:
    """How far one row can move the gradient that a node releases."""
    return 2.0 * (1.0 + gradient_rounding(settings, rows)) * (1 + 1e-14)
