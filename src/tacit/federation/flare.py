"""NVIDIA FLARE as the carrier: the objects of a job at the server and at each site, and how a job is handed in.

With its two neighbours `flare_policy.py` and `flare_roll_call.py` the only file that imports nvflare. The server starts
the site that leads and learns how far it is; everything else goes from site to site, encrypted end to end
(`secure=True`), so that the server carries what it cannot read.
"""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError
from nvflare.fuel.flare_api.flare_api import new_secure_session

from tacit.data.wording import one_line
from tacit.errors import InputError, RunError
from tacit.federation.graph_lead import GraphLead
from tacit.federation.kit import COORDINATOR, Kit
from tacit.federation.lead import StarLead
from tacit.federation.outcome import write_outcome, write_progress
from tacit.federation.own_site import own_site
from tacit.federation.site import Site, lead_of, read_text
from tacit.federation.wire import pack, unpack, unpack_reply
from tacit.runtime.files import write_json
from tacit.types import TraceRow

PATIENCE = {"begin": 86_400.0, "open": 3_600.0, "shape": 3_600.0, "align": 3_600.0}  # people decide; files are read
ANSWER_SECONDS = 60.0  # then the step is asked for again: a step that was done is not done twice
TRIES = 10
LEADING = 10 * 86_400.0
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"


class Meeting:
    """The server's object: starts the lead, and keeps what it says about the run's progress and end."""

    def __init__(self, run: str, job: str) -> None:
        self.run, self.job = run, base64.b64decode(job).decode()

    @collab.main
    def start(self) -> None:
        """Let the lead run the job; what becomes of it stands in the server's kit."""
        folder = Kit.from_environment().jobs / self.run
        folder.mkdir(parents=True, exist_ok=True)
        leading = collab.get_clients([lead_of(read_text(self.job))])[0]
        write_outcome(folder, leading(timeout=LEADING, secure=True).lead(run=self.run, job=self.job))

    @collab.publish
    def progress(self, run: str, round_: int, seconds: float) -> None:
        """Take down how far a run is: its rounds and the time, nothing of its numbers."""
        if run == self.run:
            write_progress(Kit.from_environment().jobs / self.run, int(round_), float(seconds))


