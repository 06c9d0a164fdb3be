"""Layouts of a run and graphs of the sample split: who holds what, and who may talk to whom."""

from tacit.topologies.graph import Graph
from tacit.topologies.layout import FeatureSplit, Layout, SampleSplit
from tacit.topologies.make import GRAPHS, make_graph

__all__ = ["GRAPHS", "FeatureSplit", "Graph", "Layout", "SampleSplit", "make_graph"]
