"""Matching of two parties by this package beside the protocols of SecretFlow's SPU: processor, memory and bytes.

`pip install spu` takes a gigabyte and releases of numpy and jax of its own, so `python -m bench --spu PYTHON` names the
Python of an environment that has it. Its parties are two processes which talk over loopback, through a relay here
that counts bytes. Ours are two parties and a coordinator in one process (`bench.align_size`).
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from bench.align import make_sets
from bench.progress import say
from bench.row import Row, seconds

TITLE = "matching ids in private: this package and SecretFlow's SPU, two parties, half of the ids common"
ONLY_WHEN_NAMED = True
SIZES, QUICK_SIZES = (100_000, 1_000_000), (1_000,)
PROTOCOLS = ("ECDH", "RR22", "KKRT")
SECONDS = 3600
PARTY = """
import json, sys, time
import spu.libspu as library
from spu import psi
protocol, rank, given, out, hosts = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
description = library.link.Desc()
for number, host in enumerate(hosts):
    description.add_party(f"party{number}", host)
peak = lambda: 1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before, link = peak(), library.link.create_brpc(description, rank)
clock, used = time.perf_counter(), time.process_time()
curve = psi.EcdhParams(curve=psi.EllipticCurveType.CURVE_25519)
protocol = psi.PsiProtocolConfig(
    protocol=psi.parse_protocol(f"PROTOCOL_{protocol}"), receiver_rank=0, broadcast_result=True, ecdh_params=curve)
report = psi.psi_execute(psi.PsiExecuteConfig(
    protocol_conf=protocol, output_params=psi.OutputParams(path=out),
    input_params=psi.InputParams(path=given, selected_keys=["id"], keys_unique=True)), link)
took = {"clock": time.perf_counter() - clock, "processor": time.process_time() - used}
print("FOUND", json.dumps({**took, "before": before, "peak": peak()}))
link.stop_link()
"""
_python = [sys.executable]


def use(python: str) -> None:
    """Run SPU by this Python from now on."""
    _python[:] = [python]


def run(quick: bool = False) -> list[Row]:
    """Both at each size; SPU only where it can be imported."""
    rows: list[Row] = []
    missing = _missing()
    for count in QUICK_SIZES if quick else SIZES:
        say(f"this package, 2 x {count} ids")
        rows += _rows(f"{count:,} ids, this package", _ours(count))
        for protocol in () if missing else PROTOCOLS:
            say(f"SPU {protocol}, 2 x {count} ids")
            rows += _rows(f"{count:,} ids, SPU {protocol}", _theirs(protocol, count))
    return rows + ([Row("SPU", missing)] if missing else [])


def _rows(name: str, found: dict[str, float]) -> list[Row]:
    memory = f"{found['peak'] / 2**20:.0f} MiB ({found['before'] / 2**20:.0f} MiB before)"
    return [
        Row(f"{name}: both parties' work, seconds of the processor", seconds(found["processor"]), found["processor"]),
        Row(f"{name}: by the clock, on this machine", seconds(found["clock"]), found["clock"]),
        Row(f"{name}: peak memory of all processes", memory, found["peak"]),
        Row(f"{name}: bytes between the parties", f"{found['bytes'] / 1e6:.1f} MB", found["bytes"]),
        Row(
            f"{name}: common ids that the plain join says otherwise",
            str(int(found["wrong"])),
            found["wrong"],
            0.0,
            "none",
        ),
    ]


def _missing() -> str:
    """Why SPU cannot be run; empty where it can."""
    try:
        done = subprocess.run([_python[0], "-c", "import spu.psi"], capture_output=True)
    except OSError as error:
        return f"{_python[0]} cannot be run ({error.strerror}): give --spu the path of a Python"
    return "" if done.returncode == 0 else "not measured: give --spu the Python of an environment that has it"


def _ours(count: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-m", "bench.align_size", str(count)], check=True, capture_output=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _theirs(protocol: str, count: int) -> dict[str, float]:
    """Two processes of SPU, each with a file of its own; what the first one writes is compared with the plain join."""
    sets = make_sets(count)
    with tempfile.TemporaryDirectory() as place, Relay(2) as relay:
        for rank, ids in enumerate(sets):
            Path(place, f"in{rank}.csv").write_text("id\n" + "\n".join(ids) + "\n")
        parties = [_start(protocol, rank, Path(place), relay) for rank in range(2)]
        said = [party.communicate(timeout=SECONDS)[0] for party in parties]
        found = [json.loads(text.split("FOUND", 1)[1].splitlines()[0]) for text in said]
        common = set(Path(place, "out0.csv").read_text().split()[1:])
    total = {key: sum(one[key] for one in found) for key in ("processor", "peak", "before")}
    wrong = len(common ^ (set(sets[0]) & set(sets[1])))
    return {**total, "clock": max(one["clock"] for one in found), "bytes": relay.bytes, "wrong": wrong}


def _start(protocol: str, rank: int, place: Path, relay: Relay) -> subprocess.Popen[str]:
    """A party that listens at its own port, and knows the other by that of the relay."""
    ports = [relay.targets[k] if k == rank else relay.ports[k] for k in range(2)]
    files = [str(place / f"in{rank}.csv"), str(place / f"out{rank}.csv")]
    command = [_python[0], "-c", PARTY, protocol, str(rank), *files, *(f"127.0.0.1:{port}" for port in ports)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


class Relay:
    """Passes TCP connections on, and counts their bytes, both ways."""

    def __init__(self, count: int) -> None:
        self.bytes, self.lock = 0, threading.Lock()
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.ports = [one.getsockname()[1] for one in self.sockets]
        self.targets = [_free_port() for _ in range(count)]

    def __enter__(self) -> Relay:
        for listening, target in zip(self.sockets, self.targets, strict=True):
            threading.Thread(target=self._accept, args=(listening, target), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.sockets:
            one.close()

    def _accept(self, listening: socket.socket, target: int) -> None:
        while True:
            try:
                near = listening.accept()[0]
            except OSError:  # closed: it is over
                return
            try:
                far = socket.create_connection(("127.0.0.1", target))
            except OSError:  # the party does not listen yet, and the other one tries again
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: Any, other: Any) -> None:
        try:
            while piece := one.recv(1 << 18):
                other.sendall(piece)
                with self.lock:
                    self.bytes += len(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:  # one of both has gone
            one.close()
            other.close()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
