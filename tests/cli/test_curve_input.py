"""Columns that are no good for curves, by the command line: one clear line, or what the documentation says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main

ROWS = 120
PRIVATE = "[privacy]\nepsilon = 4\nnoise_seed = 1"
WARDS = ("north", "east", "south")


def write(path: Path, table: dict[str, Any]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))


def job(folder: Path, shop: dict[str, Any], columns: str = "", privacy: str = "") -> str:
    """A bank with labels and a shop with these columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS).round(4)
    write(folder / "bank.csv", {"a": x, "y": (x + rng.normal(size=ROWS) > 0).astype(int)})
    write(folder / "shop.csv", shop)
    text = f'[job]\nname = "credit"\nrounds = 20\n[model]\nterms = "spline"\nalpha = 0.01\n{privacy}\n'
    text += '[[party]]\nname = "bank"\ndata = "bank.csv"\nlabel = "y"\n[[party]]\nname = "shop"\ndata = "shop.csv"\n'
    (folder / "job.toml").write_text(text + (f"[party.columns]\n{columns}\n" if columns else ""))
    return str(folder / "job.toml")


def nodes(folder: Path, cells: dict[str, Any], columns: str, privacy: str = PRIVATE) -> str:
    """Three nodes with the same rows."""
    text = '[job]\nname = "wards"\nsplit = "samples"\nrounds = 3\n[graph]\nkind = "ring"\n'
    text += f'[model]\nterms = "spline"\n{privacy}\n'
    for name in WARDS:
        write(folder / f"{name}.csv", {**cells, "y": np.arange(ROWS) % 2})
        text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nlabel = "y"\n'
        text += f"[party.columns]\n{columns}\n" if columns else ""
    (folder / "job.toml").write_text(text)
    return str(folder / "job.toml")


