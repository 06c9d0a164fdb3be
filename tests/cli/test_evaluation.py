"""evaluation.json: figures of rows that were held out, what a private run may know, and that it costs little."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from tacit import VerticalClassifier
from tacit.job import read_job
from tacit.report.verdict import verdict
from tacit.run import apart, evaluation
from tacit.run.graph import GraphRun
from tacit.run.prepare import labels_by_node, prepare
from tacit.run.star import Run
from tests.cli.test_samples import Nodes


def trained(files: Any, tacit: Any, *options: str) -> tuple[dict[str, Any], Any]:
    out = files.folder / "run"
    answer = tacit("train", files.write(), "--out", out, *options)
    assert answer.code == 0, answer
    return dict(json.loads((out / "evaluation.json").read_text())), answer


def by_kind(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {model["party"] or model["kind"]: model["measures"] for model in record["models"]}


def test_figures_are_those_of_models_that_have_not_seen_the_rows(files: Any, tacit: Any) -> None:
    files.job, files.encode = "holdout = 0.25", 'scale = "none"'
    record, answer = trained(files, tacit)
    assert record["rows"] == {"trained": 90, "held_out": 30, "evaluated": 30}
    assert record["held_out"]
    begun = prepare(read_job(files.folder / "credit.toml"))
    held = {tuple(row) for row in begun.held.shards[0].features.tolist()}
    aside = np.array([tuple(row) in held for row in files.X[:, :3].tolist()])
    assert aside.sum() == 30
    X, y = files.X, files.y == "yes"
    for name, columns in (
        ("joint", slice(0, 7)),
        ("bank", slice(0, 3)),
        ("shop", slice(3, 7)),
        ("pooled", slice(0, 7)),
    ):
        model = VerticalClassifier(alpha=0.01, parties=1, tol=1e-8).fit(X[~aside, columns], y[~aside])
        found = by_kind(record)[name]
        assert found["auc"] == pytest.approx(
            roc_auc_score(y[aside], model.decision_function(X[aside, columns])), abs=5e-3
        )
        expected = log_loss(y[aside], model.predict_proba(X[aside, columns]))
        assert found["log_loss"] == pytest.approx(expected, rel=2e-2)
    assert "30 of them held out, 90 trained on" in answer.out
    assert "30 held-out rows: AUC" in answer.out
    assert record["matching"] == {"by": "id", "dropped": {"bank": 0, "shop": 0}}


def test_without_holdout_the_figures_are_of_trained_rows_and_that_is_said(files: Any, tacit: Any) -> None:
    record, answer = trained(files, tacit)
    assert record["rows"] == {"trained": 120, "held_out": 0, "evaluated": 120}
    assert not record["held_out"]
    assert set(by_kind(record)) == {"joint", "bank", "shop", "pooled"}
    said = " ".join(answer.out.split())
    assert said.startswith("verdict not compared with bank alone on new rows: no rows were held out. Add holdout = 0.2")
    assert "every model looks better on rows that it was trained on" in said


def test_the_order_of_rows_changes_neither_model_nor_figures(files: Any, tacit: Any) -> None:
    files.job = "holdout = 0.3"
    records = []
    for name, shuffle in (("one", None), ("two", 4)):
        assert tacit("train", files.write(shuffle=shuffle), "--out", files.folder / name).code == 0
        records.append(json.loads((files.folder / name / "evaluation.json").read_text()))
    for one, two in zip(records[0]["models"], records[1]["models"], strict=True):
        assert one["measures"] == pytest.approx(two["measures"], rel=1e-6)


def test_shares_sum_to_the_scores_spread(files: Any, tacit: Any) -> None:
    record, _ = trained(files, tacit)
    assert set(record["shares"]) == {"bank", "shop"}
    begun = prepare(read_job(files.folder / "credit.toml"))
    result = Run(begun.plan, begun.shards, begun.labels.values).go()
    for part, shard in zip(result.model.parts, begun.shards, strict=True):
        deviation = float(np.std(shard.features @ part.coef))
        assert record["shares"][part.name]["deviation"] == pytest.approx(deviation, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "hinge", "poisson", "huber"])
def test_every_task_has_measures(files: Any, tacit: Any, loss: str) -> None:
    files.job, files.model = "holdout = 0.25", f'loss = "{loss}"\nalpha = 0.01'
    if loss != "hinge":
        files.bank["default"] = np.abs(np.round(files.X.sum(axis=1))).tolist()
    record, _ = trained(files, tacit)
    assert len(record["models"]) == 4
    assert all(np.isfinite(list(model["measures"].values())).all() for model in record["models"])


# --- private runs --------------------------------------------------------------------------------------


def test_a_private_run_is_evaluated_on_held_out_rows_alone(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    record, answer = trained(files, tacit)
    assert record["models"] == []
    assert record["notes"] == [evaluation.NO_HOLDOUT]
    assert "shares" not in record
    assert "Nothing was evaluated" in answer.out


def test_a_private_run_trains_nobody_without_noise_but_the_label_holder(files: Any, tacit: Any) -> None:
    files.privacy, files.job = "epsilon = 3", "holdout = 0.25"
    record, answer = trained(files, tacit)
    assert set(by_kind(record)) == {"joint", "bank"}
    assert evaluation.WITHOUT_NOISE in record["notes"]
    assert "no certificate covers" in " ".join(answer.out.split())
    path = files.folder / "run" / "evaluation.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_the_model_is_not_covered_nothing_is_evaluated(files: Any, tacit: Any) -> None:
    files.privacy, files.job = 'epsilon = 8\nmechanism = "shares"', "holdout = 0.25"
    record, _ = trained(files, tacit)
    assert (record["models"], record["notes"]) == ([], [evaluation.NOT_SERVED])


def test_held_out_rows_do_not_touch_a_private_model(files: Any, tacit: Any) -> None:
    files.privacy, files.job = "epsilon = 3\nnoise_seed = 5", "holdout = 0.25"
    trained(files, tacit)
    before = (files.folder / "run" / "model" / "shop.json").read_text()
    begun = prepare(read_job(files.folder / "credit.toml"))
    held = {tuple(row) for row in begun.held.shards[1].features.tolist()}
    rows = [i for i, row in enumerate(files.X[:, 3:].tolist()) if tuple(row) in held]
    assert len(rows) == 30
    for j in range(4):
        for i in rows:
            files.shop[f"s{j}"][i] = 1000.0
    assert tacit("train", files.write(), "--out", files.folder / "other").code == 0
    assert (files.folder / "other" / "model" / "shop.json").read_text() == before


# --- the sample split ----------------------------------------------------------------------------------


def test_nodes_are_compared_on_their_own_rows(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path, job="holdout = 0.2")
    record, answer = trained(nodes, tacit)
    assert [(node["name"], node["trained"], node["evaluated"]) for node in record["nodes"]] == [
        ("north", 48, 12), ("east", 72, 18), ("south", 40, 10),
    ]  # fmt: skip
    assert all({"joint", "alone"} <= set(node) for node in record["nodes"])
    kinds = by_kind(record)
    assert set(kinds) == {"joint", "pooled"}
    assert kinds["joint"]["log_loss"] == pytest.approx(kinds["pooled"]["log_loss"], rel=1e-3)
    assert "200 (north 60, east 90, south 50)" in answer.out


def test_private_nodes_are_not_pooled(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path, job="holdout = 0.2", privacy="epsilon = 4")
    record, _ = trained(nodes, tacit)
    assert set(by_kind(record)) == {"joint"}
    assert evaluation.NODES_WITHOUT_NOISE in record["notes"]
    plain = Nodes(tmp_path, privacy="epsilon = 4")
    assert tacit("train", plain.write(), "--out", tmp_path / "plain").code == 0
    assert json.loads((tmp_path / "plain" / "evaluation.json").read_text())["models"] == []


def test_randomized_labels_are_held_out_with_their_epsilons(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path, job="holdout = 0.2")
    nodes.write()
    for name in nodes.tables:
        assert tacit("randomize", tmp_path / f"{name}.csv", "--label", "ill", "--epsilon", "2").code == 0
    nodes.ending = ".randomized.csv"
    record, _ = trained(nodes, tacit)
    assert record["notes"] == [evaluation.RANDOMIZED]
    assert record["rows"]["trained"] == 160
    assert tacit("plan", tmp_path / "wards.toml").code == 0


# --- what it costs -------------------------------------------------------------------------------------


def begun_and_result(files: Any) -> tuple[Any, Any]:
    begun = prepare(read_job(files.write()))
    return begun, Run(begun.plan, begun.shards, begun.labels.values).go()


def test_how_long_it_takes_changes_nothing(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After two seconds of a slow machine the other models were left out, so that no two reports were alike."""
    begun, result = begun_and_result(files)
    now = [0.0]

    def slow() -> float:
        now[0] += 100.0
        return now[0]

    plain = evaluation.evaluate(result, begun)
    monkeypatch.setattr(time, "perf_counter", slow)
    record = evaluation.evaluate(result, begun)
    assert record["seconds"] > plain["seconds"]
    assert {**record, "seconds": 0} == {**plain, "seconds": 0}
    assert [model["kind"] for model in record["models"]] == ["joint", "alone", "alone", "pooled"]


