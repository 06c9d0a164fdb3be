"""Jobs with more than two classes, in one process: trained, predicted, explained, loaded; refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli.main import main
from tests.federation.test_sites_classes import job_text, write_columns, write_rows


def train(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    (folder / "job.toml").write_text(text)
    capsys.readouterr()
    code = main(["train", str(folder / "job.toml"), "--out", str(folder / "run"), "--quiet", *more])
    return code, capsys.readouterr().err


def test_a_job_is_trained_explained_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_columns(tmp_path)
    text = job_text(files, "in-process", "features", top="holdout = 0.3", more='terms = "spline"')
    assert train(tmp_path, text, capsys, "--report")[0] == 0
    run, paths = tmp_path / "run", [str(path) for path in files.values()]
    saved = tacit.load(run)
    found = saved.predict(dict(files))
    assert found.classes == ("large", "middle", "small")
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
    assert len(next(iter(saved.coef["bank"].values()))) == 3
    np.testing.assert_allclose(np.sum(saved.intercept), 0.0, atol=1e-9)
    assert "x0, class small" in saved.curves()["bank"]
    assert saved.evaluation is not None
    assert set(saved.evaluation["models"][0]["measures"]) == {"accuracy", "log_loss"}
    assert "3 classes" in (run / "report.html").read_text()
    for name, number in (("small", 2), ("middle", 1)):
        assert main(["explain", str(run), *paths, "--row", "2", "--party", "shop", "--class", name, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["score"] == pytest.approx(found.score[1, number])
        assert told["constant"] + sum(one["adds"] for one in told["parties"]) == pytest.approx(told["score"])
        assert told["probability"] == pytest.approx(found.probability[1, number])
    assert main(["answer", str(run), "--party", "shop", "--data", paths[1]]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["audit", str(tmp_path / "job.toml"), "--quiet"]) == 2
    assert "two classes" in capsys.readouterr().err


@pytest.mark.parametrize("split", ["features", "samples"])
def test_a_private_job_is_trained_explained_reported_and_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], split: str
) -> None:
    files = write_columns(tmp_path) if split == "features" else write_rows(tmp_path)
    text = job_text(files, "in-process", split, top="rounds = 4" if split == "samples" else "")
    text = text.replace("[model]", "[privacy]\nepsilon = 4\n[model]")
    if "[encode]" not in text:
        text = text.replace("[privacy]", "[encode]\nscale = 'none'\n[privacy]")
    assert train(tmp_path, text, capsys, "--report")[0] == 0
    run = tmp_path / "run"
    saved = tacit.load(run)
    new: Any = dict(files) if split == "features" else files["node0"]
    found = saved.predict(new)
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.sum(saved.intercept), 0.0, atol=1e-9)
    paths = [str(path) for path in files.values()][: None if split == "features" else 1]
    party = ["--party", "shop"] if split == "features" else []
    assert main(["explain", str(run), *paths, "--row", "2", *party, "--class", str(found.classes[1]), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["score"] == pytest.approx(found.score[1, 1])
    assert main(["curves", str(run), "--out", str(tmp_path / "curves")]) == 0
    assert main(["verify", str(run / "certificate.json")]) == 0
    if split == "features":  # the other is audited in tests/audit/test_graph_audit.py
        capsys.readouterr()
        assert main(["audit", str(tmp_path / "job.toml"), "--quiet", "--pairs", "12", "--runs", "40"]) == 0
        assert "no violation found" in capsys.readouterr().out


def test_rows_split_in_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_rows(tmp_path)
    assert train(tmp_path, job_text(files, "in-process", "samples", top="holdout = 0.2"), capsys)[0] == 0
    saved = tacit.load(tmp_path / "run")
    assert max(saved.distances()) < 1e-3
    assert saved.predict(files["node0"]).score.shape == (40, 3)


BAD = [
    ("classes = 3", "classes = 4", "the labels have 3 classes, .*, and the job says classes = 4"),
    ("classes = 3", "", "the labels have 3 classes, .*: write classes = 3 under .model., or join them into two"),
    ("classes = 3", 'classes = 3\nloss = "hinge"', "model.classes is for loss = .logistic."),
    ('label = "size"', 'label = "size"\npositive = "small"', "positive = .small. is for two classes"),
    ("alpha = 0.01", 'alpha = 0.01\npenalty = "l1"', "penalty='l1' is for two classes"),
    ("[model]", "[privacy]\nepsilon = 1\nmechanism = 'shares'\n[model]", "privacy of rows is for two classes"),
    ("[model]", "[privacy]\nepsilon = 1\nlabel_epsilon = 1\n[model]", "label_epsilon with more than two classes"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    text = job_text(write_columns(tmp_path), "in-process", "features")
    assert old in text
    code, said = train(tmp_path, text.replace(old, new), capsys)
    assert code == 2
    assert said.count("\n") == 1, said
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(said)
