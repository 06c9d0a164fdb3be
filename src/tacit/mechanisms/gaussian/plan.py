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
from tacit.mechanisms.base import GraphSizes, PrivateGraphPlan
from tacit.mechanisms.gaussian import EXACT, GRADIENT_FORM
from tacit.mechanisms.gaussian.node import CENTRE, GRADIENT, MODEL
from tacit.mechanisms.gaussian.settings import (
    CENTRE_SHARE,
    MOST_ROUNDING,
    SOLVABLE,
    TOLERANCE,
    TOO_NOISY,
    WIDE,
    GaussianSettings,
    averaged_noise,
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
from tacit.privacy import accountant
from tacit.privacy.calibration import budget_mu, split_mu
from tacit.privacy.events import GaussianRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed
from tacit.privacy.request import Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.half import Half
from tacit.problem.losses.huber import Huber
from tacit.solvers.base import Problem
from tacit.solvers.consensus.everybody import TreeSum

ABSOLUTE_WIDTH = 0.1  # of label_norm: the absolute loss is rounded off this near to its kink
LEAST_THRESHOLD, MOST_THRESHOLD = 1e-8, 1e8  # of the Huber loss, in units of label_norm
LEAST_MASKED = 3  # nodes of a star: under masks the middle must see a sum of two others at least
MOST_NUDGES = 2000


@dataclass(frozen=True)
class _Spent:
    """What one node spends: mu on its centre (0 where there is none) and on everything after it."""

    centre: float
    rest: float


def plan_gaussian(privacy: Privacy, problem: Problem, sizes: GraphSizes) -> PrivateGraphPlan:
    """Plan the method; refuse what no theorem covers."""
    _refuse(privacy, problem, sizes)
    names = sizes.graph.names
    honest = _honest(privacy, sizes)
    by, people = privacy.accountant, _together(privacy, sizes)
    mus = {name: _budget(privacy.epsilon_of(name), privacy.delta, by) / people for name in names}
    # under masks all honest nodes' noise is one noise: the mean over all rows has the noise of one node
    counted = 1 if sizes.secure else len(names)
    centred = _is_centred(list(mus.values())[:counted], sizes)
    spent = {name: _split(mu, centred=centred) for name, mu in mus.items()}
    settings = _settings(privacy, problem, sizes, list(spent.values())[:counted], centred=centred)
    releases = {name: _releases(settings, one, sizes, honest) for name, one in spent.items()}
    if sizes.secure:
        _check_exact(releases, sizes)
    events = {name: _events(settings, releases[name], sizes, honest, name) for name in names}
    return PrivateGraphPlan(
        privacy=privacy,
        method="gaussian",
        algorithm=GRADIENT_FORM if settings.form == "gradient" else EXACT,
        settings=settings,
        releases=releases,
        certificate=certificate(privacy, settings, sizes, events, honest),
        rounds=1 + 2 * _depth(sizes) * (settings.rounds + int(centred)),
        noise={f"{name}: {one.name}": one.sd for name, planned in releases.items() for one in planned},
        outlook=outlook(settings, sizes, problem.loss),
        masked=sizes.secure,
    )


# --- what is refused -----------------------------------------------------------------------------------


def _refuse(privacy: Privacy, problem: Problem, sizes: GraphSizes) -> None:
    unknown = sorted(set(privacy.epsilon_by_party or {}) - set(sizes.graph.names))
    star = max(sizes.graph.degrees, default=0) == sizes.graph.nodes - 1 and len(sizes.graph.edges) < sizes.graph.nodes
    reasons = (
        (privacy.epsilon is None, "epsilon=None: give an epsilon"),
        (bool(unknown), f"epsilon_by_party: there is no node {', '.join(unknown)}"),
        (not problem.fit_intercept, "fit_intercept=False: rows are centred privately, so give fit_intercept=True"),
        (problem.regularizer.form != "quadratic", f'penalty={problem.regularizer.name!r}: give penalty="l2" or "none"'),
        (problem.rho is not None, f'rho={problem.rho}: the noise fixes it, so give rho="auto"'),
        (
            sizes.options is not None,
            "options: it has nothing to tune, so leave them out, or use method='dual', 'primal' or 'pdml'",
        ),
        (sizes.published, 'published=True: no paper has it; choose method="dual", "primal" or "pdml"'),
        (privacy.mechanism != "auto", f"mechanism={privacy.mechanism!r}: it is for columns split between parties"),
        (privacy.refit, "refit=True: it is for columns split between parties"),
        (privacy.label_epsilon is not None, "label_epsilon: labels are covered with their rows, so leave it out"),
        (privacy.neighbours != "replace-one", "neighbours='zero-out': it is proven for replace-one"),
        (sizes.secure and not star, 'secure_aggregation=True on this graph: masks need a star, so give graph="star"'),
        (
            sizes.secure and sizes.graph.nodes < LEAST_MASKED,
            f"secure_aggregation=True with {sizes.graph.nodes} nodes: masks need {LEAST_MASKED} at least",
        ),
        (sizes.secure and privacy.epsilon_by_party is not None, "epsilon_by_party under masks: noise is common there"),
        (
            not sizes.secure and privacy.honest is not None,
            "honest without secure_aggregation=True: leave it out",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"method='gaussian' does not fit {reason}")
    _loss(problem.loss, privacy.label_norm)


def _loss(loss: Loss, label_norm: float) -> tuple[Loss, float]:
    """What is summed over the rows in place of the loss, and the bound on its derivative, for labels in their unit."""
    if loss.name == "logistic":
        return Half(), 1.0
    if loss.name == "squared":
        return Huber(1.0), 1.0
    if loss.name == "absolute":
        return Huber(ABSOLUTE_WIDTH), ABSOLUTE_WIDTH
    if isinstance(loss, Huber):
        if not LEAST_THRESHOLD <= loss.threshold / label_norm <= MOST_THRESHOLD:
            raise InputError(
                f"method='gaussian' does not fit threshold={loss.threshold:g} beside label_norm={label_norm:g}: their "
                f"quotient must be from {LEAST_THRESHOLD:g} to {MOST_THRESHOLD:g}"
            )
        return Huber(loss.threshold / label_norm), loss.threshold / label_norm
    why = {
        "hinge": "has a kink, so that local problems cannot be solved to a gradient norm",
        "sigmoid": "is not convex, so that one row can move a local solution without bound",
        "squared_hinge": "has a derivative without bound",
        "poisson": "has a derivative without bound",
    }.get(loss.name, "has no proven bound here")
    raise InputError(
        f"method='gaussian' does not fit loss={loss.name!r}: it {why}; choose logistic for two classes, squared, huber "
        "or absolute for numbers"
    )


def _honest(privacy: Privacy, sizes: GraphSizes) -> int:
    """How many nodes' noise protects a row: its own node's alone, or under masks that of all who keep to themselves."""
    if not sizes.secure:
        return 1
    most = sizes.graph.nodes - 1
    honest = most if privacy.honest is None else privacy.honest
    if not 1 <= honest <= most:
        raise InputError(
            f"honest={honest} is not allowed with {sizes.graph.nodes} nodes: one of them looks at what it sees, so it "
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
    for _ in range(MOST_NUDGES):
        if accountant.second_opinion([GaussianRelease(mu, 1.0)], delta) <= epsilon:
            return mu
        mu *= 1 - 1e-5
    raise InputError(f"epsilon={epsilon:g} cannot be reached at delta={delta:g}: ask for other values")


def _together(privacy: Privacy, sizes: GraphSizes) -> float:
    """How much more one person may pay than one row: noise is each node's own, or under masks one for all."""
    if privacy.unit != "person":
        return 1.0
    return float(sizes.graph.nodes) if sizes.secure else math.sqrt(sizes.graph.nodes)


def _is_centred(mus: list[float], sizes: GraphSizes) -> bool:
    """Whether the private mean row is worth its price."""
    noise = averaged_noise([_split(mu, centred=True).centre for mu in mus], sizes.total)
    return noise * math.sqrt(sizes.columns) < TOO_NOISY


def _split(mu: float, *, centred: bool) -> _Spent:
    if not centred:
        return _Spent(0.0, mu)
    parts = split_mu(mu, {"centre": CENTRE_SHARE, "rest": 1 - CENTRE_SHARE})
    return _Spent(parts["centre"], parts["rest"])


def _settings(
    privacy: Privacy, problem: Problem, sizes: GraphSizes, spent: list[_Spent], *, centred: bool
) -> GaussianSettings:
    loss, slope = _loss(problem.loss, privacy.label_norm)
    noise = averaged_noise([one.rest for one in spent], sizes.total)
    form = _form(problem, sizes, noise)
    rounds = gradient_rounds(noise, sizes.max_rounds) if form == "gradient" else exact_rounds(sizes.max_rounds)
    nodes = sizes.graph.nodes
    settings = GaussianSettings(
        form=form,
        masked=sizes.secure,
        loss=loss,
        slope=slope,
        row_norm=max(privacy.norm_of(name) for name in sizes.graph.names),
        label_norm=1.0 if problem.loss.task == "classification" else privacy.label_norm,
        total=float(sizes.total),
        nodes=nodes,
        columns=sizes.columns,
        rounds=rounds,
        centred=centred,
        with_gram=form == "gradient" and sizes.columns <= WIDE,
        centre_noise=averaged_noise([one.centre for one in spent], sizes.total) if centred else 0.0,
        noise=noise,
        pull=rounds * noise,
        tolerance=TOLERANCE * nodes / sizes.total,
        ridge=problem.alpha * problem.regularizer.l2,
    )
    return _solvable(settings, max(sizes.rows))


def _solvable(settings: GaussianSettings, rows: int) -> GaussianSettings:
    """With a tolerance that rounding never keeps a solve from, whatever the rows are; refused where it would cost."""
    rounding = gradient_rounding(settings, rows)
    if settings.form == "exact":
        tolerance = max(settings.tolerance, SOLVABLE * solve_rounding(settings, rows))
        settings, rounding = replace(settings, tolerance=tolerance), tolerance / settings.scale
    if rounding > MOST_ROUNDING:
        raise InputError(
            f"method='gaussian' does not fit {rows} rows of {settings.columns} columns at a node here: rounding could "
            "move a sum by as much as a row does, so use fewer rows a node, a larger alpha, or, with loss='huber', a "
            "threshold near label_norm"
        )
    return settings


def _form(problem: Problem, sizes: GraphSizes, noise: float) -> str:
    """Gradients for two classes; exact solves for numbers, for wide rows and where few rounds are allowed.

    Under masks always gradients, as their sum is all that is needed.
    """
    fits = problem.loss.task == "classification" and gradients_fit(noise, sizes.columns, sizes.max_rounds)
    return "gradient" if sizes.secure or fits else "exact"


def _bounds(settings: GaussianSettings, sizes: GraphSizes) -> tuple[str, float, float]:
    """Name of the release of every round, its sensitivity, and that of the centre."""
    rows = max(sizes.rows)
    centre = 2.0 * (1.0 + sum_rounding(rows))
    if settings.form == "exact":
        return MODEL, model_sensitivity(settings, rows), centre
    return GRADIENT, gradient_sensitivity(settings, rows), centre


def _releases(settings: GaussianSettings, spent: _Spent, sizes: GraphSizes, honest: int) -> tuple[Allowed, ...]:
    """A node's planned releases; under masks each node adds 1/sqrt(honest) of the noise."""
    name, size, centre = _bounds(settings, sizes)
    parts, entries = math.sqrt(honest), settings.columns + 1
    mu = spent.rest / math.sqrt(settings.rounds)
    every = Allowed(name, _sd(mu, size, entries) / parts, settings.rounds)
    if not settings.centred:
        return (every,)
    return (Allowed(CENTRE, _sd(spent.centre, centre, settings.centre_size) / parts), every)


def _sd(mu: float, size: float, entries: int) -> float:
    """Deviation of the noise that protects a row, rounding to the grid included (graph.md, section 6)."""
    return sd_for(mu, size, entries) * (1 + 1e-14)


def _check_exact(releases: Mapping[str, tuple[Allowed, ...]], sizes: GraphSizes) -> None:
    """Under masks sums must be exact: every number below 2^53 steps of the grid (graph.md, section 6)."""
    least = min(one.sd for planned in releases.values() for one in planned)
    if sizes.total > 2**26 * least:
        raise InputError(
            f"{sizes.total} rows are too many for sums under masks with noise {least:.2g}: leave secure_aggregation out"
        )


def _events(
    settings: GaussianSettings, planned: tuple[Allowed, ...], sizes: GraphSizes, honest: int, node: str
) -> tuple[GaussianRelease, ...]:
    """What a node's rows pay."""
    _, size, centre = _bounds(settings, sizes)
    found = []
    for one in planned:
        first = one.name == CENTRE
        entries = settings.centre_size if first else settings.columns + 1
        rounded = grid_sensitivity(centre if first else size, one.sd, entries)
        noise = one.sd * math.sqrt(honest) * (1 - 1e-15)
        found.append(GaussianRelease(rounded, noise, one.times, released=_WHAT[one.name], party=node))
    return tuple(found)


_WHAT = {
    CENTRE: "the sum of its rows and of their squares, rows scaled down to norm 1",
    MODEL: "the minimiser of its own problem, held near the others' model",
    GRADIENT: "the sum of its rows' gradients, each of norm 1 at most",
}


def _depth(sizes: GraphSizes) -> int:
    """Rounds from the furthest node to the root of the tree."""
    return TreeSum(sizes.graph, sizes.graph.names[0]).depth
