"""A drill: a federation of real processes, and faults of every kind while it trains, each at a random moment."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.faults_federation import Running, federation
from bench.faults_jobs import JOBS, job_text, write_files
from bench.faults_kinds import KINDS, driver
from bench.progress import say
from bench.row import Row
from tacit.types import Vector

TITLE = "joint jobs over FLARE under faults: 3 parties and a server, every process real, on loopback"
ONLY_WHEN_NAMED = True  # it takes an hour
SEED = 1
LASTING = ("partition of 20 s", "full disk", "slow party")
GAP = 4.0  # seconds between a recovery and the next fault, at most
RECOVERS_WITHIN = 300.0


@dataclass
class Happened:
    """One fault: what, to whom, and how long until the run went on."""

    job: str
    kind: str
    who: str
    lasted: float
    seconds: float
    recovered: bool


@dataclass
class Drill:
    """Runs jobs one after the other and disturbs them."""

    running: Running
    happened: list[Happened] = field(default_factory=list)
    runs: list[tuple[str, str]] = field(default_factory=list)  # job and run
    gave_up: list[str] = field(default_factory=list)

    def begin(self, name: str) -> None:
        """Hand a job in."""
        (self.running.place / "hook" / "pace").write_text(str(JOBS[name].pace))
        self.job = self.running.place / f"{name}.toml"
        self.job.write_text(job_text(name))
        before = self.running.newest_run()
        self.running.train(self.job)
        while (run := self.running.newest_run()) == before:
            time.sleep(0.1)
            assert self.running.driver is not None
            if self.running.driver.poll() is not None:
                raise RuntimeError(self.running.said())
        self.runs.append((name, run))

    def over(self) -> bool:
        """Whether the run has ended; a driver that gave up is noted, and started again."""
        process = self.running.driver
        assert process is not None
        code = process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        self.gave_up.append(self.running.said().strip().splitlines()[-1])
        say(f"the driver gave up: {self.gave_up[-1]}")
        time.sleep(1)
        self.running.train(self.job, resume=True)
        return False

    def standing(self) -> list[int]:
        """How many releases each party has made in this run."""
        return [len(self.running.releases(name, self.runs[-1][1])) for name in self.running.parties]

    def disturb(self, kind: str, rng: random.Random) -> None:
        """Bring one fault about and wait until the run goes on."""
        began = time.monotonic()
        who = KINDS[kind](self.running, rng)
        lasted, mark = time.monotonic() - began, self.standing()
        if KINDS[kind] is driver:
            self.running.train(self.job, resume=True)
        recovered = self._wait(mark)
        self.happened.append(Happened(self.runs[-1][0], kind, who, lasted, time.monotonic() - began, recovered))
        last = self.happened[-1]
        say(f"{len(self.happened)}. {kind} ({who}): {'went on' if recovered else 'STUCK'} after {last.seconds:.1f} s")

    def _wait(self, mark: Sequence[int]) -> bool:
        until = time.monotonic() + RECOVERS_WITHIN
        while time.monotonic() < until:
            if self.over() or all(now >= then + 2 for now, then in zip(self.standing(), mark, strict=True)):
                return True
            time.sleep(0.1)
        return False

    def finish(self) -> None:
        """Let the run end undisturbed."""
        until = time.monotonic() + 2 * RECOVERS_WITHIN
        while not self.over():
            if time.monotonic() > until:
                raise RuntimeError(f"the run did not end: {self.running.said()[-500:]}")
            time.sleep(0.2)


def run(quick: bool = False) -> list[Row]:
    """Run every job undisturbed, then under faults until it has borne its number of them, and compare."""
    rng = random.Random(SEED)
    asked = {name: job.quick if quick else job.faults for name, job in JOBS.items()}
    with tempfile.TemporaryDirectory(prefix="tacit-drill-") as folder:
        place = Path(folder)
        with federation(place, write_files(place)) as running:
            drill = Drill(running)
            kinds = order(sum(asked.values()), running, rng)
            return _drill(drill, {name: count for name, count in asked.items() if count}, kinds, rng)


def order(count: int, running: Running, rng: random.Random) -> list[str]:
    """Every kind equally often, in random order."""
    kinds = [kind for kind in KINDS if kind != "full disk" or running.disk is not None]
    chosen = [kinds[number % len(kinds)] for number in range(count if count >= len(kinds) else len(kinds))]
    rng.shuffle(chosen)
    return chosen[:count]


def _drill(drill: Drill, asked: dict[str, int], kinds: list[str], rng: random.Random) -> list[Row]:
    calm = {}
    for name, count in asked.items():
        began = time.monotonic()
        drill.begin(name)
        drill.finish()
        calm[name] = drill.runs[-1][1]
        say(f"undisturbed {name}: {time.monotonic() - began:.0f} s, {drill.standing()} releases")
        _disturb_job(drill, name, [kinds.pop() for _ in range(count)], rng)
    return rows(drill, calm)


def _disturb_job(drill: Drill, name: str, kinds: list[str], rng: random.Random) -> None:
    """Run a job, again and again, until it has borne these faults; the first one comes as soon as it has begun."""
    while kinds:
        drill.begin(name)
        gap = 0.0 if JOBS[name].matched else rng.uniform(0, GAP)  # into the matching, which comes first
        while kinds and not drill.over():
            time.sleep(gap)
            if not drill.over():
                drill.disturb(kinds.pop(), rng)
            gap = rng.uniform(0, GAP)
        drill.finish()
        say(f"run {len(drill.runs)} ({name}) ended")


# --- what came of it ----------------------------------------------------------------------------------


def rows(drill: Drill, calm: dict[str, str]) -> list[Row]:
    """The table."""
    found = []
    for kind in KINDS:
        own = [one for one in drill.happened if one.kind == kind]
        if own:
            found.append(_fault_row(kind, own))
    stuck = sum(not one.recovered for one in drill.happened)
    disturbed = [pair for pair in drill.runs if pair[1] not in calm.values()]
    wrong = [line for name, run in disturbed for line in wrong_releases(drill.running, name, run, calm[name])]
    twice = wrong_ledgers(drill)
    messages = hook_lines(drill.running)
    bad = sum(not one["fine"] for one in messages)
    return [
        *found,
        Row("faults after which the run did not go on", f"{stuck} of {len(drill.happened)}", float(stuck), 0.0, "none"),
        Row("drivers that gave up", _some(drill.gave_up), float(len(drill.gave_up)), 0.0, "none"),
        *(_job_row(drill, name, [run for own, run in disturbed if own == name], calm[name]) for name in calm),
        Row("releases that are missing, double or changed", _some(wrong), float(len(wrong)), 0.0, "none"),
        Row("runs not reserved once in a ledger", _some(twice), float(len(twice)), 0.0, "none"),
        Row("messages sent twice or late that changed anything", f"{bad} of {len(messages)}", float(bad), 0.0, "none"),
    ]


def _job_row(drill: Drill, name: str, runs: Sequence[str], calm: str) -> Row:
    """How far the models of one job are from that of its undisturbed run."""
    worst = max((difference(drill.running, run, calm) for run in runs), default=0.0)
    faults = sum(one.job == name for one in drill.happened)
    text = f"{faults} faults in {len(runs)} runs; largest difference to the undisturbed model {worst:.3g}"
    return Row(f"job {name}", text, worst, JOBS[name].tolerance, "none")


def _fault_row(kind: str, own: list[Happened]) -> Row:
    seconds = [one.seconds for one in own]
    lasts = f", of which it lasted {np.median([one.lasted for one in own]):.0f}" if kind in LASTING else ""
    text = f"went on after {np.median(seconds):.1f} s (median), {max(seconds):.1f} s at most{lasts}"
    return Row(f"{kind}, {len(own)} times", text)


def _some(lines: Sequence[str]) -> str:
    return f"{len(lines)}" + (f": {'; '.join(lines[:3])}" if lines else "")


def model(running: Running, name: str, run: str) -> Vector:
    """A party's part of a model."""
    record = json.loads((running.kits[name].jobs / run / "model" / f"{name}.json").read_text())
    return np.array([*record["coef"], record["offset"]])


