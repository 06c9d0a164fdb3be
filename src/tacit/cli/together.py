"""`tacit train` with engine flare: hand a job in at a federation, and see it through."""

from __future__ import annotations

import argparse
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError, RunError
from tacit.files import read_json, write_json
from tacit.text import listing, raw, tell
from tacit.version import __version__

VERSION = "version.json"  # of the software that began a run
PREDICTED = "predict-"  # begins the name of a run that predicts

if TYPE_CHECKING:
    from tacit.federation.kit import Kit
    from tacit.job import Job


def train_together(job: Job, options: argparse.Namespace) -> int:
    """Hand the job in, or go on with its last run, and say how it ended."""
    from tacit.federation.driver import Driver
    from tacit.federation.progress import read_outcome
    from tacit.federation.site import lead_of, read_text
    from tacit.files import write_text
    from tacit.run.folder import JOB

    if options.kit is None:
        raise InputError('engine = "flare" needs the kit of the federation\'s server: give --kit KIT')
    kit = server_kit(options.kit)
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
    keep_version(folder)
    if not options.quiet:
        print(f"run {run}: {len(job.parties)} parties, led by {lead_of(job)}")
        for line in who_must_accept(job.names, lead_of(job)):
            print(line)
        sys.stdout.flush()
    outcome = read_outcome(folder) or {}
    if "rounds" not in outcome:  # else it ended while nobody looked on
        with shown(not options.quiet) as show:
            outcome = Driver(kit, run, text, job.names, lead_of(job), tell, show).go()
    if "refused" in outcome:
        raise RunError(f"{outcome['refused']} (run {run})")
    if not options.quiet:
        print(f"run {run} ended after {outcome.get('rounds')} rounds")
        print(f"every party has its own part in jobs/{run}/model of its home (tacit status KIT names it);")
        print(f"{lead_of(job)} also has model/joint.json, the trace and the certificate")
        print("the model was not compared with what a party has alone: predict rows that were kept aside to measure it")
    return 0


def keep_version(folder: Path) -> None:
    """Write down which version begins a run; refuse to go on with one that another version began.

    Raises
    ------
    InputError
    """
    path = folder / VERSION
    began = read_json(path).get("tacit") if path.exists() else __version__
    if began != __version__:
        raise InputError(
            f"the run {folder.name} was begun with tacit {began}, and this is {__version__}: finish it with {began} "
            "everywhere, or hand the job in again without --resume"
        )
    write_json(path, {"tacit": __version__})


def who_must_accept(names: Sequence[str], lead: str) -> list[str]:
    """Who is asked what, and in which order, before anything is sent."""
    others = ", ".join(name for name in names if name != lead)
    return [
        f"must accept: {lead} first, then {others}; each twice, for the preparation (ids, sizes) and for what is sent",
        "each of them: tacit accept KIT --show, then tacit accept KIT (accept = ... in site.toml may answer for it);",
        "at the first job everybody also compares keys: tacit federation members KIT --confirm NAME",
    ]


def predict_together(run: str, options: argparse.Namespace) -> int:
    """Let the organisations score their own rows by the model of a run."""
    from tacit.federation.driver import Driver
    from tacit.federation.score_handler import PredictionRequest
    from tacit.federation.site import lead_of, read_text
    from tacit.run.folder import JOB

    if options.data or options.out:
        raise InputError("with --kit every party has its own rows, and who led gets the file: leave out DATA and --out")
    kit = server_kit(options.kit)
    run = named_run(kit, run)
    job = read_text((kit.jobs / run / JOB).read_text(encoding="utf-8"))
    if job.rows_are_split:
        raise InputError('every party of split = "samples" has the whole model: predict with it at home')
    lead = lead_of(job)
    request = PredictionRequest(run, (lead, *(name for name in job.names if name != lead)))
    own = new_run(f"{PREDICTED}{run}")
    print(f"run {own}: {len(request.parties)} parties, led by {lead}")
    print("\n".join(who_must_accept(request.parties, lead)[:2]))
    sys.stdout.flush()
    with shown(True) as show:
        outcome = Driver(kit, own, request.to_toml(), request.parties, lead, tell, show).go()
    if "refused" in outcome:
        raise RunError(f"{outcome['refused']} (run {own})")
    print(f"{lead} has the predictions in jobs/{own}/predictions.csv of its home")
    return 0


def named_run(kit: Kit, name: str) -> str:
    """The run of this name, or the last one of the job of this name."""
    from tacit.federation.progress import read_outcome
    from tacit.run.folder import JOB

    runs = sorted(kit.jobs.glob(f"*/{JOB}"), key=lambda path: path.stat().st_mtime)
    ended = [path.parent.name for path in runs if "rounds" in (read_outcome(path.parent) or {})]
    of_job = [run for run in ended if run == name or run.rpartition("-")[0] == name]
    if not of_job:
        raise InputError(f"the federation has no finished run {name!r}: it has {listing(ended) if ended else 'none'}")
    return of_job[-1]


def server_kit(path: str) -> Kit:
    """The kit with which jobs are handed in."""
    from tacit.federation.flare_settings import write_admin
    from tacit.federation.kit import SERVER, Kit
    from tacit.federation.project import require_flare

    require_flare()
    kit = Kit.open(path)
    if kit.role != SERVER:
        raise InputError(f"{path} is the kit of party {kit.name}: jobs are handed in with the server's kit")
    kit.make_home()
    write_admin(kit, again=False)
    return kit


@contextmanager
def shown(visible: bool) -> Iterator[Callable[[int, float], None]]:
    """Yield what shows the rounds of the run, where somebody looks."""
    from rich.console import Console

    console = Console(file=raw(sys.stderr))
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
    from tacit.federation.progress import read_outcome
    from tacit.run.folder import JOB

    found = [path.parent for path in kit.jobs.glob(f"*/{JOB}") if path.read_text(encoding="utf-8") == text]
    open_ = [folder for folder in found if "rounds" not in (read_outcome(folder) or {})]
    if not found:
        raise InputError(f"there is no run of {name!r} to go on with: leave out --resume")
    return max(open_ or found, key=lambda folder: (folder / JOB).stat().st_mtime).name
