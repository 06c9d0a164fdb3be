"""Private boosted trees: the label holder's trees beside protected parties, and randomized labels."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

from tacit import Privacy
from tacit.audit.game import Game, lower_bound
from tacit.audit.scene import WorstPair, search
from tacit.audit.scene import scenes as plan_scenes
from tacit.columns.raw import OwnColumns, RawTable
from tacit.errors import InputError
from tacit.plan import Plan
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease, RandomizedResponse
from tacit.privacy.releases import Releaser
from tacit.run.result import TreePart
from tacit.run.star import Run
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.alone import trees_alone
from tacit.solvers.boosting.losses import make_loss
from tacit.types import Shard
from tests.audit import toy
from tests.audit.test_replay import claimed_of
from tests.plans import feature_plan

ROWS, NAMES = 300, ("bank", "shop", "phone")
FORMS: dict[str, dict[str, Any]] = {
    "rows": {"epsilon": 4.0},
    "rows and labels": {"epsilon": 4.0, "label_epsilon": 2.0},
    "labels": {"epsilon": None, "label_epsilon": 2.0},
}


def data(rows: int = ROWS) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(rows, 3)) / np.sqrt(3) for _ in NAMES]
    tables[0][rng.random(rows) < 0.1, 2] = np.nan
    score = 12 * tables[0][:, 0] * tables[0][:, 1] + 4 * tables[1].sum(axis=1) + 3 * tables[2][:, 0]
    return tables, np.where(score + rng.logistic(size=rows) > 0, 1.0, -1.0)


def shards_of(tables: list[np.ndarray], private: bool) -> list[Shard]:
    columns = ("a", "b", "c")
    raw = [Shard(name, RawTable(name, columns, own), columns) for name, own in zip(NAMES, tables, strict=True)]
    coded = [Shard(name, own, columns) for name, own in zip(NAMES, tables, strict=True)]
    return [raw[0], *(coded if private else raw)[1:]]


def plan(form: str = "rows", rows: int = ROWS, loss: str = "logistic", **privacy: Any) -> Plan:
    asked = Privacy(**{**FORMS[form], **privacy})
    linear = asked.epsilon is not None
    return feature_plan(
        loss=loss, penalty="l2" if linear else "none", alpha=1e-3 if linear else 0.0, fit_intercept=linear, tol=1e-4,
        max_rounds=200 if linear else 4, privacy=asked, seed=3, party_names=NAMES, rows=rows, columns=(3, 3, 3),
        trees=TreeSettings(make_loss(loss), trees=(5,)),
    )  # fmt: skip


def make_run(form: str = "rows", labels: np.ndarray | None = None, **privacy: Any) -> Run:
    tables, y = data()
    private = FORMS[form]["epsilon"] is not None
    return Run(plan(form, **privacy), shards_of(tables, private), y if labels is None else labels)


def model(result: Any) -> dict[str, Any]:
    """Everything a finished run says, but for the time it took."""
    found: dict[str, Any] = {"constant": result.model.constant, "outlook": result.outlook}
    for part in result.model.parts:
        own = (part.text, part.offset, part.bend) if isinstance(part, TreePart) else (part.coef.tolist(), part.offset)
        found[part.name] = own
    return found


def messages_of(run: Run) -> tuple[list[dict[str, list[float]]], Any]:
    """Run to the end; what went either way, in order, and the result."""
    sent: list[dict[str, list[float]]] = []
    exchange = run.engine.exchange

    def watched(message: Any) -> Any:
        answers = exchange(message)
        sent.extend({name: np.ravel(array).tolist() for name, array in m.arrays.items()} for m in (message, *answers))
        return answers

    run.engine.exchange = watched  # type: ignore[method-assign]
    return sent, run.go()


# --- the label holder's own trees ---------------------------------------------------------------------


def test_no_row_is_scored_by_trees_that_saw_it() -> None:
    """One label changes nothing of its own row's score where the number of trees stays, and much of others'."""
    tables, y = data()
    table = RawTable("bank", ("a", "b", "c"), tables[0])
    settings = TreeSettings(make_loss("squared"), min_samples_leaf=5)
    changed = y.copy()
    changed[7] = -y[7]
    (own, scores), (_, others) = (trees_alone(settings, table, labels, 5, 1) for labels in (y, changed))
    same = np.flatnonzero(np.arange(ROWS) % 5 == 7 % 5)
    np.testing.assert_array_equal(scores[same], others[same])
    assert np.abs(scores - others).max() > 1e-3
    fitted, held = (float(np.mean((y - score) ** 2)) for score in (own.predict(table), scores))
    assert fitted < held < np.var(y), "out-of-fold scores know less than the trees of all rows, and more than nothing"


def test_columns_of_noise_get_few_trees_and_no_harm() -> None:
    rng = np.random.default_rng(5)
    table = RawTable("bank", ("a",), rng.normal(size=(400, 1)))
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    own, scores = trees_alone(TreeSettings(make_loss("logistic")), table, y, 5, 1)
    assert len(own.model.trees) <= 10
    assert make_loss("logistic").mean(scores, y) < math.log(2) + 0.02


def test_the_part_of_the_model_is_the_own_trees_bent_as_the_others_fitted() -> None:
    run = make_run(noise_seed=1)
    result = run.go()
    side, part = run.coordinator.side, result.model.parts[0]
    assert isinstance(part, TreePart)
    own = side.own_fit.predict(run.shards[0].features)
    bend = sum(fit.side[1] for fit in side.fits.values()) / 4
    np.testing.assert_allclose(part.score(run.shards[0].features), own + bend * np.clip(own, -4, 4), atol=1e-12)
    np.testing.assert_allclose(
        part.contributions(run.shards[0].features).sum(axis=1), part.score(run.shards[0].features), atol=1e-9
    )
    assert result.model.constant == pytest.approx(sum(fit.side[0] for fit in side.fits.values()))


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_numbers_are_predicted_beside_protected_parties(loss: str) -> None:
    tables, _ = data()
    y = 2 * tables[0][:, 0] ** 2 + tables[1].sum(axis=1)
    run = Run(plan("rows", loss=loss, epsilon=30.0, noise_seed=1), shards_of(tables, True), y)
    left = y - run.go().model.scores(run.shards)
    assert np.var(left) < 0.6 * np.var(y)


# --- certificates -------------------------------------------------------------------------------------


def test_the_certificate_of_rows_follows_from_the_planned_noise() -> None:
    asked = plan("rows", epsilon=1.0)
    found = asked.certificate()
    assert {claim.party for claim in found.claims} == {"shop", "phone"}
    for claim in found.claims:
        events = [event for event in claim.events if isinstance(event, GaussianRelease)]
        assert len(events) == len(claim.events) == 3
        mu = math.sqrt(sum(event.mu**2 for event in events))
        assert accountant.delta([GaussianRelease(mu, 1.0)], 1.0) <= 1e-5
        assert accountant.delta([GaussianRelease(1.01 * mu, 1.0)], 1.0) > 1e-5, "noise is not wasted"
    assert any(line.startswith("the rows of bank") for line in found.does_not_cover)


def test_trees_change_nothing_of_what_protected_parties_release() -> None:
    linear = feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, tol=1e-4, max_rounds=200,
        privacy=Privacy(epsilon=4.0), seed=3, party_names=NAMES, rows=ROWS, columns=(3, 3, 3),
    )  # fmt: skip
    with_trees = plan("rows")
    assert linear.private is not None
    assert with_trees.private is not None
    assert linear.private.releases == with_trees.private.releases
    assert linear.certificate().claims == with_trees.certificate().claims


def test_the_certificate_of_labels_claims_them_and_nothing_else() -> None:
    found = plan("labels").certificate()
    (claim,) = found.claims
    assert (claim.unit, claim.party, claim.theorem) == (
        "label", "bank", "randomized response (docs/proofs/labels.md, theorem 1)",
    )  # fmt: skip
    (event,) = claim.events
    assert isinstance(event, RandomizedResponse)
    assert event.epsilon == 2.0
    assert claim.epsilon(0.0) == pytest.approx(2.0)
    assert any(line.startswith("the rows of every party") and "0.99" in line for line in found.does_not_cover)
    assert "randomized labels" in found.per_party["bank"]


# --- neighbours ---------------------------------------------------------------------------------------


def small(**privacy: Any) -> Plan:
    return feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, tol=1e-4, max_rounds=200, seed=3,
        privacy=Privacy(**{"epsilon": 1.0, **privacy}), party_names=("bank", "shop"), rows=500, columns=(3, 4),
        trees=TreeSettings(make_loss("logistic")),
    )  # fmt: skip


def worst(asked: Plan, rows: tuple[int, ...], pairs: int, transcripts: int = 1) -> WorstPair:
    rng = np.random.default_rng(1)
    return search(plan_scenes(asked, "shop", rows), claimed_of(asked, "shop"), pairs, rng, transcripts=transcripts)


@pytest.mark.parametrize("more", [{}, {"label_epsilon": 1.0}, {"neighbours": "zero-out"}])
def test_no_pair_of_rows_costs_more_than_the_certificate_says(more: dict[str, Any]) -> None:
    """Nor does anything but releases differ between neighbours: sizes, sides and the part of the model included."""
    found = worst(small(**more), (12, 60), 40)
    print(f"{more}: largest ratio {found.ratio:.4f} over {found.pairs} pairs ({found.kind})")
    assert isinstance(found.scene.shards[0].features, RawTable)
    assert found.ratio <= 1 + 1e-9
    assert found.leaks == 0
    assert found.ratio > 0.5  # a search that finds nothing bad proves nothing


@pytest.fixture(scope="module")
def bad_pair() -> WorstPair:
    return worst(small(epsilon=8.0), (300,), 40, transcripts=4)


@pytest.mark.parametrize("half", [False, True])
def test_half_the_noise_is_caught(bad_pair: WorstPair, half: bool) -> None:
    """At epsilon 8 a pair that uses 0.8 of the claim is found in 99.99 % of all games of 400 runs, 0.7 in 98 %."""
    assert bad_pair.ratio > 0.7
    scene = bad_pair.scene
    scene.used = toy.half(scene.planned) if half else scene.planned
    guesses = Game(scene, bad_pair.first, bad_pair.second).play(400, seed=1)
    bound = lower_bound(guesses, 1e-5)
    print(f"half={half}: epsilon at least {bound.epsilon_curve:.3f}")
    assert (bound.epsilon_curve > 8) == half


@pytest.mark.parametrize(("form", "predictions"), [
    ("rows and labels", "anyone"), ("rows and labels", "label-holder"), ("labels", "anyone"),
])  # fmt: skip
def test_everything_is_a_function_of_the_randomized_labels(
    monkeypatch: pytest.MonkeyPatch, form: str, predictions: str
) -> None:
    """Constant, steps, number of trees and stopping, too: of held-out rows as of fitted ones."""
    _, y = data()
    said = (np.random.default_rng(5).random(ROWS) < np.where(y > 0, 0.9, 0.1)).astype(np.int64)
    real = Releaser.respond
    monkeypatch.setattr(Releaser, "respond", lambda self, name, s: said if name == "labels" else real(self, name, s))
    flipped = np.where(np.arange(ROWS) % 3 == 0, -y, y)
    (first, one), (second, two) = (
        messages_of(make_run(form, labels, predictions=predictions, noise_seed=3)) for labels in (y, flipped)
    )
    assert first == second
    differs = {name for name, value in model(one).items() if value != model(two)[name]}
    assert differs == ({"bank"} if predictions == "label-holder" else set())
    untimed = [[getattr(row, name) for name in ("round", "objective", "bytes_up")] for row in one.trace]
    assert str(untimed) == str(
        [[getattr(row, name) for name in ("round", "objective", "bytes_up")] for row in two.trace]
    )


@pytest.mark.parametrize("form", ["rows", "labels"])
def test_the_test_above_could_fail(form: str) -> None:
    _, y = data()
    assert messages_of(make_run(form, y, noise_seed=3))[0] != messages_of(make_run(form, -y, noise_seed=3))[0]


# --- going on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_goes_on_ends_in_the_same_model_and_draws_no_label_twice(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    kept: list[Any] = []

    def keep(run: Run) -> None:
        if not kept:
            kept.append((copy.deepcopy(run.snapshot()), copy.deepcopy(run.state)))

    whole = make_run(form).go(checkpoint=keep)
    resumed = make_run(form)
    resumed.restore(*kept[0])
    asked: list[str] = []
    respond = Releaser.respond
    monkeypatch.setattr(Releaser, "respond", lambda self, name, s: asked.append(name) or respond(self, name, s))
    assert model(resumed.go()) == model(whole)
    assert "labels" not in asked


@pytest.mark.parametrize("product", [True, False])
def test_a_choice_between_trees_and_a_line_is_kept_when_a_run_goes_on(product: bool) -> None:
    tables, _ = data()
    rows = np.nan_to_num(tables[0])
    score = 15 * rows[:, 0] * rows[:, 1] if product else 4 * rows.sum(axis=1)
    y = np.where(score + np.random.default_rng(3).logistic(size=ROWS) > 0, 1.0, -1.0)
    raw, *others = shards_of([rows, *tables[1:]], True)
    shards = [Shard("bank", OwnColumns(rows, raw.features), raw.columns), *others]
    kept: list[Any] = []
    whole = Run(plan("rows and labels", label_epsilon=6.0), shards, y).go(
        checkpoint=lambda run: kept.append((copy.deepcopy(run.snapshot()), copy.deepcopy(run.state)))
    )
    assert isinstance(whole.model.parts[0], TreePart) == product
    resumed = Run(plan("rows and labels", label_epsilon=6.0), shards, y)
    resumed.restore(*kept[0])
    assert model(resumed.go()) == model(whole)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"protect": "everyone"}, "boosted trees with protect='everyone'"),
        ({"refit": True}, "refit=True with boosted trees"),
        ({"mechanism": "shares"}, "mechanism='shares' does not fit boosted trees"),
        ({"loss": "poisson"}, "loss='poisson'"),
        ({"loss": "gamma"}, "loss='gamma' of trees"),
        ({"loss": "squared", "label_epsilon": 1.0}, "loss='squared'"),
    ],
)
def test_refusals_are_one_line(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        plan("rows", **changed)
    assert "\n" not in str(refused.value)


def test_labels_of_numbers_cannot_be_randomized() -> None:
    with pytest.raises(InputError, match="label_epsilon does not fit loss='squared'"):
        plan("labels", loss="squared")
