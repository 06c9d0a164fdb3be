"""A federation of real processes on loopback whose every process, connection and disk can be made to fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

import tacit
from bench.parties import set_home
from tacit.federation.kit import ENVIRONMENT, Kit
from tacit.federation.members import introduce
from tacit.federation.project import Federation, init

READY_WITHIN = 90.0
DISK = 48  # MiB of the disk that can be full
HOOK = Path(__file__).parent / "faults_hook"
JOB_PROCESSES = ("worker_process", "runner_process")


class Line:
    """A line between a party and the server, which can be made to carry nothing for a while."""

    def __init__(self, port: int) -> None:
        self.target, self.stalled = port, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while self.stalled.is_set():
                    time.sleep(0.02)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Take no more connections."""
        self.stalled.clear()
        self.listener.close()


@dataclass
class Running:
    """The federation: kits by name, and what was started."""

    place: Path
    kits: dict[str, Kit]
    lines: dict[str, Line]
    sites: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    driver: subprocess.Popen[bytes] | None = None
    disk: Path | None = None

    @property
    def parties(self) -> list[str]:
        """Everyone but the server; the first one leads."""
        return [name for name, kit in self.kits.items() if kit.role == "party"]

    def train(self, job: Path, *, resume: bool = False) -> None:
        """Start the driver, or start it again."""
        command = [sys.executable, "-m", "tacit.cli.main", "train", str(job), "--kit", str(self.kits["server"].path)]
        with open(self.place / "driver.txt", "ab") as out:
            extra = ["--resume"] if resume else []
            self.driver = subprocess.Popen([*command, *extra], env=environment(), stdout=out, stderr=out)

    def ended(self) -> bool:
        """Whether no driver runs."""
        return self.driver is None or self.driver.poll() is not None

    def said(self) -> str:
        """What drivers said."""
        return (self.place / "driver.txt").read_text()

    def processes(self, name: str, *, job: bool | None = None) -> list[psutil.Process]:
        """Processes of a site: all, those of jobs, or the daemon."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(ENVIRONMENT) == str(self.kits[name].path):
                    is_job = any(one in " ".join(process.cmdline()) for one in JOB_PROCESSES)
                    if job is None or is_job is job:
                        found.append(process)
        return found

    def releases(self, name: str, run: str) -> dict[int, list[str]]:
        """Digests of a party's releases in a run by number, as they stand in its list."""
        path, found = self.kits[name].ledger.with_name("releases.jsonl"), {}
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):  # of a line that is being written
                record = json.loads(line)
                if record["job"] == run:
                    found.setdefault(record["release"], []).append(record["digest"])
        return found

    def newest_run(self) -> str:
        """The run that was started last."""
        found = sorted(self.kits["server"].jobs.glob("*/job.toml"), key=lambda path: path.parent.stat().st_ctime)
        return max(found, key=lambda path: path.stat().st_mtime).parent.name if found else ""


def environment(**more: str) -> dict[str, str]:
    """What children get, so that they import the same package."""
    return {**os.environ, "PYTHONPATH": str(Path(tacit.__file__).parent.parent), "OMP_NUM_THREADS": "1", **more}


@contextlib.contextmanager
def federation(place: Path, files: Mapping[str, Path], *, disk: bool = True) -> Iterator[Running]:
    """Start a server and parties, the last one on a small disk of its own; stop everything, whatever happens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    home, os.environ["TACIT_HOME"] = os.environ.get("TACIT_HOME"), str(place / "home")
    made = init(Federation("drill", next(iter(files)), "localhost", tuple(files), port), place / "kits")
    lines = {name: Line(port) for name in files}
    kits = {kit.name: replace(kit, port=lines[kit.name].port) if kit.role == "party" else kit for kit in made}
    running = Running(place, kits, lines)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is stopped then, too
    (place / "hook").mkdir()
    try:
        running.disk = small_disk(kits[running.parties[-1]]) if disk else None
        introduce(list(kits.values()))
        for name, kit in kits.items():
            if kit.role == "party":
                kit.write()
                kit.keep(accept="always", allow_noise_seed=True)
            start(running, name, files)
        until = time.monotonic() + READY_WITHIN
        while any("ready:" not in (place / f"{name}.txt").read_text() for name in kits):
            if time.monotonic() > until:
                raise RuntimeError("the federation did not start")
            time.sleep(0.1)
        yield running
    finally:
        stop(running)
        signal.signal(signal.SIGTERM, before)
        set_home(home)


def start(running: Running, name: str, files: Mapping[str, Path]) -> None:
    """Start one site as its organisation does."""
    kit, source = running.kits[name], environment()["PYTHONPATH"]
    lead = name == running.parties[0]
    more = {"PYTHONPATH": f"{HOOK}:{source}", "TACIT_DRILL": str(running.place / "hook")} if lead else {}
    verb = ["serve"] if kit.role == "server" else ["join"]
    data = [] if kit.role == "server" else ["--data", str(files[name])]
    command = [sys.executable, "-m", "tacit.cli.main", *verb, str(kit.path), *data]
    with open(running.place / f"{name}.txt", "wb") as out:
        running.sites[name] = subprocess.Popen(command, env=environment(**more), stdout=out, stderr=out)


def small_disk(kit: Kit) -> Path | None:
    """Give the home of a kit a small disk of its own; None where this process may not."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m,mode=700", "tmpfs", str(kit.make_home())]
    done = subprocess.run(command, capture_output=True, check=False)
    return kit.home if done.returncode == 0 else None


def stop(running: Running) -> None:
    """End every process that was started, by its id, and take the small disk away."""
    if running.driver is not None and running.driver.poll() is None:
        running.driver.kill()
        running.driver.wait(10)
    for name in running.kits:
        for process in running.processes(name):
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)
    for process in running.sites.values():
        if process.poll() is None:
            process.terminate()
    for process in running.sites.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
    for name in running.kits:
        for left in running.processes(name):
            with contextlib.suppress(psutil.Error):
                left.kill()
    for line in running.lines.values():
        line.close()
    if running.disk is not None:
        subprocess.run(["umount", "-l", str(running.disk)], check=False)
