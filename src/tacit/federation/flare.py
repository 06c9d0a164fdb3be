"""NVIDIA FLARE as the carrier: the objects of a job at the server and at each site, and how a job is handed in.

With its two neighbours `flare_policy.py` and `flare_roll_call.py` the only files that import nvflare. FLARE is trusted
with nothing but carrying: who sent a message is what its seal says (`channel.py`), never what FLARE says.

What the server gets in clear, and nothing else: the text of the job; public cards; public keys of processes and their
numbers, so how often a site has started one; who sends whom how many bytes and when; the round and the seconds of the
run; whom the lead waits for, whether they answer at all, and which of four steps of the protocol they were asked for
(keys, preparation, training, an answer); how the run ended: the number of rounds, or one line.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.fuel.utils.config_service import ConfigService

from tacit.errors import FaultError, InputError, RunError
from tacit.federation.channel import Channel, PeerConnection, Sealed, SealedRequest, SealError, UnconfirmedError
from tacit.federation.child import end_with_parent
from tacit.federation.flare_policy import read_only_plain
from tacit.federation.flare_settings import MESSAGE_TYPES
from tacit.federation.identity import OwnKeys, count_start, start_statement
from tacit.federation.kit import COORDINATOR, Kit
from tacit.federation.members import Members
from tacit.federation.progress import (
    COMPUTING,
    KEYS,
    PREPARE,
    TRAIN,
    as_waiting,
    write_fault,
    write_outcome,
    write_progress,
)
from tacit.federation.protocol import (
    Begin,
    Interrupted,
    InterruptionError,
    Open,
    PartyRefusedError,
    Prepare,
    Reason,
    RefusalError,
    Refused,
    Step,
    decode_reply,
    decode_request,
    encode,
    outcome_line,
)
from tacit.federation.questions import pending_since
from tacit.federation.releases import log_question, log_step
from tacit.files import write_json
from tacit.text import one_line

if TYPE_CHECKING:
    from tacit.federation.site import Site
    from tacit.types import TraceRow


PATIENCE: dict[type[Step], float] = {Prepare: 86_400.0, Begin: 86_400.0}  # seconds for all tries: people decide
STAGES: dict[type[Step], str] = {Prepare: PREPARE, Begin: TRAIN}  # what people are asked for
USUAL_PATIENCE = 3_600.0
TO_CONFIRM = 86_400.0  # seconds that people have to confirm each other's keys
FIRST_WAIT, LONGEST_WAIT = 15.0, 600.0  # for an answer; then the step is asked for again, and is not done twice
PAUSE = 0.5  # before that
SHORT = 5.0  # for an answer that needs no work
BEAT = 5.0  # seconds between two words of the lead to the server, however long a round takes
MOST_REFUSALS = 5  # of one message
GREETINGS = 5  # tries to exchange cards with everybody in a job
UNCONFIRMED, REFUSED = "unconfirmed", "refused"  # all that somebody hears whose message is not taken
KEPT_JOBS = 5  # at the server, of those that have ended
LEADING = 10 * 86_400.0
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
log = logging.getLogger(__name__)


# --- the server ----------------------------------------------------------------------------------------


class Meeting:
    """The server's object: starts the lead, and keeps what it says about the run's progress and end."""

    def __init__(self, run: str, job: str, lead: str) -> None:
        self.run, self.job, self.lead = run, base64.b64decode(job).decode(), lead
        end_with_parent()

    @collab.main
    def start(self) -> None:
        """Let the lead run the job; what becomes of it stands in the home of the server's organisation."""
        folder = Kit.from_environment().jobs / self.run
        folder.mkdir(parents=True, exist_ok=True)
        leading = collab.get_clients([self.lead])[0]  # which refuses where the job names another
        told = leading(timeout=LEADING).lead(run=self.run, job=self.job)
        if "fault" in told:
            write_fault(folder, str(told["fault"]))
        else:
            write_outcome(folder, told)

    @collab.publish
    def progress(self, run: str, round_: int, seconds: float, waiting: dict[str, Any]) -> None:
        """Take down how far a run is: its rounds, the time and whom the lead waits for, nothing of its numbers."""
        if run == self.run:
            who = {str(name): as_waiting(value) for name, value in waiting.items()}
            write_progress(Kit.from_environment().jobs / self.run, int(round_), float(seconds), who)


# --- a site --------------------------------------------------------------------------------------------


