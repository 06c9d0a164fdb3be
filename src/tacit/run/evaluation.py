"""How good a trained model is: against each party alone and against all data in one place.

Which models are trained to compare with, and how, follows from sizes alone: the same job gives the same page on any
machine. Where the joint model's alpha was chosen by a search, theirs is chosen by the same search, over the same
alphas, folds and rule. Each is compared with the joint model, row by row, on the loss that was trained: the mean
difference, and its standard error (`report/verdict.py` says what follows).

It is computed once, at the end of training, where all files are at hand, and saved as evaluation.json. In a private run
it follows from labels and from scores of single rows, which no certificate covers. So only rows that were held out are
looked at, nothing is trained without noise on rows of a protected party, and the file is for the label holder (for each
node its own lines, where the rows are split).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.data.cluster import ClusterRows
from tacit.data.holdout import HeldOut
from tacit.errors import TacitError
from tacit.job import Job
from tacit.mechanisms.gram.fit import HeldOutRelease
from tacit.plan import Plan
from tacit.problem.losses import Loss
from tacit.problem.losses.base import bare_labels
from tacit.run.apart import is_searched, join_columns, stack_rows, too_large, train_apart
from tacit.run.folder import PreparedRun, serving_loss
from tacit.run.measures import (
    WIDE,
    AnyLoss,
    difference,
    figures,
    measure,
    released_calibration,
    released_difference,
    released_measures,
    row_losses,
    spread,
)
from tacit.run.result import ALL_PARTIES, Model, PartyModel, Result, TreePart
from tacit.types import Shard, Vector

# --- How good a trained model is: against each party alone and against all data in one place


FORMAT = 1
MOST_EXPLAINED = 2_000  # rows on which the shares of columns are measured, which takes long for trees
JOINT, ALONE, POOLED = "joint", "alone", "pooled"
ON_DISK = (
    "Nothing was evaluated: the rows stayed on disk, to keep within the memory of the job. Score rows that fit into "
    "memory with tacit predict."
)
ON_CLUSTER = (
    "Nothing was evaluated: the rows stayed on a Dask cluster. Score rows that fit into memory with tacit predict."
)
NO_HOLDOUT = (
    "Nothing was evaluated: in a private run the scores of rows that were trained on are covered by no certificate. "
    "Add holdout = 0.2 under [job] to keep rows out of training and evaluate on these."
)
NOT_SERVED = (
    "Nothing was evaluated: this run's certificate covers what was sent, not the model, so that predictions must not "
    "be made for anyone from whom rows are to be protected."
)
WITHOUT_NOISE = (
    "Without noise, no party but the one with the labels was trained alone, and no pooled model either: in a private "
    "run nobody may know what these would be."
)
NODES_WITHOUT_NOISE = "No pooled model was trained: in a private run nobody may know what it would be."
SAME_ALPHA = (
    "The other models were trained with the alpha that the search took for the joint model: with so many values and "
    "fits theirs was not searched."
)
RANDOMIZED = (
    "The labels were randomized by their contributors: all figures are measured against the randomized labels, which "
    "makes every model look worse than it is, and none was trained alone or pooled."
)


Watch = Callable[[str, float], None]  # which model is trained, and which part is done


@dataclass(frozen=True)
class _Rows:
    """Rows to evaluate on; `aside` says whether they were held out."""

    shards: Sequence[Shard]
    labels: Vector
    aside: bool


def evaluate(result: Result, prepared: PreparedRun, watch: Watch | None = None) -> dict[str, Any]:
    """Evaluate a trained model, as plain values for evaluation.json.

    Parameters
    ----------
    result : Result
        What was trained.
    prepared : PreparedRun
        The job with its data: rows trained on and rows held out.
    watch : callable or None
        Called before each model that is trained to compare with: its name, and the part of them that is done.
    """
    began, rows = time.perf_counter(), _rows(prepared)
    record = _about(result.plan, prepared, rows)
    refused = _refusal(result, prepared, rows)
    if refused:
        record["rows"]["evaluated"] = 0
        return record | {"notes": [refused]}
    if result.tried is not None:
        _evaluate_release(record, result.plan, prepared.job, result.tried)
    elif result.model.mean is not None:
        _evaluate_nodes(record, result, prepared, rows, watch)
    else:
        _evaluate_parties(record, result, prepared, rows, watch)
    return record | {"seconds": time.perf_counter() - began}


def _about(plan: Plan, prepared: PreparedRun, rows: _Rows) -> dict[str, Any]:
    """What every record of an evaluation begins with."""
    loss = _plain_loss(plan.problem.loss)
    return {
        "format": FORMAT,
        "private": plan.certificate().private,
        "held_out": rows.aside,
        "rows": {
            "trained": len(prepared.labels.values),
            "held_out": len(rows.labels) if rows.aside else 0,
            "evaluated": len(rows.labels),
        },
        "loss": loss.name,
        "task": loss.task,
        "classes": list(prepared.labels.classes),
        "split": prepared.job.split,
        "parties": list(prepared.job.names),
        "holder": prepared.job.holder,
        "alpha": prepared.plan.problem.alpha,
        "searched": prepared.job.search is not None,
        "models": [],
        "notes": [],
    }


def _rows(prepared: PreparedRun) -> _Rows:
    held: HeldOut | None = prepared.held
    return (
        _Rows(prepared.shards, prepared.labels.values, False) if held is None else _Rows(held.shards, held.labels, True)
    )


def _refusal(result: Result, prepared: PreparedRun, rows: _Rows) -> str:
    """Why a run is not evaluated; empty where it may be."""
    if result.plan.problem.low_memory:
        return ON_DISK
    if any(isinstance(shard.features, ClusterRows) for shard in rows.shards):
        return ON_CLUSTER
    private = result.plan.private
    if private is None or not result.certificate.private:
        return ""
    if not result.plan.served:
        return NOT_SERVED
    return "" if rows.aside else NO_HOLDOUT


def _plain_loss(loss: Loss) -> Loss:
    plain: Loss = serving_loss(loss)
    return plain


# --- other columns -----------------------------------------------------------------------------------


def _evaluate_parties(
    record: dict[str, Any], result: Result, prepared: PreparedRun, rows: _Rows, watch: Watch | None
) -> None:
    """Joint, each alone, pooled; and what each party adds to the score."""
    parts = {
        shard.name: part.score(shard.features) for part, shard in zip(result.model.parts, rows.shards, strict=True)
    }
    scores = np.sum(list(parts.values()), axis=0) + result.model.constant
    joint = _figures(JOINT, "", scores, rows.labels, _plain_loss(prepared.plan.problem.loss), _columns(prepared.shards))
    record["models"].append(joint | {"alpha": record["alpha"]})
    record["shares"] = {name: spread(own) for name, own in parts.items()}
    record |= _by_column(
        prepared, {part.name: (part, [shard]) for part, shard in zip(result.model.parts, rows.shards, strict=True)}
    )
    if prepared.raw:
        record["importance"] = _importance(result.model.parts, rows.shards)
    private, holder = result.certificate.private, prepared.job.holder
    wanted: list[tuple[str, list[int]]] = [  # a party's name, or nothing for all of them
        (shard.name, [number]) for number, shard in enumerate(prepared.shards) if not private or shard.name == holder
    ]
    if len(prepared.shards) == 1:  # alone and pooled are what was trained
        return
    if private:
        record["notes"].append(WITHOUT_NOISE)
    else:
        wanted.append(("", list(range(len(prepared.shards)))))
    _compare(record, prepared, rows, wanted, scores, watch)


def _compare(
    record: dict[str, Any],
    prepared: PreparedRun,
    rows: _Rows,
    wanted: Sequence[tuple[str, list[int]]],
    joint: Vector,
    watch: Watch | None,
) -> None:
    """Train and measure other models, each on the columns of some parties, where the data are not too large."""
    reason = too_large(prepared.shards, len(prepared.labels.values))
    if reason:
        left = _listed([_title(name) for name, _ in wanted])
        record["notes"].append(f"{left} not trained to compare with: {reason}.")
        return
    if prepared.job.search is not None and not is_searched(prepared):
        record["notes"].append(SAME_ALPHA)
    loss = _plain_loss(prepared.plan.problem.loss)
    expected = row_losses(joint, rows.labels, loss)
    for done, (name, numbers) in enumerate(wanted):
        if watch is not None:
            watch(_title(name), done / len(wanted))
        try:
            apart = train_apart(prepared, [prepared.shards[k] for k in numbers], prepared.labels.values)
        except TacitError as error:
            record["notes"].append(f"{_title(name)} could not be trained to compare with: {error}")
            continue
        kind = ALONE if name else POOLED
        shard = join_columns([rows.shards[k] for k in numbers])
        scores = apart.model.scores([shard])
        figures = _figures(kind, name, scores, rows.labels, loss, len(shard.columns))
        against = difference(expected, row_losses(scores, rows.labels, loss))
        record["models"].append(figures | {"alpha": apart.alpha, "joint_against_it": against})


# --- other rows --------------------------------------------------------------------------------------


def _evaluate_nodes(
    record: dict[str, Any], result: Result, prepared: PreparedRun, rows: _Rows, watch: Watch | None
) -> None:
    """The joint model on all rows, and on those of each node beside the model of the node's own rows."""
    scores = [result.model.scores([shard]) for shard in rows.shards]  # clipped as in predictions
    columns, loss = len(result.model.parts[0].columns), _plain_loss(prepared.plan.problem.loss)
    joint = np.concatenate(scores)
    record |= _by_column(prepared, {ALL_PARTIES: (result.model.terms[0], rows.shards)})
    record["models"].append(_figures(JOINT, "", joint, rows.labels, loss, columns) | {"alpha": record["alpha"]})
    labels = _by_node(rows.labels, rows.shards)
    record["nodes"] = [
        {
            "name": shard.name,
            "trained": prepared.shards[k].features.shape[0],
            "evaluated": len(labels[k]),
            JOINT: measure(scores[k], labels[k], loss) if len(labels[k]) else {},
        }
        for k, shard in enumerate(rows.shards)
    ]
    if prepared.labels.epsilons is not None:
        record["notes"].append(RANDOMIZED)
        return
    if len(prepared.shards) == 1:
        return
    _nodes_alone(record, prepared, rows, labels, scores, watch)
    if result.certificate.private:
        record["notes"].append(NODES_WITHOUT_NOISE)
    else:
        _pool_rows(record, prepared, rows, joint, watch)


