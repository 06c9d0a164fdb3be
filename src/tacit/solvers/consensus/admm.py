"""Consensus ADMM over the edges of a graph, in the metric of the joint curvature.

Penalty and relaxation of consensus ADMM from public numbers: the graph, and how much each node holds.

In the metric of the joint curvature a node that holds the part h of all rows has about the curvature h, in every
direction. For such quadratics a round is a linear map of the nodes' states

    w = (2 eta s - 2 lambda) / (h + 2 eta D),   s <- a S w + (1 - a) s,   lambda <- lambda + (a eta / 2) L w,

D the degrees, A the adjacency matrix, S = (D + A)/2, L = D - A, a the relaxation. The second largest modulus of its
eigenvalues (the largest, 1, belongs to the sum of the multipliers, which stays 0) is the factor by which the error
falls in each round: eta and a are chosen to make it small.

The metric in which nodes measure how far they are from each other: the joint curvature, or its largest part.

Each node makes a vector from its own curvature H_i; the sum of these vectors over all nodes tells everybody the metric.
Up to `FULL` coordinates it is the joint curvature H itself. Beyond, it is a Nystroem approximation from H O, O a public
random matrix of `RANK` columns:  M = (H O) (O' H O)^-1 (H O)' + floor I, which agrees with H in its largest directions.

The iteration of the papers (dynamic, eq. 10-11; pdml, eq. 9-10), with a metric M in place of the plain norm and with
over-relaxation a, which for M = I and a = 1 it is word for word:

    f_p <- argmin  (its part of the objective) + 2 lambda_p . f + eta sum_{i in N_p} c_pi || f - z_pi ||_M^2
    z_pi <- a (f_p + f_i)/2 + (1 - a) z_pi
    lambda_p <- lambda_p + a eta/2 sum_{i in N_p} c_pi M (f_p - f_i)

| symbol | here | meaning |
|---|---|---|
| f_p | model | the node's coefficients and, last, its intercept |
| lambda_p | multiplier | their sum over all nodes is zero, always |
| z_pi | target | only s_p = sum_i c_pi z_pi is kept |
| c_pi | weights | one for each edge, the same at both ends |
| eta, a | tuning | from the graph and the sizes alone (the first part of this file) |
| M | metric | the plain norm at first, then the joint curvature at recent models (`Metric`, and sums in base.py) |

Nobody is asked anything: eta and a are public, the metric is a sum over all nodes that reaches all of them in the same
round, and so is the estimate of the gap that ends the run (base.py). The gradients of the nodes' parts add up to
-M sum_p v_p,  v_p = 2 eta (sum_i c_pi f_p - s_p),  which makes

    gap <= 1/2 (n max_p |v_p|_M + diameter max_edges |f_p - f_i|_M)^2

an estimate: exact for quadratics with this M, where no node is further from the mean than the edges on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse import coo_array
from scipy.sparse.linalg import eigsh

from tacit.blocks.dense import cholesky, solve_cholesky
from tacit.problem.losses import Loss
from tacit.problem.registry import LOSSES
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Problem
from tacit.solvers.consensus.base import (
    UNKNOWN,
    Consensus,
    Flood,
    NodeData,
    NodeProgress,
    Place,
    Sent,
    TreeSum,
    split_classes,
    split_model,
)
from tacit.solvers.consensus.local import LocalProblem
from tacit.topologies import Graph
from tacit.types import Arrays, Vector

# --- Penalty and relaxation of consensus ADMM from public numbers: the graph, and how much each node holds


EXACT = 60  # nodes up to which the map itself is looked at; beyond, as if all nodes had equal degrees and sizes
DENSE = 2000  # nodes up to which all eigenvalues of the adjacency matrix are computed
RELAXATIONS = (1.0, 1.2, 1.4, 1.6, 1.8)
ETAS = np.geomspace(0.02, 20.0, 11)
TIE = 1e-6  # rates this near each other count as equal: double eigenvalues are known to about 1e-8


@dataclass(frozen=True)
class Tuning:
    """Penalty (in units of the joint curvature), relaxation, and the factor by which the error falls in a round."""

    eta: float
    relaxation: float
    rate: float


@lru_cache(maxsize=8)
def tune(graph: Graph, sizes: tuple[float, ...]) -> Tuning:
    """The best penalty and relaxation of a grid, refined."""
    if graph.nodes == 1:
        return Tuning(1.0, 1.0, 0.0)
    parts = np.array(sizes) * graph.nodes / sum(sizes)
    rate = _exact_rate(graph, parts) if graph.nodes <= EXACT else _regular_rate(graph)
    best = _first_best([(rate(eta, 1.4), eta) for eta in ETAS])[1]
    step = ETAS[1] / ETAS[0]
    near = best * step ** np.array([-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75])
    least, eta, relaxation = _first_best([(rate(eta, a), eta, a) for eta in near for a in RELAXATIONS])
    return Tuning(float(eta) / graph.nodes, relaxation, least)


def _first_best(candidates: list[tuple[float, ...]]) -> tuple[float, ...]:
    """The first candidate whose rate, its first entry, is the least one but for rounding.

    Every node makes this choice by itself. On a regular graph several candidates have the same rate, and processors
    round it differently: the least number would not be the same candidate at every node.
    """
    least = min(candidate[0] for candidate in candidates)
    return next(candidate for candidate in candidates if candidate[0] <= least + TIE)


class _exact_rate:  # noqa: N801 - a function with data
    """Rate of the map itself."""

    def __init__(self, graph: Graph, parts: Vector) -> None:
        adjacency = _adjacency(graph).toarray()
        self.parts, self.degrees = parts, np.array(graph.degrees, dtype=np.float64)
        self.mean = 0.5 * (np.diag(self.degrees) + adjacency)
        self.apart = np.diag(self.degrees) - adjacency

    def __call__(self, eta: float, relaxation: float) -> float:
        inverse = 1.0 / (self.parts + 2 * eta * self.degrees)
        count, a = len(self.parts), relaxation
        from_s, from_dual = 2 * eta * inverse, -2 * inverse
        top = np.hstack([a * self.mean * from_s + (1 - a) * np.eye(count), a * self.mean * from_dual])
        bottom = 0.5 * a * eta * np.hstack([self.apart * from_s, self.apart * from_dual])
        bottom[:, count:] += np.eye(count)
        return float(np.sort(np.abs(np.linalg.eigvals(np.vstack([top, bottom]))))[-2])


class _regular_rate:  # noqa: N801 - a function with data
    """Rate for equal degrees and sizes: then the map falls into one of 2 x 2 for each eigenvalue of the adjacency."""

    def __init__(self, graph: Graph) -> None:
        root = 1.0 / np.sqrt(np.array(graph.degrees, dtype=np.float64))
        adjacency = _adjacency(graph).multiply(root[:, None]).multiply(root[None, :]).tocsr()
        if graph.nodes <= DENSE:
            values = np.linalg.eigvalsh(adjacency.toarray())[:-1]
        else:
            start = np.cos(np.arange(graph.nodes))  # the same at every node
            ends = eigsh(adjacency, k=2, which="LA", return_eigenvectors=False, v0=start, tol=1e-4)
            low = eigsh(adjacency, k=1, which="SA", return_eigenvectors=False, v0=start, tol=1e-4)
            values = np.linspace(low[0], ends.min(), 200)
        self.degree = float(np.mean(graph.degrees))
        self.mean, self.apart = 0.5 * self.degree * (1 + values), self.degree * (1 - values)

    def __call__(self, eta: float, relaxation: float) -> float:
        a, inverse = relaxation, 1.0 / (1.0 + 2 * eta * self.degree)
        maps = np.empty((len(self.mean), 2, 2))
        maps[:, 0, 0] = a * self.mean * 2 * eta * inverse + 1 - a
        maps[:, 0, 1] = -a * self.mean * 2 * inverse
        maps[:, 1, 0] = 0.5 * a * eta * self.apart * 2 * eta * inverse
        maps[:, 1, 1] = 1 - 0.5 * a * eta * self.apart * 2 * inverse
        return float(np.abs(np.linalg.eigvals(maps)).max())


def _adjacency(graph: Graph) -> coo_array:
    pairs = np.array(graph.edges, dtype=np.int64)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.nodes, graph.nodes)).tocsr()


# --- The metric in which nodes measure how far they are from each other: the joint curvature, or its largest part


FULL = 300  # coordinates up to which the whole curvature travels: then about 0.4 MB from each node, a few times
RANK = 60
FLAT = 1e-10  # curvature added in every direction, relative to the mean one: a penalty must be positive definite


class DenseMetric:
    """M as a matrix."""

    def __init__(self, matrix: Vector) -> None:
        size = len(matrix)
        self.matrix = matrix.copy()
        self.matrix[np.diag_indices(size)] += FLAT * max(float(np.trace(matrix)) / size, 1e-300)

    def times(self, v: Vector) -> Vector:
        """M v."""
        return np.asarray(self.matrix @ v)

    def pull(self, factor: float) -> Vector:
        """The matrix factor M, for a local problem."""
        return factor * self.matrix


class LowRankMetric:
    """M = U U' + floor I."""

    ndim = 2

    def __init__(self, columns: Vector, floor: float) -> None:
        self.columns, self.floor = columns, floor

    def times(self, v: Vector) -> Vector:
        """M v."""
        return np.asarray(self.columns @ (self.columns.T @ v) + self.floor * v)

    def pull(self, factor: float) -> LowRankMetric:
        """The operator factor M, for a local problem."""
        return LowRankMetric(factor**0.5 * self.columns, factor * self.floor)

    def __matmul__(self, v: Vector) -> Vector:
        return self.times(v)

    def dense(self) -> Vector:
        """M as a matrix."""
        matrix = self.columns @ self.columns.T
        matrix[np.diag_indices(len(matrix))] += self.floor
        return np.asarray(matrix)

    @cached_property
    def _small(self) -> Vector:
        return cholesky(self.columns.T @ self.columns, self.floor)

    def solve(self, v: Vector) -> Vector:
        """M^-1 v."""
        inner = solve_cholesky(self._small, self.columns.T @ v)
        return np.asarray((v - self.columns @ inner) / self.floor)


