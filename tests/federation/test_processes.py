"""The supervisor of a site, with a pretended site that dies or starts children of its own."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tacit.errors import InputError
from tacit.federation import processes
from tacit.federation.kit import Kit, TlsCertificate
from tacit.federation.processes import TOKEN, Supervisor, clean, left_over, running
from tacit.federation.status import status_of
from tests.federation.live import SOURCE, environment, free_port

# It says that it is ready, starts a child in a session of its own as FLARE does for a job, and lives or dies.
PRETEND = """
import os, subprocess, sys, time
print("Successfully registered client", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("CHILD", child.pid, os.environ["TACIT_KIT"], flush=True)
if sys.argv[1] == "die":
    os._exit(7)
import signal
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


@pytest.fixture
def site(kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], contextlib.AbstractContextManager]:
    """A supervisor that runs in a thread, over a pretended site of some behaviour."""
    (tmp_path / "pretend_site.py").write_text(PRETEND)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), SOURCE]))
    monkeypatch.setattr(processes, "PATIENCE", 0.5)

    @contextlib.contextmanager
    def run(behaviour: str, again: Kit | None = None) -> Iterator[tuple[Kit, list[str]]]:
        monkeypatch.setattr(processes, "start_arguments", lambda kit: ["pretend_site", behaviour])
        said: list[str] = []
        shop = again or kit("shop")
        supervisor = Supervisor(shop, said.append)
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        try:
            yield shop, said
        finally:
            supervisor.stop()
            thread.join(20)
            assert not thread.is_alive()

    return run


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(number: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked about does not."""
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    return False


def children(kit: Kit) -> list[int]:
    log = kit.logs / "party.log"
    whole, _, _ = (log.read_text() if log.exists() else "").rpartition("\n")  # the last line may be half written
    lines = whole.splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("CHILD")]


@pytest.mark.parametrize("behaviour", ["live", "stubborn"])
def test_one_line_when_ready_and_nothing_left_at_the_end(site, behaviour: str) -> None:
    with site(behaviour) as (kit, said):
        until(lambda: said and children(kit))
        assert said == ["ready: shop is connected to credit and waits for jobs (Ctrl-C leaves)"]
        assert running(kit)
        record = json.loads((kit.logs / "pid.json").read_text())
        assert record["supervisor"] == os.getpid()
        family = [record["site"], *children(kit)]
        assert all(alive(number) for number in family)
        assert str(kit.path) in (kit.logs / "party.log").read_text()  # TACIT_KIT reaches children
        with pytest.raises(InputError, match="runs already"):
            Supervisor(kit).run()
    assert not any(alive(number) for number in family)
    assert not (kit.logs / "pid.json").exists()
    assert not running(kit)


def test_starts_again_later_each_time_and_ends_orphans(site) -> None:
    with site("die") as (kit, said):
        until(lambda: len([line for line in said if "died" in line]) == 3)
        first = children(kit)[0]
        assert not alive(first)
    pauses = [line.split(" in ")[1].split(" s;")[0] for line in said if "died (exit code 7)" in line]
    assert pauses[:3] == ["1", "2", "4"]
    assert not any(alive(number) for number in children(kit))


def test_leftovers_of_a_killed_supervisor(site, tmp_path: Path) -> None:
    with site("live") as (kit, said):
        until(lambda: said)
    token = "0123456789abcdef"
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, TOKEN: token})
    record = {"supervisor": 1, "site": orphan.pid, "token": token}
    (kit.logs / "pid.json").write_text(json.dumps(record))
    with site("live", again=kit) as (_, said):
        until(lambda: said)
        assert not alive(orphan.pid)
    orphan.wait(60)
    (kit.logs / "pid.json").write_text("damaged")
    with site("live", again=kit) as (_, said):
        until(lambda: said)


def test_certificate_that_expires(kit, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, now = kit("shop"), datetime.datetime.now(datetime.UTC)
    monkeypatch.setattr(Kit, "certificate", TlsCertificate("AA", now - datetime.timedelta(days=2)))
    with pytest.raises(InputError, match=f"expired on {(now - datetime.timedelta(days=2)).date()}.*renewed kit"):
        Supervisor(shop).run()
    said: list[str] = []
    monkeypatch.setattr(Kit, "certificate", TlsCertificate("AA", now + datetime.timedelta(days=9)))
    Supervisor(shop, said.append)._check_certificate()
    assert said == [
        f"the certificate expires on {(now + datetime.timedelta(days=9)).date()}: ask for a renewed kit soon"
    ]


def test_says_once_that_it_still_tries(site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SLOW", 0.3)
    monkeypatch.setitem(processes.READY, "party", "never said")
    with site("live") as (_, said):
        until(lambda: said)
        time.sleep(0.8)
    assert len(said) == 1
    assert said[0].startswith("not connected to localhost:8002 after 0 s, still trying; see ")


# --- a supervisor that is killed -----------------------------------------------------------------------

SUPERVISE = """
import sys
from tacit.federation import processes
from tacit.federation.kit import Kit
processes.start_arguments = lambda kit: ["pretend_site", sys.argv[2]]
processes.Supervisor(Kit.open(sys.argv[1])).run()
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_killed_supervisor_started_ends_with_it_and_status_says_so(kit, tmp_path: Path, stopped: bool) -> None:
    (tmp_path / "pretend_site.py").write_text(PRETEND)
    shop, paths = kit("shop"), os.pathsep.join([str(tmp_path), SOURCE])
    command = [sys.executable, "-c", SUPERVISE, str(shop.path), "live"]
    supervisor = subprocess.Popen(command, env={**environment(), "PYTHONPATH": paths}, stdout=subprocess.DEVNULL)
    try:
        until(lambda: children(shop))
        site = int(json.loads((shop.logs / "pid.json").read_text())["site"])
        if stopped:
            os.kill(site, signal.SIGSTOP)
        supervisor.kill()
        supervisor.wait(60)
        until(lambda: not alive(site), 5)
        orphan = children(shop)  # of the pretended site, which does not look after it as FLARE does
        assert left_over(shop) == orphan
        assert "was killed, processes" in status_of(shop).lines()[0]
        os.kill(orphan[0], signal.SIGKILL)
        until(lambda: not left_over(shop))
        assert "not running: tacit join" in status_of(shop).lines()[0]
    finally:
        supervisor.kill()
        for number in children(shop):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def test_a_process_of_a_job_ends_with_its_parent() -> None:
    job = "from tacit.federation.child import end_with_parent; import time; end_with_parent(); time.sleep(600)"
    parent = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {job!r}]).pid, flush=True); input()"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", parent], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdout is not None
    number = int(started.stdout.readline())
    time.sleep(1.0)  # until it has begun to look
    assert alive(number)
    started.kill()
    started.communicate()
    until(lambda: not alive(number), 5)


