"""Jobs with terms = "auto": lines or curves by one search, what it costs, going on, and what privacy makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from tacit import training
from tacit.data import load
from tacit.job import SearchSpec, read_job
from tacit.problem.alphas import CURVE_ALPHAS

AUTO = 'terms = "auto"\n'
SHORT = AUTO + "[search]\nalphas = [0.1, 0.001, 0.00001]\nfolds = 3\n"


def fill(files: Any, X: Any, score: Any, seed: int = 1) -> Any:
    """Columns for both parties, every other one, and labels with these log odds."""
    y = np.where(np.random.default_rng(seed).random(len(X)) < expit(score), "yes", "no")
    ids = [f"c{number:04d}" for number in range(len(X))]
    files.bank = {"customer": ids, **{f"b{j}": X[:, j].tolist() for j in range(0, X.shape[1], 2)}, "default": y}
    files.shop = {"customer": ids, **{f"s{j}": X[:, j].tolist() for j in range(1, X.shape[1], 2)}}
    return files


@pytest.fixture
def waves(files: Any) -> Any:
    """Each column adds a wave: no line tells much."""
    X = np.random.default_rng(0).uniform(size=(500, 4))
    files.model = SHORT
    return fill(files, X, 3 * np.sin(2 * np.pi * X + np.arange(4)).sum(axis=1))


@pytest.fixture
def straight(files: Any) -> Any:
    """Two normal clouds: the log odds are linear."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    files.model = SHORT
    return fill(files, X, X @ np.full(8, 0.7))


@pytest.fixture
def credit(files: Any) -> Any:
    """Few rows, many columns that mean little: counts, codes, an amount with a long tail, and categories."""
    rng = np.random.default_rng(3)
    counts, age = rng.integers(1, 5, (300, 4)), rng.integers(18, 75, 300)
    X = np.column_stack([counts, age, np.exp(rng.normal(7, 1, 300)), rng.normal(size=(300, 4))])
    files.model = SHORT
    fill(files, X, 0.5 * (X[:, 0] - 2.5) - 0.3 * (np.log(X[:, 5]) - 7) - 0.5)
    files.shop["purpose"] = np.array(["car", "tv", "school"])[rng.integers(0, 3, 300)]
    return files


def record(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "search.json").read_text())
    return found


def model_of(run: Path, party: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "model" / f"{party}.json").read_text())
    return found


def train(files: Any, tacit: Any, name: str = "run", *words: Any) -> Path:
    out: Path = files.folder / name
    answer = tacit("train", files.write(), "--out", out, "--quiet", *words)
    assert answer.code == 0, answer
    return out


# --- which is taken --------------------------------------------------------------------------------------


def test_curves_are_taken_where_lines_tell_little(waves: Any, tacit: Any) -> None:
    found = record(train(waves, tacit))
    assert found["terms"] == "spline"
    assert found["gain"]["mean"] > 5 * found["gain"]["error"]
    assert found["alpha"] == found["curve"]["alpha"]
    assert found["losses"] == found["curve"]["losses"]
    assert found["linear"]["alphas"] == found["curve"]["alphas"] == [0.1, 0.001, 0.00001]


@pytest.mark.parametrize("which", ["straight", "credit"])
def test_lines_are_kept_where_curves_gain_nothing(which: str, tacit: Any, request: pytest.FixtureRequest) -> None:
    found = record(train(request.getfixturevalue(which), tacit))
    assert found["terms"] == "linear"
    assert found["gain"]["mean"] <= found["gain"]["error"]
    assert (found["alpha"], found["losses"]) == (found["linear"]["alpha"], found["linear"]["losses"])


@pytest.mark.parametrize("which", ["waves", "straight"])
def test_the_model_is_that_of_the_terms_and_alpha_taken(which: str, tacit: Any, request: pytest.FixtureRequest) -> None:
    files = request.getfixturevalue(which)
    out = train(files, tacit)
    found = record(out)
    files.model = f'terms = "{found["terms"]}"\nalpha = {found["alpha"]}'
    same = train(files, tacit, "same")
    assert model_of(out, "shop") == model_of(same, "shop")
    assert model_of(out, "bank") == model_of(same, "bank")


