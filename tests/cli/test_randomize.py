"""`tacit randomize`: flips at the stated rate, keeps all else, says nothing about labels, and refuses to flip twice."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tacit.cli.randomize import flip
from tacit.data.randomized import read_label_file
from tacit.privacy.randomness import NoiseSource

EPSILON = "default_randomized_epsilon"


def write(path: Path, rows: int = 400, label: str = "default") -> Path:
    lines = [f"id,income,{label}"]
    lines += [f'{i:05d},"{i},50",{"yes" if i % 3 else "no"}' for i in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: Path, key: str = "id") -> list[dict[str, str]]:
    """The rows in the order of a column."""
    with open(path, newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: row[key])


def test_keeps_all_but_the_labels(tacit: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv")
    answer = tacit("randomize", path, "--label", "default", "--epsilon", 1)
    assert (answer.code, answer.err) == (0, "")
    old, new = read(path), read(tmp_path / "people.randomized.csv")
    assert [(row["id"], row["income"]) for row in old] == [(row["id"], row["income"]) for row in new]
    assert {row[EPSILON] for row in new} == {"1.0"}
    flips = np.mean([a["default"] != b["default"] for a, b in zip(old, new, strict=True)])
    expected = 1 / (1 + math.e)
    assert abs(flips - expected) < 5 * math.sqrt(expected * (1 - expected) / 400)


def test_says_one_line_without_labels_or_their_numbers(tacit: Any, tmp_path: Path) -> None:
    answer = tacit("randomize", write(tmp_path / "p.csv"), "--label", "default", "--epsilon", 0.5)
    assert answer.out.count("\n") == 1
    assert "400 labels randomized at epsilon 0.5" in answer.out
    assert f"never {tmp_path / 'p.csv'}" in answer.out
    assert not {"yes", "no", "133", "134", "266", "267"} & set(answer.out.replace(".", " ").replace(",", " ").split())


def test_both_kinds_are_flipped_alike(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("x,y\n" + "1,a\n" * 20000 + "1,b\n" * 20000)
    file = read_label_file(path, "y", epsilon=1.5)
    changed = flip(file, NoiseSource(seed=3)) != file.signs
    for half in (changed[:20000], changed[20000:]):
        assert half.mean() == pytest.approx(1 / (1 + math.exp(1.5)), abs=0.012)


def test_each_row_has_the_epsilon_of_its_column_and_blanks_the_common_one(tacit: Any, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("x,y,wish\n" + "".join(f"{i:05d},{'ab'[i % 2]},{('0.1', '', 20)[i % 3]}\n" for i in range(6000)))
    assert tacit("randomize", path, "--label", "y", "--epsilon", 10, "--epsilon-column", "wish").code == 0
    old, new = read(path, "x"), read(tmp_path / "p.randomized.csv", "x")
    assert list(new[0]) == ["x", "y", "y_randomized_epsilon"]  # the wish stands there, and must be no feature
    assert [row["y_randomized_epsilon"] for row in new[:3]] == ["0.1", "10.0", "20.0"]
    flips = [np.mean([a["y"] != b["y"] for a, b in zip(old[k::3], new[k::3], strict=True)]) for k in range(3)]
    assert flips[0] == pytest.approx(1 / (1 + math.exp(0.1)), abs=0.06)
    assert flips[1] < 0.01
    assert flips[2] == 0


def test_parquet_keeps_types_and_gzip_stays_gzip(tacit: Any, tmp_path: Path) -> None:
    data = pa.table({"x": pa.array([1, 2, 3], pa.int16()), "y": pa.array([False, True, True])})
    pyarrow.parquet.write_table(data, tmp_path / "p.parquet")
    assert tacit("randomize", tmp_path / "p.parquet", "--label", "y", "--epsilon", 30).code == 0
    new = pyarrow.parquet.read_table(tmp_path / "p.randomized.parquet")
    assert new.schema.field("x").type == pa.int16()
    assert new.select(["x", "y"]).sort_by("x").equals(data)
    assert new["y_randomized_epsilon"].to_pylist() == [30.0] * 3
    (tmp_path / "q.csv.gz").write_bytes(gzip.compress(b"x,y\n1,1\n2,0\n"))
    assert tacit("randomize", tmp_path / "q.csv.gz", "--label", "y", "--epsilon", 40).code == 0
    lines = gzip.decompress((tmp_path / "q.randomized.csv.gz").read_bytes()).splitlines()
    assert lines[0] == b"x,y,y_randomized_epsilon"
    assert sorted(lines[1:]) == [b"1,1,40.0", b"2,0,40.0"]


def test_order_of_the_rows_says_nothing(tacit: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y\n" + "0,a\n" * 500 + "0,b\n" * 500)
    assert tacit("randomize", tmp_path / "p.csv", "--label", "y", "--epsilon", 50).code == 0  # no label is flipped
    lines = (tmp_path / "p.randomized.csv").read_text().splitlines()[1:]
    first = sum(line.split(",")[1] == "a" for line in lines[:500])
    assert 150 < first < 350  # sorted as it came, it would be 500


def test_one_person_names_both_kinds(tacit: Any, refused: Any, tmp_path: Path) -> None:
    path = tmp_path / "me.csv"
    path.write_text("x,y\n3,yes\n")
    line = refused("randomize", path, "--label", "y", "--epsilon", 1)
    assert "--classes A,B" in line
    assert "yes" not in line
    assert tacit("randomize", path, "--label", "y", "--epsilon", 1, "--classes", "no,yes").code == 0
    assert read(tmp_path / "me.randomized.csv", "x")[0]["y"] in ("no", "yes")


REFUSALS = [
    ("x,y\n1,a\n2,b\n3,c\n", ["--label", "y", "--epsilon", "1"], "more than two kinds of labels"),
    ("x,y\n1,a\n2,b\n", ["--label", "z", "--epsilon", "1"], 'has no column "z"'),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "0"], '--epsilon "0" is not allowed'),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "-1"], '--epsilon "-1" is not allowed'),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "nan"], '--epsilon "nan" is not allowed'),
    ("x,y\n1,a\n2,b\n", ["--label", "y"], "give --epsilon, or --epsilon-column"),
    ("x,y\n1,a\n2,\n", ["--label", "y", "--epsilon", "1"], "row 2 has no label"),
    ("x,y,e\n1,a,1\n2,b,0\n", ["--label", "y", "--epsilon-column", "e"], "the epsilon of row 2 is 0"),
    ("x,y,e\n1,a,1\n2,b,\n", ["--label", "y", "--epsilon-column", "e"], "the epsilon of row 2 is blank"),
    ("x,y,e\n1,a,1\n2,b,q\n", ["--label", "y", "--epsilon-column", "e"], '"e" does not hold numbers'),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "1", "--classes", "a,c"], "row 2 is none of the two"),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "1", "--out", "p.parquet"], "of another kind"),
    ("x,y\n1,a\n2,b\n", ["--label", "y", "--epsilon", "1", "--out", "p.csv"], "is there already"),
]


@pytest.mark.parametrize(("text", "words", "expected"), REFUSALS)
def test_refusals(
    refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(text)
    words = [f"--epsilon={word}" if before == "--epsilon" else word for before, word in zip(["", *words], words)]  # noqa: B905
    assert expected in refused("randomize", "p.csv", *(word for word in words if word != "--epsilon"))
    assert Path("p.csv").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_never_twice(tacit: Any, refused: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", rows=5)
    assert tacit("randomize", path, "--label", "default", "--epsilon", 1).code == 0
    before = (tmp_path / "p.randomized.csv").read_bytes()
    assert "is there already" in refused("randomize", path, "--label", "default", "--epsilon", 1)
    again = refused("randomize", tmp_path / "p.randomized.csv", "--label", "default", "--epsilon", 1)
    assert "randomized already" in again
    assert f'"{EPSILON}"' in again
    assert (tmp_path / "p.randomized.csv").read_bytes() == before


def test_a_svm_file_has_no_place_for_the_epsilon(refused: Any, tmp_path: Path) -> None:
    (tmp_path / "p.svm").write_text("1 1:2\n-1 1:3\n")
    assert "no place for the epsilon" in refused("randomize", tmp_path / "p.svm", "--label", "label", "--epsilon", 1)


def test_the_feature_split_does_not_take_epsilons_for_a_feature(files: Any, refused: Any) -> None:
    files.bank["default_randomized_epsilon"] = [1.0] * files.rows
    assert 'split = "features" cannot use' in refused("train", files.write(), "--out", files.folder / "run")
