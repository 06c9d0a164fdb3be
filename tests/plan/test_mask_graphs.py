"""Claims under masks against brute force: every connected graph of up to six nodes, and every coalition.

The oracle is linear algebra in exact fractions. With Gaussian masks of deviation c on the edges of the honest part of a
graph with Laplacian L, and noise of deviation s at each node, a change of size D at node i costs mu with

    mu^2 = D^2 [(s^2 I + c^2 L)^-1]_ii .

Masks modulo a power of two are c = infinity. With t = c^2/s^2 the entry of (I + t L)^-1 falls to its limit, and is
above it by at most 1/(1 + t a), where a, the least positive eigenvalue of L, is at least 4/36 for six nodes or fewer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx
import pytest

import tacit.topologies.layout as layouts
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.certificate import up
from tacit.privacy.claim import Claim
from tacit.privacy.events import GaussianRelease
from tacit.privacy.releases import Allowed
from tacit.privacy.request import Privacy
from tacit.topologies import Graph, make_graph, mask_graph
from tests.plans import sample_plan

LARGE = 10**12  # t
ATLAS = [graph for graph in nx.graph_atlas_g() if 1 <= len(graph) <= 6 and nx.is_connected(graph)]


def coalitions(nodes: int, most: int) -> list[tuple[int, ...]]:
    return [some for size in range(most + 1) for some in combinations(range(nodes), size)]


@cache
def limits(nodes: int, edges: tuple[tuple[int, int], ...]) -> tuple[Fraction, ...]:
    """The diagonal of (I + t L)^-1 for a large t, exactly, by elimination."""
    rows = [
        [Fraction(int(i == j)) for j in range(nodes)] + [Fraction(int(i == j)) for j in range(nodes)]
        for i in range(nodes)
    ]
    for a, b in edges:
        for i, j, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            rows[i][j] += sign * LARGE
    for k in range(nodes):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(nodes):
            if i != k and rows[i][k]:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return tuple(rows[k][nodes + k] for k in range(nodes))


def hidden_with(graph: Graph, coalition: tuple[int, ...]) -> dict[int, Fraction]:
    """By honest node: mu^2 in units of D^2/s^2, from the Laplacian of the honest part."""
    kept = [k for k in range(graph.nodes) if k not in coalition]
    place = {node: k for k, node in enumerate(kept)}
    edges = tuple((place[a], place[b]) for a, b in graph.edges if a in place and b in place)
    return dict(zip(kept, limits(len(kept), edges), strict=True))


def test_a_coalition_leaves_the_parts_that_the_formula_says() -> None:
    compared = 0
    for one in ATLAS:
        graph = make_graph(list(one.edges), len(one))
        for coalition in coalitions(graph.nodes, graph.nodes - 1):
            found = hidden_with(graph, coalition)
            sizes = {node: len(part) for part in graph.parts_without(coalition) for node in part}
            assert sizes.keys() == found.keys()
            for node, entry in found.items():
                assert 0 <= entry - Fraction(1, sizes[node]) <= Fraction(9, LARGE)
                compared += 1
    assert compared > 20_000


def plan_for(graph: Graph, honest: int | None, columns: int = 2) -> Plan:
    return sample_plan(
        loss="logistic", penalty="l2", alpha=0.0, fit_intercept=True, method="gaussian", published=False, rho="auto",
        max_rounds=1000, tol=1e-4, privacy=Privacy(epsilon=1.0, honest=honest), graph=graph,
        rows=(500,) * graph.nodes, columns=columns, secure_aggregation=True,
    )  # fmt: skip


def cost(plan: Plan, claim: Claim, entry: float) -> list[GaussianRelease]:
    """What a row of a node pays where its noise share hides it with what the formula says."""
    assert plan.private is not None
    found = []
    for event, planned in zip(claim.events, plan.private.releases[claim.party], strict=True):
        assert isinstance(event, GaussianRelease)
        assert isinstance(planned, Allowed)
        found.append(GaussianRelease(event.sensitivity, planned.sd / math.sqrt(entry), event.count))
    return found


def mu_of(events: Any) -> float:
    return math.sqrt(math.fsum(event.count * event.mu**2 for event in events))


@cache
def worst_entries(graph: Graph) -> tuple[tuple[float, ...], ...]:
    """By size of a coalition and by node: the largest entry that any such coalition leaves."""
    worst = [[0.0] * graph.nodes for _ in range(graph.nodes)]
    for coalition in coalitions(graph.nodes, graph.nodes - 1):
        for node, entry in hidden_with(graph, coalition).items():
            worst[len(coalition)][node] = max(worst[len(coalition)][node], float(entry))
    return tuple(map(tuple, worst))


def test_every_plan_claims_what_the_worst_coalition_leaves() -> None:
    """For every graph and some `honest`: n - h nodes cost what is claimed, whoever they are; one more costs more."""
    for number, one in enumerate(ATLAS):
        if len(one) < 3:
            continue
        graph = make_graph(list(one.edges), len(one))
        nodes, honest = graph.nodes, 1 + number % (len(one) - 1)
        plan = plan_for(graph, honest)
        for claim in plan.certificate().claims:
            claimed, alone = mu_of(claim.events), mu_of(cost(plan, claim, 1.0))
            for size, entries in enumerate(worst_entries(plan.mask_graph)):
                found = alone * math.sqrt(entries[graph.number(claim.party)]) / claimed
                assert found == pytest.approx(math.sqrt(honest / (nodes - size)), rel=1e-9)
                assert (found <= 1 + 1e-9) is (size <= nodes - honest)


AUTO = {
    "three nodes": (3, Privacy(epsilon=1.0), True),
    "half of them honest": (6, Privacy(epsilon=1.0, honest=3), True),
    "two nodes": (2, Privacy(epsilon=1.0), False),
    "epsilons of their own": (3, Privacy(epsilon=1.0, epsilon_by_party={"node 1": 2.0}), False),
    "a paper's mechanism": (3, Privacy(epsilon=1.0, mechanism="primal"), False),
    "no privacy": (3, None, False),
}


@pytest.mark.parametrize("name", AUTO)
def test_auto_takes_masks_where_they_are_possible(name: str) -> None:
    nodes, privacy, masked = AUTO[name]
    asked = {"loss": "logistic", "penalty": "l2", "alpha": 0.1, "fit_intercept": False, "tol": 1e-4, "privacy": privacy}
    asked["fit_intercept"] = privacy is None or privacy.mechanism == "auto"
    layout = {"graph": make_graph("ring", nodes), "rows": (50,) * nodes, "columns": 2}
    plan, same = (sample_plan(**asked, **layout, secure_aggregation=secure) for secure in ("auto", masked))  # type: ignore[arg-type]
    assert plan.secure is masked
    assert plan.record() == same.record()
    assert ("travel under masks" in str(plan)) is masked


@pytest.mark.parametrize("close", [1, 2])
def test_honest_nodes_are_connected_whichever_they_are(close: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all pairs share masks: fewer nodes than one has partners never cut, and its partners do."""
    monkeypatch.setattr(layouts, "CLOSE", close)
    for nodes in range(3, 9):
        names = tuple(f"node {k}" for k in range(nodes))
        for honest in range(1, nodes):
            graph = mask_graph(names, honest)
            partners = set(graph.degrees)
            assert len(partners) == 1
            (count,) = partners
            assert count >= min(nodes - 1, nodes - honest + 1)
            for coalition in coalitions(nodes, count - 1):
                assert len(graph.parts_without(coalition)) == 1
            if count < nodes - 1:
                assert {0} in graph.parts_without(graph.adjacent[0])


