"""Boosted trees between sites: the trees of one process to the last bit, whatever dies or lies on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import run_to_the_end, trace

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
pytest.importorskip("lightgbm", reason="needs tacit[trees]")

RUN, ROWS, NAMES = "run-00000001", 160, ("bank", "shop", "phone")


def write_files(folder: Path) -> dict[str, Path]:
    """Three parties with numbers, text, dates and blanks; every one lacks some rows, and each has its own order."""
    rng = np.random.default_rng(7)
    age, spent = rng.integers(18, 90, ROWS), rng.gamma(2.0, 50.0, ROWS).round(2)
    city, calls = rng.choice(["Basel", "Bern", "Chur"], ROWS), rng.poisson(4, ROWS)
    since = np.datetime64("2015-01-01") + rng.integers(0, 3000, ROWS)
    score = 1.5 * (city == "Bern") + (age > 50) * (calls > 3) + 0.02 * spent - 2.0 + 0.5 * rng.normal(size=ROWS)
    late, amount = np.where(score > 0, "yes", "no"), np.exp(score / 2).round(4)
    size = np.array(["small", "middle", "large"])[np.digitize(score, [-0.5, 0.7])]
    tables = {
        "bank": ("customer,age,since,late,amount,size", (age, since, late, amount, size)),
        "shop": ("customer,spent,city", (np.where(rng.random(ROWS) < 0.1, "", spent.astype(str)), city)),
        "phone": ("customer,calls", (calls,)),
    }
    files = {}
    for name, (head, columns) in tables.items():
        chosen = rng.permutation(ROWS)[: ROWS - 10]
        lines = [",".join([f"c{row:03d}", *(str(column[row]) for column in columns)]) for row in chosen]
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join([head, *lines]) + "\n")
    return files


def job_text(
    files: dict[str, Path], engine: str, model: str = "", label: str = "late", top: str = "rounds = 3", more: str = ""
) -> str:
    lines = [f'[job]\nname = "trees"\nengine = "{engine}"', top, '[model]\nkind = "trees"', model, more]
    for name, path in files.items():
        lines.append(f'[[party]]\nname = "{name}"\nid = "customer"')
        lines += [] if engine == "flare" else [f'data = "{path}"']
        lines += [f'label = "{label}"\nfeatures = ["age", "since"]'] if name == "bank" else []
    return "\n".join(lines) + "\n"


def in_process(folder: Path, files: dict[str, Path], **parts: str) -> Path:
    job = folder / "job.toml"
    job.write_text(job_text(files, "in-process", **parts))
    assert main(["train", str(job), "--out", str(folder / "one"), "--quiet"]) == 0
    return folder / "one"


def texts(folder: Path, names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Each party's trees; below a folder of sites each at its own."""
    own = {name: folder / name / RUN if (folder / name).is_dir() else folder for name in names}
    return {name: (path / "model" / f"{name}.txt").read_text() for name, path in own.items()}


CASES: dict[str, dict[str, str]] = {
    "two classes": {},
    "numbers": {"model": 'loss = "squared"', "label": "amount"},
    "counts": {"model": 'loss = "poisson"', "label": "amount"},
    "quantile": {"model": 'loss = "quantile"\nquantile = 0.8', "label": "amount", "top": "rounds = 2"},
}


@pytest.mark.parametrize("parts", CASES.values(), ids=CASES)
def test_sites_grow_the_trees_of_one_process(tmp_path: Path, parts: dict[str, str]) -> None:
    files = write_files(tmp_path)
    one = in_process(tmp_path, files, **parts)
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", **parts))
    assert texts(tmp_path / "sites") == texts(one)
    lead = tmp_path / "sites" / "bank" / RUN
    for name in NAMES:
        own = tmp_path / "sites" / name / RUN
        assert (own / "model" / f"{name}.json").read_text() == (one / "model" / f"{name}.json").read_text()
        assert sorted(path.name for path in (own / "model").glob("*.txt")) == [f"{name}.txt"]
    joint, known = (json.loads((folder / "model" / "joint.json").read_text()) for folder in (lead, one))
    assert joint == known
    assert trace(lead) == trace(one)
    history, wanted = (json.loads((folder / "result.json").read_text())["boosting"] for folder in (lead, one))
    assert history == wanted
    assert sum(len(text) for text in texts(one).values()) > 10_000, "there are no trees to compare"
