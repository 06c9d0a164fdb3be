"""The sharing paper's private mechanism as written: every party releases D_m (x_m + xi). It is not private.

The paper exists in two versions that differ in the law of xi:

| name | text | law of xi |
|---|---|---|
| "published" | the shorter version, eqs. (7) to (10) | N(0, sigma^2 I): noise on the coefficients |
| "published-inverse" | the longer version, eq. (16) | N(0, sigma^2 (D'D)^-1): the share gets N(0, sigma^2 P) |

P projects on the column space of D. Why neither is differentially private: docs/proofs/published.md.

| symbol | meaning | held by |
|---|---|---|
| D, x | the party's rows and the argmin of its x-update over the ball ||x|| <= b1 | party |
| xi, x~ | noise and x + xi; x~ is the party's model, and all that later rounds use | party |
| s | sum of the shares D x~ (and the intercept) | coordinator |
| z, y | the paper's auxiliary and dual variable | coordinator |
| s - z, y | what is broadcast (Algorithm 1, line 12) | everybody |

Where the text leaves something open:

- l is the *sum* of the losses, as in the display before eq. (1), so that lambda = alpha times rows and rho is in the
  unit of `Problem.rho`; the minimiser is that of the mean loss with alpha.
- Rows longer than `row_norm` are scaled down to it (in predictions too). Assumption 2.3 wants every row to have norm 1:
  shorter rows are left as they are.
- b1 bounds x, y and z in Assumption 2.1. Only x can be held to it without changing the algorithm, so only x is.
- D'D must have an inverse; where columns depend on each other (one-hot columns do) its pseudo-inverse is taken.
- An intercept, which the paper has not, is one more block of the same iteration: a column of ones at the coordinator.
- rho is never adapted, and x, y and z start at 0, as in the paper.

The plan has the paper's own noise and arithmetic, and a certificate that proves nothing.
docs/proofs/published.md shows that Lemma 1 is false and that Theorem 3 does not follow from it.

How epsilon and delta are read: as `Privacy` means them, for the whole run, and by the paper's own Corollary 1. Half of
delta is its delta', the other half is split evenly between the rounds; its formula, inverted numerically, gives the
epsilon of one round (at most 1, where its per-round theorem ends), and that theorem the noise of each party.
The paper says "T is confined to less than 20", so a run has at most 19 rounds. It gives no rho: the default is the
number of blocks, at least 2.5, times the curvature of the loss, which meets its Assumption 1.2(c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from tacit.blocks.dense import Block, RowClip, eigen
from tacit.errors import InputError, RunError
from tacit.mechanisms.base import Inbox, Mechanism, MechanismRequest, PrivatePlan
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import NotPrivate
from tacit.privacy.releases import Allowed
from tacit.privacy.request import SEEDED, Privacy
from tacit.records import as_whole, at_least, positive, probability
from tacit.solvers.base import PrivateSolver, Problem, Progress, Release, best_constant, constant_loss, private_progress
from tacit.solvers.sharing.coordinator import DIVERGED, GROWING_ROUNDS
from tacit.topologies import FeatureSplit
from tacit.types import Arrays, Vector

# --- The public numbers of the published mechanism


NOISY = "noisy coefficients"  # the name under which the noise of every round is planned


@dataclass(frozen=True)
class PublishedSettings:
    """What both sides use.

    Attributes
    ----------
    rho : float
        Penalty of the augmented Lagrangian of the summed loss, never adapted.
    radius : float
        b1: largest norm of a party's coefficients before noise.
    row_norm : float
        Longer rows are scaled down to it.
    inverse : bool
        True for noise of covariance sigma^2 (D'D)^-1, False for sigma^2 I.
    """

    rho: float
    radius: float
    row_norm: float
    inverse: bool


# --- A party's round as published: the x-update over a ball, noise on x, and the share of the noisy x


LARGEST = 1e100  # of a number that arrives
RANK_CUTOFF = 1e-12  # eigenvalues of D'D below this part of the largest are rounding, and treated as zero


class PublishedParty:
    """Holds the rows and the noisy coefficients; releases D x~ in every round."""

    def __init__(self, problem: Problem, block: Block, settings: PublishedSettings, release: Release) -> None:
        self.settings, self.release = settings, release
        self.clip = RowClip(settings.row_norm)
        self.rows = self.clip.apply(block)
        self.ridge = problem.alpha * problem.total * problem.regularizer.l2 / settings.rho
        values, vectors = eigen(self.rows.gram(np.ones(block.n)), relatively_robust=True)
        kept = values > RANK_CUTOFF * max(float(values[-1]), 0.0)
        self.values, self.vectors = values[kept], vectors[:, kept]  # D'D = vectors diag(values) vectors'
        self.coef: Vector = np.zeros(block.d)
        self.exact: Vector = np.zeros(block.d)

    def start_at(self, coef: Vector) -> Arrays:
        """Refused: the published run starts at zero, and a share without noise must not leave."""
        raise RunError("the published mechanism starts at zero: a start from coefficients is not available")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer (s - z, y) with the share of the new noisy coefficients."""
        residual, dual = (
            _bounded(Inbox(inbox, self.release.owner).numbers(name, self.rows.n)) for name in ("residual", "dual")
        )
        others = residual - self.rows.predict(self.coef)
        self.exact = self._solve(-self.rows.correlate(others + dual / self.settings.rho))
        self.coef = self._noisy(self.exact)
        return {"share": self.rows.predict(self.coef)}

    def _solve(self, pull: Vector) -> Vector:
        """The argmin of ridge/2 ||x||^2 + 1/2 x'D'D x - pull'x over ||x|| <= b1; of least norm where there are more."""
        rotated, radius = self.vectors.T @ pull, self.settings.radius

        def at(shift: float) -> Vector:
            return np.asarray(rotated / (self.values + self.ridge + shift))

        if np.linalg.norm(at(0.0)) <= radius:
            return np.asarray(self.vectors @ at(0.0))
        top = float(np.linalg.norm(rotated)) / radius  # at this shift the norm is at most the radius

        def excess(shift: float) -> float:
            return 1 / radius - 1 / float(np.linalg.norm(at(shift)))

        try:
            shift = float(scipy.optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500))
        except (ArithmeticError, ValueError, RuntimeError):  # rounding turned a sign
            shift = top
        inside = min(1.0, radius / max(float(np.linalg.norm(at(shift))), 1e-300))
        return np.asarray(self.vectors @ (inside * at(shift)))

    def _noisy(self, x: Vector) -> Vector:
        """The noisy x: noise on x itself, or on R x with R'R = D'D, which is N(0, sigma^2 (D'D)^-1) on x."""
        if not self.settings.inverse:
            return self.release.add(NOISY, x)
        root = np.sqrt(self.values)
        return np.asarray(self.vectors @ (self.release.add(NOISY, root * (self.vectors.T @ x)) / root))

    def finish(self, inbox: Arrays) -> None:
        """Nothing changes: the model is the last noisy one."""

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        return {"coef": self.coef, "exact": self.exact}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.coef, self.exact = state["coef"], state["exact"]


