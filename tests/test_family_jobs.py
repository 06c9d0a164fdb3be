"""Jobs with families, offsets, exposure, weights, class weights, costs and penalties, against the estimators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import VerticalClassifier, VerticalRegressor
from tacit.cli.main import main
from tacit.errors import InputError
from tacit.job import read_job

ROWS = 120
BANK, SHOP = ["a", "b"], ["c", "d", "e"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a bank with labels and a shop, and of two nodes with all columns."""
    path, rng = tmp_path_factory.mktemp("families"), np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(ROWS, 5)), columns=[*BANK, *SHOP])
    days, weight, offset = rng.uniform(0.5, 3.0, ROWS), rng.uniform(0.5, 2.0, ROWS), rng.normal(0, 0.3, ROWS)
    mean = days * np.exp(0.3 + table @ [0.4, -0.3, 0.2, 0.0, 0.3] + offset)
    table["claims"] = rng.poisson(mean * rng.gamma(2.0, 0.5, ROWS))
    table["cost"] = rng.gamma(2.0, mean / 2) + 0.01
    table["paid"] = np.where(table["claims"] > 2, "no", "yes")
    table = table.assign(days=days, weight=weight, base=offset, id=np.arange(ROWS))
    more = ["id", "claims", "cost", "paid", "days", "weight", "base"]
    table[[*more, *BANK]].to_csv(path / "bank.csv", index=False)
    table[["id", *SHOP]].sample(frac=1, random_state=0).to_csv(path / "shop.csv", index=False)
    table[:70].to_csv(path / "north.csv", index=False)
    table[70:].to_csv(path / "south.csv", index=False)
    table.to_pickle(path / "all.pkl")
    return path


def job_text(model: str, holder: str, top: str = "", features: str = "") -> str:
    return f"""
[job]
tol = 1e-13
rounds = 500
{top}
[model]
alpha = 0.01
{model}
[encode]
scale = "none"
{features}
[[party]]
name = "bank"
data = "bank.csv"
id = "id"
features = ["a", "b"]
{holder}
[[party]]
name = "shop"
data = "shop.csv"
id = "id"
"""


def nodes_text(model: str, of_each: str) -> str:
    parties = "".join(
        f'\n[[party]]\nname = "{name}"\ndata = "{name}.csv"\nid = "id"\nfeatures = ["a", "b", "c", "d", "e"]\n{of_each}'
        for name in ("north", "south")
    )
    return f"""
[job]
split = "samples"
[model]
alpha = 0.01
{model}
[encode]
scale = "none"
[graph]
kind = "ring"
{parties}
"""


def trained(folder: Path, name: str, text: str) -> Any:
    (folder / f"{name}.toml").write_text(text)
    return tacit.run_job(folder / f"{name}.toml", folder / "runs" / name, note=lambda _: None)


def coefficients(run: Any) -> np.ndarray:
    return np.concatenate([list(own.values()) for own in run.coef.values()])


def data(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_pickle(folder / "all.pkl")
    return table, table[[*BANK, *SHOP]].to_numpy()


EXTRAS = 'exposure = "days"\noffset = "base"\nweight = "weight"'
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    ('loss = "poisson"', "claims", {"loss": "poisson"}),
    ('loss = "gamma"', "cost", {"loss": "gamma"}),
    ('loss = "tweedie"\npower = 1.7', "cost", {"loss": "tweedie", "power": 1.7}),
    ('loss = "negative_binomial"\ndispersion = 0.4', "claims", {"loss": "negative_binomial", "dispersion": 0.4}),
    ('loss = "negative_binomial"\ndispersion = "estimate"', "claims", {"loss": "negative_binomial"}),
]


