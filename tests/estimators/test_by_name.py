"""Parties by name: the same models as from lists, with the names where they are of use, and one line where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tacit import (
    HorizontalClassifier,
    HorizontalRegressor,
    Privacy,
    VerticalClassifier,
    VerticalRegressor,
    alone,
    pooled,
)
from tacit.errors import InputError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(240, 5)) / 3
Y = X @ [3.0, -2.0, 1.0, 2.0, 0.5] + 0.3 * RNG.normal(size=240) > 0
BANK, SHOP = X[:, :2], X[:, 2:]
ROWS = {"north": X[:100], "east": X[100:150], "south": X[150:]}
LABELS = {"north": Y[:100], "east": Y[100:150], "south": Y[150:]}


@pytest.mark.parametrize("kind", [VerticalClassifier, VerticalRegressor])
def test_columns_by_name_are_those_of_a_list(kind: Any) -> None:
    named, listed = kind(alpha=0.1).fit({"bank": BANK, "shop": SHOP}, Y), kind(alpha=0.1).fit([BANK, SHOP], Y)
    np.testing.assert_array_equal(named.coef_, listed.coef_)
    backwards = {"shop": SHOP, "bank": BANK}
    np.testing.assert_array_equal(named.predict(backwards), listed.predict([BANK, SHOP]))
    np.testing.assert_array_equal(named.predict([BANK, SHOP]), listed.predict([BANK, SHOP]))
    assert named.score(backwards, Y) == listed.score([BANK, SHOP], Y)


def test_the_names_are_in_the_certificate_and_in_the_request() -> None:
    privacy = Privacy(epsilon=2.0, row_norm={"bank": 1.0, "shop": 2.0}, noise_seed=1)
    model = VerticalClassifier(privacy=privacy).fit({"bank": BANK, "shop": SHOP}, Y)
    assert set(model.certificate_.per_party) == {"bank", "shop"}
    assert {claim.party for claim in model.certificate_.claims} == {"shop"}


@pytest.mark.parametrize("kind", [HorizontalClassifier, HorizontalRegressor])
def test_rows_by_name_are_those_of_a_list(kind: Any) -> None:
    weights = {name: 1.0 + np.arange(len(own)) % 3 for name, own in LABELS.items()}
    backwards = dict(reversed(LABELS.items()))  # labels are matched by name
    named = kind(alpha=0.1, graph=[("north", "east"), ("east", "south")], random_state=0).fit(ROWS, backwards, weights)
    listed = kind(alpha=0.1, graph=[(0, 1), (1, 2)], random_state=0)
    listed.fit(list(ROWS.values()), list(LABELS.values()), list(weights.values()))
    np.testing.assert_array_equal(named.coef_, listed.coef_)
    assert named.graph_.names == ("north", "east", "south")
    np.testing.assert_array_equal(named.predict(X), listed.predict(X))
    by_list = kind(alpha=0.1, graph=[("north", "east"), ("east", "south")], random_state=0)
    by_list.fit(ROWS, list(LABELS.values()), list(weights.values()))
    np.testing.assert_array_equal(by_list.coef_, listed.coef_)


def test_a_sparse_matrix_that_is_a_mapping_is_one_table() -> None:
    table = sparse.dok_matrix(X)
    np.testing.assert_array_equal(
        VerticalClassifier().fit(table, Y).predict(table), VerticalClassifier().fit(X, Y).predict(X)
    )


def test_an_epsilon_for_a_named_node() -> None:
    privacy = Privacy(epsilon=2.0, epsilon_by_party={"south": 0.5}, noise_seed=1)
    model = HorizontalClassifier(graph="ring", privacy=privacy).fit(ROWS, LABELS)
    found = {claim.party: claim.epsilon(1e-5) for claim in model.certificate_.claims}
    assert found["south"] <= 0.5 < found["north"] <= 2.0


def test_baselines_know_the_names() -> None:
    model = VerticalClassifier(alpha=0.1)
    for view in (pooled(model), alone(model, 1)):
        view.fit({"bank": BANK, "shop": SHOP}, Y)
        expected = view.decision_function({"bank": BANK, "shop": SHOP})
        np.testing.assert_array_equal(view.decision_function({"shop": SHOP, "bank": BANK}), expected)
        np.testing.assert_array_equal(view.decision_function([BANK, SHOP]), expected)


@pytest.mark.parametrize(
    ("table", "labels", "message"),
    [
        ({}, Y, "X is an empty mapping"),
        ({1: BANK, 2: SHOP}, Y, "X has the key 1: keys are names of parties"),
        ({"bank": BANK, "shop": SHOP[:, 0]}, Y, "X['shop'] is no table of rows and columns"),
        ({"bank": BANK, "shop": None}, Y, "X['shop'] is no table"),
        ({"bank": BANK, "shop": SHOP[:9]}, Y, "bank has 240, shop has 9"),
        ({"bank": BANK, "shop": SHOP}, {"bank": Y}, "y is a mapping: one party holds the labels"),
    ],
)
def test_columns_that_are_refused(table: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        VerticalClassifier().fit(table, labels)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "labels", "weights", "message"),
    [
        (ROWS, Y, None, "X has tables of 3 parties: give y as a list"),
        (ROWS, {"north": LABELS["north"]}, None, "y says nothing about party 'east'"),
        (ROWS, {**LABELS, "west": Y}, None, 'y names "west", which is no party: the parties are'),
        (X, LABELS, None, "y or sample_weight is a mapping and X is not"),
        (X, Y, {"north": Y}, "y or sample_weight is a mapping and X is not"),
        (ROWS, LABELS, {"north": np.ones(100)}, "sample_weight says nothing about party 'east'"),
        ({**ROWS, "east": X[100:150, :2]}, LABELS, None, "east has 2 columns and north has 5"),
        ({**ROWS, "east": X[:9]}, LABELS, None, "east has 50 labels for 9 rows"),
    ],
)
def test_rows_that_are_refused(table: Any, labels: Any, weights: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        HorizontalClassifier(graph="ring").fit(table, labels, weights)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_predictions_that_are_refused() -> None:
    columns = VerticalClassifier().fit({"bank": BANK, "shop": SHOP}, Y)
    for table, message in (
        ({"bank": BANK}, "X says nothing about party 'shop'"),
        ({"bank": BANK, "phone": SHOP}, 'X names "phone", which is no party'),
    ):
        with pytest.raises(InputError, match=message):
            columns.predict(table)
    rows = HorizontalClassifier(graph="ring").fit(ROWS, LABELS)
    with pytest.raises(InputError, match="X holds several tables"):
        rows.predict(ROWS)
