"""Randomized labels, a bounded noise in the objective, and decaying Gaussian noise on every model (pdml).

Each label is randomized once, with the epsilon that its contributor chose; the true ones are dropped, and the unbiased
loss of randomized labels is minimised (docs/proofs/labels.md). w_p + theta_p(t), of variance r^(t-1) V^2, goes to the
neighbours and enters the node's own next round. eta_p, each entry within R, is drawn once and put into the objective of
every round: it cancels in the difference of two rounds, and earns nothing (docs/proofs/pdml.md).

The node keeps the mean of its models: of the released ones, or, in the published form, of the models without noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.algorithms.base import Problem, Release
from tacit.algorithms.consensus.base import NodeData, Place, PrivateConsensus
from tacit.algorithms.consensus.papers import LABELS, MODEL, PaperNode, PaperSettings, at_round
from tacit.problem.losses.modified import modified
from tacit.problem.losses.modified_rows import modified_rows
from tacit.types import Arrays, Vector


@dataclass(frozen=True)
class PdmlSettings(PaperSettings):
    """Public numbers of a run.

    Attributes
    ----------
    label_epsilon : float
        Of every label for which no other is given.
    label_epsilons : mapping of str to tuple of float
        By node, one for each of its rows.
    objective_noise : float
        R.
    perturbed : bool
        Whether models are released with noise; without it labels alone are protected.
    randomized : bool
        Whether the labels came randomized already, so that they are used as they are.
    """

    label_epsilon: float = 1.0
    label_epsilons: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    objective_noise: float = 0.0
    perturbed: bool = True
    randomized: bool = False


def labels_at(epsilon: float) -> str:
    """Name of the release of all labels that are randomized with this epsilon."""
    return f"{LABELS} at {epsilon!r}"


class PdmlNode(PaperNode):
    """One node's side; nothing of the true labels outlives its first round."""

    settings: PdmlSettings

    def __init__(
        self, problem: Problem, place: Place, data: NodeData, settings: PdmlSettings, release: Release
    ) -> None:
        super().__init__(problem, place, data, settings, release)
        self.objective_noise = np.zeros(self.size)
        self.sum, self.rounds = np.zeros(self.size), 0

    @property
    def answer(self) -> Vector:
        """The mean of the node's models."""
        return self.sum / max(self.rounds, 1)

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        if round_ == 1:
            self._begin()
        others = self._take_in(inbox)
        self._minimise(round_, self.released, others, self.objective_noise / self.place.graph.nodes)
        perturbed = self.settings.perturbed
        self.released = self.release.add(at_round(MODEL, round_), self.model) if perturbed else self.model
        self.sum = self.sum + (self.model if self.settings.published else self.released)
        self.rounds += 1
        return {MODEL: self.released}

    def _begin(self) -> None:
        """Randomize the labels, unless they came so, and draw the noise of the objective."""
        self._use(self.data.labels if self.settings.randomized else self._randomized())
        if self.settings.objective_noise:
            spread = 2.0 * self.release.uniform(self.size) - 1.0
            self.objective_noise = self.settings.objective_noise * spread

    def _randomized(self) -> Vector:
        """Each label, randomized once with its own epsilon."""
        own = self.settings.label_epsilons.get(self.place.name)
        epsilons = np.full(self.data.rows.n, self.settings.label_epsilon) if own is None else np.array(own)
        outcome = np.empty(self.data.rows.n)
        for epsilon in np.unique(epsilons):
            group = epsilons == epsilon
            symbols = (self.data.labels[group] > 0).astype(np.int64)
            outcome[group] = 2.0 * self.release.respond(labels_at(float(epsilon)), symbols) - 1.0
        return outcome

    def _use(self, outcome: Vector) -> None:
        """Go on with randomized labels alone."""
        own = self.settings.label_epsilons.get(self.place.name)
        loss = self.problem.loss
        self.loss = modified(loss, self.settings.label_epsilon) if own is None else modified_rows(loss, np.array(own))
        self.data = NodeData(self.data.rows, outcome)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on; randomized labels, never true ones."""
        state = {**super().state(), "sum": self.sum, "rounds": np.array([float(self.rounds)])}
        if self.rounds:
            state |= {"labels": self.data.labels, "objective_noise": self.objective_noise}
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        super().restore(state)
        self.sum, self.rounds = state["sum"], int(state["rounds"][0])
        if self.rounds:
            self.objective_noise = state["objective_noise"]
            self._use(state["labels"])


PDML = PrivateConsensus("pdml", PdmlNode)
