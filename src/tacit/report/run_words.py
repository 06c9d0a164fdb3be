"""What a run's page says, in sentences and tables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tacit.columns.spec import AUTO
from tacit.plan.describe import strengths
from tacit.report.run_pictures import JOINT_MODEL, SAME, TOGETHER
from tacit.report.verdict import BETTER as BETTER_THAN
from tacit.report.verdict import SAME as SAME_AS
from tacit.report.verdict import verdict
from tacit.run.curves import WIDE
from tacit.run.evaluation import ALONE, JOINT
from tacit.run.folder import RESULT
from tacit.run.measures import BETTER, COMPARED, ORDER, TITLES, headline, loss_title
from tacit.run.result import TreePart
from tacit.run.saved import SavedRun
from tacit.text import duration, listing, plural, size

DASH = "–"
ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
NOT_FOR_OTHERS = (
    "Not for publication. The figures of this page come from labels and from scores of single rows, which no "
    "certificate covers."
)


def number(value: Any, digits: int = 4) -> str:
    """A number for people; a dash for none."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return DASH
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.{digits}g}" if abs(value) >= 1 else f"{value:.{digits}f}"


def day(run: SavedRun) -> str:
    """The day on which the run ended, by the date of its last file; SOURCE_DATE_EPOCH overrides it, as elsewhere."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(stated) if stated.isdecimal() else (run.path / RESULT).stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def lead(run: SavedRun) -> str:
    """The run in a few sentences."""
    names = list(run.job.names)
    who = listed(names) if len(names) <= 4 else f"{len(names)} parties"
    label = next(spec.label for spec in run.job.parties if spec.label is not None)
    together = "trained one model together" if len(names) > 1 else "trained a model"
    rounds = plural(int(run.result["rounds"]), "round")
    how = "different rows with the same columns" if run.on_graph else "different columns of the same rows"
    first = f"{who} {together}, to predict “{label}”: {run.rows:,} rows, {rounds}."
    return f"{first} They hold {how}." if len(names) > 1 else first


def verdict_sentences(run: SavedRun) -> list[str]:
    """Is the joint model better than what there is without the others, by how much? Is it private, at what price?"""
    return [sentence for sentence in (_use(run), _privacy(run)) if sentence]


def _use(run: SavedRun) -> str:
    """How the joint model compares, with a 95 % interval of the difference where the label holder's model is known."""
    kind, sentence = verdict_of(run)
    own = next((model for model in models_of(run) if model["kind"] == ALONE and model["party"] == run.job.holder), None)
    against = (own or {}).get("joint_against_it", {})
    if kind not in (BETTER_THAN, SAME_AS) or run.on_graph or not against:
        return sentence
    evaluation = run.evaluation or {}
    low, high = (against["difference"] + side * WIDE * against["error"] for side in (-1, 1))
    says = "is better than" if kind == BETTER_THAN else "is not measurably better than"
    return (
        f"The joint model {says} {run.job.holder} alone: its {loss_title(evaluation['loss'])} on "
        f"{evaluation['rows']['evaluated']:,} held-out rows is {number(against['joint'])} against "
        f"{number(against['other'])}, a difference of {_signed(against['difference'])} "
        f"(95 % interval {_signed(low)} to {_signed(high)})."
    )


def _privacy(run: SavedRun) -> str:
    """Whether anything is protected, at which epsilon, and what is known of its price."""
    certificate = run.certificate
    if not certificate.private or certificate.target is None:
        return "It is not private: nothing is protected, and epsilon is infinite."
    return (
        f"It is differentially private over the whole run, at delta = {certificate.target.delta:g}: "
        f"{strengths(certificate)}. "
        "What the noise cost in accuracy is not known: nobody may train this model without it."
    )


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−")


