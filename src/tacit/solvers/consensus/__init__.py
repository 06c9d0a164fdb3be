"""Consensus ADMM: the solver of the sample split, where nodes of a graph hold different rows."""

from tacit.solvers.consensus.base import Consensus, NodeData, NodeProgress, NodeSide, Place, PrivateConsensus, Sent

__all__ = ["Consensus", "NodeData", "NodeProgress", "NodeSide", "Place", "PrivateConsensus", "Sent"]
