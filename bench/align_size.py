"""Private alignment of two parties of a million ids each: minutes, memory and bytes, in a process of its own.

Then the same between two sites, whose process is killed in the middle (SIGKILL), and another process goes on.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.align import NAMES, make_sets, plain_pairs
from bench.progress import say
from bench.row import Row, seconds
from tacit.alignment import CHUNK, Aligner, Alignment, align
from tacit.federation.loopback import Loopback
from tacit.federation.protocol import Match, Shape

TITLE = "matching ids in private: two parties of 1,000,000 ids each, half of them common"
ONLY_WHEN_NAMED = True
RUN = "run-00000001"
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
    say(f"killed in the middle, 2 x {count} ids")
    killed = _killed(count)
    return [
        Row("both parties' work, seconds of the processor", seconds(found["processor"]), found["processor"], *limit),
        Row("the same by the clock, on this machine", seconds(found["clock"]), found["clock"]),
        Row("peak memory of both parties and the coordinator", memory, found["peak"]),
        Row("bytes between coordinator and parties", f"{found['bytes'] / 1e6:.0f} MB", found["bytes"]),
        Row("rows that the plain intersection says otherwise", f"{found['wrong']:.0f}", found["wrong"], 0.0, "none"),
        Row("killed in the middle: processor before, and after", killed["text"], killed["processor"]),
        Row("killed in the middle: rows otherwise than plain", f"{killed['wrong']:.0f}", killed["wrong"], 0.0, "none"),
    ]


def _killed(count: int) -> dict[str, Any]:
    """Match between sites in a process that dies halfway, and in a second one that goes on in the same folder."""
    with tempfile.TemporaryDirectory() as place:
        _write_files(Path(place), count)
        command = [sys.executable, "-m", "bench.align_size", str(count), place]
        first = subprocess.run([*command, "die"], capture_output=True, text=True)
        second = subprocess.run([*command, "go on"], capture_output=True, text=True, check=True)
        assert first.returncode == -signal.SIGKILL, first.stderr
        used = [float(done.stdout.split()[-1]) for done in (first, second)]
        rows = [Alignment.read(Path(place, name, RUN, "alignment.npz")).rows for name in NAMES]
    pairs = set(zip(*(one.tolist() for one in rows), strict=True))
    wrong = len(pairs ^ plain_pairs(*make_sets(count)))
    return {"text": f"{seconds(used[0])}, {seconds(used[1])}", "processor": sum(used), "wrong": wrong}


def _write_files(place: Path, count: int) -> None:
    for number, ids in enumerate(make_sets(count)):
        lines = ["id,x" + (",y" if number == 0 else "")]
        lines += [f"{one},{place % 7}" + (f",{place % 2}" if number == 0 else "") for place, one in enumerate(ids)]
        Path(place, f"{NAMES[number]}.csv").write_text("\n".join(lines) + "\n")


def match_sites(count: int, place: Path, *, die: bool) -> None:
    """Match between two sites; die after half of the questions, or go on and end before anything is trained."""
    loop = Loopback({name: place / f"{name}.csv" for name in NAMES}, place)
    asked, half = 0, (2 + 6 * math.ceil(count / CHUNK)) // 2  # sizes; and each piece is given, taken and mixed

    def watch(caller: str, name: str, request: Any) -> None:
        nonlocal asked
        asked += isinstance(request, Match)
        if isinstance(request, Shape) or (die and asked > half // 2):  # of both, one is asked here
            print(_processor(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL) if die else os._exit(0)

    loop.disturb = watch
    parties = "".join(f'[[party]]\nname = "{name}"\nid = "id"\n' for name in NAMES)
    loop.run('[job]\nengine = "flare"\n' + parties.replace("\n[[", '\nlabel = "y"\n[[', 1), RUN)


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
    if len(sys.argv) > 2:
        match_sites(int(sys.argv[1]), Path(sys.argv[2]), die=sys.argv[3] == "die")
    else:
        print(json.dumps(measure(int(sys.argv[1]))))