def outcome(run: SavedRun) -> str:
    """How good the joint model is; how it compares where nothing was evaluated. The verdict is said before."""
    compared = ""
    models = models_of(run)
    if not models:
        return compared
    key = headline(models[0]["measures"])
    where = "rows that were held out" if run.evaluation and run.evaluation["held_out"] else "the rows it was trained on"
    text = f"On {where}, its {TITLES[key]} is {number(models[0]['measures'][key])}{_between(models[0], key)}."
    return f"{text} {compared}".strip()


def verdict_of(run: SavedRun) -> tuple[str, str]:
    """Whether the joint model is better than what there is without the others, and that as a sentence of its own."""
    found = verdict(run.evaluation or {})
    sentence = found.sentence
    return found.kind, f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""


def models_of(run: SavedRun) -> list[dict[str, Any]]:
    """The models that were evaluated, the joint one first."""
    return [] if run.evaluation is None else list(run.evaluation["models"])


def title_of(model: Mapping[str, Any]) -> str:
    """A model in words."""
    if model["kind"] == JOINT:
        return JOINT_MODEL
    return f"{model['party']} alone" if model["kind"] == ALONE else TOGETHER


def _given(run: SavedRun, model: Mapping[str, Any]) -> str:
    """What a party that trains alone would have to be given."""
    return ", given the label" if model["kind"] == ALONE and model["party"] != run.job.holder else ""


def tiles(run: SavedRun) -> list[tuple[str, str]]:
    """The few numbers on top: value and what it is."""
    found = []
    models = models_of(run)
    if models:
        key = headline(models[0]["measures"])
        found.append((number(models[0]["measures"][key], 3), f"{TITLES[key]} of the joint model"))
    found.append((f"{run.rows:,}", "rows trained on"))
    found.append((str(run.result["rounds"]), "rounds" if run.result["rounds"] != 1 else "round"))
    found.append((duration(float(run.result["seconds"])), "of training"))
    found.append((size(total_bytes(run)), "sent"))
    target = run.certificate.target
    if run.certificate.private and target is not None:
        found.append(
            (f"ε = {run.certificate.epsilon(target.delta):.3g}", f"at δ = {target.delta:g}".replace("-", "\u2011"))
        )
    else:
        found.append(("ε = ∞", "not private"))
    return found


def total_bytes(run: SavedRun) -> int:
    """All payload."""
    sent = run.result["traffic"]
    return int(sent["bytes"] if "bytes" in sent else sent["bytes_down"] + sent["bytes_up"])


def job_rows(run: SavedRun) -> list[tuple[str, str]]:
    """The job: what was minimised and how."""
    model = run.job.model
    rows = [
        ("loss", f"{model.loss}, penalty {'l2' if run.job.trees else model.penalty}, alpha = {_alpha(run)}"),
        ("method", method_of(run)),
        ("stopped", _stopped(run)),
    ]
    if run.job.trees is not None:
        rows.insert(1, ("own part", f"{run.job.holder} has trees of its own columns, the others have curves"))
    if model.terms == AUTO:
        bends = any(encoder is not None and encoder.has_bends for encoder in run.model.encoders)
        rows.insert(1, ("terms", f'{"curves" if bends else "lines"}, as terms = "auto" took them'))
    return rows


def label_rows(run: SavedRun) -> list[tuple[str, str]]:
    """What the labels mean; nothing where they are numbers."""
    if not run.model.classes:
        return []
    if len(run.model.classes) > 2:
        return [("label", f"{len(run.model.classes)} classes: {listing(run.model.classes, 8)}")]
    negative, positive = run.model.classes
    return [("label", f"{positive} is positive{_base_rate(run)}, {negative} is negative")]


def _base_rate(run: SavedRun) -> str:
    """The part of the evaluated rows that is positive; nothing where that is not known."""
    models = models_of(run)
    groups = models[0]["calibration"] if models else []
    if not groups:
        return ""
    rows = sum(group["rows"] for group in groups)
    return f" ({sum(group['rows'] * group['observed'] for group in groups) / rows:.1%} of the evaluated rows)"


