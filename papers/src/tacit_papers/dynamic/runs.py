"""Run the paper's algorithms and watch every iteration; add up whole runs, and compare densities of single rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from tacit.audit.graph.attacks import density_ratios, drawn_rounds, inside_last, paper_alpha
from tacit.estimators.base import Groups, deal_out
from tacit.estimators.horizontal import HorizontalClassifier
from tacit.mechanisms.perturbed.dual import dual_round, published_round
from tacit.mechanisms.perturbed.plan import NodeBounds
from tacit.plan import Plan, SampleSplit, TrainingRequest
from tacit.plan import make_plan as plan_of
from tacit.privacy import accountant
from tacit.privacy.events import NormRelease
from tacit.privacy.request import PaperOptions, Privacy
from tacit.run.graph import GraphRun
from tacit.topologies import make_graph
from tacit.types import Vector
from tacit_papers.design.tuning_cost import run_epsilon
from tacit_papers.dynamic.settings import DELTA, DVP, PVP, Rows, Run, adult_rows
from tacit_papers.work import Outcome, Settings

# --- run the paper's algorithms, and watch every iteration -------------------------------------------

SILENT = 1e10  # alpha of Algorithm 1, which is DVP without noise: at this alpha its norm is 1e-8
ENOUGH = 1e6  # an epsilon that refuses nothing: the alphas decide here


def run_algorithm(settings: Settings) -> Outcome:
    """Loss at each iteration, and what came out at the end, for each seed.

    Losses are means over rows: the paper's empirical loss without its factor C^R. "loss" is that of f_p on the
    node's own rows, in the mean over nodes; "released" that of what it sends; "joint" that of the mean model on all.
    """
    run = Run(**settings)
    rows = adult_rows(run.rows)
    graph = make_graph(run.graph, run.nodes, 0)
    found = {"nodes": run.nodes, "edges": sum(graph.degrees) // 2, "rows": len(rows.train), "eta": run.eta}
    return {**found, "seeds": [_one(run, rows, seed) for seed in range(run.seeds)]}


def make_plan(run: Run, sizes: tuple[int, ...], columns: int, seed: int) -> Plan:
    """The paper's parameters as a plan; in its iterations `alpha` of the penalty is rho/C^R."""
    request = TrainingRequest(
        loss="logistic", penalty="l2", alpha=run.ridge / run.weight, fit_intercept=False,
        method="primal" if run.algorithm == "pvp" else "dual", published=not run.sound,
        rho=run.eta, max_rounds=run.iterations + 1, tol=0.0,
        privacy=Privacy(epsilon=ENOUGH, delta=DELTA, row_norm=1.0, noise_seed=seed),
        options=PaperOptions(
            alphas=run.alpha or SILENT, rounds=run.iterations + 1, loss_weight=run.weight
        ),
    )  # fmt: skip
    return plan_of(request, SampleSplit(make_graph(run.graph, run.nodes, 0), sizes, columns))


def _one(run: Run, rows: Rows, seed: int) -> dict[str, Any]:
    groups = deal_out(sparse.csr_matrix(rows.train), rows.labels, None, run.nodes, np.random.RandomState(seed))
    plan = make_plan(run, groups.sizes, rows.train.shape[1], seed)
    names = tuple(f"column {k + 1}" for k in range(plan.samples.columns))
    watched = _Watched(groups, rows, run)
    GraphRun(plan, groups.shards(plan.graph.names, names), groups.labels).go(checkpoint=watched)
    return watched.record()


class _Watched:
    """What each iteration left behind; called after every round."""

    def __init__(self, groups: Groups, rows: Rows, run: Run) -> None:
        self.groups, self.rows, self.iterations = groups, rows, run.iterations
        self.together = run.algorithm == "none"
        self.joint: list[float] = []
        self.loss: list[float] = []
        self.released: list[float] = []
        self.at: dict[str, Any] = {}

    def __call__(self, run: GraphRun) -> None:
        sides: list[Any] = [node.side for node in run.nodes]
        done = run.state.rounds
        if done <= self.iterations:
            self.loss.append(self._mean_loss([side.model for side in sides]))
            self.released.append(self._mean_loss([side.released for side in sides]))
            if self.together:
                mean = np.mean([side.model for side in sides], axis=0)
                self.joint.append(_digits(mean_loss(self.rows.train @ mean, self.rows.labels)))
        if done >= self.iterations:
            when = "last" if done == self.iterations else "final"
            self.at[when] = self._measure(np.array([side.model for side in sides]))

    def _mean_loss(self, models: list[Vector]) -> float:
        """Mean over the nodes of the loss of a node's own model on its own rows."""
        parts = zip(self.groups.tables, self.groups.labels, models, strict=True)
        return _digits(np.mean([mean_loss(np.asarray(rows @ model), labels) for rows, labels, model in parts]))

    def _measure(self, models: Vector) -> dict[str, Any]:
        """Loss on own rows, and the part of the test rows with a wrong label, in the mean over the nodes."""
        scores = self.rows.test @ models.T
        labels = self.rows.test_labels
        wrong = [float(np.mean(np.where(one > 0, 1.0, -1.0) != labels)) for one in scores.T]
        together = np.asarray(self.rows.test @ models.mean(axis=0))
        return {
            "loss": self._mean_loss(list(models)),
            "error": _digits(np.mean(wrong)),
            "error_of_mean": _digits(np.mean(np.where(together > 0, 1.0, -1.0) != labels)),
            "norm": _digits(np.mean(np.linalg.norm(models, axis=1))),
        }

    def record(self) -> dict[str, Any]:
        """As JSON."""
        joint = {"joint": self.joint} if self.together else {}
        return {"loss": self.loss, "released": self.released, **joint, **self.at}


