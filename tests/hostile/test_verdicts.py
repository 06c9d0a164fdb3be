"""Figures and verdicts that users read: each was wrong once, and must not be again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import Privacy, VerticalClassifier
from tacit.cli.main import main
from tacit.mechanisms.gram.fit import Gain
from tacit.report import pictures
from tests.cli.conftest import Answer, Files
from tests.cli.wards import Nodes


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture[str]) -> Any:
    """The command line, in this process."""

    def call(*words: Any) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read here are words; tests/cli/test_report.py has the pictures."""
    monkeypatch.setattr(pictures, "_svg", lambda *_, **__: '<svg viewBox="0 0 1 1"></svg>')


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A bank with labels and a shop, in files."""
    return Files(tmp_path)


# --- the ids that a job names ----------------------------------------------------------------------------


def test_predictions_of_a_sample_split_keep_the_ids_of_the_file(tmp_path: Path, tacit: Any) -> None:
    """They were numbered instead, so that nobody could join them back."""
    nodes = Nodes(tmp_path)
    nodes.tables["north"]["patient"] = [f"{number:04d}" for number in range(60)][::-1]
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    said = tacit("predict", tmp_path / "run", tmp_path / "north.csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["patient"] for row in rows] == nodes.tables["north"]["patient"]


def test_explain_of_a_sample_split_finds_a_row_by_its_id(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    nodes.tables["north"]["patient"][7] = "north3"  # a patient with two rows
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    words = ("explain", tmp_path / "run", tmp_path / "north.csv")
    record = json.loads(tacit(*words, "--id", "north5", "--json").out)
    assert (record["row"], record["id"]) == (6, "north5")
    assert tacit(*words, "--id", "north5").out.startswith("patient north5\n")
    assert "2 rows have the id" in tacit(*words, "--id", "north3").err
    assert "no row has the id" in tacit(*words, "--id", "west1").err


def test_a_file_without_that_column_is_numbered(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    lines = [line.split(",", 1)[1] for line in (tmp_path / "north.csv").read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    said = tacit("predict", tmp_path / "run", tmp_path / "new.csv")
    assert said.out.startswith("row,score")
    assert "no id column" in tacit("explain", tmp_path / "run", tmp_path / "new.csv", "--id", "north1").err


# --- joint, alone, pooled: the same chance for each --------------------------------------------------------


def wide(files: Files, columns: int = 60) -> Files:
    """Columns of noise at the shop: without a penalty they are learnt by heart."""
    rng = np.random.default_rng(0)
    files.shop |= {f"noise{number}": rng.normal(size=files.rows).tolist() for number in range(columns)}
    files.job = "holdout = 0.3"
    return files


def evaluated(files: Files, tacit: Any, *options: str) -> tuple[dict[str, Any], Answer]:
    run = files.folder / "run"
    answer = tacit("train", files.write(), "--out", run, "--report", *options)
    assert answer.code == 0, answer
    return json.loads((run / "evaluation.json").read_text()), answer


def test_other_models_are_chosen_by_the_same_search(files: Files, tacit: Any) -> None:
    """They were trained with the default alpha, and pooling looked worse or better than the joint model."""
    files = wide(files)
    files.model = 'loss = "logistic"\n[search]\nalphas = [1.0, 0.1, 0.01, 0.0001]\nfolds = 4'
    record, _ = evaluated(files, tacit)
    models = {model["party"] or model["kind"]: model for model in record["models"]}
    assert models["pooled"]["alpha"] == models["joint"]["alpha"] > 1e-4
    for name, value in models["joint"]["measures"].items():
        assert models["pooled"]["measures"][name] == pytest.approx(value, rel=5e-3), "the same problem in one place"
    for party in ("bank", "shop"):
        own = Files(files.folder)
        wanted = {"bank": files.bank, "shop": files.shop | {"default": files.bank["default"]}}[party]
        assert models[party]["alpha"] == searched_alone(own, wanted, files.model, tacit)
    page = (files.folder / "run" / "report.html").read_text()
    assert "chosen by the same search" in page
    assert f"alpha = {models['joint']['alpha']:.4g}, chosen of 4 by cross-validation" in page


def searched_alone(own: Files, table: dict[str, list[Any]], model: str, tacit: Any) -> float:
    """The alpha that the party's own job takes, of the same rows with the same folds."""
    lines = [",".join(table), *(",".join(str(value) for value in row) for row in zip(*table.values(), strict=True))]
    (own.folder / "own.csv").write_text("\n".join(lines) + "\n")
    job = own.folder / "own.toml"
    job.write_text(
        f'[job]\nname = "own"\nholdout = 0.3\n[model]\n{model}\n'
        '[[party]]\nname = "own"\ndata = "own.csv"\nid = "customer"\nlabel = "default"\n'
    )
    run = own.folder / f"own{len(table)}"
    assert tacit("train", job, "--out", run, "--quiet").code == 0
    return float(json.loads((run / "search.json").read_text())["alpha"])


