"""`tacit accept`: answer the jobs that ask whether this organisation takes part."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tacit.errors import InputError
from tacit.text import plain

DESCRIPTION = """\
Show what a waiting job would do with your data, and answer it: with whom it
trains, what leaves you, to whom, what it spends of your budget, and what is not
covered. The answer holds for this job with these sizes alone; a job that goes
on after a stop does not ask again."""
EPILOG = """\
examples:
  tacit accept bank-kit --show      see what waits, and answer nothing
  tacit accept bank-kit             read it, and say yes or no
  tacit accept bank-kit --yes       take part, after somebody has read it
  tacit accept bank-kit --refuse    do not take part

accept = "within-budget" in site.toml trains every job that fits the budget
without asking, once you agreed to its preparation; "never" takes none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("kit", metavar="KIT", help="your organisation's directory")
    parser.add_argument("--job", metavar="RUN", help="which run, where several wait")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--yes", action="store_true", help="take part, without being asked at the terminal")
    choice.add_argument("--refuse", action="store_true", help="do not take part")
    choice.add_argument("--show", action="store_true", help="show what waits, and answer nothing")


def run(options: argparse.Namespace) -> int:
    """Show the question and answer it."""
    from tacit.federation.questions import questions
    from tacit.text import listing, show

    waiting = questions(home_of(options.kit))
    if options.job is not None:
        waiting = [question for question in waiting if question.folder.name == options.job]
    if not waiting:
        raise InputError(f"no run{'' if options.job is None else ' ' + show(options.job)} waits for an answer")
    if len(waiting) > 1 and not options.show:
        names = listing(question.folder.name for question in waiting)
        raise InputError(f"several runs wait ({names}): name one with --job")
    for question in waiting:
        print("\n".join(plain(line) for line in (f"run          {question.folder.name}", *question.lines)))
        print()
        if not options.show:
            yes = options.yes or (not options.refuse and _asked(options.kit))
            question.answer(yes)
            print(plain(f"{'accepted' if yes else 'refused'}: {question.folder.name}"))
    return 0


def _asked(kit: str) -> bool:
    """Whether the person at the terminal takes part, having seen what is asked."""
    if not sys.stdin.isatty():
        raise InputError(
            f"there is no terminal to ask at: give --yes if somebody has read it (tacit accept {kit} --show)"
        )
    answer = ""
    while answer not in ("yes", "no"):
        try:
            answer = input("Take part? Type yes or no: ").strip().lower()
        except EOFError:
            raise InputError("nothing was answered: the run still waits") from None
    return answer == "yes"


def home_of(path: str) -> Path:
    """The home of a kit's organisation; a directory without a kit is taken for a home itself."""
    from tacit.federation.kit import Kit
    from tacit.text import show

    place = Path(path)
    if not place.is_dir():
        raise InputError(f"there is no kit {show(path)}: give the directory that tacit federation init made")
    return Kit.open(place).home if (place / "tacit.toml").exists() else place


def run_of(path: str, job: str | None, *, ended: bool) -> Path:
    """The folder of a run: the path itself, or by a kit the run of this name, else the last one.

    Raises
    ------
    InputError
        Where the kit's organisation has no such run; with `ended`, none in which it has its part of a model.
    """
    from tacit.text import listing, show

    if not (Path(path) / "tacit.toml").exists():
        if job is not None:
            raise InputError(f"--job goes with a kit, and {show(path)} is none: leave it out")
        return Path(path)
    from tacit.federation.kit import Kit
    from tacit.run.folder import ABOUT

    jobs = Kit.open(path).jobs
    found = sorted(jobs.iterdir(), key=lambda one: one.stat().st_mtime) if jobs.is_dir() else []
    runs = [one for one in found if one.is_dir() and (not ended or (one / ABOUT).exists())]
    chosen = [one for one in runs if job in (None, one.name)]
    if not chosen:
        has = listing(one.name for one in runs) if runs else "none"
        which = "a run" if job is None else f"the run {show(job)}"
        raise InputError(f"{show(path)} has not {which}{' that ended' if ended else ''}: it has {has}")
    return chosen[-1]