def difference(running: Running, run: str, calm: str) -> float:
    """The largest over all parties and coefficients; infinite where a part is missing."""
    try:
        return max(float(np.abs(model(running, n, run) - model(running, n, calm)).max()) for n in running.parties)
    except OSError:
        return float("inf")


def wrong_releases(running: Running, job: str, run: str, calm: str) -> list[str]:
    """What is not there once, with the content of the undisturbed run where that can be the same."""
    wrong = []
    for name in running.parties:
        got, wanted = running.releases(name, run), running.releases(name, calm)
        for number in sorted(got.keys() | wanted.keys()):
            once = len(got.get(number, [])) == len(wanted.get(number, [])) == 1
            if not once or (got[number] != wanted[number] and not JOBS[job].rounding):
                wrong.append(f"{name} of {run}: {number} {len(got.get(number, []))} times")
    return wrong


def wrong_ledgers(drill: Drill) -> list[str]:
    """Parties whose ledger does not name exactly the runs there were."""
    runs = sorted(run for _, run in drill.runs)
    kits = [drill.running.kits[name] for name in drill.running.parties]
    return [kit.name for kit in kits if sorted(json.loads(kit.ledger.read_text())["jobs"]) != runs]


def hook_lines(running: Running) -> list[dict[str, object]]:
    """What came of messages that were sent twice or late."""
    path = running.place / "hook" / "done.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
