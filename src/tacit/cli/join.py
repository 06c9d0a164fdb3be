"""`tacit join`: take part in a federation with one's own data."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import command, plain

if TYPE_CHECKING:
    from tacit.federation.kit import Kit

LOOK_EVERY = 1.0
DESCRIPTION = """\
Connect to the server of a federation and wait for jobs. The data stay here;
the rules for what may run here come from the package you installed. It stays in
the foreground until you press Ctrl-C, and ends everything it started."""
EPILOG = """\
examples:
  tacit join credit/shop --data customers.csv
  tacit join credit/shop --data customers.parquet --id customer
  tacit join credit/shop            with the data of the last time"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("kit", metavar="KIT", help="directory that tacit federation init made for you")
    add_data(parser)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments about data."""
    parser.add_argument("--data", metavar="FILE", help="your file (default: the one of the last time)")
    parser.add_argument("--predict", metavar="FILE", help="your rows to predict (default: the data you train on)")
    parser.add_argument("--id", metavar="COLUMN", help="the column with the ids, checked now; jobs may name another")


def run(options: argparse.Namespace) -> int:
    """Join, until told to stop."""
    from tacit.federation.kit import PARTY, Kit

    kit = Kit.open(options.kit)
    if kit.role != PARTY:
        raise InputError(f"{options.kit} is the kit of the server: start it with tacit serve, and join with a party's")
    settings = keep_data(kit, options)
    if "data" not in settings:
        raise InputError(f"{kit.name} has no data yet: give --data FILE")
    return supervise(kit)


def keep_data(kit: Kit, options: argparse.Namespace) -> dict[str, object]:
    """Check the data and remember where they are; return the site's settings."""
    before = kit.settings()
    data = str(Path(options.data).resolve()) if options.data is not None else before.get("data")
    column = options.id if options.id is not None else before.get("id")
    if data is not None:
        check_data(one_file(Path(data), before), kit.name, column)
    new = None if options.predict is None else Path(options.predict).resolve()
    if new is not None:
        check_data(new, kit.name, column)
        kit.keep(predict=str(new))
    if options.data is not None or options.id is not None:
        kit.keep(data=data, id=column)
    return kit.settings()


def one_file(path: Path, settings: Mapping[str, object]) -> Path:
    """The file itself; the first in a folder of Parquet files, which a site's own Dask cluster reads."""
    parts = sorted(path.glob("*.parquet")) if "dask" in settings and path.is_dir() else []
    return parts[0] if parts else path


def check_data(path: Path, party: str, column: str | None) -> None:
    """Refuse a file that cannot be read or lacks its id column."""
    import pyarrow.parquet

    from tacit.data.read import check_file, read_table
    from tacit.files import quote_path
    from tacit.text import listing, nearest, one_line, show

    if path.name.lower().endswith(".parquet") and not path.is_dir():
        check_file(path, party)
        try:  # the columns alone: the file may be larger than memory
            names = pyarrow.parquet.read_schema(path).names
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"party {show(party)}: cannot read {quote_path(path)}: {one_line(error)}") from error
    else:
        names = list(read_table(path, party=party, id_column=column).columns)
    if column is not None and column not in names:
        raise InputError(
            f"party {show(party)}: {quote_path(path)} has no column {show(column)}{nearest(column, names)}: "
            f"it has {listing(names)}"
        )


def supervise(kit: Kit) -> int:
    """Run the site in the foreground."""
    from tacit.federation.processes import Supervisor

    def say(line: str) -> None:
        print(plain(line))
        sys.stdout.flush()

    say(f"federation {kit.federation}, certificate {kit.authority.fingerprint}")
    for line in active(kit):
        say(line)
    supervisor = Supervisor(kit, say)
    if kit.role == "party":
        threading.Thread(target=answer_questions, args=(kit, say), daemon=True).start()
    supervisor.run()
    say(f"stopped: nothing of {kit.name} runs any more")
    return 0


def active(kit: Kit) -> list[str]:
    """Every setting that holds, with where it comes from; and the own fingerprint."""
    from tacit.federation.identity import OwnKeys
    from tacit.federation.questions import read_policy
    from tacit.files import literal

    if kit.role != "party":
        return [f"own files: {kit.home}"]
    settings = kit.settings()
    lines = [f"{key} = {literal(_tuples(value))}  ({kit.site})" for key, value in settings.items()]
    if "accept" not in settings:
        lines.append(f'accept = "{read_policy(settings)}"  (default)')
    if "budget" not in settings:
        lines.append("no budget: nothing limits what jobs learn together  (default)")
    return [*lines, f"own fingerprint {OwnKeys.of(kit).card.fingerprint}"]


def _tuples(value: Any) -> Any:
    """Lists as tuples, which is what is written into TOML."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def answer_questions(kit: Kit, say: Callable[[str], None]) -> None:
    """Show each key to compare, and each job that waits for a yes: ask at a terminal, else say once how to answer."""
    from tacit.federation.members import confirmation_lines
    from tacit.federation.questions import questions

    shown: set[str] = set()
    while True:
        time.sleep(LOOK_EVERY)
        for line in [one for one in confirmation_lines(kit) if one not in shown]:
            shown.add(line)
            say(line)
        for question in [one for one in questions(kit.home) if one.digest not in shown]:
            shown.add(question.digest)
            say(f"a job asks whether {kit.name} takes part:")
            for line in question.lines:
                say(f"  {line}")
            if sys.stdin.isatty():
                reply = input("take part? [y/N] ").strip().lower()
                question.answer(reply in ("y", "yes"))
                say("accepted" if reply in ("y", "yes") else "refused")
            else:
                answer = command("tacit", "accept", kit.path, "--job", question.folder.name)
                say(f"answer it with {answer}, or the same with --refuse")
