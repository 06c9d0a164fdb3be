"""What the paper claims of its privacy: whole runs added up, and densities of single rounds compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit.audit.graph.rounds import density_ratios, drawn_rounds, inside_last, paper_alpha
from tacit.estimators.horizontal import HorizontalClassifier
from tacit.papers.reproduction.dynamic.runs import make_plan
from tacit.papers.reproduction.dynamic.settings import DELTA, DVP, PVP, Run, adult_rows
from tacit.papers.reproduction.work import Outcome, Settings
from tacit.papers.tuning_cost import run_epsilon
from tacit.plan.graph_dual import dual_round, published_round
from tacit.plan.graph_papers import NodeBounds
from tacit.privacy import accountant
from tacit.privacy.events import NormRelease
from tacit.privacy.request import Privacy

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
