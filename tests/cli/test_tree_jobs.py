"""Jobs of boosted trees: from the job file to predictions, explanations and the page; and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit as package
from tacit.cli.main import main
from tacit.columns.raw import RawEncoder, RawTable
from tacit.errors import InputError
from tacit.job import read_job
from tacit.job.file import parse_job
from tacit.job.trees import TREE_LOSSES, TreesSection
from tacit.run import folder as run_folder
from tacit.run.folder import RunFolder
from tacit.run.own_scores import read_own_scores
from tacit.run.predict import load_model, load_part, load_rows, predict
from tacit.run.prepare import prepare
from tacit.run.result import SavedTrees, TreePart
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import make_loss

JOB = """[job]
name = "credit"
{job}
[model]
kind = "trees"
{model}
{sections}
[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "{label}"
{bank}
[[party]]
name = "shop"
data = "shop.csv"
id = "customer"
{shop}
"""


def write(folder: Path, rows: int = 500, **parts: str) -> Path:
    """Two parties with text, dates, blanks and rows in another order; the job with these parts."""
    rng = np.random.default_rng(3)
    ids = [f"c{number:05d}" for number in range(rows)]
    age, visits = rng.integers(18, 90, rows), rng.poisson(4, rows)
    since = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)
    city = rng.choice(["Basel", "Bern", "Chur"], rows)
    score = 2.0 * (age < 40) * (since > np.datetime64("2019-01-01")) + 1.5 * (city == "Bern") + 0.2 * visits - 1.8
    score = score + 0.6 * rng.normal(size=rows)
    cells = ["" if rng.random() < 0.1 else str(value) for value in visits]
    label, amount = np.where(score > 0, "yes", "no"), np.exp(score / 2).round(4)
    grade = np.array(["low", "middle", "high"])[np.digitize(score, [-0.4, 0.6])]
    lines = zip(ids, age, since, label, amount, grade, strict=True)
    (folder / "bank.csv").write_text(table("customer,age,since,default,amount,grade", lines))
    lines = [(ids[row], city[row], cells[row], row % 7) for row in rng.permutation(rows)]
    (folder / "shop.csv").write_text(table("customer,city,visits,zip", lines))
    usual = {"job": "holdout = 0.25", "model": "", "sections": "", "label": "default", "bank": "", "shop": ""}
    usual["bank"] = 'features = ["age", "since"]'
    path = folder / "credit.toml"
    path.write_text(JOB.format(**(usual | parts)))
    return path


def table(head: str, rows: Any) -> str:
    return head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that was trained; files beside the run."""
    folder = tmp_path_factory.mktemp("trees")
    assert main(["train", str(write(folder)), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder


# --- the job file ---------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_solver_and_a_job_is_read_back(tmp_path: Path) -> None:
    settings = TreeSettings(make_loss("logistic"))
    assert {key: getattr(settings, key) for key in asdict(TreesSection())} == asdict(TreesSection())
    for name in TREE_LOSSES:
        assert make_loss(name).name == name
    job = read_job(
        write(
            tmp_path,
            sections="[trees]\nmax_depth = 4\nmin_gain_se = 2.5",
            shop='columns = { zip = { kind = "category" } }',
        )
    )
    assert (job.rounds, job.tol) == (15, settings.tol)
    assert job.trees == TreesSection(max_depth=4, min_gain_se=2.5)
    again = parse_job(job.to_toml(), "credit")
    assert (again.trees, again.model, again.parties) == (job.trees, job.model, job.parties)
    assert "penalty" not in job.to_toml()


SOFTMAX = 'loss = "softmax"\nclasses = 3'
REFUSED = [
    ({"model": "alpha = 0.1"}, "model.alpha is not for trees: they have l2_regularization in [trees]; remove it"),
    ({"model": 'penalty = "l1"'}, "model.penalty is not for trees"),
    ({"model": 'terms = "spline"'}, "model.terms is not for trees: they bend by themselves; remove it"),
    ({"model": "rho = 1.0"}, "model.rho is not for trees"),
    ({"model": 'method = "memory"'}, "model.method is not for trees"),
    ({"model": 'loss = "hinge"'}, 'model.loss = "hinge" is not for trees: choose one of "logistic", "softmax"'),
    ({"model": "quantile = 0.9"}, 'model.quantile is for loss = "quantile"'),
    ({"model": 'loss = "quantile"\nquantile = 1.0'}, "model.quantile = 1.0 is not allowed: it must be"),
    ({"model": 'loss = "softmax"'}, 'loss = "softmax" needs classes = how many labels there are'),
    ({"model": "classes = 3"}, 'model.classes is for loss = "softmax"'),
    ({"label": "grade"}, 'write loss = "softmax" and classes = 3 under [model], or join them into two'),
    ({"model": SOFTMAX.replace("3", "4"), "label": "grade"}, "the labels have 3 classes"),
    ({"model": SOFTMAX, "label": "grade", "sections": "[privacy]\nepsilon = 1"}, "privacy does not fit loss='softmax'"),
    ({"sections": "[search]\nalphas = 3"}, "[search] does not go with trees: there is no alpha to choose"),
    ({"sections": '[encode]\nscale = "none"'}, "encode.scale is not for trees: they take columns as they are"),
    ({"sections": "[trees]\nlearning_rate = 0"}, "trees.learning_rate = 0 is not allowed"),
    ({"sections": "[trees]\nleaves = 3"}, 'unknown key "trees.leaves"'),
    ({"job": 'split = "samples"'}, 'trees need parties with different columns of the same rows, and split = "samples"'),
    ({"job": "secure_aggregation = true"}, "secure_aggregation=True needs at least 3 parties, not 2"),
    ({"job": 'memory = "2GB"'}, "memory does not go with trees, which are grown on rows in memory: leave memory out"),
    ({"shop": "columns = { zip = { low = 0, high = 9 } }"}, 'low of column "zip" is not for trees'),
    ({"shop": 'columns = { zipp = { kind = "category" } }'}, 'columns names "zipp"'),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_what_does_not_go_with_trees_is_refused_in_one_line(parts: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        prepare(read_job(write(tmp_path, rows=40, **parts)))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_keys_of_trees_are_refused_in_a_linear_job(tmp_path: Path) -> None:
    path = write(tmp_path, rows=20, sections="[trees]\nmax_depth = 3")
    path.write_text(path.read_text().replace('kind = "trees"', ""))
    with pytest.raises(InputError, match=r'\[trees\] is for kind = "trees"'):
        read_job(path)


@pytest.mark.parametrize("option", [("--memory", "2GB"), ("--dask", "tcp://127.0.0.1:1")])
def test_options_that_trees_do_not_have_are_refused(option: tuple[str, str], tmp_path: Path, tacit: Any) -> None:
    answer = tacit("train", write(tmp_path, rows=40), "--out", tmp_path / "run", *option)
    assert answer.code == 2
    assert "trees" in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


# --- columns --------------------------------------------------------------------------------------------


def test_columns_come_as_they_are_and_stated_kinds_are_respected(tmp_path: Path) -> None:
    shop = 'columns = { zip = { kind = "category" }, city = { values = ["Bern", "Chur"] } }'
    found = prepare(read_job(write(tmp_path, shop=shop)))
    bank, own = (shard.features for shard in found.shards)
    assert bank.columns == ("age", "since")
    assert bank.categorical == ()
    assert np.nanmin(bank.values[:, 1]) >= (np.datetime64("2015-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert own.columns == ("city", "visits", "zip")
    assert own.categorical == (0, 2)
    assert 0.2 < np.isnan(own.values[:, 0]).mean() < 0.5  # Basel is not among the values: blank
    assert 0.02 < np.isnan(own.values[:, 1]).mean() < 0.25
    assert found.raw["shop"].columns[2].categories == tuple("0123456")
    assert found.held is not None
    assert found.held.shards[1].features.shape == (125, 3)


def test_rounds_that_are_too_few_are_remarked(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="had not stopped falling after 1 rounds"):
        package.run_job(write(tmp_path, rows=200, job="rounds = 1"), tmp_path / "run")


def test_text_that_is_a_number_but_for_a_slip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    lines = [line.split(",") for line in (tmp_path / "bank.csv").read_text().splitlines()]
    lines[5][1] = "4O"
    (tmp_path / "bank.csv").write_text(table(",".join(lines[0]), lines[1:]))
    with pytest.raises(InputError, match=r'column "age" holds numbers.* as text: fix the file'):
        prepare(read_job(path))


# --- a whole run ----------------------------------------------------------------------------------------


def test_plan_says_what_is_run_sent_and_revealed(tmp_path: Path, tacit: Any) -> None:
    out = tacit("plan", write(tmp_path)).out
    assert "boosted trees, without noise; in each round a party grows 10, 20 and then 30 trees" in " ".join(out.split())
    assert "at most 15" in out
    assert "about shop 1.27 kB down, 1.5 kB up; in each round" in out
    assert "NOT differentially private" in out
    assert "the labels of the fitted rows: they are sent to every party as they are" in out
    record = json.loads(tacit("plan", tmp_path / "credit.toml", "--json").out)
    assert (record["method"], record["private"], record["epsilon"]) == ("trees", False, "infinity")


def test_the_folder_holds_trees_as_text_and_what_was_measured(trained: Path, tacit: Any) -> None:
    run = trained / "run"
    assert {path.name for path in (run / "model").iterdir()} == {
        "bank.json", "bank.txt", "shop.json", "shop.txt", "joint.json",
    }  # fmt: skip
    assert (run / "model" / "shop.txt").read_text().startswith("tree\nversion=v4\n")
    certificate = (run / "certificate.txt").read_text()
    assert "NOT differentially private" in certificate
    assert "the saved parts of the model of bank, shop" in certificate
    assert tacit("verify", run).code == 0
    history = json.loads((run / "result.json").read_text())["boosting"]
    assert history["held_out"][-1] < 0.8 * history["held_out"][0]
    assert len(history["steps"]) == len((run / "trace.jsonl").read_text().splitlines())
    models = json.loads((run / "evaluation.json").read_text())["models"]
    assert [(one["kind"], one["party"]) for one in models] == [
        ("joint", ""), ("alone", "bank"), ("alone", "shop"), ("pooled", ""),
    ]  # fmt: skip
    joint, bank, shop, _ = (one["measures"]["auc"] for one in models)
    assert joint > max(bank, shop) + 0.05


def test_one_party_alone_and_few_rows_are_trained_to_the_end(tmp_path: Path, tacit: Any) -> None:
    path = write(tmp_path, rows=60)
    text = path.read_text()
    path.write_text(text[: text.index('[[party]]\nname = "shop"')])
    for place, own in enumerate((path.read_text(), text)):
        path.write_text(own)
        answer = tacit("train", path, "--out", tmp_path / f"run-{place}", "--report")
        assert answer.code == 0, answer.err
        assert json.loads((tmp_path / f"run-{place}" / "result.json").read_text())["boosting"]["parties"][0] == "bank"


def test_a_model_without_trees_is_said_to_be_one(tmp_path: Path, tacit: Any) -> None:
    answer = tacit("train", write(tmp_path, rows=10), "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "no trees were kept, so every row gets the same prediction: 8 rows told nothing" in answer.err
    assert "bank nothing, shop nothing" in answer.out


def test_predictions_from_files_and_frames_are_the_same_and_follow_the_model(trained: Path, tacit: Any) -> None:
    files = [trained / "bank.csv", trained / "shop.csv"]
    rows = list(csv.DictReader(io.StringIO(tacit("predict", trained / "run", *files).out)))
    saved = package.load(trained / "run")
    again = saved.predict(files)
    assert [row[again.id_column] for row in rows] == list(again.ids)
    np.testing.assert_array_equal([float(row["score"]) for row in rows], again.score)
    np.testing.assert_allclose([float(row["probability"]) for row in rows], 1 / (1 + np.exp(-again.score)))
    assert {row["prediction"] for row in rows} == {"yes", "no"}
    pandas = pytest.importorskip("pandas")
    frames = {name: pandas.read_csv(trained / f"{name}.csv") for name in ("shop", "bank")}
    frames["bank"]["since"] = pandas.to_datetime(frames["bank"]["since"])
    np.testing.assert_array_equal(saved.predict(frames).score, again.score)
    with pytest.raises(InputError, match="a model of trees has no coefficients"):
        saved.coef  # noqa: B018


def test_unknown_categories_are_blank_with_a_remark_and_a_missing_column_is_refused(
    trained: Path, tmp_path: Path, tacit: Any
) -> None:
    lines = (trained / "shop.csv").read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], lines[1].replace(lines[1].split(",")[1], "Oslo"), lines[2]]))
    (tmp_path / "blank.csv").write_text("\n".join([lines[0], lines[1].replace(lines[1].split(",")[1], ""), lines[2]]))
    new, blank = (
        tacit("predict", trained / "run", trained / "bank.csv", tmp_path / f"{name}.csv") for name in ("new", "blank")
    )
    assert '1 row holds none of the model\'s 3 categories (such as "Oslo"): taken as blank' in new.err
    assert new.out == blank.out
    (tmp_path / "less.csv").write_text("customer,city\nc00001,Bern\n")
    answer = tacit("predict", trained / "run", trained / "bank.csv", tmp_path / "less.csv")
    assert answer.code == 2
    assert '"visits"' in answer.err
    assert answer.err.count("\n") == 1


def test_shares_of_columns_and_parties_add_up_to_the_score(trained: Path, tacit: Any) -> None:
    files = [trained / "bank.csv", trained / "shop.csv"]
    for row in (1, 77):
        for party in ("bank", "shop"):
            record = json.loads(tacit("explain", trained / "run", *files, "--row", row, "--party", party, "--json").out)
            added = record["constant"] + sum(one["adds"] for one in record["parties"])
            assert math.isclose(added, record["score"], abs_tol=1e-12)
            view, own = record["view"], {one["party"]: one["adds"] for one in record["parties"]}[party]
            columns = sum(one["adds"] for one in view["columns"]) + view["own_constant"]
            assert math.isclose(columns, own, abs_tol=1e-9)
    words = {one["column"]: one["words"] for one in view["columns"]}
    assert words["city"].startswith('city = "')
    assert tacit("curves", trained / "run").err.count("a model of trees has no curves") == 1


def test_the_page_shows_losses_parties_columns_and_what_is_revealed(trained: Path, tacit: Any) -> None:
    assert tacit("report", trained / "run").code == 0
    page = (trained / "run" / "report.html").read_text()
    for said in (
        "Loss by round",
        "Columns that matter most",
        "What each party adds to a score",
        "What this run revealed",
    ):
        assert said in page
    importance = json.loads((trained / "run" / "evaluation.json").read_text())["importance"]
    assert importance["shop"]["city"] > importance["shop"]["zip"]
    assert tacit("report", trained / "run", "--party", "bank").code == 2


def test_a_party_scores_its_own_rows_and_counts_an_unknown_id_as_average(trained: Path) -> None:
    file = trained / "run" / "model" / "shop.json"
    own = read_own_scores(file, trained / "shop.csv")
    part, _, _ = load_part(file)
    saved = package.load(trained / "run")
    rows = load_rows(saved.model, [trained / "bank.csv", trained / "shop.csv"])
    found, unknown = own.of([*rows.ids.tolist(), "nobody"])
    assert unknown == 1
    np.testing.assert_array_equal(found[:-1], part.score(rows.shards[1].features))
    base = part.contributions(rows.shards[1].features)[:, -1]
    np.testing.assert_allclose(found[-1], base, rtol=0, atol=1e-9)  # LightGBM's own mean over the fitted rows
    assert own.part.endswith((trained / "run" / "model" / "shop.txt").read_bytes())


def test_a_party_that_is_away_cannot_stand_as_average(trained: Path, tacit: Any) -> None:
    words = ("ask", trained / "run", "--data", trained / "bank.csv", "--from", "shop=http://127.0.0.1:9")
    answer = tacit(*words, "--degrade")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "the average of trees is not" in answer.err
    assert "nobody is there; ask again later" in tacit(*words).err


def test_an_audit_measures_what_the_answers_reveal(trained: Path, tacit: Any, tmp_path: Path) -> None:
    first, again = (
        tacit("audit", trained / "credit.toml", "--quiet", "--seed", 1, "--out", tmp_path / "audit") for _ in range(2)
    )
    assert first.code == 0, first
    assert first.out == again.out
    assert "This run is NOT differentially private: epsilon is infinite." in first.out
    assert "No privacy is claimed, so nothing could be broken." in first.out
    said = " ".join(first.out.split())
    assert "city of shop: guessed not covered AUC 0." in said
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    labels, *cells = found["findings"]
    assert labels["found"] == "319 of 375 labels, as they are, go to every party"
    assert [one["details"]["column"] for one in cells] == ["city", "visits", "zip"]
    assert [one["details"]["measure"] for one in cells] == ["AUC", "R2", "R2"]
    city = cells[0]["details"]
    assert city["with_answers"] > city["without_answers"] + 0.1
    assert (city["rows_known"], city["rows_guessed"]) == (38, 337)
    assert found["broken"] is False


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("shop.txt", lambda text: text.replace("left_child=", "left_child=9 ", 1)),
        ("shop.txt", lambda text: text[: len(text) // 2]),
        ("shop.txt", lambda text: "ü" + text),
        ("shop.json", lambda text: text.replace('"trees": ', '"trees": 1')),
        ("shop.json", lambda text: text.replace('"kind": "trees"', '"kind": "forest"')),
        ("shop.json", lambda text: text.replace('"offset": 0.0', '"offset": "far"')),
        ("shop.json", lambda text: text.replace('"name": "city"', '"name": 3')),
        ("joint.json", lambda text: text.replace('"kind": "trees",', "")),
        ("joint.json", lambda text: text.replace('"loss": "logistic"', '"loss": "hinge"')),
        ("shop.txt", None),
    ],
)
def test_a_damaged_part_is_refused_in_one_line(
    trained: Path, tmp_path: Path, file: str, change: Any, tacit: Any
) -> None:
    import shutil

    shutil.copytree(trained / "run", tmp_path / "run")
    path = tmp_path / "run" / "model" / file
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))
    answer = tacit("predict", tmp_path / "run", trained / "bank.csv", trained / "shop.csv")
    assert answer.code == 2
    assert answer.err.startswith("tacit: ")
    assert answer.err.count("\n") == 1
    assert "cannot use" in answer.err


def test_a_part_keeps_what_its_trees_add_beside_private_parts(trained: Path, tmp_path: Path) -> None:
    part, id_, encoder = load_part(trained / "run" / "model" / "shop.json")
    assert isinstance(part, TreePart)
    assert isinstance(encoder, RawEncoder)
    moved = replace(part, offset=0.5, bend=0.25)
    RunFolder(tmp_path).write_part(SavedTrees(moved, id_, encoder))
    again, _, _ = load_part(tmp_path / "model" / "shop.json")
    rows = RawTable("shop", part.columns, np.array([[0.0, 3.0, 1.0], [2.0, np.nan, 5.0]]), encoder.categorical)
    np.testing.assert_array_equal(again.score(rows), moved.score(rows))
    assert not np.allclose(again.score(rows), part.score(rows))


@pytest.mark.parametrize("seed", range(3))
def test_damaged_bytes_of_trees_are_refused_or_still_trees(trained: Path, tmp_path: Path, seed: int) -> None:
    """Whatever one byte of a text becomes: an error of ours, or trees that score every row."""
    import shutil

    shutil.copytree(trained / "run", tmp_path / "run")
    path, rng = tmp_path / "run" / "model" / "shop.txt", np.random.default_rng(seed)
    whole, refused = path.read_bytes(), list[str]()
    for _ in range(12):
        changed = bytearray(whole)
        changed[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(bytes(changed))
        try:
            model = load_model(tmp_path / "run")
            scores = predict(model, load_rows(model, [trained / "bank.csv", trained / "shop.csv"])).score
            assert scores.shape == (500,)
        except InputError as error:
            refused.append(str(error))
    assert refused
    assert not any("\n" in line for line in refused)


LOSSES = [
    ('loss = "squared"', "r2"),
    ('loss = "poisson"', "deviance"),
    ('loss = "gamma"', "gamma_deviance"),
    ('loss = "quantile"\nquantile = 0.9', "pinball"),
]


@pytest.mark.parametrize(("model", "measure"), LOSSES, ids=[measure for _, measure in LOSSES])
def test_numbers_are_predicted_by_every_loss(model: str, measure: str, tmp_path: Path) -> None:
    job = write(tmp_path, rows=300, model=model, label="amount", job="rounds = 3\nholdout = 0.3")
    run = package.run_job(job, tmp_path / "run", note=lambda remark: None)  # 3 rounds are few
    assert run.evaluation is not None
    joint, bank = (one["measures"] for one in run.evaluation["models"][:2])
    assert joint[measure] > bank[measure] if measure == "r2" else joint[measure] < bank[measure]
    found = np.array(run.predict([tmp_path / "bank.csv", tmp_path / "shop.csv"]).prediction)
    rows = csv.DictReader((tmp_path / "bank.csv").read_text().splitlines())
    labels = np.array([float(row["amount"]) for row in rows])  # in the order of ids, as predictions are
    if measure == "pinball":
        assert 0.75 < np.mean(labels <= found) < 0.99
    else:
        assert np.corrcoef(found, labels)[0, 1] > 0.7


def test_more_than_two_classes_are_trained_predicted_and_shown(tmp_path: Path, tacit: Any) -> None:
    job = write(
        tmp_path, rows=300, model='loss = "softmax"\nclasses = 3', label="grade", job="rounds = 3\nholdout = 0.3"
    )
    run, files = tmp_path / "run", [tmp_path / "bank.csv", tmp_path / "shop.csv"]
    assert tacit("train", job, "--out", run, "--report").code == 0
    saved = package.load(run)
    joint, bank = (one["measures"] for one in saved.evaluation["models"][:2])
    assert joint["log_loss"] < bank["log_loss"]
    rows = list(csv.DictReader(io.StringIO(tacit("predict", run, *files).out)))
    found = saved.predict(files)
    assert found.classes == ("high", "low", "middle")
    assert [row["prediction"] for row in rows] == found.prediction
    shares = np.array([[float(row[f"probability {name}"]) for name in found.classes] for row in rows])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares.argmax(axis=1), [found.classes.index(one) for one in found.prediction])
    truth = [row["grade"] for row in csv.DictReader((tmp_path / "bank.csv").read_text().splitlines())]
    assert np.mean(np.array(truth) == np.array(found.prediction)) > 0.6
    page = (run / "report.html").read_text()
    assert "3 classes" in page
    assert "A row has 3 scores, one of each class." in page
    said = (run / "certificate.txt").read_text()
    assert "each asked row discloses 3 scores per party, one of each class" in " ".join(said.split())
    assert "add to the scores (3 for each row, one of each class) of each of 210 rows" in " ".join(said.split())
    _check_explanations(rows[6], saved.model, [run, *files, "--row", 7, "--party", "shop"], tacit)
    own = read_own_scores(run / "model" / "shop.json", tmp_path / "shop.csv")
    assert own.scores.shape == (301, 3)
    np.testing.assert_array_equal(own.of(["nobody"])[0][0], load_part(run / "model" / "shop.json")[0].average)
    text = (run / "model" / "joint.json").read_text()
    record = json.loads(text)
    (run / "model" / "joint.json").write_text(json.dumps(record | {"constant": record["constant"][:2]}))
    answer = tacit("predict", run, *files)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "not one number for each of 3 classes" in answer.err


def _check_explanations(row: dict[str, str], model: Any, words: list[Any], tacit: Any) -> None:
    """Of each class the parts sum to its score; that of the predicted class is taken apart where none is named."""
    for label in (*model.classes, None):
        which = [] if label is None else ["--class", label]
        record = json.loads(tacit("explain", *words, *which, "--json").out)
        shown = row["prediction"] if label is None else label
        assert (record["class"], record["prediction"]) == (shown, row["prediction"])
        assert f"score of {shown} " in tacit("explain", *words, *which).out
        total = record["constant"] + sum(one["adds"] for one in record["parties"])
        assert total == pytest.approx(float(row[f"score {shown}"]), abs=1e-12) == record["score"]
        assert record["probability"] == pytest.approx(float(row[f"probability {shown}"]), abs=1e-12)
        view = record["view"]
        columns = sum(one["adds"] for one in view["columns"]) + view["own_constant"]
        assert columns == pytest.approx(record["parties"][1]["adds"], abs=1e-9)
    answer = tacit("explain", *words, "--class", "hihg")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert 'there is no class "hihg" (did you mean "high"?): the classes are' in answer.err


# --- going on -------------------------------------------------------------------------------------------

LONG = "holdout = 0.1\nrounds = 12\ntol = 0"


def texts(run: Path) -> list[str]:
    return [(run / "model" / f"{name}.txt").read_text() for name in ("bank", "shop")]


def test_a_killed_run_goes_on_to_the_same_trees(tmp_path: Path, tacit: Any) -> None:
    path = write(tmp_path, rows=3000, job=LONG, sections="[trees]\nn_iter_no_change = 20\nmax_leaf_nodes = 31")
    command = [
        sys.executable,
        "-m",
        "tacit.cli.main",
        "train",
        path,
        "--out",
        tmp_path / "killed",
        "--checkpoint-every",
        "0",
    ]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    trace = tmp_path / "killed" / "trace.jsonl"
    try:
        while not (trace.exists() and trace.read_text().count("\n") >= 3):
            assert process.poll() is None, "it was over before it could be killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "result.json").exists()
    assert (tmp_path / "killed" / "checkpoint.npz").exists()
    answer = tacit("train", path, "--out", tmp_path / "killed", "--resume")
    assert answer.code == 0, answer.err
    assert "continuing after round" in answer.out
    assert tacit("train", path, "--out", tmp_path / "whole", "--quiet").code == 0
    assert texts(tmp_path / "killed") == texts(tmp_path / "whole")
    results = [json.loads((tmp_path / name / "result.json").read_text())["boosting"] for name in ("killed", "whole")]
    assert results[0] == results[1]


def test_a_run_does_not_go_on_with_other_data_settings_or_lightgbm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, rows=120, job="rounds = 2")
    begun = prepare(read_job(path))
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.begin(begun)
    folder.begin(prepare(read_job(path)))  # the same
    with pytest.raises(InputError, match=r"trees.max_leaf_nodes is 8, it began with 15"):
        folder.begin(
            prepare(read_job(write(tmp_path, rows=120, job="rounds = 2", sections="[trees]\nmax_leaf_nodes = 8")))
        )
    write(tmp_path, rows=120, job="rounds = 2")
    with monkeypatch.context() as other:
        other.setattr(run_folder, "lightgbm_version", lambda: "9.9.9")
        with pytest.raises(InputError, match=r'LightGBM is "9\.9\.9" here, and it began with "\d+\.\d+') as caught:
            folder.begin(prepare(read_job(path)))
        assert "\n" not in str(caught.value)
    record = json.loads((folder.path / "plan.json").read_text())
    assert record["versions"].pop("lightgbm")
    (folder.path / "plan.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="and it began with an unknown version; undo that, or choose another --out"):
        folder.begin(prepare(read_job(path)))
    folder = RunFolder(tmp_path / "again")
    folder.path.mkdir()
    folder.begin(begun)
    text = (tmp_path / "shop.csv").read_text().replace("Bern", "Chur", 1)
    (tmp_path / "shop.csv").write_text(text)
    with pytest.raises(InputError, match='the data of party "shop" are not those it began with'):
        folder.begin(prepare(read_job(path)))
