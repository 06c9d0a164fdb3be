"""Plans of the sharing paper's private mechanism: its own noise and arithmetic, and a certificate that proves nothing.

docs/proofs/published.md shows that Lemma 1 is false and that Theorem 3 does not follow from it.

How epsilon and delta are read: as `Privacy` means them, for the whole run, and by the paper's own Corollary 1. Half of
delta is its delta', the other half is split evenly between the rounds; its formula, inverted numerically, gives the
epsilon of one round (at most 1, where its per-round theorem ends), and that theorem the noise of each party.
The paper says "T is confined to less than 20", so a run has at most 19 rounds. It gives no rho: the default is the
number of blocks, at least 2.5, times the curvature of the loss, which meets its Assumption 1.2(c).
"""

from __future__ import annotations

import math

import scipy

from tacit.errors import InputError
from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.published import INVERSE, NOISY, ON_COEFFICIENTS, PublishedSettings
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import NotPrivate
from tacit.privacy.releases import Allowed
from tacit.privacy.request import SEEDED, Privacy
from tacit.records import as_whole, at_least, positive, probability
from tacit.solvers.base import Problem
from tacit.topologies import FeatureSplit

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
