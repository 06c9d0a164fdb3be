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
from tacit.privacy.fields import as_whole, at_least, positive, probability
from tacit.topologies import Graph


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
    (`tacit.papers.pdml_published`). With noise in the objective, |eta_i . (w~ - mean w_i)|/n <= sqrt(d) R 2 W/n.
    """
    if len(task.rows) != graph.nodes:
        raise InputError(f"rows are given for {len(task.rows)} servers: the graph has {graph.nodes} nodes")
    bound = at_least(objective_noise, "objective_noise", 0)
    noise = _objective_term(columns, positive(ridge, "ridge"), bound) + 2 * math.sqrt(columns) * bound * task.radius
    return run_term(graph, rounds, penalty, task.radius, columns, first_sds, decay) + noise + data_term(task, failure)
