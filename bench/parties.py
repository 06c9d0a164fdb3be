"""A federation on this machine for the bench: a server and parties, each a process with its own kit and keys."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import tacit
from tacit.federation.kit import Kit
from tacit.federation.members import introduce
from tacit.federation.project import Federation, init

READY_WITHIN = 120.0
ENVIRONMENT = {"PYTHONPATH": str(Path(tacit.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
ROLL_CALL = "tacit.federation.flare_roll_call."


def set_home(home: str | None) -> None:
    """Where organisations keep what is their own, as it was before."""
    if home is None:
        os.environ.pop("TACIT_HOME", None)
    else:
        os.environ["TACIT_HOME"] = home


class Parties:
    """Server and parties that run while the context lasts.

    Parameters
    ----------
    folder : Path
        Where the kits are made.
    names : sequence of str
    data : Path
        A file for the start; each training names its own.
    """

    def __init__(self, folder: Path, names: Sequence[str], data: Path) -> None:
        self.folder, self.names, self.data = folder, list(names), data
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Parties:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = int(taken.getsockname()[1])
        self.home = os.environ.get("TACIT_HOME")
        os.environ["TACIT_HOME"] = str(self.folder / "home")
        made = init(Federation("bench", self.names[0], "localhost", tuple(self.names), port), self.folder / "kits")
        self.kits = {kit.name: kit for kit in made}
        introduce(made)
        try:
            said = [self._start(kit) for kit in made]
            until = time.monotonic() + READY_WITHIN
            while not all("ready:" in path.read_text() for path in said):
                if time.monotonic() > until:
                    raise RuntimeError(f"the federation did not start: {[path.read_text() for path in said]}")
                time.sleep(0.2)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self, kit: Kit) -> Path:
        verb, arguments = ("serve", []) if kit.role == "server" else ("join", ["--data", str(self.data)])
        if kit.role != "server":
            kit.keep(accept="always")
        said = self.folder / f"{kit.name}.txt"
        with open(said, "wb") as out:
            command = [sys.executable, "-m", "tacit.cli.main", verb, str(kit.path), *arguments]
            self.processes.append(subprocess.Popen(command, env={**os.environ, **ENVIRONMENT}, stdout=out, stderr=out))
        return said

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(60)
        set_home(self.home)

    def train(self, job: Path, files: Mapping[str, Path]) -> str:
        """Train a job through `tacit train --kit`, each party with its own file; the name of the run."""
        for name, path in files.items():
            self.kits[name].keep(data=str(path))
        before = set(self._runs())
        command = [sys.executable, "-m", "tacit.cli.main", "train", str(job), "--kit", str(self.kits["server"].path)]
        done = subprocess.run(
            command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=1800, check=False
        )
        if done.returncode:
            raise RuntimeError(f"training ended with {done.returncode}: {done.stdout}{done.stderr}")
        (run,) = set(self._runs()) - before
        return run

    def _runs(self) -> list[str]:
        jobs = self.kits["server"].jobs
        return [path.name for path in jobs.iterdir()] if jobs.is_dir() else []

    def submit(self, run: str, names: Sequence[str], server: str, arguments: Mapping[str, Any], party: str) -> Path:
        """Hand in a job of classes that train nothing, wait for its end; the server's folder of it."""
        from tacit.federation.flare import CONTROLLER, EXECUTOR, AdminSession
        from tacit.files import write_json

        place = self.folder / "jobs" / run
        config = place / "app" / "config"
        config.mkdir(parents=True)
        control = {"id": "controller", "path": CONTROLLER, "args": {"server_obj_id": "object", "sync_task_timeout": 60}}
        component = {"id": "object", "path": ROLL_CALL + server, "args": {"run": run, **arguments}}
        executor = {"tasks": ["*"], "executor": {"path": EXECUTOR, "args": {"client_obj_id": "object"}}}
        member = {"id": "object", "path": ROLL_CALL + party, "args": {}}
        sides: list[tuple[str, dict[str, Any]]] = [
            ("server", {"workflows": [control], "components": [component]}),
            ("client", {"executors": [executor], "components": [member]}),
        ]
        for side, settings in sides:
            write_json(config / f"config_fed_{side}.json", {"format_version": 2, **settings})
        deploy = {
            "min_clients": len(names),
            "mandatory_clients": list(names),
            "deploy_map": {"app": ["server", *names]},
        }
        write_json(place / "meta.json", {"name": run, "resource_spec": {}, **deploy})
        desk = AdminSession(self.kits["server"])
        try:
            number = desk.submit(place)
            while not (status := desk.status(number)).startswith("FINISHED"):
                time.sleep(0.5)
        finally:
            desk.close()
        if status != "FINISHED:COMPLETED":
            raise RuntimeError(f"the job ended with {status}: {desk.refusals(number)}")
        return self.kits["server"].jobs / run
