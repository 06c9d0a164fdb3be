"""The private method of the sample split: from what was asked and public sizes to noise, releases and a certificate.

Theorems: docs/proofs/graph.md. A node spends mu: a twentieth of mu^2 on the centre, the rest on T models or gradients.
Nothing here depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tacit.errors import InputError
from tacit.mechanisms.base import CENTRE_SHARE, LEAST_MASKED, Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.gaussian import EXACT, GRADIENT_FORM
from tacit.mechanisms.gaussian.node import CENTRE, GRADIENT, MODEL
from tacit.mechanisms.gaussian.settings import (
    MOST_ROUNDING,
    SOLVABLE,
    TOLERANCE,
    TOO_NOISY,
    WIDE,
    GaussianSettings,
    averaged_noise,
    bend,
    exact_rounds,
    gradient_rounding,
    gradient_rounds,
    gradient_sensitivity,
    gradients_fit,
    model_sensitivity,
    solve_rounding,
    sum_rounding,
)
from tacit.mechanisms.gaussian.words import certificate, outlook
from tacit.privacy.calibration import Budget, budget_mu, calibrate, split_mu
from tacit.privacy.events import GaussianRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed
from tacit.privacy.request import Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.families import BoundedPoisson
from tacit.problem.losses.half import Half
from tacit.problem.losses.residual import Huber
from tacit.solvers.consensus.base import TreeSum
from tacit.topologies import SampleSplit

ABSOLUTE_WIDTH = 0.1  # of label_norm: the absolute loss is rounded off this near to its kink
LEAST_THRESHOLD, MOST_THRESHOLD = 1e-8, 1e8  # of the Huber loss, in units of label_norm
NUMBER = 8  # bytes
MASKED = 3  # words in which a number of a sum travels under masks


@dataclass(frozen=True)
class _Spent:
    """What one node spends: mu on its centre (0 where there is none) and on everything after it."""

    centre: float
    rest: float


class Gaussian(Mechanism[SampleSplit]):
    """Gaussian noise on all that each node releases, calibrated to the whole run."""

    name = "gaussian"
    split = SampleSplit.split
    noise_at_nodes = True
    summary = "Gaussian noise on all that each node releases, calibrated to the whole run"
    splits_noise = True
    supports_masks = True
    takes_several_classes = True

    def plan(self, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
        """Plan the method; refuse what no theorem covers."""
        return _plan(self, request, layout)

    def is_default(self, privacy: Privacy, *, given_labels: bool) -> bool:
        """It is what a request for the rows of a sample split gets."""
        return not given_labels and privacy.label_epsilon is None


def _plan(mechanism: Gaussian, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    _refuse(request, layout)
    names = layout.graph.names
    honest = _honest(request, layout)
    by, people = privacy.accountant, _together(request, layout)
    mus = {name: _budget(privacy.epsilon_of(name), privacy.delta, by) / people for name in names}
    # under masks all honest nodes' noise is one noise: the mean over all rows has the noise of one node
    counted = 1 if request.secure else len(names)
    centred = _is_centred(list(mus.values())[:counted], layout)
    spent = {name: _split(mu, centred=centred) for name, mu in mus.items()}
    settings = _settings(request, layout, list(spent.values())[:counted], centred=centred)
    releases = {name: _releases(settings, one, layout, honest) for name, one in spent.items()}
    if request.secure:
        _check_exact(releases, layout)
    events = {name: _events(settings, releases[name], layout, honest, name) for name in names}
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=GRADIENT_FORM if settings.form == "gradient" else EXACT,
        settings=settings,
        releases=releases,
        certificate=certificate(privacy, settings, layout, events, honest),
        rounds=1 + 2 * _depth(layout) * (settings.rounds + int(centred)),
        noise={f"{name}: {one.name}": one.sd for name, planned in releases.items() for one in planned},
        outlook=outlook(settings, layout, problem.loss),
        traffic=_traffic(settings, layout),
        masked=request.secure,
        honest=honest,
    )


# --- what is refused -----------------------------------------------------------------------------------


def _refuse(request: MechanismRequest, layout: SampleSplit) -> None:
    privacy, problem = request.privacy, request.problem
    unknown = sorted(set(privacy.epsilon_by_party or {}) - set(layout.graph.names))
    reasons = (
        (privacy.epsilon is None, "epsilon=None: give an epsilon"),
        (bool(unknown), f"epsilon_by_party: there is no node {', '.join(unknown)}"),
        (not problem.fit_intercept, "fit_intercept=False: rows are centred privately, so give fit_intercept=True"),
        (problem.regularizer.form != "quadratic", f'penalty={problem.regularizer.name!r}: give penalty="l2" or "none"'),
        (problem.rho is not None, f'rho={problem.rho}: the noise fixes it, so give rho="auto"'),
        (
            request.options is not None,
            "options: it has nothing to tune, so leave them out, or use mechanism='dual', 'primal' or 'pdml'",
        ),
        (request.published, 'published=True: no paper has it; choose mechanism="dual", "primal" or "pdml"'),
        (privacy.refit, "refit=True: it is for columns split between parties"),
        (privacy.label_epsilon is not None, "label_epsilon: labels are covered with their rows, so leave it out"),
        (privacy.neighbours != "replace-one", "neighbours='zero-out': it is proven for replace-one"),
        (
            request.secure and layout.graph.nodes < LEAST_MASKED,
            f"secure_aggregation=True with {layout.graph.nodes} nodes: masks need {LEAST_MASKED} at least",
        ),
        (
            request.secure and privacy.epsilon_by_party is not None,
            "epsilon_by_party under masks: noise is common there",
        ),
        (
            not request.secure and privacy.honest is not None,
            "honest without secure_aggregation=True: leave it out",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"mechanism='gaussian' does not fit {reason}")
    _loss(problem.loss, privacy.label_norm)


def _loss(loss: Loss, label_norm: float) -> tuple[Loss, float]:
    """What is summed over the rows in place of the loss, and the bound on its derivative, for labels in their unit."""
    if loss.name == "logistic":
        return Half(), 1.0
    if loss.name == "softmax":
        return loss, loss.lipschitz
    if loss.name == "poisson":
        if label_norm <= 1.0:
            raise InputError(
                "mechanism='gaussian' needs label_norm for loss='poisson': a number above 1, chosen without looking at "
                "the rows; larger counts count as it"
            )
        return BoundedPoisson(), 1.0
    if loss.name == "squared":
        return Huber(1.0), 1.0
    if loss.name == "absolute":
        return Huber(ABSOLUTE_WIDTH), ABSOLUTE_WIDTH
    if isinstance(loss, Huber):
        if not LEAST_THRESHOLD <= loss.threshold / label_norm <= MOST_THRESHOLD:
            raise InputError(
                f"mechanism='gaussian' does not fit threshold={loss.threshold:g} beside label_norm={label_norm:g}: "
                f"their quotient must be from {LEAST_THRESHOLD:g} to {MOST_THRESHOLD:g}"
            )
        return Huber(loss.threshold / label_norm), loss.threshold / label_norm
    why = {
        "hinge": "has a kink, so that local problems cannot be solved to a gradient norm",
        "sigmoid": "is not convex, so that one row can move a local solution without bound",
        "squared_hinge": "has a derivative without bound",
    }.get(loss.name, "has no proven bound here")
    raise InputError(
        f"mechanism='gaussian' does not fit loss={loss.name!r}: it {why}; choose logistic for classes, squared, "
        "huber or absolute for numbers, poisson for counts and amounts from 0 to label_norm"
    )


def _honest(request: MechanismRequest, layout: SampleSplit) -> int:
    """How many nodes' noise protects a row: its own node's alone, or under masks that of all who keep to themselves."""
    if not request.secure:
        return 1
    most = layout.graph.nodes - 1
    honest = most if request.privacy.honest is None else request.privacy.honest
    if not 1 <= honest <= most:
        raise InputError(
            f"honest={honest} is not allowed with {layout.graph.nodes} nodes: one of them looks at what it sees, so it "
            f"must be from 1 to {most}"
        )
    return honest


# --- numbers -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _budget(epsilon: float, delta: float, by: str) -> float:
    """Largest mu that keeps to an epsilon, by the accountant that was asked for."""
    mu = budget_mu(epsilon, delta) * (1 - 1e-12)
    if by == "gdp":
        return mu
    refused = InputError(f"epsilon={epsilon:g} cannot be reached at delta={delta:g}: ask for other values")
    budget = Budget(epsilon, delta, by)
    return calibrate(
        lambda size: [GaussianRelease(size, 1.0)], budget, mu, 1 - budget.step, otherwise=refused, most=2000
    )


def _together(request: MechanismRequest, layout: SampleSplit) -> float:
    """How much more one person may pay than one row: noise is each node's own, or under masks one for all."""
    if request.privacy.unit != "person":
        return 1.0
    return float(layout.graph.nodes) if request.secure else math.sqrt(layout.graph.nodes)


