"""What an organisation sees of its own part in a federation: its process, certificate, budget and runs. No values."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.federation.budget import BudgetBook, read_limits
from tacit.federation.journal import Journal
from tacit.federation.kit import PARTY, Kit
from tacit.federation.leads import LEAD, PREDICTIONS
from tacit.federation.members import confirmation_lines
from tacit.federation.processes import left_over, running
from tacit.federation.progress import matching_line, read_outcome, read_progress, waiting_line
from tacit.federation.questions import pending_since, waits
from tacit.federation.releases import read_steps
from tacit.federation.score_handler import SENT
from tacit.federation.site import OVER, OWNER, PROBLEM, is_worked_on, lead_of, read_text
from tacit.files import read_json, write_json
from tacit.privacy.certificate import up
from tacit.privacy.events import UNITS
from tacit.run.folder import JOB, MODEL, REPORT, RESULT, RunFolder
from tacit.text import command, duration

WAITING, GOING, ENDED, FAILED, REFUSED = "waits for your yes", "going on", "ended", "failed", "refused"
STOPPED = "stopped"  # no process of this organisation works on it
STALE = 30.0  # seconds without a word of the lead, which speaks every few seconds
STATES = (WAITING, GOING, STOPPED, ENDED, FAILED, REFUSED)


@dataclass(frozen=True)
class RunStatus:
    """One run, as this site knows it.

    Attributes
    ----------
    run : str
    state : str
        One of `STATES`.
    step : int
        The last exchange or round that is on this site's disk.
    seconds, bytes : float, int
        Time and payload so far, where this site leads the run; 0 elsewhere.
    note : str
        What is wrong, for this organisation alone.
    waits : tuple of str
        Who is waited for, since when, for what, and what to do: from what this site knows.
    """

    run: str
    state: str
    step: int = 0
    seconds: float = 0.0
    bytes: int = 0
    note: str = ""
    waits: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The run as lines for a terminal."""
        return [f"run {self.run}: {_words(self)}", *(f"  {line}" for line in self.waits)]


@dataclass(frozen=True)
class Status:
    """What a kit's organisation can see at one moment: its process, certificate, budget and runs."""

    kit: Kit
    running: bool
    days: float
    runs: tuple[RunStatus, ...] = ()
    spent: tuple[tuple[str, float, float, float], ...] = field(default=())  # unit, epsilon, delta, spent
    releases: int = 0
    left: tuple[int, ...] = ()  # processes that go on though nobody looks after them

    def lines(self) -> list[str]:
        """The status as lines for a terminal."""
        kit = self.kit
        verb = "join" if kit.role == PARTY else "serve"
        state = "running" if self.running else f"not running: tacit {verb} {kit.path}"
        if self.left:
            numbers = ", ".join(str(number) for number in self.left)
            state = f"its tacit {verb} was killed, processes {numbers} still run: tacit {verb} {kit.path} ends them"
        lines = [f"{kit.name} of federation {kit.federation}: {state}"]
        lines.append(f"own files: {kit.home}")
        lines.append(f"certificate: valid for {self.days:.0f} days" if self.days > 0 else "certificate: EXPIRED")
        if kit.role == PARTY:
            lines.append(f"data: {kit.settings().get('data', 'none: tacit join KIT --data FILE')}")
            for unit, epsilon, delta, spent in self.spent:
                lines.append(f"budget for each {unit}: epsilon {up(spent)} of {epsilon:g} spent, at delta {delta:g}")
            if not self.spent:
                lines.append("budget: none set ([budget] in site.toml)")
            lines.append(f"releases so far: {self.releases}")
            lines += confirmation_lines(kit)
        for one in self.runs:
            lines += one.lines()
        return lines if self.runs else [*lines, "no runs yet"]

    def record(self) -> dict[str, Any]:
        """The status as `tacit status --json` prints it."""
        runs = [
            {
                "run": one.run,
                "state": one.state,
                "step": one.step,
                "seconds": one.seconds,
                "bytes": one.bytes,
                "waits": list(one.waits),
            }
            for one in self.runs
        ]
        budget = [
            {"unit": unit, "epsilon": epsilon, "delta": delta, "spent": spent}
            for unit, epsilon, delta, spent in self.spent
        ]
        return {
            "site": self.kit.name,
            "federation": self.kit.federation,
            "running": self.running,
            "left_over": list(self.left),
            "certificate_days": self.days,
            "budget": budget,
            "releases": self.releases,
            "runs": runs,
        }