def _bounded(numbers: Vector) -> Vector:
    """Numbers with which nothing overflows: 0 for what is none, and none beyond 1e100."""
    return np.clip(np.where(np.isnan(numbers), 0.0, numbers), -LARGEST, LARGEST)


# --- The central node as published: z-update, dual update, and both sent to every party


class PublishedCoordinator:
    """Holds the labels, s, z and y; hears only the sum of the noisy shares."""

    def __init__(self, problem: Problem, labels: Vector, settings: PublishedSettings) -> None:
        self.problem, self.labels, self.rho = problem, labels, settings.rho
        self.s, self.z, self.y = (np.zeros(labels.size) for _ in range(3))
        self.intercept = 0.0
        self.level = constant_loss(problem, labels, best_constant(problem, labels))
        self.last_residual, self.growing, self.round = math.inf, 0, 0

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Never reached: the parties refuse."""

    def broadcast(self) -> Arrays:
        """What the paper distributes: s - z and y."""
        self.round += 1
        return {"residual": self.s - self.z, "dual": self.y}

    def combine(self, total: Arrays) -> Progress:
        """Take in the noisy shares: intercept, z and y."""
        if self.problem.fit_intercept:  # the x-update of a column of ones, from the same broadcast as the others
            self.intercept -= float(np.mean(self.s - self.z + self.y / self.rho))
        old, self.s = self.z, total["share"] + self.intercept
        self.z = self.problem.loss.prox(self.s + self.y / self.rho, self.labels, 1.0 / self.rho)
        self.y = self.y + self.rho * (self.s - self.z)
        size = max(_size(self.z), _size(self.s), 1e-15)
        primal, dual = _size(self.s - self.z) / size, self.rho * _size(self.z - old) / max(_size(self.y), 1e-15)
        return private_progress(rho=self.rho / self.problem.total, note=self._divergence(max(primal, dual)))

    def _divergence(self, residual: float) -> str:
        """Why a diverging run must stop; the loss of round 1, whose shares are noise alone, is not divergence."""
        loss = self.problem.loss.total(self.s, self.labels) / self.problem.total
        if self.round == 1:
            self.level = max(self.level, loss)
        self.growing = self.growing + 1 if residual > self.last_residual else 0
        self.last_residual = residual
        if loss < DIVERGED * self.level and self.growing < GROWING_ROUNDS:
            return ""
        return (
            f"the published mechanism diverges at rho={self.rho / self.problem.total:.3g}: every party corrects the "
            'whole residual at once; use mechanism="gram", or a larger rho'
        )

    def closing(self) -> Arrays:
        """Nothing: every party keeps its last noisy coefficients."""
        return {}

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([float(getattr(self, name)) for name in _NUMBERS])
        return {"s": self.s, "z": self.z, "y": self.y, "numbers": numbers}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.s, self.z, self.y = state["s"], state["z"], state["y"]
        for name, value in zip(_NUMBERS, state["numbers"], strict=True):
            setattr(self, name, type(getattr(self, name))(value))


_NUMBERS = ("intercept", "level", "last_residual", "growing", "round")


def _size(values: Vector) -> float:
    """Root mean square."""
    return math.sqrt(float(values @ values) / values.size)


def _coordinator(
    problem: Problem, labels: Vector, settings: PublishedSettings, own: Block | None, release: Release
) -> PublishedCoordinator:
    return PublishedCoordinator(problem, labels, settings)


ON_COEFFICIENTS = PrivateSolver("published", party=PublishedParty, coordinator=_coordinator)
INVERSE = PrivateSolver("published-inverse", party=PublishedParty, coordinator=_coordinator)


# --- The arithmetic of the sharing paper's privacy statements, to print beside what is true. None of it is proven


LARGEST_EPSILON = 1.0  # Theorem 3 is stated for an epsilon of one round in (0, 1]


def lemma1_bound(columns: int, rho: float, weight: float, curvature: float, blocks: int, bound: float) -> float:
    """Lemma 1's C = 3 / (d rho) * (lambda c1 + (1 + M rho) b1); the true sensitivity can exceed it.

    Parameters
    ----------
    columns : int
        d, columns of the party.
    rho, weight : float
        Penalty of the augmented Lagrangian and lambda, of the summed loss.
    curvature : float
        c1, largest |R''|.
    blocks : int
        M, how many blocks add to the scores.
    bound : float
        b1, assumed to bound the norms of x, y and z.
    """
    size = as_whole(columns, "columns", 1) * positive(rho, "rho")
    inner = at_least(weight, "weight", 0) * at_least(curvature, "curvature", 0)
    return 3 / size * (inner + (1 + as_whole(blocks, "blocks", 1) * rho) * positive(bound, "bound"))


def theorem3_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Theorem 3's sigma = sqrt(2 ln(1.25 / delta)) C / epsilon, for one round."""
    factor = math.sqrt(2 * math.log(1.25 / positive(probability(delta, "delta"), "delta")))
    return factor * positive(sensitivity, "sensitivity") / positive(epsilon, "epsilon")