@pytest.mark.parametrize(("model", "label", "asked"), MODELS, ids=[asked["loss"] for _, _, asked in MODELS])
def test_a_job_of_a_family_equals_the_estimator(folder: Path, model: str, label: str, asked: dict[str, Any]) -> None:
    table, X = data(folder)
    given = {"sample_weight": table["weight"], "exposure": table["days"], "offset": table["base"]}
    peer = VerticalRegressor(**asked, alpha=0.01, parties=[2, 3], tol=1e-13, max_rounds=500).fit(
        X, table[label], **given
    )
    means = peer.predict(X, offset=table["base"], exposure=table["days"])
    name = asked["loss"] + str(asked.get("dispersion", ""))
    run = trained(folder, f"features-{name}", job_text(model, f'label = "{label}"\n{EXTRAS}'))
    np.testing.assert_allclose(coefficients(run), peer.coef_, atol=1e-6)
    assert run.intercept == pytest.approx(peer.intercept_, abs=1e-6)
    said = run.predict([folder / "bank.csv", folder / "shop.csv"])
    np.testing.assert_allclose(said.prediction, means, rtol=1e-5)
    nodes = trained(folder, f"samples-{name}", nodes_text(model, f'label = "{label}"\n{EXTRAS}'))
    np.testing.assert_allclose(coefficients(nodes), peer.coef_, atol=1e-6)
    said = nodes.predict(folder / "north.csv")
    np.testing.assert_allclose(said.prediction, means[:70], rtol=1e-5)


def test_a_quantile_job_equals_the_estimator(folder: Path) -> None:
    table, X = data(folder)
    text = 'loss = "quantile"\nquantile = 0.8\npenalty = "elastic_net"\nl1_ratio = 0.9'
    run = trained(folder, "quantile", job_text(text, 'label = "cost"', "holdout = 0.25").replace("1e-13", "1e-9"))
    assert json.loads((folder / "runs/quantile/plan.json").read_text())["plan"]["loss_settings"] == {"quantile": 0.8}
    found = run.evaluation["models"][0]["measures"]
    assert 0.6 < found["coverage"] < 1.0
    penalty = tacit.problem.regularizers.ElasticNet(0.9)
    plain = trained(folder, "quantile-all", job_text(text, 'label = "cost"').replace("1e-13", "1e-9"))
    peer = VerticalRegressor("quantile", penalty, 0.01, [2, 3], tol=1e-9, max_rounds=500, quantile=0.8)
    peer.fit(X, table["cost"])
    np.testing.assert_allclose(coefficients(plain), peer.coef_, atol=1e-6)


def test_class_weights_and_weights_of_a_job_equal_the_estimator(folder: Path) -> None:
    table, X = data(folder)
    for name, written, asked in (("balanced", '"balanced"', "balanced"), ("table", "{ yes = 3 }", {"yes": 3.0})):
        peer = VerticalClassifier(class_weight=asked, alpha=0.01, parties=[2, 3], tol=1e-13, max_rounds=500)
        peer.fit(X, table["paid"], sample_weight=table["weight"])
        of_label = 'label = "paid"\nweight = "weight"'
        run = trained(folder, f"class-{name}", job_text(f"class_weight = {written}", of_label))
        np.testing.assert_allclose(coefficients(run), peer.coef_[0], atol=1e-6)
        nodes = trained(folder, f"class-nodes-{name}", nodes_text(f"class_weight = {written}", of_label))
        np.testing.assert_allclose(coefficients(nodes), peer.coef_[0], atol=1e-6)


def test_the_threshold_of_costs_is_kept_with_the_model(folder: Path) -> None:
    text = job_text("costs = { false_positive = 1, false_negative = 4 }", 'label = "paid"')
    run = trained(folder, "costs", text)
    assert json.loads((folder / "runs/costs/model/joint.json").read_text())["threshold"] == pytest.approx(0.2)
    said = run.predict([folder / "bank.csv", folder / "shop.csv"])
    np.testing.assert_array_equal(np.array(said.prediction) == "yes", said.probability > 0.2)
    assert read_job(folder / "runs/costs/job.toml").model.costs == {"false_positive": 1.0, "false_negative": 4.0}


