"""Layouts of a run and graphs of the sample split: who holds what, and who may talk to whom."""

from tacit.topologies.layout import GRAPHS, FeatureSplit, Graph, Layout, SampleSplit, make_graph, mask_graph

__all__ = ["GRAPHS", "FeatureSplit", "Graph", "Layout", "SampleSplit", "make_graph", "mask_graph"]
