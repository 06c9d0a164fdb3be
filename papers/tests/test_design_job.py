"""`tacit design JOB.toml --alphas ...`: the runs, the points that are kept, and what is refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hospital_files import Nodes
from tacit_papers.design import sweep
from tacit_papers.design.tradeoff import fit_loss_curve
from tacit_papers.design.tuning_cost import tuning_cost

ALPHAS = "0.02,0.1,0.5"


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    nodes = Nodes(tmp_path, rows=(300, 200, 250))
    nodes.model, nodes.privacy = 'alpha = 0.05\nmethod = "dual"', "epsilon = 3\nnoise_seed = 5"
    return nodes


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pure epsilon of the first round of every run that is made."""
    found: list[float] = []
    measure = sweep.loss_of_run

    def counted(plan: Any, *rest: Any) -> Any:
        found.append(round(max(getattr(event, "epsilon", 0.0) for event in sweep.events_of(plan)), 9))
        return measure(plan, *rest)

    monkeypatch.setattr(sweep, "loss_of_run", counted)
    return found


def points(out: Path) -> list[list[float]]:
    first, *lines = (out / "points.csv").read_text().splitlines()
    assert first == "alpha,repeat,loss"
    return [[float(part) for part in line.split(",")] for line in lines]


def test_it_runs_fits_draws_and_says_what_it_costs(nodes: Nodes, tacit: Any, made: list[float]) -> None:
    pytest.importorskip("matplotlib")
    out = nodes.folder / "design"
    answer = tacit("design", nodes.write(), "--alphas", ALPHAS, "--repeats", 2, "--out", out)
    assert (answer.code, answer.err) == (0, ""), answer
    table = points(out)
    assert [(alpha, repeat) for alpha, repeat, _ in table] == [(a, r) for a in (0.02, 0.1, 0.5) for r in (1, 2)]
    assert made == [0.02, 0.02, 0.1, 0.1, 0.5, 0.5]
    assert len({loss for *_, loss in table}) == 6  # every run has noise of its own
    curve = fit_loss_curve([row[0] for row in table], [row[2] for row in table])
    assert f"loss = {curve.height:.4g} exp(-{curve.rate:.4g} alpha) + {curve.floor:.4g}" in answer.out
    assert "choosing alpha from private rows is itself a release: 6 runs were tried" in answer.out
    assert "keep them to yourself" in answer.out
    assert "anyone who knows it can remove the noise" in answer.out
    assert (out / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "points.csv").stat().st_mode & 0o077 == 0


def test_runs_that_are_there_are_not_made_again(nodes: Nodes, tacit: Any, made: list[float]) -> None:
    out, job = nodes.folder / "design", nodes.write()
    words = ("--repeats", 1, "--out", out, "--max-loss", "0.62", "--json", "--max-alpha", 1)
    first = json.loads(tacit("design", job, "--alphas", ALPHAS, *words).out)
    made.clear()
    assert json.loads(tacit("design", job, "--alphas", ALPHAS, *words).out) == first
    assert json.loads(tacit("design", job, *words).out) == first  # the points alone will do
    assert made == []
    more = json.loads(tacit("design", job, "--alphas", "0.1,1", *words[2:]).out)
    assert made == [0.1, 0.1, 1.0, 1.0, 1.0]
    assert more["cost"]["tried"] == len(more["points"]) == 8
    again = json.loads(tacit("design", out / "points.csv", "--max-alpha", 1, "--max-loss", "0.62", "--json").out)
    assert again["design"] == more["design"]


