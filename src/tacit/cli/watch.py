"""`tacit watch`: a run in progress, seen from another terminal."""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.accept import run_of
from tacit.errors import InputError
from tacit.text import command, duration, plain, raw, size

if TYPE_CHECKING:
    from tacit.run.watching import RunView, Watcher

DESCRIPTION = """\
Watch a run that another process trains: round, objective and certified gap,
rounds per second, bytes, and privacy, until the run ends or you press Ctrl-C.
It reads the run's files and changes none of them; a finished run works too.
Between organisations give a kit: then it also says who is being waited for,
since when, for what, and what to do."""
EPILOG = """\
examples:
  tacit watch runs/credit
  tacit watch runs/credit --once
  tacit watch runs/credit && tacit report runs/credit
  tacit watch credit/shop         the last run of an organisation

exit codes: 0 the run is finished, 1 it stopped before, 2 there is none."""
FINISHED_WELL, NOT_FINISHED = 0, 1
EVERY, PLAIN_EVERY = 0.25, 1.0  # seconds between looks: in a terminal, and where lines pile up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train writes, or a kit")
    parser.add_argument("--job", metavar="NAME", help="with a kit: which run (default: the last)")
    parser.add_argument("--once", action="store_true", help="say how it is now, and end")
    parser.add_argument(
        "--every", metavar="SECONDS", type=float, help="look so often (default: 0.25, or 1 into a pipe)"
    )


def run(options: argparse.Namespace) -> int:
    """Watch, and say how it ended."""
    from tacit.run.watching import FINISHED, Watcher

    if options.every is not None and not 0.01 <= options.every < math.inf:
        raise InputError(f"--every {options.every} is not allowed: it must be a number of seconds from 0.01")
    if (Path(options.directory) / "tacit.toml").exists():
        return _watch_site(options)
    if (Path(options.directory) / "owner.json").exists():
        raise InputError(f"{options.directory} is a run between organisations: give the kit, and --job NAME")
    watcher = Watcher(run_of(options.directory, options.job, ended=False))
    if options.once:
        print("\n".join(lines(watcher.look())))
        return 0
    try:
        seen = _follow(watcher, options.every)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no longer watching; the run is left alone") from None
    print("\n".join(lines(seen)))
    if seen.state == FINISHED:
        print(f"report     {command('tacit', 'report', watcher.folder.path)}")
        return FINISHED_WELL
    go_on = command("tacit", "train", "JOB.toml", "--out", watcher.folder.path, "--resume")
    print(f"           nobody is training it: go on with {go_on}")
    return NOT_FINISHED


def _watch_site(options: argparse.Namespace) -> int:
    """Follow a run between organisations, as one of them knows it: a line whenever something changes."""
    from tacit.federation.kit import Kit
    from tacit.federation.status import ENDED, GOING, WAITING, run_status

    kit, before = Kit.open(options.directory), ""
    folder = run_of(options.directory, options.job, ended=False)
    while True:
        seen = run_status(kit, folder)
        text = "\n".join(plain(line) for line in seen.lines())
        if _without_times(text) != before:
            before = _without_times(text)
            print(text)
            sys.stdout.flush()
        if options.once or seen.state not in (GOING, WAITING):
            return FINISHED_WELL if options.once or seen.state == ENDED else NOT_FINISHED
        time.sleep(options.every or PLAIN_EVERY)


def _without_times(text: str) -> str:
    """What must change before a line is worth printing again: not the seconds alone."""
    return re.sub(r"(for|last) [0-9.]+ (s|min|h)[0-9a-z ]*", "", text)


def _follow(watcher: Watcher, every: float | None) -> RunView:
    """Show the run until it ends."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=raw(sys.stdout), highlight=False)
    if not console.is_terminal:
        return _follow_plainly(watcher, every or PLAIN_EVERY)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not _over(seen := watcher.look()):
            live.update(Text("\n".join(map(plain, lines(seen)))), refresh=True)
            time.sleep(every or EVERY)
    return seen


def _follow_plainly(watcher: Watcher, every: float) -> RunView:
    """A line each time, where something is new."""
    last = -1
    while not _over(seen := watcher.look()):
        if len(seen.trace) != last:
            last = len(seen.trace)
            print(one_line(seen))
            sys.stdout.flush()
        time.sleep(every)
    return seen


def _over(seen: RunView) -> bool:
    from tacit.run.watching import FINISHED, STOPPED

    return seen.state in (FINISHED, STOPPED)


# --- in words ----------------------------------------------------------------------------------------


def lines(seen: RunView) -> list[str]:
    """A run as it is, a line for each thing."""
    rows = [("run", f"{seen.name}: {seen.state}" if seen.name else seen.state)]
    if seen.trace:
        rows += [("round", _round(seen)), *_objective(seen), ("speed", _speed(seen)), ("sent", _sent(seen))]
        rows.append(("privacy", _privacy(seen)))
    return [f"{title:<10} {text}" for title, text in rows]


def one_line(seen: RunView) -> str:
    """A run as it is, in one line."""
    if not seen.trace:
        return seen.state
    objective = "".join(f"  objective {text}" for _, text in _objective(seen))
    return f"round {_round(seen)}{objective}  {_speed(seen)}  {_sent(seen)}"


def _round(seen: RunView) -> str:
    most = f" of at most {seen.most_rounds}" if seen.most_rounds else ""
    return f"{seen.trace[-1].round}{most}"


def _objective(seen: RunView) -> list[tuple[str, str]]:
    """Nothing in a private run, where nobody may know it."""
    last = seen.trace[-1]
    if not math.isfinite(last.objective):
        return []
    if math.isfinite(seen.gap):
        return [("objective", f"{last.objective:.6g}, gap {seen.gap:.1e}")]
    if last.primal == last.dual == 0.0:  # as with trees, which have none
        return [("objective", f"{last.objective:.6g}")]
    return [("objective", f"{last.objective:.6g}, residuals {last.primal:.1e} and {last.dual:.1e}")]


def _speed(seen: RunView) -> str:
    speed, last = seen.speed, seen.trace[-1]
    rate = f"{speed:.3g} rounds/s, " if math.isfinite(speed) else ""
    return f"{rate}{duration(last.seconds)} {'in all' if _over(seen) else 'so far'}"


def _sent(seen: RunView) -> str:
    down, up = (sum(getattr(row, name) for row in seen.trace) for name in ("bytes_down", "bytes_up"))
    return f"{size(down)} to the parties, {size(up)} back" if down else f"{size(up)} between neighbours"


def _privacy(seen: RunView) -> str:
    spent = seen.trace[-1].epsilon
    if not math.isfinite(spent):
        return "none: epsilon is infinite"
    return f"epsilon {spent:.4g}, planned for all rounds together: it counts as spent from the first one on"
