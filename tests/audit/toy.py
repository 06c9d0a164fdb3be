"""A mechanism small enough to see through: noisy sums of clipped rows, and the ways in which one gets it wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.audit.scene import Scene
from tacit.blocks.dense import Block, RowClip
from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.plan import FeatureSplit, Plan
from tacit.privacy.accountant import gdp_mu
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import GaussianRelease
from tacit.privacy.releases import Allowed, AllowedResponse, Planned
from tacit.privacy.request import Privacy
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers.base import PrivateSolver, Problem, Progress, Release, private_progress
from tacit.types import Arrays, Shard

EPSILON, DELTA = 4.0, 1e-5  # large, so that few runs of a game tell much
ROUNDS = 3
MU = gdp_mu(EPSILON, DELTA)
SD = 2 * ROUNDS**0.5 / MU  # replacing a row of norm 1 moves each sum by at most 2


@dataclass(frozen=True)
class Settings:
    """What a side gets wrong."""

    fault: str = ""


class Party:
    def __init__(self, problem: Problem, block: Block, settings: Settings, release: Release) -> None:
        norm = 1.5 if settings.fault == "clips too late" else 1.0
        clip = RowClip(1e9 if settings.fault == "forgets to clip" else norm)
        self.rows, self.release, self.fault = clip.apply(block), release, settings.fault
        self.coef = np.zeros(block.d)

    def start_at(self, coef: Any) -> Arrays:
        raise NotImplementedError

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        total = self.rows.correlate(inbox["weight"] * np.ones(self.rows.n))
        if self.fault == "releases by the data" and total[0] > 0:
            total = self.release.add("sum", total)
        noisy = self.release.add("sum", total)
        self.coef = noisy
        leak = total if self.fault == "sends the sum" else noisy
        if self.fault == "keeps a model":
            self.coef = total
        return {"sum": leak}

    def finish(self, inbox: Arrays) -> None:
        pass

    def state(self) -> Arrays:
        return {}

    def restore(self, state: Arrays) -> None:
        pass


class Coordinator:
    intercept = 0.0

    def __init__(self, problem: Problem, labels: Any, settings: Settings, own: Any, release: Release) -> None:
        self.weight, self.round = 1.0, 0

    def broadcast(self) -> Arrays:
        return {"weight": np.array([self.weight])}

    def combine(self, total: Arrays) -> Progress:
        self.weight = 1.0 if total["sum"][0] > 0 else -1.0  # what is asked next depends on what was released
        self.round += 1
        return private_progress(done=self.round == ROUNDS)

    def closing(self) -> Arrays:
        return {}

    def state(self) -> Arrays:
        return {}

    def restore(self, state: Arrays) -> None:
        pass


TOY = PrivateSolver("toy", party=Party, coordinator=Coordinator)


class Toy(Mechanism[FeatureSplit]):
    name = "toy"
    split = FeatureSplit.split
    summary = "sums with noise"

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        raise NotImplementedError


def plan(fault: str = "", rows: int = 4, releases: tuple[Planned, ...] | None = None) -> Plan:
    problem = Problem(get_loss("logistic"), get_regularizer("l2"), 0.1, False, 1, rows, 1e-4)
    planned = (Allowed("sum", SD, 2 * ROUNDS),) if releases is None else releases
    event = GaussianRelease(2.0, SD, ROUNDS, party="shop")
    claim = Claim("record", "shop", "replace-one", "anyone", (event,), "by hand")
    certificate = Certificate(unit="record", theorem="by hand", claims=(claim,), target=Target(EPSILON, DELTA))
    private = PrivatePlan(
        Privacy(epsilon=EPSILON), Toy(), TOY, Settings(fault), {"shop": planned}, certificate, ROUNDS, {}, holder="shop"
    )
    return Plan(problem, "memory", FeatureSplit(("shop",), rows), ROUNDS, private)


def scene(fault: str = "", used: tuple[Planned, ...] | None = None, rows: int = 4, seed: int = 0) -> Scene:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 2))
    labels = np.where(np.arange(rows) % 2, 1.0, -1.0)
    return Scene(plan(fault, rows), [Shard("shop", features, ("a", "b"))], labels, "shop", used)


def scenes(fault: str = "") -> Callable[[np.random.Generator], Scene]:
    return lambda rng: scene(fault, seed=int(rng.integers(2**31)))


def half(planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """The planned releases with half their noise."""
    return tuple(
        Allowed(one.name, one.sd / 2, one.times)
        if isinstance(one, Allowed)
        else AllowedResponse(one.name, 2 * one.epsilon, one.symbols, one.times)
        for one in planned
    )
