"""The private method of the sample split: private centre, the half loss, row weights, Gaussian noise; nothing to tune.

| file | holds |
|---|---|
| settings.py | public numbers, and the bounds behind the noise |
| node.py | a node's side: its rows, the centre from noisy sums, local solves or gradients, what noise does |
| plan.py | `Gaussian`: from what was asked to noise, planned releases and a certificate, and their words |

Theorems: docs/proofs/graph.md.
"""

from tacit.mechanisms.gaussian.node import ExactNode, GradientNode
from tacit.solvers.consensus.base import PrivateConsensus

EXACT = PrivateConsensus("gaussian", ExactNode)
GRADIENT_FORM = PrivateConsensus("gaussian, gradients", GradientNode)

__all__ = ["EXACT", "GRADIENT_FORM", "ExactNode", "GradientNode"]
