"""The faults of a drill: each does something bad to a running federation, and takes it back where it lasts."""

from __future__ import annotations

import contextlib
import errno
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.faults_federation import Running

PARTITION_SECONDS, DISK_SECONDS, SLOW_SECONDS = 20.0, 12.0, 10.0
VICTIM_WITHIN = 60.0

Fault = Callable[[Running, random.Random], str]


def kill(running: Running, name: str, *, job: bool) -> str:
    """Kill a site's daemon or the process of its job, at once; whom."""
    until = time.monotonic() + VICTIM_WITHIN
    while not (found := running.processes(name, job=job)) and time.monotonic() < until:
        time.sleep(0.05)
    if not found:
        return f"{name}: nothing to kill"
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    killed = {process.pid for process in found}
    until = time.monotonic() + VICTIM_WITHIN
    while not running.ended() and time.monotonic() < until:  # what was killed is only missed after a while
        if any(process.pid not in killed for process in running.processes(name, job=job)):
            break
        time.sleep(0.2)
    return name


def party_job(running: Running, rng: random.Random) -> str:
    """A party that does not lead loses the process of the job."""
    return kill(running, rng.choice(running.parties[1:]), job=True)


def party_daemon(running: Running, rng: random.Random) -> str:
    """A party loses its whole site."""
    return kill(running, rng.choice(running.parties), job=False)


def lead_job(running: Running, rng: random.Random) -> str:
    """The party that leads loses the process of the job, and with it the coordinator."""
    return kill(running, running.parties[0], job=True)


def server_daemon(running: Running, rng: random.Random) -> str:
    """The server dies."""
    return kill(running, "server", job=False)


def server_job(running: Running, rng: random.Random) -> str:
    """The server loses the process of the job."""
    return kill(running, "server", job=True)


def driver(running: Running, rng: random.Random) -> str:
    """Who handed the job in dies; it is started again with --resume."""
    assert running.driver is not None
    running.driver.kill()
    running.driver.wait(10)
    time.sleep(rng.uniform(0, 3))
    return "driver"


def partition(running: Running, rng: random.Random) -> str:
    """Nothing gets through between one party and the server for a while."""
    name = rng.choice(running.parties)
    running.lines[name].stalled.set()
    time.sleep(PARTITION_SECONDS)
    running.lines[name].stalled.clear()
    return name


def full_disk(running: Running, rng: random.Random) -> str:
    """The disk of one party is full for a while."""
    assert running.disk is not None
    filler = running.disk / "filler"
    until = time.monotonic() + DISK_SECONDS
    try:
        while time.monotonic() < until:  # what others delete is filled up again
            _fill(filler)
            time.sleep(0.1)
    finally:
        filler.unlink(missing_ok=True)
    return running.disk.name


def _fill(filler: Path) -> None:
    for size in (1 << 20, 4096, 1):
        try:
            with open(filler, "ab", buffering=0) as file:
                while True:
                    file.write(b"x" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def slow(running: Running, rng: random.Random) -> str:
    """A party stands still for a second, again and again."""
    name = rng.choice(running.parties)
    until = time.monotonic() + SLOW_SECONDS
    while time.monotonic() < until:
        _signal(running, name, signal.SIGSTOP)
        time.sleep(rng.uniform(0.5, 1.5))
        _signal(running, name, signal.SIGCONT)
        time.sleep(rng.uniform(0.1, 0.5))
    return name


def _signal(running: Running, name: str, number: signal.Signals) -> None:
    for process in running.processes(name):
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def duplicated(running: Running, rng: random.Random) -> str:
    """A message comes twice."""
    return _arm(running, "duplicated", rng)


def reordered(running: Running, rng: random.Random) -> str:
    """An old message comes after a new one."""
    return _arm(running, "reordered", rng)


def _arm(running: Running, kind: str, rng: random.Random) -> str:
    name = rng.choice(running.parties[1:])
    (running.place / "hook" / "arm").write_text(f"{kind} {name}")
    return name


KINDS: dict[str, Fault] = {
    "party's job killed": party_job,
    "party's site killed": party_daemon,
    "lead's job killed": lead_job,
    "server killed": server_daemon,
    "server's job killed": server_job,
    "driver killed": driver,
    "partition of 20 s": partition,
    "full disk": full_disk,
    "slow party": slow,
    "message duplicated": duplicated,
    "message reordered": reordered,
}