class Member:
    """A site's object: does what it is asked as `Site`, and leads where the job says so.

    Parameters
    ----------
    run : str
        The run that this process is for.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        end_with_parent()
        self._site: Site | None = None
        self._proxies: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._lines: dict[str, PeerConnection] = {}
        self._line_locks: dict[str, threading.Lock] = {}
        self._met: set[tuple[str, bytes]] = set()  # processes of others whose number is known
        self._told: set[str] = set()  # senders that are not confirmed, each once in the log
        self._waiting: dict[str, tuple[float, bool, str]] = {}  # since when for whom, whether they answer, for what
        self._importing = threading.Thread(target=_import_early, daemon=True)
        self._importing.start()

    def _own(self) -> Site:
        self._importing.join()  # two threads must not import the same modules at once
        from tacit.federation.own_site import own_site  # imported early, with scipy and pyarrow

        with self._lock:
            if self._site is None:
                kit = Kit.from_environment()
                self._kit, self._members = kit, Members(kit)
                self._proxies = {proxy.name: proxy for proxy in collab.context.clients}
                self._line_locks = {name: threading.Lock() for name in self._proxies}
                self._channel = Channel(OwnKeys.of(kit), self._members.card, self.run, count_start(kit))
                self._site = own_site(kit, self._ask)
                threading.Thread(target=self._greet, daemon=True).start()
            return self._site

    @collab.publish
    def hello(self, name: str, cards: list[Any]) -> dict[str, Any]:
        """Take the card of another site, and show the own one and the key of this process: all of it is public."""
        try:
            self._own()
            if name in self._proxies and name != self._channel.name:
                self._members.meet(name, cards)
        except InputError as error:
            log.warning("%s", error)
        except Exception:  # whatever it says stays here: FLARE would send it in clear
            log.exception("a greeting was not taken")
        if self._site is None:
            return {REFUSED: True}
        own = self._channel
        proof = {"start": own.start, "proof": own.start_proof()}
        return {"cards": own.identity.cards(), "process": own.process, **proof}

    def _greet(self) -> None:
        """Show the own card to everybody in the job, and keep theirs, so that people can compare all of them."""
        missing = [name for name in self._proxies if name != self._channel.name]
        for _ in range(GREETINGS):
            for name in list(missing):
                with contextlib.suppress(Exception):  # it may not be there yet; nothing depends on it
                    self._members.meet(name, self._hello(name, SHORT)["cards"])
                    missing.remove(name)
            if not missing:
                return
            time.sleep(SHORT)

    def _hello(self, name: str, wait: float) -> dict[str, Any]:
        told = self._proxies[name](timeout=wait).hello(name=self._channel.name, cards=self._channel.identity.cards())
        return told if isinstance(told, dict) else {}

    @collab.publish
    def take(
        self, sender: str, process: bytes, start: int, number: int, floor: int, salt: bytes, content: bytes
    ) -> dict[str, Any]:
        """Do what a site asks for that seals its messages; nobody else hears more than that it is not taken."""
        try:
            self._own()
            request = as_request(sender, process, start, number, floor, salt, content)
            if sender not in self._proxies:
                raise SealError("it takes no part in this job")
            return self._channel.answer(request, partial(self._done_by, request))._asdict()
        except UnconfirmedError as error:
            if sender not in self._told:
                self._told.add(sender)
                log.warning("%s", error)
            return {UNCONFIRMED: True}
        except SealError as error:
            log.warning("a message that says to be from %.80r was refused: %s", sender, error)
            return {REFUSED: True}
        except Exception:  # whatever it says stays here: FLARE would send it in clear
            log.exception("a message was not taken")
            return {REFUSED: True}

    def _done_by(self, request: SealedRequest, content: bytes, sender: str) -> bytes:
        """What this site does about a request, once it is sure that its sender has not forgotten what it spent."""
        if (sender, request.process) not in self._met:
            try:
                self._members.note_start(sender, request.process, request.start)
            except RefusalError as error:
                log.warning("%s", error)
                return encode(Refused(reason=error.reason))
            self._met.add((sender, request.process))
        return self._done(content, sender)

    def _done(self, content: bytes, sender: str) -> bytes:
        """What this site does about a request of a confirmed one."""
        site = self._own()
        try:
            request = decode_request(content)
        except RunError as error:
            log.warning("%r sent something that is no request: %s", sender, error)
            return encode(Refused(reason=Reason.MESSAGE))
        if isinstance(request, Open) and request.run != self.run:
            return encode(Refused(reason=Reason.BUSY))  # this process is for one run
        began = time.perf_counter()
        reply = site.handle(request, sender)
        packed = encode(reply)
        log_step(self._kit, self.run, request, reply, sender, len(content), len(packed), time.perf_counter() - began)
        return packed

    @collab.publish
    def lead(self, run: str, job: str) -> dict[str, Any]:
        """Lead the run: for the server alone, and only where the job says so."""
        caller, server = collab.caller, collab.server
        if caller != "server" or run != self.run:
            return {"refused": "only the server starts a run, and a process is for one run"}
        try:
            return self._lead(run, job, server)
        except Exception as error:  # whatever it says stays here: FLARE would send it in clear
            log.exception("leading failed")
            if self._site is not None:
                self._site.note_problem(f"leading failed with {type(error).__name__}: see the log of this organisation")
            return {"refused": outcome_line(error)}

    def _lead(self, run: str, job: str, server: Any) -> dict[str, Any]:
        site = self._own()
        from tacit.federation.handlers import make_lead  # imported early, with scipy and pyarrow

        with _ProgressReporter(server, run, self._waits, self._kit.jobs / run) as beat:
            try:
                return {"done": {"rounds": make_lead(site, run, job).go(observe=beat)}}
            except (FaultError, OSError, RunAborted) as error:  # nobody refused: the driver hands the job in again
                log.warning("interrupted: %s", one_line(error))
                return {"fault": outcome_line(error)}
            except (InputError, RunError) as error:
                if not (isinstance(error, PartyRefusedError) and error.party == site.name):  # it knows why
                    site.note_problem(one_line(error))
                return {"refused": outcome_line(error)}

    # --- asking others ---

    def _ask(self, names: Sequence[str], request: Step) -> dict[str, Step]:
        """Ask sites at once, each until it answers."""
        content, patience = encode(request), PATIENCE.get(type(request), USUAL_PATIENCE)
        stage = STAGES.get(type(request), COMPUTING)
        over = threading.Event()  # one of them refused: the others need not answer any more

        def ask(name: str) -> Step:
            reply = ask_one(name)
            if isinstance(reply, Refused):
                over.set()
            return reply

        def ask_one(name: str) -> Step:
            try:
                began = time.perf_counter()
                packed = self._ask_one(name, content, patience, over, stage)
                reply = decode_reply(packed, request)
                seconds = time.perf_counter() - began
                log_question(self._kit, self.run, request, reply, name, len(packed), len(content), seconds)
                return reply
            except InterruptionError as error:
                return Interrupted(reason=error.reason)
            except RefusalError as error:
                log.warning("%s", error)
                return Refused(reason=error.reason)
            except RunError as error:
                log.warning("%r sent a reply that cannot be read: %s", name, error)
                return Refused(reason=Reason.MESSAGE)

        with ThreadPoolExecutor(max(1, len(names))) as pool:
            return dict(zip(names, pool.map(ask, names), strict=True))

    def _ask_one(self, name: str, content: bytes, patience: float, over: threading.Event, stage: str) -> bytes:
        """The reply of a site, asked for until it comes, or until it is not needed any more.

        Raises
        ------
        InterruptionError
            Where it does not answer.
        RefusalError
            Where it is not confirmed, or does not take what this site seals.
        """
        if name not in self._proxies:
            raise RefusalError(Reason.UNREACHABLE)
        line = self._line(name)
        request, wait, refusals = line.seal(content), FIRST_WAIT, 0
        longest = FIRST_WAIT if patience > USUAL_PATIENCE else LONGEST_WAIT  # people decide: others may have refused
        until, began = time.monotonic() + patience, time.time()
        if stage != COMPUTING:  # a person is asked: that is said at once
            self._waiting[name] = (began, True, stage)
        try:
            while True:
                stage_now = stage
                try:
                    told = self._carry(name, request, wait)
                    if told.get(UNCONFIRMED):
                        until = max(until, time.monotonic() + SHORT) if time.time() - began < TO_CONFIRM else 0.0
                        self._members.wait_for(name, True)
                        stage_now = KEYS
                    else:
                        return line.open(request, _sealed(told))
                except CollabCallError:
                    wait = min(2 * wait, longest)
                except SealError as error:
                    refusals += 1
                    log.warning("%r did not answer under its seal: %s", name, error)
                if refusals >= MOST_REFUSALS:
                    detail = f"{name!r} and {self._channel.name!r} do not take what the other seals: {COMPARE}"
                    raise RefusalError(Reason.KEYS, detail)
                if over.is_set() or time.monotonic() > until:
                    raise InterruptionError(Reason.UNREACHABLE)
                self._waiting[name] = (began, self._answers(name), stage_now)
                time.sleep(PAUSE)
        finally:
            line.done(request)
            if self._waiting.pop(name, None) is not None:
                self._members.wait_for(name, False)

    def _carry(self, name: str, request: SealedRequest, wait: float) -> dict[str, Any]:
        """Hand a request to FLARE; what comes back, from whomever."""
        sender, process, start, number, floor, (salt, content) = request
        asked = {"sender": sender, "process": process, "start": start, "number": number, "floor": floor}
        told = self._proxies[name](timeout=wait).take(**asked, salt=salt, content=content)
        return told if isinstance(told, dict) else {}

    def _line(self, name: str) -> PeerConnection:
        """The way to another site, once its key is confirmed here."""
        with self._line_locks[name]:
            if name not in self._lines:
                self._lines[name] = self._connected(name)
            return self._lines[name]

    def _connected(self, name: str) -> PeerConnection:
        began, wait = time.time(), FIRST_WAIT
        while True:
            try:
                told = self._hello(name, wait)
                if self._members.meet(name, told["cards"]):
                    self._waiting.pop(name, None)
                    self._check_start(name, told)
                    return self._channel.line(name, told["process"])
            except CollabCallError:
                wait = min(2 * wait, LONGEST_WAIT)
            except (InputError, SealError, LookupError, TypeError) as error:
                log.warning("%s", error)
                detail = f"the key that {name!r} shows is not the confirmed one: {COMPARE}"
                raise RefusalError(Reason.KEYS, detail) from error
            if time.time() - began > TO_CONFIRM:
                detail = f"nobody at {self._channel.name!r} confirmed the key of {name!r}: {COMPARE}"
                raise RefusalError(Reason.KEYS, detail)
            self._waiting[name] = (began, self._answers(name), KEYS)
            time.sleep(PAUSE)

    def _check_start(self, name: str, told: Mapping[str, Any]) -> None:
        """Refuse a site whose processes number anew: its home was put back to an older copy.

        Raises
        ------
        SealError
            Where that site has not signed the number of its process.
        RefusalError
            Where the number was seen before, of another process.
        """
        process, start, proof, card = told["process"], told["start"], told["proof"], self._members.card(name)
        if not isinstance(process, bytes) or type(start) is not int or not isinstance(proof, bytes) or card is None:
            raise SealError("the key of its process is none")
        if not 0 < start < 2**62 or not card.has_signed(start_statement(self.run, process, start), proof):
            raise SealError("the number of its process is not signed by its key")
        self._members.note_start(name, process, start)

    def _answers(self, name: str) -> bool:
        """Whether a site answers a question that needs no work."""
        try:
            self._proxies[name](timeout=SHORT).hello(name="", cards=[])
        except CollabCallError:
            return False
        return True

    def _waits(self) -> dict[str, list[Any]]:
        now = time.time()
        waits = {name: [now - since, answers, stage] for name, (since, answers, stage) in list(self._waiting.items())}
        own = pending_since(self._kit.jobs / self.run)
        return waits if own is None else {self._channel.name: [now - own[0], True, own[1]], **waits}


COMPARE = "compare fingerprints there and here (tacit federation members KIT)"


def as_request(
    sender: object, process: object, start: object, number: object, floor: object, salt: object, content: object
) -> SealedRequest:
    """What came as a request, each part of its kind.

    Raises
    ------
    SealError
        Where one is not.
    """
    whole = all(type(one) is int and 0 < one < 2**62 for one in (start, number, floor))
    if not whole or not isinstance(sender, str) or not all(isinstance(one, bytes) for one in (process, salt, content)):
        raise SealError("something came that is no request")
    return SealedRequest(sender, process, start, number, floor, Sealed(salt, content))  # type: ignore[arg-type]


def _sealed(told: Mapping[str, Any]) -> Sealed:
    salt, content = told.get("salt"), told.get("content")
    if not isinstance(salt, bytes) or not isinstance(content, bytes):
        raise SealError("it was refused, or something came that is no answer")
    return Sealed(salt, content)


def _import_early() -> None:
    """Import what a site needs while its process still finds the others: scipy and pyarrow take seconds."""
    import tacit.federation.own_site  # noqa: F401


class _ProgressReporter:
    """Tells the server how far the run is: after a round, at most once a second, and from time to time anyway."""

    def __init__(self, server: Any, run: str, waits: Callable[[], dict[str, list[Any]]], folder: Path) -> None:
        self.server, self.run, self.waits, self.last, self.folder = server, run, waits, 0.0, folder
        self.round, self.seconds, self._over = 0, 0.0, threading.Event()

    def __enter__(self) -> _ProgressReporter:
        threading.Thread(target=self._keep_telling, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def __call__(self, row: TraceRow) -> None:
        self.round, self.seconds = row.round, row.seconds
        if time.monotonic() - self.last >= 1.0:
            self._tell()

    def _keep_telling(self) -> None:
        while not self._over.wait(BEAT):
            with contextlib.suppress(Exception):  # whatever FLARE raises: it is told again
                self._tell()

    def _tell(self) -> None:
        self.last = time.monotonic()
        waiting = self.waits()
        if self.folder.is_dir():  # the same for tacit status at this organisation
            write_progress(self.folder, self.round, self.seconds, waiting)
        told = {"run": self.run, "round_": self.round, "seconds": self.seconds, "waiting": waiting}
        self.server(expect_result=False).progress(**told)


def write_job(folder: Path, run: str, job: str, parties: Sequence[str], lead: str) -> Path:
    """Write the folder of a FLARE job: names of our classes and the text of the job, no code."""
    app = folder / run / "app" / "config"
    app.mkdir(parents=True)
    packed = base64.b64encode(job.encode()).decode()  # FLARE would replace what stands in braces
    server = {"id": "meeting", "path": f"{__name__}.Meeting", "args": {"run": run, "job": packed, "lead": lead}}
    controller = {"id": "controller", "path": CONTROLLER, "args": {"server_obj_id": "meeting", "sync_task_timeout": 60}}
    write_json(app / "config_fed_server.json", {"format_version": 2, "workflows": [controller], "components": [server]})
    member = {"id": "member", "path": f"{__name__}.Member", "args": {"run": run}}
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


class AdminSession:
    """Where jobs are handed in: a session with the server, as the coordinator's organisation.

    Raises
    ------
    RunError
        Where the server cannot be reached, or does not let this kit in.
    """

    def __init__(self, kit: Kit, seconds: float = 10.0) -> None:
        read_only_plain(MESSAGE_TYPES)
        logging.getLogger("nvflare").addHandler(logging.NullHandler())  # it says each try; the driver says it once
        # FLARE would look for settings in all folders below the one that the user happens to be in.
        ConfigService.initialize({}, [str(kit.admin / "local")])
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it says that it connects
                self.session = new_secure_session(COORDINATOR, str(kit.admin), timeout=seconds, auto_login_max_tries=1)
        except Exception as error:  # the library raises all sorts, down to OSError
            raise RunError(f"cannot reach the server at {kit.host}:{kit.port} ({one_line(error)})") from error

    def submit(self, folder: Path) -> str:
        """Hand in a job; its number at the server."""
        return str(self._do(lambda: self.session.submit_job(str(folder))))

    def status(self, number: str) -> str:
        """The state of a job as the server names it, such as RUNNING or FINISHED:COMPLETED."""
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

    def tidy(self) -> None:
        """Have the server delete jobs that have ended, but for the last few; what cannot be deleted stays."""
        with contextlib.suppress(Exception):
            found = self.session.list_jobs(reverse=True) or []
            ended = [one for one in found if str(one.get("status", "")).startswith("FINISHED")]
            for one in ended[KEPT_JOBS:]:
                self.session.delete_job(str(one["job_id"]))

    def abort(self, number: str) -> None:
        """End a job that cannot go on; nothing where it has ended."""
        with contextlib.suppress(Exception):
            self.session.abort_job(number)

    def close(self) -> None:
        """End the session with the server."""
        with contextlib.suppress(Exception):
            self.session.close()

    @staticmethod
    def _do(what: Any) -> Any:
        try:
            return what()
        except Exception as error:
            raise RunError(f"the server does not answer ({one_line(error)})") from error