def corollary1_epsilon(epsilon: float, rounds: int, slack: float) -> float:
    """Corollary 1's eps' = sqrt(2 T ln(1/delta')) eps + T eps (e^eps - 1), at delta T delta + delta'."""
    count = as_whole(rounds, "rounds", 1)
    log = math.log(1 / positive(probability(slack, "slack"), "slack"))
    return math.sqrt(2 * count * log) * at_least(epsilon, "epsilon", 0) + count * epsilon * math.expm1(epsilon)


def corollary1_round_epsilon(epsilon: float, rounds: int, slack: float) -> float:
    """The epsilon of one round for which Corollary 1 says `epsilon`, at most 1, where Theorem 3 ends."""
    asked = positive(epsilon, "epsilon")
    if corollary1_epsilon(LARGEST_EPSILON, rounds, slack) <= asked:
        return LARGEST_EPSILON

    def excess(one: float) -> float:
        return corollary1_epsilon(one, rounds, slack) - asked

    return float(scipy.optimize.brentq(excess, 0.0, LARGEST_EPSILON, xtol=1e-300, rtol=1e-14))


# --- Plans of the sharing paper's private mechanism: the paper's own noise, and a certificate that proves nothing


MOST_ROUNDS = 19
LEAST_BLOCKS = 2.5
ADVERSARY = "anybody who sees the messages of the run"
PROOF = "none: docs/proofs/published.md shows the contrary"
COLUMN_SPACE = (
    "the release lies in the column space of the party's data: projecting on it tells neighbours apart at any noise "
    "level"
)
FALSE_BOUND = (
    "the noise is scaled to a sensitivity bound (Lemma 1 of the paper) that is false: it takes the inverse of D'D to "
    "have norm 1/d"
)
UNIT = "a person or a record: the paper's neighbours differ in one column of features, not in one row"
LABELS = "the labels: the dual variable sent to every party in each round is the loss derivative, whose sign gives each"
MODEL = "predictions: each asked row discloses one score per party of a model that is itself not private"