Metric = DenseMetric | LowRankMetric


def own_part(local: LocalProblem, w: Vector, seed: int) -> Vector:
    """What a node adds to the sum from which the metric is made."""
    if local.size <= FULL:
        return local.hessian(w)[np.tril_indices(local.size)]
    probes = _probes(local.size, seed)
    return np.asarray(local.hessian_times(w, probes)).ravel()


def joint_metric(total: Vector, size: int, alpha: float, seed: int) -> Metric:
    """The metric from the sum of all nodes' parts."""
    if size <= FULL:
        matrix = np.zeros((size, size))
        matrix[np.tril_indices(size)] = total
        return DenseMetric(matrix + np.tril(matrix, -1).T)
    probes = _probes(size, seed)
    seen = total.reshape(size, RANK)
    inner = probes.T @ seen
    values, vectors = linalg.eigh(0.5 * (inner + inner.T), check_finite=False)
    keep = values > 1e-10 * max(float(values[-1]), 1e-300)
    columns = seen @ (vectors[:, keep] / np.sqrt(values[keep]))
    rest = max(float(np.trace(inner)) - float(np.sum(columns**2)), 0.0) / size  # trace of what was not seen
    mean = float(np.sum(columns**2)) / size
    return LowRankMetric(columns, max(alpha, rest, 1e-6 * mean, 1e-300))


