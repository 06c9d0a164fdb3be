"""The plan of a run: every choice checked together, before any row is looked at.

The only layer that knows losses, regularizers, solvers and mechanisms at once. It refuses pairs that do not work,
fills in what the user left open, and states what will travel and what will be claimed.

| file | holds |
|---|---|
| request.py | `TrainingRequest`: all that a user asks |
| splits.py | what was chosen for a run, and what differs between the two splits |
| make.py | `Plan` and `make_plan`: from a request and a layout to a plan, for both splits |
| describe.py | a plan as plain values and in words, for `tacit plan` and `print` |
| memory.py | how a run fits into a stated amount of memory |

Who holds what is a layout (`tacit.topologies`); noise and claims are a mechanism's (`tacit.mechanisms`).
"""

from __future__ import annotations

from tacit.mechanisms.base import PrivatePlan
from tacit.plan.make import Plan, make_plan
from tacit.plan.request import TrainingRequest
from tacit.topologies import FeatureSplit, SampleSplit

__all__ = ["FeatureSplit", "Plan", "PrivatePlan", "SampleSplit", "TrainingRequest", "make_plan"]