def test_a_sweep_that_was_stopped_goes_on_to_the_same_points(
    nodes: Nodes, tacit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, one, two = nodes.write(), nodes.folder / "one", nodes.folder / "two"
    words = ("design", job, "--alphas", ALPHAS, "--repeats", 1, "--out")
    assert tacit(*words, one).code == 0
    measure, calls = sweep.loss_of_run, []

    def stopped(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(sweep, "loss_of_run", stopped)
    answer = tacit(*words, two)
    assert answer.code == 130
    assert "2 of 3 runs are in" in answer.err
    assert points(two) == points(one)[:2]
    assert tacit(*words, two).code == 0
    assert len(calls) == 4
    assert points(two) == points(one)


@pytest.mark.parametrize("method", ["dual", "primal"])
def test_the_cost_is_that_of_the_events_of_all_runs(nodes: Nodes, tacit: Any, method: str) -> None:
    nodes.model, nodes.options = f'alpha = 0.05\nmethod = "{method}"', "rounds = 4"
    words = ("--repeats", 2, "--out", nodes.folder / "design", "--max-loss", "0.62", "--loss-bound", 1.5, "--json")
    answer = tacit("design", nodes.write(), "--alphas", "0.02,0.1,0.5", "--loss-mu", 0.4, *words)
    assert answer.code == 0, answer
    record = json.loads(answer.out)
    tried = [0.02, 0.02, 0.1, 0.1, 0.5, 0.5]
    largest = record["cost"]["largest"]
    plain = tuning_cost(tried, record["design"]["alpha"], 4, 1e-5, largest=largest, loss_mu=0.4)
    assert record["rounds"] == 4
    for name in ("run", "models", "together"):  # the direction of the noise makes a round cheaper than its alpha
        assert 0.3 * getattr(plain, name) < record["cost"][name] <= 1.01 * getattr(plain, name) + 1e-3
    assert record["cost"]["pure"] == pytest.approx(plain.pure)
    exact = tacit("design", nodes.folder / "wards.toml", "--alphas", "0.02,0.1,0.5", *words[:2], "--out",
                  nodes.folder / "exact", *words[4:])  # fmt: skip
    assert json.loads(exact.out)["cost"]["together"] == "infinity"
    apart = np.abs(np.subtract(*([row[2] for row in points(nodes.folder / name)] for name in ("design", "exact"))))
    assert 0 < apart.max() < 6 * 1.5 / 750 / 0.4  # the noise on a loss, and no other: the runs are the same


def test_public_rows_cost_nothing(nodes: Nodes, tacit: Any) -> None:
    answer = tacit("design", nodes.write(), "--alphas", ALPHAS, "--repeats", 1, "--out", nodes.folder / "design",
                   "--tuned-on", "public")  # fmt: skip
    assert "it costs nothing, if none of the private rows was used" in answer.out
    assert "keep them to yourself" not in answer.out
    assert (nodes.folder / "design" / "points.csv").stat().st_mode & 0o044


def test_the_bound_on_alpha_is_what_the_epsilon_of_the_job_allows(nodes: Nodes, tacit: Any, refused: Any) -> None:
    words = ("--alphas", ALPHAS, "--repeats", 1, "--out", nodes.folder / "design", "--json")
    most = json.loads(tacit("design", nodes.write(), *words).out)["design"]["most_alpha"]
    assert 1.0 < most < 3.0  # epsilon 3 over 2 rounds of noise with a direction in 5 dimensions
    nodes.options = f"alphas = {most!r}"
    assert tacit("plan", nodes.write()).code == 0
    nodes.options = f"alphas = {most * 1.2!r}"
    assert "would spend epsilon" in refused("plan", nodes.write())


def test_what_it_says_to_write_can_be_trained(nodes: Nodes, tacit: Any) -> None:
    out = tacit("design", nodes.write(), "--alphas", ALPHAS, "--repeats", 1, "--out", nodes.folder / "design").out
    found = re.search(r"alphas = (\S+) in \[privacy.options\], and epsilon = (\S+) in", out)
    assert found
    nodes.privacy, nodes.options = f"epsilon = {found[2]}", f"alphas = {found[1]}"
    assert tacit("train", nodes.write(), "--out", nodes.folder / "run", "--quiet").code == 0
    certificate = json.loads((nodes.folder / "run" / "certificate.json").read_text())
    assert float(found[2]) - 2e-3 < certificate["epsilon"] <= float(found[2])


def test_points_of_other_rows_or_another_job_are_refused(nodes: Nodes, tacit: Any, refused: Any) -> None:
    words = ("--alphas", ALPHAS, "--repeats", 1, "--out", nodes.folder / "design")
    assert tacit("design", nodes.write(), *words).code == 0
    assert "--loss-bound changed since the points" in refused("design", nodes.write(), *words, "--loss-bound", 1)
    nodes.privacy = "epsilon = 2\nnoise_seed = 5"  # it bounds alpha, and no point depends on it
    assert tacit("design", nodes.write(), *words).code == 0
    nodes.privacy = "epsilon = 2\nnoise_seed = 5\nrow_norm = 2"
    assert "privacy.row_norm is 2.0, it began with None" in refused("design", nodes.write(), *words)
    nodes.privacy = "epsilon = 3\nnoise_seed = 5"
    nodes.tables["east"]["x0"][3] += 1.0
    assert "the rows or labels changed since the points" in refused("design", nodes.write(), *words)


def put(**values: Any) -> Any:
    return lambda nodes: [setattr(nodes, name, value) for name, value in values.items()]


REFUSALS: list[tuple[Any, tuple[Any, ...], str]] = [
    (put(), (), "there are no points in"),
    (put(), ("--alphas", "0.1,0.2"), "there are 2 different alphas"),
    (put(), ("--alphas", "0.1,0.1,0.1"), "there are 1 different alphas"),
    (put(), ("--alphas", "0.1,x,2"), '--alphas "0.1,x,2" is not allowed: give numbers above 0, separated by commas'),
    (put(), ("--alphas", "0.1,-1,2"), '--alphas "0.1,-1,2" is not allowed'),
    (put(), ("--alphas", "0.1,inf,2"), '--alphas "0.1,inf,2" is not allowed'),
    (put(), ("--alphas", ALPHAS, "--repeats", 0), "--repeats 0 is not allowed"),
    (put(), ("--alphas", ALPHAS, "--loss-mu", 1), "give --loss-bound, too"),
    (put(), ("--alphas", ALPHAS, "--loss-mu", -1, "--loss-bound", 1), "--loss-mu=-1.0 is not allowed"),
    (put(), ("--alphas", ALPHAS, "--rounds", 3), "--rounds goes with a file of points"),
    (put(), ("--alphas", ALPHAS, "--delta", 1e-6), "--delta goes with a file of points"),
    (put(), ("--alphas", ALPHAS, "--utility", "1"), "--utility '1' is not allowed"),
    (put(model='method = "pdml"'), ("--alphas", ALPHAS), 'method = "pdml" has no alpha of a round: write "dual" or'),
    (put(model=""), ("--alphas", ALPHAS), 'method = "auto" has no alpha of a round'),
    (put(model='method = "dual"\npublished = true'), ("--alphas", ALPHAS), "design is for the proven form"),
    (put(privacy=None), ("--alphas", ALPHAS), "wards.toml has no [privacy], which says delta and row_norm: add it"),
    (
        put(model='method = "primal"', options='noise = "gaussian"'),
        ("--alphas", ALPHAS),
        'noise = "gaussian" has no alpha of a round',
    ),
    (put(label='label = "sick"'), ("--alphas", ALPHAS), 'party "north" has no column "sick"'),
]


@pytest.mark.parametrize(("change", "words", "expected"), REFUSALS)
def test_refusals(
    nodes: Nodes, refused: Any, made: list[float], change: Any, words: tuple[Any, ...], expected: str
) -> None:
    change(nodes)
    assert expected in refused("design", nodes.write(), *words, "--out", nodes.folder / "design")
    assert made == []


def test_other_refusals(nodes: Nodes, tacit: Any, refused: Any) -> None:
    words = ("--alphas", ALPHAS, "--repeats", 1)
    by_columns = nodes.folder / "credit.toml"
    by_columns.write_text('[[party]]\nname = "bank"\ndata = "bank.csv"\nlabel = "default"\n')
    assert 'design is for split = "samples"' in refused("design", by_columns, *words)
    line = refused("design", nodes.write(), *words, "--out", nodes.folder)
    assert "holds other files and no points: choose another --out" in line
    table = nodes.folder / "points.csv"
    table.write_text("alpha,loss\n0.1,0.5\n0.2,0.4\n0.3,0.35\n")
    assert "--alphas goes with a job file" in refused("design", table, *words, "--max-alpha", 1, "--max-loss", 1)
    assert "--max-alpha is missing" in refused("design", table, "--max-loss", 1)
    line = refused("design", nodes.write(), *words, "--out", nodes.folder / "design", "--max-loss", 1e12)
    assert "--max-loss 1e+12 allows every alpha" in line
    assert math.isfinite(points(nodes.folder / "design")[0][2])  # and the points are kept