def held_rows(run: SavedRun) -> list[tuple[str, str]]:
    """Which rows were held out; nothing where none were."""
    job = run.job
    if not job.holdout_words:
        return []
    text = f"{job.holdout:.0%} of the rows, chosen independently of their values, were not used for training"
    if job.holdout_after is not None:
        text = f"the rows from {job.holdout_after} on were not trained on"
    return [("held out", text if not job.holds_out_files else "files of their own, which were not trained on")]


def _alpha(run: SavedRun) -> str:
    """The alpha that was trained with, and how it came."""
    spec = run.job.search
    if spec is None:
        return f"{run.job.model.alpha if run.job.trees is None else run.plan['alpha']:g}"
    folds = spec.folds_of(run.rows)
    return f"{run.plan['alpha']:.4g}, chosen of {spec.tried} by cross-validation on {folds} folds ({spec.rule})"


def method_of(run: SavedRun) -> str:
    """The method, and what adds noise."""
    mechanism, asked = run.mechanism, run.job.model.method
    if mechanism is not None:
        named = mechanism.describe()
    elif run.on_graph:
        named = "consensus ADMM, without noise"
    else:
        named = "chosen for this loss and penalty, without noise" if asked == "auto" else f"{asked}, without noise"
    masked = run.plan.get("secure_aggregation") or (run.plan.get("privacy") or {}).get("secure_aggregation")
    return f"{named}, numbers sent under masks" if masked else named


def fixed_rounds(run: SavedRun) -> bool:
    """Whether the number of rounds was fixed beforehand."""
    return run.mechanism is not None and run.mechanism.has_own_solver


def _stopped(run: SavedRun) -> str:
    if fixed_rounds(run):
        return "after the planned number of rounds"
    if run.result["converged"]:
        gap = run.result["gap"]
        sure = f", certified within {gap:.1e} of the optimum" if isinstance(gap, float) else ""
        objective = run.result["objective"]
        known = f" at objective {objective:.6g}" if isinstance(objective, float) else ""
        return f"by its rule (tol = {run.plan['tol']:g}){known}{sure}"
    return f"NOT converged: its rule (tol = {run.plan['tol']:g}) did not hold after {run.result['rounds']} rounds"


def party_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """Who took part: a table for other columns."""
    matching = (run.evaluation or {}).get("matching", {})
    head = ["party", "columns", "rows matched", "rows dropped"]
    total = run.rows + _aside(run)
    rows = []
    encoders = run.model.encoders or (None,) * len(run.model.parties)
    for spec, part, encoder in zip(run.job.parties, run.model.parties, encoders, strict=True):
        dropped = matching.get("dropped", {}).get(spec.name)
        name = f"{spec.name} (has the label)" if spec.label else spec.name
        count = DASH if dropped is None else f"{dropped:,}"
        columns = len(part.columns) if encoder is None else len(encoder.columns)
        coded = f" ({len(part.columns):,} encoded)" if len(part.columns) != columns else ""
        rows.append([name, f"{columns:,}{coded}", f"{total:,}", count])
    return head, rows


def _aside(run: SavedRun) -> int:
    known = run.evaluation
    return int(known["rows"]["held_out"]) if known and not run.job.holds_out_files else 0


def model_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """Joint, alone, pooled: a table of the measures that all are compared by."""
    models = models_of(run)
    keys = [key for key in COMPARED if any(key in model["measures"] for model in models)]
    searched = bool(run.evaluation and run.evaluation.get("searched"))
    more = ["alpha"] if searched else []
    head = ["model", "columns", *more, *map(_titled, keys)]
    rows = [
        [
            title_of(model) + _given(run, model),
            f"{model['columns']:,}",
            *([f"{model['alpha']:.4g}"] if searched else []),
            *(number(model["measures"].get(key)) for key in keys),
        ]
        for model in models
    ]
    return head, rows


def _between(model: Mapping[str, Any], key: str) -> str:
    """The interval of a measure in words; nothing where there is none."""
    pair = model.get("intervals", {}).get(key)
    return f" (95 % interval {number(pair[0])} to {number(pair[1])})" if pair else ""


