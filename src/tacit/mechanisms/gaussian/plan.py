"""The private method of the sample split: from what was asked and public sizes to noise, releases and a certificate.

Theorems: docs/proofs/graph.md. A node spends mu: a twentieth of mu^2 on the centre, the rest on T models or gradients.
Nothing here depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tacit.errors import InputError
from tacit.mechanisms.base import (
    CENTRE_SHARE,
    LEAST_MASKED,
    MEASURES,
    UNMEASURED,
    Mechanism,
    MechanismRequest,
    PrivatePlan,
)
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
from tacit.privacy import accountant
from tacit.privacy.calibration import Budget, budget_mu, calibrate, split_mu
from tacit.privacy.certificate import ASSUMED, NO_ROWS, OTHER_RUNS, Certificate, at_parties, up
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event, GaussianRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed
from tacit.privacy.request import SEEDED, Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.families import BoundedPoisson
from tacit.problem.losses.half import Half
from tacit.problem.losses.residual import Huber
from tacit.solvers.consensus.base import TreeSum
from tacit.topologies import SampleSplit, mask_graph

# --- The certificate in words


THEOREMS = {
    "exact": "private consensus with exact local solves (docs/proofs/graph.md, theorem 3)",
    "gradient": "private gradients, each node with its own noise (docs/proofs/graph.md, theorem 4 with h = 1)",
    "masked": "private gradients, noise shared under masks (docs/proofs/graph.md, theorem 7)",
}
LARGE_NOISE = 0.15  # norm of the noise in the mean gradient, in units of a row: beyond it little is learnt
FEW = 9  # names that a sentence lists
SPREAD = 0.5  # of the derivative of a row: what chance adds to a mean gradient over k rows is SPREAD / sqrt(k)


def certificate(
    privacy: Privacy,
    settings: GaussianSettings,
    layout: SampleSplit,
    events: Mapping[str, tuple[GaussianRelease, ...]],
    honest: int,
) -> Certificate:
    """What the planned run proves."""
    adversary, theorem = _adversary(settings, layout, honest), THEOREMS["masked" if settings.masked else settings.form]
    claims = [Claim("record", name, "replace-one", adversary, own, theorem) for name, own in events.items()]
    if privacy.unit == "person":
        adversary += NO_ROWS
        claims.append(Claim("person", "", "replace-one", adversary, _group_events(settings, events), theorem))
    return Certificate(
        unit=privacy.unit,
        adversary=adversary,
        covers=(
            "rows and labels of every node: all that leaves it was made from them with noise, in all rounds together",
            "the trained model: it is made from released values only, so it may be published, and so may predictions",
        ),
        does_not_cover=_does_not_cover(privacy, settings, layout, events, honest),
        per_party=_per_party(settings, layout),
        theorem=theorem,
        claims=tuple(claims),
        target=Target(max(privacy.epsilon_of(name) for name in layout.graph.names), privacy.delta),
        assumptions=_assumptions(privacy, settings, layout, honest),
    )


def _group_events(settings: GaussianSettings, events: Mapping[str, tuple[GaussianRelease, ...]]) -> tuple[Event, ...]:
    """What a person with a row at every node pays; under masks all these rows move the same sum."""
    if not settings.masked:
        return tuple(event for own in events.values() for event in own)
    first = next(iter(events.values()))
    return tuple(replace(event, sensitivity=len(events) * event.sensitivity, party="") for event in first)


def _adversary(settings: GaussianSettings, layout: SampleSplit, honest: int) -> str:
    model = "and anyone who sees the model or predictions"
    if not settings.masked:
        return f"anyone who sees every message of the run, all other nodes together among them, {model}"
    others = layout.graph.nodes - honest
    who = "any one other node" if others == 1 else f"any {others} other nodes together"
    return f"{who}, anywhere in the graph and with every message of the run, {model}"


def _does_not_cover(
    privacy: Privacy,
    settings: GaussianSettings,
    layout: SampleSplit,
    events: Mapping[str, tuple[GaussianRelease, ...]],
    honest: int,
) -> tuple[str, ...]:
    missing = [
        "how many rows each node has: it is public here",
        "how long a node takes for a round",
        OTHER_RUNS,
    ]
    if privacy.unit == "record":
        together = accountant.epsilon(_group_events(settings, events), privacy.delta)
        missing.extend([at_parties(len(events), together, privacy.delta)] if len(events) > 1 else [])
    if settings.masked:
        missing.extend(_larger_coalitions(layout, events, honest, privacy.delta))
    return tuple(missing)


def _larger_coalitions(
    layout: SampleSplit, events: Mapping[str, tuple[GaussianRelease, ...]], honest: int, delta: float
) -> list[str]:
    """What is left against one node more than is allowed for, and at the worst cut (graph.md, theorem 7)."""
    names, own = layout.graph.names, next(iter(events.values()))
    partners, more = mask_graph(names, honest).neighbours(names[0]), len(names) - honest + 1
    said = []
    if more < len(partners):
        left = up(accountant.epsilon(_hidden_by(own, len(names) - more, honest), delta))
        said.append(f"{more} nodes that pool what they know: the noise of the others then gives epsilon {left}")
    alone = up(accountant.epsilon(_hidden_by(own, 1, honest), delta))
    who = "all others" if len(partners) == len(names) - 1 else f"the {len(partners) // 2} on either side in their order"
    said.append(
        f"the worst cut, the {len(partners)} nodes that share masks with one node ({who}: {_ends(partners)} for "
        f"{names[0]}), if they pool what they know: its own noise alone gives epsilon {alone}"
    )
    return said


def _ends(names: Sequence[str]) -> str:
    """The names, or of many the first and the last ones of both halves."""
    half = len(names) // 2
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{names[0]} to {names[half - 1]}, {names[half]} to {names[-1]}"


def _hidden_by(events: Sequence[GaussianRelease], count: int, honest: int) -> list[GaussianRelease]:
    """The events where the noise of so many nodes hides a row, and not that of `honest`."""
    part = math.sqrt(count / honest) * (1 - 1e-15)
    return [replace(event, noise=event.noise * part) for event in events]


def _per_party(settings: GaussianSettings, layout: SampleSplit) -> dict[str, str]:
    count = settings.size
    centre = f"{settings.centre_size} sums over its rows, once, and " if settings.centred else ""
    what = "a model" if settings.form == "exact" else "a gradient"
    under = "" if not settings.masked else " (under masks: only the sum over the nodes can be read)"
    said = f"{centre}{what} of {count} numbers, {settings.rounds} times, all with noise{under}"
    return dict.fromkeys(layout.graph.names, said)


def _assumptions(privacy: Privacy, settings: GaussianSettings, layout: SampleSplit, honest: int) -> tuple[str, ...]:
    said = [
        "row_norm, label_norm, and any scaling of columns and labels before, were chosen without looking at the rows",
        "the nodes run this software; the random bits of their operating systems are not predictable",
    ]
    if privacy.unit == "person":
        said.append("each person has at most one row at a node")
    if settings.masked:
        said.append(
            f"at least {honest} of {layout.graph.nodes} nodes, that of the row among them, follow the protocol, add "
            "the noise they should, and do not pool what they know with others; the other nodes need not follow it, as "
            "what each node is told is bound into its masks"
        )
        said.extend(ASSUMED[1:])
    return (SEEDED, *said) if privacy.noise_seed is not None else tuple(said)


# --- is it worth it? -----------------------------------------------------------------------------------


def noise_level(settings: GaussianSettings) -> float:
    """Norm of the noise in the mean gradient, all rounds together, for rows of norm about 1."""
    return settings.noise * math.sqrt(settings.free)


def outlook(settings: GaussianSettings, layout: SampleSplit, loss: Loss) -> tuple[str, ...]:
    """What the sizes alone say about the use of the run."""
    level = noise_level(settings)
    worth = max(1, round((SPREAD / level) ** 2))
    largest = max(zip(layout.rows, layout.graph.names, strict=True))
    lines = [_level(level, layout), _alone(worth, *largest)]
    lines.append(f"{UNMEASURED}whether the joint model beats a node's own, which has no noise; {MEASURES}")
    if loss.name == "logistic":
        lines.append(
            "loss: exp(-m) for margins m >= 0, 1 - m below, in place of the logistic one; its scores are log odds too, "
            "and it needs less noise for the same curvature"
        )
    elif loss.name == "poisson":
        lines.append(
            f"loss: labels and means above label_norm = {settings.label_norm:g} count as {settings.label_norm:g}, so "
            "that a row's derivative has a bound; means up to it are fitted as by the Poisson loss"
        )
    elif loss.name in ("squared", "absolute"):
        lines.append(f"loss: linear for residuals beyond {settings.slope * settings.label_norm:g}, quadratic within")
    return tuple(lines)


def _level(level: float, layout: SampleSplit) -> str:
    said = f"noise level {level:.2g}, for rows as long as row_norm (for shorter rows it is larger)"
    if level > LARGE_NOISE:
        said += (
            f"; above {LARGE_NOISE:g}, as with these {layout.total} rows, this is large noise: raise epsilon, or use "
            "more rows, fewer columns or fewer nodes"
        )
    return said


def _alone(worth: int, rows: int, name: str) -> str:
    size = f"such noise is about as large as chance in a sample of {worth} rows"
    return f"{size}; {name}, which has most, has {rows} of its own"


# --- The plan


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
