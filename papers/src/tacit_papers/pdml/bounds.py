"""Learning guarantees of pdml, with the constants that can be proven; equation numbers are the paper's.

X. Wang et al., "Privacy-preserving distributed machine learning via local randomization and ADMM perturbation", IEEE
TSP 68 (2020), section V. Proofs of what differs from it: docs/proofs/pdml.md, section 6.

| symbol | here | meaning |
|---|---|---|
| n, m_i, N_i | graph.nodes, rows, graph.degrees | servers, their rows, their neighbours |
| W, b | radius, length | bounds on the norm of a classifier and of a row |
| c1, c2 | largest_loss, slope | bounds on the loss, and on its derivative by the score |
| a, kappa | ridge = a kappa | weight of the regularizer times its strong convexity |
| beta, t | penalty, rounds | of ADMM |
| V_i, rho | first_sds, decay | deviation of the noise of the first round, and the factor of its variance |
| R | objective_noise | bound on each entry of the noise in the objective |
| eps, delta | label_epsilon, failure | of a label; probability with which the bound may fail |

All bounds assume that rows are drawn independently from one distribution, that every classifier has norm at most W
(the algorithm does not enforce it), and exact minimisers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.records import as_whole, at_least, positive, probability
from tacit.topologies import Graph

# --- learning guarantees of pdml, with the constants that can be proven; equation numbers are the paper's ---


@dataclass(frozen=True)
class LearningTask:
    """What a bound depends on beside the run: the loss on the rows and classifiers that are allowed.

    Attributes
    ----------
    rows : tuple of int
        Of each server.
    radius, length : float
        W and b.
    label_epsilon : float or None
        None: labels are not randomized.
    largest_loss, slope : float or None
        c1 and c2; None takes those of the logistic loss, ln(1 + e^(W b)) and 1.
    """

    rows: tuple[int, ...]
    radius: float
    length: float = 1.0
    label_epsilon: float | None = None
    largest_loss: float | None = None
    slope: float | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError("rows is empty: give the number of rows of each server")
        for count in self.rows:
            as_whole(count, "rows", 1)
        positive(self.radius, "radius")
        positive(self.length, "length")
        for name in ("label_epsilon", "largest_loss", "slope"):
            if getattr(self, name) is not None:
                positive(getattr(self, name), name)

    @property
    def spread(self) -> float:
        """(e^eps + 1)/(e^eps - 1): how much larger the unbiased loss of randomized labels can be, equation (21)."""
        return 1.0 if self.label_epsilon is None else 1.0 / math.tanh(self.label_epsilon / 2)

    def complexity(self, rows: int) -> float:
        """Rademacher complexity of classifiers of norm W on rows of norm b: at most W b / sqrt(m)."""
        return self.radius * self.length / math.sqrt(rows)


def data_term(task: LearningTask, failure: float, *, published: bool = False) -> float:
    """What the rows cost, summed over the servers: the last term of (27), and n times the bound (37).

        4 (e^eps + 1)/(e^eps - 1) sum_i [ c2 Rad_i(W) + 2 c1 sqrt(2 ln(k/delta)/m_i) ]

    The paper has k = 4. The theorem that it cites bounds one side of one server's deviation with probability 1 - delta;
    the sum needs both sides of all n at once, so that k = 8 n (a union bound). `published=True` gives the paper's.
    """
    failure = positive(probability(failure, "failure"), "failure")
    count = len(task.rows)
    sides = 4 if published else 8 * count
    loss = math.log1p(math.exp(task.radius * task.length)) if task.largest_loss is None else task.largest_loss
    slope = 1.0 if task.slope is None else task.slope
    parts = (slope * task.complexity(m) + 2 * loss * math.sqrt(2 * math.log(sides / failure) / m) for m in task.rows)
    return 4 * task.spread * math.fsum(parts)


def optimum_bound(
    task: LearningTask, failure: float, *, columns: int = 1, ridge: float = 1.0, objective_noise: float = 0.0,
    published: bool = False,
) -> float:  # fmt: skip
    """Bound on J_P(w) - J_P(w*) for the exact optimum of the (perturbed) problem: corollaries 1 (35) and 2 (37).

        data_term / n + d R^2 / (2 n a kappa)

    and corollary 2 is R = 0. The paper has R^2/(n a kappa). It takes |eta_i| <= R for the Euclidean norm, which it
    bounds entry by entry (so d R^2); the factor 1/2 is what strong convexity gives.
    """
    as_whole(columns, "columns", 1)
    noise = _objective_term(columns, positive(ridge, "ridge"), at_least(objective_noise, "objective_noise", 0))
    if published:
        noise = objective_noise**2 / ridge
    return (data_term(task, failure, published=published) + noise) / len(task.rows)


def _objective_term(columns: int, ridge: float, bound: float) -> float:
    """J^(w~) - J^(w^) <= |sum_i eta_i / n|^2 / (2 a kappa) <= d R^2 / (2 a kappa), summed over the servers."""
    return columns * bound**2 / (2 * ridge)


def run_term(
    graph: Graph,
    rounds: int,
    penalty: float,
    radius: float,
    columns: int,
    first_sds: Sequence[float] | float,
    decay: float,
) -> float:
    """How far the averaged models are from the optimum of the training objective, in expectation over the noise.

        E sum_i [J~_i(mean of w_i(1..t)) - J~_i(w~)]
            <=  (beta/t) [ 2 E |w~|^2 + d sum_i N_i V_i^2 (1 - rho^t)/(1 - rho) ]

    for a start from 0, E edges (docs/proofs/pdml.md, theorem 4). It takes the place of (31), whose factor
    sigma_max^2(L+)/(2 sigma_max^2(L-)) + 2 sigma_max^2(Q) is larger than every N_i, since 2 sigma_max^2(Q) is the
    largest eigenvalue of L-. It holds for any beta above 0 and any rho up to 1.
    """
    as_whole(rounds, "rounds", 1)
    as_whole(columns, "columns", 1)
    sds = [first_sds] * graph.nodes if isinstance(first_sds, int | float) else list(first_sds)
    if len(sds) != graph.nodes:
        raise InputError(f"first_sds are {len(sds)}: the graph has {graph.nodes} nodes, give one for each")
    if positive(decay, "decay") > 1:
        raise InputError(f"decay={decay!r} is not allowed: it must be at most 1")
    lasting = float(rounds) if decay == 1 else (1 - decay**rounds) / (1 - decay)
    noise = math.fsum(n * at_least(sd, "first_sds", 0) ** 2 for n, sd in zip(graph.degrees, sds, strict=True))
    start = 2 * len(graph.edges) * positive(radius, "radius") ** 2
    return positive(penalty, "penalty") / rounds * (start + columns * noise * lasting)


def run_bound(
    task: LearningTask,
    graph: Graph,
    *,
    rounds: int,
    penalty: float,
    columns: int,
    first_sds: Sequence[float] | float,
    decay: float,
    ridge: float = 1.0,
    objective_noise: float = 0.0,
    failure: float = 0.05,
) -> float:
    """Theorem 1, corrected: bound on E sum_i [J_P(mean of w_i(1..t)) - J_P(w*)], with probability 1 - delta over rows.

        run_term + d R^2/(2 a kappa) + 2 sqrt(d) R W + data_term

    Where R = 0 the middle terms are gone. Lemma 5 of the paper, which is false as printed, is not used
    (`tacit_papers.pdml.bounds_published`). With noise in the objective, |eta_i . (w~ - mean w_i)|/n <= sqrt(d) R 2 W/n.
    """
    if len(task.rows) != graph.nodes:
        raise InputError(f"rows are given for {len(task.rows)} servers: the graph has {graph.nodes} nodes")
    bound = at_least(objective_noise, "objective_noise", 0)
    noise = _objective_term(columns, positive(ridge, "ridge"), bound) + 2 * math.sqrt(columns) * bound * task.radius
    return run_term(graph, rounds, penalty, task.radius, columns, first_sds, decay) + noise + data_term(task, failure)


# --- lemma 5, its admissible beta, and theorem 1 of pdml, as printed; they are not all true ----------

# What is wrong, and shown by tests or in docs/proofs/pdml.md, section 6:
#
# - Lemma 5 is false as printed: phi and lambda_3 add a strong convexity to a squared Lipschitz constant, so that they
#   change with the unit of the objective. For an objective of small scale the admissible beta is far too large, and the
#   run is slower than C^t.
# - Lemma 1: the stacked objective is a kappa/n strongly convex, not a kappa. (It is a kappa where all servers agree.)
# - Equation (34): the sum over C^-k rho^(k-1) is 1/(C - rho), not rho/(C - rho).
# - Equation (32) takes |eta_i| <= R for the Euclidean norm, which section IV-B bounds entry by entry; and with the
#   strong convexity of lemma 1 corrected it is n times as large. Corollary 1 divides theorem 1 by n but for this term.
# - Equation (28) holds for one server and one side, not for all at once.
# - Equation (24) leaves out the factor 1/n of the noise in the objective, which is safe.
#
# Use `tacit_papers.pdml.bounds.run_bound` for a bound that is proven.


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
