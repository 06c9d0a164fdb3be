"""The estimators with privacy: what coef_ means, odd data, and the manners of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from tacit import Privacy, VerticalClassifier, VerticalRegressor
from tacit.errors import InputError


def table(rows: int = 300, columns: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = 0.4 * rng.normal(size=(rows, columns))
    return X, (X.sum(axis=1) + 0.3 * rng.logistic(size=rows) > 0).astype(int)


def classifier(epsilon: float = 4.0, parties=(3, 3), **privacy) -> VerticalClassifier:
    return VerticalClassifier(parties=list(parties), privacy=Privacy(epsilon, noise_seed=1, **privacy))


def test_scores_of_rows_that_are_not_clipped_are_those_of_the_linear_model():
    X, y = table()
    for privacy in ({}, {"label_epsilon": 3.0}, {"refit": True}, {"protect": "everyone"}):
        fitted = classifier(**privacy).fit(X, y)
        small = 0.01 * X[:50] + np.concatenate([np.zeros(3), fitted._parts[1].clip.centre])
        if privacy.get("protect"):
            small = 0.01 * X[:50] + np.concatenate([part.clip.centre for part in fitted._parts])
        linear = small @ fitted.coef_[0] + fitted.intercept_[0]
        assert np.allclose(fitted.decision_function(small), linear, atol=1e-9), privacy


def test_scores_of_long_rows_are_clipped_as_in_training():
    X, y = table()
    fitted = classifier().fit(X, y)
    far, farther = (np.hstack([X[:5, :3], size * X[:5, 3:]]) for size in (1e3, 1e9))
    assert np.allclose(fitted.decision_function(far), fitted.decision_function(farther), atol=1e-2)
    assert np.all(np.isfinite(fitted.decision_function(1e307 * np.sign(X[:5]) * [0, 0, 0, 1, 1, 1])))


def test_predictions_probabilities_and_score_agree():
    X, y = table()
    fitted = classifier(8.0).fit(X, np.where(y, "yes", "no"))
    positive = fitted.predict_proba(X)[:, 1]
    assert np.array_equal(fitted.predict(X) == "yes", fitted.decision_function(X) > 0)
    assert np.array_equal(positive > 0.5, fitted.decision_function(X) > 0)
    assert fitted.score(X, np.where(y, "yes", "no")) == np.mean((positive > 0.5) == y)
    assert fitted.score(X, np.where(y, "yes", "no")) > 0.8


def test_privacy_is_a_parameter_like_any_other():
    estimator = classifier(2.0, label_epsilon=1.0)
    copied = clone(estimator)
    assert copied.get_params()["privacy"] == estimator.privacy
    assert copied.set_params(privacy=None).privacy is None
    assert "Privacy" in repr(estimator)


def test_a_regressor_learns_with_much_epsilon():
    X, _ = table(2000)
    y = 5 + X.sum(axis=1)
    for loss in ("squared", "huber", "absolute"):
        fitted = VerticalRegressor(loss=loss, parties=2, privacy=Privacy(20.0, row_norm=2.0, noise_seed=1)).fit(X, y)
        assert fitted.score(X, y) > 0.8, loss
        assert fitted.certificate_.epsilon(1e-5) <= 20


ODD = {
    "three rows": (np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.5]]), np.array([0, 1, 0])),
    "constant columns": (np.ones((40, 2)), np.arange(40) % 2),
    "rows of zeros": (np.zeros((40, 2)), np.arange(40) % 2),
    "one long row": (np.vstack([np.full((1, 2), 1e12), table(60, 2)[0]]), np.append(1, table(60, 2)[1])),
    "a guest beyond floats": (np.column_stack([table(60, 1)[0], np.full(60, 1e300)]), np.arange(60) % 2),
    "tiny": (1e-300 * table(60, 2)[0], table(60, 2)[1]),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("privacy", [{}, {"refit": True}, {"protect": "everyone"}], ids=str)
def test_odd_data_end_in_a_finite_model(odd, privacy):
    X, y = ODD[odd]
    fitted = classifier(2.0, (1, 1), **privacy).fit(X, y)
    assert np.all(np.isfinite(fitted.coef_))
    assert np.all(np.isfinite(fitted.decision_function(X)))
    assert fitted.certificate_.epsilon(1e-5) <= 2


def test_one_class_is_refused():
    X, _ = table(30)
    with pytest.raises(InputError, match="class"):
        classifier().fit(X, np.ones(30))


def test_infinite_values_are_refused_before_the_run():
    X, y = table(30)
    X[3, 4] = np.inf
    with pytest.raises(InputError):
        classifier().fit(X, y)


def test_weights_and_warm_starts_are_refused():
    X, y = table(30)
    with pytest.raises(InputError, match="sample_weight"):
        classifier().fit(X, y, sample_weight=np.arange(30.0))
    fitted = classifier().fit(X, y).set_params(warm_start=True)
    with pytest.raises(InputError, match="warm_start"):
        fitted.fit(X, y)


def test_entries_stored_twice_are_added_up_before_they_are_checked():
    """A sum beyond the floats is refused with the table, as infinity is, and not in the middle of a run."""
    rng = np.random.default_rng(0)
    twice = sparse.csr_array(
        (np.full(80, 1e308), np.zeros(80, dtype=np.int32), np.arange(0, 81, 2, dtype=np.int32)), shape=(40, 3)
    )
    with pytest.raises(InputError, match="party 2, column 'x2': infinity in row 0"):
        VerticalClassifier(privacy=Privacy(epsilon=1)).fit([rng.normal(size=(40, 2)), twice], np.arange(40) % 2)


def test_frames_with_the_same_rows_in_another_order_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    left, right = table[["a", "b"]], table[["c", "d"]]
    y = np.sign(left["a"] + rng.normal(size=60))
    model = VerticalClassifier().fit([left, right], y)
    with pytest.raises(InputError, match="party 2 has the rows of party 1 in another order"):
        VerticalClassifier().fit([left, right.sample(frac=1.0, random_state=1)], y)
    with pytest.raises(InputError, match="in another order"):
        model.predict([left, right[::-1]])
    other = right.set_axis(range(100, 160))  # other names for the rows say nothing about their order
    assert model.predict([left, other]).shape == (60,)
