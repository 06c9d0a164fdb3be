"""The release about rows held out (docs/proofs/evaluation.md): what a row moves, half the noise, what it tells."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from tacit.errors import InputError, RunError
from tacit.job.file import parse_job
from tacit.mechanisms.base import Inbox
from tacit.mechanisms.gram.fit import HeldOutRelease, held_answer, held_question
from tacit.mechanisms.gram.settings import EvaluationSettings
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.calibration import budget_mu
from tacit.privacy.releases import Releaser
from tacit.run.measures import released_calibration, released_difference, released_measures
from tacit.run.prepare import plan_job

EPSILON, DELTA = 2.0, 1e-6


def plan(rows: int = 1000, held: int = 300, top: str = "", privacy: str = "", model: str = "", more: str = "") -> Plan:
    text = f"""
[job]
holdout = 0.2
evaluation = "private"
{top}
[model]
{model}
[privacy]
epsilon = {EPSILON}
delta = {DELTA}
{privacy}
[[party]]
name = "bank"
data = "bank.csv"
label = "y"
[[party]]
name = "shop"
data = "shop.csv"
{more}
"""
    job = parse_job(text, "job")
    return plan_job(job, rows, (3,) * len(job.parties), 0, (), held)


def settings(held: int = 300) -> EvaluationSettings:
    found = plan(held=held).private
    assert found is not None
    return found.settings.evaluation


class Bare:
    """Releases values as they are."""

    owner = "shop"

    def add(self, name: str, value: Any) -> np.ndarray:
        return np.asarray(value, dtype=np.float64)


def answer(scores: np.ndarray, asked: dict[str, np.ndarray], known: EvaluationSettings) -> np.ndarray:
    """Everything that is released, in units of its noise, without it."""
    found = held_answer(scores, Inbox(asked, "shop"), known, Bare())  # type: ignore[arg-type]
    return np.concatenate([found["difference"] / known.difference_sd, found["histogram"] / known.histogram_sd])


def costs(known: EvaluationSettings, pairs: int = 4000) -> np.ndarray:
    """What a replaced row moves, squared: of rows, scores and questions of all kinds."""
    rng, found = np.random.default_rng(0), []
    for _ in range(pairs):
        size = 10.0 ** rng.uniform(-2, 3)
        base, alone, scores = (size * rng.normal(size=4) for _ in range(3))
        labels = rng.choice([-1.0, 1.0], size=4)
        asked = {"base": base, "alone": alone, "labels": labels, "cuts": size * rng.normal(size=known.bins - 1)}
        other = scores.copy()
        other[0] = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-2, 6)
        found.append(float(np.sum((answer(scores, asked, known) - answer(other, asked, known)) ** 2)))
    return np.array(found)


def test_one_row_moves_the_release_by_what_is_certified_and_no_less() -> None:
    most = budget_mu(EPSILON, DELTA) ** 2
    found = costs(settings())
    assert found.max() <= most
    assert found.max() > 0.99 * most


def test_half_the_noise_is_caught() -> None:
    most, known = budget_mu(EPSILON, DELTA) ** 2, settings()
    for name in ("difference_sd", "histogram_sd"):
        less = dataclasses.replace(known, **{name: getattr(known, name) / 2})
        assert costs(less).max() > 1.5 * most


def test_the_sum_of_squares_is_free_beside_the_sum() -> None:
    """Lemma 2: (x - x')^2 + 2 (x^2 - x'^2)^2 <= 4 on [-1, 1]^2; a weight above 2 breaks it."""
    x, other = np.meshgrid(np.linspace(-1, 1, 801), np.linspace(-1, 1, 801))
    assert ((x - other) ** 2 + 2 * (x**2 - other**2) ** 2).max() <= 4 + 1e-12
    assert ((x - other) ** 2 + 4 * (x**2 - other**2) ** 2).max() > 4


def test_a_row_costs_what_a_trained_row_costs_and_the_claims_say_so() -> None:
    trained, held = plan().certificate().claims
    assert (trained.rows, held.rows) == ("", "held out")
    for claim in (trained, held):
        assert accountant.epsilon(claim.events, DELTA) <= EPSILON * (1 + 1e-9)
        assert accountant.epsilon(claim.events, DELTA) > 0.99 * EPSILON
    assert plan().certificate().epsilon(DELTA) <= EPSILON * (1 + 1e-9)


def drawn(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, ...]:
    """Rows whose label depends on both parties' scores."""
    own, theirs = rng.normal(size=rows), rng.normal(size=rows)
    labels = np.where(rng.random(rows) < 1 / (1 + np.exp(-own - theirs)), 1.0, -1.0)
    return own, theirs, labels


def released(rng: np.random.Generator, rows: int, known: EvaluationSettings, seed: int) -> HeldOutRelease:
    own, theirs, labels = drawn(rng, rows)
    asked = held_question(own, 0.8 * own, labels, known.bins)
    planned = plan(held=rows).private
    assert planned is not None
    release = Releaser(planned.releases["shop"], "shop", seed)
    return HeldOutRelease.of(held_answer(theirs, Inbox(asked, "shop"), known, release), asked, known, "shop")


