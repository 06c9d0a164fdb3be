"""Lemma 5, its admissible beta, and theorem 1 of pdml, as printed; they are not all true.

What is wrong, and shown by tests or in docs/proofs/pdml.md, section 6:

- Lemma 5 is false as printed: phi and lambda_3 add a strong convexity to a squared Lipschitz constant, so that they
  change with the unit of the objective. For an objective of small scale the admissible beta is far too large, and the
  run is slower than C^t.
- Lemma 1: the stacked objective is a kappa/n strongly convex, not a kappa. (It is a kappa where all servers agree.)
- Equation (34): the sum over C^-k rho^(k-1) is 1/(C - rho), not rho/(C - rho).
- Equation (32) takes |eta_i| <= R for the Euclidean norm, which section IV-B bounds entry by entry; and with the
  strong convexity of lemma 1 corrected it is n times as large. Corollary 1 divides theorem 1 by n but for this term.
- Equation (28) holds for one server and one side, not for all at once.
- Equation (24) leaves out the factor 1/n of the noise in the objective, which is safe.

Use `tacit.papers.pdml_bounds.run_bound` for a bound that is proven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.papers.pdml_bounds import LearningTask, data_term
from tacit.privacy.fields import at_least, positive
from tacit.topologies import Graph


@dataclass(frozen=True)
class Contraction:
    """The numbers of lemma 5.

    Attributes
    ----------
    phi, m1, m2, alpha, lambda3, lambda4 : float
        As in the paper; alpha is taken in the middle of (0, min(M1, M2)) where it is not given.
    beta : float
        The penalty that the lemma prescribes.
    rate : float
        C, below 1.
    noise_weight : float
        H2.
    largest : float
        sigma_max(L+)^2, for H1.
    """

    phi: float
    m1: float
    m2: float
    alpha: float
    lambda3: float
    lambda4: float
    beta: float
    rate: float
    noise_weight: float
    largest: float

    def start_weight(self, primal: float, dual: float) -> float:
        """H1, from |w(0) - w~|^2 and |r(0) - r_opt|^2."""
        return primal + 4 * dual / ((1 + 4 * self.alpha) * self.largest)


def contraction(
    graph: Graph,
    strong: float,
    smooth: float,
    *,
    b: float = 0.01,
    lambda1: float = 100.0,
    lambda2: float = 2.0,
    alpha: float | None = None,
) -> Contraction:
    """Lemma 5: phi, condition (25), M1, M2, beta, C and H2, as printed.

    Parameters
    ----------
    graph : Graph
        Its L+ and L- are the matrices of the paper: signless and ordinary Laplacian; Q = (L-/2)^(1/2).
    strong, smooth : float
        kappa^ = a kappa, and the Lipschitz constant n c3 + a of the gradient (lemma 3).
    b, lambda1, lambda2 : float
        0 < b < 1, and above 1.

    Raises
    ------
    InputError
        Where condition (25) does not hold: it asks for sigma_max(L+)^2/sigma_min(L+)^2 < (1 - b)(1 + phi).
    """
    positive(strong, "strong")
    positive(smooth, "smooth")
    if not 0 < b < 1 or lambda1 <= 1 or lambda2 <= 1:
        raise InputError(f"b={b!r}, lambda1={lambda1!r}, lambda2={lambda2!r}: b must be in (0, 1), the others above 1")
    plus, minus = graph.signless_spectrum, graph.spectrum
    tiny = 1e-9 * float(plus.max())
    low, high = float(plus[plus > tiny].min()) ** 2, float(plus.max()) ** 2
    least = float(minus[minus > tiny].min()) / 2  # sigma_min(Q)^2
    middle = float(max(graph.degrees)) ** 2  # sigma_max of (L+ + L-)/2, the degrees
    phi = (lambda1 - 1) / lambda1 * 2 * strong * least * low / (smooth**2 * low + 2 * strong * high)
    room = (1 - b) * (1 + phi) * low - high
    if room <= 0:
        raise InputError(
            f"condition (25) does not hold: sigma_max(L+)^2/sigma_min(L+)^2 is {high / low:.4g} on this graph, and "
            f"must be below (1 - b)(1 + phi) = {(1 - b) * (1 + phi):.4g}; take a complete graph, or a smaller b"
        )
    share = b * low * (1 - 1 / lambda2)
    m1 = (1 + phi) * share / (4 * share + 16 * middle)
    m2 = room / (4 * high + 4 * (1 - b) * low)
    alpha = min(m1, m2) / 2 if alpha is None else alpha
    if not 0 < alpha < min(m1, m2):
        raise InputError(f"alpha={alpha!r} is not allowed: it must be above 0 and below {min(m1, m2):.6g}")
    lambda3 = 1 + 2 * strong * high / (smooth**2 * low)
    lambda4 = 1 + math.sqrt((smooth**2 * low + 2 * strong * high) / (alpha * lambda3 * smooth**2 * low))
    beta = math.sqrt(lambda1 * lambda3 * (lambda4 - 1) * smooth**2 / (lambda4 * (lambda1 - 1) * high * least))
    rate = (1 + 4 * alpha) * high / ((1 - b) * (1 + phi - 4 * alpha) * low)
    pull = math.sqrt(phi) + math.sqrt(2 * (lambda1 - 1) * least / (alpha * lambda1 * lambda3 * smooth**2))
    part = 4 * phi * lambda1 * middle / least + high * pull**2
    weight = b * (lambda2 - 1) / (1 - b) + part / ((1 - b) * (1 + phi) * (1 + phi - 4 * alpha) * low)
    return Contraction(phi, m1, m2, alpha, lambda3, lambda4, beta, rate, weight, high)


def published_run_bound(
    task: LearningTask,
    graph: Graph,
    lemma: Contraction,
    *,
    rounds: int,
    columns: int,
    first_sds: Sequence[float] | float,
    decay: float,
    ridge: float,
    objective_noise: float,
    start: tuple[float, float],
    failure: float = 0.05,
) -> float:
    """The right side of (27), theorem 1, as printed; `start` holds |w(0) - w~|^2 and |r(0) - r_opt|^2, and r(0) = 0.

    It is kept to compare: the module's docstring says why it is no bound.
    """
    if not 0 < decay < lemma.rate < 1:
        raise InputError(f"decay={decay!r} is not allowed: theorem 1 asks for 0 < rho < C = {lemma.rate:.6g} < 1")
    sds = [first_sds] * graph.nodes if isinstance(first_sds, int | float) else list(first_sds)
    noise = columns * math.fsum(at_least(sd, "first_sds", 0) ** 2 for sd in sds)
    contracted = lemma.start_weight(*start) + decay * lemma.noise_weight / (lemma.rate - decay) * noise
    high, wide = float(graph.signless_spectrum.max()) ** 2, float(graph.spectrum.max())
    third = float(graph.signless_spectrum.max()) / 2 * start[0]  # |w(0) - w~|^2 in L+/2, at most
    return (
        lemma.rate / (1 - lemma.rate) / (2 * rounds) * contracted
        + graph.nodes / 2 * objective_noise**2
        + lemma.beta / rounds * (third + (high / (2 * wide**2) + wide) * noise / (1 - decay))
        + objective_noise**2 / (graph.nodes * ridge)
        + data_term(task, failure, published=True)
    )