def _nodes_alone(
    record: dict[str, Any],
    prepared: PreparedRun,
    rows: _Rows,
    labels: list[Vector],
    joint: list[Vector],
    watch: Watch | None,
) -> None:
    """Each node's own model, on its own rows."""
    reason = too_large(prepared.shards, len(prepared.labels.values))
    if reason:
        record["notes"].append(f"No node was trained alone to compare with: {reason}.")
        return
    own = _by_node(prepared.labels.values, prepared.shards)
    classes, loss = 2 if record["task"] == "classification" else 1, _plain_loss(prepared.plan.problem.loss)
    for k, (node, shard) in enumerate(zip(record["nodes"], rows.shards, strict=True)):
        if watch is not None:
            watch(_title(node["name"]), k / len(rows.shards))
        if len(np.unique(bare_labels(own[k]))) < classes or not len(labels[k]):
            continue  # with labels of one class there is nothing to train, and the page shows a dash
        try:
            apart = train_apart(prepared, [prepared.shards[k]], own[k])
        except TacitError as error:
            record["notes"].append(f"{node['name']} alone could not be trained to compare with: {error}")
            continue
        scores = apart.model.scores([shard])
        node[ALONE] = measure(scores, labels[k], loss)
        losses = [row_losses(one, labels[k], loss) for one in (joint[k], scores)]
        node["joint_against_it"] = difference(*losses)


