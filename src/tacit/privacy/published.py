"""The arithmetic of the sharing paper's privacy statements, to print beside what is true. None of it is proven.

docs/proofs/published.md shows that Lemma 1 is false and that Theorem 3 does not follow from it.
"""

from __future__ import annotations

import math

from scipy import optimize

from tacit.privacy.fields import as_whole, at_least, positive, probability

LARGEST_EPSILON = 1.0  # Theorem 3 is stated for an epsilon of one round in (0, 1]


def lemma1_bound(columns: int, rho: float, weight: float, curvature: float, blocks: int, bound: float) -> float:
    """Lemma 1's C = 3 / (d rho) * (lambda c1 + (1 + M rho) b1); the true sensitivity can exceed it.

    Parameters
    ----------
    columns : int
        d, columns of the party.
    rho, weight : float
        Penalty of the augmented Lagrangian and lambda, of the summed loss.
    curvature : float
        c1, largest |R''|.
    blocks : int
        M, how many blocks add to the scores.
    bound : float
        b1, assumed to bound the norms of x, y and z.
    """
    size = as_whole(columns, "columns", 1) * positive(rho, "rho")
    inner = at_least(weight, "weight", 0) * at_least(curvature, "curvature", 0)
    return 3 / size * (inner + (1 + as_whole(blocks, "blocks", 1) * rho) * positive(bound, "bound"))


def theorem3_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Theorem 3's sigma = sqrt(2 ln(1.25 / delta)) C / epsilon, for one round."""
    factor = math.sqrt(2 * math.log(1.25 / positive(probability(delta, "delta"), "delta")))
    return factor * positive(sensitivity, "sensitivity") / positive(epsilon, "epsilon")


def corollary1_epsilon(epsilon: float, rounds: int, slack: float) -> float:
    """Corollary 1's eps' = sqrt(2 T ln(1/delta')) eps + T eps (e^eps - 1), at delta T delta + delta'."""
    count = as_whole(rounds, "rounds", 1)
    log = math.log(1 / positive(probability(slack, "slack"), "slack"))
    return math.sqrt(2 * count * log) * at_least(epsilon, "epsilon", 0) + count * epsilon * math.expm1(epsilon)


def corollary1_round_epsilon(epsilon: float, rounds: int, slack: float) -> float:
    """The epsilon of one round for which Corollary 1 says `epsilon`, at most 1, where Theorem 3 ends."""
    asked = positive(epsilon, "epsilon")
    if corollary1_epsilon(LARGEST_EPSILON, rounds, slack) <= asked:
        return LARGEST_EPSILON

    def excess(one: float) -> float:
        return corollary1_epsilon(one, rounds, slack) - asked

    return float(optimize.brentq(excess, 0.0, LARGEST_EPSILON, xtol=1e-300, rtol=1e-14))
