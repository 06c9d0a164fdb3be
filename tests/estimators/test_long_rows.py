"""Rows that a private method scales down in training are scaled down in prediction, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tacit import HorizontalClassifier, HorizontalRegressor, Privacy
from tacit.cli.main import main
from tacit.data.load import load_prediction_data
from tacit.run.predict import load_model, predict
from tests.cli.wards import Nodes

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.where(X @ np.array([1.0, -1.0, 0.5]) > 0, 1, 0)


@pytest.mark.parametrize("mechanism", ["gaussian", "dual", "primal", "pdml"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_long_row_scores_as_the_row_of_the_largest_norm(mechanism: str, make: type) -> None:
    labels = 3 if mechanism == "pdml" else None
    asked = Privacy(epsilon=4, row_norm=2.0, noise_seed=1, label_epsilon=labels, mechanism=mechanism)
    model = HorizontalClassifier(parties=3, privacy=asked, random_state=0).fit(X, y)
    rows = np.array([[0.6, 0.0, 0.8], [6.0, 0.0, 8.0], [1.2, 0.0, 1.6]])
    short, long, longest = model.decision_function(make(rows))
    assert long == pytest.approx(longest, abs=1e-12)
    intercept = float(model.intercept_[0])
    assert short - intercept == pytest.approx((long - intercept) / 2, abs=1e-12)
    assert short == pytest.approx(float(rows[0] @ model.coef_[0]) + intercept, abs=1e-12)


def test_without_privacy_and_in_regression() -> None:
    plain = HorizontalClassifier(parties=3, random_state=0).fit(X, y)
    assert plain.decision_function(100 * X) == pytest.approx(100 * X @ plain.coef_[0] + plain.intercept_[0])
    asked = Privacy(epsilon=4, row_norm=2.0, label_norm=3.0, noise_seed=1)
    model = HorizontalRegressor(parties=3, privacy=asked, random_state=0).fit(X, X[:, 0])
    at_norm, beyond = model.predict(np.array([[2.0, 0, 0], [20.0, 0, 0]]))
    assert at_norm == pytest.approx(beyond)


def test_a_saved_model_scales_rows_down_too(tmp_path: Path) -> None:
    path = Nodes(tmp_path, privacy="epsilon = 4\nrow_norm = 0.7").write()
    assert main(["train", str(path), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    (tmp_path / "new.csv").write_text("x0,x1,x2,x3\n0.7,0,0,0\n70,0,0,0\n0,0,0,0\n")
    model = load_model(tmp_path / "run")
    found = predict(model, load_prediction_data(model.specs, [tmp_path / "new.csv"]))
    at_norm, beyond, none = found.score
    assert at_norm == pytest.approx(beyond)
    assert at_norm != none
