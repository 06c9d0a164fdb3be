r"""Rows that the methods dual and primal need for a given accuracy, up to constants that their paper does not name.

T. Zhang and Q. Zhu, "Dynamic differential privacy for ADMM-based distributed classification learning", IEEE TIFS 12
(2017), section IV: theorems 3 to 6 of its text (9, 10, 12 and 13 in its numbering).

| symbol | here | meaning |
|---|---|---|
| B_p | result | rows of a node |
| C | weight | of a node's mean loss |
| \|f0\| | reference | norm of the classifier that is compared with |
| alpha_acc | accuracy | how much larger than the reference's the expected loss may be |
| alpha_p(t) | alpha | epsilon of one round, at most 1; the smallest over the rounds |
| d, delta | columns, failure | |
| eta N_p | pull | penalty times neighbours |
| c1, c4 | bend | bound on the second derivative of the loss: 1/4 for the logistic one |
| beta | constant | that the paper only says exists; with 1, the default, results compare settings, no more |

The theorems are about the minimiser with the noise of round t frozen, not about the model of round t: to that belongs a
Delta(t) without any bound. `published=True` gives each formula as printed; docs/proofs/dynamic.md, section 9, lists
what is different.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from tacit.errors import InputError
from tacit.records import as_whole, at_least, positive, probability


@dataclass(frozen=True)
class Goal:
    """What is asked: accuracy against a reference, with a probability, at an epsilon of each round."""

    reference: float
    accuracy: float
    alpha: float
    columns: int
    failure: float = 0.05
    weight: float = 1.0
    pull: float = 0.0
    bend: float = 0.25
    constant: float = 1.0

    def __post_init__(self) -> None:
        for name in ("reference", "accuracy", "alpha", "weight", "bend", "constant"):
            positive(getattr(self, name), name)
        at_least(self.pull, "pull", 0)
        as_whole(self.columns, "columns", 1)
        positive(probability(self.failure, "failure"), "failure")
        if self.alpha > 1:
            raise InputError(f"alpha={self.alpha!r} is not allowed: the proofs use alpha <= 1")


def rows_without_privacy(goal: Goal) -> float:
    """Theorem 3: beta C |f0|^2 ln(1/delta) / alpha_acc^2; holds with probability 1 - delta."""
    return goal.constant * goal.weight * goal.reference**2 * -math.log(goal.failure) / goal.accuracy**2


def rows_for_dual(goal: Goal, *, published: bool = False) -> float:
    """Theorem 4: the largest of three; holds with probability 1 - 2 delta.

        beta max( C |f0| d ln(d/delta)/(alpha_acc alpha),  C c1 |f0|^2/(alpha_acc alpha),
                  C |f0|^2 ln(1/delta)/alpha_acc^2 )

    Printed, the first has neither C nor the d in ln(d/delta), both of which lemmas 17 and 18 bring in.
    """
    d, low = goal.columns, goal.accuracy * goal.alpha
    first: float = -goal.reference * d * math.log(goal.failure) / low
    if not published:
        first = goal.weight * goal.reference * d * math.log(d / goal.failure) / low
    second = goal.weight * goal.bend * goal.reference**2 / low
    return max(goal.constant * first, goal.constant * second, rows_without_privacy(goal))


def rows_for_primal(goal: Goal, *, published: bool = False) -> float:
    """Theorem 5, for the minimiser beside noisy neighbours: holds with probability 1 - 2 delta.

        beta max( C |f0|^3 eta N_p d ln(d/delta)/(alpha_acc^2 alpha),  C |f0|^2 ln(1/delta)/alpha_acc^2 )

    The sum of two norms has the law Gamma(2d), so that it is ln(2 d N_p/delta) with a union over neighbours; printed
    is ln(d/delta). Here ln(2d/delta) is taken, and N_p is left to the constant.
    """
    log = math.log((1 if published else 2) * goal.columns / goal.failure)
    first = goal.weight * goal.reference**3 * goal.pull * goal.columns * log / (goal.accuracy**2 * goal.alpha)
    return max(goal.constant * first, rows_without_privacy(goal))


def rows_for_released_primal(goal: Goal, *, published: bool = False) -> float:
    """Theorem 6, equation (26), for the model with its own noise: holds with probability 1 - 3 delta.

    Beside theorem 5:

        4 C |f0| d ln(d/delta)/(alpha_acc alpha),  4 C^(3/2) sqrt(c4) |f0|^2 d ln(d/delta)/(alpha_acc^(3/2) alpha)

    Printed, the first has ln^2 and an undefined C^B, the second no sqrt(c4), and there is a further term 4 |f0|^3 eta
    N_p d ln(d/delta)/(alpha_acc^2 alpha): theorem 5's, from which appendix F lost C.
    """
    d, log = goal.columns, math.log(goal.columns / goal.failure)
    own = 4 * goal.weight * goal.reference * d * (log**2 if published else log) / (goal.accuracy * goal.alpha)
    bent = 4 * goal.weight**1.5 * goal.reference**2 * d * log / (goal.accuracy**1.5 * goal.alpha)
    bent *= 1.0 if published else math.sqrt(goal.bend)
    terms = [own, bent]
    if published:
        terms.append(4 * goal.reference**3 * goal.pull * d * log / (goal.accuracy**2 * goal.alpha))
    return float(max(goal.constant * max(terms), rows_for_primal(goal, published=published)))


def dual_excess(rows: int, columns: int, rate: float, ridge: float, weight: float, failure: float) -> float:
    """Lemma 18 with all constants: how far noise in the objective moves it off its minimum, with probability 1 - delta.

        Z(f with noise) - Z(f*)  <=  (C/B)^2 q^2 / (2 rho) ,   q the (1 - delta) quantile of the norm of the noise

    The norm has the law Gamma(d, 1/zeta), and a linear term h moves a rho-strongly convex Z by at most |h|^2/(2 rho).
    The paper has d ln(d/delta)/zeta for q, twice the result, and prints 16 d^2 ln^2(d/delta)/(rho B^2 alpha^2) in the
    statement and 4 in its proof, without C.

    Parameters
    ----------
    rate : float
        zeta: the density of the noise is proportional to exp(-zeta |x|).
    """
    as_whole(rows, "rows", 1)
    quantile = float(stats.gamma.isf(failure, as_whole(columns, "columns", 1))) / positive(rate, "rate")
    return (positive(weight, "weight") / rows * quantile) ** 2 / (2 * positive(ridge, "ridge"))
