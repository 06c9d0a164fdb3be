"""Jobs of the sample split: train, go on, predict, plan, verify, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import HorizontalClassifier, HorizontalRegressor
from tests.cli.wards import NAMES, Nodes

COMMAND = [sys.executable, "-m", "tacit.cli.main"]


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def joint(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "model" / "joint.json").read_text()))


def trained_in_python(nodes: Nodes, **settings: Any) -> HorizontalClassifier:
    blocks, labels = [nodes.rows_of(name) for name in NAMES], [np.array(nodes.tables[name]["ill"]) for name in NAMES]
    return HorizontalClassifier(alpha=0.01, graph="ring", random_state=0, **settings).fit(blocks, labels)


# --- train and predict -------------------------------------------------------------------------------


def test_model_is_that_of_the_estimator(nodes: Nodes, tacit: Any) -> None:
    nodes.encode = 'scale = "none"'
    nodes.tables["east"] = dict(reversed(nodes.tables["east"].items()))  # columns are matched by name
    out = nodes.folder / "run"
    answer = tacit("train", nodes.write(), "--out", out)
    assert (answer.code, answer.err) == (0, "")
    model = trained_in_python(nodes)
    assert joint(out)["columns"] == ["x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(joint(out)["coef"], model.coef_[0], rtol=1e-9)
    np.testing.assert_allclose(joint(out)["constant"], model.intercept_[0], rtol=1e-9)
    for name, coef in zip(NAMES, model.coef_by_party_, strict=True):
        np.testing.assert_allclose(json.loads((out / "model" / f"{name}.json").read_text())["coef"], coef, rtol=1e-9)
    assert "200 (north 60, east 90, south 50)" in answer.out
    assert "NOT differentially private" in answer.out
    assert not {"checkpoint.npz", "data.json"} & {path.name for path in out.iterdir()}


def test_predict_takes_one_file_and_the_printed_command_works(nodes: Nodes, tacit: Any) -> None:
    nodes.encode = 'scale = "none"'
    answer = tacit("train", nodes.write(), "--out", nodes.folder / "run")
    words = answer.out.splitlines()[-1].split()
    predicted = tacit(*words[1:])
    rows = list(csv.DictReader(io.StringIO(predicted.out)))
    model = trained_in_python(nodes)
    np.testing.assert_allclose(
        [float(row["score"]) for row in rows], model.decision_function(nodes.rows_of("north")), rtol=1e-9
    )
    assert [row["prediction"] for row in rows] == model.predict(nodes.rows_of("north")).tolist()
    (nodes.folder / "new.csv").write_text("x3,x2,x1,x0\n0,0,0,9\n")  # no id, no label
    assert tacit("predict", nodes.folder / "run", nodes.folder / "new.csv").out.splitlines()[1].split(",")[2] == "yes"


def test_predict_refuses_two_files_and_missing_columns(nodes: Nodes, tacit: Any, refused: Any) -> None:
    tacit("train", nodes.write(), "--out", nodes.folder / "run", "--quiet")
    north = nodes.folder / "north.csv"
    assert "2 data files for 1 party" in refused("predict", nodes.folder / "run", north, north)
    (nodes.folder / "new.csv").write_text("x0,x1,x2\n1,2,3\n")
    assert 'has no column "x3"' in refused("predict", nodes.folder / "run", nodes.folder / "new.csv")


def test_regression(nodes: Nodes, tacit: Any) -> None:
    nodes.model, nodes.encode = 'loss = "squared"\nalpha = 0.01', 'scale = "none"'
    for name in NAMES:
        nodes.tables[name]["ill"] = (nodes.rows_of(name) @ np.arange(4.0)).tolist()
    assert tacit("train", nodes.write(), "--out", nodes.folder / "run").code == 0
    blocks, labels = [nodes.rows_of(name) for name in NAMES], [np.array(nodes.tables[name]["ill"]) for name in NAMES]
    model = HorizontalRegressor(alpha=0.01, graph="ring", random_state=0).fit(blocks, labels)
    np.testing.assert_allclose(joint(nodes.folder / "run")["coef"], model.coef_, rtol=1e-9)


def test_libsvm_files_of_different_width(nodes: Nodes, tacit: Any) -> None:
    nodes.ending, nodes.label = ".svm", 'label = "label"'
    path = nodes.write()
    path.write_text(path.read_text().replace('id = "patient"\n', ""))
    for name in NAMES:
        width = 3 if name == "north" else 4
        lines = [
            f"{1 if y == 'yes' else -1} " + " ".join(f"{j + 1}:{x:.6f}" for j, x in enumerate(row[:width]))
            for row, y in zip(nodes.rows_of(name), nodes.tables[name]["ill"], strict=True)
        ]
        (nodes.folder / f"{name}.svm").write_text("\n".join(lines) + "\n")
    answer = tacit("train", path, "--out", nodes.folder / "run")
    assert answer.code == 0, answer
    assert joint(nodes.folder / "run")["columns"] == ["1", "2", "3", "4"]


def test_a_killed_run_goes_on_to_the_same_model(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy = "epsilon = 5\nnoise_seed = 3"
    nodes.model = 'alpha = 0.01\nmethod = "primal"'
    job, one, two = nodes.write(), nodes.folder / "one", nodes.folder / "two"
    assert tacit("train", job, "--out", one, "--quiet").code == 0
    words = ["train", str(job), "--out", str(two), "--quiet", "--checkpoint-every", "0"]
    killed = False
    for _ in range(5):
        process = subprocess.Popen([*COMMAND, *words, *(["--resume"] if two.exists() else [])])
        while process.poll() is None and not (two / "checkpoint.npz").exists():
            time.sleep(0.001)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed = True
        process.wait()
        if (two / "result.json").exists() or killed:
            break
    if not killed:
        pytest.skip("the run was over before it could be killed")
    answer = tacit("train", job, "--out", two, "--resume")
    assert answer.code == 0, answer
    assert joint(one) == joint(two)
    assert (one / "certificate.json").read_text() == (two / "certificate.json").read_text()


def test_resume_repeats_every_round_and_refuses_another_graph(
    nodes: Nodes, tacit: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tacit.run.graph import GraphRun

    job, one, two = nodes.write(), nodes.folder / "one", nodes.folder / "two"
    assert tacit("train", job, "--out", one, "--quiet").code == 0
    exchange = GraphRun.exchange

    def stop(self: GraphRun) -> Any:
        if self.state.rounds == 4:
            raise KeyboardInterrupt
        return exchange(self)

    monkeypatch.setattr(GraphRun, "exchange", stop)
    assert tacit("train", job, "--out", two, "--quiet", "--checkpoint-every", 0).code == 130
    monkeypatch.undo()
    nodes.graph = 'kind = "star"'
    assert 'graph.kind is "star", it began with "ring"' in refused("train", nodes.write(), "--out", two, "--resume")
    nodes.graph = 'kind = "ring"'
    before = nodes.tables["east"]["ill"][0]
    nodes.tables["east"]["ill"][0] = "no" if before == "yes" else "yes"
    assert "the labels are not those it began with" in refused("train", nodes.write(), "--out", two, "--resume")
    nodes.tables["east"]["ill"][0] = before
    answer = tacit("train", nodes.write(), "--out", two, "--resume")
    assert "continuing after round 4" in answer.out
    np.testing.assert_allclose(joint(one)["coef"], joint(two)["coef"], rtol=1e-12)


def test_private_job_is_certified_and_verified(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy, nodes.model = "epsilon = 4\ndelta = 1e-6", 'alpha = 0.01\nmethod = "dual"'
    answer = tacit("train", nodes.write(), "--out", nodes.folder / "run")
    assert answer.code == 0, answer
    assert "each record of north, epsilon" in answer.out
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    assert certificate["private"]
    assert certificate["epsilon"] <= 4
    assert certificate["versions"]["tacit"]
    assert {claim["party"] for claim in certificate["claims"]} == set(NAMES)
    verdict = tacit("verify", nodes.folder / "run")
    assert (verdict.code, "The certificate agrees" in verdict.out) == (0, True)
    assert json.loads((nodes.folder / "run" / "result.json").read_text())["objective"] == "nan"


def test_privacy_alone_is_answered_by_the_default_method(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy = "epsilon = 3"
    planned = json.loads(tacit("plan", nodes.write(), "--json").out)
    assert planned["mechanism"] == "gaussian"
    assert {item["party"] for item in planned["noise"]} == set(NAMES)
    answer = tacit("train", nodes.write(), "--out", nodes.folder / "run")
    assert answer.code == 0, answer
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    assert certificate["epsilon"] <= 3
    assert certificate["epsilon"] == planned["epsilon"]
    assert tacit("verify", nodes.folder / "run").code == 0
    assert tacit("predict", nodes.folder / "run", nodes.folder / "north.csv").code == 0


def test_masks_on_a_star(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy, nodes.graph, nodes.job = "epsilon = 3", 'kind = "star"', "secure_aggregation = true"
    answer = tacit("train", nodes.write(), "--out", nodes.folder / "run")
    assert answer.code == 0, answer
    assert tacit("verify", nodes.folder / "run").code == 0


# --- labels that came randomized ---------------------------------------------------------------------


def randomize(nodes: Nodes, tacit: Any, epsilon: float) -> Path:
    nodes.write()
    for name in NAMES:
        path = nodes.folder / f"{name}.csv"
        path.with_suffix(".randomized.csv").unlink(missing_ok=True)
        assert tacit("randomize", path, "--label", "ill", "--epsilon", epsilon).code == 0
    nodes.ending = ".randomized.csv"
    return nodes.write()


def test_randomized_labels_train_with_their_loss_and_are_certified(nodes: Nodes, tacit: Any) -> None:
    nodes.job, nodes.encode = "tol = 1e-8", 'scale = "none"'
    answer = tacit("train", randomize(nodes, tacit, 2), "--out", nodes.folder / "run")
    assert (answer.code, answer.err) == (0, ""), answer
    assert "randomized by the contributors" in answer.out
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    assert (certificate["private"], certificate["unit"], certificate["epsilon"]) == (True, "label", 2.0)
    assert any("before the data reached any node" in text for text in certificate["assumptions"])
    assert tacit("verify", nodes.folder / "run").code == 0
    # The gradient of the unbiased loss is zero there.
    rows: list[dict[str, str]] = []
    for name in NAMES:
        with open(nodes.folder / f"{name}.randomized.csv", newline="") as file:
            rows += list(csv.DictReader(file))
    X = np.array([[float(row[f"x{j}"]) for j in range(4)] for row in rows])
    y = np.array([1.0 if row["ill"] == "yes" else -1.0 for row in rows])
    coef, constant = np.array(joint(nodes.folder / "run")["coef"]), joint(nodes.folder / "run")["constant"]
    slope = -y / (1 + np.exp(y * (X @ coef + constant))) - y / (np.exp(2.0) - 1)
    gradient = [*(X.T @ slope / len(y) + 0.01 * coef), slope.mean()]
    assert np.abs(gradient).max() < 1e-4


def test_epsilons_are_no_feature_and_resume_knows_them(nodes: Nodes, tacit: Any) -> None:
    nodes.encode = 'scale = "none"'
    tacit("train", randomize(nodes, tacit, 30), "--out", nodes.folder / "run", "--quiet")
    assert joint(nodes.folder / "run")["columns"] == ["x0", "x1", "x2", "x3"]
    assert joint(nodes.folder / "run")["loss"] == "logistic"
    # At epsilon 30 no label is flipped and the loss is the plain one.
    np.testing.assert_allclose(joint(nodes.folder / "run")["coef"], trained_in_python(nodes).coef_[0], rtol=1e-6)


def test_with_privacy_pdml_takes_them_as_they_are(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy, nodes.model = "epsilon = 10", "alpha = 0.1"
    answer = tacit("train", randomize(nodes, tacit, 1), "--out", nodes.folder / "run")
    assert answer.code == 0, answer
    plan = json.loads((nodes.folder / "run" / "plan.json").read_text())["plan"]
    assert (plan["method"], plan["label_epsilons"]["east"]) == ("pdml", [1.0, 1.0])
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    assert {claim["unit"] for claim in certificate["claims"]} == {"label", "record"}
    assert any("before the data reached any node" in text for text in certificate["assumptions"])
    assert not any("its software does so for them" in text for text in certificate["assumptions"])
    assert tacit("verify", nodes.folder / "run").code == 0


def test_some_randomized_and_some_not_is_refused(nodes: Nodes, tacit: Any, refused: Any) -> None:
    path = randomize(nodes, tacit, 1)
    path.write_text(path.read_text().replace("east.randomized.csv", "east.csv"))
    line = refused("train", path, "--out", nodes.folder / "run")
    assert 'wards.toml: the labels of party "north" were randomized beforehand, those of party "east" were not' in line


@pytest.mark.parametrize(
    ("model", "privacy", "expected"),
    [
        ('loss = "squared_hinge"', None, "use 'logistic'"),
        ('penalty = "none"', None, "it has no lower bound"),
        ('method = "dual"', "epsilon = 1", "does not fit labels that were randomized beforehand"),
        ('method = "pdml"', "epsilon = 1\nlabel_epsilon = 1", "would randomize labels a second time"),
    ],
)
def test_what_does_not_fit_randomized_labels(
    nodes: Nodes, tacit: Any, refused: Any, model: str, privacy: str | None, expected: str
) -> None:
    nodes.model, nodes.privacy = model, privacy
    assert expected in refused("train", randomize(nodes, tacit, 1), "--out", nodes.folder / "run")


def test_another_column_was_randomized(nodes: Nodes, refused: Any) -> None:
    nodes.tables["north"]["rich_randomized_epsilon"] = [1.0] * 60
    line = refused("train", nodes.write(), "--out", nodes.folder / "run")
    assert 'says that "rich" was randomized, but the label is "ill"' in line


# --- refusals ----------------------------------------------------------------------------------------


def drop(name: str, column: str) -> Any:
    return lambda nodes: nodes.tables[name].pop(column)


def put(key: str, value: Any) -> Any:
    return lambda nodes: setattr(nodes, key, value)


def no_rows(nodes: Nodes) -> None:
    nodes.tables["south"] = {column: [] for column in nodes.tables["south"]}


def numbers_as_labels(nodes: Nodes) -> None:
    nodes.tables["south"]["ill"] = [k % 2 for k in range(50)]


PAIR = '[["north", "east"]]'
REFUSALS = [
    (put("graph", None), 'split = "samples" needs [graph]'),
    (put("graph", ""), "[graph] is empty"),
    (put("graph", f'kind = "ring"\nedges = {PAIR}'), "[graph] has both kind and edges"),
    (put("graph", 'kind = "rong"'), 'graph.kind = "rong" is not allowed'),
    (put("graph", 'edges = [["north", "wset"]]'), 'graph.edges names "wset", which is no party'),
    (put("graph", 'edges = [["north", "eats"]]'), 'graph.edges names "eats" (did you mean "east"?)'),
    (put("graph", f"edges = {PAIR}"), "graph.edges: node 'south' has no neighbour"),
    (put("graph", 'edges = [["north", "north"]]'), "graph.edges: the edge from 'north' to itself"),
    (put("graph", 'edges = ["north"]'), "graph.edges = ['north'] is not allowed: it must be a list of pairs"),
    (put("label", ""), 'party "north" has no label'),
    (put("label", 'label = "sick"'), 'party "north" has no column "sick"'),
    (put("model", 'method = "memory"'), 'model.method = "memory" is not for split = "samples"'),
    (put("model", 'penalty = "l1"'), "penalty='l1' is not available in the sample split"),
    (put("job", "secure_aggregation = true"), "secure_aggregation=True is for mechanism="),
    (drop("east", "x2"), 'party "east" has no feature column "x2", which party "north" has'),
    (drop("north", "x2"), 'party "north" has no feature column "x2", which party "east" has'),
    (no_rows, 'party "south": '),
    (numbers_as_labels, 'the labels of party "north" are text'),
]


@pytest.mark.parametrize(("change", "expected"), REFUSALS)
def test_refusals(nodes: Nodes, refused: Any, change: Any, expected: str) -> None:
    change(nodes)
    line = refused("train", nodes.write(), "--out", nodes.folder / "run")
    assert line.startswith("tacit: error: wards.toml: ")
    assert expected in line
    assert not (nodes.folder / "run" / "plan.json").exists()


def test_a_graph_in_two_parts(nodes: Nodes, refused: Any) -> None:
    nodes.tables["west"] = nodes.tables["north"]
    nodes.graph = 'edges = [["north", "east"], ["south", "west"]]'
    assert "graph.edges: the graph falls into 2 parts" in refused("plan", nodes.write())


def test_a_job_of_the_sample_split_is_audited(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy = "epsilon = 1"
    answer = tacit("audit", nodes.write(), "--pairs", "5", "--runs", "40", "--seed", "1", "--quiet")
    assert answer.code == 0
    assert "replayed" in answer.out
    assert "No violation of a claim was found." in answer.out


# --- plan --------------------------------------------------------------------------------------------


def test_plan_says_the_same_from_files_and_options(nodes: Nodes, tacit: Any) -> None:
    nodes.privacy, nodes.model = "epsilon = 4", 'alpha = 0.01\nmethod = "pdml"\n'
    nodes.privacy += "\nlabel_epsilon = 2"
    job = nodes.write()
    seen = json.loads(tacit("plan", job, "--json").out)
    told = json.loads(tacit("plan", job, "--rows", "north=60,east=90,south=50", "--columns", 4, "--json").out)
    assert seen["sizes"].pop("opened") == list(NAMES)
    assert told["sizes"].pop("opened") == []
    assert [len(sizes.pop("encoding")) for sizes in (seen["sizes"], told["sizes"])] == [1, 0]
    assert seen == told
    assert seen["rows_by_party"] == {"north": 60, "east": 90, "south": 50}
    assert seen["rounds"] == {"most": 20, "fixed": True}
    models = [item for item in seen["noise"] if item["release"] == "model"]
    assert [item["party"] for item in models] == list(NAMES)
    assert all(item["times"] == 20 and item["last_deviation"] < item["deviation"] for item in models)
    assert all(claim["epsilon"] <= 4 for claim in seen["claims"])


@pytest.mark.parametrize(
    ("method", "graph", "job"),
    [
        ("primal", "ring", ""),
        ("pdml", "complete", ""),
        ("gaussian", "ring", ""),
        ("gaussian", "star", "secure_aggregation = true"),
    ],
)
def test_planned_traffic_is_what_is_sent(nodes: Nodes, tacit: Any, method: str, graph: str, job: str) -> None:
    nodes.privacy, nodes.model = "epsilon = 4", f'alpha = 0.01\nmethod = "{method}"'
    nodes.privacy += "\nlabel_epsilon = 2" if method == "pdml" else ""
    nodes.graph, nodes.job = f'kind = "{graph}"', job
    path = nodes.write()
    planned = json.loads(tacit("plan", path, "--json").out)["traffic"]
    assert (planned["of"], planned["exact"]) == ("run", True)
    assert tacit("train", path, "--out", nodes.folder / "run", "--quiet").code == 0
    assert json.loads((nodes.folder / "run" / "result.json").read_text())["traffic"]["bytes"] == planned["bytes"]


def test_plan_in_words(nodes: Nodes, tacit: Any) -> None:
    out = tacit("plan", nodes.write()).out
    assert "north 60 rows, east 90 rows, south 50 rows; 4 columns" in out
    assert "3 nodes, 3 edges" in out
    assert "until all nodes agree to stop, at most 1000" in out
    assert "NOT differentially private" in out
    nodes.privacy, nodes.model = "epsilon = 4", 'alpha = 0.01\nmethod = "dual"'
    out = tacit("plan", nodes.write()).out
    assert "each record of south: epsilon" in out


def test_plan_knows_randomized_labels(nodes: Nodes, tacit: Any) -> None:
    out = tacit("plan", randomize(nodes, tacit, 1.5)).out
    assert "each label of east: epsilon 1.5 at delta 0" in out
    assert "label epsilons count as public" in out


def test_plan_wants_all_sizes_or_none(nodes: Nodes, refused: Any) -> None:
    assert "both --rows and --columns" in refused("plan", nodes.write(), "--rows", 10)
    assert "says nothing about party" in refused("plan", nodes.write(), "--rows", "north=10", "--columns", 4)
    assert "same columns" in refused("plan", nodes.write(), "--rows", 10, "--columns", "north=3,east=4,south=4")