def status_of(kit: Kit) -> Status:
    """The status of a kit now."""
    kit.make_home()
    spent, releases = _spent(kit) if kit.role == PARTY else ((), 0)
    left = tuple(left_over(kit))
    return Status(kit, running(kit), kit.certificate.days, tuple(_runs(kit)), spent, releases, left)


def count_again(kit: Kit) -> list[str]:
    """Count as spent what the runs' folders say and an older ledger has forgotten; return these runs."""
    return _book(kit).count_again()


def _book(kit: Kit) -> BudgetBook:
    limits, allow = read_limits(kit.settings())
    return BudgetBook(kit.ledger, limits, kit.name, allow_not_private=allow, runs=kit.jobs)


def _spent(kit: Kit) -> tuple[tuple[tuple[str, float, float, float], ...], int]:
    book = _book(kit)
    spent = tuple(
        (one.unit, one.limit.epsilon, one.limit.delta, one.before) for one in book.standings(dict.fromkeys(UNITS, ()))
    )
    return spent, len(book.releases())


def _runs(kit: Kit) -> Iterator[RunStatus]:
    folders = [path for path in kit.jobs.iterdir() if path.is_dir()] if kit.jobs.is_dir() else []
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime):
        yield run_status(kit, folder)


def run_status(kit: Kit, folder: Path) -> RunStatus:
    """One run of a kit as its organisation knows it now."""
    return _at_party(kit, folder) if kit.role == PARTY else _at_server(folder)


def _at_server(folder: Path) -> RunStatus:
    outcome, progress = read_outcome(folder), read_progress(folder) or {}
    step, seconds = int(progress.get("round", 0)), float(progress.get("seconds", 0.0))
    if outcome is None:
        lead = _lead_at_server(folder)
        return RunStatus(folder.name, GOING, step, seconds, waits=tuple(waiting_lines(progress, lead)))
    if "refused" in outcome:
        return RunStatus(folder.name, REFUSED, step, seconds, note=str(outcome["refused"]))
    return RunStatus(folder.name, ENDED, int(outcome.get("rounds") or step), seconds)


def _lead_at_server(folder: Path) -> str:
    """Who leads the run of a text; empty where the text is not there or is no job, as that of a prediction is not."""
    try:
        return lead_of(read_text((folder / JOB).read_text(encoding="utf-8")))
    except (OSError, InputError):
        return "the lead"


def waiting_lines(progress: Mapping[str, Any], lead: str) -> list[str]:
    """Whom the lead waits for, by its last word; with the age of that where it is old."""
    age = time.time() - float(progress.get("at", time.time()))
    waiting = progress.get("waiting")
    lines = [waiting_line(name, value, lead) for name, value in waiting.items()] if isinstance(waiting, dict) else []
    if age > STALE:
        return [f"nothing was heard of {lead} for {duration(age)}: look there with tacit status KIT"]
    return lines


def _own_waits(kit: Kit, folder: Path, lead: str) -> list[str]:
    """At the lead whom it waits for; elsewhere when the lead asked last, as no other site tells this one anything."""
    if lead == kit.name:
        return [*matching_line(folder), *waiting_lines(read_progress(folder) or {}, lead)]
    asked = [one for one in read_steps(kit.logs, folder.name) if "caller" in one]
    if not asked:
        return ["nothing was asked yet: the lead asks once the keys are confirmed and its own people have agreed"]
    last = asked[-1]
    ago = duration(float(max(0, round(time.time() - float(last["at"])))))
    return [
        f"{lead or last['caller']} asked last {ago} ago ({last['step']}), and was answered; it asks again when all "
        "others have answered: tacit status at its own site names them"
    ]


