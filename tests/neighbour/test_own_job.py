"""The neighbour test of a user's own job: its columns, formats and mechanism on generated data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.audit.attacks import BROKEN, NO_VIOLATION, NOT_TRIED
from tacit.audit.harness import check
from tacit.audit.harness.check import LocatedDifference, NeighbourFindings, Way
from tacit.audit.harness.recording import Difference
from tacit.cli.main import main
from tacit.job import read_job
from tests.neighbour.worlds import feature_world, sample_world


def job_of(tmp_path: Path, case: str = "gram", kind: str = "encoded", split: str = "features") -> check.Job:
    world = feature_world(case, kind) if split == "features" else sample_world(case, kind)
    return read_job(world.write(tmp_path))


JOBS = [
    ("gram", "encoded", "features"),
    ("dual", "sparse", "samples"),
    ("gram", "curves", "features"),
    ("gaussian", "curves in parquet", "samples"),
]


@pytest.mark.parametrize(("case", "kind", "split"), JOBS)
def test_a_job_is_played(tmp_path: Path, case: str, kind: str, split: str) -> None:
    line = check.test_job(job_of(tmp_path, case, kind, split), main)
    assert line is not None
    assert line.verdict == NO_VIOLATION, line
    assert line.details["comparisons"] > 5000
    assert "0 differences outside planned releases" in line.found


def test_the_generated_world_has_the_columns_of_the_job_and_none_of_its_cells(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    world = check.job_world(job)
    for spec in job.parties:
        assert sorted(column.name for column in world.tables[spec.name].columns) == list("abcde")
        own = (tmp_path / f"{spec.name}.csv").read_text().splitlines()[1:]
        world.tables[spec.name].write(tmp_path / "generated.csv")
        assert not set(own) & set((tmp_path / "generated.csv").read_text().splitlines()[1:])


def test_wildcards_are_settled_and_curves_are_played(tmp_path: Path) -> None:
    """Also where the number of pairs follows from the noise, which so few rows would leave without any."""
    nodes = {"north": 30, "east": 30, "south": 30}
    lines = ['[job]\nsplit = "samples"\n[graph]\nkind = "ring"\n[model]\nterms = "spline"\n[privacy]\nepsilon = 4']
    for name, rows in nodes.items():
        cells = "\n".join(f"{k % 7},{k % 3 / 2},{k % 2}" for k in range(rows))
        (tmp_path / f"{name}.csv").write_text(f"x0,x1,ill\n{cells}\n")
        lines.append(f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nlabel = "ill"')
        lines.append('[party.columns]\n"x*" = { low = 0, high = 6 }' if name == "north" else "")
    (tmp_path / "job.toml").write_text("\n".join(lines))
    job = read_job(tmp_path / "job.toml")
    world = check.job_world(job)
    assert {tuple((c.name, c.low, c.high) for c in table.columns) for table in world.tables.values()} == {
        (("x0", 0.0, 6.0), ("x1", 0.0, 6.0))
    }
    plan = check.plan_world(world, tmp_path / "plan")
    assert plan.private is not None
    assert plan.private.privacy.row_norm == 2**0.5
    assert plan.layout.columns == 8  # two columns of two pairs
    line = check.test_job(job, main)
    assert line is not None
    assert line.verdict == NO_VIOLATION, line


def test_a_difference_breaks_the_claim() -> None:
    difference = Difference("reply shop -> bank", "Shape", "bytes", "int 1896", "int 1912", "SIZE")
    found = NeighbourFindings(
        100,
        10,
        1,
        {"all zero"},
        [LocatedDifference("shop", "record", "all zero", Way("between sites", False), difference)],
    )
    line = check.judge(found)
    assert line.verdict == BROKEN
    assert line.found == "100 comparisons over 10 steps, 1 differences outside planned releases"
    assert line.details["differences"] == [
        "record of shop (all zero), between sites: reply shop -> bank Shape: bytes (SIZE) is int 1896 on one data set, "
        "int 1912 on the other"
    ]


def test_more_noise_hidden_than_claimed_breaks_it_too() -> None:
    assert check.judge(NeighbourFindings(100, 10, 1, ratio=1.01)).verdict == BROKEN
    assert check.judge(NeighbourFindings(100, 10, 1, ratio=0.99)).verdict == NO_VIOLATION


def test_what_cannot_be_played_is_said_to_be_not_tried(tmp_path: Path) -> None:
    from dataclasses import replace

    job = job_of(tmp_path, "gram", "dense")
    line = check.test_job(replace(job, memory="2GB"), main)
    assert line is not None
    assert line.verdict == NOT_TRIED
    assert check.test_job(replace(job, privacy=None), main) is None