def test_new_rows_without_the_exposure_are_predicted_for_exposure_1(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(folder, "exposed", job_text('loss = "poisson"', 'label = "claims"\nexposure = "days"'))
    pd.read_csv(folder / "bank.csv").drop(columns="days").to_csv(folder / "bank-new.csv", index=False)
    files = [str(folder / "bank.csv"), str(folder / "shop.csv")]
    run = str(folder / "runs/exposed")
    assert main(["predict", run, *files]) == 0
    known = capsys.readouterr()
    assert main(["predict", run, str(folder / "bank-new.csv"), files[1]]) == 0
    plain = capsys.readouterr()
    assert "has no column 'days': scores are of exposure 1" in plain.err.replace('"', "'")
    rates = [pd.read_csv(pd.io.common.StringIO(one.out))["prediction"] for one in (known, plain)]
    np.testing.assert_allclose(rates[0], rates[1] * data(folder)[0]["days"], rtol=1e-9)
    assert main(["explain", run, *files, "--id", "3", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    parts = record["constant"] + sum(party["adds"] for party in record["parties"])
    assert record["score"] == pytest.approx(parts, rel=1e-12)


def test_the_report_of_an_offset_job_is_written(folder: Path) -> None:
    text = job_text('loss = "gamma"', 'label = "cost"\nexposure = "days"', "holdout = 0.25")
    run = trained(folder, "held", text)
    kinds = {one["kind"]: one["measures"]["gamma_deviance"] for one in run.evaluation["models"]}
    assert kinds["joint"] == pytest.approx(kinds["pooled"], rel=1e-4)
    assert main(["report", str(folder / "runs/held"), "--out", str(folder / "held.html")]) == 0
    assert "mean gamma deviance" in (folder / "held.html").read_text()


BAD: list[tuple[str, str, str]] = [
    (
        'loss = "tweedie"\npower = 2.0',
        'label = "cost"',
        "model.power = 2.0 is not allowed: it must be",
    ),
    ('loss = "poisson"\npower = 1.5', 'label = "claims"', "power is for loss='tweedie'"),
    ('loss = "quantile"\nquantile = 1', 'label = "cost"', "model.quantile = 1 is not allowed"),
    ('loss = "negative_binomial"\ndispersion = 0', 'label = "claims"', 'a number above 0, or "estimate"'),
    ('loss = "squared"', 'label = "cost"\nexposure = "days"', "exposure is for losses with log link"),
    ('loss = "squared"\nclass_weight = "balanced"', 'label = "cost"', "model.class_weight is for two classes"),
    ("costs = { false_positive = 1 }", 'label = "paid"', "model.costs .* is not allowed"),
    ("costs = { false_positive = 1, false_negative = 2 }\nclass_weight = 'balanced'", 'label = "paid"', "costs twice"),
    ("l1_ratio = 0.5", 'label = "paid"', "model.l1_ratio is for penalty"),
    ("", 'label = "paid"\nweight = "paid"', "is both label and weight"),
    ("", 'label = "paid"\nweight = "a"', "the weight .a. is among its features"),
    ("", 'label = "paid"\nweight = "nope"', "nope"),
    ("", 'label = "paid"\nweight = "zero"', "the weight .zero. is 0 in row 3: it must be a number above 0"),
    ('loss = "poisson"', 'label = "claims"\nexposure = "zero"', "the exposure .zero. is 0 in row 3"),
    ('loss = "gamma"', 'label = "zero"', "loss='gamma' needs labels above 0: found 0"),
    ("[privacy]\nepsilon = 1.0", 'label = "paid"\nweight = "weight"', "not available with privacy"),
    ('classes = 3\nclass_weight = "balanced"', 'label = "claims"', "class_weight does not go with model.classes = 3"),
    ("classes = 3", 'label = "claims"\noffset = "days"', "offset does not go with model.classes = 3"),
    (
        "classes = 3\ncosts = { false_positive = 1, false_negative = 2 }",
        'label = "claims"',
        "costs does not go with model.classes = 3",
    ),
    ('kind = "trees"\nclass_weight = "balanced"', 'label = "paid"', "model.class_weight is not for trees"),
]


@pytest.mark.parametrize(("model", "holder", "match"), BAD)
def test_what_does_not_fit_is_one_line(folder: Path, model: str, holder: str, match: str) -> None:
    table = pd.read_csv(folder / "bank.csv")
    table.assign(zero=np.where(np.arange(ROWS) == 2, 0.0, 1.0)).to_csv(folder / "zero.csv", index=False)
    text = job_text(model, holder).replace("bank.csv", "zero.csv")
    if "trees" in model:
        text = text.replace("alpha = 0.01\n", "").replace('[encode]\nscale = "none"', "")
    with pytest.raises(InputError, match=match) as caught:
        trained(folder, "bad", text)
    assert "\n" not in str(caught.value)


def test_who_has_no_label_has_no_weights_either(folder: Path) -> None:
    text = job_text("", 'label = "paid"').replace('data = "shop.csv"', 'data = "shop.csv"\nweight = "c"')
    with pytest.raises(InputError, match=r"has weight = .* and no label: the party with the label says it"):
        trained(folder, "bad", text)
    text = nodes_text("", 'label = "paid"').replace('data = "south.csv"', 'data = "south.csv"\noffset = "base"')
    with pytest.raises(InputError, match="some parties have offset = a column and some have not"):
        trained(folder, "bad", text)


# --- evaluated, summed up, saved ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["poisson", "negative_binomial", "tweedie"])
def test_evaluating_new_rows_takes_their_exposure_in(folder: Path, loss: str) -> None:
    holder = 'label = "claims"\nexposure = "days"\noffset = "base"'
    run = trained(folder, f"evaluated-{loss}", job_text(f'loss = "{loss}"', holder))
    files = {"bank": folder / "bank.csv", "shop": folder / "shop.csv"}
    found, rows = run.evaluate(files), run.predict(files)
    truth = pd.read_csv(folder / "bank.csv").set_index("id").loc[list(rows.ids), "claims"].to_numpy()
    assert found.measures["mae"] == pytest.approx(np.abs(np.exp(rows.score) - truth).mean())
    assert np.allclose(run.explain(files).to_frame().sum(axis=1), rows.score)
    name = "deviance" if loss == "poisson" else f"{loss}_deviance"
    assert found.measures[name] > 0
    assert name in found.intervals
    assert name in str(found.record())


def test_files_of_held_out_rows_have_exposure_too(folder: Path) -> None:
    for name in ("bank", "shop"):
        table = pd.read_csv(folder / f"{name}.csv")
        table[table["id"] < 80].to_csv(folder / f"{name}-old.csv", index=False)
        table[table["id"] >= 80].to_csv(folder / f"{name}-new.csv", index=False)
    text = job_text('loss = "poisson"', 'label = "claims"\nexposure = "days"\nholdout_data = "bank-new.csv"')
    text = text.replace('"bank.csv"', '"bank-old.csv"').replace('"shop.csv"', '"shop-old.csv"')
    run = trained(folder, "held-files", text + 'holdout_data = "shop-new.csv"\n')
    again = run.evaluate({"bank": folder / "bank-new.csv", "shop": folder / "shop-new.csv"})
    assert run.evaluation["models"][0]["measures"]["mae"] == pytest.approx(again.measures["mae"])


@pytest.mark.parametrize(
    ("model", "holder"),
    [
        ('loss = "poisson"', 'label = "claims"\nexposure = "days"'),
        ('loss = "squared"', 'label = "cost"\nweight = "weight"'),
        ('loss = "logistic"\nclass_weight = "balanced"', 'label = "paid"'),
        ('loss = "gamma"', 'label = "cost"'),
        ('loss = "squared"\npenalty = "group_lasso"', 'label = "cost"'),
    ],
)
def test_standard_errors_that_there_are_not_are_refused(folder: Path, tmp_path: Path, model: str, holder: str) -> None:
    run = trained(folder, tmp_path.name, job_text(model, holder))
    with pytest.raises(InputError, match="there are no standard errors for") as caught:
        run.summary()
    assert "\n" not in str(caught.value)


def test_a_saved_estimator_keeps_the_numbers_of_its_loss(folder: Path, tmp_path: Path) -> None:
    table, _ = data(folder)
    blocks, y = {"bank": table[BANK], "shop": table[SHOP]}, table["claims"]
    model = VerticalRegressor(loss="negative_binomial").fit(blocks, y, exposure=table["days"])
    back = tacit.load(model.save(tmp_path / "run"))
    assert back.job.model.dispersion == pytest.approx(model.dispersion_)
    assert np.allclose(back.predict(blocks).prediction, model.predict(blocks))
    with pytest.raises(InputError, match="there are no standard errors for rows with offset"):
        model.summary()
    paid = VerticalClassifier(costs={"false_positive": 1, "false_negative": 5}, class_weight=None)
    paid.fit(blocks, table["paid"])
    assert (tacit.load(paid.save(tmp_path / "paid")).predict(blocks).prediction == paid.predict(blocks)).all()
