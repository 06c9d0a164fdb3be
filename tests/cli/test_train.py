"""`tacit train`: what it writes and says, what it refuses, and that a killed run goes on to the same result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import VerticalClassifier
from tacit.training import noted_interrupts

COMMAND = [sys.executable, "-m", "tacit.cli.main"]


def coefs(run: Path) -> dict[str, Any]:
    return {name: json.loads((run / "model" / f"{name}.json").read_text()) for name in ("bank", "shop")}


def assert_same_model(left: Path, right: Path, rtol: float = 1e-12) -> None:
    for name, model in coefs(left).items():
        other = coefs(right)[name]
        assert model["columns"] == other["columns"]
        np.testing.assert_allclose(model["coef"], other["coef"], rtol=rtol)
    constants = [json.loads((run / "model" / "joint.json").read_text())["constant"] for run in (left, right)]
    np.testing.assert_allclose(constants[0], constants[1], rtol=rtol)


# --- what it writes and says -------------------------------------------------------------------------


def test_writes_a_run_directory(files: Any, tacit: Any) -> None:
    out = files.folder / "run"
    answer = tacit("train", files.write(), "--out", out)
    assert (answer.code, answer.err) == (0, "")
    assert {path.name for path in out.iterdir()} == {
        "job.toml", "plan.json", "trace.jsonl", "model", "certificate.json", "certificate.txt", "result.json",
        "evaluation.json", "run.lock",
    }  # fmt: skip
    result = json.loads((out / "result.json").read_text())
    rows = [json.loads(line) for line in (out / "trace.jsonl").read_text().splitlines()]
    assert result["converged"]
    assert [row["round"] for row in rows] == list(range(1, result["rounds"] + 1))
    assert rows[-1]["epsilon"] == "infinity"
    assert json.loads((out / "plan.json").read_text())["plan"]["method"] == "memory"


def test_model_is_that_of_the_estimator(files: Any, tacit: Any) -> None:
    files.encode = 'scale = "none"'
    tacit("train", files.write(), "--out", files.folder / "run")
    model = VerticalClassifier(alpha=0.01).fit([files.X[:, :3], files.X[:, 3:]], files.y)
    found = coefs(files.folder / "run")
    np.testing.assert_allclose(found["bank"]["coef"], model.coef_by_party_[0], rtol=1e-9)
    np.testing.assert_allclose(found["shop"]["coef"], model.coef_by_party_[1], rtol=1e-9)


def test_order_of_rows_does_not_change_the_model(files: Any, tacit: Any) -> None:
    tacit("train", files.write(), "--out", files.folder / "one")
    tacit("train", files.write(shuffle=3), "--out", files.folder / "two")
    assert_same_model(files.folder / "one", files.folder / "two")


def test_summary_says_what_matters(files: Any, tacit: Any) -> None:
    files.shop = {name: values[2:] for name, values in files.shop.items()}
    answer = tacit("train", files.write(), "--out", files.folder / "run")
    assert "118 matched by id (bank 118 kept, 2 dropped; shop 118 kept, 0 dropped)" in answer.out
    assert "default: yes is positive, no negative" in answer.out
    assert "certified within" in answer.out
    assert "NOT differentially private" in answer.out
    command = answer.out.splitlines()[-1].split()
    assert command[:2] == ["tacit", "predict"]
    assert tacit(*command[1:]).code == 0


def test_quiet_says_nothing(files: Any, tacit: Any) -> None:
    answer = tacit("train", files.write(), "--out", files.folder / "run", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_overwrite_replaces_a_run_and_nothing_else(files: Any, tacit: Any, refused: Any) -> None:
    out, words = files.folder / "run", ("train", files.write(), "--out", files.folder / "run", "--quiet")
    assert tacit(*words).code == 0
    first = coefs(out)
    assert "--overwrite" in refused(*words)
    (out / "notes.txt").write_text("mine")
    files.model = "alpha = 10"
    files.write()
    assert "not allowed with argument" in refused(*words, "--resume", "--overwrite")
    assert tacit(*words, "--overwrite").code == 0
    assert coefs(out)["shop"]["coef"] != first["shop"]["coef"]
    assert (out / "notes.txt").read_text() == "mine"
    stranger = files.folder / "other"
    stranger.mkdir()
    (stranger / "notes.txt").write_text("mine")
    assert "holds other files and no run" in refused(*words[:2], "--out", stranger, "--overwrite")
    assert [path.name for path in stranger.iterdir()] == ["notes.txt"]


def test_a_refused_job_takes_no_run_away(files: Any, tacit: Any, refused: Any) -> None:
    out, words = files.folder / "run", ("train", files.write(), "--out", files.folder / "run", "--quiet")
    assert tacit(*words).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    files.model = 'loss = "gamma"'
    files.write()
    refused(*words, "--overwrite")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_options_that_would_do_nothing_are_refused(files: Any, refused: Any) -> None:
    job = files.write()
    assert "--kit is for training between organisations" in refused("train", job, "--kit", "kit")
    for options in (["--out", "x"], ["--overwrite"], ["--report"], ["--checkpoint-every", "3"]):
        line = refused("train", job, "--engine", "flare", "--kit", "kit", *options)
        assert f"{options[0]} does nothing between organisations" in line


def test_a_job_of_one_party_says_so(files: Any, tacit: Any) -> None:
    job = files.write()
    job.write_text(job.read_text().rpartition("[[party]]")[0])
    assert "(one party: nothing is trained jointly)" in tacit("plan", job).out
    assert "(one party: nothing was trained jointly)" in tacit("train", job, "--out", files.folder / "run").out


def test_names_that_nobody_typed_are_not_said(files: Any, tacit: Any) -> None:
    files.encode = 'scale = "none"'
    for privacy in (None, "epsilon = 4\nrow_norm = 2.0"):
        files.privacy = privacy
        job, out = files.write(), files.folder / f"run-{privacy is None}"
        said = tacit("plan", job).out + tacit("train", job, "--out", out, "--report").out
        assert not {"gram", "memory"} & set(said.replace(":", " ").replace(",", " ").lower().split())
    files.privacy, files.model = None, 'method = "averaged"'
    assert "method      averaged" in tacit("plan", files.write()).out


def test_near_names_are_suggested(files: Any, tacit: Any, refused: Any) -> None:
    job, text = files.write(), files.write().read_text()
    for old, new, near in (
        ('id = "customer"', 'id = "Customer"', "customer"),
        ('label = "default"', 'label = "defualt"', "default"),
        ('data = "bank.csv"', 'data = "bnak.csv"', "bank.csv"),
        ("[[party]]", "[[prty]]", "party"),
    ):
        job.write_text(text.replace(old, new))
        assert f'(did you mean "{near}"?)' in refused("train", job, "--out", files.folder / "run")
    job.write_text(text)
    assert tacit("train", job, "--out", files.folder / "run", "--quiet").code == 0
    paths = [files.folder / "bank.csv", files.folder / "shop.csv"]
    assert '(did you mean "c0' in refused("explain", files.folder / "run", *paths, "--id", "c01O3")


def test_default_directory_is_safe(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files.folder)
    job = files.write()
    job.write_text(job.read_text().replace('"credit"', '"../a b/c"'))
    assert tacit("train", job).code == 0
    assert (files.folder / "runs" / "a-b-c" / "result.json").exists()


def test_not_converged_is_said_and_written(files: Any, tacit: Any) -> None:
    files.job = "rounds = 2\ntol = 1e-12"
    answer = tacit("train", files.write(), "--out", files.folder / "run")
    assert answer.code == 0
    assert answer.err.startswith("tacit: not converged: ")
    assert answer.err.count("\n") == 1
    assert not json.loads((files.folder / "run" / "result.json").read_text())["converged"]
    assert (files.folder / "run" / "model" / "bank.json").exists()


def test_divergence_of_the_published_form_is_exit_1_without_a_model(files: Any, tacit: Any) -> None:
    files.shop |= {f"s{j}": files.bank[f"b{j % 3}"] for j in range(4)}
    files.model = 'loss = "squared"\nmethod = "published"\nrho = 1e-3\nalpha = 1e-6'
    files.bank["default"] = files.X.sum(axis=1).tolist()
    answer = tacit("train", files.write(), "--out", files.folder / "run")
    assert answer.code == 1
    assert "diverges" in answer.err
    assert answer.err.count("\n") == 1
    assert not (files.folder / "run" / "result.json").exists()
    assert not (files.folder / "run" / "model").exists()


def test_constant_column_is_allowed(files: Any, tacit: Any) -> None:
    files.shop["s0"] = [3.0] * files.rows
    assert tacit("train", files.write(), "--out", files.folder / "run").code == 0


# --- what it refuses ---------------------------------------------------------------------------------


def without_ids(files: Any) -> None:
    files.bank_keys, files.shop_keys = 'label = "default"', ""
    del files.bank["customer"], files.shop["customer"]
    files.shop = {name: values[1:] for name, values in files.shop.items()}


def change(table: str, column: str, value: Any) -> Any:
    def act(files: Any) -> None:
        getattr(files, table)[column][3] = value

    return act


def put(key: str, value: Any) -> Any:
    return lambda files: setattr(files, key, value)


def one_class(files: Any) -> None:
    files.bank["default"] = ["yes"] * files.rows


def no_features(files: Any) -> None:
    files.shop = {"customer": files.shop["customer"]}


def no_rows(files: Any) -> None:
    files.shop = {name: [] for name in files.shop}


BAD = {
    "different rows without ids": (without_ids, "name an id column for each party"),
    "infinity": (change("bank", "b1", "inf"), 'party "bank": column "b1"'),
    "one class": (one_class, "one class only"),
    "blank label": (change("bank", "default", ""), "the first in row 4"),
    "no features": (no_features, 'party "shop" has no feature columns'),
    "no rows": (no_rows, "has no rows"),
    "not numeric": (change("shop", "s2", "red"), 'column "s2" holds numbers and "red" as text'),
    "unknown loss": (put("model", 'loss = "logistc"'), "logistc"),
    "unknown penalty": (put("model", 'penalty = "l3"'), "l3"),
    "unknown method": (put("model", 'method = "magic"'), "magic"),
    "unfit method": (put("model", 'loss = "hinge"\nmethod = "memory"'), "memory"),
    "unknown engine": (put("job", 'engine = "cluster"'), 'engine "cluster" is unknown'),
    "misspelt engine": (put("job", 'engine = "flair"'), 'engine "flair" is unknown (did you mean "flare"?)'),
    "no labels": (put("bank_keys", 'id = "customer"'), "no party has the label"),
    "two labels": (put("shop_keys", 'id = "customer"\nlabel = "s0"'), "exactly one party may"),
    "unknown key": (put("job", "ronds = 3"), 'did you mean "rounds"?'),
    "unknown section": (put("job", "[modle]"), 'did you mean "model"?'),
    "text for regression": (put("model", 'loss = "squared"'), "the labels are not numbers"),
    "negative counts": (lambda f: (put("model", 'loss = "poisson"')(f), f.bank.update(default=f.bank["b0"])), ">= 0"),
    "missing column": (put("shop_keys", 'id = "custmer"'), 'did you mean "customer"?'),
    "repeated id": (change("shop", "customer", "c0000"), "repeated id"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_writes_nothing(files: Any, refused: Any, name: str) -> None:
    spoil, words = BAD[name]
    spoil(files)
    assert words in refused("train", files.write(), "--out", files.folder / "run")
    assert not (files.folder / "run" / "plan.json").exists()


def test_a_mended_job_trains_into_the_directory_where_it_was_refused(files: Any, tacit: Any, refused: Any) -> None:
    label = files.bank["default"]
    one_class(files)
    refused("train", files.write(), "--out", files.folder / "run")
    files.bank["default"] = label
    assert tacit("train", files.write(), "--out", files.folder / "run").code == 0


def test_missing_files(files: Any, refused: Any) -> None:
    assert "there is no job file" in refused("train", files.folder / "nowhere.toml")
    job = files.write()
    (files.folder / "shop.csv").unlink()
    assert "there is no file" in refused("train", job, "--out", files.folder / "run")


def test_a_party_named_like_a_file_of_the_run(files: Any, refused: Any) -> None:
    job = files.write()
    job.write_text(job.read_text().replace('name = "shop"', 'name = "Joint"'))
    assert '"Joint"' in refused("train", job, "--out", files.folder / "run")


def test_options_are_checked(files: Any, refused: Any) -> None:
    job = files.write()
    assert "choose in-process" in refused("train", job, "--engine", "inprocess")
    assert "--checkpoint-every" in refused("train", job, "--checkpoint-every", "-1")
    assert "--checkpoint-every" in refused("train", job, "--checkpoint-every", "nan")


def test_directories_that_do_not_fit(files: Any, tacit: Any, refused: Any) -> None:
    job, run = files.write(), files.folder / "run"
    assert "leave out --resume" in refused("train", job, "--out", run, "--resume")
    assert not run.exists()
    assert "holds other files" in refused("train", job, "--out", files.folder)
    assert "is not a directory" in refused("train", job, "--out", job)
    assert "choose another --out" in refused("train", job, "--out", "/proc/nowhere/run")
    assert "choose another --out" in refused("train", job, "--out", files.folder / ("x" * 300))
    assert tacit("train", job, "--out", run).code == 0
    assert "already holds a run" in refused("train", job, "--out", run)
    answer = tacit("train", job, "--out", run, "--resume")
    assert (answer.code, answer.err) == (0, "")
    assert "is finished" in answer.out


# --- hardly any matches ------------------------------------------------------------------------------


def test_hardly_any_matches_are_said(files: Any, tacit: Any) -> None:
    ids = files.shop["customer"]
    files.shop["customer"] = [*ids[:11], *(f"x{name}" for name in ids[11:])]
    answer = tacit("train", files.write(), "--out", files.folder / "few")
    assert answer.code == 0
    said = [line for line in answer.err.splitlines() if "hardly any rows match" in line]
    assert len(said) == 1
    assert '11 of 120 at "bank", 11 of 120 at "shop"' in said[0]
    files.shop["customer"] = [*ids[:12], *(f"x{name}" for name in ids[12:])]
    assert "hardly any" not in tacit("train", files.write(), "--out", files.folder / "enough").err


def test_one_class_of_the_matched_rows_alone_is_said(files: Any, refused: Any) -> None:
    kept = {name for name, label in zip(files.bank["customer"], files.y, strict=True) if label == "no"}
    files.shop["customer"] = [name if name in kept else f"x{name}" for name in files.shop["customer"]]
    line = refused("train", files.write(), "--out", files.folder / "run")
    assert f"the labels of the {len(kept)} matched rows ({120 - len(kept)} more have no match) have one class" in line


# --- killed and resumed ------------------------------------------------------------------------------

LONG = {  # and after how many checkpoints they are killed: "memory" takes about a dozen rounds
    "averaged": ('loss = "hinge"\nmethod = "averaged"\nalpha = 0.01', "rounds = 300\ntol = 1e-15", (4, 4)),
    "memory": ('loss = "logistic"\npenalty = "none"\nmethod = "memory"', "rounds = 60\ntol = 1e-15", (2, 2)),
}


def start(job: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    words = ["train", str(job), "--out", str(out), "--checkpoint-every", "0", *options]
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoints(process: subprocess.Popen[str], path: Path, count: int, limit: float = 40.0) -> None:
    """Return once the checkpoint was written `count` times, or the process has ended."""
    seen: set[tuple[int, int]] = set()
    end = time.monotonic() + limit
    while len(seen) < count and process.poll() is None:
        assert time.monotonic() < end
        try:
            status = path.stat()
            seen.add((status.st_ino, status.st_mtime_ns))
        except FileNotFoundError:
            pass
        time.sleep(0.001)


@pytest.mark.parametrize("method", LONG)
def test_killed_run_goes_on_to_the_same_result(files: Any, tacit: Any, method: str) -> None:
    files.model, files.job, checkpoints = LONG[method]
    job, whole, broken = files.write(), files.folder / "whole", files.folder / "broken"
    tacit("train", job, "--out", whole)
    killed = 0
    for attempt, count in enumerate(checkpoints):
        process = start(job, broken, *(["--resume"] if attempt else []))
        try:
            wait_for_checkpoints(process, broken / "checkpoint.npz", count)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=120)
        killed += process.returncode == -signal.SIGKILL
        assert not (broken / "result.json").exists() or process.returncode == 0
    assert killed >= 1
    answer = tacit("train", job, "--out", broken, "--resume")
    assert answer.code == 0
    assert "continuing after round" in answer.out
    assert_same_model(whole, broken)
    rounds = [len((run / "trace.jsonl").read_text().splitlines()) for run in (whole, broken)]
    assert rounds[0] == rounds[1]
    results = [json.loads((run / "result.json").read_text()) for run in (whole, broken)]
    np.testing.assert_allclose(results[0]["objective"], results[1]["objective"], rtol=1e-12)
    assert results[0]["traffic"] == results[1]["traffic"]


def test_interrupt_says_how_to_go_on(files: Any, tacit: Any) -> None:
    files.model = 'method = "sgd"\nalpha = 0.01'  # it does not reach tol, however long it takes until it is interrupted
    files.job = "rounds = 1000000\ntol = 0"
    job, run = files.write(), files.folder / "run"
    process = start(job, run)
    try:
        wait_for_checkpoints(process, run / "checkpoint.npz", 2)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=120)
    assert process.returncode == 130
    assert err == f"tacit: stopped; continue with: tacit train {job} --out {run} --resume\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_was_dropped_is_found_again() -> None:
    class Dropping:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with noted_interrupts() as check:
        Dropping()  # Python says "Exception ignored" and goes on
        with pytest.raises(KeyboardInterrupt):
            check()
    with noted_interrupts() as check:
        check()


def test_two_processes_do_not_train_into_one_directory(files: Any, refused: Any) -> None:
    files.model = 'method = "sgd"\nalpha = 0.01'
    files.job = "rounds = 1000000\ntol = 0"
    job, run = files.write(), files.folder / "run"
    process = start(job, run)
    try:
        wait_for_checkpoints(process, run / "checkpoint.npz", 1)
        assert "another process is training" in refused("train", job, "--out", run, "--resume")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)


# --- after the end, and after a failure ----------------------------------------------------------------


def test_a_changed_job_is_refused_on_a_finished_run(files: Any, tacit: Any, refused: Any) -> None:
    out = files.folder / "run"
    assert tacit("train", files.write(), "--out", out).code == 0
    assert "nothing to do" in tacit("train", files.write(), "--out", out, "--resume").out
    files.model = 'loss = "logistic"\nalpha = 5.0'
    assert "model.alpha is 5.0, it began with 0.01" in refused("train", files.write(), "--out", out, "--resume")


def test_a_run_that_failed_at_once_leaves_its_directory_free(files: Any, tacit: Any) -> None:
    out = files.folder / "run"
    good, files.encode = files.shop["s0"], 'scale = "none"'
    files.shop["s0"] = [value * 1e300 for value in good]
    failed = tacit("train", files.write(), "--out", out)
    assert failed.code == 1
    assert failed.err.count("\n") == 1  # no warnings of numpy beside the one line
    assert "scale" in failed.err
    files.shop["s0"] = good
    assert tacit("train", files.write(), "--out", out).code == 0


def test_a_byte_order_mark_is_no_error(files: Any, tacit: Any) -> None:
    path = files.write()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert tacit("train", path, "--out", files.folder / "run").code == 0


def test_penalty_is_called_as_in_the_job_file(files: Any, refused: Any) -> None:
    files.model = 'penalty = "l3"'
    assert "penalty='l3' is unknown" in refused("train", files.write(), "--out", files.folder / "run")
