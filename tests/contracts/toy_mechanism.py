"""A mechanism in one module: each party releases one noisy sum of its rows, each with the sign of its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.blocks.dense import RowClip
from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.plan import FeatureSplit
from tacit.privacy.calibration import budget_mu
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed
from tacit.solvers.base import PrivateSolver, Problem, Progress, private_progress
from tacit.types import Arrays, Vector

SUM = "sum"
ANYONE = "anyone who sees what the run sends, the model, or predictions for other rows"
SLACK = 1 + 1e-9  # for rounding in a sum


@dataclass(frozen=True)
class Settings:
    """What every side knows."""

    row_norm: float


class Party:
    """One party: its sum, which over the rows is its part of the model once it has noise."""

    def __init__(self, problem: Problem, block: Any, settings: Settings, release: Any) -> None:
        self.clip, self.release = RowClip(settings.row_norm), release
        self.rows, self.coef = self.clip.apply(block), np.zeros(block.d)

    def start_at(self, coef: Vector) -> Arrays:
        return {}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        signs = np.where(np.nan_to_num(inbox["labels"]) > 0, 1.0, -1.0)
        self.coef = self.release.add(SUM, self.rows.correlate(signs)) / self.rows.n
        return {"length": np.array([self.coef @ self.coef])}

    def finish(self, inbox: Arrays) -> None:
        pass

    def state(self) -> Arrays:
        return {"coef": self.coef}

    def restore(self, state: Arrays) -> None:
        self.coef = state["coef"]


class Coordinator:
    """The party with the labels: it sends their signs, once."""

    intercept = 0.0

    def __init__(self, problem: Problem, labels: Vector, settings: Settings, own: Any, release: Any) -> None:
        self.labels = labels

    def broadcast(self) -> Arrays:
        return {"labels": self.labels}

    def combine(self, total: Arrays) -> Progress:
        return private_progress(done=True)

    def closing(self) -> Arrays:
        return {}

    def state(self) -> Arrays:
        return {}

    def restore(self, state: Arrays) -> None:
        pass


class ToyMechanism(Mechanism[FeatureSplit]):
    """One noisy sum of each party's rows."""

    name = "toy"
    split = FeatureSplit.split
    summary = "one sum of each party's rows, with noise"
    hides_labels = False
    vectors = (1.0, 0.0)

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        privacy, norm = request.privacy, max(request.privacy.norm_of(name) for name in layout.parties)
        mu = budget_mu(privacy.epsilon or 1.0, privacy.delta) * (1 - 1e-9)
        size = 2 * norm * SLACK
        sds = {name: sd_for(mu, size, layout.columns_of(name)) for name in layout.parties}
        return PrivatePlan(
            privacy=privacy,
            mechanism=self,
            solver=PrivateSolver(self.name, party=Party, coordinator=Coordinator),
            settings=Settings(norm),
            releases={name: (Allowed(SUM, sd),) for name, sd in sds.items()},
            certificate=self._certificate(request, layout, size, sds),
            rounds=1,
            noise={f"{name}: {SUM}": sd for name, sd in sds.items()},
            holder=layout.holder,
        )

    def _certificate(
        self, request: MechanismRequest, layout: FeatureSplit, size: float, sds: dict[str, float]
    ) -> Certificate:
        claims = [
            Claim("record", name, "replace-one", ANYONE, (self._event(layout, name, size, sd),), "by hand")
            for name, sd in sds.items()
        ]
        return Certificate(
            unit="record",
            adversary=ANYONE,
            covers=("the rows of every party: one sum leaves each, with noise",),
            does_not_cover=("the labels: they are sent as they are",),
            per_party=dict.fromkeys(layout.parties, "one sum of its rows, with noise"),
            theorem="by hand",
            claims=tuple(claims),
            target=Target(request.privacy.epsilon, request.privacy.delta),
        )

    def _event(self, layout: FeatureSplit, name: str, size: float, sd: float) -> GaussianRelease:
        moved = grid_sensitivity(size, sd, layout.columns_of(name))
        return GaussianRelease(moved, sd, released="a sum of its rows", party=name)