def mean_loss(scores: Vector, labels: Vector) -> float:
    """Mean logistic loss."""
    return float(np.logaddexp(0.0, -labels * scores).mean())


def _digits(value: Any) -> float:
    """Seven digits are enough for pictures, and keep stored outcomes small."""
    number = float(value)
    return (
        number if number == 0 or not math.isfinite(number) else round(number, 6 - math.floor(math.log10(abs(number))))
    )


def run_pooled(settings: Settings) -> Outcome:
    """All rows in one place: the minimum that Algorithm 1 should come to, by scikit-learn."""
    run = Run(**settings)
    rows = adult_rows(run.rows)
    strength = run.weight / (len(rows.train) / run.nodes) / run.ridge  # of C^R/B_p sum of losses + rho/2 |f|^2
    model = LogisticRegression(C=strength, fit_intercept=False, solver="newton-cg", tol=1e-7, max_iter=500)
    model.fit(rows.train, rows.labels)
    coef = model.coef_[0]
    wrong = np.where(rows.test @ coef > 0, 1.0, -1.0) != rows.test_labels
    return {
        "loss": mean_loss(rows.train @ coef, rows.labels),
        "error": float(wrong.mean()),
        "norm": float(np.linalg.norm(coef)),
        "rows": len(rows.train),
        "test_rows": len(rows.test),
        "columns": rows.train.shape[1],
    }


# --- what the paper claims of its privacy: whole runs added up, and densities of single rounds compared ---

COLUMNS = 105
PAIRS = 20


def add_up_rounds(settings: Settings) -> Outcome:
    """Epsilon of whole runs at delta 1e-5 (settings: alphas, rounds, and the rows of a node).

    "stated" takes each iteration for alpha-DP, as the paper does, and knows nothing else of it. "dvp_printed" and
    "dvp_sound" take each iteration of DVP, as printed and corrected, for what its noise gives at the node with most
    neighbours, where the determinant takes least; that its direction is uniform makes it better than its alpha.
    """
    rounds, node = int(settings["rounds"]), _node(int(settings["rows"]))
    found: Outcome = {
        "rounds": rounds,
        "delta": DELTA,
        "stated": {},
        "dvp_round": {},
        "dvp_printed": {},
        "dvp_sound": {},
    }
    for alpha in settings["alphas"]:
        printed, sound = published_round(node, alpha), dual_round(node, alpha)
        found["stated"][str(alpha)] = run_epsilon(alpha, rounds, DELTA)
        found["dvp_round"][str(alpha)] = printed.change + printed.volume
        for name, one in (("dvp_printed", printed), ("dvp_sound", sound)):
            released = NormRelease(one.change, COLUMNS, one.volume, rounds)
            found[name][str(alpha)] = accountant.epsilon([released], DELTA)
    return found


def _node(rows: int, degree: int = 5) -> NodeBounds:
    """A node as in the experiments."""
    modulus = DVP.ridge + 2 * DVP.eta * degree
    return NodeBounds("", rows, degree, DVP.weight, DVP.ridge, DVP.eta, modulus, 1.0, 1.0, 0.25, COLUMNS)


def compare_densities(settings: Settings) -> Outcome:
    """The largest log ratio of densities found in each round on neighbouring rows, and what the paper says of it.

    Settings: those of a `Run`, whose plan is audited at one node; rows are generated, chosen to be bad.
    """
    run = Run(**settings)
    sizes = (run.rows // run.nodes,) * run.nodes
    plan = make_plan(run, sizes, COLUMNS, 0)
    name = max(plan.graph.names, key=lambda one: len(plan.graph.neighbours(one)))
    claim = next(one for one in plan.certificate().claims if one.unit == "record" and one.party == name)
    found = density_ratios(plan, claim, PAIRS, np.random.default_rng(0))
    last, drawn = inside_last(plan), drawn_rounds(plan, name)
    inside = [t for t in drawn if run.algorithm == "dvp" or t == last]
    said = {t: run.alpha if run.sound or t not in inside else paper_alpha(plan, name, t) for t in drawn}
    return {
        "rounds": [one.round for one in found],
        "found": [float(one.found) for one in found],
        "said": [float(said[one.round]) for one in found],
        "last": last,
        "proven": [one.claimed for one in found],
    }


def audited() -> dict[str, Run]:
    """What is audited: two rounds of DVP, printed and corrected; PVP for as long as its own state needs to run away."""
    dual = replace(DVP, alpha=0.5, iterations=1)
    primal = replace(PVP, alpha=0.5, iterations=29, eta=0.5, nodes=2, graph="complete")
    return {
        "dvp": dual,
        "dvp-half": replace(dual, sound=True),
        "pvp": primal,
        "pvp-released": replace(primal, sound=True),
    }


def run_default(settings: Settings) -> Outcome:
    """The default method of the sample split on the same rows, at whole-run epsilons."""
    rows = adult_rows(int(settings["rows"]))
    found = {}
    for epsilon in settings["epsilons"]:
        model = HorizontalClassifier(
            parties=int(settings["nodes"]), random_state=0, privacy=Privacy(epsilon=epsilon, delta=DELTA, noise_seed=0)
        )
        model.fit(rows.train, rows.labels)
        chances = model.predict_proba(rows.train)
        loss = -np.log(np.where(rows.labels > 0, chances[:, 1], chances[:, 0])).mean()
        wrong = np.mean(model.predict(rows.test) != rows.test_labels)
        found[str(epsilon)] = {"loss": float(loss), "error": float(wrong)}
    return {"epsilons": found, "delta": DELTA}
