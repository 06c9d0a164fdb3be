"""Lines, curves and trees of one job on the same held-out rows: which of them is worth it.

All three are trained on the same rows. The alpha of lines and curves is chosen by cross-validation on these; trees
choose their steps on a part of them. The rows that the job holds out are looked at once, at the end. A model is taken
instead of a simpler one where its loss is lower by more than two standard errors of the difference, row by row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.columns.spec import LINEAR, SPLINE
from tacit.errors import InputError
from tacit.job import Job, ModelSection, SearchSpec
from tacit.job.trees import TREE_DEFAULTS, TREES, TreesSection
from tacit.problem.alphas import CURVE_ALPHAS, has_alpha
from tacit.problem.registry import get_regularizer
from tacit.report.verdict import SURE
from tacit.run.folder import PreparedRun
from tacit.run.measures import TITLES, difference, loss_title, measure, row_losses
from tacit.run.prepare import prepare_variants
from tacit.run.result import Result
from tacit.run.search import search_job
from tacit.run.star import Run
from tacit.text import plural, show, size
from tacit.types import Vector

LOSSES = ("logistic", "squared", "poisson")  # that linear models and trees both have
LINES, CURVES, BOOSTED = "lines", "curves", "trees"
SHOWN = ("auc", "rmse", "deviance")  # the measure beside the loss
CAN_BE_PRIVATE = {LINES: "with [privacy]", CURVES: "with [privacy]", BOOSTED: "not in jobs"}
NOT_PRIVATE = (
    "None of these runs is private: epsilon is infinite. Lines and curves can be trained with [privacy], which costs "
    "some of their loss; a job of trees cannot."
)
Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class Candidate:
    """One kind of model, as it was measured on the held-out rows."""

    name: str
    loss: float
    measures: dict[str, float]
    rounds: int
    search_rounds: int
    bytes: int
    seconds: float
    losses: Vector = field(repr=False)
    against: dict[str, Any] = field(default_factory=dict)  # the loss less that of the model taken before it

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
            "epsilon": "infinity",
            "private": CAN_BE_PRIVATE[self.name],
            "against_taken": self.against,
        }


@dataclass(frozen=True)
class ModelComparison:
    """Lines, curves and trees of one job, and which of them was taken."""

    job: str
    loss: str
    trained: int
    held_out: int
    candidates: tuple[Candidate, ...]
    taken: str

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
            "taken": self.taken,
            "sentence": self.sentence,
        }


def compare_job(job: Job, note: Callable[[str], None], watch: Watch | None = None) -> ModelComparison:
    """Train lines, curves and trees of a job, and measure each on its held-out rows.

    Raises
    ------
    InputError
        For a job that cannot be compared in this way, or whose files cannot be used.
    """
    check_comparable(job)
    variants = {LINES: _linear(job, LINEAR), CURVES: _linear(job, SPLINE), BOOSTED: _trees(job)}
    prepared = dict(zip(variants, prepare_variants(list(variants.values()), note), strict=True))
    found: list[Candidate] = []
    for done, (name, begun) in enumerate(prepared.items()):
        if watch is not None:
            watch(name, done / len(prepared))
        found.append(_measured(name, begun))
    taken, compared = _take(found)
    held = prepared[LINES].held
    assert held is not None
    rows = len(prepared[LINES].labels.values)
    return ModelComparison(job.name, job.model.loss, rows, held.rows, tuple(compared), taken)


def check_comparable(job: Job) -> None:
    """Refuse a job of which not all three can be trained, or without rows to compare on.

    Raises
    ------
    InputError
        With one line that says what to do.
    """
    if job.rows_are_split or job.engine != "in-process":
        raise InputError('tacit compare is for split = "features" and engine = "in-process"')
    if job.privacy is not None:
        raise InputError(
            "tacit compare trains without noise, which [privacy] forbids on these rows: remove [privacy] to compare "
            "on rows that need no protection"
        )
    if job.memory is not None or job.secure_aggregation:
        raise InputError("tacit compare trains in memory and without masks: remove memory and secure_aggregation")
    if not job.holdout_words:
        raise InputError("tacit compare needs rows that are not trained on: add holdout = 0.2 under [job]")
    if job.model.loss not in LOSSES:
        listed = ", ".join(f'"{name}"' for name in LOSSES)
        raise InputError(f"tacit compare needs a loss that lines and trees have, not {show(job.model.loss)}: {listed}")


def _linear(job: Job, terms: str) -> Job:
    """The job with lines or curves, whose alpha is searched."""
    usual: dict[str, Any] = {} if job.trees is None else {"rounds": Job.rounds, "tol": Job.tol}
    model = replace(job.model if job.trees is None else ModelSection(loss=job.model.loss), terms=terms)
    search = job.search or (SearchSpec(CURVE_ALPHAS, None) if has_alpha(get_regularizer(model.penalty)) else None)
    return replace(job, model=model, search=search, trees=None, **usual).with_terms(terms)


def _trees(job: Job) -> Job:
    """The job with trees."""
    if job.trees is not None:
        return job
    model = ModelSection(kind=TREES, loss=job.model.loss)
    return replace(job, model=model, search=None, trees=TreesSection(), **TREE_DEFAULTS).with_terms(LINEAR)


def _measured(name: str, begun: PreparedRun) -> Candidate:
    """Train one of them, and try it on the rows that were held out."""
    began, spent = time.perf_counter(), {"rounds": 0, "bytes_down": 0, "bytes_up": 0}
    plan = begun.plan
    if begun.job.search is not None:
        search = search_job(plan, begun.shards, begun.labels, begun.job.search).record()
        plan = replace(plan, problem=replace(plan.problem, alpha=search["alpha"]))
        spent = search["traffic"]
    result: Result = Run(plan, begun.shards, begun.labels.values).go()
    held = begun.held
    assert held is not None
    scores, loss = result.model.scores(held.shards), plan.problem.loss
    losses = row_losses(scores, held.labels, loss)
    sent = sum(part[key] for part in (spent, result.traffic) for key in ("bytes_down", "bytes_up"))
    return Candidate(
        name=name,
        loss=float(losses.mean()),
        measures=measure(scores, held.labels, loss),
        rounds=len(result.trace),
        search_rounds=spent["rounds"],
        bytes=sent,
        seconds=time.perf_counter() - began,
        losses=losses,
    )


def _take(found: Sequence[Candidate]) -> tuple[str, list[Candidate]]:
    """The simplest model that no later one beats beyond the error, and each with how it compares."""
    taken, compared = found[0], [found[0]]
    for one in found[1:]:
        against = difference(one.losses, taken.losses)
        compared.append(replace(one, against={**against, "of": taken.name} if against else {}))
        if against and -against["difference"] > SURE * against["error"]:
            taken = one
    return taken.name, compared


# --- in words ------------------------------------------------------------------------------------------


def table(found: ModelComparison) -> list[str]:
    """A line for each model: loss, measure, rounds, traffic, time, and whether it can be private."""
    key = next((name for name in SHOWN if name in found.candidates[0].measures), "")
    titles = f"{'model':<8} {loss_title(found.loss):>20} {TITLES.get(key, ''):>24} {'rounds':>14} {'sent':>9}"
    lines = [f"{titles}  can be private"]
    for one in found.candidates:
        rounds = f"{one.rounds}" + (f" + {one.search_rounds}" if one.search_rounds else "")
        mark = "  <- taken" if one.name == found.taken else ""
        shown = f"{one.measures[key]:>24.4f}" if key else " " * 24
        lines.append(
            f"{one.name:<8} {one.loss:>20.5f} {shown} {rounds:>14} {size(one.bytes):>9}  "
            f"{CAN_BE_PRIVATE[one.name]}{mark}"
        )
    rows = f"{plural(found.held_out, 'row')} held out, {plural(found.trained, 'row')} trained on"
    return [*lines, f"{rows}; rounds of the search for alpha after the +"]


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