def _pool_rows(record: dict[str, Any], prepared: PreparedRun, rows: _Rows, joint: Vector, watch: Watch | None) -> None:
    """The model of all rows in one place."""
    both = [stack_rows(prepared.shards), stack_rows(rows.shards)]
    pooled = PreparedRun(prepared.job, prepared.plan, both[:1], prepared.labels)
    _compare(record, pooled, _Rows(both[1:], rows.labels, rows.aside), [("", [0])], joint, watch)


def _by_node(labels: Vector, shards: Sequence[Shard]) -> list[Vector]:
    return list(np.split(labels, np.cumsum([shard.features.shape[0] for shard in shards])[:-1]))


def _by_column(prepared: PreparedRun, parts: Mapping[str, tuple[PartyModel, Sequence[Shard]]]) -> dict[str, Any]:
    """How far the shares of columns spread over the rows, where some are curves and no row is protected."""
    known = [encoding.encoder for encoding in prepared.encodings.values()]
    if prepared.job.privacy is not None or not any(encoder.has_curves for encoder in known):
        return {}
    found = {}
    for name, (part, shards) in parts.items():
        encoder = prepared.encodings[name if name in prepared.encodings else shards[0].name].encoder
        own = {
            source: float(np.std(np.concatenate([_added(shard, part, at) for shard in shards])))
            for source, at in zip(encoder.sources, encoder.slices, strict=True)
        }
        found[name] = own
    return {"columns": found}