def _lead(folder: Path) -> str:
    return str(read_json(folder / OWNER).get("lead", "")) if (folder / OWNER).exists() else ""


def _asks_since(kit: Kit, folder: Path) -> tuple[str, ...]:
    """For how long a question has waited for somebody here, and how to answer it."""
    found = pending_since(folder)
    what, ago = ("the job", "") if found is None else (f"the {found[1]}", f" for {duration(time.time() - found[0])}")
    see, answer = (command("tacit", "accept", kit.path, *more) for more in (("--show",), ()))
    return (f"somebody here is asked about {what}{ago}: {see} shows everything, {answer} answers",)


def _at_party(kit: Kit, folder: Path) -> RunStatus:
    rounds, seconds, sent = _trace(RunFolder(folder))
    if waits(folder):
        return RunStatus(folder.name, WAITING, waits=_asks_since(kit, folder))
    if any((folder / name).exists() for name in (RESULT, MODEL, SENT, PREDICTIONS, OVER)):
        return RunStatus(folder.name, ENDED, rounds, seconds, sent)
    if (folder / PROBLEM).exists():
        return RunStatus(folder.name, FAILED, note=(folder / PROBLEM).read_text(encoding="utf-8").strip())
    numbers = Journal(folder / "journal").numbers() if (folder / "journal").is_dir() else []
    state = GOING if is_worked_on(folder) else STOPPED
    waiting = tuple(_own_waits(kit, folder, _lead(folder))) if state == GOING else ()
    return RunStatus(folder.name, state, numbers[-1] if numbers else 0, seconds, sent, waits=waiting)


def _trace(folder: RunFolder) -> tuple[int, float, int]:
    """Rounds, seconds and bytes of a run that this site leads."""
    try:
        trace = folder.read_trace()
    except InputError:
        return 0, 0.0, 0
    if not trace:
        return 0, 0.0, 0
    return len(trace), trace[-1].seconds, sum(row.bytes_down + row.bytes_up for row in trace)


def _words(one: RunStatus) -> str:
    plainly = one.state in (WAITING, FAILED, REFUSED) or not one.step
    words = one.state if plainly else f"{one.state}, step {one.step}"
    if one.state == STOPPED:
        words += " (tacit train JOB --resume goes on with it)"
    return words + (f": {one.note}" if one.note else "")


# --- clearing away what ended runs have left -----------------------------------------------------------


WORKING = ("alignment.npz", "matching.json", "journal", LEAD, "data.json", "checkpoint.npz", SENT, "progress.json")
RESULTS = (MODEL, PREDICTIONS, REPORT, "trace.jsonl", RESULT, "evaluation.json")
KEPT = "what the budget, the certificate and the refusal to do a run twice need"


def clean(kit: Kit, days: float, *, results: bool = False, delete: bool = False) -> list[tuple[str, int]]:
    """What runs that ended so many days ago have left on the disk and nothing needs: names and bytes, by run.

    Parameters
    ----------
    kit : Kit
    days : float
    results : bool, default False
        Also models, predictions, pages and traces. What the budget needs always stays.
    delete : bool, default False
        Delete it. The run is marked as over first, so that nothing of it is done a second time.
    """
    found = []
    for one in _runs(kit):
        folder = kit.jobs / one.run
        old = time.time() - folder.stat().st_mtime >= 86400 * days
        if one.state not in (ENDED, FAILED, REFUSED) or not old or is_worked_on(folder):
            continue
        gone = [folder / name for name in (*WORKING, *(RESULTS if results else ())) if (folder / name).exists()]
        found.append((one.run, sum(_bytes(path) for path in gone)))
        if delete and gone:
            write_json(folder / OVER, {"over": True})
            for path in gone:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
