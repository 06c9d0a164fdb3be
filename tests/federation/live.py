"""A federation on loopback for tests, jobs to submit to it, and strangers who knock at its port."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tacit
from tacit.federation.kit import COORDINATOR, Kit
from tacit.federation.members import introduce
from tacit.federation.project import Federation, init

SOURCE = str(Path(tacit.__file__).parent.parent)
READY_WITHIN = 120.0
ROLL_CALL = "tacit.federation.flare_roll_call."
COLLAB = "nvflare.collab.runtime."


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def environment() -> dict[str, str]:
    """This process's, so that children import the same package."""
    return {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@dataclass
class Process:
    """`tacit serve` or `tacit join`, as a user would start it."""

    kit: Kit
    said: Path
    popen: subprocess.Popen[bytes]

    @classmethod
    def start(cls, kit: Kit, *arguments: str, variables: Mapping[str, str] | None = None) -> Process:
        verb = "serve" if kit.role == "server" else "join"
        said = kit.path.parent / f"said-{kit.name}-{time.monotonic_ns()}.txt"
        with open(said, "wb") as out:
            command = [sys.executable, "-m", "tacit.cli.main", verb, str(kit.path), *arguments]
            everything = {**environment(), "TACIT_HOME": str(kit.home.parent.parent), **(variables or {})}
            return cls(kit, said, subprocess.Popen(command, env=everything, stdout=out, stderr=out))

    def text(self) -> str:
        return self.said.read_text()

    def log(self) -> str:
        return (self.kit.logs / f"{self.kit.role}.log").read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = READY_WITHIN) -> bool:
        """Whether it said so in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if text in self.text():
                return True
            if self.popen.poll() is not None:
                return text in self.text()
            time.sleep(0.05)
        return False

    def stop(self) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(120)


@dataclass
class Live:
    """A running federation."""

    place: Path
    kits: dict[str, Kit]
    processes: dict[str, Process] = field(default_factory=dict)
    seconds: float = 0.0

    def admin(self, *tasks: Sequence[str]) -> list[Any]:
        """Do something as the coordinator."""
        return ask(self.kits["server"].admin, COORDINATOR, *tasks)


def ask(place: Path, user: str, *tasks: Sequence[str]) -> list[Any]:
    """Do something with an admin kit; raises RuntimeError with what FLARE said where it lets nobody in."""
    command = [sys.executable, str(Path(__file__).parent / "admin.py"), str(place), user, json.dumps(tasks)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=150, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    outcomes: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return outcomes


@contextlib.contextmanager
def live_federation(place: Path, parties: Sequence[str] = ("bank", "shop")) -> Iterator[Live]:
    """Make kits, start server and parties, and end them all."""
    began = time.monotonic()
    kits = init(Federation("credit", "bank", "localhost", tuple(parties), free_port()), place / "credit")
    data = place / "people.csv"
    data.write_text("customer,x\na,1\nb,2\n")
    live = Live(place, {kit.name: kit for kit in kits})
    introduce(kits)
    try:
        for kit in kits:
            arguments = () if kit.role == "server" else ("--data", str(data), "--id", "customer")
            live.processes[kit.name] = Process.start(kit, *arguments)
        for process in live.processes.values():
            assert process.wait_for("ready:"), process.text()
        live.seconds = time.monotonic() - began
        yield live
    finally:
        for process in reversed(live.processes.values()):
            process.stop()


# --- jobs ---------------------------------------------------------------------------------------------


def write_job(
    folder: Path,
    name: str,
    *,
    party: str = ROLL_CALL + "Present",
    arguments: dict[str, Any] | None = None,
    files: dict[str, str] | None = None,
) -> str:
    """Write a roll call as a FLARE job, with whatever a test adds to it, and return its folder."""
    app = folder / name / "app"
    (app / "config").mkdir(parents=True)
    meta = {"name": name, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    (folder / name / "meta.json").write_text(json.dumps(meta))
    controller = {"server_obj_id": "caller", "collab_obj_ids": [], "props": {}}
    executor = {"client_obj_id": "present", "collab_obj_ids": [], "props": {}}
    server = {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": COLLAB + "controller.CollabController", "args": controller}],
        "components": [{"id": "caller", "path": ROLL_CALL + "Caller", "args": {}}],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": COLLAB + "executor.CollabExecutor", "args": executor}}],
        "components": [{"id": "present", "path": party, "args": arguments or {}}],
    }
    (app / "config" / "config_fed_server.json").write_text(json.dumps(server))
    (app / "config" / "config_fed_client.json").write_text(json.dumps(client))
    for path, text in (files or {}).items():
        (app / path).parent.mkdir(parents=True, exist_ok=True)
        (app / path).write_text(text)
    return str(folder / name)


# --- strangers ----------------------------------------------------------------------------------------


def knock(kit: Kit, certificate: tuple[Path, Path] | None, authority: Path | None = None) -> bytes:
    """Open a TLS connection to the server and return the first bytes it sends: b"" or an error for a stranger."""
    context = ssl.create_default_context(cafile=str(authority or kit.startup / "rootCA.pem"))
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(*certificate)
    with (
        socket.create_connection(("127.0.0.1", kit.port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        return secure.recv(64)


def own_keys(kit: Kit) -> tuple[Path, Path]:
    """Certificate and key of a party's kit."""
    return kit.startup / "client.crt", kit.startup / "client.key"


def copy_kit(kit: Kit, place: Path) -> Kit:
    """A copy of the kit, which holds nothing of what its organisation did since."""
    shutil.copytree(kit.path, place)
    return Kit.open(place)
