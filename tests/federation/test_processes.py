"""The supervisor of a site, with a pretended site that dies or starts children of its own."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tacit.errors import InputError
from tacit.federation import processes
from tacit.federation.kit import Certificate, Kit
from tacit.federation.processes import Supervisor, running

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
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(processes, "PATIENCE", 0.5)

    @contextlib.contextmanager
    def run(behaviour: str) -> Iterator[tuple[Kit, list[str], Supervisor]]:
        monkeypatch.setattr(processes, "start_arguments", lambda kit: ["pretend_site", behaviour])
        shop, said = kit("shop"), []
        supervisor = Supervisor(shop, said.append)
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        try:
            yield shop, said, supervisor
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


def children(kit: Kit) -> list[int]:
    lines = (kit.logs / "party.log").read_text().splitlines() if kit.logs.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith("CHILD")]


@pytest.mark.parametrize("behaviour", ["live", "stubborn"])
def test_one_line_when_ready_and_nothing_left_at_the_end(site, behaviour: str) -> None:
    with site(behaviour) as (kit, said, supervisor):
        until(lambda: said and children(kit))
        assert said == ["ready: shop is connected to credit and waits for jobs (Ctrl-C leaves)"]
        assert running(kit)
        record = json.loads((kit.logs / "pid.json").read_text())
        assert record["supervisor"] == os.getpid()
        family = [record["site"], *children(kit)]
        assert all(psutil.pid_exists(number) for number in family)
        assert str(kit.path) in (kit.logs / "party.log").read_text()  # TACIT_KIT reaches children
        with pytest.raises(InputError, match="runs already"):
            Supervisor(kit).run()
    assert not any(psutil.pid_exists(number) for number in family)
    assert not (kit.logs / "pid.json").exists()
    assert not running(kit)


def test_starts_again_later_each_time_and_ends_orphans(site) -> None:
    with site("die") as (kit, said, supervisor):
        until(lambda: len([line for line in said if "died" in line]) == 3)
        first = children(kit)[0]
        assert not psutil.pid_exists(first)
    pauses = [line.split(" in ")[1].split(" s;")[0] for line in said if "died (exit code 7)" in line]
    assert pauses[:3] == ["1", "2", "4"]
    assert not any(psutil.pid_exists(number) for number in children(kit))


def test_leftovers_of_a_killed_supervisor(site, kit) -> None:
    with site("live") as (first, said, supervisor):
        until(lambda: children(first))
        record = (first.logs / "pid.json").read_text()
        orphan = children(first)[0]
        ended = []

        def end(token: str) -> None:
            ended.append(token)

        first_end, processes.end_processes = processes.end_processes, end
        try:
            supervisor.stop()
            until(lambda: not running(first))
        finally:
            processes.end_processes = first_end
    assert psutil.pid_exists(orphan)
    (first.logs / "pid.json").write_text(record)  # as it is after SIGKILL
    processes._end_leftovers(first)
    assert not psutil.pid_exists(orphan)
    (first.logs / "pid.json").write_text("damaged")
    processes._end_leftovers(first)


def test_certificate_that_expires(kit, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, now = kit("shop"), datetime.datetime.now(datetime.UTC)
    monkeypatch.setattr(Kit, "certificate", Certificate("AA", now - datetime.timedelta(days=2)))
    with pytest.raises(InputError, match=f"expired on {(now - datetime.timedelta(days=2)).date()}.*renewed kit"):
        Supervisor(shop).run()
    said: list[str] = []
    monkeypatch.setattr(Kit, "certificate", Certificate("AA", now + datetime.timedelta(days=9)))
    Supervisor(shop, said.append)._check_certificate()
    assert said == [
        f"the certificate expires on {(now + datetime.timedelta(days=9)).date()}: ask for a renewed kit soon"
    ]


def test_says_once_that_it_still_tries(site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SLOW", 0.3)
    monkeypatch.setitem(processes.READY, "party", "never said")
    with site("live") as (kit, said, supervisor):
        until(lambda: said)
        time.sleep(0.8)
    assert len(said) == 1
    assert said[0].startswith("not connected to localhost:8002 after 0 s, still trying; see ")
