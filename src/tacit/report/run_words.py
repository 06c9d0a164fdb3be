"""What a run's page says, in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.columns.spec import AUTO
from tacit.report.evaluation import ALONE, JOINT
from tacit.report.measures import BETTER, TITLES
from tacit.report.run_pictures import SAME, TOGETHER
from tacit.report.verdict import WORSE, verdict
from tacit.run.result import TreePart
from tacit.run.saved import SavedRun
from tacit.text import duration, listing, plural, size

DASH = "–"
ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
ORDER = (
    "auc",
    "accuracy",
    "log_loss",
    "pinball",
    "coverage",
    "r2",
    "rmse",
    "mae",
    "deviance",
    "gamma_deviance",
    "tweedie_deviance",
    "negative_binomial_deviance",
)
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


def outcome(run: SavedRun) -> str:
    """How good the joint model is, and how it compares; empty where nothing was evaluated.

    That it is worse is not said here: the page begins with it.
    """
    kind, sentence = verdict_of(run)
    compared = "" if kind == WORSE else sentence
    models = models_of(run)
    if not models:
        return compared
    key = next(name for name in ORDER if name in models[0]["measures"])
    where = "rows that were held out" if run.evaluation and run.evaluation["held_out"] else "the rows it was trained on"
    text = f"On {where}, its {TITLES[key]} is {number(models[0]['measures'][key])}."
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
        return "joint model"
    return f"{model['party']} alone" if model["kind"] == ALONE else TOGETHER


def _given(run: SavedRun, model: Mapping[str, Any]) -> str:
    """What a party that trains alone would have to be given."""
    return ", given the label" if model["kind"] == ALONE and model["party"] != run.job.holder else ""


def tiles(run: SavedRun) -> list[tuple[str, str]]:
    """The few numbers on top: value and what it is."""
    found = []
    models = models_of(run)
    if models:
        key = next(name for name in ORDER if name in models[0]["measures"])
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
        ("method", _method(run)),
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
    return [("label", f"{positive} is positive, {negative} is negative")]


def held_rows(run: SavedRun) -> list[tuple[str, str]]:
    """Which rows were held out; nothing where none were."""
    text = f"{run.job.holdout:.0%} of the rows, chosen without looking at them, were not trained on"
    return [("held out", text)] if run.job.holdout else []


def _alpha(run: SavedRun) -> str:
    """The alpha that was trained with, and how it came."""
    spec = run.job.search
    if spec is None:
        return f"{run.job.model.alpha if run.job.trees is None else run.plan['alpha']:g}"
    folds = spec.folds_of(run.rows)
    return f"{run.plan['alpha']:.4g}, chosen of {spec.tried} by cross-validation on {folds} folds ({spec.rule})"


def _method(run: SavedRun) -> str:
    mechanism, method = run.mechanism, str(run.plan["method"])
    if mechanism is None:
        named = "consensus ADMM, without noise" if method == "none" else method
    elif mechanism.has_own_solver:
        named = f"{mechanism.name}, with noise"
    else:
        named = f"{method}, on labels that were randomized once"
    masked = run.plan.get("secure_aggregation") or (run.plan.get("privacy") or {}).get("secure_aggregation")
    return f"{named}, numbers sent under masks" if masked else named


def _fixed_rounds(run: SavedRun) -> bool:
    """Whether the number of rounds was fixed beforehand."""
    return run.mechanism is not None and run.mechanism.has_own_solver


def _stopped(run: SavedRun) -> str:
    if _fixed_rounds(run):
        return "after the number of rounds that was planned"
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
    for spec, part in zip(run.job.parties, run.model.parties, strict=True):
        dropped = matching.get("dropped", {}).get(spec.name)
        name = f"{spec.name} (has the label)" if spec.label else spec.name
        count = DASH if dropped is None else f"{dropped:,}"
        rows.append([name, f"{len(part.columns):,}", f"{total:,}", count])
    return head, rows


def _aside(run: SavedRun) -> int:
    known = run.evaluation
    return int(known["rows"]["held_out"]) if known else 0


def model_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """Joint, alone, pooled: a table of measures."""
    models = models_of(run)
    keys = [key for key in ORDER if any(key in model["measures"] for model in models)]
    searched = bool(run.evaluation and run.evaluation.get("searched"))
    more = ["alpha"] if searched else []
    head = ["model", "columns", *more, *(f"{TITLES[key]}{ARROWS[BETTER.get(key, 'lower')]}" for key in keys)]
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


def share_rows(run: SavedRun) -> tuple[list[str], list[list[str]]]:
    """What each party adds: counts and norms, and how far its part of the score spreads; never coefficients."""
    known = (run.evaluation or {}).get("shares", {})
    head = ["party", "coefficients", "not zero", "norm of its coefficients", "spread of its part of the score"]
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
        rows = [("to the parties", size(sent["bytes_down"])), ("back from them", size(sent["bytes_up"]))]
    return [
        *rows,
        ("in each round", size(total_bytes(run) / rounds)),
        ("time of training", duration(seconds)),
        ("time of a round", duration(seconds / rounds)),
    ]


def certificate_blocks(run: SavedRun) -> list[dict[str, Any]]:
    """The certificate's own words, as headings with sentences or lists; the software is named elsewhere."""
    blocks: list[dict[str, Any]] = []
    for line in str(run.certificate).splitlines()[1:]:
        if line.startswith("  - "):
            blocks[-1]["items"].append(line.removeprefix("  - "))
        elif line.endswith(":"):
            blocks.append({"title": line.removesuffix(":"), "words": "", "items": []})
        elif line and not line.startswith("Software: "):
            title, colon, words = line.partition(": ")
            plain = not blocks  # the headline, which has a colon of its own
            blocks.append({"title": "" if plain or not colon else title, "words": line if plain else words or line})
            blocks[-1]["items"] = []
    return blocks
