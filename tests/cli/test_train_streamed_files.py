"""`tacit train --memory` with scaled columns and with LIBSVM files: the model of a run in memory, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from tacit.data import rows_on_disk, streamed_files
from tests.cli.test_train_streamed import Pair, model_of

ROWS = 2000
LIBSVM_JOB = """
[job]
tol = 1e-8
[model]
alpha = 1e-3
{model}
[[party]]
name = "bank"
data = "bank.svm"
label = "label"
[[party]]
name = "shop"
data = "shop.svm"
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(rows_on_disk, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr("tacit.data.streamed_files.BATCH_ROWS", 300)
    monkeypatch.setattr("tacit.data.streamed_files.TEXT_BYTES", 5000)


def train_both(tacit: Any, job: Path) -> tuple[Path, Path]:
    """Train in memory and on disk, and compare the models."""
    held, on_disk = job.parent / "held", job.parent / "on_disk"
    assert tacit("train", job, "--out", held).code == 0
    assert tacit("train", job, "--out", on_disk, "--memory", "600MB").code == 0
    np.testing.assert_allclose(model_of(on_disk), model_of(held), rtol=0, atol=1e-10)
    results = [json.loads((run / "result.json").read_text()) for run in (held, on_disk)]
    assert abs(results[0]["objective"] - results[1]["objective"]) < 1e-12
    return held, on_disk


def scores(tacit: Any, run: Path, *files: Path) -> Any:
    assert tacit("predict", run, *files, "--out", run / "scores.csv").code == 0
    return np.loadtxt(run / "scores.csv", delimiter=",", skiprows=1)


# --- scales ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encode", ["", 'scale = "range"', 'scale = "none"'])
def test_scaled_columns(tmp_path: Path, tacit: Any, encode: str) -> None:
    """Rows that the other party lacks count in no scale, and new rows are scaled by the constants of the run."""
    pair = Pair(tmp_path)
    pair.bank["a1"] = 5e4 + 100 * pair.bank["a1"]
    pair.bank["a2"] = np.full(pair.rows, 7.0)
    pair.shop["b0"] = pair.shop["b0"].astype(np.float32)
    pair.shop["b1"][: pair.rows // 2] *= 50  # of which some are dropped
    pair.shop = {name: values[200:] for name, values in pair.shop.items()}
    small = 'alpha = 1e-3\nloss = "squared"' if "none" in encode else "alpha = 1e-3"
    held, on_disk = train_both(tacit, pair.write("tol = 1e-9", small, encode=encode))
    parts = [json.loads((run / "model" / "bank.json").read_text()) for run in (held, on_disk)]
    ours, theirs = (part["schema"] for part in parts[::-1])
    assert [column["name"] for column in ours["columns"]] == ["a0", "a1", "a2", "a3"]
    for one, other in zip(ours["columns"], theirs["columns"], strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert value == (pytest.approx(other[key], rel=1e-12) if isinstance(value, float) else other[key])
    assert ours["unused"] == theirs["unused"]
    files = [pair.folder / f"{name}.parquet" for name in ("bank", "shop")]
    one, other = (scores(tacit, run, *files) for run in (held, on_disk))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


def test_the_summary_says_what_was_encoded(tmp_path: Path, tacit: Any) -> None:
    pair = Pair(tmp_path)
    pair.bank["a2"] = np.full(pair.rows, 7.0)
    job = pair.write(encode="")
    answers = [
        tacit("train", job, "--out", tmp_path / name, *more)
        for name, more in (("held", ()), ("on_disk", ("--memory", "600MB")))
    ]
    lines = [[line for line in answer.out.splitlines() if "4 numbers" in line or '"a2"' in line] for answer in answers]
    assert lines[0] == lines[1] != []


# --- LIBSVM files ------------------------------------------------------------------------------------


def write_libsvm(folder: Path, model: str = "") -> Path:
    rng = np.random.RandomState(4)
    X = rng.normal(size=(ROWS, 60)) * (rng.rand(ROWS, 60) < 0.1)
    Z = 1 + rng.normal(size=(ROWS, 5))
    y = np.where(X @ rng.normal(size=60) + Z @ rng.normal(size=5) + rng.logistic(size=ROWS) > 0.5, 1, -1)
    dump_svmlight_file(sparse.csr_matrix(X), y, str(folder / "bank.svm"), zero_based=False)
    dump_svmlight_file(sparse.csr_matrix(Z), np.zeros(ROWS), str(folder / "shop.svm"), zero_based=False)
    (folder / "pair.toml").write_text(LIBSVM_JOB.format(model=model))
    return folder / "pair.toml"


@pytest.mark.parametrize("model", ["", "fit_intercept = false", 'loss = "squared_hinge"', 'loss = "squared"'])
def test_libsvm_files(tmp_path: Path, tacit: Any, model: str) -> None:
    """One party is sparse on disk, the other dense; neither is scaled, as in memory."""
    held, on_disk = train_both(tacit, write_libsvm(tmp_path, model))
    files = [tmp_path / f"{name}.svm" for name in ("bank", "shop")]
    one, other = (scores(tacit, run, *files) for run in (held, on_disk))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


def test_plan_looks_at_sizes_alone(tmp_path: Path, tacit: Any) -> None:
    job = write_libsvm(tmp_path)
    job.write_text(job.read_text().replace("[job]", '[job]\nmemory = "600MB"'))
    assert "2000 rows; bank 60 columns and the labels, shop 5 columns" in tacit("plan", job).out


def test_wide_columns_count(tmp_path: Path, refused: Any) -> None:
    """A matrix with a number for every two columns of a party is kept: what would exceed the amount is refused."""
    job = write_libsvm(tmp_path)
    lines = (tmp_path / "bank.svm").read_text().splitlines()
    (tmp_path / "bank.svm").write_text("\n".join([f"{lines[0]} 5000:1", *lines[1:]]))
    said = refused("train", job, "--out", tmp_path / "run", "--memory", "1GB")
    assert "too little for 2000 rows of 2 parties, the widest with 5000 columns: give at least 1.91 GB" in said


def test_many_columns_of_parquet_count_while_they_are_read(tmp_path: Path, refused: Any) -> None:
    pair = Pair(tmp_path)
    pair.bank |= {f"c{j}": np.arange(pair.rows) * 0.1 for j in range(4)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streamed_files, "CHUNKS", 10_000)
        patched.setattr(streamed_files, "PAGE_BYTES", 50_000_000)
        job = pair.write('memory = "600MB"')
        for words in (("train", job, "--out", tmp_path / "run"), ("plan", job)):
            assert "the widest with 8 columns: give at least 8" in refused(*words)


# --- memory ------------------------------------------------------------------------------------------

MEASURED = """
import resource, sys
from tacit.cli.main import main
code = main(sys.argv[1:])
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(job: Path, memory: str) -> int:
    """Bytes at the peak of a process that trains; it is started by a small one, whose peak Linux carries over."""
    words = [sys.executable, "-c", MEASURED, "train", str(job), "--out", str(job.parent / "run"), "--memory", memory]
    start = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)", *words]
    done = subprocess.run([*start, "--quiet"], capture_output=True, text=True, check=True)
    code, kilobytes = done.stdout.split()
    assert code == "0"
    return 1024 * int(kilobytes)


def test_peak_with_libsvm_files_is_below_what_was_stated(tmp_path: Path) -> None:
    """Trained in memory these files take 1.0 GB; libraries and buffers are most of what they take here."""
    job, rng = tmp_path / "pair.toml", np.random.RandomState(0)
    job.write_text(LIBSVM_JOB.format(model="").replace("tol = 1e-8", "rounds = 3"))
    for name in ("bank", "shop"):
        lines = (f"{label} {' '.join(f'{j}:{rng.randint(10)}' for j in range(1, 61, 2))}" for label in [0, 1] * 500)
        (tmp_path / f"{name}.svm").write_text(("\n".join(lines) + "\n") * 200)
    assert peak(job, "550MB") < 550e6


def test_peak_with_scaled_columns_is_below_what_was_stated(tmp_path: Path) -> None:
    """Trained in memory these files take 740 MB."""
    pair = Pair(tmp_path, 200_000)
    pair.shop |= {f"c{j}": np.random.RandomState(j).normal(size=pair.rows) for j in range(40)}
    job = pair.write("rounds = 3", encode="")
    assert peak(job, "550MB") < 550e6
