"""The plan of a sample split before it runs: rounds, noise by node, claims, traffic by node, and outlook.

As describe.py for the feature split; the records of both share the names of what they have in common.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit.plan.describe import (
    FORMAT,
    INFINITE,
    NUMBER,
    certificate_record,
    headline,
    many,
    noise_words,
    one,
    proven,
    release,
)
from tacit.solvers.consensus.admm import MOST_SUMS
from tacit.solvers.consensus.everybody import TreeSum
from tacit.text import plural, size

if TYPE_CHECKING:
    from tacit.mechanisms.base import PrivateGraphPlan
    from tacit.plan.graph import GraphPlan

MASKED = 3  # words in which a number of such a sum travels under masks
METHODS = {
    "gaussian": "Gaussian noise on all that each node releases, calibrated to the whole run",
    "dual": "dual variable perturbation: noise in each node's objective, in every round",
    "primal": "primal variable perturbation: noise on each node's model, in every round",
    "pdml": "labels that are randomized once, and decaying noise on each node's model",
}
ORDINARY = "none: consensus ADMM, without noise"
GIVEN = "consensus ADMM without noise, with the unbiased loss of labels that were randomized by their contributors"
GIVEN_PDML = "labels that were randomized by their contributors, and decaying noise on each node's model"


def record(plan: GraphPlan) -> dict[str, Any]:
    """What can be said before any row is used, as plain values for JSON; infinite numbers are "infinity"."""
    certificate, private, graph = plan.certificate(), plan.private, plan.graph
    at = None if certificate.target is None else certificate.target.delta
    whole = math.inf if at is None else certificate.epsilon(at)
    return {
        "format": FORMAT,
        "split": "samples",
        "private": certificate.private,
        "epsilon": whole if math.isfinite(whole) else INFINITE,
        "delta": at,
        "mechanism": None if private is None else private.method,
        "in_words": method_words(plan),
        "rows": plan.problem.rows,
        "rows_by_party": dict(zip(graph.names, plan.rows, strict=True)),
        "columns": plan.columns,
        "parties": list(graph.names),
        "graph": {"edges": len(graph.edges), "diameter": graph.diameter},
        "rounds": {"most": plan.most_rounds, "fixed": plan.fixed_rounds},
        "noise": [] if private is None else _noise(private),
        **certificate_record(certificate),
        "traffic": traffic(plan),
        "outlook": [] if private is None else list(private.outlook),
    }


def method_words(plan: GraphPlan) -> str:
    """Method in words."""
    if plan.private is None:
        return GIVEN if plan.label_epsilons else ORDINARY
    words = GIVEN_PDML if plan.label_epsilons else METHODS[plan.private.method]
    seeded = plan.private.privacy.noise_seed is not None
    return words + ("; the noise comes from a seed, so nobody is protected from those who know it" if seeded else "")


def _noise(private: PrivateGraphPlan) -> list[dict[str, Any]]:
    """Planned releases with their noise; those of several rounds in one entry, from the first to the last."""
    found: list[dict[str, Any]] = []
    for party, releases in private.releases.items():
        groups: dict[str, list[dict[str, Any]]] = {}
        for planned in releases:
            item = release(planned)
            groups.setdefault(re.sub(r" \d+$", "", item["release"]), []).append(item)
        for name, items in groups.items():
            entry = {"party": party, **items[0], "release": name, "times": sum(item["times"] for item in items)}
            for key in ("deviation", "rate"):
                if key in entry and items[-1][key] != items[0][key]:
                    entry[f"last_{key}"] = items[-1][key]
            found.append(entry)
    return found


def traffic(plan: GraphPlan) -> dict[str, Any]:
    """Payload that each node sends to its neighbours: of the run where that is fixed, else of one round, about."""
    fixed, graph = plan.fixed_rounds, plan.graph
    if plan.private is not None and plan.private.method == "gaussian":
        sent = _along_the_tree(plan, plan.private)
    else:
        numbers = (plan.columns + int(plan.problem.fit_intercept)) * (plan.most_rounds if fixed else 1)
        sent = {name: NUMBER * numbers * len(graph.neighbours(name)) for name in graph.names}
    return {"of": "run" if fixed else "round", "exact": fixed, "parties": sent, "bytes": sum(sent.values())}


def _along_the_tree(plan: GraphPlan, private: PrivateGraphPlan) -> dict[str, int]:
    """Of a method all of whose sums go up a tree, under masks perhaps, and down again."""
    settings = private.settings
    size = NUMBER * (settings.rounds * (settings.columns + 1) + (settings.centre_size if settings.centred else 0))
    trees = {name: TreeSum(plan.graph, name) for name in plan.graph.names}
    up = MASKED if private.masked else 1
    return {name: size * (len(tree.children) + up * (tree.parent is not None)) for name, tree in trees.items()}


# --- in words ----------------------------------------------------------------------------------------


def lines(plan: GraphPlan) -> list[str]:
    """The record in words."""
    found = record(plan)
    graph = found["graph"]
    said = [*one("method", found["in_words"]), *one("rounds", _rounds(found))]
    said += one("graph", f"{plural(len(found['parties']), 'node')}, {plural(graph['edges'], 'edge')}, at most "
                f"{plural(graph['diameter'], 'step')} from one node to another")  # fmt: skip
    said += one("traffic", _traffic(plan, found["traffic"]))
    said += many("noise", [_noise_words(item) for item in found["noise"]])
    said += one("claim", headline(found))
    said += many("caution", found["cautions"])
    said += many("proven", proven(found))
    said += many("covered", found["covers"]) if found["claims"] else []
    said += many("not covered", found["does_not_cover"])
    said += many("assumed", found["assumptions"])
    said += many("worth it?", found["outlook"])
    return said


def _rounds(found: Mapping[str, Any]) -> str:
    most = found["rounds"]["most"]
    return f"{most}, fixed beforehand" if found["rounds"]["fixed"] else f"until all nodes agree to stop, at most {most}"


def _traffic(plan: GraphPlan, found: Mapping[str, Any]) -> str:
    about = "" if found["exact"] else "about "
    parts = ", ".join(f"{name} {size(sent)}" for name, sent in found["parties"].items())
    when = "in the whole run" if found["of"] == "run" else "in each round"
    said = f"{about}{parts}, each to its neighbours {when}"
    if plan.private is None and plan.graph.nodes > 1:
        said += f"; besides, up to {MOST_SUMS} times a sum of the nodes' curvature"
    return said


def _noise_words(item: Mapping[str, Any]) -> str:
    if "epsilon" in item:
        return noise_words(item)
    times = "" if item["times"] == 1 else f", {item['times']} times"
    key, what = ("deviation", "deviation") if "deviation" in item else ("rate", "density exp(-rate |e|), rate")
    last = f" down to {item[f'last_{key}']:.4g}" if f"last_{key}" in item else ""
    last = last.replace(" down to", " up to") if item.get(f"last_{key}", 0) > item[key] else last
    return f"{item['party']}: {item['release']}{times}, {what} {item[key]:.4g}{last}"
