"""A party's prediction service under load, against bare FastAPI that sends back what it got, in the same run."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np

from bench.row import Row, seconds
from bench.service_process import ROWS, SESSION
from tacit.types import Vector

TITLE = "masked scores over HTTP, one connection, requests one after another"
IDS = (1, 100)
REQUESTS, QUICK_REQUESTS, TURNS = 300, 20, 4
KINDS = ("scores", "echo")


def run(quick: bool) -> list[Row]:
    """Take turns with the two services."""
    count = QUICK_REQUESTS if quick else REQUESTS
    with (
        tempfile.TemporaryDirectory() as folder,
        _started("scores", folder) as scores,
        _started("echo", folder) as echo,
    ):
        lines = {"scores": _Load(scores), "echo": _Load(echo)}
        rows: list[Row] = []
        for ids in IDS:
            for line in lines.values():
                line.send(ids, 20)  # until everything is warm
            times: dict[str, list[Vector]] = {kind: [] for kind in KINDS}
            for _ in range(TURNS):
                for kind, line in lines.items():
                    times[kind].append(line.send(ids, count))
            rows += _rows(ids, {kind: np.concatenate(parts) for kind, parts in times.items()})
        for line in lines.values():
            line.close()
        return rows


class _Load:
    """One connection, kept open."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._number = 0

    def send(self, ids: int, count: int) -> Vector:
        """Seconds of each of some requests for random ids."""
        rng = np.random.default_rng(self._number)
        return np.array([self._one([f"c{row}" for row in rng.integers(ROWS, size=ids)]) for _ in range(count)])

    def _one(self, ids: list[str]) -> float:
        self._number += 1
        body = json.dumps({"session": SESSION, "number": self._number, "ids": ids})
        start = time.perf_counter()
        self._connection.request("POST", "/v1/scores", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        spent = time.perf_counter() - start
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {answer[:200]!r}")
        return spent

    def close(self) -> None:
        self._connection.close()


def _rows(ids: int, times: dict[str, Vector]) -> list[Row]:
    what = f"{ids} id{'s' if ids > 1 else ''} a request"
    rows = []
    for kind in KINDS:
        middle, late = np.percentile(times[kind], [50, 99])
        rate = len(times[kind]) / float(times[kind].sum())
        name = "masked scores" if kind == "scores" else "FastAPI echo"
        rows.append(Row(f"{name}, {what}", f"{rate:.0f}/s, p50 {seconds(middle)}, p99 {seconds(late)}", rate))
    ratio = float(np.median(times["scores"]) / np.median(times["echo"]))
    rows.append(Row(f"time of a request over that of the echo, {what}", f"{ratio:.2f} x (medians)", ratio))
    return rows


@contextmanager
def _started(kind: str, folder: str) -> Iterator[str]:
    """A service in a process of its own: its address."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.service_process", kind, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"the service {kind!r} did not start: python -m bench.service_process {kind} {folder}")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
