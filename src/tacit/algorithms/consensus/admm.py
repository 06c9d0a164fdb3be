"""Consensus ADMM over the edges of a graph, in the metric of the joint curvature.

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
| eta, a | tuning | from the graph and the sizes alone (tuning.py) |
| M | metric | the plain norm at first, then the joint curvature at recent models (metric.py, tree.py) |

Nobody is asked anything: eta and a are public, the metric is a sum over all nodes that reaches all of them in the same
round, and so is the estimate of the gap that ends the run (flood.py). The gradients of the nodes' parts add up to
-M sum_p v_p,  v_p = 2 eta (sum_i c_pi f_p - s_p),  which makes

    gap <= 1/2 (n max_p |v_p|_M + diameter max_edges |f_p - f_i|_M)^2

an estimate: exact for quadratics with this M, where no node is further from the mean than the edges on its way.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.consensus.base import Consensus, NodeData, NodeProgress, Place, Sent, split_model
from tacit.algorithms.consensus.flood import UNKNOWN, Flood
from tacit.algorithms.consensus.local import LocalProblem
from tacit.algorithms.consensus.metric import Metric, joint_metric, own_part, typical_curvature
from tacit.algorithms.consensus.tree import TreeSum
from tacit.algorithms.consensus.tuning import tune
from tacit.problem.losses import LOSSES, Loss
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Arrays, Vector

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
        return split_model(self.model, self.place.columns)[0]

    @property
    def intercept(self) -> float:
        """The node's intercept."""
        return split_model(self.model, self.place.columns)[1]

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
