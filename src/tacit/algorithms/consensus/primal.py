"""Primal variable perturbation: noise on the minimiser of every round (dynamic, Algorithm 3).

v_p = f_p + noise goes to the neighbours, and **v_p alone enters the node's next round**: then every round is a function
of the rows and of released models, and replacing a row moves f_p by at most 2 C/(B_p (rho + 2 eta N_p)) whatever was
released (docs/proofs/dynamic.md, theorem 3). The last round may be one of dual variable perturbation, as in the paper.

The published form keeps the node's own f_p and takes its own noise off again:
(f_p + v_i - noise_p)/2 in place of (v_p + v_i)/2, and f_p in its last round, which breaks that round (theorem 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.algorithms.consensus.base import PrivateConsensus
from tacit.algorithms.consensus.papers import MODEL, NOISE, PaperNode, PaperSettings, at_round
from tacit.types import Arrays, Vector


@dataclass(frozen=True)
class PrimalSettings(PaperSettings):
    """Public numbers of a run.

    Attributes
    ----------
    by_norm : bool
        Whether the noise of a model has the density exp(-zeta |e|) of the paper; Gaussian otherwise.
    last_dual : bool
        Whether the last round is one of dual variable perturbation.
    """

    by_norm: bool = False
    last_dual: bool = True


class PrimalNode(PaperNode):
    """One node's side."""

    settings: PrimalSettings

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        others = self._take_in(inbox)
        if self.settings.last_dual and round_ == self.settings.rounds:
            drawn = self.release.draw(at_round(NOISE, round_), self.size)
            self._minimise(round_, self._own_last(), others, self.local.scale * drawn)
            self.released = self._hide(round_, self.model)
        else:
            self._minimise(round_, self._own(), others)
            self.released = self._perturb(round_)
        return {MODEL: self.released}

    def _own(self) -> Vector:
        """What stands for the node itself in a round."""
        if not self.settings.published:
            return self.released
        noise = self.released - self.model
        return self.model - noise

    def _own_last(self) -> Vector:
        """The same for a last round of dual variable perturbation."""
        return self.model if self.settings.published else self.released

    def _perturb(self, round_: int) -> Vector:
        """The model with noise."""
        if not self.settings.by_norm:
            return self.release.add(at_round(MODEL, round_), self.model)
        return self._hide(round_, self.model + self.release.draw(at_round(NOISE, round_), self.size))

    def _hide(self, round_: int, noisy: Vector) -> Vector:
        """A model that is private but for its last digits, with these hidden, too."""
        return noisy if self.settings.published else self.release.add(at_round(MODEL, round_), noisy)


PRIMAL = PrivateConsensus("primal", PrimalNode)
