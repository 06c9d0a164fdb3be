"""Private sharing in Gram space: from what was asked and public sizes to noise, planned releases and a certificate.

Theorems: docs/proofs/gram.md. One fit spends mu: a twentieth of mu^2 on the mean and the trace, a twentieth on saying
how it changes the loss, the rest on the Gram matrix and all gradients. Nothing here depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tacit.blocks.dense import ROWS_AT_ONCE
from tacit.errors import InputError
from tacit.mechanisms.base import (
    CENTRE_SHARE,
    COORDINATOR,
    LABELS,
    LARGEST_NORM,
    USUAL_ROUNDS,
    Mechanism,
    MechanismRequest,
    PrivatePlan,
)
from tacit.mechanisms.gram.fit import (
    DIFFERENCE,
    GRADIENT,
    HISTOGRAM,
    LOSS_CHANGE,
    MEAN,
    TRACE,
    listed,
    loss_change_clip,
    outlook,
)
from tacit.mechanisms.gram.fit import GRAM as GRAM_MATRIX
from tacit.mechanisms.gram.settings import (
    ABSOLUTE_CLIP,
    LOSS_CHANGE_SHARE,
    RESIDUAL_CLIP,
    EvaluationSettings,
    FitSettings,
    GramSettings,
    Response,
    bounds,
    damping_for,
    payload,
    rounding,
    seconds,
    steps_for,
    symbol_slope,
)
from tacit.mechanisms.gram.sides import BITS, GRAM_SHARING, SYMBOLS
from tacit.privacy import accountant
from tacit.privacy.calibration import Budget, budget_mu, calibrate, split_mu
from tacit.privacy.certificate import NO_ROWS, OTHER_RUNS, Certificate, at_several_parties, row_and_label
from tacit.privacy.claim import HELD_OUT, Claim, Target
from tacit.privacy.events import BucketedResponse, Event, GaussianRelease, RandomizedResponse
from tacit.privacy.randomness import GRID_BITS, label_noise
from tacit.privacy.releases import Allowed, AllowedResponse, Planned
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.modified import flip_of, modified
from tacit.solvers.base import Problem
from tacit.text import plural
from tacit.topologies import FeatureSplit

# --- Private sharing in Gram space: from what was asked and public sizes to noise, planned releases and a certificate


REFIT_SHARE = 0.3  # of epsilon for the one bit of a refit
LEAST_SHARE, SYMBOL_ROWS = 0.7, 100.0  # of epsilon for the one symbol of a label holder whose rows are protected too
USUAL_ROWS = 10_000  # taken where the number of rows is not known yet, and nothing but the code of curves follows
HOLDER_STEPS, HOLDER_FEW_STEPS = (40, 4.0), (20, 3.0)  # few where the symbol's epsilon is below MANY_LEVELS
MOST_SYMBOL = 500.0  # epsilon of a symbol: beyond it nothing is randomized any more
BINS = 20  # of the joint score, for rows held out
EVALUATION_SHARES = {DIFFERENCE: 0.5, HISTOGRAM: 0.5}  # of mu^2
MANY_LEVELS = 2.0  # epsilon of a symbol from which four levels of the score are worth sending


@dataclass(frozen=True)
class _Shape:
    """What a loss gives a protected party to fit, with its bounds."""

    target: str
    slope: float
    weight: float
    one_signed: bool
    directions: int = 1  # of a derivative: C - 1 of C classes


class Gram(Mechanism[FeatureSplit]):
    """Private sharing in Gram space: noise on sums over all rows."""

    name = "gram"
    split = FeatureSplit.split
    summary = "each protected party fits once, with noise on sums over all its rows"
    can_leave_out_holder = True
    can_evaluate = True
    takes_several_classes = True
    noise_remarks = (
        "these are standard deviations of the noise on sums over all rows, each row divided by row_norm, so that its "
        "norm is at most 1",
    )

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        """Plan the mechanism; refuse what no theorem covers."""
        return _plan(self, request, layout)

    def is_default(self, privacy: Privacy, *, given_labels: bool) -> bool:
        """It is what a request for the rows of a feature split gets."""
        return privacy.epsilon is not None

    def seen_loss(self, loss: Loss, privacy: Privacy) -> Loss:
        """The loss itself: labels are randomized inside, and each fit takes the loss that fits them."""
        return loss

    def gradient_noise(self, privacy: Privacy, loss: Loss, parties: Sequence[str], *, secure: bool) -> float:
        """The same in units of the derivative, whose bound depends on what is sent for a label."""
        response = _response(privacy, USUAL_ROWS) if privacy.protect == "everyone" else None
        slope = _shape(loss, privacy.label_epsilon, response).slope
        return slope * super().gradient_noise(privacy, loss, parties, secure=secure)

    def check_choices(self, planned: PrivatePlan, request: MechanismRequest) -> PrivatePlan:
        """Refuse rho and too few rounds; remark on a number of rounds that changes nothing."""
        super().check_choices(planned, request)
        rho, rounds = request.rho, request.max_rounds
        if rho != "auto":
            raise InputError(f"rho={rho!r} does not fit mechanism='gram', which has no such penalty: leave rho out")
        if planned.rounds > rounds:
            raise InputError(
                f"max_rounds={rounds} does not fit mechanism='gram', which takes {planned.rounds}: leave max_rounds out"
            )
        if rounds == USUAL_ROUNDS:
            return planned
        always = plural(planned.rounds, "round")
        remark = f"max_rounds = {rounds} changes nothing: mechanism 'gram' always takes {always}"
        return replace(planned, outlook=(*planned.outlook, remark))


def _plan(mechanism: Gram, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    _refuse(privacy, problem, layout)
    if request.evaluated:
        _refuse_evaluation(privacy, problem, layout)
    everyone = privacy.protect == "everyone"
    response = _response(privacy, layout.rows) if everyone else None
    budget = _Budget(privacy, len(layout.others), response)
    shape = _shape(problem.loss, privacy.label_epsilon, response)
    fits = {name: _fit(privacy, layout, name, shape, budget.others, response) for name in layout.others}
    holder_fit = _holder_fit(privacy, layout, budget.holder, response) if response is not None else None
    settings = GramSettings(
        holder=layout.holder,
        target=shape.target,
        fits=fits,
        damping=damping_for(len(layout.others)),
        alpha=problem.alpha,
        seen_loss=problem.loss if privacy.label_epsilon is None else modified(problem.loss, privacy.label_epsilon),
        label_epsilon=privacy.label_epsilon,
        holder_is_exact=privacy.predictions == "label-holder" and (everyone or privacy.label_epsilon is not None),
        holder_fit=holder_fit,
        response=response,
        refit=Response(_bit_epsilon(privacy, len(layout.others)), 1, 1.0) if privacy.refit else None,
        evaluation=_evaluation(layout, budget.others) if request.evaluated else None,
    )
    events = {name: _fit_events(privacy, settings, name, budget.others) for name in layout.others}
    holder_events = _holder_events(privacy, settings, budget.holder, layout)
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=GRAM_SHARING,
        settings=settings,
        releases=_releases(settings),
        certificate=certificate(
            privacy, settings, layout, events, holder_events, _held_events(privacy, settings, layout, budget.others)
        ),
        holder=layout.holder,
        rounds=3 if request.evaluated else 2 if privacy.refit or settings.releases_loss_change else 1,
        noise=_noise(settings),
        outlook=outlook(settings, layout),
        traffic=payload(settings, layout),
        seconds=seconds(settings, layout),
    )


def _epsilon(privacy: Privacy) -> float:
    assert privacy.epsilon is not None
    return privacy.epsilon


def _bit_epsilon(privacy: Privacy, others: int) -> float:
    """Of one party's bit: a person has one at each of them."""
    return REFIT_SHARE * _epsilon(privacy) / (others if privacy.unit == "person" else 1)


