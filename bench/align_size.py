"""Private alignment of two parties of a million ids each: minutes, memory and bytes, in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.align import NAMES, make_sets, plain_pairs
from bench.progress import say
from bench.row import Row, seconds
from tacit.alignment import Aligner, align

TITLE = "matching ids in private: two parties of 1,000,000 ids each, half of them common"
ONLY_WHEN_NAMED = True
IDS, QUICK_IDS = 1_000_000, 1_000
MOST_PROCESSOR = 600.0  # seconds of one processor, for the work of both parties


def run(quick: bool = False) -> list[Row]:
    """Align once in a child, whose peak memory is that of the alignment."""
    count = QUICK_IDS if quick else IDS
    say(f"aligning 2 x {count} ids")
    done = subprocess.run([sys.executable, "-m", "bench.align_size", str(count)], check=True, capture_output=True)
    found: dict[str, float] = json.loads(done.stdout)
    limit: tuple[Any, ...] = () if quick else (MOST_PROCESSOR, "at most 600 s")
    memory = f"{found['peak'] / 2**20:.0f} MiB ({found['before'] / 2**20:.0f} MiB before, ids and packages)"
    return [
        Row("both parties' work, seconds of the processor", seconds(found["processor"]), found["processor"], *limit),
        Row("the same by the clock, on this machine", seconds(found["clock"]), found["clock"]),
        Row("peak memory of both parties and the coordinator", memory, found["peak"]),
        Row("bytes between coordinator and parties", f"{found['bytes'] / 1e6:.0f} MB", found["bytes"]),
        Row("rows that the plain intersection says otherwise", f"{found['wrong']:.0f}", found["wrong"], 0.0, "none"),
    ]


def measure(count: int) -> dict[str, float]:
    """Align two sets of so many ids, and say what it took."""
    sets, sent = make_sets(count), 0
    aligners = {name: Aligner(name, ids, NAMES) for name, ids in zip(NAMES, sets, strict=True)}
    before, clock, processor = _peak(), time.perf_counter(), _processor()

    def ask(party: str, step: str, payload: dict[str, Any]) -> Mapping[str, Any]:
        nonlocal sent
        answer = aligners[party].answer(step, payload)
        sent += sum(one.nbytes for one in (*payload.values(), *answer.values()) if isinstance(one, np.ndarray))
        return answer

    align(NAMES, ask)
    took = {"clock": time.perf_counter() - clock, "processor": _processor() - processor, "peak": _peak()}
    rows = [aligners[name].alignment for name in NAMES]
    pairs = set(zip(*(one.rows.tolist() for one in rows if one is not None), strict=True))
    return {**took, "before": before, "bytes": sent, "wrong": len(pairs ^ plain_pairs(*sets))}


def _peak() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _processor() -> float:
    """Seconds of this process and of those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
