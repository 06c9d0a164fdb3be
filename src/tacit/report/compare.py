"""Lines, curves and trees of one job on the same held-out rows: which of them is worth it, and what privacy costs.

All three are trained on the same rows. Without privacy the alpha of lines and curves is chosen by cross-validation on
these; trees choose their steps on a part of them. The rows that the job holds out are looked at once, at the end. A
model is taken instead of a simpler one where its loss is lower by more than two standard errors of the difference, row
by row.

A job with [privacy] spends what it asks for with each model: three private models of the same rows cost the sum of
their epsilons and deltas (basic composition; the noise of each is drawn for itself). A job without it may simulate
noise on its rows, which nobody protects: what each kind of model would lose at an epsilon.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.columns.spec import LINEAR, SPLINE, ColumnSpec, EncodeRules
from tacit.errors import InputError
from tacit.job import Job, ModelSection, SearchSpec
from tacit.job.file import check_trees
from tacit.job.trees import COLUMN_KEYS, TREE_DEFAULTS, TREES, TreesSection
from tacit.plan.terms import seen_loss
from tacit.privacy.certificate import up
from tacit.privacy.request import CAN_LEAVE_OUT_HOLDER, Privacy
from tacit.problem.alphas import CURVE_ALPHAS, has_alpha
from tacit.problem.losses.logistic import Softmax
from tacit.problem.registry import get_regularizer
from tacit.report.verdict import SURE
from tacit.run.folder import PreparedRun, RunFolder
from tacit.run.measures import TITLES, difference, loss_title, measure, row_losses
from tacit.run.predict import SEVERAL, load_model
from tacit.run.prepare import prepare_variants
from tacit.run.search import search_job
from tacit.run.star import Run
from tacit.text import plural, show, size
from tacit.types import Vector

LOSSES = ("logistic", "squared", "poisson")  # that linear models and trees both have
LINES, CURVES, BOOSTED = "lines", "curves", "trees"
KINDS = (LINES, CURVES, BOOSTED)
SHOWN = ("auc", "rmse", "deviance")  # the measure beside the loss
NOT_PRIVATE = "None of these models is private: epsilon is infinite."
ASK_EPSILON = "--epsilon E simulates what each would lose with [privacy] and that epsilon."
SIMULATED = (
    "The models with noise are a simulation on rows that nothing protects here, with one draw of noise each: another "
    "draw gives another loss, and their epsilon is a promise of a job with [privacy] alone."
)
MIXED = "Where rows are protected, trees are those of the label holder alone, beside private curves of the others."
NOT_COVERED = (
    "The figures are functions of true labels and exact scores of the rows held out, which no certificate covers: they "
    "are for the label holder."
)
Watch = Callable[[str, float], None]
Train = Callable[[str, Job], tuple[PreparedRun, RunFolder]]  # one kind of model into a folder of its own


@dataclass(frozen=True)
class Candidate:
    """One kind of model, as it was measured on the held-out rows.

    Attributes
    ----------
    claims : tuple of dict
        What is proven of it, one for each protected unit and party; empty without noise.
    against : dict
        The loss less that of the model taken before it, or of the same model without noise, with its standard error.
    """

    name: str
    loss: float
    measures: dict[str, float]
    rounds: int
    search_rounds: int
    bytes: int
    seconds: float
    losses: Vector = field(repr=False)
    claims: tuple[dict[str, Any], ...] = ()
    against: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {
            "model": self.name,
            "loss": self.loss,
            "measures": self.measures,
            "rounds": self.rounds,
            "search_rounds": self.search_rounds,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "epsilon": [dict(one) for one in self.claims] or "infinity",
            "against_taken": self.against,
        }


@dataclass(frozen=True)
class Spending:
    """What the models of a private job spend, each and together, and what leaves each party for them.

    Attributes
    ----------
    claims : mapping of model to its claims
    leaves : mapping of model to what each party sends
    left_out : mapping of model to why it cannot be trained with this privacy
    """

    claims: Mapping[str, Sequence[Mapping[str, Any]]]
    leaves: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> list[dict[str, Any]]:
        """For each unit and party the sums of epsilon and delta over the models."""
        sums: dict[tuple[str, str], dict[str, Any]] = {}
        for one in (claim for own in self.claims.values() for claim in own):
            known = sums.setdefault((one["unit"], one["party"]), {**one, "epsilon": 0.0, "delta": 0.0})
            known["epsilon"], known["delta"] = known["epsilon"] + one["epsilon"], known["delta"] + one["delta"]
        return list(sums.values())

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "models": {name: [dict(one) for one in own] for name, own in self.claims.items()},
            "total": self.total,
            "leaves": {name: dict(own) for name, own in self.leaves.items()},
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True)
class ModelComparison:
    """Lines, curves and trees of one job, and which of them was taken.

    `simulated` are the same models with noise, where that was asked for; `spending` is that of a job with [privacy].
    """

    job: str
    loss: str
    trained: int
    held_out: int
    candidates: tuple[Candidate, ...]
    taken: str
    simulated: tuple[Candidate, ...] = ()
    spending: Spending | None = None

    @property
    def sentence(self) -> str:
        """Which model is worth it, and why."""
        return _sentence(self)

    def record(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {
            "format": 1,
            "job": self.job,
            "loss": self.loss,
            "rows": {"trained": self.trained, "held_out": self.held_out},
            "models": [one.record() for one in self.candidates],
            "simulated": [one.record() for one in self.simulated],
            "spending": None if self.spending is None else self.spending.record(),
            "taken": self.taken,
            "sentence": self.sentence,
        }


# --- without privacy, and simulated with it ------------------------------------------------------------


def compare_job(
    job: Job, note: Callable[[str], None], watch: Watch | None = None, *, epsilon: float | None = None
) -> ModelComparison:
    """Train lines, curves and trees of a job without privacy, and measure each on its held-out rows.

    With `epsilon` each is trained once more with noise, as [privacy] with this epsilon would.

    Raises
    ------
    InputError
        For a job that cannot be compared in this way, or whose files cannot be used.
    """
    check_comparable(job)
    if epsilon is not None and job.trees is not None:
        raise InputError(
            "--epsilon needs public ranges and values of columns, which a job of trees does not state: write "
            'kind = "linear", and them under [party.columns]'
        )
    jobs = [_variant(job, name) for name in KINDS]
    noisy, left_out = ({}, {}) if epsilon is None else _private_variants(replace(job, privacy=Privacy(epsilon)))
    for name, why in left_out.items():
        note(f"{name} are not simulated: {why}")
    prepared = prepare_variants([*jobs, *noisy.values()], note)
    found = []
    for done, (name, begun) in enumerate(zip((*KINDS, *noisy), prepared, strict=True)):
        if watch is not None:
            watch(name if done < len(KINDS) else f"{name}, epsilon {epsilon:g}", done / len(prepared))
        found.append(_measured(name, begun))
    exact, simulated = found[: len(KINDS)], found[len(KINDS) :]
    priced = [
        replace(one, against={**difference(one.losses, same.losses), "of": f"{same.name} without noise"})
        for one, same in zip(simulated, exact, strict=False)
    ]
    return _comparison(job, prepared[0], exact, tuple(priced))


def _comparison(
    job: Job,
    prepared: PreparedRun,
    found: Sequence[Candidate],
    simulated: tuple[Candidate, ...] = (),
    spending: Spending | None = None,
) -> ModelComparison:
    taken, compared = _take(found)
    assert prepared.held is not None
    rows, held = len(prepared.labels.values), prepared.held.rows
    return ModelComparison(job.name, job.model.loss, rows, held, tuple(compared), taken, simulated, spending)


def check_comparable(job: Job) -> None:
    """Refuse a job of which not all three can be trained, or without rows to compare on.

    Raises
    ------
    InputError
        With one line that says what to do.
    """
    if job.rows_are_split or job.engine != "in-process":
        raise InputError('tacit compare is for split = "features" and engine = "in-process"')
    if job.privacy is not None and job.privacy.mechanism not in CAN_LEAVE_OUT_HOLDER:
        raise InputError(
            f"tacit compare does not go with privacy.mechanism = {show(job.privacy.mechanism)}, which is for lines "
            "alone: leave mechanism out"
        )
    if job.memory is not None or job.secure_aggregation:
        raise InputError("tacit compare trains in memory and without masks: remove memory and secure_aggregation")
    if not job.holdout_words:
        raise InputError("tacit compare needs rows that are not trained on: add holdout = 0.2 under [job]")
    if job.model.loss not in (*LOSSES, SEVERAL):
        listed = ", ".join(f'"{name}"' for name in LOSSES)
        raise InputError(f"tacit compare needs a loss that lines and trees have, not {show(job.model.loss)}: {listed}")


def _variant(job: Job, name: str) -> Job:
    """The job with one kind of model; noise that a seed makes repeatable is another one for each."""
    privacy = job.privacy
    if privacy is not None and privacy.noise_seed is not None:
        privacy = replace(privacy, noise_seed=len(KINDS) * privacy.noise_seed + KINDS.index(name))
    made = _trees(job) if name == BOOSTED else _linear(job, LINEAR if name == LINES else SPLINE)
    return replace(made, privacy=privacy)


def _private_variants(job: Job) -> tuple[dict[str, Job], dict[str, str]]:
    """The models of a job with [privacy], and why trees are not among them, where they lack this guarantee."""
    jobs = {name: _variant(job, name) for name in KINDS}
    try:
        check_trees(jobs[BOOSTED])
        seen_loss(jobs[BOOSTED])
    except InputError as error:
        del jobs[BOOSTED]
        return jobs, {BOOSTED: str(error)}
    return jobs, {}


def _linear(job: Job, terms: str) -> Job:
    """The job with lines or curves, whose alpha is searched where nothing is private."""
    usual: dict[str, Any] = {} if job.trees is None else {"rounds": Job.rounds, "tol": Job.tol}
    loss = "logistic" if job.model.loss == SEVERAL else job.model.loss  # trees call that of several classes so
    usual_model = ModelSection(loss=loss, classes=job.model.classes)
    model = replace(job.model if job.trees is None else usual_model, terms=terms)
    search = job.search or (SearchSpec(CURVE_ALPHAS, None) if has_alpha(get_regularizer(model.penalty)) else None)
    found = None if job.privacy is not None else search
    return replace(job, model=model, search=found, trees=None, **usual).with_terms(terms)


def _trees(job: Job) -> Job:
    """The job with trees, without what it states of columns for lines and curves alone."""
    if job.trees is not None:
        return job
    loss = job.model.loss if job.model.classes is None else SEVERAL
    model, coded = ModelSection(kind=TREES, loss=loss, classes=job.model.classes), bool(job.protected)
    encode = EncodeRules(terms=SPLINE if coded else LINEAR, pairs=job.encode.pairs, codebook=job.encode.codebook)
    parties = tuple(
        party
        if party.name in job.protected
        else replace(party, columns=tuple(_as_it_is(column) for column in party.columns))
        for party in job.parties
    )
    return replace(job, model=model, search=None, trees=TreesSection(), encode=encode, parties=parties, **TREE_DEFAULTS)


def _as_it_is(column: ColumnSpec) -> ColumnSpec:
    """What trees use of a statement about a column."""
    return ColumnSpec(**{key: value for key, value in vars(column).items() if key in COLUMN_KEYS})


def _measured(name: str, begun: PreparedRun) -> Candidate:
    """Train one of them, and try it on the rows that were held out."""
    began, spent = time.perf_counter(), {"rounds": 0, "bytes_down": 0, "bytes_up": 0}
    plan = begun.plan
    if begun.job.search is not None:
        search = search_job(plan, begun.shards, begun.labels, begun.job.search).record()
        plan = replace(plan, problem=replace(plan.problem, alpha=search["alpha"]))
        spent = search["traffic"]
    result = Run(plan, begun.shards, begun.labels.values).go()
    assert begun.held is not None
    scores = result.model.scores(begun.held.shards)
    seconds, sent = time.perf_counter() - began, _sent(spent) + _sent(result.traffic)
    return _tried(name, begun, scores, (len(result.trace), spent["rounds"]), sent, seconds)


def _sent(traffic: Mapping[str, int]) -> int:
    return traffic["bytes_down"] + traffic["bytes_up"]


def _tried(
    name: str, begun: PreparedRun, scores: Vector, rounds: tuple[int, int], sent: int, seconds: float
) -> Candidate:
    """A model by its scores of the rows held out."""
    held = begun.held
    assert held is not None
    loss = Softmax(scores.shape[1]) if scores.ndim > 1 else begun.job.model.loss  # of true labels, as they are
    losses = row_losses(scores, held.labels, loss)
    return Candidate(
        name=name,
        loss=float(losses.mean()),
        measures=measure(scores, held.labels, loss),
        rounds=rounds[0],
        search_rounds=rounds[1],
        bytes=sent,
        seconds=seconds,
        losses=losses,
        claims=_claims(begun),
    )


def _claims(begun: PreparedRun) -> tuple[dict[str, Any], ...]:
    """What is proven of a run, one claim for each unit and party."""
    return tuple(dict(one) for one in begun.plan.describe()["claims"] if one["epsilon"] != "infinity")


def _take(found: Sequence[Candidate]) -> tuple[str, list[Candidate]]:
    """The simplest model that no later one beats beyond the error, and each with how it compares."""
    taken, compared = found[0], [found[0]]
    for one in found[1:]:
        against = difference(one.losses, taken.losses)
        compared.append(replace(one, against={**against, "of": taken.name} if against else {}))
        if against and -against["difference"] > SURE * against["error"]:
            taken = one
    return taken.name, compared


# --- with privacy --------------------------------------------------------------------------------------


def plan_spending(job: Job, note: Callable[[str], None]) -> tuple[dict[str, Job], Spending]:
    """The models of a job with [privacy] that can be trained, and what they would spend; nothing is trained.

    Raises
    ------
    InputError
        For a job that cannot be compared, or whose files cannot be used.
    """
    check_comparable(job)
    jobs, left_out = _private_variants(job)
    prepared = dict(zip(jobs, prepare_variants(list(jobs.values()), note), strict=True))
    claims = {name: _claims(begun) for name, begun in prepared.items()}
    leaves = {name: begun.plan.certificate().per_party for name, begun in prepared.items()}
    return jobs, Spending(claims, leaves, left_out)


def compare_private(
    job: Job, jobs: Mapping[str, Job], spending: Spending, train: Train, watch: Watch | None = None
) -> ModelComparison:
    """Train the models of a private job, each into a folder of its own, and measure each on its held-out rows."""
    found, last = [], None
    for done, (name, one) in enumerate(jobs.items()):
        if watch is not None:
            watch(name, done / len(jobs))
        last, folder = train(name, one)
        result = folder.read_result()
        assert last.held is not None
        scores = load_model(folder.path).score(last.held.shards)
        found.append(_tried(name, last, scores, (result["rounds"], 0), _sent(result["traffic"]), result["seconds"]))
    assert last is not None
    return _comparison(job, last, found, spending=spending)


# --- in words ------------------------------------------------------------------------------------------


def table(found: ModelComparison) -> list[str]:
    """A line for each model: loss, difference to the first, measure, rounds, traffic, and what is protected."""
    lines = [_titles(found), *(_line(found, one, found.candidates[0]) for one in found.candidates)]
    if found.simulated:
        lines.append("the same with noise, simulated; difference: to the same model without noise")
    lines += [_line(found, one, exact) for one, exact in zip(found.simulated, found.candidates, strict=False)]
    rows = f"{plural(found.held_out, 'row')} held out, {plural(found.trained, 'row')} trained on"
    searched = any(one.search_rounds for one in found.candidates)
    lines.append(f"{rows}; difference: to {found.candidates[0].name} on the same rows, ± its standard error")
    return [*lines, "rounds of the search for alpha after the +"] if searched else lines


def _titles(found: ModelComparison) -> str:
    key = _measure_key(found)
    return (
        f"{'model':<8} {loss_title(found.loss):>18} {'difference':>18} {TITLES.get(key, ''):>{_width(key)}} "
        f"{'rounds':>10} {'sent':>9}  protected"
    )


def _line(found: ModelComparison, one: Candidate, first: Candidate) -> str:
    key = _measure_key(found)
    rounds = f"{one.rounds}" + (f" + {one.search_rounds}" if one.search_rounds else "")
    mark = "  <- taken" if one.name == found.taken and one in found.candidates else ""
    shown = f"{one.measures[key]:>{_width(key)}.4f}" if key else ""
    return (
        f"{one.name:<8} {one.loss:>18.5f} {_change(one, first):>18} {shown} {rounds:>10} {size(one.bytes):>9}  "
        f"{protection(one.claims)}{mark}"
    )


def _measure_key(found: ModelComparison) -> str:
    return next((name for name in SHOWN if name in found.candidates[0].measures), "")


def _width(key: str) -> int:
    return max(8, len(TITLES.get(key, "")))


def _change(one: Candidate, first: Candidate) -> str:
    """The difference of two losses on the same rows, with its standard error."""
    against = {} if one is first else difference(one.losses, first.losses)
    return f"{against['difference']:+.4f} ± {against['error']:.4f}" if against else ""


def protection(claims: Sequence[Mapping[str, Any]]) -> str:
    """Whose data are protected, and how strongly, in a few words."""
    if not claims:
        return "nothing: epsilon is infinite"
    return "; ".join(
        f"{one['unit']}s{_whose(one)}: epsilon {up(one['epsilon'])}, delta {one['delta']:g}" for one in claims
    )


def _whose(claim: Mapping[str, Any]) -> str:
    return f" of {claim['party']}" if claim["party"] else ""


def spending_lines(spending: Spending) -> list[str]:
    """What each model spends and sends, and what all of them spend together."""
    lines = [f"{name:<8} spends {protection(own)}" for name, own in spending.claims.items()]
    lines += [f"{name:<8} is left out: {why}" for name, why in spending.left_out.items()]
    lines += [f"together spend {protection(spending.total)}, the sums of {len(spending.claims)} runs on the same rows"]
    said: dict[tuple[str, str], list[str]] = {}
    for name, own in spending.leaves.items():
        for party, what in own.items():
            said.setdefault((party, what), []).append(name)
    return lines + [f"{party} sends, for {', '.join(names)}: {what}" for (party, what), names in said.items()]


def _sentence(found: ModelComparison) -> str:
    """What to take, with every difference and its standard error."""
    parts = []
    for one in found.candidates[1:]:
        if not one.against or not math.isfinite(one.loss):
            parts.append(f"{one.name} could not be compared, as a loss is not finite")
            continue
        change, error, of = one.against["difference"], one.against["error"], one.against["of"]
        sure = abs(change) > SURE * error
        how = ("lower" if change < 0 else "higher") + ("" if sure else ", which may be chance,")
        parts.append(
            f"the loss of {one.name} is {abs(change):.2g} {how} than that of {of} (standard error {error:.2g})"
        )
    return f"Take {found.taken}: {'; '.join(parts)}."
