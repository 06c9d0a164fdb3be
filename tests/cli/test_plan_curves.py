"""`tacit plan` of curves: how fine they are, and the norm of a row, from files or from the job alone."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main

RANGES = """[party.columns]
age = { low = 17, high = 90, whole = true }
income = { low = 0, high = 1e6 }
town = { values = ["ham", "sea"] }
"""


def star(tmp_path: Path, *, engine: str = "in-process", shop: str = RANGES, privacy: str = "epsilon = 1") -> str:
    """A job of a bank and a shop, and their files where it runs in one process."""
    rng = np.random.default_rng(0)
    bank = ["b,y", *(f"{x:.3f},{int(x > 0)}" for x in rng.normal(size=200))]
    rows = [
        f"{rng.integers(17, 91)},{1000 * rng.exponential():.1f},{'ham' if x > 0 else 'sea'}" for x in rng.random(200)
    ]
    (tmp_path / "bank.csv").write_text("\n".join(bank) + "\n")
    (tmp_path / "shop.csv").write_text("\n".join(["age,income,town", *rows]) + "\n")
    here = engine == "in-process"
    lines = [f'[job]\nname = "credit"\nengine = "{engine}"\n[model]\nterms = "spline"\n[privacy]\n{privacy}']
    lines += ['[[party]]\nname = "bank"\nlabel = "y"', 'data = "bank.csv"' if here else ""]
    lines += ['[[party]]\nname = "shop"', 'data = "shop.csv"' if here else "", shop]
    (tmp_path / "job.toml").write_text("\n".join(lines))
    return str(tmp_path / "job.toml")


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["plan", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_pairs_and_norm_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = star(tmp_path)
    assert main(["plan", job]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "curves - shop: pairs = 2; a row has norm 1.73205 at most, by 3 columns" in printed
    assert planned(capsys, job)["sizes"]["curves"] == {"shop": {"pairs": 2, "row_norm": math.sqrt(3)}}


def test_the_price_of_curves_is_that_of_the_planned_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The factor that is printed is that of the noise levels of the plan with curves and of the same job with lines."""
    job = Path(star(tmp_path))
    assert main(["plan", str(job)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    found = re.search(r"shop: (\d+) encoded columns, where lines would have (\d+): .* up to ([\d.]+) times", printed)
    assert found is not None
    curves = _level(printed)
    job.write_text(job.read_text().replace('terms = "spline"', ""))
    assert planned(capsys, str(job))["sizes"]["columns"]["shop"] == int(found[2])
    assert main(["plan", str(job)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "lines are the better choice" not in printed
    assert curves / _level(printed) == pytest.approx(float(found[3]), rel=0.1)
    assert float(found[3]) == pytest.approx(math.sqrt(int(found[1]) / int(found[2])), abs=0.05)


def _level(printed: str) -> float:
    found = re.search(r"noise level ([\d.]+)", printed)
    assert found is not None
    return float(found[1])


def test_a_line_has_no_pairs_and_no_norm_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Path(star(tmp_path))
    job.write_text(job.read_text().replace('terms = "spline"', ""))
    assert "curves" not in planned(capsys, str(job))["sizes"]


def test_the_plan_of_a_job_between_organisations_is_that_of_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same pairs, columns, noise and claims, from the job and the number of rows alone."""
    here = planned(capsys, star(tmp_path))
    width = str(here["sizes"]["columns"]["bank"])
    there = planned(capsys, star(tmp_path, engine="flare"), "--rows", "200", "--columns", f"bank={width}")
    assert there["sizes"]["opened"] == []
    for key in ("noise", "rounds", "claims", "leaves", "traffic"):
        assert here[key] == there[key]
    assert [here["sizes"][key] for key in ("columns", "curves")] == [
        there["sizes"][key] for key in ("columns", "curves")
    ]


@pytest.mark.parametrize(
    ("shop", "words", "said"),
    [
        (
            "",
            ["--rows", "200", "--columns", "bank=2"],
            'party "shop" has its data elsewhere, and the job does not name',
        ),
        (
            '[party.columns]\n"a*" = { low = 0, high = 1 }',
            ["--rows", "200", "--columns", "bank=2"],
            "list them under features",
        ),
        (RANGES, ["--rows", "200", "--columns", "bank=2,shop=9"], "--columns does not go with curves"),
        (
            RANGES,
            ["--columns", "bank=2"],
            'party "bank" has its data elsewhere: give --rows N and --columns bank=N,...',
        ),
    ],
)
def test_what_the_job_does_not_say_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shop: str, words: list[str], said: str
) -> None:
    assert main(["plan", star(tmp_path, engine="flare", shop=shop), *words]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) == 1


def test_nodes_elsewhere_are_planned_by_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    party = '[[party]]\nname = "{}"\nlabel = "y"\n'
    text = '[job]\nengine = "flare"\nsplit = "samples"\n[graph]\nkind = "ring"\n[model]\nterms = "spline"\n'
    text += "[privacy]\nepsilon = 1\n" + party.format("a") + RANGES + party.format("b") + party.format("c")
    job = tmp_path / "nodes.toml"
    job.write_text(text)
    found = planned(capsys, str(job), "--rows", "a=3000,b=2000,c=4000")
    assert found["sizes"]["curves"] == {"all parties": {"pairs": 6, "row_norm": math.sqrt(3)}}  # (3 * 0.0014)^(-1/3)
    assert found["sizes"]["columns"] == 2 * 2 * 6 + 3
    assert main(["plan", str(job)]) == 2
    assert (
        capsys.readouterr().err == 'tacit: error: nodes.toml: party "a" has its data elsewhere: give --rows N to plan\n'
    )


def test_numbers_without_a_range_beside_curves_want_one_or_a_norm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = '[party.columns]\nage = { term = "linear" }\nincome = { low = 0, high = 1e6 }\ntown = { values = ["ham"] }'
    assert main(["plan", star(tmp_path, shop=shop)]) == 2
    said = capsys.readouterr().err
    assert "beside curves every number needs a range" in said
    assert 'give low and high to "age", or row_norm under [privacy]' in said
    found = planned(capsys, star(tmp_path, shop=shop, privacy="epsilon = 1\nrow_norm = 50"))
    assert found["sizes"]["curves"] == {"shop": {"pairs": 2}}