class Member:
    """A site's object: does what it is asked as `Site`, and leads where the job says so."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._proxies: dict[str, Any] = {}
        self._lock = threading.Lock()

    def _own(self) -> Site:
        with self._lock:
            if self._site is None:
                self._proxies = {proxy.name: proxy for proxy in collab.context.clients}
                self._site = own_site(Kit.from_environment(), self._ask)
            return self._site

    @collab.publish
    def take(self, step: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Do a step for the site that asks."""
        caller = collab.caller
        try:
            reply: dict[str, Any] = pack(self._own().handle(step, unpack(payload), caller))
        except RunError as error:  # of what came
            return {"error": one_line(error)}
        return reply

    @collab.publish
    def lead(self, run: str, job: str) -> dict[str, Any]:
        """Lead a run: for the server alone, and only where the job says so."""
        site, server = self._own(), collab.server
        if collab.caller != "server":
            return {"refused": "only the server starts a run"}
        beat = _Beat(server, run)
        make = StarLead if read_text(job).split == "features" else GraphLead
        try:
            return {"done": make(site, run, job).go(observe=beat)}
        except (InputError, RunError) as error:
            return {"refused": one_line(error)}

    def _ask(self, names: Sequence[str], step: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Ask sites at once, each until it answers."""
        payload = pack(payload)
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            return dict(zip(names, pool.map(lambda name: self._ask_one(name, step, dict(payload)), names), strict=True))

    def _ask_one(self, name: str, step: str, payload: dict[str, Any]) -> dict[str, Any]:
        if name not in self._proxies:
            return {"error": f"{name!r} does not take part in this job"}
        seconds = PATIENCE.get(step, ANSWER_SECONDS)
        for left in reversed(range(TRIES)):
            try:
                reply = self._proxies[name](timeout=seconds, secure=True).take(step=step, payload=payload)
                return unpack_reply(reply, name)
            except CollabCallError:
                if not left:
                    raise
                time.sleep(min(1.0, 0.1 * (TRIES - left)))
        raise AssertionError("not reached")


class _Beat:
    """Tells the server how far the run is, at most once a second."""

    def __init__(self, server: Any, run: str) -> None:
        self.server, self.run, self.last = server, run, 0.0

    def __call__(self, row: TraceRow) -> None:
        now = time.monotonic()
        if now - self.last >= 1.0:
            self.last = now
            self.server(expect_result=False).progress(run=self.run, round_=row.round, seconds=row.seconds)


def write_job(folder: Path, run: str, job: str, parties: Sequence[str]) -> Path:
    """Write the folder of a FLARE job: names of our classes and the text of the job, no code."""
    app = folder / run / "app" / "config"
    app.mkdir(parents=True)
    packed = base64.b64encode(job.encode()).decode()  # FLARE would replace what stands in braces
    server = {"id": "meeting", "path": f"{__name__}.Meeting", "args": {"run": run, "job": packed}}
    controller = {"id": "controller", "path": CONTROLLER, "args": {"server_obj_id": "meeting", "sync_task_timeout": 60}}
    write_json(app / "config_fed_server.json", {"format_version": 2, "workflows": [controller], "components": [server]})
    member = {"id": "member", "path": f"{__name__}.Member", "args": {}}
    executor = {"tasks": ["*"], "executor": {"path": EXECUTOR, "args": {"client_obj_id": "member"}}}
    write_json(app / "config_fed_client.json", {"format_version": 2, "executors": [executor], "components": [member]})
    meta = {
        "name": run,
        "resource_spec": {},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
        "deploy_map": {"app": ["server", *parties]},
    }
    write_json(folder / run / "meta.json", meta)
    return folder / run


class Desk:
    """Where jobs are handed in: a session with the server, as the coordinator's organisation.

    Raises
    ------
    RunError
        Where the server cannot be reached, or does not let this kit in.
    """

    def __init__(self, kit: Kit, seconds: float = 10.0) -> None:
        try:
            self.session = new_secure_session(COORDINATOR, str(kit.admin), timeout=seconds, auto_login_max_tries=1)
        except Exception as error:  # the library raises all sorts, down to OSError
            raise RunError(f"cannot reach the server at {kit.host}:{kit.port} ({one_line(error)})") from error

    def submit(self, folder: Path) -> str:
        """Hand in a job; its number at the server."""
        return str(self._do(lambda: self.session.submit_job(str(folder))))

    def status(self, number: str) -> str:
        """What the server says of a job."""
        return str(self._do(lambda: self.session.get_job_meta(number)).get("status", ""))

    def refusals(self, number: str) -> list[str]:
        """What sites said when the job came to them."""
        return [str(line) for line in self._do(lambda: self.session.get_job_meta(number)).get("job_deploy_detail", [])]

    def system(self) -> tuple[float, dict[str, float]]:
        """When the server started, and the parties that are connected, with the time since when."""
        info = self._do(self.session.get_system_info)
        return float(info.server_info.start_time), {one.name: float(one.last_connect_time) for one in info.client_info}

    def without(self, number: str, names: Sequence[str]) -> list[str]:
        """The sites of these at which a job does not run now."""
        told = self._do(lambda: self.session.get_client_job_status(list(names)))
        running = {one.get("client_name") for one in told if one.get("job_id") == number}
        return [name for name in names if name not in running]

    def abort(self, number: str) -> None:
        """End a job that cannot go on; nothing where it has ended."""
        with contextlib.suppress(Exception):
            self.session.abort_job(number)

    def close(self) -> None:
        """Leave."""
        with contextlib.suppress(Exception):
            self.session.close()

    @staticmethod
    def _do(what: Any) -> Any:
        try:
            return what()
        except Exception as error:
            raise RunError(f"the server does not answer ({one_line(error)})") from error