class Published(Mechanism[FeatureSplit]):
    """The shorter version of the paper: noise N(0, sigma^2 I) on x."""

    name = "published"
    split = FeatureSplit.split
    summary = "the sharing paper's noise, as published: its certificate proves nothing"
    solver = ON_COEFFICIENTS
    allowed_solvers = ("published",)
    covers_model = False
    model_stays_local = True
    noise_in_column_space = True
    vectors = (2.0, 1.0)

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        """The paper's own noise, and a certificate that proves nothing."""
        return _plan(self, request, layout)


class PublishedInverse(Published):
    """The longer version of the paper: noise N(0, sigma^2 (D'D)^-1) on x."""

    name = "published-inverse"
    summary = "the noise of the sharing paper's longer version: its certificate proves nothing"
    solver = INVERSE


def _plan(mechanism: Published, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    row_norm = _check(privacy, problem, layout)
    inverse = mechanism.solver is INVERSE
    blocks = problem.parties + problem.fit_intercept
    rho = problem.rho or max(blocks, LEAST_BLOCKS) * problem.loss.curvature
    rounds = min(request.max_rounds, MOST_ROUNDS)
    weight, curvature = problem.alpha * problem.total, problem.regularizer.l2
    bounds = {
        name: lemma1_bound(layout.columns_of(name), rho, weight, curvature, blocks, privacy.coef_norm)
        for name in layout.parties
    }
    assert privacy.epsilon is not None
    one = corollary1_round_epsilon(privacy.epsilon, rounds, privacy.delta / 2)
    sigmas = {name: theorem3_sigma(bound, one, privacy.delta / 2 / rounds) for name, bound in bounds.items()}
    settings = PublishedSettings(rho, privacy.coef_norm, row_norm, inverse)
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=mechanism.solver,
        settings=settings,
        releases={name: (Allowed(NOISY, sigma, rounds),) for name, sigma in sigmas.items()},
        certificate=_certificate(privacy, layout, rounds, _said(privacy, settings, rounds, one, bounds, sigmas)),
        holder=layout.holder,
        rounds=rounds,
        noise={f"{NOISY} of {name}": sigma for name, sigma in sigmas.items()},
        outlook=('This mechanism protects nobody, whatever its noise; mechanism="gram" is proven.',),
    )