def test_figures_are_right_but_for_noise() -> None:
    rows, known = 20_000, settings(20_000)
    rng = np.random.default_rng(1)
    found = released(rng, rows, known, 3)
    own, theirs, labels = drawn(np.random.default_rng(1), rows)
    exact = {
        "auc": roc_auc_score(labels, own + theirs),
        "accuracy": np.mean((own + theirs > 0) == (labels > 0)),
    }
    measures, errors = released_measures(found)
    for name, value in exact.items():
        assert errors[name] < 0.01
        assert measures[name] == pytest.approx(value, abs=5 * errors[name])
    against = released_difference(found)
    alone = log_loss(labels > 0, 1 / (1 + np.exp(-0.8 * own)))
    joint = log_loss(labels > 0, 1 / (1 + np.exp(-own - theirs)))
    assert against["other"] == pytest.approx(alone)
    assert against["joint"] == pytest.approx(joint, abs=0.01)  # rows are clipped, and there is noise
    groups = released_calibration(found)
    assert len(groups) >= 10
    for group in groups[1:-1]:
        assert group["observed"] == pytest.approx(group["predicted"], abs=0.08)


def test_standard_errors_hold_what_they_say() -> None:
    """Over many draws of rows and noise, estimates miss the truth by about one standard error."""
    rows, known, rng = 400, settings(400), np.random.default_rng(5)
    own, theirs, labels = drawn(rng, 400_000)
    after, before = np.logaddexp(0, -labels * (own + theirs)), np.logaddexp(0, -labels * 0.8 * own)
    truth = {
        "difference": float(np.mean(np.clip(after - before, -known.clip, known.clip))),
        "auc": float(roc_auc_score(labels[:50_000], (own + theirs)[:50_000])),
        "accuracy": float(np.mean((own + theirs > 0) == (labels > 0))),
    }
    misses: dict[str, list[float]] = {name: [] for name in truth}
    for seed in range(120):
        found = released(rng, rows, known, seed)
        against, (measures, errors) = released_difference(found), released_measures(found)
        misses["difference"].append((against["difference"] - truth["difference"]) / against["error"])
        for name in ("auc", "accuracy"):
            misses[name].append((measures[name] - truth[name]) / errors[name])
    for name, missed in misses.items():
        size = math.sqrt(np.mean(np.square(missed)))
        assert 0.6 < size < 1.3, (name, size)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"more": '[[party]]\nname = "phone"\ndata = "phone.csv"'}, "several protected parties"),
        ({"privacy": "protect = 'everyone'"}, "protect='everyone'"),
        ({"privacy": "label_epsilon = 2"}, "label_epsilon"),
        ({"privacy": "refit = true"}, "refit=True"),
        ({"privacy": "mechanism = 'shares'"}, "mechanism='shares' has no private evaluation"),
        ({"model": 'loss = "squared"'}, "loss='squared'"),
    ],
)
def test_what_no_theorem_covers_is_refused_in_one_line(wrong: dict[str, str], line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        plan(**wrong)
    assert "\n" not in str(caught.value)


def test_nothing_is_said_of_a_wrong_question_nor_twice() -> None:
    known, rng = settings(5), np.random.default_rng(0)
    scores = rng.normal(size=5)
    asked = held_question(rng.normal(size=5), rng.normal(size=5), np.ones(5), known.bins)
    for name, value in (
        ("base", np.full(5, np.nan)),
        ("base", np.zeros(4)),
        ("labels", np.full(5, 0.5)),
        ("cuts", np.zeros(3)),
        ("alone", np.full(5, np.inf)),
    ):
        with pytest.raises(RunError, match=name):
            held_answer(scores, Inbox({**asked, name: value}, "shop"), known, Bare())  # type: ignore[arg-type]
    planned = plan(held=5).private
    assert planned is not None
    release = Releaser(planned.releases["shop"], "shop")
    held_answer(scores, Inbox(asked, "shop"), known, release)
    with pytest.raises(RunError, match="not once more"):
        held_answer(scores, Inbox(asked, "shop"), known, release)


def test_few_rows_and_one_class() -> None:
    for rows, labels in ((1, np.ones(1)), (3, np.ones(3)), (40, -np.ones(40))):
        known, rng = settings(rows), np.random.default_rng(0)
        asked = held_question(rng.normal(size=rows), np.zeros(rows), labels, known.bins)
        found = held_answer(rng.normal(size=rows), Inbox(asked, "shop"), known, Bare())  # type: ignore[arg-type]
        told = HeldOutRelease.of(found, asked, known, "shop")
        measures, errors = released_measures(told)
        assert set(measures) == set(errors) == {"accuracy"}
        assert bool(released_difference(told)) == (rows > 1)
        released_calibration(told)
