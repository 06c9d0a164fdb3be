"""NVIDIA FLARE as the carrier: the objects of a job at the server and at each site, and how a job is handed in.

With its two neighbours `flare_policy.py` and `flare_roll_call.py` the only file that imports nvflare. The server starts
the site that leads and learns how far it is; everything else goes from site to site, encrypted end to end
(`secure=True`), so that the server carries what it cannot read.
"""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError
from nvflare.fuel.flare_api.flare_api import new_secure_session

from tacit.data.wording import one_line
from tacit.errors import FaultError, InputError, RunError
from tacit.federation.kit import COORDINATOR, Kit
from tacit.federation.once import Once
from tacit.federation.outcome import write_fault, write_outcome, write_progress
from tacit.federation.protocol import (
    Begin,
    Interrupted,
    Prepare,
    Reason,
    Refused,
    Step,
    decode_reply,
    decode_request,
    encode,
)
from tacit.federation.step_log import log_step
from tacit.runtime.files import write_json

if TYPE_CHECKING:  # the server and who hands jobs in need nothing of these, which take seconds to import
    from tacit.federation.site import Site
    from tacit.types import TraceRow

PATIENCE: dict[type[Step], float] = {Prepare: 86_400.0, Begin: 86_400.0}  # seconds for all tries: people decide
USUAL_PATIENCE = 3_600.0
FIRST_WAIT, LONGEST_WAIT = 15.0, 600.0  # for an answer; then the step is asked for again, and is not done twice
PAUSE = 0.5  # before that
LEADING = 10 * 86_400.0
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"


class Meeting:
    """The server's object: starts the lead, and keeps what it says about the run's progress and end."""

    def __init__(self, run: str, job: str, lead: str) -> None:
        self.run, self.job, self.lead = run, base64.b64decode(job).decode(), lead

    @collab.main
    def start(self) -> None:
        """Let the lead run the job; what becomes of it stands in the server's kit."""
        folder = Kit.from_environment().jobs / self.run
        folder.mkdir(parents=True, exist_ok=True)
        leading = collab.get_clients([self.lead])[0]  # which refuses where the job names another
        told = leading(timeout=LEADING, secure=True).lead(run=self.run, job=self.job)
        if "fault" in told:
            write_fault(folder, str(told["fault"]))
        else:
            write_outcome(folder, told)

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
        self._once = Once()
        self._numbers: dict[str, Iterator[int]] = {}  # of the questions to each site
        self._importing = threading.Thread(target=_import_early, daemon=True)
        self._importing.start()

    def _own(self) -> Site:
        self._importing.join()  # two threads must not import the same modules at once
        from tacit.federation.own_site import own_site

        with self._lock:
            if self._site is None:
                self._proxies = {proxy.name: proxy for proxy in collab.context.clients}
                self._numbers = {name: itertools.count(1) for name in self._proxies}
                self._site = own_site(Kit.from_environment(), self._ask)
            return self._site

    @collab.publish
    def take(self, number: int, content: bytes) -> bytes:
        """Do a step for the site that asks, once for each of its numbers."""
        site, caller = self._own(), collab.caller
        return self._once.do(caller, int(number), lambda: _handled(site, content, caller))

    @collab.publish
    def lead(self, run: str, job: str) -> dict[str, Any]:
        """Lead a run: for the server alone, and only where the job says so."""
        site, server = self._own(), collab.server
        from tacit.federation.handlers import make_lead
        from tacit.federation.lead import outcome_line

        if collab.caller != "server":
            return {"refused": "only the server starts a run"}
        beat = _Beat(server, run)
        try:
            return {"done": {"rounds": make_lead(site, run, job).go(observe=beat)}}
        except (FaultError, OSError) as error:  # nobody refused: the driver hands the job in again
            return {"fault": outcome_line(error)}
        except (InputError, RunError) as error:
            site.note_problem(one_line(error))
            return {"refused": outcome_line(error)}

    def _ask(self, names: Sequence[str], request: Step) -> dict[str, Step]:
        """Ask sites at once, each until it answers."""
        content = encode(request)
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            return dict(zip(names, pool.map(lambda name: self._ask_one(name, request, content), names), strict=True))

    def _ask_one(self, name: str, request: Step, content: bytes) -> Step:
        if name not in self._proxies:
            return Refused(reason=Reason.UNREACHABLE)
        number, wait = next(self._numbers[name]), FIRST_WAIT
        until = time.monotonic() + PATIENCE.get(type(request), USUAL_PATIENCE)
        while True:
            try:
                reply = self._proxies[name](timeout=wait, secure=True).take(number=number, content=content)
                return _reply(reply, request)
            except CollabCallError:
                if time.monotonic() > until:
                    return Interrupted(reason=Reason.UNREACHABLE)
                time.sleep(PAUSE)
                wait = min(2 * wait, LONGEST_WAIT)


def _reply(content: bytes, request: Step) -> Step:
    """A reply as it came, which anybody may have made."""
    try:
        return decode_reply(content, request)
    except RunError:
        return Refused(reason=Reason.MESSAGE)


def _handled(site: Site, content: bytes, caller: str) -> bytes:
    """What a site does with a message, which anybody may have made."""
    try:
        request = decode_request(content)
    except RunError:
        return encode(Refused(reason=Reason.MESSAGE))
    began = time.perf_counter()
    reply = site.handle(request, caller)
    packed, seconds = encode(reply), time.perf_counter() - began
    log_step(Kit.from_environment(), request, reply, caller, len(content), len(packed), seconds)
    return packed


def _import_early() -> None:
    """Import what a site needs while its process still finds the others."""


class _Beat:
    """Tells the server how far the run is, at most once a second."""

    def __init__(self, server: Any, run: str) -> None:
        self.server, self.run, self.last = server, run, 0.0

    def __call__(self, row: TraceRow) -> None:
        now = time.monotonic()
        if now - self.last >= 1.0:
            self.last = now
            self.server(expect_result=False).progress(run=self.run, round_=row.round, seconds=row.seconds)


def write_job(folder: Path, run: str, job: str, parties: Sequence[str], lead: str) -> Path:
    """Write the folder of a FLARE job: names of our classes and the text of the job, no code."""
    app = folder / run / "app" / "config"
    app.mkdir(parents=True)
    packed = base64.b64encode(job.encode()).decode()  # FLARE would replace what stands in braces
    server = {"id": "meeting", "path": f"{__name__}.Meeting", "args": {"run": run, "job": packed, "lead": lead}}
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
        logging.getLogger("nvflare").addHandler(logging.NullHandler())  # it says each try; the driver says it once
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it says that it connects
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

    def unfinished(self, run: str) -> list[str]:
        """Numbers of the jobs of a run that the server does not take for ended, the newest first."""
        found = self._do(lambda: self.session.list_jobs(name_prefix=run, reverse=True)) or []
        open_ = [one for one in found if not str(one.get("status", "")).startswith("FINISHED")]
        return [str(one["job_id"]) for one in open_ if one.get("job_name") == run]

    def system(self) -> tuple[float, dict[str, float]]:
        """When the server started, and the parties that are connected, with the time since when."""
        info = self._do(self.session.get_system_info)
        return float(info.server_info.start_time), {one.name: float(one.last_connect_time) for one in info.client_info}

    def without(self, number: str, names: Sequence[str]) -> list[str]:
        """The sites of these at which a job does not run now."""
        told = self._do(lambda: self.session.get_client_job_status(list(names)))
        running = {one.get("client_name") for one in told or [] if one.get("job_id") == number}
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