def _said(
    privacy: Privacy,
    settings: PublishedSettings,
    rounds: int,
    one: float,
    bounds: dict[str, float],
    sigmas: dict[str, float],
) -> str:
    """What the paper would have said; its theorem has number 1 in the shorter version and 3 in the longer one."""
    return (
        f"each of {rounds} rounds is ({one:.4g}, {privacy.delta / 2 / rounds:.4g})-differentially private for one "
        f"column (Theorem {3 if settings.inverse else 1}, from Lemma 1's C = {_by_party(bounds)}, with noise sigma = "
        f"{_by_party(sigmas)}), and the run ({corollary1_epsilon(one, rounds, privacy.delta / 2):.4g}, "
        f"{privacy.delta:.4g}) (Corollary 1), if every row has norm 1 (here: at most {settings.row_norm:g}) and x, y "
        f"and z have norms of at most {settings.radius:g} (here: x alone)"
    )


def _check(privacy: Privacy, problem: Problem, layout: FeatureSplit) -> float:
    """The norm of the rows; refuses what the paper's formulas say nothing about."""
    name = f"mechanism={privacy.mechanism!r}"
    if privacy.epsilon is None:
        raise InputError(f"{name} needs epsilon: give a number, from which the paper's noise follows")
    if privacy.label_epsilon is not None:
        raise InputError(f'{name} does not randomize labels: leave label_epsilon out, or use mechanism="gram"')
    if privacy.refit:
        raise InputError(f'{name} has no refit: leave it out, or use mechanism="gram"')
    if not math.isfinite(problem.loss.curvature):
        raise InputError(f"{name} needs a loss with a Lipschitz derivative (Assumption 1.1), not {problem.loss.name!r}")
    if problem.regularizer.form != "quadratic":
        raise InputError(
            f"{name} needs a penalty with a second derivative (Assumption 2.2), not {problem.regularizer.name!r}: "
            'use penalty="l2"'
        )
    if min(layout.columns) < 1:
        raise InputError(f"{name} needs the number of columns of every party: give columns")
    norms = {privacy.norm_of(party) for party in layout.parties}
    if len(norms) > 1:
        raise InputError(f"{name} takes one row_norm for all parties: give a number")
    return norms.pop()


def _certificate(privacy: Privacy, layout: FeatureSplit, rounds: int, said: str) -> Certificate:
    """Nothing is proven: columns, rows and labels are named with the reason."""
    claims = []
    for unit in ("column", "record"):
        for party in layout.parties:
            reason = COLUMN_SPACE if layout.columns_of(party) < layout.rows else FALSE_BOUND
            claims.append(_claim(privacy, unit, party, f"each {unit} of {party}: {reason}", f"{rounds} noisy shares"))
    claims.append(_claim(privacy, "label", layout.holder, LABELS, f"the dual variable, in {rounds} rounds"))
    seeded = () if privacy.noise_seed is None else (SEEDED,)
    return Certificate(
        unit="column",
        adversary=ADVERSARY,
        does_not_cover=(
            f"columns and rows: the noise has no more directions than the party has columns, and {COLUMN_SPACE}",
            f"columns and rows, even with noise in every direction: {FALSE_BOUND}",
            UNIT,
            LABELS,
            MODEL,
            *seeded,
        ),
        per_party=dict.fromkeys(
            layout.parties, f"in each of {rounds} rounds one number for each of {layout.rows} rows, with noise"
        ),
        published_claim=said,
        claims=tuple(claims),
        target=Target(None, privacy.delta),
    )


def _claim(privacy: Privacy, unit: str, party: str, reason: str, released: str) -> Claim:
    event = NotPrivate(reason, released=released, party=party, unit=unit, neighbours=privacy.neighbours)
    return Claim(unit, party, privacy.neighbours, ADVERSARY, (event,), PROOF)


def _by_party(numbers: dict[str, float]) -> str:
    return ", ".join(f"{value:.4g} at {name}" for name, value in numbers.items())
