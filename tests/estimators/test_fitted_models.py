"""One object: a model fitted here, saved and loaded, or trained as a job, answers the same in every way."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score

import tacit
from tacit import (
    ContributionDisplay,
    ConvergenceDisplay,
    CurvesDisplay,
    HorizontalClassifier,
    HorizontalRegressor,
    InputError,
    Privacy,
    PrivacyDisplay,
    VerticalBoostingClassifier,
    VerticalClassifier,
    VerticalClassifierCV,
    VerticalRegressor,
    alone,
)
from tacit.cli.main import main
from tests.cli.conftest import Files
from tests.cli.wards import Nodes

RNG = np.random.default_rng(5)
N = 160
BANK = pd.DataFrame({"age": RNG.normal(45, 12, N), "town": RNG.choice(["Bern", "Basel", "Chur"], N)})
SHOP = pd.DataFrame({"visits": RNG.poisson(4, N) * 1.0, "spent": RNG.gamma(2, 20, N)})
SCORE = (BANK.age - 45) / 12 + (SHOP.visits - 4) / 2 + (BANK.town == "Bern") + RNG.logistic(size=N)
Y = pd.Series(np.where(SCORE > 0, "yes", "no"), name="bought")
TABLES = {"bank": BANK, "shop": SHOP}
ROWS = pd.concat([BANK, SHOP], axis=1)
RANGES = {"visits": (0, 20), "spent": (0, 200)}
COUNTS = RNG.poisson(np.exp(0.3 * (SHOP.visits - 4)))

MODELS: dict[str, tuple[Any, Any, Any]] = {
    "lines": (VerticalClassifier(alpha=1e-2), TABLES, Y),
    "curves": (VerticalClassifier(alpha=1e-3, terms="spline"), TABLES, Y),
    "searched": (VerticalClassifierCV(alphas=3, cv=2, terms="auto", random_state=0), TABLES, Y),
    "counts": (VerticalRegressor(loss="poisson", alpha=1e-2), TABLES, COUNTS),
    "array": (VerticalRegressor(parties=[1, 1]), SHOP.to_numpy(), SHOP.spent),
    "private": (
        VerticalClassifier(terms="spline", ranges=RANGES, privacy=Privacy(epsilon=2, delta=1e-4, noise_seed=3)),
        TABLES,
        Y,
    ),
    "rows": (HorizontalClassifier(parties=3, graph="ring", alpha=1e-2, random_state=0), ROWS, Y),
    "rows by name": (
        HorizontalRegressor(alpha=1e-2),
        {"north": SHOP[:80], "south": SHOP[80:]},
        {"north": Y[:80] == "yes", "south": Y[80:] == "yes"},
    ),
    "trees": (VerticalBoostingClassifier(max_rounds=2, random_state=0), TABLES, Y),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, tuple[Any, Any]]:
    """Each model with the rows that it predicts."""
    found = {}
    for name, (model, X, y) in MODELS.items():
        rows = SHOP if name == "rows by name" else X
        found[name] = model.fit(X, y), rows
    return found


def as_loaded(name: str, rows: Any) -> Any:
    """Rows as a loaded model takes them: one table for each party."""
    return [rows[:, :1], rows[:, 1:]] if name == "array" else rows


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:the certificate does not cover")
def test_a_saved_model_is_the_model(name: str, fitted: Any, tmp_path: Path) -> None:
    model, rows = fitted[name]
    loaded = tacit.load(model.save(tmp_path / "run"))
    given = as_loaded(name, rows)
    predicted = loaded.predict(given)
    if hasattr(model, "classes_"):
        assert np.asarray(predicted).tolist() == model.predict(rows).tolist()
        np.testing.assert_allclose(loaded.predict_proba(given), model.predict_proba(rows), rtol=1e-9)
        np.testing.assert_allclose(loaded.decision_function(given), model.decision_function(rows), rtol=1e-9)
        assert loaded.classes_.tolist() == model.classes_.tolist()
    else:
        np.testing.assert_allclose(np.asarray(predicted), model.predict(rows), rtol=1e-9)
        assert not hasattr(loaded, "predict_proba")
    assert loaded.certificate_ == model.certificate_
    assert len(repr(loaded)) < 300
    assert len(loaded.trace_) == loaded.n_rounds_ == len(model.trace_)
    assert loaded.converged_ == model.converged_
    if name != "trees":
        own = loaded.coef_by_party_
        wanted = [model.coef_.ravel()] if loaded.on_graph else list(model.coef_by_party_)
        for mine, other in zip(own, wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", MODELS)
def test_an_explanation_sums_to_the_score(name: str, fitted: Any, tmp_path: Path) -> None:
    model, rows = fitted[name]
    scores = model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)
    scores = np.log(scores) if name == "counts" else scores
    loaded = tacit.load(model.save(tmp_path / "run"))
    for told in (model.explain(rows), loaded.explain(as_loaded(name, rows))):
        np.testing.assert_allclose(sum(told.by_party.values()) + told[""]["baseline"], scores, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(told.to_frame().sum(axis=1), scores, rtol=1e-8, atol=1e-9)
    columns = {column for party, own in told.items() if party for column in own}
    assert columns == ({"x0", "x1"} if name == "array" else set(SHOP) if name == "rows by name" else set(ROWS))


def test_the_command_line_predicts_with_a_saved_model(fitted: Any, tmp_path: Path) -> None:
    model, _ = fitted["curves"]
    model.save(tmp_path / "run")
    for name, table in TABLES.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [str(tmp_path / f"{name}.csv") for name in TABLES]
    assert main(["predict", str(tmp_path / "run"), *files, "--out", str(tmp_path / "p.csv")]) == 0
    frame = pd.read_csv(tmp_path / "p.csv")
    assert frame.prediction.tolist() == model.predict(TABLES).tolist()
    assert main(["verify", str(tmp_path / "run")]) in (0, 2)  # nothing to verify: it is not private


def test_a_model_is_not_saved_over_another_unless_told(fitted: Any, tmp_path: Path) -> None:
    model, _ = fitted["lines"]
    model.save(tmp_path / "run")
    with pytest.raises(InputError, match="already holds a run"):
        model.save(tmp_path / "run")
    (tmp_path / "run" / "mine.txt").write_text("kept")
    fitted["curves"][0].save(tmp_path / "run", overwrite=True)
    loaded = tacit.load(tmp_path / "run")
    assert loaded.job.model.terms == "spline"
    assert (tmp_path / "run" / "mine.txt").read_text() == "kept"
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files and no run"):
        model.save(other, overwrite=True)


def test_what_has_no_name_is_not_saved(tmp_path: Path) -> None:
    from tacit.problem.losses.residual import Squared

    class OwnLoss(Squared):
        name = "mine"

    model = VerticalRegressor(loss=OwnLoss()).fit(SHOP.to_numpy(), SHOP.spent)
    with pytest.raises(InputError, match="a loss of your own cannot be saved"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["lines", "private", "rows", "trees"])
def test_the_page_of_a_model(name: str, fitted: Any, tmp_path: Path) -> None:
    model, _ = fitted[name]
    page = model.report(tmp_path / "page.html").read_text()
    assert html.escape(str(model.certificate_).splitlines()[1]) in page
    assert "bought" in page
    assert "tacit verify" not in page  # the folder it was made from is gone
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


@pytest.mark.parametrize("make", [Files, Nodes])
def test_a_trained_job_is_the_same_object(make: Any, tmp_path: Path) -> None:
    data = make(tmp_path)
    run = tacit.run_job(data.write(), tmp_path / "run")
    loaded = tacit.load(tmp_path / "run")
    files = {spec.name: (run.path / spec.data).resolve() for spec in run.job.parties}
    given = next(iter(files.values())) if run.on_graph else files
    out = tmp_path / "p.csv"
    named = [str(given)] if run.on_graph else [f"{name}={path}" for name, path in files.items()]
    assert main(["predict", str(tmp_path / "run"), *named, "--out", str(out)]) == 0
    predicted = loaded.predict(given)
    with out.open() as file:
        head, *lines = csv.reader(file)
    spec = run.job.parties[0]
    assert head[0] == (spec.id or "row")
    assert [line[2] for line in lines] == [str(one) for one in np.asarray(predicted).tolist()]
    assert predicted.to_frame().index.name == head[0]
    told = loaded.explain(given)
    np.testing.assert_allclose(sum(told.by_party.values()) + told[""]["baseline"], predicted.score, rtol=1e-8)
    assert loaded.report(tmp_path / "page.html").exists()
    assert accuracy_score(np.asarray(predicted), predicted) == 1.0


def test_coefficients_by_name(fitted: Any) -> None:
    coef = fitted["lines"][0].coef_by_party_
    assert coef[1] is coef["shop"]
    assert coef.to_dict()["shop"] == dict(zip(coef.columns[1], coef[1].tolist(), strict=True))
    assert "visits" in coef._repr_html_()


def test_alone_by_name() -> None:
    model = VerticalClassifier(alpha=1e-2)
    named, numbered = alone(model, "shop").fit(TABLES, Y), alone(model, 1).fit(TABLES, Y)
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
    assert named.score(TABLES, Y) == numbered.score(TABLES, Y)
    np.testing.assert_array_equal(alone(model, "party 2").fit(list(TABLES.values()), Y).coef_, named.coef_)
    with pytest.raises(InputError, match=r'there is no party "shpo" \(did you mean "shop"'):
        alone(model, "shpo").fit(TABLES, Y)


# --- notebooks and plots -------------------------------------------------------------------------------


def test_notebooks_show_models_and_certificates(fitted: Any, tmp_path: Path) -> None:
    for name in ("lines", "private", "rows", "trees"):
        model, _ = fitted[name]
        first = html.escape(str(model.certificate_).splitlines()[1])
        loaded = tacit.load(model.save(tmp_path / name))
        for shown in (model._repr_mimebundle_()["text/html"], model.certificate_._repr_html_(), loaded._repr_html_()):
            assert first in shown
            assert shown.count("<div") == shown.count("</div>")
    assert "privacy" not in VerticalClassifier()._repr_mimebundle_()["text/html"].partition("</style>")[0]
    hostile = VerticalClassifier().fit({"<script>x</script>": SHOP.to_numpy()}, Y)
    assert "<script>x" not in hostile._repr_mimebundle_()["text/html"].partition("</style>")[2]


def test_plots(fitted: Any, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    lines, rows = fitted["lines"]
    drawn = ConvergenceDisplay.from_estimator(lines)
    assert drawn.lines_["certified gap"].get_xdata()[-1] <= lines.n_rounds_
    box = ContributionDisplay.from_estimator(lines, rows)
    assert [label.get_text() for label in box.ax_.get_yticklabels()] == ["bank", "shop"]
    bars = ContributionDisplay.from_estimator(lines, rows, row=3, top=2)
    assert len(bars.ax_.patches) == 2
    assert "2 columns with less" in bars.ax_.get_title()
    told = lines.explain(rows)
    largest = max(abs(adds[3]) for party, own in told.items() if party for adds in own.values())
    assert max(abs(bar.get_width()) for bar in bars.ax_.patches) == pytest.approx(largest)
    curves = CurvesDisplay.from_estimator(fitted["curves"][0], party="shop")
    assert [ax.get_title() for ax in curves.axes_] in (["shop: visits", "shop: spent"], ["shop: spent", "shop: visits"])
    loaded = tacit.load(fitted["private"][0].save(tmp_path / "run"))
    assert len(CurvesDisplay.from_estimator(loaded, columns=["visits"]).axes_) == 1
    privacy = PrivacyDisplay.from_estimator(loaded)
    at, stated = (float(value[0]) for value in privacy.ax_.lines[-1].get_data())
    assert stated == pytest.approx(loaded.certificate.epsilon(at))
    with pytest.raises(InputError, match=r'there is no column "visit" \(did you mean "visits"'):
        CurvesDisplay.from_estimator(loaded, columns=["visit"])
    with pytest.raises(InputError, match="not differentially private"):
        PrivacyDisplay.from_estimator(lines)
    with pytest.raises(InputError, match="nobody may know"):
        ConvergenceDisplay.from_estimator(loaded)
    plt.close("all")


def test_predictions_are_an_array(fitted: Any, tmp_path: Path) -> None:
    model, rows = fitted["lines"]
    predicted = tacit.load(model.save(tmp_path / "run")).predict(rows)
    assert accuracy_score(Y, predicted) == model.score(rows, Y)
    assert len(predicted) == N
    assert predicted[0] == next(iter(predicted)) == predicted[:1][0]
    assert json.loads(predicted.to_frame().to_json())["prediction"]["1"] == predicted[0]
