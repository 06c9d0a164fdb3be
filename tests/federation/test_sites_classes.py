"""More than two classes between sites: the model and the predictions of one process, in both splits."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.protocol import Answer
from tacit.federation.score_handler import PredictionRequest
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

RUN, PREDICT, CLASSES = "run-00000001", "predict-0001", 3


def write_columns(folder: Path) -> dict[str, Path]:
    """Three parties with columns of the same rows, each in its own order; "small" is rare."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(70, 5))
    size = np.array(["small", "middle", "large"])[np.digitize(features.sum(axis=1) + rng.normal(size=70), [-2, 1])]
    parts = {"bank": (0, 2), "shop": (2, 4), "phone": (4, 5)}
    files = {}
    for name, (first, last) in parts.items():
        head = ["customer", *(f"x{j}" for j in range(first, last)), *(["size"] if name == "bank" else [])]
        lines = [
            [f"c{i:03d}", *map(repr, features[i, first:last].tolist()), *([size[i]] if name == "bank" else [])]
            for i in rng.permutation(70)
        ]
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join(",".join(line) for line in [head, *lines]) + "\n")
    return files


def write_rows(folder: Path) -> dict[str, Path]:
    """Three nodes with rows of the same columns; the last one alone has rows of class 2."""
    rng = np.random.default_rng(6)
    files = {}
    for k in range(3):
        features = rng.normal(size=(40, 3))
        labels = np.digitize(features[:, 0] + 0.5 * rng.normal(size=40), [-0.4] if k < 2 else [-0.4, 0.6])
        path = files[f"node{k}"] = folder / f"node{k}.csv"
        rows = [",".join([*map(repr, row), str(y)]) for row, y in zip(features.tolist(), labels, strict=True)]
        path.write_text("\n".join(["a,b,c,y", *rows]) + "\n")
    return files


def job_text(files: dict[str, Path], engine: str, split: str, top: str = "", more: str = "") -> str:
    lines = [f'[job]\nengine = "{engine}"\nsplit = "{split}"', top, f"[model]\nclasses = {CLASSES}\nalpha = 0.01", more]
    lines += ['[encode]\nscale = "none"\n[graph]\nkind = "ring"'] if split == "samples" else []
    for k, (name, path) in enumerate(files.items()):
        keys = 'label = "y"' if split == "samples" else 'id = "customer"' + ('\nlabel = "size"' if k == 0 else "")
        lines.append(f'[[party]]\nname = "{name}"\n{keys}')
        lines += [] if engine == "flare" else [f'data = "{path}"']
    return "\n".join(lines) + "\n"


def in_process(folder: Path, files: dict[str, Path], split: str, **parts: str) -> Path:
    job = folder / "job.toml"
    job.write_text(job_text(files, "in-process", split, **parts))
    assert main(["train", str(job), "--out", str(folder / "one"), "--quiet"]) == 0
    return folder / "one"


def part(folder: Path, name: str) -> np.ndarray:
    record = json.loads((folder / "model" / f"{name}.json").read_text())
    assert np.shape(record["coef"]) == (CLASSES, len(record["columns"]))
    return np.append(np.ravel(record["coef"]), record["offset"])


def read(text: str) -> dict[str, list[float]]:
    rows = list(csv.DictReader(text.splitlines()))
    return {row["customer"]: [float(row[f"score {name}"]) for name in ("large", "middle", "small")] for row in rows}


@pytest.mark.parametrize("top", ["", "secure_aggregation = true"], ids=["plain", "under masks"])
def test_columns_split_between_sites(tmp_path: Path, top: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = write_columns(tmp_path)
    one = in_process(tmp_path, files, "features", top=top)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", "features", top=top))
    for name in files:
        np.testing.assert_allclose(part(tmp_path / "sites" / name / RUN, name), part(one, name), rtol=0, atol=1e-8)
    joint = json.loads((tmp_path / "sites/bank" / RUN / "model/joint.json").read_text())
    assert joint["classes"] == ["large", "middle", "small"]
    assert joint["loss"] == "softmax"
    asked = [carried.asked.message.arrays for carried in loop.carried if isinstance(carried.asked, Answer)]
    sizes = {tuple(arrays["residual"].shape) for arrays in asked if "residual" in arrays}
    assert sizes == {(70 * CLASSES,)}, "one number for each row and class"
    capsys.readouterr()
    assert main(["predict", str(one), *map(str, files.values())]) == 0
    wanted = read(capsys.readouterr().out)
    loop.run(PredictionRequest(RUN, tuple(files)).to_toml(), PREDICT)
    got = read((tmp_path / "sites/bank" / PREDICT / "predictions.csv").read_text())
    assert got.keys() == wanted.keys()
    np.testing.assert_allclose([got[k] for k in wanted], list(wanted.values()), rtol=0, atol=1e-7)


def test_rows_split_between_sites_where_one_node_alone_has_a_class(tmp_path: Path) -> None:
    files = write_rows(tmp_path)
    one = in_process(tmp_path, files, "samples", top="rounds = 8")
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", "samples", top="rounds = 8"))
    for name in files:
        np.testing.assert_allclose(part(tmp_path / "sites" / name / RUN, name), part(one, name), rtol=0, atol=1e-12)


@pytest.mark.parametrize("label", ["3", "1.5", "many"])
def test_a_node_with_a_label_outside_the_agreed_classes_is_refused(tmp_path: Path, label: str) -> None:
    files = write_rows(tmp_path)
    lines = files["node1"].read_text().splitlines()
    files["node1"].write_text("\n".join([*lines[:-1], lines[-1].rsplit(",", 1)[0] + f",{label}"]) + "\n")
    loop = Loopback(files, tmp_path / "sites")
    with pytest.raises(RunError):
        loop.run(job_text(files, "flare", "samples", top="rounds = 2"))


def test_private_columns_between_sites_and_their_joint_predictions(tmp_path: Path) -> None:
    """Parts as the sites wrote them, multiplied out by hand, are what the sites predict together."""
    pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
    files = write_columns(tmp_path)
    private = '[privacy]\nepsilon = 8\nrow_norm = 1.5\n[encode]\nscale = "none"'
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", "features", more=private))
    loop.run(PredictionRequest(RUN, tuple(files)).to_toml(), PREDICT)
    got = read((tmp_path / "sites/bank" / PREDICT / "predictions.csv").read_text())
    joint = json.loads((tmp_path / "sites/bank" / RUN / "model/joint.json").read_text())
    wanted = {key: np.array(joint["constant"]) for key in got}
    for name, path in files.items():
        record = json.loads((tmp_path / "sites" / name / RUN / "model" / f"{name}.json").read_text())
        assert (record["clip"] is None) == (name == "bank")
        for row in csv.DictReader(path.read_text().splitlines()):
            cells = np.array([float(row[column]) for column in record["columns"]])
            wanted[row["customer"]] = wanted[row["customer"]] + by_hand(cells, record)
    for key, scores in got.items():
        np.testing.assert_allclose(scores, wanted[key], rtol=0, atol=1e-7)


def by_hand(cells: np.ndarray, record: dict) -> np.ndarray:
    """A part's scores of a row, from the definition."""
    coef, offset = np.array(record["coef"]), np.array(record["offset"])
    if record["clip"] is None:
        return coef @ cells - offset
    clip = record["clip"]
    centre = np.array(clip["centre"])
    away = cells * min(1.0, clip["norm"] / np.linalg.norm(cells)) - centre
    return coef @ (centre + away * min(1.0, clip["radius"] / np.linalg.norm(away))) - offset
