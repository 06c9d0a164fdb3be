"""Replaying a private run on neighbouring data: the same transcript, and how far each release moved.

A mechanism of Gaussian releases costs, for one pair of neighbours and one transcript, the sum over its releases of
(distance of the two values / deviation)^2. What is certified bounds it for every pair and every transcript, so that
transcripts may be chosen as wickedly as the data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from tacit import Privacy
from tacit.blocks.dense import Block
from tacit.mechanisms.gram.fit import GRADIENT, GRAM, LOSS_CHANGE, MEAN, TRACE
from tacit.mechanisms.gram.sides import GramHolder, GramParty
from tacit.plan import Plan
from tacit.privacy.events import BucketedResponse, GaussianRelease
from tacit.privacy.releases import Allowed
from tacit.solvers.memory import MEMORY
from tests.plans import feature_plan

GROUPS = {"centre": (MEAN, TRACE), "fit": (GRAM, GRADIENT), "check": (LOSS_CHANGE,)}
Script = Mapping[str, Callable[[np.ndarray, int], np.ndarray]]


@dataclass
class Transcript:
    """What was released, in order, and what it was computed from."""

    values: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)
    symbols: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    uniforms: list[np.ndarray] = field(default_factory=list)


class Recorder:
    """A release that adds noise of any law, or answers by a script, and keeps everything."""

    def __init__(self, owner: str, sds: Mapping[str, float], rng: np.random.Generator, script: Script, size: float):
        self.owner, self.sds, self.rng, self.script, self.size = owner, sds, rng, script, size
        self.transcript = Transcript()
        self.count: dict[str, int] = {}

    def add(self, name, value):
        value = np.array(value, dtype=np.float64)
        time = self.count[name] = self.count.get(name, -1) + 1
        noise = self.size * self.sds[name] * self.rng.standard_normal(value.shape)
        noisy = np.asarray(self.script[name](value, time)) if name in self.script else value + noise
        self.transcript.values.append((name, value, noisy))
        return noisy

    def respond(self, name, symbols):
        truth = np.array(symbols)
        said = np.where(self.rng.random(truth.shape) < 0.5, truth, self.rng.integers(0, 2, truth.shape))
        self.transcript.symbols.append((truth, said))
        return said

    def uniform(self, size):
        self.transcript.uniforms.append(self.rng.random(size))
        return self.transcript.uniforms[-1]


class Replayer:
    """Answers as recorded, and adds up how far the values moved, in deviations, squared, by group of releases."""

    def __init__(self, owner: str, sds: Mapping[str, float], transcript: Transcript):
        self.owner, self.sds = owner, sds
        self.values, self.symbols = iter(transcript.values), iter(transcript.symbols)
        self.uniforms = iter(transcript.uniforms)
        self.cost = dict.fromkeys(GROUPS, 0.0)
        self.moved_symbols: set[int] = set()

    def add(self, name, value):
        recorded, before, noisy = next(self.values)
        assert recorded == name
        group = next(group for group, names in GROUPS.items() if name in names)
        self.cost[group] += float(np.sum(np.square(np.asarray(value) - before))) / self.sds[name] ** 2
        return noisy

    def respond(self, name, symbols):
        before, said = next(self.symbols)
        self.moved_symbols |= set(np.flatnonzero(np.asarray(symbols) != before).tolist())
        return said

    def uniform(self, size):
        return next(self.uniforms)


@functools.cache
def plan_of(loss: object, rows: int, columns: int, **privacy: object) -> Plan:
    """A plan of two parties, the first with the labels."""
    return feature_plan(
        loss=loss, penalty="l2", alpha=1e-3, fit_intercept=True, method="auto", rho="auto", max_rounds=10, tol=1e-4,
        privacy=Privacy(**privacy), party_names=("holder", "guest"), rows=rows, input_bytes=0,
        columns=(columns, columns),
    )  # fmt: skip


def deviations(plan: Plan, owner: str) -> dict[str, float]:
    """The planned deviations of one side."""
    assert plan.private is not None
    releases = plan.private.releases["coordinator" if owner == "holder" else owner]
    return {one.name: one.sd for one in releases if isinstance(one, Allowed)}


def certified(plan: Plan, owner: str) -> dict[str, float]:
    """What the certificate says each group of releases costs: mu squared, or one total where symbols follow."""
    assert plan.private is not None
    events = next(claim.events for claim in plan.private.certificate.claims if claim.party == owner)
    if isinstance(events[0], BucketedResponse):
        return {"all": events[0].mu ** 2}
    assert all(isinstance(event, GaussianRelease) for event in events)
    words = {"centre": "mean", "fit": "Gram", "check": "changes"}
    return {
        group: next((event.mu**2 for event in events if word in event.released), 0.0) for group, word in words.items()
    }


def ratios(cost: Mapping[str, float], mu2: Mapping[str, float]) -> dict[str, float]:
    """Cost over what is certified, for each group."""
    if "all" in mu2:
        return {"all": sum(cost.values()) / mu2["all"]}
    return {
        group: (cost[group] / mu2[group] if mu2[group] else math.inf * cost[group]) for group in cost if cost[group]
    }


@dataclass
class Case:
    """One plan, one inbox, and a script for the transcript."""

    plan: Plan
    inbox: dict[str, np.ndarray]
    script: Script = field(default_factory=dict)
    size: float = 1.0
    sparse: bool = False
    sds: Mapping[str, float] | None = None

    def party(self, rows: np.ndarray, release) -> None:
        """Both exchanges of a protected party."""
        assert self.plan.private is not None
        settings = self.plan.private.settings
        party = GramParty(self.plan.problem, self._block(rows), settings, release)
        party.step(1, self.inbox)
        if settings.refit is not None:
            party.step(2, {})
        elif settings.releases_loss_change:
            party.step(2, {"side": np.array([0.3, -0.2])})

    def holder(self, rows: np.ndarray, labels: np.ndarray, release) -> None:
        """All that a protected label holder gives out."""
        assert self.plan.private is not None
        settings = self.plan.private.settings
        GramHolder(self.plan.problem, labels, settings, self._block(rows), release, (MEMORY,)).broadcast()

    def _block(self, rows: np.ndarray) -> Block:
        return Block(sparse.csr_array(rows) if self.sparse else rows)

    def compare(self, first, second, rng: np.random.Generator) -> dict[str, float]:
        """Ratios of one pair of neighbours: rows, or (rows, labels) of the label holder."""
        owner = "holder" if isinstance(first, tuple) else "guest"
        sds = self.sds or deviations(self.plan, owner)
        run = self.holder if owner == "holder" else self.party
        data, other = ((one if isinstance(one, tuple) else (one,)) for one in (first, second))
        recorder = Recorder(owner, sds, rng, self.script, self.size)
        run(*data, recorder)
        replayer = Replayer(owner, sds, recorder.transcript)
        run(*other, replayer)
        assert next(replayer.values, None) is None, "fewer releases than before"
        assert replayer.moved_symbols <= {0}, "a symbol of another row moved"
        return ratios(replayer.cost, certified(self.plan, owner))
