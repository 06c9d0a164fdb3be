"""Changed job files: refused in one line, or read as they say and written again without loss."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tacit.job import read_job
from tests.fuzz.budget import SHARDS, bounded_memory, refusal, seeds
from tests.fuzz.mutate import VALUES, Mutator, toml

FEATURES: dict[str, Any] = {
    "job": {"name": "credit", "rounds": 50, "tol": 1e-3, "seed": 3, "holdout": 0.2, "secure_aggregation": False},
    "model": {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": 0.1,
        "fit_intercept": True,
        "method": "auto",
        "rho": "auto",
    },
    "encode": {"scale": "standard", "rare": 2, "most": 9},
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "row_norm": {"bank": 1.0, "shop": 2.0}, "accountant": "gdp"},
    "party": [
        {
            "name": "bank",
            "data": "bank.csv",
            "id": "id",
            "label": "default",
            "positive": "yes",
            "features": ["age", "city"],
            "columns": {"age": {"low": 18, "high": 90}, "city": {"values": ["Bern", "Basel"], "missing": True}},
        },
        {"name": "shop", "data": "shop.parquet", "id": "id", "columns": {"zip": {"kind": "category", "buckets": 8}}},
    ],
}
SAMPLES: dict[str, Any] = {
    "job": {"name": "wards", "split": "samples", "rounds": 20},
    "model": {"loss": "logistic", "alpha": 0.01, "method": "dual"},
    "graph": {"edges": [["north", "east"], ["east", "south"]]},
    "privacy": {"epsilon": 2.0, "delta": 1e-5, "options": {"alphas": [0.1, 0.2], "rounds": 2}},
    "party": [{"name": name, "data": f"{name}.csv", "label": "y"} for name in ("north", "east", "south")],
}
WORDS = ["ring", "samples", "features", "bank", "shop", "age", "range", "number", "gdp", "gram", "l1", "hinge", "id"]


@pytest.mark.parametrize("base", [FEATURES, SAMPLES], ids=["features", "samples"])
def test_the_jobs_are_right_before_they_are_changed(base: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(toml(base))
    assert refusal(lambda: read_job(tmp_path / "job.toml"))[1] == ""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_changed_job_is_refused_or_read_as_it_says(shard: int, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    used = 0
    with bounded_memory():
        for seed in seeds("jobs", shard):
            mutator = Mutator(seed)
            content = mutator.toml((FEATURES, SAMPLES)[seed % 2], [*VALUES, *WORDS, math.inf])
            path.write_bytes(content)
            job, refused = refusal(lambda: read_job(path))
            if job is None:
                assert refused.startswith("job.toml: "), refused
                continue
            used += 1
            _check(job, tomllib.loads(content.decode("utf-8-sig")), seed)
            again = tmp_path / "again.toml"
            again.write_text(job.to_toml(), encoding="utf-8")
            assert replace(read_job(again), name=job.name) == job, seed
    assert used > len(seeds("jobs", shard)) / 20


def _check(job: Any, document: dict[str, Any], seed: int) -> None:
    """Every value of the file is that of the job: nothing is left out, and nothing is turned into something else."""
    for section, holder in (("job", job), ("model", job.model), ("encode", job.encode), ("graph", job.graph)):
        for key, value in document.get(section, {}).items():
            assert _same(getattr(holder, key), value), (seed, section, key, value)
    for key, value in document.get("privacy", {}).items():
        if key != "options":
            assert _same(getattr(job.privacy, key), None if value == "none" else value), (seed, key, value)
    assert [party.name for party in job.parties] == [party["name"] for party in document["party"]]
    for party, values in zip(job.parties, document["party"], strict=True):
        for key in ("data", "id", "label", "features", "positive"):
            assert _same(getattr(party, key), values.get(key)), (seed, key)
        assert [column.name for column in party.columns] == sorted(values.get("columns", {}))


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, list):
        return isinstance(found, tuple) and len(found) == len(value) and all(map(_same, found, value))
    if isinstance(value, dict) and isinstance(found, dict):
        return list(found) == list(value) and all(_same(found[key], value[key]) for key in value)
    if isinstance(value, int) and isinstance(found, float):
        return found == float(value)
    if isinstance(value, bool) or isinstance(found, bool):
        return found is value
    return bool(found == value)
