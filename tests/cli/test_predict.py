"""`tacit predict`: the same predictions as in Python, and refusals of damaged runs."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import VerticalClassifier, VerticalRegressor


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def trained(files: Any, tacit: Any) -> Path:
    """A finished run of the two parties."""
    assert tacit("train", files.write(), "--out", files.folder / "run", "--quiet").code == 0
    return Path(files.folder / "run")


def paths(files: Any) -> list[Path]:
    return [files.folder / "bank.csv", files.folder / "shop.csv"]


def test_predictions_equal_those_of_the_estimator(files: Any, tacit: Any) -> None:
    files.encode = 'scale = "none"'
    trained = files.folder / "run"
    assert tacit("train", files.write(), "--out", trained, "--quiet").code == 0
    model = VerticalClassifier(alpha=0.01).fit([files.X[:, :3], files.X[:, 3:]], files.y)
    blocks = [files.X[:, :3], files.X[:, 3:]]
    files.write(shuffle=5)
    answer = tacit("predict", trained, *paths(files))
    rows = read(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert [row["customer"] for row in rows] == [f"c{number:04d}" for number in range(files.rows)]
    np.testing.assert_allclose([float(row["score"]) for row in rows], model.decision_function(blocks), rtol=1e-9)
    assert [row["prediction"] for row in rows] == model.predict(blocks).tolist()
    probability = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(probability, model.predict_proba(blocks)[:, 1], rtol=1e-9)


def test_files_by_party_name_in_any_order(files: Any, tacit: Any, trained: Path) -> None:
    bank, shop = paths(files)
    assert tacit("predict", trained, f"shop={shop}", f"bank={bank}").out == tacit("predict", trained, bank, shop).out


def test_out_writes_the_same_to_a_file(files: Any, tacit: Any, trained: Path) -> None:
    expected = tacit("predict", trained, *paths(files)).out
    answer = tacit("predict", trained, *paths(files), "--out", files.folder / "scores.csv")
    assert answer.out == f"{files.rows} predictions in {files.folder / 'scores.csv'}\n"
    assert (files.folder / "scores.csv").read_text() == expected
    assert not list(files.folder.glob(".writing-*"))


def test_rows_that_one_party_lacks_are_left_out_and_said(files: Any, tacit: Any, trained: Path) -> None:
    files.shop = {name: values[3:] for name, values in files.shop.items()}
    files.write()
    answer = tacit("predict", trained, *paths(files))
    assert len(read(answer.out)) == files.rows - 3
    assert answer.err == "tacit: rows without a match at another party were left out: bank 3 rows\n"


def test_labels_are_not_needed(files: Any, tacit: Any, trained: Path) -> None:
    del files.bank["default"]
    files.write()
    assert tacit("predict", trained, *paths(files)).code == 0


def test_regression_predicts_numbers_by_row(files: Any, tacit: Any) -> None:
    y = files.X @ np.arange(7.0)
    files.bank["default"] = y.tolist()
    files.bank_keys, files.shop_keys, files.model = 'label = "default"', "", 'loss = "squared"\nalpha = 0.01'
    files.encode = 'scale = "none"'
    del files.bank["customer"], files.shop["customer"]
    assert tacit("train", files.write(), "--out", files.folder / "run").code == 0
    rows = read(tacit("predict", files.folder / "run", *paths(files)).out)
    blocks = [files.X[:, :3], files.X[:, 3:]]
    expected = VerticalRegressor(alpha=0.01).fit(blocks, y).predict(blocks)
    assert list(rows[0]) == ["row", "score", "prediction"]
    assert [row["row"] for row in rows] == [str(number) for number in range(1, files.rows + 1)]
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], expected, rtol=1e-9)


def test_counts_are_exp_of_the_score(files: Any, tacit: Any) -> None:
    files.bank["default"] = np.random.RandomState(0).poisson(2.0, size=files.rows).tolist()
    files.model = 'loss = "poisson"\nalpha = 0.01'
    assert tacit("train", files.write(), "--out", files.folder / "run").code == 0
    rows = read(tacit("predict", files.folder / "run", *paths(files)).out)
    np.testing.assert_allclose([float(r["prediction"]) for r in rows], np.exp([float(r["score"]) for r in rows]))


# --- refusals ----------------------------------------------------------------------------------------


def test_wrong_data_arguments(files: Any, refused: Any, trained: Path) -> None:
    bank, shop = paths(files)
    assert "1 data file for 2 parties" in refused("predict", trained, bank)
    assert 'did you mean "bank"?' in refused("predict", trained, f"bnak={bank}", f"shop={shop}")
    assert "name the party of each" in refused("predict", trained, f"bank={bank}", shop)
    assert "two files" in refused("predict", trained, f"bank={bank}", f"bank={shop}")
    assert 'no file for party "shop"' in refused("predict", trained, f"bank={bank}")
    assert "there is no file" in refused("predict", trained, bank, files.folder / "nowhere.csv")
    assert 'has no columns "b0"' in refused("predict", trained, shop, bank)
    assert "cannot write" in refused("predict", trained, bank, shop, "--out", files.folder)


def test_no_run_and_unfinished_run(files: Any, refused: Any, trained: Path) -> None:
    assert "there is no run in" in refused("predict", files.folder / "nowhere", *paths(files))
    (trained / "result.json").unlink()
    assert "is not finished" in refused("predict", trained, *paths(files))


@pytest.mark.parametrize("name", ["result.json", "model/joint.json", "model/bank.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b"\xff\xfe", b'{"format": NaN}', b"[" * 100_000])
def test_garbled_file_is_named(files: Any, refused: Any, trained: Path, name: str, content: bytes) -> None:
    (trained / name).write_bytes(content)
    assert name in refused("predict", trained, *paths(files))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("bank", "coef", [1.0, 2.0]),
        ("bank", "coef", [1.0, 2.0, None]),
        ("bank", "coef", [1.0, 2.0, "nan"]),
        ("bank", "coef", [1.0, 2.0, True]),
        ("bank", "coef", [1.0, 2.0, 10**400]),
        ("bank", "coef", "abc"),
        ("bank", "columns", ["b0", "b0", "b1"]),
        ("bank", "columns", "abc"),
        ("bank", "offset", None),
        ("bank", "id", 7),
        ("bank", "party", "shop"),
        ("joint", "classes", ["no"]),
        ("joint", "classes", ["no", "no"]),
        ("joint", "constant", "1"),
        ("joint", "loss", "nonsense"),
        ("joint", "task", "regression"),
        ("joint", "parties", []),
        ("joint", "parties", ["../bank", "shop"]),
        ("joint", "parties", ["bank", "nobody"]),
    ],
)
def test_wrong_value_is_named(files: Any, refused: Any, trained: Path, name: str, key: str, value: Any) -> None:
    path = trained / "model" / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert str(trained) in refused("predict", trained, *paths(files))


@pytest.mark.parametrize("name", ["result.json", "model/joint.json", "model/bank.json", "model/shop.json"])
def test_damaged_bytes_never_end_in_a_traceback(files: Any, tacit: Any, trained: Path, name: str) -> None:
    rng = random.Random(name)
    path = trained / name
    good = path.read_bytes()
    for _ in range(50):
        bad = bytearray(good)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        for _ in range(rng.choice([0, 1, 1, 3]) if bad else 0):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bytes(bad))
        answer = tacit("predict", trained, *paths(files))
        assert answer.code in (0, 2), (answer, bytes(bad))
        assert answer.code == 0 or answer.err.count("\n") == 1
    path.unlink()
    assert tacit("predict", trained, *paths(files)).code == 2
