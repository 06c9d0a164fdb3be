"""The process of a site: started from its kit, watched, started again when it dies, and ended without a trace."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError, RunError
from tacit.federation.flare_settings import start_arguments, write_settings
from tacit.federation.kit import ENVIRONMENT, HOME, SERVER, Kit
from tacit.federation.project import require_flare
from tacit.files import open_lock, try_lock, write_json
from tacit.text import show

if TYPE_CHECKING:
    import psutil

TOKEN = "TACIT_SITE_RUN"  # marks every process of one start, also those whose parent died
SUPERVISOR = "TACIT_SUPERVISOR"  # the process whose end is the end of all others
READY = {"server": "Server started", "party": "Successfully registered client"}
LOOK_EVERY = 0.2
SLOW = 30.0  # seconds after which a start that is not ready yet is worth a line
LIVED = 60.0  # seconds after which a death counts as the first again
LONGEST_PAUSE = 60.0
PATIENCE = 4.0  # seconds to end well before being killed
_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # how FLARE names the folder of a job
MOST_LOOKED_AT = 1024 * 1024
MOST_LOG = 20 * 1024 * 1024
WARN_DAYS = 30
CLEAN_EVERY = 60.0
KEPT_JOBS = 5  # of FLARE's folders of jobs that have ended


class Supervisor:
    """Keeps the process of one site going until it is told to stop.

    Parameters
    ----------
    kit : Kit
        Whose process.
    say : callable
        Takes each line for the person who started it.
    """

    def __init__(self, kit: Kit, say: Callable[[str], None] = print) -> None:
        self.kit, self.say = kit, say
        self.token = secrets.token_hex(16)
        self.log = kit.logs / f"{kit.role}.log"
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0  # where in the log the next look begins

    def stop(self) -> None:
        """End `run` soon; may be called from anywhere."""
        self._stop.set()

    def run(self) -> None:
        """Start the site and return after `stop`, SIGINT or SIGTERM, when none of its processes is left.

        Raises
        ------
        InputError
            Where it runs already, its certificate expired, its port is taken, or FLARE is missing.
        """
        require_flare()
        self._check_certificate()
        self.kit.make_home()
        self.kit.logs.mkdir(mode=0o700, exist_ok=True)
        with _locked(self.kit), _signals(self.stop):
            _end_leftovers(self.kit)
            self._check_port()
            write_settings(self.kit)
            clean(self.kit, set())
            try:
                self._keep_going()
            finally:
                self._end()
                _pid_file(self.kit).unlink(missing_ok=True)

    def _check_certificate(self) -> None:
        certificate = self.kit.certificate
        if certificate.days <= 0:
            raise InputError(
                f"the certificate of {show(self.kit.name)} expired on {certificate.until.date()}: "
                "ask for a renewed kit (tacit federation renew)"
            )
        if certificate.days < WARN_DAYS:
            self.say(f"the certificate expires on {certificate.until.date()}: ask for a renewed kit soon")

    def _check_port(self) -> None:
        """Refuse a port that somebody else listens on: gRPC would share it, and half of the parties would get lost."""
        if self.kit.role != SERVER:
            return
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what ended just now does not count
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                try:
                    tried.bind((address, self.kit.port))
                    tried.listen(1)
                except OSError as error:
                    if error.errno in (errno.EADDRINUSE, errno.EACCES):
                        raise InputError(
                            f"cannot listen on port {self.kit.port}: {os.strerror(error.errno)}; stop what uses it, or "
                            "make kits with another --port"
                        ) from error

    def _listens(self) -> bool:
        """Whether the site's own process listens where it should; a party need not listen."""
        import psutil  # of tacit[flare]

        if self.kit.role != SERVER or self._process is None:
            return True
        try:
            open_ = psutil.Process(self._process.pid).net_connections()
        except psutil.Error:
            return False
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == self.kit.port for one in open_)

    def _keep_going(self) -> None:
        """Start, watch, and start again."""
        deaths = 0
        while not self._stop.is_set():
            began = time.monotonic()
            code = self._watch(self._start())
            if self._stop.is_set():
                return
            self._end()  # jobs of a dead site cannot go on
            deaths = 1 if time.monotonic() - began > LIVED else deaths + 1
            pause = min(2.0 ** (deaths - 1), LONGEST_PAUSE)
            self.say(f"{self.kit.name} died (exit code {code}): starting it again in {pause:.0f} s; see {self.log}")
            self._stop.wait(pause)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start FLARE's process, its output into the log."""
        if self.log.exists() and self.log.stat().st_size > MOST_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))
        environment = {
            **os.environ,
            ENVIRONMENT: str(self.kit.path),
            HOME: str(self.kit.home.parent.parent),
            TOKEN: self.token,
            SUPERVISOR: str(os.getpid()),
            "PYTHONSAFEPATH": "1",  # a file in the kit is never taken for a module
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "tacit.federation.child", *start_arguments(self.kit)]
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            self._from = log.tell()
            process = subprocess.Popen(
                command,
                cwd=self.kit.flare,  # which holds nothing that was not written from here
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        write_json(
            _pid_file(self.kit), {"supervisor": os.getpid(), "site": process.pid, "token": self.token}, secret=True
        )
        self._process = process
        return process

    def _end(self) -> None:
        """End all processes of this start, and take note of the end of our own child."""
        end_processes(self.token)
        if self._process is not None:
            self._process.wait(PATIENCE)
            self._process = None

    def _watch(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for the end of the process, or of everything; say once when it is ready."""
        began, ready, told = time.monotonic(), False, False
        cleaned = began
        while process.poll() is None and not self._stop.wait(LOOK_EVERY):
            if time.monotonic() - cleaned > CLEAN_EVERY:
                cleaned = time.monotonic()
                clean(self.kit, set(_commands(self.token)))
            if not ready and READY[self.kit.role] in self._new_output() and self._listens():
                ready = True
                self.say(self._ready_line())
            if not ready and not told and time.monotonic() - began > SLOW:
                told = True
                place = "" if self.kit.role == SERVER else f" to {self.kit.host}:{self.kit.port}"
                self.say(f"not connected{place} after {SLOW:.0f} s, still trying; see {self.log}")
        return process.poll()

    def _new_output(self) -> str:
        """What came since the start; of much output the end."""
        with open(self.log, "rb") as log:
            log.seek(max(self._from, os.fstat(log.fileno()).st_size - MOST_LOOKED_AT))
            return log.read().decode("utf-8", "replace")

    def _ready_line(self) -> str:
        kit = self.kit
        if kit.role == SERVER:
            return f"ready: {kit.federation} is served on {kit.host}:{kit.port}; parties can join (Ctrl-C ends it)"
        return f"ready: {kit.name} is connected to {kit.federation} and waits for jobs (Ctrl-C leaves)"


def running(kit: Kit) -> bool:
    """Whether a supervisor of this kit runs now."""
    try:
        with _locked(kit):
            return False
    except InputError:
        return True


def left_over(kit: Kit) -> list[int]:
    """Processes of a site that go on though its supervisor is gone."""
    token = _last_token(kit)
    return [] if not token or running(kit) else [process.pid for process in _marked(token)]


def clean(kit: Kit, busy: set[str]) -> list[str]:
    """Delete FLARE's folders of jobs that have ended, but for the last few; the names of those deleted.

    Parameters
    ----------
    kit : Kit
    busy : set of str
        Words of the commands of processes that run: a job that is named in one has not ended.
    """
    text = "\n".join(busy)
    jobs = [path for path in kit.flare.iterdir() if path.is_dir() and _JOB.fullmatch(path.name)]
    ended = sorted((path for path in jobs if path.name not in text), key=lambda path: path.stat().st_mtime)
    gone = ended[: max(0, len(ended) - KEPT_JOBS)]
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in gone]


def _commands(token: str) -> Iterator[str]:
    """The words of the commands of a site's processes."""
    import psutil  # of tacit[flare]

    for process in _marked(token):
        with contextlib.suppress(psutil.Error, OSError):
            yield from process.cmdline()


def end_processes(token: str) -> None:
    """End every process that carries the token: asked first, then killed."""
    import psutil  # of tacit[flare]

    for ask, patience in (("terminate", PATIENCE), ("kill", PATIENCE)):
        found = list(_marked(token))
        for process in found:
            with contextlib.suppress(psutil.Error):
                getattr(process, ask)()
        _, left = psutil.wait_procs(found, timeout=patience)
        if not left and not list(_marked(token)):
            return


def _marked(token: str) -> Iterator[psutil.Process]:
    """Processes of this user with the token in their environment."""
    import psutil  # of tacit[flare]

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(TOKEN) == token:
                yield process


def _end_leftovers(kit: Kit) -> None:
    """End what a supervisor that was killed could not end itself; the caller holds the lock."""
    token = _last_token(kit)
    if token:
        end_processes(token)


def _last_token(kit: Kit) -> str:
    """What marks the processes of the last start; empty where that ended well."""
    try:
        token = json.loads(_pid_file(kit).read_text())["token"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return token if isinstance(token, str) else ""


def _pid_file(kit: Kit) -> Path:
    return kit.logs / "pid.json"


@contextlib.contextmanager
def _locked(kit: Kit) -> Iterator[None]:
    """Hold the kit's lock, which the system lets go when the process ends, however it ends."""
    try:
        kit.make_home()
        descriptor = open_lock(kit.home / "lock")
    except OSError as error:
        raise RunError(f"cannot write into {show(str(kit.home))}: {error.strerror}") from error
    if not try_lock(descriptor):
        os.close(descriptor)
        raise InputError(f"the kit {show(str(kit.path))} runs already: stop it first, or leave it alone")
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the site, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> Any:
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