def _added(shard: Shard, part: PartyModel, at: slice) -> Vector:
    """What a column adds to the score of each row; where there are several classes, to those of all of them."""
    return np.asarray(shard.features[:, at] @ part.linear_coef[..., at].T)


def _importance(parts: Sequence[Any], shards: Sequence[Shard]) -> dict[str, dict[str, float]]:
    """How much each column moves the score: the mean size of its share (TreeSHAP) over some rows, by party."""
    found = {}
    for part, shard in zip(parts, shards, strict=True):
        if not isinstance(part, TreePart):
            continue
        shares = np.abs(part.contributions(shard.features[np.arange(min(shard.features.n, MOST_EXPLAINED))]))
        means = shares.reshape(-1, shares.shape[-1]).mean(axis=0)  # over rows, and classes where there are several
        found[part.name] = dict(zip(part.columns, means[:-1].tolist(), strict=True))
    return found


# --- by a planned release ----------------------------------------------------------------------------

RELEASED = (
    "The figures follow from a planned release with noise, which the certificate covers: its noise is part of the "
    "standard errors, and the figures may be shared. Differences of single rows were clipped at {clip:.3g}."
)


def _evaluate_release(record: dict[str, Any], plan: Plan, job: Job, tried: HeldOutRelease) -> None:
    """The joint model by what was released of rows held out, beside the label holder's own part by itself."""
    loss, columns = _plain_loss(plan.problem.loss), plan.layout.columns  # type: ignore[attr-defined]
    (measures, errors), against = released_measures(tried), released_difference(tried)
    if against:
        measures["log_loss"], errors["log_loss"] = against["joint"], against["error"]
    joint = {"kind": JOINT, "party": "", "columns": sum(columns), "measures": measures, "errors": errors}
    pairs = {name: [value - WIDE * errors[name], value + WIDE * errors[name]] for name, value in measures.items()}
    joint |= {"intervals": {name: _held(name, pair) for name, pair in pairs.items()}, "deciles": []}
    joint |= {"roc": [], "calibration": released_calibration(tried), "alpha": record["alpha"]}
    own = columns[plan.party_names.index(job.holder)]
    alone = _figures(ALONE, job.holder, tried.alone, tried.labels, loss, own)
    record["released"] = True
    record["models"] = [joint, alone | {"alpha": record["alpha"], "joint_against_it": against}]
    record["notes"].append(RELEASED.format(clip=tried.settings.clip))


