"""`tacit train` with a pause after every round: run as `python -m bench.streamed_run JOB OUT MEMORY`.

Prints "round" after each and waits for a line; at the end prints the peak of this process in bytes, the seconds before
the first round, and those of each round without the pauses.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.clock import RoundClock
from bench.peak_memory import read_status
from tacit.cli.main import main
from tacit.cli.summary import Terminal


def _pause() -> None:
    print("round", flush=True)
    sys.stdin.readline()


def train(job: str, out: str, memory: str) -> None:
    """Train by the command line's own way, with a clock where the progress bar would be."""
    start, clocks = time.perf_counter(), list[RoundClock]()

    @contextmanager
    def watched(*_: Any, **__: Any) -> Iterator[RoundClock]:
        clocks.append(RoundClock(_pause))
        setups.append(time.perf_counter() - start)
        yield clocks[0]

    setups: list[float] = []
    Terminal.rounds = watched  # type: ignore[method-assign,assignment]
    code = main(["train", job, "--out", out, "--memory", memory, "--quiet"])
    peak = read_status("VmHWM")  # ru_maxrss, without what Linux carries over from the process that started this one
    if code:
        sys.exit(code)
    print(peak, setups[0], *clocks[0].rounds)


if __name__ == "__main__":
    train(*sys.argv[1:])
