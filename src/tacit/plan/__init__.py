"""The plan of a run: every choice checked together, before any row is looked at.

The only layer that knows losses, regularizers, algorithms and privacy at once. It refuses pairs that do not work,
fills in what the user left open, and states what will travel and what will be claimed.

| file | holds |
|---|---|
| make.py | `Plan` and `make_plan`: the checks that every run needs |
| private.py | `PrivatePlan`: what privacy adds, and which mechanism answers which request |
| describe.py | a plan as plain values and in words, for `tacit plan` and `print` |
| graph.py | `GraphPlan` and `make_graph_plan`: the same for the sample split, and its private methods |
| gram.py, shares.py, published.py | one mechanism each: its noise, its claims, its certificate |
| graph_gaussian.py | the same for the private method of the sample split |
"""

from __future__ import annotations

from tacit.mechanisms.base import PrivatePlan
from tacit.plan.graph import GraphPlan, make_graph_plan
from tacit.plan.make import Plan, make_plan

__all__ = ["GraphPlan", "Plan", "PrivatePlan", "make_graph_plan", "make_plan"]
