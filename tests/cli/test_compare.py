"""`tacit compare`: lines, curves and trees on the same held-out rows, and which of them is taken."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError
from tacit.job import read_job
from tacit.privacy.request import Privacy
from tacit.report.compare import (
    Candidate,
    ModelComparison,
    Spending,
    _private_variants,
    _take,
    _variant,
    check_comparable,
    compare_job,
    plan_spending,
    table,
)

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


def test_more_than_two_classes_are_compared_by_the_loss_of_the_run(tmp_path: Path, tacit: Any) -> None:
    job = write(tmp_path, rows=300, model="classes = 3\nterms = 'linear'")
    lines = (tmp_path / "bank.csv").read_text().replace("no", "maybe", 60)
    (tmp_path / "bank.csv").write_text(lines)
    answer = tacit("compare", job, "--json")
    assert answer.code == 0, answer.err
    compared = {model["model"]: model["loss"] for model in json.loads(answer.out)["models"]}
    assert tacit("train", job, "--out", tmp_path / "run", "--quiet").code == 0
    joint = json.loads((tmp_path / "run" / "evaluation.json").read_text())["models"][0]
    assert compared["lines"] == pytest.approx(joint["measures"]["log_loss"], abs=1e-6)
    assert 0 < compared["trees"] < 2
    jobs, left_out = _private_variants(replace(read_job(job), privacy=Privacy(1.0)))
    assert list(jobs) == ["lines", "curves"]
    assert "softmax" in left_out["trees"]


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
    assert record["simulated"] == []
    assert record["spending"] is None
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
        (
            {"sections": '[privacy]\nepsilon = 1\nmechanism = "shares"'},
            'privacy.mechanism = "shares", which is for lines',
        ),
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


# --- with privacy ---------------------------------------------------------------------------------------

COLUMN = "columns = { c = { low = -4, high = 4 } }"
PRIVATE = "[privacy]\nepsilon = 4\ndelta = 1e-6"


def private(folder: Path, sections: str = PRIVATE, **parts: str) -> Path:
    """The job with a public range of the protected column, and no search."""
    path = write(folder, rows=300, sections=sections, **parts)
    path.write_text(path.read_text() + COLUMN + "\n")
    return path


def test_without_leave_to_spend_nothing_is_trained(tmp_path: Path, tacit: Any) -> None:
    answer = tacit("compare", private(tmp_path))
    assert answer.code == 0, answer.err
    said = " ".join(answer.out.split())
    assert said.count("spends records of shop: epsilon 4, delta 1e-06") == 3
    assert "together spend records of shop: epsilon 12, delta 3e-06, the sums of 3 runs on the same rows" in said
    assert "shop sends, for lines, curves, trees: the outcome of one private fit" in said
    assert "Nothing was trained, and nothing is spent." in said
    assert "log loss" not in said
    assert not list(tmp_path.glob("runs*"))


def test_what_was_spent_is_the_sum_and_is_spent_once(tmp_path: Path, tacit: Any) -> None:
    out = tmp_path / "kept"
    words = ("compare", private(tmp_path), "--spend", "--out", out)
    answer = tacit(*words)
    assert answer.code == 0, answer.err
    said = " ".join(answer.out.split())
    assert "and spent the sum of their epsilons: records of shop: epsilon 12, delta 3e-06." in said
    assert "which no certificate covers" in said
    assert "trees are those of the label holder alone, beside private curves of the others" in said
    lines = [line for line in answer.out.splitlines() if "epsilon 4, delta 1e-06" in line]
    assert [line.split()[0] for line in lines] == ["lines", "curves", "trees"]
    taken = next(line.split()[0] for line in lines if "<- taken" in line)
    assert f"use {out / taken} as it is" in said.replace("- ", "-")
    models = {path: path.read_bytes() for path in out.glob("*/model/*")}
    assert {path.parent.parent.name for path in models} == {"lines", "curves", "trees"}
    for name in ("lines", "curves", "trees"):
        assert tacit("verify", out / name).code == 0
        figure = next(float(line.split()[1]) for line in lines if line.startswith(name))
        first = json.loads((out / name / "evaluation.json").read_text())["models"][0]
        assert first["measures"]["log_loss"] == pytest.approx(figure, abs=1e-5)
    assert tacit(*words).out == answer.out  # the same models, and the same noise
    assert {path: path.read_bytes() for path in out.glob("*/model/*")} == models


def test_a_comparison_that_stopped_half_way_goes_on_with_the_same_noise(tmp_path: Path, tacit: Any) -> None:
    words = ("compare", private(tmp_path), "--spend", "--out", tmp_path / "kept", "--json")
    whole = json.loads(tacit(*words).out)
    shutil.rmtree(tmp_path / "kept" / "trees")
    first = {path: path.read_bytes() for path in (tmp_path / "kept").glob("[lc]*/model/*")}
    again = json.loads(tacit(*words).out)
    assert [one["loss"] for one in again["models"][:2]] == [one["loss"] for one in whole["models"][:2]]
    assert {path: path.read_bytes() for path in (tmp_path / "kept").glob("[lc]*/model/*")} == first
    path = tmp_path / "steps.toml"
    path.write_text(path.read_text().replace("epsilon = 4", "epsilon = 5"))
    answer = tacit(*words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "privacy.epsilon is 5.0, it began with 4.0" in answer.err


def test_each_model_has_noise_of_its_own_even_from_a_seed(tmp_path: Path) -> None:
    job = read_job(private(tmp_path, f"{PRIVATE}\nnoise_seed = 5"))
    seeds = [_variant(job, name).privacy.noise_seed for name in ("lines", "curves", "trees")]
    assert seeds == [15, 16, 17]


def test_guarantees_that_trees_do_not_have_leave_them_out(tmp_path: Path, tacit: Any) -> None:
    path = private(tmp_path, f'{PRIVATE}\nprotect = "everyone"')
    path.write_text(path.read_text().replace('label = "y"', 'label = "y"\ncolumns = { "?" = { low = -4, high = 4 } }'))
    jobs, spending = plan_spending(read_job(path), lambda remark: None)
    assert list(jobs) == list(spending.claims) == ["lines", "curves"]
    assert 'privacy.protect = "everyone" does not go with trees' in spending.left_out["trees"]
    assert {(one["party"], round(one["epsilon"], 6), one["delta"]) for one in spending.total} == {
        (one["party"], 8.0, 2e-6) for one in spending.total
    }
    assert "trees    is left out: " in tacit("compare", path).out


def test_sums_are_those_of_every_unit_and_party() -> None:
    def claim(unit: str, party: str, epsilon: float, delta: float) -> dict[str, Any]:
        return {"unit": unit, "party": party, "epsilon": epsilon, "delta": delta}

    own = {
        "lines": [claim("record", "shop", 1.0, 1e-6), claim("label", "bank", 0.5, 0.0)],
        "curves": [claim("record", "shop", 2.0, 1e-6), claim("record", "phone", 4.0, 1e-7)],
    }
    assert Spending(own, {}).total == [
        claim("record", "shop", 3.0, 2e-6),
        claim("label", "bank", 0.5, 0.0),
        claim("record", "phone", 4.0, 1e-7),
    ]


def test_the_price_of_privacy_is_measured_where_rows_need_no_protection(tmp_path: Path, tacit: Any) -> None:
    path = private(tmp_path, "[search]\nalphas = 2\nfolds = 2")
    answer = tacit("compare", path, "--epsilon", 0.05)
    assert answer.code == 0, answer.err
    rows = [line.split() for line in answer.out.splitlines() if line.split()[:1] in (["lines"], ["curves"], ["trees"])]
    assert [row[0] for row in rows] == ["lines", "curves", "trees"] * 2
    price = float(rows[5][2])
    assert price == pytest.approx(float(rows[5][1]) - float(rows[2][1]), abs=2e-4)
    assert "the same with noise, simulated" in answer.out
    assert "one draw of noise" in " ".join(answer.out.split())
    assert not list(tmp_path.glob("runs*"))


@pytest.mark.parametrize(
    ("sections", "model", "words", "said"),
    [
        ("", "", ["--spend"], "--spend is for jobs with [privacy]"),
        ("", "", ["--out", "x"], "--out is for jobs with [privacy]"),
        ("", "", ["--epsilon", -1], "epsilon=-1.0 is not allowed"),
        (PRIVATE, "", ["--epsilon", 1], "--epsilon is for jobs without [privacy]"),
        (PRIVATE, 'loss = "poisson"', [], "does not fit loss='poisson'"),
    ],
)
def test_words_that_do_not_fit_the_job_are_refused_in_one_line(
    sections: str, model: str, words: list[Any], said: str, tmp_path: Path, tacit: Any
) -> None:
    path = private(tmp_path, sections, model=model)
    if "poisson" in model:
        (tmp_path / "bank.csv").write_text((tmp_path / "bank.csv").read_text().replace("yes", "1").replace("no", "0"))
    answer = tacit("compare", path, *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err


def test_trees_without_privacy_state_no_ranges_to_simulate_with(tmp_path: Path, tacit: Any) -> None:
    answer = tacit("compare", write(tmp_path, rows=60, model='kind = "trees"', sections=""), "--epsilon", 1)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert 'write kind = "linear"' in answer.err