@pytest.mark.parametrize(
    ("limit", "said"), [("MOST_ROWS", "more than 100 rows"), ("MOST_VALUES", "more than 100 values")]
)
def test_large_data_are_not_trained_on_again(
    files: Any, monkeypatch: pytest.MonkeyPatch, limit: str, said: str
) -> None:
    begun, result = begun_and_result(files)
    monkeypatch.setattr(apart, limit, 100)
    record = evaluation.evaluate(result, begun)
    assert [model["kind"] for model in record["models"]] == ["joint"]
    expected = f"Bank alone, shop alone and all data in one place were not trained to compare with: {said}."
    assert record["notes"] == [expected]
    held = {**record, "held_out": True}
    assert verdict(held).sentence.startswith("not compared with bank alone: bank alone, shop alone and all data")


def test_large_nodes_are_not_trained_on_again(tmp_path: Path, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MOST_ROWS", 100)
    record, answer = trained(Nodes(tmp_path, job="holdout = 0.2"), tacit)
    assert record["notes"][0] == "No node was trained alone to compare with: more than 100 rows."
    assert answer.out.startswith("verdict    not compared with the nodes' own models: no node was trained alone")


def test_who_waits_is_told_which_model_is_trained(files: Any) -> None:
    begun, result = begun_and_result(files)
    seen: list[tuple[str, float]] = []
    evaluation.evaluate(result, begun, lambda name, part: seen.append((name, part)))
    assert seen == [("bank alone", 0.0), ("shop alone", 1 / 3), ("all data in one place", 2 / 3)]


def test_nodes_are_scored_as_predictions_are(tmp_path: Path, tacit: Any) -> None:
    """Private methods clip rows; the figures were those of rows that were not clipped."""
    nodes = Nodes(tmp_path, job="holdout = 0.2", privacy="epsilon = 4\nrow_norm = 0.3\nnoise_seed = 1")
    path = nodes.write()
    begun = prepare(read_job(path))
    assert begun.held is not None
    result = GraphRun(begun.plan, begun.shards, labels_by_node(begun)).go()
    record = evaluation.evaluate(result, begun)
    rows = np.vstack([shard.features for shard in begun.held.shards])
    short = rows * np.minimum(1, 0.3 / np.linalg.norm(rows, axis=1))[:, None]
    scores = short @ result.model.coef + result.model.intercept
    assert record["models"][0]["measures"]["log_loss"] == pytest.approx(log_loss(begun.held.labels > 0, expit(scores)))


# --- killed in between ---------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from tacit.cli.main import main
from {module} import {owner} as owner
setattr(owner, "{name}", lambda *words: os.kill(os.getpid(), signal.SIGKILL))
main(sys.argv[1:])
"""
PLACES = {
    "before the evaluation": {"module": "tacit.run", "owner": "evaluation", "name": "evaluate"},
    "after the evaluation": {"module": "tacit.run.folder", "owner": "RunFolder", "name": "finish"},
}


@pytest.mark.parametrize("privacy", [None, "epsilon = 3\nnoise_seed = 9"])
@pytest.mark.parametrize("place", PLACES)
def test_a_run_killed_at_its_end_is_evaluated_when_it_goes_on(
    files: Any, tacit: Any, place: str, privacy: str | None
) -> None:
    files.job, files.privacy = "holdout = 0.25\nseed = 1", privacy
    job, run, whole = files.write(), files.folder / "run", files.folder / "whole"
    words = [sys.executable, "-c", KILLED.format(**PLACES[place]), "train", str(job), "--out", str(run)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (run / "result.json").exists()
    assert tacit("train", job, "--out", run, "--resume").code == 0
    assert tacit("train", job, "--out", whole).code == 0
    found = [json.loads((folder / "evaluation.json").read_text())["models"][0] for folder in (run, whole)]
    assert found[0]["measures"] == pytest.approx(found[1]["measures"])
    assert (run / "result.json").exists()
    assert not (run / "checkpoint.npz").exists()


def test_a_run_interrupted_while_it_is_evaluated_says_how_to_go_on(
    files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    job, run = files.write(), files.folder / "run"
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "evaluate", interrupted)
        answer = tacit("train", job, "--out", run)
    assert answer.code == 130
    assert answer.err == f"tacit: stopped; continue with: tacit train {job} --out {run} --resume\n"
    assert tacit("train", job, "--out", run, "--resume").code == 0
    assert (run / "evaluation.json").exists()


def test_an_evaluation_that_fails_leaves_the_model(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(evaluation, "evaluate", failing)
    assert tacit("train", files.write(), "--out", files.folder / "run").code != 0
    assert (files.folder / "run" / "result.json").exists()


# --- the job -------------------------------------------------------------------------------------------


def test_holdout_is_part_of_the_job(files: Any, tacit: Any, refused: Any) -> None:
    files.job = "holdout = 0.25"
    trained(files, tacit)
    assert "holdout = 0.25" in (files.folder / "run" / "job.toml").read_text()
    files.job = "holdout = 0.3"
    assert "job.holdout is 0.3, it began with 0.25" in refused(
        "train", files.write(), "--out", files.folder / "run", "--resume"
    )
    for wrong in ("0.6", "-0.1", '"some"', "true"):
        files.job = f"holdout = {wrong}"
        assert "it must be a number from 0 to 0.5" in refused("train", files.write(), "--out", files.folder / "new")


def test_a_plan_counts_the_rows_that_are_trained_on(files: Any, tacit: Any) -> None:
    files.job, files.privacy = "holdout = 0.25", "epsilon = 3"
    planned = tacit("plan", files.write())
    assert "30 rows of them held out" in planned.out
    begun = prepare(read_job(files.folder / "credit.toml"))
    assert begun.plan.problem.rows == 90
    record = json.loads(tacit("plan", files.folder / "credit.toml", "--json").out)
    files.job = ""
    fewer = json.loads(tacit("plan", files.write(), "--json", "--rows", "90", "--columns", "bank=3,shop=4").out)
    assert record["noise"] == fewer["noise"]


def test_scales_are_learnt_from_trained_rows_alone(files: Any) -> None:
    files.job = "holdout = 0.25"
    begun = prepare(read_job(files.write()))
    for shard in begun.shards:
        assert np.asarray(shard.features).mean(axis=0) == pytest.approx(0, abs=1e-9)
        assert np.asarray(shard.features).std(axis=0) == pytest.approx(1, abs=1e-9)


def test_scales_of_nodes_are_learnt_from_trained_rows_alone(tmp_path: Path) -> None:
    path = Nodes(tmp_path, job="holdout = 0.25").write()
    begun = prepare(read_job(path))
    rows = np.vstack([np.asarray(shard.features) for shard in begun.shards])
    assert rows.mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert rows.std(axis=0) == pytest.approx(1, abs=1e-9)
