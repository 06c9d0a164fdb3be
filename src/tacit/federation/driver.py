"""Sees a job through: hands it in, notices a dead site, server or job, and hands it in again, to go on where it was.

Journals and checkpoints are with those who made them, so a job that is handed in again under the same run goes on; it
is never begun twice. FLARE itself does not bring a job back: its server forgets jobs when it dies, and a job goes on
without a site that died.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError
from tacit.federation.kit import Kit
from tacit.federation.progress import OUTCOME, read_outcome, read_progress, take_fault, waiting_line

if TYPE_CHECKING:
    from tacit.federation.flare import AdminSession

LOOK_EVERY = 0.5
ASK_SITES = 2  # sites are asked whether they run the job at every so many looks
MISSING_LOOKS = 2  # so many times in a row a site that ran the job does not: it died there
LONGEST_PAUSE = 10.0
SILENCE = 25.0  # seconds without a word of the lead, which speaks every few seconds, before it is said

Say = Callable[[str], None]
Show = Callable[[int, float], None]


@dataclass
class Driver:
    """Sees one run through.

    Attributes
    ----------
    kit : Kit
        The server's, with the right to hand jobs in.
    run : str
    job : str
        The text of the job.
    parties : sequence of str
    lead : str
        The party that leads.
    say, show : callable
        Take a line for people, and the round and seconds of the run.
    patience : float
        Seconds without any progress after which to give up; the run can still go on later.
    """

    kit: Kit
    run: str
    job: str
    parties: Sequence[str]
    lead: str
    say: Say
    show: Show
    patience: float = 3600.0

    @property
    def folder(self) -> Path:
        """What the server knows of the run."""
        return self.kit.jobs / self.run

    def go(self) -> dict[str, Any]:
        """How the run ended: its rounds, or the line with which a site refused it.

        Raises
        ------
        RunError
            Where nothing went on for longer than `patience`.
        """
        (self.folder / OUTCOME).unlink(missing_ok=True)
        self.moved, self.round, failures = time.monotonic(), 0, 0
        self.started: float | None = None  # of the server, when the job was handed in
        self.heard = time.monotonic()  # when the lead spoke last
        self.word: object = None  # by which its last word is known
        self.told: set[str] = set()  # about whom it was said that the run waits for them
        self.adopts = True  # at first: another driver may have left a job that runs
        while True:
            before = self.round
            try:
                with self._admin() as admin:
                    self._wait_for_parties(admin)
                    reason = self._attempt(admin)
            except RunError as error:  # the server does not answer: the job may go on meanwhile
                reason, self.adopts = str(error), True
            outcome = read_outcome(self.folder)
            if outcome is not None:
                return outcome
            failures = 0 if self.round > before else failures + 1
            pause = min(2.0**failures, LONGEST_PAUSE)
            if time.monotonic() - self.moved > self.patience:
                raise RunError(f"nothing went on for {self.patience:.0f} s ({reason}): go on later with --resume")
            self.say(f"{reason}: going on in {pause:.0f} s")
            time.sleep(pause)

    def _admin(self) -> Any:
        from tacit.federation.flare import AdminSession  # heavy: nvflare

        return contextlib.closing(AdminSession(self.kit))

    def _wait_for_parties(self, admin: AdminSession) -> None:
        told: list[str] = []
        while True:
            missing = [name for name in self.parties if name not in admin.system()[1]]
            if not missing or time.monotonic() - self.moved > self.patience:
                return
            if missing != told:
                self.say(f"waiting for {', '.join(missing)} to join")
                told = missing
            time.sleep(LOOK_EVERY)

    def _attempt(self, admin: AdminSession) -> str:
        """Hand the job in and look on until it ends; why it has to be handed in again."""
        from tacit.federation.flare import write_job  # heavy: nvflare

        started = admin.system()[0]
        take_fault(self.folder)
        number = self._running(admin, started)
        self.started = started
        if not number:
            with tempfile.TemporaryDirectory() as folder:
                number = admin.submit(write_job(Path(folder), self.run, self.job, self.parties, self.lead))
        try:
            reason = self._look_on(admin, number, started)
        except RunError:
            raise
        except BaseException:  # whoever looked on was stopped
            admin.abort(number)
            raise
        if read_outcome(self.folder) is None:
            admin.abort(number)
        admin.tidy()
        return reason

    def _running(self, admin: AdminSession, started: float) -> str:
        """The job of this run that runs everywhere, as another driver may have left it; others of it are ended."""
        found, adopts = "", self.adopts and self.started in (None, started)  # one that died with its server is none
        for number in admin.unfinished(self.run):
            if adopts and admin.status(number) == "RUNNING" and not admin.without(number, self.parties):
                found, adopts = number, False
            else:
                admin.abort(number)
        self.adopts = False
        return found

    def _look_on(self, admin: AdminSession, number: str, started: float) -> str:
        missing, seen = 0, False
        self.heard, self.word, self.told = time.monotonic(), None, set()
        for look in itertools.count():
            time.sleep(LOOK_EVERY)
            self._note_progress()
            if read_outcome(self.folder) is not None:
                return "ended"
            self._say_who_is_waited_for()
            fault = take_fault(self.folder)
            if fault:
                return fault
            status = admin.status(number)
            if status.startswith("FINISHED"):
                refused = [line for line in admin.refusals(number) if not line.endswith(": OK")]
                return f"the job ended early ({'; '.join(refused) or status.removeprefix('FINISHED:').lower()})"
            if admin.system()[0] != started:
                return "the server was started again"
            if look % ASK_SITES == 0:
                absent = admin.without(number, self.parties)
                seen = seen or not absent
                missing = missing + 1 if seen and absent else 0
                if missing >= MISSING_LOOKS:
                    return f"the job does not run at {', '.join(absent)} any more"
        raise AssertionError("not reached")

    def _say_who_is_waited_for(self) -> None:
        """Say once whom the run waits for, and what to do about it."""
        told = read_progress(self.folder) or {}
        if told.get("at") != self.word:
            self.heard, self.word = time.monotonic(), told.get("at")
        silent, waiting = time.monotonic() - self.heard, told.get("waiting") or {}
        lines = {f"{name} {value[1:]}": waiting_line(str(name), value, self.lead) for name, value in waiting.items()}
        if silent > SILENCE:
            lines = {
                self.lead: f"nothing was heard of {self.lead!r}, which leads, for {silent:.0f} s: look there with "
                "tacit status KIT; where its process was stopped, let it go on (kill -CONT) or start tacit join again"
            }
        for line in [line for about, line in lines.items() if about not in self.told]:
            self.say(line)
        self.told = set(lines)

    def _note_progress(self) -> None:
        told = read_progress(self.folder)
        if told is not None and told["round"] != self.round:
            self.round, self.moved = int(told["round"]), time.monotonic()
            self.show(self.round, float(told["seconds"]))
