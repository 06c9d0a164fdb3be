"""Measure the loss of private runs at several alphas: the points that a trade-off is fitted to.

Where the rows are private, every run here is a release about them, and so is every loss that is looked at: the result
carries the events of the models, and of the losses where noise was put on them. Measure on public or generated rows of
the same sizes, or pay for it (`tacit_papers.design.tuning_cost`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tacit.blocks import check_matrix
from tacit.data.labels import encode_binary
from tacit.errors import InputError
from tacit.estimators.base import Groups, column_names, deal_out
from tacit.plan import Plan, SampleSplit, TrainingRequest, make_plan
from tacit.privacy import accountant
from tacit.privacy.events import Event, GaussianRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed, Releaser
from tacit.privacy.request import PaperOptions, Privacy
from tacit.records import positive
from tacit.run.graph import GraphRun
from tacit.topologies import make_graph
from tacit.types import Shard, Vector
from tacit_papers.design.tuning_cost import run_epsilon

MARGIN = 1.05  # the noise that hides last digits takes about a thousandth of mu on top of the alphas


@dataclass(frozen=True)
class SweepSettings:
    """Everything of the runs but alpha; public, as in HorizontalClassifier.

    Attributes
    ----------
    method : {"dual", "primal"}
    rounds : int
    parties : int or list of sizes
    graph : str or list of pairs
    ridge : float
        Weight of the penalty 1/2 ||coef||^2.
    row_norm, delta : float
    loss_bound : float or None
        Each row's loss counts for at most this. Needed for `loss_mu`.
    loss_mu : float or None
        GDP parameter of the noise on each loss: replacing a row moves the mean of losses between 0 and loss_bound by
        loss_bound/rows at most. None: the losses are exact, for public rows alone.
    seed : int
        Deals out the rows and draws the graph.
    noise_seed : int or None
        Repeatable noise, for tests and papers only: whoever knows it can take the noise off again.
    """

    method: str = "dual"
    rounds: int = 3
    parties: Any = 10
    graph: Any = "random"
    ridge: float = 1e-4
    row_norm: float = 1.0
    delta: float = 1e-5
    loss_bound: float | None = None
    loss_mu: float | None = None
    seed: int = 0
    noise_seed: int | None = None


@dataclass(frozen=True)
class Sweep:
    """Measured points, and what they cost a row.

    Attributes
    ----------
    alphas, losses : tuple of float
        One entry for each run; the mean loss of the consensus model on the rows.
    events : tuple of Event
        Of all runs together, for a row of the node that pays most; those of noisy losses among them.
    delta : float
    """

    alphas: tuple[float, ...]
    losses: tuple[float, ...]
    delta: float
    events: tuple[Event, ...] = field(default=(), repr=False)

    @property
    def epsilon(self) -> float:
        """Of all runs together; it does not count losses without noise."""
        return accountant.epsilon(self.events, self.delta)


def measure_losses(
    X: Any, y: Any, alphas: Sequence[float], settings: SweepSettings | None = None, repeats: int = 1
) -> Sweep:
    """Run the method once for each alpha (and repeat) and take the mean logistic loss of the consensus model.

    Raises
    ------
    InputError
        For alphas or settings out of range.
    """
    own = SweepSettings() if settings is None else settings
    if own.loss_mu is not None and own.loss_bound is None:
        raise InputError("loss_mu puts noise on losses, whose size must be bounded: give loss_bound, too")
    if own.method not in ("dual", "primal"):
        raise InputError(f"method={own.method!r} has no alpha of a round: choose dual or primal")
    table = check_matrix(X, "X", None)
    labels, _ = encode_binary(np.asarray(y))
    rng = check_random_state(own.seed)
    groups = deal_out(table, labels, None, own.parties, rng)
    points: list[tuple[float, float]] = []
    events: list[Event] = []
    for number, alpha in enumerate(float(value) for value in alphas for _ in range(repeats)):
        plan = _plan(groups, positive(alpha, "alpha"), own, number)
        shards = groups.shards(plan.graph.names, column_names(groups.tables[0]))
        loss, spent = loss_of_run(plan, shards, groups.labels, own.loss_bound)
        if own.loss_mu is not None and own.loss_bound is not None:
            loss, release = noisy_loss(
                loss, own.loss_mu, own.loss_bound, table.shape[0], _seed_of(own.noise_seed, number)
            )
            spent = (*spent, release)
        points.append((alpha, loss))
        events += spent
    return Sweep(tuple(a for a, _ in points), tuple(loss for _, loss in points), own.delta, tuple(events))


def asked_epsilon(alpha: float, rounds: int, delta: float) -> float:
    """An epsilon of the whole run within which alphas of its rounds stay, with what hides last digits."""
    return MARGIN * run_epsilon(alpha, rounds, delta) + 1e-3


def loss_of_run(
    plan: Plan, shards: Sequence[Shard], labels: Sequence[Vector], loss_bound: float | None = None
) -> tuple[float, tuple[Event, ...]]:
    """Run a private plan: the mean loss of its consensus model on all rows, and what the run cost a row.

    Each row's loss counts for at most `loss_bound`. The loss is exact: see `noisy_loss`.
    """
    result = GraphRun(plan, shards, labels).go()
    loss = plan.problem.loss
    per_row = [
        loss.value(np.asarray(shard.features @ result.model.coef) + result.model.intercept, own)
        for shard, own in zip(shards, labels, strict=True)
    ]
    capped = np.minimum(np.concatenate(per_row), math.inf if loss_bound is None else loss_bound)
    return float(capped.mean()), events_of(plan)


def events_of(plan: Plan) -> tuple[Event, ...]:
    """Events of a private plan for a row of the node that pays most."""
    certificate = plan.certificate()
    delta = 0.0 if plan.private is None else plan.private.privacy.delta
    claims = [claim for claim in certificate.claims if claim.unit == "record"]
    return tuple(max(claims, key=lambda claim: claim.epsilon(delta)).events)


def noisy_loss(
    loss: float, mu: float, loss_bound: float, rows: int, seed: int | None = None
) -> tuple[float, GaussianRelease]:
    """A mean of losses between 0 and `loss_bound` with noise that makes it mu-GDP, and that as an event."""
    sd, event = loss_noise(mu, loss_bound, rows)
    noise = Releaser((Allowed("loss", sd, 1),), "losses", seed)
    return max(float(noise.add("loss", [loss])[0]), 0.0), event


def loss_noise(mu: float, loss_bound: float, rows: int) -> tuple[float, GaussianRelease]:
    """Deviation of the noise on a mean loss, which one of `rows` rows moves by loss_bound/rows, and its event."""
    sensitivity = positive(loss_bound, "loss_bound") / rows
    sd = sd_for(positive(mu, "loss_mu"), sensitivity, 1)
    return sd, GaussianRelease(grid_sensitivity(sensitivity, sd, 1), sd, released="a mean loss")


def _seed_of(noise_seed: int | None, number: int) -> int | None:
    """Each run has its own noise."""
    return None if noise_seed is None else 1000 * noise_seed + number


def _plan(groups: Groups, alpha: float, own: SweepSettings, number: int) -> Plan:
    asked = asked_epsilon(alpha, own.rounds, own.delta)
    seed = _seed_of(own.noise_seed, number)
    request = TrainingRequest(
        loss="logistic", penalty="l2", alpha=own.ridge, fit_intercept=False, method=own.method, published=False,
        rho="auto", max_rounds=own.rounds, tol=0.0,
        privacy=Privacy(epsilon=asked, delta=own.delta, row_norm=own.row_norm, noise_seed=seed),
        seed=own.seed, options=PaperOptions(alphas=alpha, rounds=own.rounds),
    )  # fmt: skip
    graph = make_graph(own.graph, [f"party {k + 1}" for k in range(len(groups.tables))], own.seed)
    return make_plan(request, SampleSplit(graph, groups.sizes, groups.tables[0].shape[1]))
