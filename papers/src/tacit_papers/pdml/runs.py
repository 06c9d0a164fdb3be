"""Drive the package's own pdml in its published form, round by round; and the exact optimum that it tends to.

The paper's objective (1) is the sum over the servers of mean loss + a/(2n) |w_i|^2: the estimator's alpha is a/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from tacit.blocks.dense import Block
from tacit.mechanisms.perturbed.pdml import PdmlNode
from tacit.plan import Plan, SampleSplit, TrainingRequest
from tacit.plan import make_plan as plan_of
from tacit.privacy import accountant
from tacit.privacy.request import PaperOptions, Privacy
from tacit.problem.losses.modified import modified
from tacit.problem.registry import get_loss
from tacit.run.graph import GraphRun
from tacit.solvers.consensus.base import NodeData
from tacit.solvers.consensus.local import LocalProblem
from tacit.topologies import Graph, make_graph
from tacit.types import Shard, Vector
from tacit_papers.pdml.rows import DELTA, NODES, Array, Setup, Split

SPARSE = 0.3  # fill below which rows are kept sparse
CONVERGED, MOST_ROUNDS = 1e-12, 3000


def servers(seed: int = 0) -> Graph:
    """The random connected graph: 10 servers, 13 links."""
    return make_graph("random", [f"server {k + 1}" for k in range(NODES)], seed)


def make_plan(setup: Setup, split: Split, seed: int) -> Plan:
    """The plan of a run in the paper's form; ordinary consensus ADMM where labels are not randomized."""
    privacy = options = None
    if setup.epsilon is not None:
        # the paper scales nothing here: the largest norm leaves every row as it is
        longest = max(1.0, *(float(np.linalg.norm(table, axis=1).max()) for table in split.tables))
        privacy = Privacy(epsilon=None, delta=DELTA, label_epsilon=setup.epsilon, row_norm=longest, noise_seed=seed)
        options = PaperOptions(
            rounds=setup.rounds,
            objective_noise=setup.bound,
            first_sd=None if setup.decay is None else setup.first_sd,
            decay=setup.decay or 1.0,
        )
    request = TrainingRequest(
        loss="logistic", penalty="l2", alpha=setup.weight / NODES, fit_intercept=False,
        method="pdml" if privacy else "none", published=bool(privacy), rho=setup.penalty if privacy else "auto",
        max_rounds=setup.rounds if privacy else MOST_ROUNDS, tol=0.0 if privacy else CONVERGED, privacy=privacy,
        seed=seed, options=options,
    )  # fmt: skip
    return plan_of(request, SampleSplit(servers(), tuple(len(y) for y in split.labels), split.columns))


def run_epsilon(plan: Plan) -> float | None:
    """Whole-run epsilon of a record of the server that pays most; None where models leave without noise."""
    claims = [claim for claim in plan.certificate().claims if claim.unit == "record"]
    return max((accountant.epsilon(claim.events, DELTA) for claim in claims), default=None)


@dataclass
class Watched:
    """What who watches the simulation sees.

    Attributes
    ----------
    risk, averaged_risk : list of float
        Objective (1), with true labels: at the models w_i(t), and at the means of w_i(1..t).
    distance, norm_gap : list of float
        Largest distance of two servers' models, and largest difference of their norms.
    flipped : float
        Part of the labels that randomization flipped.
    averaged, last : Vector
        Mean over the servers of the averaged models, and of the last ones.
    largest_norm : float
        Of all models w_i(t).
    averaged_by_server : Array
    """

    risk: list[float] = field(default_factory=list)
    averaged_risk: list[float] = field(default_factory=list)
    distance: list[float] = field(default_factory=list)
    norm_gap: list[float] = field(default_factory=list)
    flipped: float = 0.0
    averaged: Vector = field(default_factory=lambda: np.zeros(0))
    last: Vector = field(default_factory=lambda: np.zeros(0))
    largest_norm: float = 0.0
    averaged_by_server: Array = field(default_factory=lambda: np.zeros((0, 0)))


def watch(plan: Plan, split: Split, setup: Setup, curves: bool = True) -> Watched:
    """Run to the end; `curves` are what takes time beside the run itself."""
    tables = [_light(table) for table in split.tables]
    columns = tuple(f"x{j}" for j in range(split.columns))
    shards = [Shard(name, table, columns) for name, table in zip(plan.graph.names, tables, strict=True)]
    run, seen = GraphRun(plan, shards, split.labels), Watched()

    def look(run: GraphRun) -> None:
        if not curves:
            return
        models = _models(run)
        seen.risk.append(risk(tables, split.labels, models, setup.weight))
        averaged = np.array([node.coef for node in run.nodes])
        seen.averaged_risk.append(risk(tables, split.labels, averaged, setup.weight))
        seen.distance.append(float(np.linalg.norm(models[:, None] - models[None], axis=2).max()))
        norms = np.linalg.norm(models, axis=1)
        seen.norm_gap.append(float(norms.max() - norms.min()))
        seen.largest_norm = max(seen.largest_norm, float(norms.max()))

    result = run.go(checkpoint=look)
    models = _models(run)
    seen.averaged, seen.last = np.asarray(result.model.coef), models.mean(axis=0)
    seen.averaged_by_server = np.array([node.coef for node in run.nodes])
    sides = [node.side for node in run.nodes]
    used = [side.data.labels if isinstance(side, PdmlNode) else y for side, y in zip(sides, split.labels, strict=True)]
    seen.flipped = float(np.mean(np.concatenate(used) != np.concatenate(split.labels)))
    return seen


def _light(table: Array) -> Array | csr_array:
    """Sparse where most entries are 0."""
    return csr_array(table) if np.count_nonzero(table) < SPARSE * table.size else table


def _models(run: GraphRun) -> Array:
    """w_i(t), without the noise that is added before it is sent."""
    return np.array([node.side.model if isinstance(node.side, PdmlNode) else node.coef for node in run.nodes])


def risk(tables: Sequence[Array | csr_array], labels: Sequence[Vector], models: Array, weight: float) -> float:
    """Objective (1): the sum over the servers of mean loss + a/(2n) |w_i|^2."""
    losses = [
        float(np.logaddexp(0.0, -y * (table @ w)).mean()) for table, y, w in zip(tables, labels, models, strict=True)
    ]
    return sum(losses) + 0.5 * weight / len(tables) * float(np.sum(models**2))


def optimum(X: Array, y: Vector, weight: float, epsilon: float | None = None, linear: Vector | None = None) -> Vector:
    """What ADMM tends to: the minimiser of mean loss + a/(2n) |w|^2 + (linear/n) . w, labels as they are given."""
    loss = get_loss("logistic")
    data = NodeData(Block(_light(X)), y)
    local = LocalProblem(data, loss if epsilon is None else modified(loss, epsilon), 1 / len(y), weight / NODES, False)
    zero = np.zeros(X.shape[1])
    return local.solve(zero if linear is None else linear / NODES, 0.0, zero, 1e-9).point


def accuracy(X: Array, y: Vector, w: Vector) -> float:
    """Percent of the labels that the sign of the score gives."""
    return 100.0 * float(np.mean(np.where(X @ w >= 0, 1.0, -1.0) == y))