def train(folder: Path, path: str) -> Path:
    out = folder / "run"
    assert main(["train", path, "--out", str(out), "--quiet"]) == 0
    return out


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a verb refuses in one line; nothing is written."""
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("tacit: error: ")
    return said.err


def numbers(values: Any = None) -> dict[str, Any]:
    return {"z": np.linspace(-2, 2, ROWS) if values is None else values}


# --- refused in one line -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["plan", "train"])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("z = { low = 3, high = -3 }", 'column "z": low = 3 is not below high = -3'),
        ("z = { low = 3, high = 3 }", 'column "z": low = 3 is not below high = 3'),
        ("z = { low = 3 }", 'column "z" has low alone: give both low and high'),
        ("z = { low = nan, high = 1 }", "low"),
        ("z = { low = 0, high = inf }", "high"),
        ('z = { values = ["a", "b", "a"] }', "none twice"),
        ('z = { values = ["a"], term = "spline" }', "term is for numbers"),
        ('z = { term = "curve" }', '"linear", "spline"'),
        ("z = { log = true }", "log = true needs low and high"),
        ("z = { low = 0, high = 1, whole = 3 }", "whole"),
        ("z = { low = 0, high = 1 }\nq = { low = 0, high = 1 }", 'columns names "q"'),
    ],
)
def test_what_a_job_says_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, columns: str, said: str
) -> None:
    path = job(tmp_path, numbers(), columns, PRIVATE)
    out = ["--out", str(tmp_path / "run")] if verb == "train" else []
    assert said in refusal(capsys, verb, path, *out)
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize("pairs", ["-1", "65", "2.5", "true", '"many"'])
def test_pairs_are_a_small_whole_number(tmp_path: Path, capsys: pytest.CaptureFixture[str], pairs: str) -> None:
    path = job(tmp_path, numbers(), "z = { low = -3, high = 3 }", f"{PRIVATE}\n[encode]\npairs = {pairs}")
    assert "encode.pairs" in refusal(capsys, "plan", path)


@pytest.mark.parametrize("split", ["features", "samples"])
def test_all_protected_numbers_without_a_range_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], split: str
) -> None:
    cells = {name: np.arange(ROWS) for name in ("u", "v", "w")}
    columns = "v = { low = 0, high = 200 }"
    path = job(tmp_path, cells, columns, PRIVATE) if split == "features" else nodes(tmp_path, cells, columns)
    for words in (["plan", path], ["train", path, "--out", str(tmp_path / "run")]):
        said = refusal(capsys, *words)
        assert 'columns "u", "w" have no ranges' in said
        assert "give each low and high in [party.columns]" in said


@pytest.mark.parametrize(
    ("columns", "privacy"), [("z = { low = 0, high = 5 }", PRIVATE), ('z = { kind = "number" }', "")]
)
def test_text_where_numbers_were_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: str, privacy: str
) -> None:
    path = job(tmp_path, numbers([*range(ROWS - 1), "abc"]), columns, privacy)
    said = refusal(capsys, "train", path, "--out", str(tmp_path / "run"))
    assert f'party "shop": column "z" holds "abc" in row {ROWS}' in said


def test_text_in_new_rows_where_numbers_were_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path, job(tmp_path, numbers(), "z = { low = -3, high = 3 }"))
    write(tmp_path / "new.csv", {"z": ["abc", 1.0]})
    write(tmp_path / "new_bank.csv", {"a": [0.0, 1.0]})
    said = refusal(capsys, "predict", str(run), *new(tmp_path))
    assert 'column "z"' in said
    assert "abc" in said


# --- allowed, and what becomes of it ---------------------------------------------------------------------


def new(folder: Path) -> list[str]:
    return [f"bank={folder / 'new_bank.csv'}", f"shop={folder / 'new.csv'}"]


def scores(folder: Path, run: Path, cells: dict[str, Any]) -> np.ndarray:
    """Scores of new rows of the shop, the bank's cell being the same in all."""
    write(folder / "new.csv", cells)
    count = len(next(iter(cells.values())))
    write(folder / "new_bank.csv", {"a": [0.3] * count})
    out = folder / "predictions.csv"
    assert main(["predict", str(run), *new(folder), "--out", str(out)]) == 0
    with open(out, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    name = next(key for key in rows[0] if "probability" in key or "score" in key)
    return np.array([float(row[name]) for row in rows])


@pytest.mark.parametrize("privacy", ["", PRIVATE])
def test_values_outside_the_range_count_as_its_ends(tmp_path: Path, privacy: str) -> None:
    """In training and in prediction."""
    run = train(tmp_path, job(tmp_path, numbers(), "z = { low = -1, high = 1 }", privacy))
    found = scores(tmp_path, run, {"z": [-1.0, -50.0, -1e300, 1.0, 3.0, 1e300, 0.0]})
    np.testing.assert_allclose(found[:3], found[0], rtol=1e-13)  # a product rounds by where a row stands
    np.testing.assert_allclose(found[3:6], found[3], rtol=1e-13)
    assert len({*found.round(9).tolist()}) == 3
    clipped = tmp_path / "clipped"
    clipped.mkdir()
    inside = np.clip(np.linspace(-2, 2, ROWS), -1, 1)
    again = train(clipped, job(clipped, numbers(inside), "z = { low = -1, high = 1 }", privacy))
    one, two = (json.loads((folder / "model" / "shop.json").read_text()) for folder in (run, again))
    assert one["coef"] == two["coef"]


@pytest.mark.parametrize("privacy", ["", PRIVATE])
def test_a_column_of_one_value_changes_nothing(tmp_path: Path, privacy: str) -> None:
    """Without privacy the plan says so, and its coefficient is 0; with privacy nothing is said of rows."""
    columns = "z = { low = -2, high = 2 }\none = { low = 0, high = 9 }"
    run = train(tmp_path, job(tmp_path, {**numbers(), "one": [7] * ROWS}, columns, privacy))
    model = json.loads((run / "model" / "shop.json").read_text())
    held = [value for name, value in zip(model["columns"], model["coef"], strict=True) if name.startswith("one")]
    assert held
    if not privacy:
        np.testing.assert_allclose(held, 0.0, atol=1e-12)
    assert np.all(np.isfinite(model["coef"]))


@pytest.mark.parametrize("privacy", ["", PRIVATE])
def test_a_column_of_blanks_alone(tmp_path: Path, privacy: str, capsys: pytest.CaptureFixture[str]) -> None:
    cells = {**numbers(), "none": [""] * ROWS}
    path = job(tmp_path, cells, "z = { low = -2, high = 2 }\nnone = { low = 0, high = 9, missing = true }", privacy)
    run = train(tmp_path, path)
    model = json.loads((run / "model" / "shop.json").read_text())
    assert np.all(np.isfinite(model["coef"]))
    assert any(name.startswith("none") for name in model["columns"])
    found = scores(tmp_path, run, {"z": [0.5, 0.5], "none": ["", ""]})
    assert found[0] == found[1]


def test_what_is_the_same_in_all_rows_is_said_of_rows_that_nobody_protects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = {**numbers(), "one": [7] * ROWS, "none": [""] * ROWS}
    columns = "z = { low = -2, high = 2 }\none = { low = 0, high = 9 }\nnone = { low = 0, high = 9 }"
    assert main(["plan", job(tmp_path, cells, columns)]) == 0
    printed = capsys.readouterr().out
    assert 'the same in all rows: "one"' in printed
    assert f'{ROWS} blanks, the same in all rows: "none"' in printed
    assert main(["plan", job(tmp_path, cells, columns, PRIVATE)]) == 0
    assert "the same in all rows" not in capsys.readouterr().out


@pytest.mark.parametrize("privacy", ["", PRIVATE])
def test_a_new_category_beside_curves_is_other_and_is_said(
    tmp_path: Path, privacy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = {**numbers(), "town": ["ham", "sea", "hill"] * (ROWS // 3)}
    run = train(
        tmp_path, job(tmp_path, cells, 'z = { low = -2, high = 2 }\ntown = { values = ["ham", "sea"] }', privacy)
    )
    capsys.readouterr()
    found = scores(tmp_path, run, {"z": [0.0] * 3, "town": ["hill", "moon", "ham"]})
    said = capsys.readouterr()
    assert "2 rows hold none of the model's 2 categories" in said.out + said.err
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("privacy", ["", PRIVATE])
def test_blanks_in_new_rows_of_a_column_without_any(
    tmp_path: Path, privacy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a column of their own they count as the middle of the range, or as 0 in the curve; and it is said."""
    run = train(tmp_path, job(tmp_path, numbers(), "z = { low = -1, high = 2 }", privacy))
    capsys.readouterr()
    found = scores(tmp_path, run, {"z": ["", 0.5, 1.0]})
    said = capsys.readouterr()
    assert 'column "z" has 1 blank, for which the model has no column' in said.out + said.err
    assert ("filled with 0.5" if privacy else "0 in its curve") in said.out + said.err
    if privacy:
        assert found[0] == found[1] != found[2]


def test_protected_nodes_of_one_value_or_of_blanks(tmp_path: Path) -> None:
    cells = {"z": np.linspace(0, 1, ROWS), "one": [3] * ROWS, "none": [""] * ROWS}
    columns = "z = { low = 0, high = 1 }\none = { low = 0, high = 9 }\nnone = { low = 0, high = 9 }"
    run = train(tmp_path, nodes(tmp_path, cells, columns))
    assert (run / "certificate.json").exists()
