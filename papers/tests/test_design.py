"""`tacit design`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy import accountant
from tacit.privacy.events import PureRelease

ALPHAS = (0.01, 0.05, 0.1, 0.3, 1.0)
BOUNDS = ("--max-alpha", "1", "--max-loss", "0.45")


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.csv"
    lines = [f"{alpha},{0.2 * math.exp(-25 * alpha) + 0.3}" for alpha in ALPHAS]
    path.write_text("\n".join(["alpha,loss", *lines]) + "\n")
    return path


def test_it_says_what_choosing_costs(tacit: Any, points: Path) -> None:
    answer = tacit("design", str(points), *BOUNDS)
    assert answer.code == 0
    assert "best        alpha 0.14" in answer.out
    assert "choosing alpha from private rows is itself a release: 5 runs were tried" in answer.out
    assert "no epsilon: the losses that were compared had no noise" in answer.out


def test_json_has_the_composed_epsilon(tacit: Any, points: Path) -> None:
    record = json.loads(tacit("design", str(points), *BOUNDS, "--rounds", "4", "--loss-mu", "0.1", "--json").out)
    largest = float(BOUNDS[BOUNDS.index("--max-alpha") + 1])
    events = [PureRelease(value, 4) for value in (*ALPHAS, largest)]
    assert record["cost"]["models"] == pytest.approx(accountant.epsilon(events, 1e-5))
    assert record["cost"]["together"] > record["cost"]["models"] > record["cost"]["run"]
    assert record["design"]["where"] == "inside"


def test_public_rows_cost_nothing(tacit: Any, points: Path) -> None:
    answer = tacit("design", str(points), *BOUNDS, "--tuned-on", "public")
    assert "it costs nothing, if none of the private rows was used" in answer.out
    assert "itself a release" not in answer.out


def test_picture_is_written(tacit: Any, points: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "out.png"
    assert tacit("design", str(points), *BOUNDS, "--picture", str(target)).code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "no column 'alpha'"), ("alpha,loss\n0.1,x\n", 'line 2: loss is "x"'), ("", "no column")],
)
def test_files_that_are_no_points_are_refused(tacit: Any, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text(text)
    answer = tacit("design", str(path), *BOUNDS)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize("words", [("--utility", "1,2"), ("--max-loss", "0.9"), ("--rounds", "0"), ("--delta", "2")])
def test_wrong_options_are_refused_in_one_line(tacit: Any, points: Path, words: tuple[str, ...]) -> None:
    answer = tacit("design", str(points), *BOUNDS, *words)
    assert answer.code == 2
    assert answer.err.count("\n") == 1


def test_no_file(tacit: Any, tmp_path: Path) -> None:
    assert tacit("design", str(tmp_path / "none.csv"), *BOUNDS).code == 2
