"""`tacit train` with [search]: the table, the file, the same alpha after a stop, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import VerticalClassifier, VerticalClassifierCV, training
from tacit.job import SearchSpec, read_job

MODEL = 'loss = "logistic"\n[search]\nalphas = [0.001, 0.1, 1, 0.01]\nfolds = 4\n'


@pytest.fixture
def searching(files: Any) -> Any:
    files.model = MODEL
    return files


def record(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "search.json").read_text())
    return found


def test_chooses_tells_and_writes(searching: Any, tacit: Any) -> None:
    out = searching.folder / "run"
    answer = tacit("train", searching.write(), "--out", out)
    assert answer.code == 0
    found = record(out)
    assert found["alphas"] == [1.0, 0.1, 0.01, 0.001]
    assert np.shape(found["losses"]) == np.shape(found["rounds_by_fit"]) == (4, 4)
    taken = found["alphas"][int(np.argmin(found["mean_losses"]))]
    assert found["alpha"] == taken == json.loads((out / "plan.json").read_text())["plan"]["alpha"]
    marked = [line for line in answer.out.splitlines() if line.endswith("<- taken")]
    assert [line.split()[0] for line in marked] == [f"{taken:.4g}"]
    assert f"alpha      {taken:.4g}, of 4 compared on 4 folds (best): {found['traffic']['rounds']} rounds" in answer.out
    assert "search.json" in answer.out
    assert "is the least that was tried: try smaller ones too" in answer.err


def test_model_and_losses_are_those_of_the_estimators(searching: Any, tacit: Any) -> None:
    out = searching.folder / "run"
    searching.job, searching.encode = "seed = 3", 'scale = "none"'
    tacit("train", searching.write(), "--out", out, "--quiet")
    blocks = [searching.X[:, :3], searching.X[:, 3:]]
    same = VerticalClassifierCV(alphas=[1, 0.1, 0.01, 0.001], cv=4, random_state=3).fit(blocks, searching.y)
    np.testing.assert_allclose(record(out)["losses"], same.loss_path_, rtol=1e-6)
    single = VerticalClassifier(alpha=record(out)["alpha"]).fit(blocks, searching.y)
    coef = json.loads((out / "model" / "shop.json").read_text())["coef"]
    np.testing.assert_allclose(coef, single.coef_by_party_[1], rtol=1e-9)


def test_order_of_rows_in_the_files_does_not_matter(searching: Any, tacit: Any) -> None:
    tacit("train", searching.write(), "--out", searching.folder / "one", "--quiet")
    tacit("train", searching.write(shuffle=5), "--out", searching.folder / "two", "--quiet")
    one, two = record(searching.folder / "one"), record(searching.folder / "two")
    assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_goes_on_with_the_alpha_it_took(searching: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out, job = searching.folder / "run", searching.write()

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def again(*_: Any) -> None:
        raise AssertionError("the search is made once")

    with monkeypatch.context() as patch:
        patch.setattr(training, "_go", stop)
        assert tacit("train", job, "--out", out).code == 130
    with monkeypatch.context() as patch:
        patch.setattr(training, "search_job", again)
        answer = tacit("train", job, "--out", out, "--resume")
    assert answer.code == 0
    undisturbed = searching.folder / "other"
    tacit("train", job, "--out", undisturbed, "--quiet")
    assert {**record(out), "seconds": 0} == {**record(undisturbed), "seconds": 0}
    assert (out / "model" / "bank.json").read_text() == (undisturbed / "model" / "bank.json").read_text()


@pytest.mark.parametrize("change", [{"alpha": 0.5}, {"alpha": 0.1}, {"alphas": 3}, {"format": 9}, {"traffic": None}])
def test_a_changed_record_is_not_believed(
    searching: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    out, job = searching.folder / "run", searching.write()

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "_go", stop)
        tacit("train", job, "--out", out)
    kept = {key: value for key, value in {**record(out), **change}.items() if value is not None}
    (out / "search.json").write_text(json.dumps(kept))
    answer = tacit("train", job, "--out", out, "--resume")
    assert answer.code == 2
    assert answer.err.count("\n") == 1


def test_another_search_is_another_job(searching: Any, tacit: Any) -> None:
    out = searching.folder / "run"
    tacit("train", searching.write(), "--out", out, "--quiet")
    searching.model = MODEL + 'rule = "one-standard-error"\n'
    answer = tacit("train", searching.write(), "--out", out, "--resume")
    assert answer.code == 2
    assert 'search.rule is "one-standard-error", it began with "best"' in answer.err


def test_job_reads_back_as_it_was_written(searching: Any, tmp_path: Path) -> None:
    job = read_job(searching.write())
    assert job.search == SearchSpec((1.0, 0.1, 0.01, 0.001), 4, "best")
    (tmp_path / "again.toml").write_text(job.to_toml(tmp_path))
    assert read_job(tmp_path / "again.toml").search == job.search
    searching.model = "[search]\n"
    assert read_job(searching.write()).search == SearchSpec(10, 5, "best")


def test_plan_says_that_there_is_a_search(searching: Any, tacit: Any) -> None:
    job = searching.write()
    assert "search      4 alphas on 4 folds before the last fit" in tacit("plan", job).out
    assert json.loads(tacit("plan", job, "--json").out)["search"]["folds"] == 4


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("alpha = 0.1\n[search]\n", "[search] chooses alpha, and model.alpha gives one"),
        ("[search]\n[privacy]\nepsilon = 1\n", "[search] does not fit [privacy]: every fit it tries is a release"),
        ("[search]\nalphas = 1\n", "search.alphas = 1 is not allowed: it must be a whole number from 2 to 1000, or"),
        ("[search]\nalphas = [1, -1]\n", "or a list of numbers above 0"),
        ("[search]\nfolds = 1\n", "search.folds = 1 is not allowed"),
        ("[search]\nfolds = 500\n", "search.folds=500 needs at least 500 rows"),
        ('[search]\nrule = "luck"\n', 'must be one of "best", "one-standard-error"'),
        ("[search]\nalpha = [1, 2]\n", "did you mean"),
        ('penalty = "none"\n[search]\n', "penalty='none' has no alpha to choose"),
    ],
)
def test_refuses(files: Any, tacit: Any, model: str, reason: str) -> None:
    files.model = model
    answer = tacit("train", files.write(), "--out", files.folder / "run")
    assert answer.code == 2
    assert reason in answer.err
    assert answer.err.count("\n") == 1


def test_audit_takes_one_alpha(searching: Any, tacit: Any) -> None:
    answer = tacit("audit", searching.write(), "--quick")
    assert (answer.code, answer.err) == (
        2,
        "tacit: error: tacit audit takes one alpha: remove [search], and give the model.alpha that it took\n",
    )
