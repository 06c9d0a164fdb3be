"""Private jobs from files: what is said and written, that saved models predict as they did in memory, and resuming."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.job import read_job
from tacit.privacy.certificate import Certificate
from tacit.run.checkpoint import Checkpoints
from tacit.run.folder import PreparedRun, RunFolder
from tacit.run.prepare import prepare
from tacit.run.star import InProcess, Run

FORMS = {
    "others": "epsilon = 3",
    "others and labels": "epsilon = 3\nlabel_epsilon = 2",
    "labels for the label holder": 'epsilon = 3\nlabel_epsilon = 2\npredictions = "label-holder"',
    "everyone, a bit for each row": 'epsilon = 2\nprotect = "everyone"',
    "everyone, several levels": 'epsilon = 4\nprotect = "everyone"',
    "everyone for the label holder": 'epsilon = 4\nprotect = "everyone"\npredictions = "label-holder"',
    "refit": "epsilon = 3\nrefit = true",
    "labels alone": 'epsilon = "none"\nlabel_epsilon = 2',
    "noisy shares": 'epsilon = 8\nmechanism = "shares"',
    "noisy shares and labels": 'epsilon = 8\nlabel_epsilon = 2\nmechanism = "shares"\nunit = "person"',
    "as published": 'epsilon = 8\nmechanism = "published"',
    "as published, longer version": 'epsilon = 8\nmechanism = "published-inverse"',
    "by person": 'epsilon = 3\nunit = "person"\nrow_norm = { bank = 1.0, shop = 3.0 }',
}
NOT_COVERED = {"noisy shares", "noisy shares and labels", "labels alone"}  # as published nothing is claimed at all
KEPT = {name for name in FORMS if name.endswith("for the label holder")}


def train(files: Any, tacit: Any, *options: str) -> tuple[Path, Any]:
    out = files.folder / "run"
    answer = tacit("train", files.write(), "--out", out, *options)
    assert answer.code == 0, answer
    return out, answer


def paths(files: Any) -> list[Path]:
    return [files.folder / "bank.csv", files.folder / "shop.csv"]


def in_memory(job: Path) -> Any:
    """Scores of the same run without files; its noise comes from the same seed."""
    begun = prepare(read_job(job))
    result = Run(begun.plan, begun.shards, begun.labels.values).go()
    return result.model.scores(begun.shards)


def predicted(answer: Any, column: str) -> list[float]:
    return [float(row[column]) for row in csv.DictReader(io.StringIO(answer.out))]


# --- saved models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_model_predicts_as_it_did_in_memory(files: Any, tacit: Any, name: str) -> None:
    files.privacy = FORMS[name] + "\nnoise_seed = 5"
    run, _ = train(files, tacit, "--quiet")
    answer = tacit("predict", run, *paths(files))
    assert answer.code == 0
    expected = in_memory(files.folder / "credit.toml")
    np.testing.assert_allclose(predicted(answer, "score"), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(predicted(answer, "probability"), 1 / (1 + np.exp(-expected)), rtol=1e-9)
    assert answer.err.count("must stay with bank") == (name in KEPT)
    assert answer.err.count("the certificate does not cover predictions: ") == (name in NOT_COVERED)
    assert ("a party's scores are exact" in answer.err) == name.startswith("noisy shares")
    assert answer.err.count("\n") == (name in KEPT | NOT_COVERED)
    assert tacit("verify", run).code == 0


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "hinge", "sigmoid"])
def test_other_losses(files: Any, tacit: Any, loss: str) -> None:
    if loss in ("squared", "huber", "absolute"):
        files.bank["default"] = (files.X @ np.arange(7.0) * 30 + 400).tolist()
    files.privacy, files.model = "epsilon = 3\nnoise_seed = 5", f'loss = "{loss}"\nalpha = 0.01'
    run, answer = train(files, tacit)
    np.testing.assert_allclose(
        predicted(tacit("predict", run, *paths(files)), "score"), in_memory(files.folder / "credit.toml"), rtol=1e-12
    )
    assert "NOT converged" not in answer.out
    assert "noise level" in answer.out


def test_a_model_without_its_certificate_and_with_a_garbled_one(files: Any, tacit: Any, refused: Any) -> None:
    files.privacy = FORMS["noisy shares"]
    run, _ = train(files, tacit, "--quiet")
    (run / "certificate.json").write_text('{"private": true, "does_not_cover": 3}')
    assert "does_not_cover is 3, no list of sentences" in refused("predict", run, *paths(files))
    (run / "certificate.json").unlink()
    assert tacit("predict", run, *paths(files)).code == 0


def test_the_label_holder_is_the_party_with_the_label(files: Any, tacit: Any) -> None:
    files.bank_keys, files.shop_keys = 'id = "customer"', 'id = "customer"\nlabel = "default"'
    files.shop["default"] = files.bank.pop("default")
    files.privacy = "epsilon = 3"
    run, answer = train(files, tacit)
    certificate = Certificate.from_json((run / "certificate.json").read_text())
    assert [(claim.unit, claim.party) for claim in certificate.claims] == [("record", "bank")]
    assert "protects   each record of bank, epsilon 3\n" in answer.out


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("shop", "clip", 3),
        ("shop", "clip", {"norm": 1.0, "centre": [0.0], "radius": 1.0}),
        ("shop", "clip", {"norm": 1.0, "centre": [0.0] * 4, "radius": 0.0}),
        ("shop", "clip", {"norm": -1.0, "centre": [0.0] * 4, "radius": 1.0}),
        ("shop", "clip", {"norm": "1", "centre": [0.0] * 4, "radius": 1.0}),
        ("shop", "clip", {"norm": 1.0, "centre": [0.0, 0.0, 0.0, None], "radius": 1.0}),
        ("shop", "clip", {"norm": 1.0, "centre": None, "radius": 1.0}),
        ("shop", "clip", {"norm": 0.0, "centre": None, "radius": None}),
        ("shop", "clip", {"norm": 1.0, "centre": [0.0] * 4, "radius": None}),
        ("bank", "bend", "much"),
        ("bank", "bend", None),
        ("joint", "predictions_for", "nobody"),
        ("joint", "predictions_for", ["bank"]),
        ("joint", "loss", "logistic of labels randomized at epsilon 2.0"),
    ],
)
def test_damaged_models_are_named(files: Any, tacit: Any, refused: Any, name: str, key: str, value: Any) -> None:
    files.privacy = "epsilon = 3"
    run, _ = train(files, tacit, "--quiet")
    path = run / "model" / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert f"{name}.json" in refused("predict", run, *paths(files))


# --- what is said and written ------------------------------------------------------------------------


def test_the_summary_says_what_is_protected_and_whether_it_was_worth_it(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3\nlabel_epsilon = 2"
    run, answer = train(files, tacit)
    assert answer.err == ""
    assert "epsilon = 3 at delta = 1e-05 for each record, and 2 for each label." in answer.out
    assert "protects   each record of shop, epsilon 3; each label of bank, epsilon 2\n" in answer.out
    assert "mechanism  each protected party fits once" in answer.out
    assert "worth it?  estimated from noisy sums, log loss on new rows with randomized labels: bank alone" in answer.out
    assert "rounds     2 rounds, " in answer.out
    for absent in ("nan", "infinity", "NOT", "objective", "optimum"):
        assert absent not in answer.out
    result = json.loads((run / "result.json").read_text())
    assert result["objective"] == "nan"
    assert result["outlook"][0].startswith(
        "estimated from noisy sums, log loss on new rows with randomized labels: bank alone"
    )
    trace = [json.loads(line) for line in (run / "trace.jsonl").read_text().splitlines()]
    assert [row["objective"] for row in trace] == ["nan", "nan"]
    assert all(row["epsilon"] == pytest.approx(3, abs=1e-6) for row in trace)
    assert max(len(line) for line in answer.out.splitlines() if line.startswith(("worth", "mech", " " * 11))) <= 100


@pytest.mark.parametrize("name", ["everyone, several levels", "noisy shares", "as published"])
def test_fixed_rounds_are_never_called_not_converged(files: Any, tacit: Any, name: str) -> None:
    files.privacy, files.job = FORMS[name], "rounds = 1\ntol = 1e-12"
    _, answer = train(files, tacit)
    assert (answer.err, "rounds     1 round, " in answer.out) == ("", True)
    assert "NOT converged" not in answer.out


def test_randomized_labels_alone_have_a_stopping_rule(files: Any, tacit: Any) -> None:
    files.privacy, files.job = 'epsilon = "none"\nlabel_epsilon = 2', "rounds = 2\ntol = 1e-12"
    _, answer = train(files, tacit)
    assert answer.err.startswith("tacit: not converged: ")
    assert "NOT converged" in answer.out
    assert "protects   each label of bank, epsilon 2\n" in answer.out


def test_what_was_published_is_said_to_protect_nobody(files: Any, tacit: Any) -> None:
    files.privacy = FORMS["as published"]
    run, answer = train(files, tacit)
    assert "This run is NOT differentially private: epsilon is infinite." in answer.out
    assert "\nprotects" not in answer.out
    assert "protects nobody" in " ".join(answer.out.split())
    assert tacit("verify", run).code == 0
    plan = tacit("plan", files.folder / "credit.toml").out
    assert "NOT differentially private" in plan
    assert "proven  " not in plan


def test_certificates_name_the_software(files: Any, tacit: Any) -> None:
    for privacy in (None, "epsilon = 3"):
        files.privacy = privacy
        run, _ = train(files, tacit, "--quiet")
        versions = json.loads((run / "certificate.json").read_text())["versions"]
        assert {"tacit", "python", "numpy", "dp-accounting"} <= set(versions)
        assert f"tacit {versions['tacit']}" in (run / "certificate.txt").read_text()
        shutil.rmtree(run)


def test_each_run_has_its_own_noise(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    coefs = []
    for name in ("one", "two"):
        assert tacit("train", files.write(), "--out", files.folder / name, "--quiet").code == 0
        coefs.append(json.loads((files.folder / name / "model" / "shop.json").read_text())["coef"])
    assert not np.allclose(coefs[0], coefs[1], rtol=1e-6)


REFUSED = {
    "cannot be proven": ("epsilon = 3", 'penalty = "l1"', 'give penalty="l2"'),
    "no bound": ("epsilon = 3", 'loss = "squared_hinge"', "its derivative has no bound"),
    "no intercept": ("epsilon = 3", "fit_intercept = false", "fit_intercept=True"),
    "labels twice": ('label_epsilon = 1\nprotect = "everyone"', "", "covers the labels already"),
    "norm of one party": ("row_norm = { bank = 1 }", "", "row_norm says nothing about party 'shop'"),
    "labels of a loss": ('epsilon = "none"\nlabel_epsilon = 1', 'loss = "hinge"', "not for randomized labels"),
}


@pytest.mark.parametrize("verb", ["train", "plan"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stated_is_refused(files: Any, refused: Any, name: str, verb: str) -> None:
    files.privacy, files.model, words = REFUSED[name]
    options = ["--out", files.folder / "run"] if verb == "train" else []
    assert words in refused(verb, files.write(), *options)
    assert not (files.folder / "run" / "plan.json").exists()


# --- going on ----------------------------------------------------------------------------------------


class KilledError(Exception):
    """Stands for the end of the process."""


def begin(job: Path, out: Path) -> PreparedRun:
    """Train with a checkpoint after each round, and die after the first."""
    begun = prepare(read_job(job))
    directory = RunFolder(out)
    save = Checkpoints(directory.checkpoint, every=0)

    def save_and_die(run: Run) -> None:
        save(run)
        raise KilledError

    with directory.locked(resume=False):
        directory.begin(begun)
        with pytest.raises(KilledError):
            Run(begun.plan, begun.shards, begun.labels.values).go(checkpoint=save_and_die)
    return begun


@pytest.mark.parametrize("privacy", ["epsilon = 3", "epsilon = 3\nlabel_epsilon = 2", "epsilon = 3\nrefit = true"])
def test_a_run_that_goes_on_repeats_its_noise_and_draws_no_new(files: Any, tacit: Any, privacy: str) -> None:
    files.privacy = privacy
    job, run = files.write(), files.folder / "run"
    begin(job, run)
    with np.load(run / "checkpoint.npz") as saved:
        fitted = saved["state/party:shop/coef"]
    shutil.copytree(run, files.folder / "again")
    models = []
    for out in (run, files.folder / "again"):
        answer = tacit("train", job, "--out", out, "--resume")
        assert answer.code == 0
        assert "continuing after round 1" in answer.out
        models.append([(out / "model" / f"{name}.json").read_text() for name in ("bank", "shop", "joint")])
    assert models[0] == models[1]
    np.testing.assert_allclose(json.loads(models[0][1])["coef"], fitted, rtol=1e-12)  # damping of one party is 1
    outlooks = [json.loads((out / "result.json").read_text())["outlook"] for out in (run, files.folder / "again")]
    assert outlooks[0] == outlooks[1]


def sent(monkeypatch: pytest.MonkeyPatch, *, die: bool) -> list[Any]:
    """What is sent from now on; with `die` the run is killed as soon as the first answers are."""
    answers: list[Any] = []
    exchange = InProcess.exchange

    def watch(self: InProcess, message: Any) -> Any:
        found = exchange(self, message)
        answers.append([{name: np.array(value) for name, value in part.arrays.items()} for part in (message, *found)])
        if die:
            raise KilledError
        return found

    monkeypatch.setattr(InProcess, "exchange", watch)
    return answers


@pytest.mark.parametrize("name", FORMS)
def test_a_run_killed_before_its_first_round_ended_says_the_same_again(
    files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    files.privacy = FORMS[name]
    job, run = files.write(), files.folder / "run"
    with monkeypatch.context() as patch:
        first = sent(patch, die=True)
        assert tacit("train", job, "--out", run).code == 1
    again = sent(monkeypatch, die=False)
    answer = tacit("train", job, "--out", run, "--resume")
    assert answer.code == 0
    assert "going on" not in answer.out
    assert len(first) == 1 < len(again)
    for one, other in zip(first[0], again[0], strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", FORMS)
def test_a_seeded_run_that_goes_on_is_the_run_that_was_never_stopped(files: Any, tacit: Any, name: str) -> None:
    files.privacy = FORMS[name] + "\nnoise_seed = 9"
    job = files.write()
    begin(job, files.folder / "broken")
    assert tacit("train", job, "--out", files.folder / "broken", "--resume").code == 0
    assert tacit("train", job, "--out", files.folder / "whole").code == 0
    for part in ("bank", "shop", "joint"):
        texts = [(files.folder / run / "model" / f"{part}.json").read_text() for run in ("broken", "whole")]
        assert texts[0] == texts[1]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_only_the_owner_can_read_the_keys_of_the_noise(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    job, run = files.write(), files.folder / "run"
    before = os.umask(0)
    try:
        begin(job, run)
        assert stat.S_IMODE((run / "checkpoint.npz").stat().st_mode) == 0o600
        assert stat.S_IMODE((run / "plan.json").stat().st_mode) == 0o666
    finally:
        os.umask(before)
    kept = (run / "checkpoint.npz").read_bytes()
    assert tacit("train", job, "--out", run, "--resume").code == 0
    assert not (run / "checkpoint.npz").exists()
    (run / "checkpoint.npz").write_bytes(kept)  # killed between the result and the end
    assert "nothing to do" in tacit("train", job, "--out", run, "--resume").out
    assert not (run / "checkpoint.npz").exists()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("epsilon = 4", "privacy.epsilon is 4.0, it began with 3.0"),
        ("epsilon = 3\ndelta = 1e-4", "privacy.delta is 0.0001"),
        ("epsilon = 3\nrow_norm = 2", "privacy.row_norm is 2.0, it began with None"),
        ("epsilon = 3\nnoise_seed = 1", "privacy.noise_seed is 1, it began with None"),
        (None, "privacy.epsilon is None, it began with 3.0"),
    ],
)
def test_going_on_with_other_privacy_is_refused(files: Any, refused: Any, other: str | None, words: str) -> None:
    files.privacy = "epsilon = 3"
    begin(files.write(), files.folder / "run")
    files.privacy = other
    assert words in refused("train", files.write(), "--out", files.folder / "run", "--resume")


def test_a_run_without_privacy_does_not_go_on_with_it(files: Any, refused: Any) -> None:
    begin(files.write(), files.folder / "run")
    files.privacy = "epsilon = 3"
    assert "privacy.epsilon is 3.0, it began with None" in refused(
        "train", files.write(), "--out", files.folder / "run", "--resume"
    )


def test_epsilon_of_the_trace_is_that_of_the_certificate(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 1.5\ndelta = 1e-6"
    run, _ = train(files, tacit, "--quiet")
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["delta"] == 1e-6
    assert math.isclose(certificate["epsilon"], 1.5, rel_tol=1e-6)
