"""A job from Python: `run_job` leaves what `tacit train` leaves, and `load` gives it back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tacit
from tacit import InputError, RunError, load, run_job
from tacit.cli.main import main
from tacit.job import read_job
from tacit.run.star import InProcess
from tests.cli.conftest import Files
from tests.cli.wards import Nodes

SECONDS = re.compile(r'"seconds": *[-+.e0-9]+')


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    files.job = "holdout = 0.25"
    return files


def contents(folder: Path) -> dict[str, str]:
    """Every file of a run but how long it took, and paths, which follow from the folder's own."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): SECONDS.sub("", path.read_text()) for path in found}


@pytest.mark.parametrize("make", [Files, Nodes])
def test_leaves_what_the_command_line_leaves(tmp_path: Path, make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = make(tmp_path)
    data.job = "holdout = 0.25"
    path = data.write()
    assert main(["train", str(path), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    run = run_job(path, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert run.path == tmp_path / "two"
    said = capsys.readouterr()
    assert said.out + said.err == ""


def test_a_private_run(files: Files) -> None:
    files.privacy = 'epsilon = 2\nrow_norm = 1.0\nprotect = "everyone"\npredictions = "label-holder"'
    files.encode = 'scale = "none"'
    run = run_job(files.write(), files.folder / "run")
    assert run.certificate.private
    assert run.certificate == load(run.path).certificate
    with pytest.warns(UserWarning, match="these predictions must stay with bank"):
        run.predict([files.folder / "bank.csv", files.folder / "shop.csv"])


def test_rounds_and_remarks_are_passed_on(files: Files) -> None:
    files.job, rows, notes = "rounds = 2\ntol = 1e-12", [], []
    run = run_job(read_job(files.write()), files.folder / "run", observe=rows.append, note=notes.append)
    assert [row.round for row in rows] == [row.round for row in run.trace] == [1, 2]
    assert [note[:40] for note in notes] == ["not converged: the stopping rule (tol = "]
    with pytest.warns(UserWarning, match="not converged"):
        run_job(files.folder / "credit.toml", files.folder / "again")


def test_the_folder_follows_from_the_name(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files.folder)
    assert run_job(files.write()).path == Path("runs/credit")


def test_goes_on_where_it_was_stopped(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    path, exchange, count = files.write(), InProcess.exchange, 0

    def stopping(self: Any, message: Any) -> Any:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return exchange(self, message)

    with monkeypatch.context() as patched:
        patched.setattr(InProcess, "exchange", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_job(path, files.folder / "run", checkpoint_every=0)
    whole = run_job(path, files.folder / "whole")
    assert run_job(path, files.folder / "run", resume=True).coef == whole.coef
    before = contents(files.folder / "run")
    assert run_job(path, files.folder / "run", resume=True).coef == whole.coef  # finished: read, and not run again
    assert contents(files.folder / "run") == before


def test_coefficients_and_predictions(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_job(files.write(), files.folder / "run")
    saved = json.loads((run.path / "model" / "shop.json").read_text())
    assert list(run.coef) == ["bank", "shop"]
    assert run.coef["shop"] == dict(zip(saved["columns"], saved["coef"], strict=True))
    paths = {name: files.folder / f"{name}.csv" for name in ("shop", "bank")}
    assert main(["predict", str(run.path), str(paths["bank"]), str(paths["shop"])]) == 0
    printed = pd.read_csv(pa.BufferReader(capsys.readouterr().out.encode()))
    frames = {"bank": pd.read_csv(paths["bank"]).drop(columns="default"), "shop": pa.csv.read_csv(paths["shop"])}
    for rows in (paths, [paths["bank"], str(paths["shop"])], frames):
        found = run.predict(rows)
        np.testing.assert_allclose(found.score, printed["score"], rtol=1e-12)
        assert found.prediction == printed["prediction"].tolist()
        assert found.ids is not None
        assert found.ids.tolist() == printed["customer"].tolist()
    linear = run.intercept + sum(
        frame[column].to_numpy() * value
        for name, coef in run.coef.items()
        for column, value in coef.items()
        for frame in [standardized(run, name, pd.read_csv(paths[name]))]
    )
    np.testing.assert_allclose(linear, found.score, atol=1e-9)


def standardized(run: Any, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The encoded columns of a file of numbers, by the run's own encoder."""
    place = [party.name for party in run.model.parties].index(name)
    encoder = run.model.encoders[place]
    from tacit.data.read import frame_table

    return pd.DataFrame(encoder.matrix(frame_table(frame, name)), columns=encoder.names)


def test_a_model_of_whole_rows(tmp_path: Path) -> None:
    wards = Nodes(tmp_path)
    run = run_job(wards.write(), tmp_path / "run")
    assert list(run.coef) == ["all parties"]
    by_file = run.predict(tmp_path / "east.csv")
    by_frame = run.predict(pd.read_csv(tmp_path / "east.csv"))
    np.testing.assert_array_equal(by_file.score, by_frame.score)
    assert by_file.prediction == by_frame.prediction


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"bank": "bank.csv", "shopp": "shop.csv"}, r'no party "shopp" .did you mean "shop"'),
        ({"bank": "bank.csv"}, 'no rows of party "shop"'),
        (["bank.csv"], "1 data file for 2 parties"),
        ([3, 4], 'party "bank": its rows are a int: give a path or a data frame'),
        ([pd.DataFrame({"customer": []}), "shop.csv"], 'party "bank": .* has no rows'),
    ],
)
def test_refuses_other_rows(files: Files, monkeypatch: pytest.MonkeyPatch, rows: Any, said: str) -> None:
    monkeypatch.chdir(files.folder)
    run = run_job(files.write())
    with pytest.raises(InputError, match=said):
        run.predict(rows)


def test_refuses_what_cannot_be_run(files: Files) -> None:
    path = files.write()
    with pytest.raises(InputError, match="checkpoint_every -1 is not allowed"):
        run_job(path, checkpoint_every=-1)
    with pytest.raises(InputError, match=r'^memory "much" is not allowed'):
        run_job(path, memory="much")
    with pytest.raises(InputError, match=r"^dask does not go with holdout"):
        run_job(path, dask="tcp://127.0.0.1:1")
    files.job = 'engine = "flare"'
    with pytest.raises(InputError, match="run_job trains in this process"):
        run_job(files.write())
    with pytest.raises(InputError, match="there is no run"):
        load(files.folder)


def test_a_run_that_fails_leaves_no_model(files: Files) -> None:
    files.model, files.encode = 'loss = "poisson"\nalpha = 0.0001', 'scale = "none"'
    files.bank["default"] = [10 ** (number % 9) for number in range(files.rows)]
    files.job = "rounds = 1"
    with pytest.warns(UserWarning, match="not converged"):
        assert not run_job(files.write(), files.folder / "run").result["converged"]
    files.model = 'loss = "sigmoid"\nmethod = "sgd"\nalpha = 0.01'
    files.bank["default"] = files.y.tolist()
    files.bank["b0"] = [1e200] * files.rows
    with pytest.raises((InputError, RunError)):
        run_job(files.write(), files.folder / "other")
    assert not (files.folder / "other" / "model").exists()


def test_both_are_public() -> None:
    assert {"load", "run_job"} <= set(tacit.__all__)