def _is_centred(mus: list[float], layout: SampleSplit) -> bool:
    """Whether the private mean row is worth its price."""
    noise = averaged_noise([_split(mu, centred=True).centre for mu in mus], layout.total)
    return noise * math.sqrt(layout.columns) < TOO_NOISY


def _split(mu: float, *, centred: bool) -> _Spent:
    if not centred:
        return _Spent(0.0, mu)
    parts = split_mu(mu, {"centre": CENTRE_SHARE, "rest": 1 - CENTRE_SHARE})
    return _Spent(parts["centre"], parts["rest"])


def _settings(
    request: MechanismRequest, layout: SampleSplit, spent: list[_Spent], *, centred: bool
) -> GaussianSettings:
    privacy, problem = request.privacy, request.problem
    loss, slope = _loss(problem.loss, privacy.label_norm)
    noise = averaged_noise([one.rest for one in spent], layout.total)
    form = _form(request, layout, noise)
    most = request.max_rounds
    rounds = gradient_rounds(noise, most, bend(loss, slope)) if form == "gradient" else exact_rounds(most)
    nodes = layout.graph.nodes
    settings = GaussianSettings(
        form=form,
        masked=request.secure,
        loss=loss,
        slope=slope,
        row_norm=max(privacy.norm_of(name) for name in layout.graph.names),
        label_norm=1.0 if problem.loss.task == "classification" else privacy.label_norm,
        total=float(layout.total),
        nodes=nodes,
        columns=layout.columns,
        rounds=rounds,
        centred=centred,
        with_gram=form == "gradient" and layout.columns <= WIDE,
        centre_noise=averaged_noise([one.centre for one in spent], layout.total) if centred else 0.0,
        noise=noise,
        pull=rounds * noise,
        tolerance=TOLERANCE * nodes / layout.total,
        ridge=problem.alpha * problem.regularizer.l2,
    )
    return _solvable(settings, max(layout.rows))