def test_each_code_is_searched_as_it_would_be_alone(waves: Any, tacit: Any) -> None:
    both = record(train(waves, tacit))
    for key, terms in (("linear", "linear"), ("curve", "spline")):
        waves.model = SHORT.replace("auto", terms)
        alone = record(train(waves, tacit, terms))
        assert alone["losses"] == both[key]["losses"]
        assert alone["traffic"] == both[key]["traffic"]
        assert "terms" not in alone


def test_columns_of_two_values_and_categories_have_no_curve(files: Any, tacit: Any) -> None:
    X = np.random.default_rng(0).integers(0, 2, (200, 4))
    fill(files, X, X @ [2.0, -2.0, 1.0, -1.0])
    files.model = SHORT
    out = files.folder / "run"
    answer = tacit("train", files.write(), "--out", out)
    assert (record(out)["terms"], record(out)["curve"]) == ("linear", None)
    assert "terms      lines: no column has a curve" in answer.out


def test_a_column_keeps_its_own_term(waves: Any, tacit: Any) -> None:
    waves.shop_keys += '\n[party.columns]\ns1 = { term = "linear" }'
    out = train(waves, tacit)
    assert record(out)["terms"] == "spline"
    kinds = {column["name"]: column["kind"] for column in model_of(out, "shop")["schema"]["columns"]}
    assert kinds == {"s1": "number", "s3": "spline"}


# --- what it costs ---------------------------------------------------------------------------------------


def test_the_cost_of_both_is_counted_and_told(waves: Any, tacit: Any) -> None:
    out = waves.folder / "run"
    answer = tacit("train", waves.write(), "--out", out)
    found = record(out)
    for key in ("rounds", "bytes_down", "bytes_up"):
        assert found["traffic"][key] == found["linear"]["traffic"][key] + found["curve"]["traffic"][key] > 0
    assert found["seconds"] == pytest.approx(found["linear"]["seconds"] + found["curve"]["seconds"])
    rounds = np.array(found["curve"]["rounds_by_fit"])
    assert found["curve"]["traffic"]["rounds"] == rounds.sum(axis=0).max()
    assert f"search     {found['traffic']['rounds']} rounds, " in answer.out
    assert "terms      curves: loss on left-out folds lower by " in answer.out
    assert f"alpha      {found['alpha']:.4g}, of 3 compared on 3 folds (best)" in answer.out
    lines = answer.out.splitlines()
    assert lines.index("lines") < lines.index("curves")
    assert sum(line.endswith("<- taken") for line in lines) == 1


