"""The supervisor of a site, with a pretended site that dies or starts children of its own."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tacit.errors import InputError
from tacit.federation import processes
from tacit.federation.kit import Certificate, Kit
from tacit.federation.processes import TOKEN, Supervisor, running

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
    lines = log.read_text().splitlines() if log.exists() else []
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
    orphan.wait(10)
    (kit.logs / "pid.json").write_text("damaged")
    with site("live", again=kit) as (_, said):
        until(lambda: said)


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
    with site("live") as (_, said):
        until(lambda: said)
        time.sleep(0.8)
    assert len(said) == 1
    assert said[0].startswith("not connected to localhost:8002 after 0 s, still trying; see ")
