"""The bare exchange that training over FLARE is held against carries as many numbers as the training does."""

from __future__ import annotations

import json

from bench.data import a9a
from bench.flare import PARTIES, STAR, ring_job, star_job, train_here, write_columns, write_rows


def trace(folder):
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


def test_star_rounds_have_the_bytes_of_the_trace(tmp_path):
    jobs = star_job(tmp_path, write_columns(tmp_path, a9a(), quick=True), rounds=4)
    exchanges = train_here(jobs[0], tmp_path / "here")
    rows = trace(tmp_path / "here")
    rounds = exchanges.rounds(rows, len(STAR))
    assert len(rounds) == len(rows) > 1
    for side, name in ((0, "bytes_down"), (1, "bytes_up")):
        carried = [8 * len(STAR) * sum(sum(one[side]) for one in round_) for round_ in rounds]
        assert carried == [row[name] for row in rows]


def test_ring_rounds_have_the_bytes_of_the_trace(tmp_path):
    jobs = ring_job(tmp_path, write_rows(tmp_path, a9a(), quick=True), rounds=4)
    exchanges = train_here(jobs[0], tmp_path / "here")
    rows = trace(tmp_path / "here")
    rounds = exchanges.rounds(rows, len(PARTIES))
    for round_ in rounds:
        assert sorted((a, b) for a, b, _ in round_) == sorted(
            pair for k, name in enumerate(PARTIES) for pair in ((name, PARTIES[k - 1]), (PARTIES[k - 1], name))
        )
    assert [8 * sum(sum(sizes) for *_, sizes in round_) for round_ in rounds] == [row["bytes_up"] for row in rows]
