"""Dual variable perturbation: noise in the objective of every round (dynamic, Algorithm 2).

The noise e = (C/B_p) x, x of density proportional to exp(-zeta |x|), makes the minimiser itself random, with a density
whose logarithm changes by at most alpha_p(t) when a row is replaced (docs/proofs/dynamic.md, theorem 1). A minimiser
is found only up to a distance: a little Gaussian noise on a grid hides that distance, and the last digits of the
floating-point noise with it (theorem 2). The published form sends the minimiser as it was found.
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.algorithms.consensus.base import PrivateConsensus
from tacit.algorithms.consensus.papers import MODEL, NOISE, PaperNode, at_round
from tacit.types import Arrays


class DualNode(PaperNode):
    """One node's side."""

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        others = self._take_in(inbox)
        drawn = self.release.draw(at_round(NOISE, round_), self.size)
        self._minimise(round_, self.released, others, self.local.scale * drawn)
        self.released = self.model if self.settings.published else self.release.add(at_round(MODEL, round_), self.model)
        return {MODEL: self.released}


DUAL = PrivateConsensus("dual", DualNode)