def typical_curvature(local: LocalProblem, share: float, seed: int) -> float:
    """Geometric mean of the curvature in all directions at zero, as if every node's rows were like these."""
    zero = np.zeros(local.size)
    if local.size <= FULL:
        values = linalg.eigvalsh(local.hessian(zero), check_finite=False) / share
    else:
        metric = joint_metric(own_part(local, zero, seed) / share, local.size, float(local.ridge[0]) / share, seed)
        assert isinstance(metric, LowRankMetric)
        seen = linalg.eigvalsh(metric.columns.T @ metric.columns, check_finite=False)
        values = np.full(local.size, metric.floor)
        values[: len(seen)] += seen
    floor = 1e-6 * max(float(np.mean(values)), 1e-300)
    return float(np.exp(np.mean(np.log(np.maximum(values, floor)))))


@lru_cache(maxsize=2)
def _probes(size: int, seed: int) -> Vector:
    """The public random matrix, with columns of squared length `size` / RANK, so that its square has mean one."""
    return np.asarray(np.random.default_rng(seed).standard_normal((size, RANK)) / RANK**0.5)


# --- Consensus ADMM over the edges of a graph, in the metric of the joint curvature


MODEL, SCALE, MAXIMA = "model", "scale", "maxima"
FIRST_SUM = 2  # round in which the first joint curvature begins to be summed: models are fits to own rows by then
MOST_SUMS = 5
INNER = 0.05  # part of the first gradient that a local solve may leave
ALONE = 1e-11  # the same for a node without neighbours, which has one round
SMALLEST = 1e-9  # an objective below this part of that at zero counts as zero
CROSSING = 1e-2  # the same for losses of randomized labels, which may be negative and so come near zero by chance


