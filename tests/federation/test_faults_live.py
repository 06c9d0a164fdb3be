"""A job between real processes that die, and whose messages come twice, ends with the model of one process."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from bench.faults import Drill, hook_lines, model, wrong_ledgers
from bench.faults_federation import federation
from bench.faults_jobs import job_text, write_files
from tacit.cli.main import main
from tacit.federation.site import QUESTIONS

FAULTS = ("message duplicated", "party's job killed", "server killed")


def test_a_private_job_survives_faults_and_releases_everything_once(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    job = tmp_path / "one.toml"
    job.write_text(job_text("shares", files))
    assert main(["train", str(job), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    with federation(tmp_path, files, disk=False) as running:
        drill, rng = Drill(running), random.Random(0)
        drill.begin("shares")
        for kind in FAULTS:
            drill.disturb(kind, rng)
        drill.finish()
        run = drill.runs[-1][1]
        assert [one.recovered for one in drill.happened] == [True] * len(FAULTS), running.said()
        assert drill.gave_up == []
        assert [line["fine"] for line in hook_lines(running)] == [True]
        assert wrong_ledgers(drill) == []
        for name in files:
            record = json.loads((tmp_path / "one" / "model" / f"{name}.json").read_text())
            known = [*record["coef"], record["offset"]]
            np.testing.assert_allclose(model(running, name, run), known, rtol=0, atol=1e-12)
            released = running.releases(name, run)
            numbers = range(1, 32)  # 30 rounds and the closing one
            asked = [QUESTIONS + number for number in numbers] if name == "bank" else []  # what the lead sends
            assert sorted(released) == [*numbers, *asked]
            assert {len(digests) for digests in released.values()} == {1}