def _held(name: str, pair: list[float]) -> list[float]:
    """An interval within what a measure can be: a share is between 0 and 1, a loss not below 0."""
    return [max(pair[0], 0.0), pair[1] if name == "log_loss" else min(pair[1], 1.0)]


# --- between organisations ---------------------------------------------------------------------------

NO_CURVES: dict[str, Any] = {"deciles": [], "roc": [], "calibration": []}
HEADLINES = ("auc", "log_loss", "rmse", "deviance", "gamma_deviance", "pinball")  # what others are told, where there
SITES = (
    "Nobody but the label holder was trained alone, and nothing was pooled: that would need labels or columns in other "
    "places."
)
OWN_ROWS = "Every figure is of this node's own rows, and for itself alone: nothing of it left, and none are added up."
NO_ROWS = "Nothing was evaluated: there are too few rows to hold any out."
KEPT = "Nothing is known here of how good the model is: {lead}, which holds the labels, keeps the figures."
TOLD = (
    "Exact functions of the labels and of all parties' scores of the rows held out, told by {lead}, which nobody here "
    "can check."
)
RELEASE_TOLD = (
    "Functions of what was released of the rows held out, with noise, and exact functions of the labels, told by "
    "{lead}, which nobody here can check."
)


@dataclass(frozen=True)
class Figures:
    """What the label holder tells the others: measures of the joint model and of itself alone, and how they compare."""

    joint: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    alone: dict[str, float] = field(default_factory=dict)
    against: dict[str, float] = field(default_factory=dict)


def shows_scores(plan: Plan) -> bool:
    """Whether parties show the label holder their scores of rows held out: not where rows are protected."""
    return plan.served and (plan.private is None or plan.private.solver is None)


def shares_figures(plan: Plan, job: Job) -> bool:
    """Whether the label holder tells the others the main figures: never where these would tell of protected labels."""
    return job.share_evaluation and (job.privacy is None or plan.evaluates_privately)


def masked_scores(plan: Plan, lead: str) -> tuple[str, ...]:
    """Whose scores of rows held out go under masks: those of all but the label holder, where the run has masks."""
    return tuple(name for name in plan.party_names if name != lead) if plan.secure else ()


def evaluate_sites(
    plan: Plan, prepared: PreparedRun, parts: Mapping[str, Vector], scores: Vector, watch: Watch | None = None
) -> dict[str, Any]:
    """How good a model is whose parts are at several organisations, at the one with the labels: as `evaluate`.

    Parameters
    ----------
    prepared : PreparedRun
        What the label holder has: its own columns, trained on and held out.
    parts : mapping of str to array
        What each party adds to the scores, where that is known here; a sum under masks has a name of its own.
    scores : array
        The joint scores of the rows held out.
    """
    began, rows = time.perf_counter(), _rows(prepared)
    record, loss = _about(plan, prepared, rows), _plain_loss(plan.problem.loss)
    joint = _figures(JOINT, "", scores, rows.labels, loss, sum(plan.layout.columns))  # type: ignore[attr-defined]
    record["models"].append(joint | {"alpha": record["alpha"]})
    record["shares"] = {name: spread(own) for name, own in parts.items()}
    record["notes"].append(SITES)
    _compare(record, prepared, rows, [(prepared.job.holder, [0])], scores, watch)
    return record | {"seconds": time.perf_counter() - began}


def evaluate_sites_by_release(plan: Plan, prepared: PreparedRun, tried: HeldOutRelease) -> dict[str, Any]:
    """As `evaluate_sites`, where the others' rows are protected."""
    record = _about(plan, prepared, _rows(prepared))
    _evaluate_release(record, plan, prepared.job, tried)
    return record