def _titled(key: str) -> str:
    """A measure in words, with an arrow that says which way is better."""
    return f"{TITLES[key]}{ARROWS[BETTER.get(key, 'lower')]}"


def measure_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """Every measure of the joint model, with its interval."""
    models = models_of(run)
    if not models:
        return [], []
    pairs, values = models[0].get("intervals", {}), models[0]["measures"]
    head = ["joint model", "value", "95 % interval, from", "to"]
    rows = [
        [_titled(key), number(values[key]), *map(number, pairs.get(key, (None, None)))]
        for key in ORDER
        if key in values
    ]
    return head, rows


def decile_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """Rows by falling score of the joint model, in tenths: how many are positive, and the part of them found so far."""
    models = models_of(run)
    head = ["tenth of the rows, highest scores first", "rows", "positive", "lift", "positive rows found so far"]
    rows = [
        [str(k), f"{one['rows']:,}", f"{one['rate']:.1%}", number(one["lift"], 3), f"{one['captured']:.1%}"]
        for k, one in enumerate(models[0].get("deciles", []) if models else [], start=1)
    ]
    return head, rows


def share_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """What each party adds: counts and norms, and how far its part of the score spreads; never coefficients."""
    known = (run.evaluation or {}).get("shares", {})
    head = [
        "party",
        "coefficients",
        "not zero",
        "norm of its coefficients",
        "standard deviation of its part of the score",
    ]
    rows = []
    for part in run.model.parties:
        spread = number(known[part.name]["deviation"]) if part.name in known else DASH
        if isinstance(part, TreePart):
            rows.append([part.name, plural(len(part.model.trees), "tree"), DASH, DASH, spread])
            continue
        shown = run.model_is_covered  # else even these tell of rows what no certificate covers
        norm = number(float(np.linalg.norm(part.coef))) if shown else DASH
        used = f"{np.count_nonzero(part.coef):,}" if shown else DASH
        rows.append([part.name, f"{part.coef.size:,}", used, norm, spread])
    return head, rows


def node_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """The nodes: sizes, neighbours, agreement, and the joint model beside the node's own, on the node's rows."""
    known = {node["name"]: node for node in (run.evaluation or {}).get("nodes", [])}
    measures = [set(node.get(JOINT, {})) for node in known.values()]
    key = next((key for key in ORDER if any(key in own for own in measures)), "")
    head = ["node", "rows trained on", "neighbours", "its model from the mean"]
    head += ["rows evaluated on", f"{TITLES[key]}, joint", f"{TITLES[key]}, alone"] if key else []
    graph, rows = run.job.make_graph(), []
    for name, count, distance in zip(run.job.names, run.plan["rows"], run.distances(), strict=True):
        node = known.get(name, {})
        own = [f"{node.get('evaluated', 0):,}"] if key else []
        own += [number(node.get(which, {}).get(key)) for which in (JOINT, ALONE)] if key else []
        neighbours = graph.neighbours(name)
        listed = ", ".join(neighbours) if len(neighbours) <= 4 else f"{len(neighbours)} nodes"
        rows.append([name, f"{count:,}", listed or DASH, _near(distance), *own])
    return head, rows


def _near(distance: float) -> str:
    return "the same" if distance < SAME else f"{distance:.1e}"


def traffic_rows(run: SavedRun) -> list[tuple[str, str]]:
    """Bytes and time."""
    sent, seconds = run.result["traffic"], float(run.result["seconds"])
    rounds = max(1, int(run.result["rounds"]))
    if "bytes" in sent:
        rows = [
            ("between neighbours", size(sent["bytes"])),
            ("over the busiest edge", size(sent["bytes_busiest_edge"])),
        ]
    else:
        rows = [("sent to the parties", size(sent["bytes_down"])), ("sent back", size(sent["bytes_up"]))]
    return [
        *rows,
        ("per round", size(total_bytes(run) / rounds)),
        ("training time", duration(seconds)),
        ("time per round", duration(seconds / rounds)),
    ]