# --- what is refused -----------------------------------------------------------------------------------


def _refuse(privacy: Privacy, problem: Problem, layout: FeatureSplit) -> None:
    loss, classifies = problem.loss, problem.loss.task == "classification"
    everyone = privacy.protect == "everyone"
    reasons = (
        (not layout.others, "one party only: with nobody to protect it from, leave privacy out"),
        (not problem.fit_intercept, "fit_intercept=False: rows are centred privately, so give fit_intercept=True"),
        (problem.regularizer.name not in ("l2", "none"), f'penalty={problem.regularizer.name!r}: give penalty="l2"'),
        (
            everyone and problem.trees is not None,
            "boosted trees with protect='everyone': the label holder's trees are grown on its rows without noise; "
            "give protect='others', or train curves",
        ),
        (privacy.refit and problem.trees is not None, "refit=True with boosted trees: leave refit out"),
        (privacy.refit and everyone, "refit=True: it is for protect='others'"),
        (privacy.refit and not loss.smooth, f"refit=True: loss={loss.name!r} has kinks: leave refit out"),
        (privacy.refit and (not classifies or loss.outputs > 1), "refit=True: it is for two classes: leave refit out"),
        (
            privacy.label_epsilon is not None and loss.outputs > 1,
            "label_epsilon with more than two classes: leave it out, or protect the labels alone with epsilon=None",
        ),
        (
            problem.trees is not None and (loss.outputs > 1 or loss.task == "counts"),
            f"loss={loss.name!r} with boosted trees, which are for two classes and plain numbers: train curves",
        ),
        (
            everyone and privacy.label_epsilon is not None,
            "label_epsilon: protect='everyone' covers the labels already, so leave it out",
        ),
        (
            everyone and loss.name != "logistic",
            f"{_said(loss)} with protect='everyone': it is proven for loss='logistic' of two classes",
        ),
        (
            privacy.neighbours == "zero-out" and (everyone or privacy.refit or privacy.label_epsilon is not None),
            "neighbours='zero-out' together with labels or bits: give neighbours='replace-one'",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"mechanism='gram' does not fit {reason}")
    for party in layout.parties if everyone else layout.others:
        if not 1 / LARGEST_NORM <= privacy.norm_of(party) <= LARGEST_NORM:
            raise InputError(
                f"mechanism='gram' does not fit row_norm={privacy.norm_of(party):g} of party {party!r}: scale its "
                f"columns so that a norm between {1 / LARGEST_NORM:g} and {LARGEST_NORM:g} fits"
            )


def _said(loss: Loss) -> str:
    """A loss in words of who asked for it."""
    return "more than two classes" if loss.outputs > 1 else f"loss={loss.name!r}"


def _refuse_evaluation(privacy: Privacy, problem: Problem, layout: FeatureSplit) -> None:
    """Refuse a release about rows held out that no theorem covers."""
    reasons = (
        (
            len(layout.others) > 1,
            "several protected parties: the joint score of a row is a sum of theirs, which nobody may see",
        ),
        (
            privacy.protect == "everyone",
            "protect='everyone': neither the label holder's score of a row nor its label may leave it",
        ),
        (privacy.label_epsilon is not None, "label_epsilon: the labels of rows held out would be sent as they are"),
        (privacy.refit, "refit=True"),
        (
            problem.loss.name != "logistic",
            f"{_said(problem.loss)}: it is proven for loss='logistic' of two classes",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(
                f"a private evaluation of rows held out does not fit {reason}; leave holdout out, or in one process "
                "write evaluation = 'exact', whose figures are for the label holder alone"
            )


def _shape(loss: Loss, label_epsilon: float | None, response: Response | None) -> _Shape:
    """Derivative and weight of each loss, with their bounds (gram.md, section 2)."""
    if response is not None:
        return _Shape("symbols", symbol_slope(response), 0.25, one_signed=True)
    if loss.name == "softmax" and label_epsilon is None:
        return _Shape("softmax", loss.lipschitz, 1 / loss.outputs, one_signed=True, directions=loss.outputs - 1)
    if loss.name == "poisson" and label_epsilon is None:
        return _Shape("counts", RESIDUAL_CLIP, 1.0, one_signed=False)
    if label_epsilon is not None and loss.name == "logistic":
        return _Shape("logistic", modified(loss, label_epsilon).lipschitz, 0.25, one_signed=True)
    if label_epsilon is not None:
        slope = modified(loss, label_epsilon).lipschitz
        return _Shape("margin", slope, slope / 2, one_signed=True)
    if loss.name == "logistic":
        return _Shape("half", 1.0, 0.5, one_signed=True)
    if loss.name in ("hinge", "sigmoid"):
        return _Shape("margin", loss.lipschitz, loss.lipschitz / 2, one_signed=True)
    if loss.name in ("squared", "huber", "absolute"):
        return _Shape("residual", ABSOLUTE_CLIP if loss.name == "absolute" else RESIDUAL_CLIP, 1.0, one_signed=False)
    why = "its derivative has no bound" if math.isinf(loss.lipschitz) else "no bound is proven for it"
    raise InputError(
        f"mechanism='gram' does not fit loss={loss.name!r}: {why}; choose logistic for classes, hinge or sigmoid for "
        "two of them, squared, huber or absolute for numbers, poisson for counts and amounts"
    )


# --- how much each fit may spend ---------------------------------------------------------------------


class _Budget:
    """Mu of each protected party's fit, and of the label holder's where its rows are protected too."""

    def __init__(self, privacy: Privacy, others: int, said: Response | None) -> None:
        together = privacy.unit == "person"  # one person's rows at all these parties count together
        count = others if together else 1
        epsilon = _epsilon(privacy)
        self.holder = 0.0
        if said is not None:
            self.holder = _largest(privacy, lambda mu: [BucketedResponse(mu, said.epsilon, said.symbols)])
            self.others = _largest(privacy, lambda mu: [GaussianRelease(mu, 1.0)])
            if together:
                self.holder = self.others = _largest(
                    privacy,
                    lambda mu: [
                        BucketedResponse(mu, said.epsilon, said.symbols),
                        GaussianRelease(mu * math.sqrt(count), 1.0),
                    ],
                )
            return
        label: list[Event] = []
        if together and privacy.label_epsilon is not None:
            label = [RandomizedResponse(privacy.label_epsilon, unit="label")]
        if privacy.refit:
            bit = _bit_epsilon(privacy, others)
            budget_mu(epsilon, privacy.delta, beside=[RandomizedResponse(bit)] * count + label)  # is there room at all?
            self.others = _largest(privacy, lambda mu: [BucketedResponse(mu, bit)] * count + label)
        else:
            budget_mu(epsilon, privacy.delta, beside=label)
            self.others = _largest(privacy, lambda mu: [GaussianRelease(mu * math.sqrt(count), 1.0), *label])


def _largest(privacy: Privacy, events: Callable[[float], list[Event]]) -> float:
    """Largest mu whose events stay within what was asked, by the accountant that was asked for."""
    epsilon, delta = _epsilon(privacy), privacy.delta
    start = accountant.largest(lambda mu: accountant.delta(events(mu), epsilon) <= delta, epsilon)
    refused = InputError(f"epsilon={epsilon:g} cannot be reached at delta={delta:g}: ask for other values")
    budget = Budget(epsilon, delta, privacy.accountant)
    mu = calibrate(events, budget, start, 1 - budget.step, otherwise=refused, most=2000)
    return mu * (1 - 1e-12)  # it is split into parts, whose sum is rounded


# --- the fits ----------------------------------------------------------------------------------------


def _fit(
    privacy: Privacy, layout: FeatureSplit, party: str, shape: _Shape, mu: float, response: Response | None
) -> FitSettings:
    one_step = response is not None and response.levels == 1
    steps, decay = (1, 1.0) if one_step else steps_for(layout.rows)
    score_column = shape.one_signed and shape.target not in ("symbols", "softmax")
    noise = 0.0 if privacy.label_epsilon is None else label_noise(privacy.label_epsilon)
    loss_change = _releases_loss_change(privacy, shape.target)
    return _calibrated(
        privacy,
        layout,
        party,
        mu,
        shape,
        (steps, decay),
        score_column=score_column,
        label_noise=noise,
        loss_change=loss_change,
    )


def _holder_fit(privacy: Privacy, layout: FeatureSplit, mu: float, response: Response) -> FitSettings:
    shape = _Shape("half", 1.0, 0.5, one_signed=False)  # the label belongs to the record, so its sign may change too
    steps = HOLDER_FEW_STEPS if response.levels == 1 else HOLDER_STEPS
    return _calibrated(
        privacy, layout, layout.holder, mu, shape, steps, score_column=False, label_noise=0.0, loss_change=False
    )


def _calibrated(
    privacy: Privacy,
    layout: FeatureSplit,
    party: str,
    mu: float,
    shape: _Shape,
    schedule: tuple[int, float],
    *,
    score_column: bool,
    label_noise: float,
    loss_change: bool,
) -> FitSettings:
    steps, decay = schedule
    size = bounds(shape.slope, shape.weight, steps, one_signed=shape.one_signed, neighbours=privacy.neighbours)
    parts = split_mu(mu, _shares(loss_change=loss_change))
    columns, side = layout.columns_of(party), 2 if score_column else 1
    each = shape.directions * (columns + side)  # numbers of a gradient
    first = _without_rounding(parts["centre"], columns + 1, layout.rows, party)
    second = _without_rounding(parts["fit"], columns * (columns + 1) // 2 + steps * each, layout.rows, party)
    third = _without_rounding(parts.get("loss change", mu), 1, layout.rows, party)
    flip = 0.0 if privacy.label_epsilon is None else flip_of(privacy.label_epsilon)
    clip = loss_change_clip(layout.rows, third, flip) if loss_change else 0.0
    return FitSettings(
        steps=steps,
        decay=decay,
        slope=shape.slope,
        weight=shape.weight,
        score_column=score_column,
        row_norm=privacy.norm_of(party),
        mean_sd=size.mean / first,
        trace_sd=size.trace / first,
        gram_sd=size.gram / second,
        gradient_sd=size.gradient / second,
        label_noise=label_noise,
        loss_change_clip=clip,
        loss_change_sd=2 * clip / (1 - 2 * flip) / third if loss_change else 0.0,
    )


def _evaluation(layout: FeatureSplit, mu: float) -> EvaluationSettings:
    """The release about rows held out: it may spend what the fit spends of other rows (evaluation.md)."""
    (party,) = layout.others
    parts = split_mu(mu, EVALUATION_SHARES)
    first = _without_rounding(parts[DIFFERENCE], 2, max(1, layout.held), party)
    second = _without_rounding(parts[HISTOGRAM], 2 * BINS, max(1, layout.held), party)
    clip = loss_change_clip(max(1, layout.held), first, 0.0)
    return EvaluationSettings(BINS, clip, histogram_sd=math.sqrt(2) / second, difference_sd=2 / first)


def _releases_loss_change(privacy: Privacy, target: str) -> bool:
    """Whether the change of the loss is released: for two classes and probabilities, where labels are at hand."""
    return target in ("half", "logistic") and not privacy.refit


def _shares(*, loss_change: bool) -> dict[str, float]:
    """How mu^2 is split."""
    change = {"loss change": LOSS_CHANGE_SHARE} if loss_change else {}
    return {"centre": CENTRE_SHARE, **change, "fit": 1 - CENTRE_SHARE - sum(change.values())}


def _without_rounding(mu: float, entries: int, rows: int, party: str) -> float:
    """What is left of mu when rounding, in the sums and to the grid, has had its part (gram.md, section 7)."""
    left = (mu - math.ldexp(math.sqrt(entries), -GRID_BITS)) / (1 + rounding(rows, ROWS_AT_ONCE)) * (1 - 1e-12)
    if left <= 0.5 * mu or rows * mu > 2.0**36:  # no sum of rows may leave the grid
        raise InputError(
            f"party {party!r}: rounding would take half of the privacy asked for with {rows} rows and {entries} "
            "released numbers: raise epsilon, or use fewer columns"
        )
    return left


def _response(privacy: Privacy, rows: int) -> Response:
    """The symbol of each row, and its share of epsilon.

    With the share s, the other parties' fits lose about a/(rows s^2) to randomized symbols, and what the label holder's
    fit leaves unexplained is about b/(rows (1 - s))^2. The sum is least where (1 - s)/s is a cube root of 1/rows.
    """
    share = max(LEAST_SHARE, 1 / (1 + (SYMBOL_ROWS / rows) ** (1 / 3)))
    epsilon = min(share * _epsilon(privacy), MOST_SYMBOL)
    return Response(epsilon, 4 if epsilon >= MANY_LEVELS else 1, 0.5 if epsilon < 1 else 0.75)


# --- events and planned releases ---------------------------------------------------------------------


def _fit_events(privacy: Privacy, settings: GramSettings, party: str, mu: float) -> tuple[Event, ...]:
    """What a protected party gives out about one of its rows, in units of the noise."""
    near = privacy.neighbours
    if settings.refit is not None:
        said = "the outcome of its private fit, and one randomized bit for each row"
        return (BucketedResponse(mu, settings.refit.epsilon, released=said, party=party, neighbours=near),)
    parts = split_mu(mu, _shares(loss_change=settings.releases_loss_change))
    third = "how the fit changes the loss, clipped row by row, summed"
    first = "a weighted mean row and a trace, in units of their noise"
    second = f"a Gram matrix and {settings.fits[party].steps} gradients, in units of their noise"
    return (
        GaussianRelease(parts["centre"], 1.0, released=first, party=party, neighbours=near),
        GaussianRelease(parts["fit"], 1.0, released=second, party=party, neighbours=near),
        *(
            GaussianRelease(part, 1.0, released=third, party=party, neighbours=near)
            for name, part in parts.items()
            if name == "loss change"
        ),
    )


def _held_events(
    privacy: Privacy, settings: GramSettings, layout: FeatureSplit, mu: float
) -> dict[str, tuple[Event, ...]]:
    """What a protected party gives out about one of its rows that was held out, in units of the noise."""
    if settings.evaluation is None:
        return {}
    (party,), parts = layout.others, split_mu(mu, EVALUATION_SHARES)
    said = {
        DIFFERENCE: "of rows held out: two sums of clipped differences of losses, in units of their noise",
        HISTOGRAM: "of rows held out: a histogram of joint scores and labels, in units of its noise",
    }
    return {
        party: tuple(
            GaussianRelease(parts[name], 1.0, released=words, party=party, neighbours=privacy.neighbours)
            for name, words in said.items()
        )
    }


def _holder_events(privacy: Privacy, settings: GramSettings, mu: float, layout: FeatureSplit) -> tuple[Event, ...]:
    """What the label holder gives out about one of its rows or labels."""
    if settings.response is not None:
        return (
            BucketedResponse(
                mu,
                settings.response.epsilon,
                settings.response.symbols,
                released="the outcome of its private fit, and one randomized symbol for each row",
                party=layout.holder,
                neighbours=privacy.neighbours,
            ),
        )
    if privacy.label_epsilon is None:
        return ()
    said = "each label, randomized once"
    return (RandomizedResponse(privacy.label_epsilon, released=said, party=layout.holder, unit="label"),)


def _releases(settings: GramSettings) -> dict[str, tuple[Planned, ...]]:
    planned: dict[str, tuple[Planned, ...]] = {name: _of_fit(fit) for name, fit in settings.fits.items()}
    if settings.refit is not None:
        bit = AllowedResponse(BITS, settings.refit.epsilon)
        planned = {name: (*releases, bit) for name, releases in planned.items()}
    if settings.evaluation is not None:
        tried = settings.evaluation
        held = (Allowed(DIFFERENCE, tried.difference_sd), Allowed(HISTOGRAM, tried.histogram_sd))
        planned = {name: (*releases, *held) for name, releases in planned.items()}
    own: tuple[Planned, ...] = ()
    if settings.holder_fit is not None and settings.response is not None:
        symbol = AllowedResponse(SYMBOLS, settings.response.epsilon, settings.response.symbols)
        own = (*_of_fit(settings.holder_fit), symbol)
    elif settings.label_epsilon is not None:
        own = (AllowedResponse(LABELS, settings.label_epsilon),)
    return {**planned, COORDINATOR: own}


def _of_fit(fit: FitSettings) -> tuple[Planned, ...]:
    change = (Allowed(LOSS_CHANGE, fit.loss_change_sd),) if fit.loss_change_sd > 0 else ()
    return (
        Allowed(MEAN, fit.mean_sd),
        Allowed(TRACE, fit.trace_sd),
        Allowed(GRAM_MATRIX, fit.gram_sd),
        Allowed(GRADIENT, fit.gradient_sd, fit.steps),
        *change,
    )


def _noise(settings: GramSettings) -> dict[str, float]:
    """Deviations for people, by party and release; rows count as scaled to norm 1."""
    found = {}
    for name, fit in settings.fits.items():
        for release in _of_fit(fit):
            assert isinstance(release, Allowed)
            found[f"{name}: {release.name}"] = release.sd
        if settings.evaluation is not None:
            found[f"{name}: {DIFFERENCE}"] = settings.evaluation.difference_sd
            found[f"{name}: {HISTOGRAM}"] = settings.evaluation.histogram_sd
    return found


# --- The certificate in words


THEOREM = "private sharing in Gram space (docs/proofs/gram.md, theorem 5)"
BOTH = "private fit, then a randomized symbol for each row (docs/proofs/gram.md, theorems 5 and 6)"
HELD_THEOREM = "a release of rows held out alone (docs/proofs/evaluation.md, theorem 1)"
LABEL_THEOREM = "randomized response (docs/proofs/labels.md, theorem 1)"


def certificate(
    privacy: Privacy,
    settings: GramSettings,
    layout: FeatureSplit,
    events: Mapping[str, tuple[Event, ...]],
    holder_events: tuple[Event, ...],
    held_events: Mapping[str, tuple[Event, ...]],
) -> Certificate:
    """What the planned run proves."""
    everyone, labels = settings.response is not None, settings.label_epsilon is not None
    anyone = "anyone who sees what the run sends, the model, or predictions for other rows"
    insiders = "the other parties and anyone who sees what the run sends"
    holder_from = insiders if settings.holder_is_exact else anyone
    theorem = BOTH if settings.refit is not None else THEOREM
    claims = [Claim("record", name, privacy.neighbours, anyone, events[name], theorem) for name in layout.others]
    if everyone:
        claims.append(Claim("record", layout.holder, privacy.neighbours, holder_from, holder_events, BOTH))
    elif labels:
        claims.append(Claim("label", layout.holder, "replace-one", holder_from, holder_events, LABEL_THEOREM))
    if privacy.unit == "person":
        claims.append(_person(privacy, layout, events, holder_events, holder_from if everyone or labels else anyone))
    for name, own in held_events.items():
        claims.append(Claim("record", name, privacy.neighbours, anyone, own, HELD_THEOREM, HELD_OUT))
        if privacy.unit == "person":
            claims.append(Claim("person", "", privacy.neighbours, anyone + NO_ROWS, own, HELD_THEOREM, HELD_OUT))
    return Certificate(
        unit=privacy.unit,
        adversary=_weakest(claims, privacy.unit, anyone),
        covers=_covers(privacy, settings, layout),
        does_not_cover=_does_not_cover(privacy, settings, layout, claims),
        per_party=_per_party(settings, layout),
        theorem=theorem,
        claims=tuple(claims),
        target=Target(privacy.epsilon, privacy.delta),
        assumptions=_assumptions(privacy, layout),
    )


def _weakest(claims: list[Claim], unit: str, anyone: str) -> str:
    """From whom every unit is protected: what is said of all of them must hold for each."""
    return next((claim.adversary for claim in claims if claim.unit == unit and claim.adversary != anyone), anyone)


def _person(
    privacy: Privacy,
    layout: FeatureSplit,
    events: Mapping[str, tuple[Event, ...]],
    holder_events: tuple[Event, ...],
    adversary: str,
) -> Claim:
    """One person's rows at all protected parties, and the label where it is protected."""
    together = tuple(event for name in layout.others for event in events[name]) + holder_events
    return Claim("person", "", privacy.neighbours, adversary + NO_ROWS, together, THEOREM)


def _covers(privacy: Privacy, settings: GramSettings, layout: FeatureSplit) -> tuple[str, ...]:
    bit = "" if settings.refit is None else ", and one randomized bit for each row"
    rows = [f"the rows of {listed(layout.others)}: what each gives out is the outcome of one private fit{bit}"]
    if settings.evaluation is not None:
        rows.append(
            f"the rows of {listed(layout.others)} that were held out: two noisy sums and a noisy histogram of "
            "them are given out, and figures computed from these may be shared"
        )
    if settings.response is not None:
        rows.append(f"the rows and labels of {layout.holder}: a private fit, and one randomized symbol for each row")
    elif settings.label_epsilon is not None:
        rows.append(RANDOMIZED)
    if settings.holder_is_exact:
        rows.append(f"the parts of the model of {listed(layout.others)}: they may be published")
    else:
        rows.append(
            "the parts of the model of the parties named above: they may be published, and so may scores computed from "
            "them for people who are not in the training data"
        )
    return tuple(rows)


def _does_not_cover(
    privacy: Privacy, settings: GramSettings, layout: FeatureSplit, claims: Sequence[Claim]
) -> tuple[str, ...]:
    missing = []
    if settings.response is None:
        missing.append(
            f"the rows of {layout.holder}: one score of each row is sent to the other parties, and its part of the "
            "model is exact"
        )
        if settings.label_epsilon is None:
            missing.append("the labels: they are sent to the other parties as they are")
    if settings.evaluation is not None:
        missing.append(
            f"the rows and labels of {layout.holder} that were held out: their labels and two scores of each are sent "
            "to the other party as they are, and figures on rows held out are exact functions of these labels"
        )
    if settings.holder_is_exact:
        missing.append(
            f"predictions seen by anyone but {layout.holder}: they use its own exact fit to its rows and true labels"
        )
    missing += [
        "the row that is asked about: each party's score of it is disclosed when it is predicted, also of a person in "
        "the training data",
        "which rows took part, and how many: they are public here",
        *((CLASSES,) if settings.response is not None or settings.label_epsilon is not None else ()),
        *_together(privacy, claims),
        OTHER_RUNS,
    ]
    return tuple(missing)


def _together(privacy: Privacy, claims: Sequence[Claim]) -> tuple[str, ...]:
    """What is larger than the unit, and the epsilon that holds for it."""
    if privacy.unit == "person":
        return ()
    at = privacy.delta
    rows = [claim for claim in claims if claim.unit == "record"]
    labels = [event for claim in claims if claim.unit == "label" for event in claim.events]
    worst = max(rows, key=lambda claim: claim.epsilon(at))
    return at_several_parties(claims, at) + (row_and_label(worst.events, labels, at) if labels else ())


def _per_party(settings: GramSettings, layout: FeatureSplit) -> dict[str, str]:
    fit = "the outcome of one private fit: coefficients, a centre, a radius, and a few sums, all with noise"
    said = f"{fit}; then one randomized bit for each of {layout.rows} rows" if settings.refit is not None else fit
    found = dict.fromkeys(layout.parties, said)
    if settings.response is not None:
        found[layout.holder] = f"{fit}; and one randomized symbol for each of {layout.rows} rows"
    else:
        labels = "randomized labels" if settings.label_epsilon is not None else "labels"
        outputs = settings.seen_loss.outputs
        score = "one score" if outputs == 1 else f"{outputs} scores, one of each class,"
        found[layout.holder] = f"{score} for each of {layout.rows} rows, without noise, and the {labels}"
    if settings.evaluation is not None:
        found[layout.holder] += f"; then two scores and the label of each of {layout.held} rows held out"
        for name in layout.others:
            found[name] += f"; and of {layout.held} rows held out two sums and a histogram, with noise"
    return found


def _assumptions(privacy: Privacy, layout: FeatureSplit) -> tuple[str, ...]:
    said = [
        "row_norm, and any scaling of the columns before, were chosen without looking at the protected rows",
        *(("each person has at most one row at a party",) if privacy.unit == "person" else ()),
        "the parties run this software; the random bits of their operating systems are not predictable",
    ]
    return (SEEDED, *said) if privacy.noise_seed is not None else tuple(said)