def test_files_are_read_once(waves: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, whole = [], load.read_table

    def read(path: Any, **more: Any) -> Any:
        opened.append(Path(path).name)
        return whole(path, **more)

    monkeypatch.setattr(load, "read_table", read)
    train(waves, tacit)
    assert sorted(opened) == ["bank.csv", "shop.csv"]


def test_an_alpha_that_is_given_stays(waves: Any, tacit: Any) -> None:
    waves.model = AUTO + "alpha = 0.001"
    out = waves.folder / "run"
    answer = tacit("train", waves.write(), "--out", out)
    found = record(out)
    assert (found["alphas"], found["alpha"], found["folds"], found["terms"]) == ([0.001], 0.001, 5, "spline")
    assert "\nalpha " not in answer.out
    assert json.loads((out / "plan.json").read_text())["plan"]["alpha"] == 0.001


def test_without_penalty_the_terms_alone_are_searched(straight: Any, tacit: Any) -> None:
    straight.model = AUTO + 'penalty = "none"'
    found = record(train(straight, tacit))
    assert (found["terms"], len(found["alphas"])) == ("linear", 1)


# --- going on --------------------------------------------------------------------------------------------


def stopped(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped after its search."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    out: Path = files.folder / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training, "_go", stop)
        assert tacit("train", files.write(), "--out", out).code == 130
    return out


@pytest.mark.parametrize("which", ["waves", "straight"])
def test_a_run_that_goes_on_keeps_what_its_search_took(
    which: str, tacit: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    files = request.getfixturevalue(which)
    out = stopped(files, tacit, monkeypatch)

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("the search is made once, and one code is encoded")

    with monkeypatch.context() as patch:
        patch.setattr(training, "search_job", again)
        patch.setattr(training, "prepare_codes", again)
        assert tacit("train", files.write(), "--out", out, "--resume").code == 0
    undisturbed = train(files, tacit, "other")
    assert record(out)["terms"] == record(undisturbed)["terms"]
    assert model_of(out, "bank") == model_of(undisturbed, "bank")


@pytest.mark.parametrize("change", [{"terms": "linear"}, {"terms": "both"}, {"terms": None}])
def test_a_changed_choice_is_not_believed(
    waves: Any, tacit: Any, refused: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    out = stopped(waves, tacit, monkeypatch)
    kept = {key: value for key, value in {**record(out), **change}.items() if value is not None}
    (out / "search.json").write_text(json.dumps(kept))
    refused("train", waves.write(), "--out", out, "--resume")


def test_other_terms_are_another_job(waves: Any, tacit: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = stopped(waves, tacit, monkeypatch)
    waves.model = SHORT.replace("auto", "spline")
    said = refused("train", waves.write(), "--out", out, "--resume")
    assert 'model.terms is "spline", it began with "auto"' in said


# --- the keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "search"),
    [
        ('terms = "auto"', SearchSpec(CURVE_ALPHAS, None)),
        ('terms = "auto"\nalpha = 0.1', None),
        ('terms = "auto"\n[search]\nfolds = 4', SearchSpec(CURVE_ALPHAS, 4)),
        ('terms = "spline"', None),
        ('terms = "spline"\n[search]', SearchSpec(CURVE_ALPHAS, None)),
        ('terms = "spline"\n[search]\nalphas = 4', SearchSpec(4, None)),
        ('terms = "linear"\n[search]', SearchSpec(10, 5)),
    ],
)
def test_what_is_searched(files: Any, tmp_path: Path, model: str, search: SearchSpec | None) -> None:
    files.model = model
    job = read_job(files.write())
    assert job.search == search
    (tmp_path / "again.toml").write_text(job.to_toml(tmp_path))
    again = read_job(tmp_path / "again.toml")
    assert (again.search, again.model) == (job.search, job.model)


def test_fewer_folds_where_there_are_many_rows() -> None:
    assert [SearchSpec(CURVE_ALPHAS, None).folds_of(rows) for rows in (19_999, 20_000)] == [5, 3]
    assert SearchSpec(folds=7).folds_of(10**6) == 7


def test_plan_says_what_will_be_searched(waves: Any, tacit: Any) -> None:
    waves.model = AUTO
    job = waves.write()
    said = " ".join(tacit("plan", job).out.split())
    assert "search 11 alphas on 5 folds for lines and for curves before the last fit, which with curves is" in said
    assert "where their loss on left-out folds is lower by over one standard error" in said
    planned = json.loads(tacit("plan", job, "--json").out)["search"]
    assert (planned["terms"], len(planned["alphas"]), planned["folds"]) == (["linear", "spline"], 11, None)
    waves.model = AUTO + "alpha = 0.01"
    assert "search      alpha = 0.01 on 5 folds for lines and for curves" in tacit("plan", waves.write()).out


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ('split = "samples"', 'model.terms = "auto" chooses curves by a search, which split = "samples" does not have'),
        ('engine = "flare"', 'model.terms = "auto" chooses curves by a search, which engine = "flare" does not have'),
        ('memory = "1GB"', 'memory does not go with terms = "auto": leave one of them out'),
    ],
)
def test_refuses_where_nothing_can_choose(files: Any, refused: Any, job: str, reason: str) -> None:
    files.model, files.job = AUTO, job
    assert reason in refused("train", files.write(), "--out", files.folder / "run")


def test_audit_takes_one_model(files: Any, refused: Any) -> None:
    files.model = AUTO
    assert 'tacit audit takes one model: write terms = "linear" or "spline"' in refused("audit", files.write())


# --- models to compare with ------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["waves", "straight"])
def test_other_models_have_the_same_code_and_their_own_search(
    which: str, tacit: Any, request: pytest.FixtureRequest
) -> None:
    files = request.getfixturevalue(which)
    files.job = "holdout = 0.3"
    out = train(files, tacit)
    found = json.loads((out / "evaluation.json").read_text())
    width = {name: len(model_of(out, name)["columns"]) for name in ("bank", "shop")}
    joint, bank, shop, pooled = found["models"]
    assert [model["columns"] for model in (bank, shop)] == [width["bank"], width["shop"]]
    assert joint["columns"] == pooled["columns"] == sum(width.values())
    assert all(model["alpha"] in (0.1, 0.001, 0.00001) for model in found["models"])
    assert found["searched"]
    assert pooled["measures"]["log_loss"] == pytest.approx(joint["measures"]["log_loss"], rel=1e-3)
    assert (width["bank"] > len(files.bank)) == (which == "waves")


# --- with privacy ----------------------------------------------------------------------------------------

EVERY_RANGE = "[party.columns]\ns1 = { low = 0, high = 1 }\ns3 = { low = 0, high = 1 }"
ONE_RANGE = "[party.columns]\ns1 = { low = 0, high = 1 }"


def test_protected_numbers_with_ranges_are_curves(waves: Any, tacit: Any) -> None:
    waves.model, waves.privacy = AUTO, "epsilon = 4\nnoise_seed = 1"
    waves.shop_keys += "\n" + EVERY_RANGE
    out = waves.folder / "run"
    answer = tacit("train", waves.write(), "--out", out)
    assert answer.code == 0
    assert "are lines" not in answer.err
    kinds = {name: {c["kind"] for c in model_of(out, name)["schema"]["columns"]} for name in ("bank", "shop")}
    assert kinds == {"bank": {"spline"}, "shop": {"fourier"}}  # nobody protects the label holder's rows here
    assert not (out / "search.json").exists()
    waves.model = 'terms = "spline"'
    assert model_of(train(waves, tacit, "same"), "shop") == model_of(out, "shop")


def test_protected_numbers_without_a_range_are_lines_and_it_is_said(waves: Any, tacit: Any) -> None:
    waves.model, waves.privacy = AUTO, "epsilon = 4\nnoise_seed = 1"
    waves.shop_keys += "\n" + ONE_RANGE
    out = waves.folder / "run"
    answer = tacit("train", waves.write(), "--out", out)
    assert answer.code == 0
    assert "shop: its numbers are lines" in answer.err
    assert 'give low and high to "s3"' in answer.err
    kinds = {name: {c["kind"] for c in model_of(out, name)["schema"]["columns"]} for name in ("bank", "shop")}
    assert kinds == {"bank": {"spline"}, "shop": {"number"}}
    said = " ".join(tacit("plan", waves.folder / "credit.toml").out.split())
    assert "shop: its numbers are lines" in said


def test_where_labels_alone_are_protected_auto_is_lines(waves: Any, tacit: Any) -> None:
    waves.model, waves.privacy = AUTO, 'epsilon = "none"\nlabel_epsilon = 2\nnoise_seed = 1'
    out = waves.folder / "run"
    answer = tacit("train", waves.write(), "--out", out)
    assert answer.code == 0
    assert "to choose takes the labels" in answer.err
    assert {c["kind"] for c in model_of(out, "shop")["schema"]["columns"]} == {"number"}