class AdmmNode:
    """One node's side."""

    def __init__(self, problem: Problem, place: Place, data: NodeData) -> None:
        self.problem, self.place = problem, place
        ridge = place.share * problem.alpha * problem.regularizer.l2
        self.local = LocalProblem(data, problem.loss, 1.0 / place.total, ridge, problem.fit_intercept)
        self.tuning = tune(place.graph, place.sizes)
        self.eta = self.tuning.eta if problem.rho is None else problem.rho
        self.model, self.multiplier = np.zeros(self.local.size), np.zeros(self.local.size)
        self.target = np.zeros(self.local.size)
        self.scale = typical_curvature(self.local, place.share, problem.seed)
        self.weights = dict.fromkeys(place.neighbours, self.scale)
        self.metric: Metric | None = None
        self.summed = np.zeros(0)  # the sum from which the metric was made
        self.sums, self.next_sum = 0, FIRST_SUM
        self.tree = TreeSum(place.graph, place.name)
        self.flood = Flood(place.graph.diameter, 2)
        self.shift = UNKNOWN  # |v_p|_M of the last round
        self._make_pull()
        self.progress = NodeProgress(rho=self.eta)

    @property
    def coef(self) -> Vector:
        """The node's coefficients."""
        return self._split()[0]

    @property
    def intercept(self) -> Any:
        """The node's intercept; of several classes one for each."""
        return self._split()[1]

    def _split(self) -> tuple[Vector, Any]:
        columns, outputs = self.place.columns, self.problem.loss.outputs
        return split_model(self.model, columns) if outputs == 1 else split_classes(self.model, columns, outputs)

    # --- a round ---------------------------------------------------------------------------------------

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Sent:
        """Update multiplier and target, perhaps the metric, then the model."""
        models = {name: arrays[MODEL] for name, arrays in inbox.items()}
        if round_ == 2:
            self._agree_on_scales(inbox, models)
        if models:
            self._update_multiplier(models)
        gap = self._estimate_gap(models, inbox)
        if round_ == self.next_sum and self.sums < MOST_SUMS:
            self.tree.begin(round_, self._own_sums())
        to_one = self.tree.step(round_, inbox)
        total = self.tree.result(round_)
        if total is not None:
            self._take_metric(round_, total, models)
        self._update_model()
        done = gap <= self.problem.tol * self._objective()
        self.progress = NodeProgress(self._apart(models), self.shift, self.eta, done)
        scale = {SCALE: np.array([self.scale])} if round_ == 1 else {}
        return Sent({MODEL: self.model, MAXIMA: self.flood.message, **scale}, to_one)

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Nothing is left to do."""

    def _agree_on_scales(self, inbox: Mapping[str, Arrays], models: Mapping[str, Vector]) -> None:
        """Before there is a metric: the geometric mean of the two ends' own scales."""
        self.weights = {name: float(np.sqrt(self.scale * arrays[SCALE][0])) for name, arrays in inbox.items()}
        self.target = np.zeros(self.local.size)  # of models that were all zero
        self._make_pull()

    def _update_multiplier(self, models: Mapping[str, Vector]) -> None:
        a = self.tuning.relaxation
        apart = np.zeros(self.local.size)
        for name, model in models.items():
            apart += self.weights[name] * (self.model - model)
        self.multiplier = self.multiplier + 0.5 * a * self.eta * self._times(apart)
        halfway = self.degree * self.model - 0.5 * apart
        self.target = a * halfway + (1 - a) * self.target

    def _update_model(self) -> None:
        linear = 2 * (self.multiplier - self.eta * self._times(self.target))
        left = INNER if self.place.neighbours else ALONE
        zero = np.zeros(self.local.size)
        self.model = self.local.solve(linear, self.pull, zero, 0.0, self.model, relative=left).point
        self.shift = self._norm(2 * self.eta * (self.degree * self.model - self.target))

    # --- what all nodes know -----------------------------------------------------------------------------

    def _estimate_gap(self, models: Mapping[str, Vector], inbox: Mapping[str, Arrays]) -> float:
        """An estimate of the gap `diameter` rounds ago, the same at every node."""
        own = np.full(2, UNKNOWN) if self.metric is None else np.array([self.shift, self._apart(models)])
        shift, apart = self.flood.step(own, [arrays[MAXIMA] for arrays in inbox.values()])
        graph = self.place.graph
        return float(0.5 * (graph.nodes * shift + graph.diameter * apart) ** 2)

    def _apart(self, models: Mapping[str, Vector]) -> float:
        return max((self._norm(self.model - model) for model in models.values()), default=0.0)

    def _own_sums(self) -> Vector:
        """The node's part of the objective, at its model and at zero, and of the metric."""
        values = [self.local.value(self.model), self.local.value(np.zeros(self.local.size))]
        return np.concatenate([values, own_part(self.local, self.model, self.problem.seed)])

    def _objective(self) -> float:
        """Size of the last joint objective that all nodes know; 0 before."""
        least = SMALLEST if self.problem.loss.least_slope == 0 else CROSSING
        return max(abs(float(self.summed[0])), least * float(self.summed[1])) if self.summed.size else 0.0

    def _take_metric(self, round_: int, total: Vector, models: Mapping[str, Vector]) -> None:
        """From now on in the new metric; the multiplier, a sum of gradients, stays as it is."""
        self.sums, self.next_sum = self.sums + 1, 2 * round_
        self._set_metric(total)
        halfway = [0.5 * (self.model + model) for model in models.values()]
        self.target = np.sum(halfway, axis=0) if halfway else np.zeros(self.local.size)

    def _set_metric(self, total: Vector) -> None:
        self.summed = total
        alpha = self.problem.alpha * self.problem.regularizer.l2
        self.metric = joint_metric(total[2:], self.local.size, alpha, self.problem.seed)
        self.weights = dict.fromkeys(self.place.neighbours, 1.0)
        self._make_pull()

    def _make_pull(self) -> None:
        self.degree = sum(self.weights.values())
        factor = 2 * self.eta * self.degree
        self.pull = factor if self.metric is None or factor == 0 else self.metric.pull(factor)

    def _times(self, v: Vector) -> Vector:
        return v if self.metric is None else self.metric.times(v)

    def _norm(self, v: Vector) -> float:
        return float(np.sqrt(max(float(v @ self._times(v)), 0.0)))

    # --- going on later ----------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        numbers = np.array([self.sums, self.next_sum, self.shift], dtype=np.float64)
        weights = np.array([self.weights[name] for name in self.place.neighbours])
        own = {"model": self.model, "multiplier": self.multiplier, "target": self.target, "weights": weights}
        own |= {"summed": self.summed, "numbers": numbers}
        return own | self.tree.state() | self.flood.state() | self.local.state()

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.model, self.multiplier, self.target = state["model"], state["multiplier"], state["target"]
        self.sums, self.next_sum, self.shift = int(state["numbers"][0]), int(state["numbers"][1]), state["numbers"][2]
        self.tree.restore(state)
        self.flood.restore(state)
        self.local.restore(state)
        if state["summed"].size:
            self._set_metric(state["summed"])
        else:
            self.weights = dict(zip(self.place.neighbours, state["weights"].tolist(), strict=True))
            self._make_pull()


def refusal(loss: Loss, regularizer: Regularizer) -> str:
    """Why a pair cannot be solved; empty where it can."""
    if not loss.smooth:
        return f"loss={loss.name!r} has a kink, which the sample split does not solve: use {_possible(loss)}"
    if not loss.convex:
        return f"loss={loss.name!r} is not convex, which the sample split does not solve: use {_possible(loss)}"
    if regularizer.form != "quadratic":
        return f'penalty={regularizer.name!r} is not available in the sample split: use "l2" or "none"'
    return ""


def _possible(loss: Loss) -> str:
    """The losses for the same kind of labels that can be solved."""
    found = sorted(name for name, one in LOSSES.items() if one.task == loss.task and one.convex and one.smooth)
    return " or ".join(repr(name) for name in found)


ADMM = Consensus("admm", refusal, AdmmNode)