def _solvable(settings: GaussianSettings, rows: int) -> GaussianSettings:
    """With a tolerance that rounding never keeps a solve from, whatever the rows are; refused where it would cost."""
    rounding = gradient_rounding(settings, rows)
    if settings.form == "exact":
        tolerance = max(settings.tolerance, SOLVABLE * solve_rounding(settings, rows))
        settings, rounding = replace(settings, tolerance=tolerance), tolerance / settings.scale
    if rounding > MOST_ROUNDING:
        raise InputError(
            f"mechanism='gaussian' does not fit {rows} rows of {settings.columns} columns at a node here: rounding "
            "could move a sum by as much as a row does, so use fewer rows a node, a larger alpha, or, with "
            "loss='huber', a threshold near label_norm"
        )
    return settings


def _form(request: MechanismRequest, layout: SampleSplit, noise: float) -> str:
    """Gradients for classes; exact solves for numbers, for wide rows and where few rounds are allowed.

    Under masks always gradients, as their sum is all that is needed.
    """
    fits = request.problem.loss.task == "classification" and gradients_fit(noise, layout.columns, request.max_rounds)
    return "gradient" if request.secure or fits else "exact"


def _bounds(settings: GaussianSettings, layout: SampleSplit) -> tuple[str, float, float]:
    """Name of the release of every round, its sensitivity, and that of the centre."""
    rows = max(layout.rows)
    centre = 2.0 * (1.0 + sum_rounding(rows))
    if settings.form == "exact":
        return MODEL, model_sensitivity(settings, rows), centre
    return GRADIENT, gradient_sensitivity(settings, rows), centre


