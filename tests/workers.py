"""Tests in several processes, forked from the one that has collected them.

Thousands of tests and hundreds of modules are collected and imported once; each process gets them as they are, and asks
for one group of tests after the other (`tests/schedule.py`). What comes of a test goes back through a pipe, and is
reported by the first process as if it had run there. A process that dies fails the test that it ran, and is replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import traceback
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests.schedule import Group


@dataclass
class Worker:
    """A process, and what it runs."""

    pid: int
    pipe: Connection
    todo: Group = field(default_factory=list)
    last: pytest.Item | None = None
    trouble: str = ""  # why it died, where it could say so


def run_groups(session: pytest.Session, groups: list[Group], count: int) -> None:
    """Run groups of tests in so many processes, the first groups first."""
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.showfspath = False  # of many files at once
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    waiting, workers = deque(groups), {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that whoever ends this process ends the others, too
    try:
        while waiting or workers:
            while waiting and len(workers) < count:
                worker = start_worker(session, workers)
                workers[worker.pipe] = worker
                give(worker, waiting)
            for pipe in wait(list(workers)):
                hear(session, workers, workers[pipe], waiting)  # type: ignore[index]
            _stop_if_told(session)
    finally:
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGTERM)
        for worker in workers.values():
            os.waitpid(worker.pid, 0)


def give(worker: Worker, waiting: deque[Group]) -> None:
    """Hand the next group to a process; none is the end."""
    worker.todo = list(waiting.popleft()) if waiting else []
    worker.pipe.send([item.nodeid for item in worker.todo])


def hear(session: pytest.Session, workers: dict[Any, Worker], worker: Worker, waiting: deque[Group]) -> None:
    """Take one message of a process."""
    try:
        kind, content = worker.pipe.recv()
    except (EOFError, OSError):
        del workers[worker.pipe]
        if os.waitpid(worker.pid, 0)[1]:
            _died(session, worker, waiting)
        return
    if kind == "end":
        worker.last = worker.todo.pop(0)
    elif kind == "idle":
        give(worker, waiting)
    elif kind == "trouble":
        worker.trouble = content
    elif kind == "warning":
        session.config.hook.pytest_warning_recorded.call_historic(kwargs=content)
    else:
        _report(session, session.config.hook.pytest_report_from_serializable(config=session.config, data=content))


def _report(session: pytest.Session, report: pytest.TestReport) -> None:
    hook = session.config.hook
    if report.when == "setup":
        hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
    hook.pytest_runtest_logreport(report=report)
    if report.when == "teardown":
        hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _died(session: pytest.Session, worker: Worker, waiting: deque[Group]) -> None:
    """The test that ran has failed; those of its group that were to follow go to another process."""
    item, *rest = worker.todo or [worker.last]
    said = f"process {worker.pid} died in or after {item.nodeid}\n{worker.trouble}"
    _report(session, pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "teardown"))
    if rest:
        waiting.appendleft(rest)


def _stop_if_told(session: pytest.Session) -> None:
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


# --- in a process of its own ------------------------------------------------------------------------------


def start_worker(session: pytest.Session, others: dict[Any, Worker]) -> Worker:
    """Fork a process that runs what it is given."""
    here, there = Pipe()
    pid = os.fork()
    if pid:
        there.close()
        return Worker(pid, here)
    for pipe in (here, *others):
        pipe.close()
    work(session, there)


def work(session: pytest.Session, pipe: Connection) -> NoReturn:
    """Run groups until there is none, and end this process."""
    code = 1
    try:
        settle(session, pipe)
        known = {item.nodeid: item for item in session.items}
        try:
            while names := pipe.recv():
                run_group(session, [known[name] for name in names], pipe)
                pipe.send(("idle", None))
        finally:
            session.config.hook.pytest_sessionfinish(session=session, exitstatus=0)
        atexit._run_exitfuncs()
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            pipe.send(("trouble", traceback.format_exc()))
    finally:
        os._exit(code)


def settle(session: pytest.Session, pipe: Connection) -> None:
    """Let this process have its own place for files, its own capture of output, and reports that go to the first."""
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    for name in ("terminalreporter", "stopwatch"):
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)
    sender = Sender(config, pipe)
    config.pluginmanager.register(sender, "sender")
    sender.listening = True
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"worker-{os.getpid()}"
    factory._basetemp.mkdir(mode=0o700)


def run_group(session: pytest.Session, items: Group, pipe: Connection) -> None:
    """Run tests one after the other; what the whole session shares stays for the next group."""
    after: Any = SimpleNamespace(listchain=lambda: [session])
    for item, following in zip(items, [*items[1:], after], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        pipe.send(("end", None))


class Sender:
    """Sends what came of tests to the first process."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self.config, self.pipe, self.listening = config, pipe, False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.pipe.send(("report", data))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        said = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        if self.listening:  # those of the collection are known
            with contextlib.suppress(pickle.PicklingError, TypeError, AttributeError):
                self.pipe.send(("warning", said))
