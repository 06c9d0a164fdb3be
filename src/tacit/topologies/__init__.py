"""Graphs of the sample split: who may talk to whom."""

from tacit.topologies.graph import Graph
from tacit.topologies.make import GRAPHS, make_graph

__all__ = ["GRAPHS", "Graph", "make_graph"]