def _releases(settings: GaussianSettings, spent: _Spent, layout: SampleSplit, honest: int) -> tuple[Allowed, ...]:
    """A node's planned releases; under masks each node adds 1/sqrt(honest) of the noise."""
    name, size, centre = _bounds(settings, layout)
    parts, entries = math.sqrt(honest), settings.size
    mu = spent.rest / math.sqrt(settings.rounds)
    every = Allowed(name, _sd(mu, size, entries) / parts, settings.rounds)
    if not settings.centred:
        return (every,)
    return (Allowed(CENTRE, _sd(spent.centre, centre, settings.centre_size) / parts), every)


def _sd(mu: float, size: float, entries: int) -> float:
    """Deviation of the noise that protects a row, rounding to the grid included (graph.md, section 6)."""
    return sd_for(mu, size, entries) * (1 + 1e-14)


def _check_exact(releases: Mapping[str, tuple[Allowed, ...]], layout: SampleSplit) -> None:
    """Under masks sums must be exact: every number below 2^53 steps of the grid (graph.md, section 6)."""
    least = min(one.sd for planned in releases.values() for one in planned)
    if layout.total > 2**26 * least:
        raise InputError(
            f"{layout.total} rows are too many for sums under masks with noise {least:.2g}: "
            "leave secure_aggregation out"
        )


def _events(
    settings: GaussianSettings, planned: tuple[Allowed, ...], layout: SampleSplit, honest: int, node: str
) -> tuple[GaussianRelease, ...]:
    """What a node's rows pay."""
    _, size, centre = _bounds(settings, layout)
    found = []
    for one in planned:
        first = one.name == CENTRE
        entries = settings.centre_size if first else settings.size
        rounded = grid_sensitivity(centre if first else size, one.sd, entries)
        noise = one.sd * math.sqrt(honest) * (1 - 1e-15)
        found.append(GaussianRelease(rounded, noise, one.times, released=_WHAT[one.name], party=node))
    return tuple(found)


_WHAT = {
    CENTRE: "the sum of its rows and of their squares, rows scaled down to norm 1",
    MODEL: "the minimiser of its own problem, held near the others' model",
    GRADIENT: "the sum of its rows' gradients, each of norm 1 at most",
}


def _traffic(settings: GaussianSettings, layout: SampleSplit) -> dict[str, tuple[int, int]]:
    """Bytes that come to each node and leave it: all sums go up a tree, under masks perhaps, and down again."""
    size = NUMBER * (settings.rounds * settings.size + (settings.centre_size if settings.centred else 0))
    trees = {name: TreeSum(layout.graph, name) for name in layout.graph.names}
    up = MASKED if settings.masked else 1
    return {
        name: (
            size * (up * len(tree.children) + (tree.parent is not None)),
            size * (len(tree.children) + up * (tree.parent is not None)),
        )
        for name, tree in trees.items()
    }


def _depth(layout: SampleSplit) -> int:
    """Rounds from the furthest node to the root of the tree."""
    return TreeSum(layout.graph, layout.graph.names[0]).depth
