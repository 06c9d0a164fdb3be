"""The private method of the sample split: private centre, the half loss, row weights, Gaussian noise; nothing to tune.

| file | holds |
|---|---|
| settings.py | public numbers, and the bounds behind the noise |
| rows.py | rows in the coordinates of the centre |
| centre.py | the centre from noisy sums |
| node.py | a node's side, with exact local solves or with gradients |

Theorems: docs/proofs/graph.md.
"""

from tacit.mechanisms.gaussian.node import ExactNode, GradientNode
from tacit.solvers.consensus.base import PrivateConsensus

EXACT = PrivateConsensus("gaussian", ExactNode)
GRADIENT_FORM = PrivateConsensus("gaussian, gradients", GradientNode)

__all__ = ["EXACT", "GRADIENT_FORM", "ExactNode", "GradientNode"]
