"""`tacit train` with engine flare: hand a job in at a federation, and see it through."""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tacit.cli.wording import tell
from tacit.errors import InputError, RunError

if TYPE_CHECKING:
    from tacit.federation.kit import Kit
    from tacit.job import Job


def train_together(job: Job, options: argparse.Namespace) -> int:
    """Hand the job in, or go on with its last run, and say how it ended."""
    from tacit.federation.driver import Driver
    from tacit.federation.kit import SERVER, Kit
    from tacit.federation.outcome import read_outcome
    from tacit.federation.project import require_flare
    from tacit.federation.site import lead_of, read_text
    from tacit.runtime.files import write_text
    from tacit.runtime.store import JOB

    if options.kit is None:
        raise InputError('engine = "flare" needs the kit of the federation\'s server: give --kit KIT')
    require_flare()
    kit = Kit.open(options.kit)
    if kit.role != SERVER:
        raise InputError(f"{options.kit} is the kit of party {kit.name}: jobs are handed in with the server's kit")
    strangers = [name for name in job.names if name not in kit.parties]
    if strangers:
        members = ", ".join(kit.parties)
        raise InputError(
            f"{strangers[0]!r} is no party of the federation {kit.federation!r}, whose parties are {members}"
        )
    text = travelling(job)
    read_text(text)  # what sites would refuse is refused before anybody is asked
    run = last_run(kit, job.name, text) if options.resume else new_run(job.name)
    folder = kit.jobs / run
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / JOB, text)
    if not options.quiet:
        print(f"run {run}: {len(job.parties)} parties, led by {lead_of(job)}")
    outcome = read_outcome(folder) or {}
    if "rounds" not in outcome:  # else it ended while nobody looked on
        with shown(not options.quiet) as show:
            outcome = Driver(kit, run, text, job.names, lead_of(job), tell, show).go()
    if "refused" in outcome:
        raise RunError(f"{outcome['refused']} (run {run})")
    if not options.quiet:
        print(f"run {run} ended after {outcome.get('rounds')} rounds")
        print(f"every party has its own part in jobs/{run}/model of its kit; {lead_of(job)} also has model/joint.json,")
        print("the trace and the certificate")
    return 0


@contextmanager
def shown(visible: bool) -> Iterator[Callable[[int, float], None]]:
    """Yield what shows the rounds of the run, where somebody looks."""
    from rich.console import Console

    console = Console(stderr=True)
    if not visible or not console.is_terminal:
        yield lambda round_, seconds: None
        return
    with console.status("waiting for the first round") as status:
        yield lambda round_, seconds: status.update(f"round {round_}, {seconds:.1f} s")


def travelling(job: Job) -> str:
    """The job as the sites get it: without paths, which are each party's own."""
    return replace(job, engine="flare", parties=tuple(replace(party, data="") for party in job.parties)).to_toml()


def new_run(name: str) -> str:
    """A name for a run, the same at every site."""
    safe = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "job"
    return f"{safe[:60]}-{secrets.token_hex(6)}"


def last_run(kit: Kit, name: str, text: str) -> str:
    """The last run of this job that has not ended; where all have, the last, which may have ended unobserved."""
    from tacit.federation.outcome import read_outcome
    from tacit.runtime.store import JOB

    found = [path.parent for path in kit.jobs.glob(f"*/{JOB}") if path.read_text(encoding="utf-8") == text]
    open_ = [folder for folder in found if "rounds" not in (read_outcome(folder) or {})]
    if not found:
        raise InputError(f"there is no run of {name!r} to go on with: leave out --resume")
    return max(open_ or found, key=lambda folder: (folder / JOB).stat().st_mtime).name
