"""Jobs whose parties hold other rows with the same columns of text, numbers and blanks."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_encode_jobs import Rows, assert_close, model, write_csv

NAMES = ("north", "east", "south")
PUBLIC = """
[party.columns]
ward = { values = ["a", "b"] }
age = { low = 0, high = 100 }
"""


@dataclass
class Wards:
    """Three hospitals, the last of which has one ward of its own."""

    folder: Path
    head: str = ""
    first: str = ""
    rows: dict[str, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = random.Random(3)
        for name, count in zip(NAMES, (50, 70, 60), strict=True):
            self.rows[name] = []
            for number in range(count):
                age, ward = rng.gauss(50, 15), rng.choice("abz" if name == "south" else "ab")
                ill = (age - 50) / 15 + (ward == "a") + rng.gauss(0, 1) > 0.5
                blank = name == "east" and number % 10 == 0
                row = {"id": f"{name}{number}", "age": "" if blank else age, "ward": ward, "pulse": rng.gauss(70, 9)}
                self.rows[name].append({**row, "ill": int(ill)})

    def write(self, rng: random.Random | None = None) -> Path:
        text = f'[job]\nsplit = "samples"\n[graph]\nkind = "ring"\n[model]\nalpha = 0.01\n{self.head}\n'
        for name, rows in self.rows.items():
            columns = list(rows[0])
            if rng is not None:
                rng.shuffle(columns)
                rows = rng.sample(rows, len(rows))
            write_csv(self.folder / f"{name}.csv", rows, columns)
            text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nid = "id"\nlabel = "ill"\n'
            text += self.first if name == "north" else ""
        path = self.folder / "wards.toml"
        path.write_text(text)
        return path

    def new(self) -> Path:
        write_csv(self.folder / "new.csv", [row for rows in self.rows.values() for row in rows])
        return self.folder / "new.csv"


@pytest.fixture
def wards(tmp_path: Path) -> Wards:
    return Wards(tmp_path)


def joint(run: Path) -> dict[str, float]:
    record = json.loads((run / "model" / "joint.json").read_text())
    return dict(zip(record["columns"], record["coef"], strict=True)) | {"constant": record["constant"]}


def by_row(text: str) -> dict[str, float]:
    header, *rows = (line.split(",") for line in text.splitlines())
    return {row[0]: float(row[header.index("score")]) for row in rows}


def test_constants_are_those_of_all_rows_and_this_is_said(wards: Wards, tacit: Any) -> None:
    run = wards.folder / "run"
    answer = tacit("train", wards.write(), "--out", run)
    assert (answer.code, answer.err) == (0, "")
    assert list(joint(run)) == [
        "age", "age missing", "pulse", "ward=a", "ward=b", "ward=z", "ward=other", "constant",
    ]  # fmt: skip
    assert "all parties: 3 columns, encoded as 7; scales and categories were shared between the parties" in answer.out
    certificate = json.loads((run / "certificate.json").read_text())
    assert any("taken from the rows of all parties and shared" in text for text in certificate["does_not_cover"])
    schema = json.loads((run / "model" / "joint.json").read_text())["schema"]
    pulse = [row["pulse"] for rows in wards.rows.values() for row in rows]
    found = next(column for column in schema["columns"] if column["name"] == "pulse")
    np.testing.assert_allclose([found["centre"], found["divisor"]], [np.mean(pulse), np.std(pulse)])
    assert all(json.loads((run / "model" / f"{name}.json").read_text())["schema"] == schema for name in NAMES)
    assert tacit("predict", run, wards.folder / "south.csv").err == ""
    plan = tacit("plan", wards.folder / "wards.toml")
    assert "7 columns" in plan.out
    assert "the files were read, as their rows are not protected" in plan.out


@pytest.mark.parametrize("seed", range(3))
def test_no_order_changes_the_model(wards: Wards, tacit: Any, seed: int) -> None:
    one, two = wards.folder / "one", wards.folder / "two"
    assert tacit("train", wards.write(), "--out", one).code == 0
    assert tacit("train", wards.write(random.Random(seed)), "--out", two).code == 0
    assert_close(joint(one), joint(two))
    assert_close(model(one, *NAMES), model(two, *NAMES))
    new = wards.new()
    assert_close(by_row(tacit("predict", one, new).out), by_row(tacit("predict", two, new).out))


def test_under_privacy_constants_must_be_given_once(wards: Wards, tacit: Any, refused: Any) -> None:
    wards.head = "[privacy]\nepsilon = 5\nrow_norm = 2"
    run = wards.folder / "run"
    assert 'column "ward" holds categories' in refused("train", wards.write(), "--out", run)
    wards.first = PUBLIC.replace("ward", "wrad")
    assert 'columns names "wrad" (did you mean "ward"?)' in refused("train", wards.write(), "--out", run)
    wards.first = PUBLIC.replace("age = { low = 0, high = 100 }", "")
    assert 'party "east": column "age" has blanks' in refused("train", wards.write(), "--out", run)
    wards.first = PUBLIC
    answer = tacit("train", wards.write(), "--out", run)
    assert answer.code == 0, answer.err
    assert list(joint(run)) == ["age", "pulse", "ward=a", "ward=b", "ward=other", "constant"]
    assert "shared between" not in answer.out
    assumed = json.loads((run / "certificate.json").read_text())["assumptions"]
    assert any("the encoding of north, east, south" in text and "are public" in text for text in assumed)
    assert json.loads(tacit("plan", wards.folder / "wards.toml", "--json").out)["sizes"]["columns"] == 5


def test_parties_that_disagree_are_refused(wards: Wards, refused: Any) -> None:
    path, out = wards.write(), ("--out", wards.folder / "run")
    path.write_text(path.read_text() + 'columns = { ward = { kind = "category" } }\n')
    text = path.read_text()
    path.write_text(text.replace('label = "ill"\n', 'label = "ill"\ncolumns = { ward = { buckets = 3 } }\n', 1))
    assert 'parties "north" and "south" say different things about column "ward"' in refused("train", path, *out)
    path.write_text(text.replace('label = "ill"\n', 'label = "ill"\npositive = 0\n', 1) + "positive = 1\n")
    assert "the parties choose different labels as positive, 0, 1" in refused("train", path, *out)
    wards.rows["east"] = [{**row, "ward": 7} for row in wards.rows["east"]]
    assert '"ward" is a category at party "north" and a number at party "east"' in refused("train", wards.write(), *out)


def test_one_party_chooses_the_positive_label(wards: Wards, tacit: Any) -> None:
    wards.first = "positive = 0\n"
    assert "0 is positive, 1 negative" in tacit("train", wards.write(), "--out", wards.folder / "run").out
    assert json.loads((wards.folder / "run" / "model" / "joint.json").read_text())["classes"] == [1, 0]
