"""Numbers of the papers' methods in a job file: planned, trained, kept and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import HorizontalClassifier, PaperOptions, Privacy
from tacit.job import read_job
from tacit.job.sections import OPTION_KEYS
from tests.cli.wards import NAMES, Nodes

EVERY_ROUND = "alphas = { north = [0.1, 0.2], east = 0.3, south = [0.4, 0.1] }"


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def ask(nodes: Nodes, method: str, options: str, privacy: str = "epsilon = 5", model: str = "") -> Path:
    nodes.model = f'alpha = 0.05\nmethod = "{method}"\nfit_intercept = false\n{model}'
    nodes.privacy, nodes.options = f"{privacy}\nnoise_seed = 4", options
    return nodes.write()


def claims(run: Path) -> dict[str, float]:
    found = json.loads((run / "certificate.json").read_text())["claims"]
    return {claim["party"]: claim["epsilon"] for claim in found if claim["unit"] == "record"}


CASES: list[tuple[str, str, str, str, PaperOptions, Privacy]] = [
    (
        "dual", EVERY_ROUND, "epsilon = 5", "",
        PaperOptions(alphas={"party 1": [0.1, 0.2], "party 2": 0.3, "party 3": [0.4, 0.1]}), Privacy(epsilon=5),
    ),
    (
        "dual", "alphas = [0.2, 0.3, 0.4]\nloss_weight = 1.5", "epsilon = 5", "published = true",
        PaperOptions(alphas=[0.2, 0.3, 0.4], loss_weight=1.5), Privacy(epsilon=5),
    ),
    (
        "primal", 'noise = "norm"\nlast_round = "primal"\nrounds = 4', "epsilon = 5", "",
        PaperOptions(noise="norm", last_round="primal", rounds=4), Privacy(epsilon=5),
    ),
    (
        "pdml", "decay = 0.8\nobjective_noise = 0.1\nrounds = 6", "epsilon = 5\nlabel_epsilon = 2", "",
        PaperOptions(decay=0.8, objective_noise=0.1, rounds=6), Privacy(epsilon=5, label_epsilon=2),
    ),
    (
        "pdml", "first_sd = 0.5\nrounds = 3", "epsilon = 500\nlabel_epsilon = 2", "published = true",
        PaperOptions(first_sd=0.5, rounds=3), Privacy(epsilon=500, label_epsilon=2),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options", "privacy", "model", "same", "request_"), CASES)
def test_a_job_trains_what_the_estimator_does(
    nodes: Nodes, tacit: Any, method: str, options: str, privacy: str, model: str, same: PaperOptions, request_: Privacy
) -> None:
    run = nodes.folder / "run"
    answer = tacit("train", ask(nodes, method, options, privacy, model), "--out", run)
    assert answer.code == 0, answer
    estimator = HorizontalClassifier(
        alpha=0.05, graph="ring", fit_intercept=False, options=same, random_state=0,
        privacy=Privacy(request_.epsilon, label_epsilon=request_.label_epsilon, mechanism=method, noise_seed=4),
        published=bool(model),
    )  # fmt: skip
    estimator.fit([nodes.rows_of(name) for name in NAMES], [np.array(nodes.tables[name]["ill"]) for name in NAMES])
    own = [claim.epsilon(1e-5) for claim in estimator.certificate_.claims if claim.unit == "record"]
    np.testing.assert_allclose(list(claims(run).values()), own, rtol=1e-12)
    assert len((run / "trace.jsonl").read_text().splitlines()) == estimator.n_rounds_
    planned = json.loads(tacit("plan", nodes.folder / "wards.toml", "--json").out)
    assert planned["rounds"] == {"most": estimator.n_rounds_, "fixed": True}
    assert {item["party"]: item["epsilon"] for item in planned["claims"] if item["unit"] == "record"} == claims(run)
    assert tacit("verify", run).code == 0


def test_epsilons_of_nodes_follow_their_own_alphas(nodes: Nodes, tacit: Any) -> None:
    job = ask(nodes, "dual", EVERY_ROUND)
    assert tacit("train", job, "--out", nodes.folder / "run", "--quiet").code == 0
    found = claims(nodes.folder / "run")
    for name, total in {"north": 0.3, "east": 0.6, "south": 0.5}.items():
        assert total * 0.9 < found[name] < total * 1.05  # less than the sum, by the direction of the noise


def test_the_run_keeps_them_and_refuses_to_go_on_with_others(nodes: Nodes, tacit: Any, refused: Any) -> None:
    run = nodes.folder / "run"
    job = ask(nodes, "dual", EVERY_ROUND)
    before = read_job(job)
    assert tacit("train", job, "--out", run, "--quiet").code == 0
    assert read_job(run / "job.toml").options == before.options
    assert tacit("train", job, "--out", run, "--resume", "--quiet").code == 0
    changed = ask(nodes, "dual", EVERY_ROUND.replace("0.3", "0.2"))
    assert "privacy.options.alphas is " in refused("train", changed, "--out", run, "--resume")
    nodes.options = None
    assert "privacy.options.alphas is None" in refused("train", nodes.write(), "--out", run, "--resume")


def test_an_audit_replays_the_alphas_of_the_job(nodes: Nodes, tacit: Any) -> None:
    job = ask(nodes, "dual", "alphas = { north = [0.5, 0.3], east = 0.25, south = 0.25 }")
    out = nodes.folder / "audit"
    answer = tacit("audit", job, "--pairs", 4, "--runs", 40, "--seed", 1, "--quiet", "--out", out)
    assert answer.code == 0, answer
    findings = json.loads((out / "audit.json").read_text())["findings"]
    rounds = {
        item["details"]["party"]: item["details"].get("rounds") for item in findings if "densities" in item["attack"]
    }
    claimed = {name: [one["claimed"] for one in own] for name, own in rounds.items()}
    for name, alphas in {"north": [0.5, 0.3], "east": [0.25, 0.25], "south": [0.25, 0.25]}.items():
        assert claimed[name] == pytest.approx(alphas)


def test_labels_that_came_randomized_are_told_by_the_job(nodes: Nodes, tacit: Any) -> None:
    each = {name: [1.5] * count for name, count in zip(NAMES, nodes.rows, strict=True)}
    table = ", ".join(f"{name} = {own}" for name, own in each.items())
    job = ask(nodes, "pdml", f"label_epsilons = {{ {table} }}\nrandomized = true\nrounds = 3")
    assert tacit("train", job, "--out", nodes.folder / "run", "--quiet").code == 0
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    found = [claim["epsilon"] for claim in certificate["claims"] if claim["unit"] == "label"]
    np.testing.assert_allclose(found, [1.5] * 3, rtol=1e-4)
    assert any("before the data reached any node" in text for text in certificate["assumptions"])


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        (
            "dual",
            "alpha = 1",
            'unknown key "privacy.options.alpha" (did you mean "alphas"?): allowed are "alphas", "ro',
        ),
        (
            "dual",
            "alphas = 0",
            "privacy.options.alphas = 0 is not allowed: it must be a number above 0, a list with one",
        ),
        ("dual", "alphas = []", "privacy.options.alphas = [] is not allowed"),
        ("dual", "alphas = [0.1, -1]", "privacy.options.alphas = [0.1, -1] is not allowed"),
        ("dual", "alphas = { north = 0.1 }", "alphas say nothing about node 'east'"),
        ("dual", "alphas = { nort = 0.1 }", 'privacy.options.alphas names "nort" (did you mean "north"?), which is no'),
        ("dual", "alphas = [0.1, 0.2]\nrounds = 3", "alphas and rounds ask for [2, 3] rounds"),
        ("dual", "alphas = 20", "would spend epsilon"),
        ("dual", "decay = 0.5", "option decay does not belong to mechanism='dual': leave it out"),
        ("dual", "rounds = 0", "privacy.options.rounds = 0 is not allowed: it must be a whole number from 1"),
        (
            "primal",
            'noise = "laplace"',
            'privacy.options.noise = "laplace" is not allowed: it must be one of "gaussian"',
        ),
        ("primal", 'last_round = "none"', 'privacy.options.last_round = "none" is not allowed'),
        ("primal", "randomized = 1", "privacy.options.randomized = 1 is not allowed: it must be true or false"),
        ("pdml", "decay = 2", "[privacy.options]: decay=2.0 is not allowed: it must be at most 1"),
        ("pdml", "alphas = 0.1", "option alphas does not belong to mechanism='pdml'"),
        ("pdml", "label_epsilons = { north = 1 }", "privacy.options.label_epsilons = {'north': 1} is not allowed"),
        ("gaussian", "rounds = 2", "it has nothing to tune, so leave them out, or use mechanism='dual'"),
    ],
)
def test_refusals(nodes: Nodes, refused: Any, method: str, options: str, expected: str) -> None:
    privacy = "epsilon = 5\nlabel_epsilon = 2" if method == "pdml" else "epsilon = 5"
    job = ask(nodes, method, options, privacy)
    if method == "gaussian":
        job.write_text(job.read_text().replace("fit_intercept = false\n", ""))
    for verb in ("plan", "train"):
        line = refused(verb, job)
        assert line.startswith("tacit: error: wards.toml: ")
        assert expected in line


def test_the_section_needs_a_sample_split_and_brackets(files: Any, nodes: Nodes, refused: Any) -> None:
    files.privacy = "epsilon = 1\n[privacy.options]\nrounds = 3"
    assert '[privacy.options] is not used with split = "features"' in refused("plan", files.write())
    job = ask(nodes, "dual", "", "epsilon = 5\noptions = 3")
    job.write_text(job.read_text().replace("[privacy.options]", ""))
    assert "privacy.options = 3 is not allowed: it must be a section, [privacy.options]" in refused("plan", job)


def test_epsilons_of_labels_given_twice(nodes: Nodes, tacit: Any, refused: Any) -> None:
    nodes.write()
    for name in NAMES:
        tacit("randomize", nodes.folder / f"{name}.csv", "--label", "ill", "--epsilon", 1)
    nodes.ending = ".randomized.csv"
    job = ask(nodes, "pdml", f"label_epsilons = {{ north = {[1.0] * 60} }}")
    assert "label_epsilons are given twice" in refused("train", job, "--out", nodes.folder / "run")


def test_every_option_is_a_key() -> None:
    assert set(OPTION_KEYS) == set(PaperOptions.__dataclass_fields__)
