"""Graphs: the kinds, what is refused, and the numbers that algorithms take from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csgraph

from tacit import InputError
from tacit.topologies import GRAPHS, Graph, make_graph


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 10, 23])
@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_every_kind_is_a_connected_simple_graph(kind, nodes):
    graph = make_graph(kind, nodes, seed=3)  # Graph refuses what is not connected or not simple
    assert graph.nodes == nodes
    assert sum(graph.degrees) == 2 * len(graph.edges)
    for name in graph.names:
        assert all(name in graph.neighbours(other) for other in graph.neighbours(name))


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 40, 101])
@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_diameter_centre_and_tree_are_those_of_all_shortest_ways(kind, nodes):
    graph = make_graph(kind, nodes, seed=1)
    adjacency = np.zeros((nodes, nodes))
    for a, b in graph.edges:
        adjacency[a, b] = adjacency[b, a] = 1
    steps = csgraph.shortest_path(adjacency, unweighted=True)
    furthest = steps.max(axis=1)
    assert graph.diameter == furthest.max()
    assert graph.centre == furthest.argmin()
    parents, heights = graph.tree
    assert heights[graph.centre] == furthest.min()
    for node, parent in enumerate(parents):
        assert (
            (node in graph.children[parent] and heights[parent] > heights[node])
            if parent >= 0
            else node == graph.centre
        )


def test_sizes_and_diameters_of_the_kinds():
    assert [len(make_graph(kind, 10).edges) for kind in ("ring", "complete", "star", "random")] == [10, 45, 9, 13]
    assert [make_graph(kind, 10).diameter for kind in ("ring", "complete", "star")] == [5, 1, 2]
    assert make_graph("grid", 12).degrees.count(2) == 4
    assert make_graph("random", 3).edges == make_graph("complete", 3).edges


def test_random_graphs_follow_their_seed():
    assert make_graph("random", 10, 1) == make_graph("random", 10, 1)
    assert len({make_graph("random", 10, seed).edges for seed in range(10)}) > 5


def test_numbers_of_a_ring():
    ring = make_graph("ring", 8)
    wave = 2 - 2 * np.cos(2 * np.pi * np.arange(8) / 8)
    np.testing.assert_allclose(ring.spectrum, np.sort(wave), atol=1e-12)
    np.testing.assert_allclose(ring.signless_spectrum, np.sort(4 - wave), atol=1e-12)


def test_a_tree_of_shortest_ways():
    star = make_graph("star", 5)
    assert star.centre == 0
    assert star.parents_from(0) == (-1, 0, 0, 0, 0)
    assert star.parents_from(3) == (3, 0, 0, -1, 0)


def test_edges_by_name_by_number_and_from_other_libraries():
    names = ("a", "b", "c")
    wanted = Graph(names, ((0, 1), (1, 2)))
    assert make_graph([("b", "a"), ("b", "c")], names) == wanted
    assert make_graph([(1, 0), (2, 1)], names) == wanted
    assert make_graph(wanted, names) == wanted

    class Networkx:  # the two attributes that are used
        nodes = ("c", "a", "b")
        edges = (("a", "b"), ("c", "b"))

    assert make_graph(Networkx(), names) == wanted
    Networkx.nodes, Networkx.edges = (7, 8, 9), ((7, 8), (8, 9))
    assert make_graph(Networkx(), names) == wanted
    with pytest.raises(InputError, match="graph has 3 nodes: the data have 2"):
        make_graph(Networkx(), names[:2])


def test_networkx_itself():
    networkx = pytest.importorskip("networkx")
    assert len(make_graph(networkx.cycle_graph(6), 6).edges) == 6
    with pytest.raises(InputError, match="falls into 2 parts"):
        make_graph(networkx.Graph([(0, 1), (2, 3)]), 4)


@pytest.mark.parametrize(
    ("kind", "nodes", "message"),
    [
        ("circle", 4, "graph='circle' is unknown: choose one of complete, grid, random, ring, star"),
        ([("a", "b"), ("c", "d")], "abcd", r"the graph falls into 2 parts \(a, b; c, d\): add edges between them"),
        ([("a", "b")], "abc", "node 'c' has no neighbour: give it an edge, or leave it out"),
        ([("a", "a"), ("a", "b")], "ab", "the edge from 'a' to itself is not allowed"),
        ([("a", "b"), ("b", "a")], "ab", "the edge between 'a' and 'b' is given twice: give it once"),
        ([("a", "z")], "ab", "unknown node 'z': choose from a, b, or numbers 0 to 1"),
        ([(0, 2)], "ab", "unknown node 2"),
        ([(0, 1, 2)], "abc", r"edge \(0, 1, 2\) is not allowed: give pairs of nodes"),
        (7, "ab", "graph=7 is not allowed"),
        ([], "aa", "two nodes have the name 'a': rename one"),
        ([], "", "a graph needs at least 1 node"),
    ],
)
def test_what_is_refused(kind, nodes, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_graph(kind, nodes if isinstance(nodes, int) else tuple(nodes))
    assert "\n" not in str(refusal.value)
