"""Layouts of a run and graphs of the sample split: who holds what, and who may talk to whom."""

from tacit.topologies.graph import GRAPHS, Graph, make_graph
from tacit.topologies.layout import FeatureSplit, Layout, SampleSplit

__all__ = ["GRAPHS", "FeatureSplit", "Graph", "Layout", "SampleSplit", "make_graph"]