def test_how_many_share_masks() -> None:
    for nodes, honest, count in ((3, 2, 2), (10, 9, 9), (17, 16, 16), (18, 17, 16), (100, 99, 16), (100, 50, 52)):
        graph = mask_graph(tuple(map(str, range(nodes))), honest)
        assert set(graph.degrees) == {count}


@pytest.mark.parametrize(("nodes", "honest"), [(5, None), (30, 20), (30, 29)])
def test_the_certificate_names_the_worst_cut_and_what_is_left(nodes: int, honest: int | None) -> None:
    plan = plan_for(make_graph("ring", nodes), honest)
    certificate, kept = plan.certificate(), nodes - 1 if honest is None else honest
    name, partners = plan.graph.names[0], plan.mask_graph.adjacent[0]
    who = "any one other node" if nodes - kept == 1 else f"any {nodes - kept} other nodes together"
    assert certificate.adversary.startswith(f"{who}, anywhere in the graph and with every message of the run")
    (cut,) = (line for line in certificate.does_not_cover if line.startswith("the worst cut"))
    graph = plan.mask_graph
    claim = next(one for one in certificate.claims if one.party == name)
    alone = accountant.epsilon(cost(plan, claim, 1.0), 1e-5)
    assert [part for part in graph.parts_without(partners) if 0 in part] == [{0}]
    assert f"the {len(partners)} nodes" in cut
    assert cut.endswith(f"its own noise alone gives epsilon {up(alone)}")
    assert graph.names[partners[0]] in cut
    assert graph.names[partners[-1]] in cut
    more = accountant.epsilon(cost(plan, claim, 1 / (kept - 1)), 1e-5)
    (line,) = (line for line in certificate.does_not_cover if line.startswith(f"{nodes - kept + 1} nodes that pool"))
    assert line.endswith(f"epsilon {up(more)}")
    assert cut in str(plan).replace("\n              ", " ")
