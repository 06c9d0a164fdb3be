"""Boosting estimators with privacy: raw columns for the label holder's trees, public codes for protected parties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from tacit import Privacy, VerticalClassifier
from tacit.errors import InputError
from tacit.estimators.boosting import VerticalBoostingClassifier, VerticalBoostingRegressor

RANGES, LISTS = {"income": (0, 100), "visits": (0, 20)}, {"kind": ["u", "v", "w"]}


def frames(rows: int = 1500) -> tuple[dict[str, pd.DataFrame], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    bank = pd.DataFrame({"age": rng.uniform(18, 90, rows), "town": rng.choice(["Basel", "Bern", "Chur"], rows)})
    bank.loc[rng.random(rows) < 0.1, "age"] = np.nan
    shop = pd.DataFrame(
        {"income": rng.uniform(0, 100, rows), "visits": rng.poisson(5, rows), "kind": rng.choice(list("uvw"), rows)}
    )
    score = np.where(bank.town == "Bern", 1.0, -1.0) * (bank.age.fillna(40) - 50) / 15
    score = score + 2 * np.cos(shop.income / 15) + np.where(shop.kind == "u", 1.5, -0.7)
    y = np.where(score + rng.logistic(size=rows) > 0, "yes", "no")
    return {"bank": bank, "shop": shop}, y, np.asarray(score)


def part(X: dict[str, pd.DataFrame], rows: Any) -> dict[str, pd.DataFrame]:
    return {name: frame.iloc[rows].reset_index(drop=True) for name, frame in X.items()}


def test_rows_of_the_others_are_protected_and_the_model_is_better_than_the_label_holder_alone() -> None:
    X, y, _ = frames()
    train, test = part(X, np.arange(1000)), part(X, np.arange(1000, 1500))
    private = VerticalBoostingClassifier(
        privacy=Privacy(epsilon=4.0, noise_seed=1), ranges=RANGES, categories=LISTS, random_state=0
    ).fit(train, y[:1000])
    alone = VerticalBoostingClassifier(random_state=0).fit({"bank": train["bank"]}, y[:1000])
    losses = [
        log_loss(y[1000:], model.predict_proba(own))
        for model, own in ((private, test), (alone, {"bank": test["bank"]}))
    ]
    assert losses[0] < losses[1] - 0.03, losses
    assert private.certificate_.epsilon(1e-5) == pytest.approx(4.0, rel=1e-6)
    assert [claim.party for claim in private.certificate_.claims] == ["shop"]
    assert private.n_trees_["bank"] > 0
    assert private.row_norms_["shop"] == pytest.approx(3**0.5)
    assert any("worth it" in line for line in private.outlook_)


def test_what_columns_add_sums_up_to_the_score() -> None:
    X, y, _ = frames(600)
    model = VerticalBoostingClassifier(
        privacy=Privacy(epsilon=4.0, noise_seed=1), ranges=RANGES, categories=LISTS, random_state=0
    ).fit(X, y)
    told = model.explain(part(X, np.arange(50)))
    assert set(told["bank"]) == {"age", "town"}
    assert set(told["shop"]) == {"income", "visits", "kind"}
    total = sum(np.asarray(adds) for own in told.values() for adds in own.values())
    np.testing.assert_allclose(total, model.decision_function(part(X, np.arange(50))), atol=1e-9)


def test_no_cell_of_a_protected_party_changes_a_code() -> None:
    """A category that no list names, and a number beyond its range: the encoders stay as they are."""
    X, y, _ = frames(400)
    changed = {"bank": X["bank"], "shop": X["shop"].copy()}
    changed["shop"].loc[0, ["income", "visits", "kind"]] = [1e9, 400, "never seen"]
    asked = {"privacy": Privacy(epsilon=2.0, noise_seed=1), "ranges": RANGES, "categories": LISTS, "random_state": 0}
    one, two = (VerticalBoostingClassifier(**asked).fit(own, y) for own in (X, changed))
    assert one.encoders_["shop"] == two.encoders_["shop"]
    assert one._model.parts[0].text == two._model.parts[0].text
    assert one.traffic_ == two.traffic_
    assert one.certificate_ == two.certificate_


def test_numbers_and_their_medians() -> None:
    X, _, score = frames(800)
    for loss in ("squared_error", "absolute_error"):
        model = VerticalBoostingRegressor(
            loss, privacy=Privacy(epsilon=20.0, noise_seed=1), ranges=RANGES, categories=LISTS, random_state=0
        ).fit(X, score)
        assert np.mean(np.abs(score - model.predict(X))) < 0.6 * np.mean(np.abs(score - np.median(score)))


def test_labels_alone_need_no_ranges() -> None:
    X, y, _ = frames()
    model = VerticalBoostingClassifier(
        privacy=Privacy(epsilon=None, label_epsilon=2.0, noise_seed=1), random_state=0
    ).fit(X, y)
    (claim,) = model.certificate_.claims
    assert (claim.unit, claim.epsilon(0.0)) == ("label", pytest.approx(2.0))
    assert set(model.n_trees_) == {"bank", "shop"}
    assert log_loss(y, model.predict_proba(X)) < 0.62


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ranges": None}, "income"),
        ({"categories": None}, "kind"),
        ({"privacy": Privacy(protect="everyone")}, "boosted trees with protect='everyone'"),
        ({"privacy": Privacy(mechanism="shares")}, "mechanism='shares' does not fit boosted trees"),
        ({"privacy": 1.0}, "give tacit.Privacy"),
    ],
)
def test_refusals_are_one_line(changed: dict[str, Any], said: str) -> None:
    X, y, _ = frames(200)
    X["bank"] = X["bank"][["age"]]
    asked = {"privacy": Privacy(epsilon=1.0), "ranges": {**RANGES, "age": (18, 90)}, "categories": LISTS, **changed}
    with pytest.raises(InputError, match=said) as refused:
        VerticalBoostingClassifier(**asked).fit(X, y)
    assert "\n" not in str(refused.value)


def test_more_than_two_classes_are_refused() -> None:
    X, _, score = frames(200)
    with pytest.raises(InputError, match="loss='softmax' of trees"):
        VerticalBoostingClassifier(privacy=Privacy(), ranges=RANGES, categories=LISTS).fit(
            X, np.digitize(score, [-1.0, 1.0])
        )


@pytest.mark.parametrize("weights", [np.full(200, 2.0), np.arange(200) % 3])
def test_weights_are_refused(weights: Any) -> None:
    X, y, _ = frames(200)
    model = VerticalBoostingClassifier(privacy=Privacy(), ranges=RANGES, categories=LISTS)
    with pytest.raises(InputError, match="sample_weight is not available with privacy"):
        model.fit(X, y, sample_weight=weights)


# --- the label holder's own part of a model of curves --------------------------------------------------


@pytest.mark.parametrize("product", [True, False])
def test_the_own_part_is_what_does_better_out_of_fold(product: bool) -> None:
    """Trees where columns of the label holder work together; curves where each adds a wave of its own."""
    rng = np.random.default_rng(2)
    bank = pd.DataFrame({"a": rng.uniform(-1, 1, 800), "b": rng.uniform(-1, 1, 800)})
    shop = pd.DataFrame({"income": rng.uniform(0, 100, 800)})
    own = 9 * bank.a * bank.b if product else 2 * np.sin(3 * bank.a) + 2 * np.cos(4 * bank.b)
    y = np.where(own + shop.income / 25 - 2 + rng.logistic(size=800) > 0, 1, 0)
    X = {"bank": bank, "shop": shop}
    asked: dict[str, Any] = {
        "privacy": Privacy(epsilon=4.0, noise_seed=1),
        "terms": "spline",
        "ranges": {"income": (0, 100)},
    }
    models = {part: VerticalClassifier(**asked, own_part=part).fit(X, y) for part in ("curves", "trees", "auto")}
    assert (models["auto"].own_trees_ is not None) == product
    same = models["trees" if product else "curves"]
    np.testing.assert_array_equal(models["auto"].decision_function(X), same.decision_function(X))
    assert models["auto"].certificate_.claims == models["curves"].certificate_.claims
    assert set(models["trees"].curves()) == {"shop"}
    assert models["trees"].coef_by_party_["bank"].size == 0
    assert models["trees"].coef_.size == models["trees"].coef_by_party_["shop"].size


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"own_part": "forest"}, "own_part='forest' is unknown"),
        ({"privacy": None}, "is for privacy=Privacy"),
        ({"privacy": Privacy(protect="everyone")}, "protect='others'"),
        ({"loss": "hinge"}, "does not fit loss='hinge'"),
    ],
)
def test_an_own_part_that_does_not_fit_is_refused(changed: dict[str, Any], said: str) -> None:
    X, y, _ = frames(200)
    X["bank"] = X["bank"][["age"]]
    asked = {"privacy": Privacy(), "ranges": {**RANGES, "age": (18, 90)}, "categories": LISTS, "own_part": "auto"}
    with pytest.raises(InputError, match=said):
        VerticalClassifier(terms="spline", **{**asked, **changed}).fit(X, y)


def test_long_lists_of_categories_stay_sparse() -> None:
    rng = np.random.default_rng(3)
    codes = [f"c{number}" for number in range(400)]
    X = {
        "bank": pd.DataFrame({"branch": rng.choice(codes, 600), "age": rng.uniform(18, 90, 600)}),
        "shop": pd.DataFrame({"article": rng.choice(codes, 600)}),
    }
    y = (X["bank"].age + rng.normal(size=600) * 20 > 50).to_numpy()
    asked: dict[str, Any] = {
        "privacy": Privacy(epsilon=2.0, noise_seed=1),
        "categories": {"article": codes, "branch": codes},
    }
    for model in (VerticalClassifier(terms="spline", own_part="auto", **asked), VerticalBoostingClassifier(**asked)):
        assert model.fit(X, y).score(X, y) > 0.6
