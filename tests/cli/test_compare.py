"""`tacit compare`: lines, curves and trees on the same held-out rows, and which of them is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.job import read_job
from tacit.report.compare import Candidate, ModelComparison, _take, check_comparable, compare_job, table

JOB = """[job]
name = "steps"
holdout = 0.3
{job}
[model]
{model}
{sections}
[[party]]
name = "bank"
data = "bank.csv"
label = "y"
[[party]]
name = "shop"
data = "shop.csv"
"""


def write(folder: Path, rows: int = 700, **parts: str) -> Path:
    """Labels that hang together with a product of two columns of one party, which trees alone can learn."""
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, rows))
    y = np.where(3 * np.sign(a * b) + c + rng.logistic(size=rows) > 0, "yes", "no")
    lines = [f"{u:.5f},{v:.5f},{label}" for u, v, label in zip(a, b, y, strict=True)]
    (folder / "bank.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n")
    (folder / "shop.csv").write_text("c\n" + "\n".join(f"{value:.5f}" for value in c) + "\n")
    path = folder / "steps.toml"
    path.write_text(JOB.format(**({"job": "", "model": "", "sections": "[search]\nalphas = 2\nfolds = 2"} | parts)))
    return path


def test_trees_are_taken_where_columns_of_a_party_work_together(tmp_path: Path, tacit: Any) -> None:
    answer = tacit("compare", write(tmp_path), "--json")
    assert answer.code == 0, answer.err
    record = json.loads(answer.out)
    lines, curves, trees = record["models"]
    assert [one["model"] for one in record["models"]] == ["lines", "curves", "trees"]
    assert record["taken"] == "trees"
    assert record["rows"] == {"trained": 490, "held_out": 210}
    assert trees["loss"] < 0.75 * min(lines["loss"], curves["loss"])
    assert trees["against_taken"]["difference"] < -2 * trees["against_taken"]["error"]
    assert trees["private"] == "not in jobs"
    assert all(one["epsilon"] == "infinity" for one in record["models"])
    assert record["sentence"].startswith("Take trees: the loss of curves is ")
    assert not list(tmp_path.glob("runs*"))


def test_a_job_of_trees_and_a_linear_one_give_the_same_table(tmp_path: Path) -> None:
    """But for settings that one of them states: the same rows, seeds and folds."""
    found = []
    for kind in ("linear", "trees"):
        search = "" if kind == "trees" else "[search]\nalphas = 11\nfolds = 5"
        path = write(tmp_path, rows=160, model=f'kind = "{kind}"', sections=search)
        text = path.read_text()
        path.write_text(text.replace("holdout", "rounds = 200\ntol = 1e-4\nholdout") if kind == "linear" else text)
        job = read_job(path)
        found.append(compare_job(replace(job, search=None), lambda remark: None))
    assert [one.loss for one in found[0].candidates] == pytest.approx([one.loss for one in found[1].candidates])
    assert found[0].taken == found[1].taken


def candidates(*changes: float) -> list[Candidate]:
    rng = np.random.default_rng(0)
    losses = rng.random((3, 400)) / 10 + np.cumsum([1.0, *changes])[:, None]
    names = ("lines", "curves", "trees")
    return [
        Candidate(name, float(own.mean()), {"auc": 0.5}, 3, 0, 10, 0.1, own)
        for name, own in zip(names, losses, strict=True)
    ]


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ((-0.1, -0.1), "trees"),
        ((-0.1, 0.1), "curves"),
        ((-0.1, 0.0), "curves"),
        ((0.1, 0.1), "lines"),
        ((0.1, -0.3), "trees"),
    ],
)
def test_the_simplest_model_is_taken_that_no_other_beats_beyond_the_error(
    changes: tuple[float, float], taken: str
) -> None:
    name, told = _take(candidates(*changes))
    assert name == taken
    found = ModelComparison("job", "logistic", 100, 400, tuple(told), name)
    assert found.sentence.startswith(f"Take {taken}: ")
    assert sum("<- taken" in line for line in table(found)) == 1
    assert ("which may be chance" in found.sentence) == (changes[1] == 0.0)


def test_no_difference_is_called_where_a_loss_is_not_finite() -> None:
    found = candidates(-0.1, -0.1)
    found[2] = replace(found[2], losses=np.full(400, np.inf), loss=float("inf"))
    name, told = _take(found)
    assert name == "curves"
    assert "trees could not be compared" in ModelComparison("job", "logistic", 1, 400, tuple(told), name).sentence


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"sections": "[privacy]\nepsilon = 1"}, "remove [privacy] to compare"),
        ({"model": 'loss = "hinge"', "sections": ""}, 'needs a loss that lines and trees have, not "hinge"'),
        ({"model": 'kind = "trees"\nloss = "quantile"', "sections": ""}, "needs a loss that lines and trees have"),
        ({"job": "secure_aggregation = true"}, "remove memory and secure_aggregation"),
    ],
)
def test_a_job_that_cannot_be_compared_is_refused_in_one_line(parts: dict[str, str], said: str, tmp_path: Path) -> None:
    job = read_job(write(tmp_path, rows=20, **parts))
    with pytest.raises(InputError) as error:
        check_comparable(job)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_rows_to_compare_on_are_needed(tmp_path: Path, tacit: Any) -> None:
    path = write(tmp_path, rows=20)
    path.write_text(path.read_text().replace("holdout = 0.3", ""))
    answer = tacit("compare", path)
    assert answer.code == 2
    assert "add holdout = 0.2 under [job]" in answer.err