# --- ports and folders ---------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_said_and_nothing_starts(kit) -> None:
    server = kit("server")
    for address, reuse in (("127.0.0.1", False), ("0.0.0.0", True)):
        with socket.socket() as taken:
            if reuse:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as gRPC does
            taken.bind((address, 0))
            taken.listen(1)
            busy = replace(server, port=taken.getsockname()[1])
            said: list[str] = []
            with pytest.raises(InputError, match=f"cannot listen on port {busy.port}: Address already in use; stop"):
                Supervisor(busy, said.append).run()
            assert said == []
    Supervisor(replace(server, port=free_port()))._check_port()


def test_ready_is_said_only_by_who_listens(kit) -> None:
    server = replace(kit("server"), port=free_port())
    supervisor = Supervisor(server)
    supervisor._process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        assert not supervisor._listens()
        with socket.create_server(("127.0.0.1", server.port)):
            assert not supervisor._listens()  # somebody does, and it is not the site's process
    finally:
        supervisor._process.kill()
        supervisor._process.wait(60)


def test_folders_of_ended_jobs_are_deleted_but_for_the_last_ones_and_those_that_run(kit) -> None:
    shop = kit("shop")
    names = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(9)]
    for number, name in enumerate([*names, "startup", "local"]):
        (shop.flare / name).mkdir(parents=True)
        os.utime(shop.flare / name, (number, number))
    assert clean(shop, {"python", f"workspace/{names[1]}"}) == [names[0], *names[2:4]]
    left = {path.name for path in shop.flare.iterdir()}
    assert left == {names[1], *names[4:], "startup", "local"}