def evaluate_node(prepared: PreparedRun, model: Model) -> dict[str, Any]:
    """The model of all nodes on the rows that one of them held out, at that node, beside its own: for itself alone."""
    began, rows, plan = time.perf_counter(), _rows(prepared), prepared.plan
    if plan.private is not None and not plan.served:
        return not_evaluated(plan, prepared, NOT_SERVED)
    if not len(rows.labels):
        return not_evaluated(plan, prepared, NO_ROWS)
    record, shard, loss = _about(plan, prepared, rows), rows.shards[0], _plain_loss(plan.problem.loss)
    scores = model.scores([shard])
    figures = _figures(JOINT, "", scores, rows.labels, loss, len(shard.columns))
    record["models"].append(figures | {"alpha": record["alpha"]})
    own = measure(scores, rows.labels, loss)
    trained, evaluated = len(prepared.labels.values), len(rows.labels)
    record["nodes"] = [{"name": shard.name, "trained": trained, "evaluated": evaluated, JOINT: own}]
    record["notes"].append(OWN_ROWS)
    _nodes_alone(record, prepared, rows, [rows.labels], [scores], None)
    return record | {"seconds": time.perf_counter() - began}


def not_evaluated(plan: Plan, prepared: PreparedRun, reason: str) -> dict[str, Any]:
    """The record of a run that was not evaluated, with the reason."""
    record = _about(plan, prepared, _rows(prepared))
    record["rows"]["evaluated"] = 0
    return record | {"notes": [reason]}


def headlines(record: Mapping[str, Any]) -> Figures:
    """What others are told of an evaluation: the main measures of the joint model and of the label holder alone."""
    models = {model["kind"]: model for model in record["models"]}
    alone = models.get(ALONE, {})
    return Figures(
        _main(models.get(JOINT, {}).get("measures", {})),
        _main(models.get(JOINT, {}).get("errors", {})),
        _main(alone.get("measures", {})),
        _finite(alone.get("joint_against_it", {})),
    )


def _main(measures: Mapping[str, float]) -> dict[str, float]:
    found = {name: measures[name] for name in HEADLINES if name in measures}
    return _finite(found or measures)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if np.isfinite(value)}


def told_record(plan: Plan, job: Job, held: int, told: Figures, told_by: str) -> dict[str, Any]:
    """What a party without labels keeps of an evaluation: the same keys, with the figures that it was told.

    `told_by` says by whom, and `reveals` what the figures are functions of.
    """
    loss = _plain_loss(plan.problem.loss)
    errors = {"errors": dict(told.errors)} if told.errors else {}
    models = [(JOINT, "", told.joint, errors), (ALONE, told_by, told.alone, {"joint_against_it": dict(told.against)})]
    known = [
        {"kind": kind, "party": party, "measures": dict(measures), "intervals": {}, **NO_CURVES, **more}
        for kind, party, measures, more in models
        if measures
    ]
    return {
        "format": FORMAT,
        "private": plan.certificate().private,
        "held_out": True,
        "rows": {"trained": plan.problem.rows, "held_out": held, "evaluated": held if known else 0},
        "loss": loss.name,
        "task": loss.task,
        "classes": [],
        "split": job.split,
        "parties": list(job.names),
        "holder": job.holder,
        "alpha": plan.problem.alpha,
        "searched": job.search is not None,
        "models": known,
        "notes": [] if known else [KEPT.format(lead=told_by)],
        "told_by": told_by,
        **({"released": True} if plan.evaluates_privately else {}),
        "reveals": (KEPT if not known else RELEASE_TOLD if plan.evaluates_privately else TOLD).format(lead=told_by),
    }


# --- one model ---------------------------------------------------------------------------------------


def _figures(kind: str, party: str, scores: Vector, labels: Vector, loss: AnyLoss, columns: int) -> dict[str, Any]:
    """What is said of one model."""
    return {"kind": kind, "party": party, "columns": columns, **figures(scores, labels, loss)}


def _columns(shards: Sequence[Shard]) -> int:
    return sum(len(shard.columns) for shard in shards)


def _title(name: str) -> str:
    return f"{name} alone" if name else "all data in one place"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    return text[0].upper() + text[1:] + (" was" if len(names) == 1 else " were")