def test_where_a_search_would_take_too_long_the_same_alpha_is_used_and_that_is_said(
    files: Files, tacit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.run.apart.MOST_SEARCHED", 100)
    files.job, files.model = "holdout = 0.3", 'loss = "logistic"\n[search]\nalphas = [1.0, 0.1, 0.01]\nfolds = 3'
    record, _ = evaluated(files, tacit)
    assert {model["alpha"] for model in record["models"]} == {record["alpha"]}
    assert "with the alpha that the search took for the joint model" in record["notes"][0]
    page = (files.folder / "run" / "report.html").read_text()
    assert record["notes"][0] in page
    assert "chosen by the same search" not in page


def test_a_joint_model_that_loses_to_the_label_holder_is_told_first(files: Files, tacit: Any) -> None:
    """It lost, 0.197 against 0.066, and nothing said so."""
    files = wide(files)
    files.model = 'loss = "logistic"\nalpha = 1e-6'
    record, answer = evaluated(files, tacit)
    own = next(model for model in record["models"] if model["party"] == "bank")
    assert own["joint_against_it"]["difference"] > 2 * own["joint_against_it"]["error"]
    said = " ".join(answer.out.split())
    assert said.startswith("verdict the joint model is WORSE than bank alone on 36 held-out rows: log loss")
    assert "Choose the penalty by validation, with [search] in the job, or give a larger alpha than 1e-06" in said
    page = (files.folder / "run" / "report.html").read_text()
    body = page[page.index("<h1>") :]
    assert 0 < body.index("The joint model is WORSE than bank alone") < body.index("trained one model together")


def test_a_joint_model_that_wins_is_told_with_the_error_of_the_measurement(files: Files, tacit: Any) -> None:
    files.job = "holdout = 0.3"
    record, answer = evaluated(files, tacit)
    against = next(model for model in record["models"] if model["party"] == "bank")["joint_against_it"]
    said = " ".join(answer.out.split())
    assert said.startswith("verdict the joint model is better than bank alone on 36 held-out rows")
    assert f"standard error {against['error']:.2g}" in said
    assert "WORSE" not in (files.folder / "run" / "report.html").read_text()


def test_what_cannot_be_told_apart_is_no_gain(files: Files, tacit: Any) -> None:
    rng = np.random.default_rng(1)
    files.shop |= {f"s{number}": rng.normal(size=files.rows).tolist() for number in range(4)}
    files.job = "holdout = 0.3"
    _, answer = evaluated(files, tacit)
    assert " ".join(answer.out.split()).startswith("verdict the joint model and bank alone cannot be told apart on 36")


@pytest.mark.parametrize("privacy", [None, "epsilon = 3", 'epsilon = 3\nprotect = "everyone"'])
def test_without_holdout_it_is_said_that_nothing_was_compared(files: Files, tacit: Any, privacy: str | None) -> None:
    files.privacy = privacy
    if privacy and "everyone" in privacy:
        files.encode = 'scale = "none"'
    _, answer = evaluated(files, tacit)
    said = " ".join(answer.out.split())
    assert said.startswith("verdict not compared with bank alone on new rows: no rows were held out. Add holdout = 0.2")


def test_a_private_model_below_chance_is_told_as_such(files: Files, tacit: Any) -> None:
    """With protect = "everyone" and a row_norm far above the rows it was said that it "usually beats" the bank."""
    files.encode = 'scale = "none"'
    files.job, files.privacy = "holdout = 0.4", 'epsilon = 0.5\nnoise_seed = 1\nprotect = "everyone"\nrow_norm = 2000'
    record, answer = evaluated(files, tacit)
    assert record["models"][0]["measures"]["auc"] < 0.5
    said = " ".join(answer.out.split())
    assert said.startswith("verdict the joint model is WORSE than bank alone")
    assert "a row_norm nearer to the real rows" in said
    assert "not measured" not in said, "it was"


def test_a_node_whose_own_model_is_better_is_named(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path, rows=(400, 400, 400), job="holdout = 0.3", model='loss = "logistic"\nalpha = 1e-3')
    other = {"yes": "no", "no": "yes"}
    nodes.tables["north"]["ill"] = [other[label] for label in nodes.tables["north"]["ill"]]
    answer = tacit("train", nodes.write(), "--out", tmp_path / "run")
    said = " ".join(answer.out.split())
    assert said.startswith("verdict the joint model is better than the node's own at ")
    assert "WORSE at" in said.split("job wards", maxsplit=1)[0]
    assert "north" in said.split("Try a larger alpha", maxsplit=1)[0]


def test_the_same_command_gives_the_same_figures(files: Files, tacit: Any) -> None:
    files.job = "holdout = 0.3"
    records = []
    for name in ("one", "two"):
        assert tacit("train", files.write(), "--out", files.folder / name, "--quiet").code == 0
        record = json.loads((files.folder / name / "evaluation.json").read_text())
        records.append({key: value for key, value in record.items() if key != "seconds"})
    assert records[0] == records[1]


def test_a_caution_of_the_certificate_is_printed() -> None:
    from tacit.cli.summary import _cautions

    lines = ["headline", "CAUTION: epsilon = 1000 hides nothing in practice.", "Covered:"]
    assert _cautions(lines) == [("CAUTION", "epsilon = 1000 hides nothing in practice.")]


# --- worth it? --------------------------------------------------------------------------------------------

PROMISES = ("usually", "probably", "likely", "seldom")
ASKED = {
    "others": "epsilon = 3",
    "much noise": "epsilon = 0.01",
    "everyone": 'epsilon = 8\nprotect = "everyone"',
    "everyone, long": 'epsilon = 8\nprotect = "everyone"\nrow_norm = 2000',
    "refit": "epsilon = 3\nrefit = true",
    "labels": "epsilon = 3\nlabel_epsilon = 2",
}


CASES = [("logistic", asked) for asked in ASKED] + [("squared", "others"), ("squared", "much noise")]


@pytest.mark.parametrize(("loss", "asked"), CASES)
def test_a_plan_makes_no_verdict_that_nothing_measured(files: Files, tacit: Any, asked: str, loss: str) -> None:
    files.privacy, files.encode = ASKED[asked], 'scale = "none"'
    files.model = f'loss = "{loss}"\nalpha = 0.01'
    record = json.loads(tacit("plan", files.write(), "--rows", "50000", "--columns", "bank=3,shop=4", "--json").out)
    said = " ".join(record["outlook"])
    assert not [word for word in PROMISES if word in said]
    assert "not measured: whether the joint model beats bank alone" in said
    assert "holdout" in said
    checked = loss == "logistic" and asked in ("others", "much noise", "labels")
    assert ("training estimates it" in said) is checked


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_a_run_says_of_its_use_does_not_contradict_itself(files: Files, tacit: Any, asked: str) -> None:
    files.privacy, files.encode = f"{asked}\nnoise_seed = 3", 'scale = "none"'
    evaluated(files, tacit)
    outlook = json.loads((files.folder / "run" / "result.json").read_text())["outlook"]
    verdicts = [line for line in outlook if "worth it" in line or "cannot be told" in line]
    unmeasured = [line for line in outlook if line.startswith("not measured")]
    assert len(verdicts) + len(unmeasured) == 1, outlook
    assert not [word for word in PROMISES if any(word in line for line in outlook)]


@pytest.mark.parametrize("asked", ["epsilon = 4", "epsilon = 4\nlabel_epsilon = 2"], ids=["rows", "labels too"])
def test_a_measured_verdict_stands_alone(files: Files, tacit: Any, asked: str) -> None:
    """An estimate that was made of randomized labels said "worth it" beside WORSE on held-out rows."""
    files.privacy, files.encode = f"{asked}\nnoise_seed = 3", 'scale = "none"'
    files.job = f"{getattr(files, 'job', '')}\nholdout = 0.3"
    _, answer = evaluated(files, tacit)
    page = (files.folder / "run" / "report.html").read_text()
    for text in (answer.out, page):
        assert "held-out rows" in text
        assert "estimated from noisy sums" not in text
        assert "not measured" not in text


@pytest.mark.parametrize(("change", "sd"), [(-0.1, 0.01), (0.1, 0.01), (0.0, 0.01)])
def test_an_estimate_of_randomized_labels_makes_no_verdict(change: float, sd: float) -> None:
    said = Gain(0.64, change, sd).sentence("bank", randomized=True)
    assert "worth it" not in said
    assert "cannot be told from this" in said


def test_nodes_are_promised_nothing(tmp_path: Path, tacit: Any) -> None:
    for rows in ((60, 90, 50), (60000, 90000, 50000)):
        nodes = Nodes(tmp_path, privacy="epsilon = 4")
        given = ",".join(f"{name}={count}" for name, count in zip(nodes.tables, rows, strict=True))
        said = " ".join(
            json.loads(tacit("plan", nodes.write(), "--rows", given, "--columns", "4", "--json").out)["outlook"]
        )
        assert "not measured: whether the joint model beats a node's own" in said
        assert not [word for word in (*PROMISES, "hardly better") if word in said]


@pytest.mark.parametrize(("norm", "told"), [(3.0, False), (300.0, True)])
@pytest.mark.parametrize("form", [{}, {"protect": "everyone"}])
def test_a_row_norm_far_above_the_rows_is_told_from_what_was_released(
    norm: float, told: bool, form: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 6))
    y = X @ np.ones(6) + rng.logistic(size=20000) > 0
    model = VerticalClassifier(parties=2, privacy=Privacy(epsilon=4, row_norm=norm, noise_seed=1, **form)).fit(X, y)
    found = [line for line in model.outlook_ if "row_norm = 300 is more than 4 times" in line]
    assert bool(found) is told


def test_a_radius_that_noise_alone_may_have_made_tells_nothing() -> None:
    X = np.random.default_rng(0).normal(size=(300, 6))
    privacy = Privacy(epsilon=0.05, row_norm=300.0, noise_seed=1)
    model = VerticalClassifier(parties=2, privacy=privacy).fit(X, X[:, 0] > 0)
    assert not [line for line in model.outlook_ if "more than 4 times" in line]


# --- few rows and a small alpha ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "rows", "told"),
    [
        ("alpha = 1e-4", 200, True),
        ("alpha = 1e-4", 400, False),
        ("alpha = 1e-2", 200, False),
        ('penalty = "none"', 200, True),
        ("[search]\nalphas = 5", 200, False),
    ],
)
def test_a_plan_warns_of_few_rows_with_a_small_alpha(
    files: Files, tacit: Any, model: str, rows: int, told: bool
) -> None:
    files.model = f'loss = "logistic"\n{model}'
    words = ("plan", files.write(), "--rows", rows, "--columns", "bank=10,shop=20")
    said = " ".join(tacit(*words).out.split())
    assert ("worse than the label holder alone in 119 of 162 trial runs" in said) is told
    assert bool(json.loads(tacit(*words, "--json").out)["penalty"]) is told
