"""`tacit federation`: make the kits with which organisations train together."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.text import command, plain, show

if TYPE_CHECKING:
    from tacit.federation.kit import Kit
    from tacit.federation.members import Members
    from tacit.federation.project import Federation

DESCRIPTION = """\
Make one directory, a kit, for every organisation of a federation: TLS keys and
certificates, and a page that says what to do with it. Hand each kit to its
organisation; keep the authority, which signs new kits, to yourself. The keys
that protect what parties send each other are made by each party itself, at its
first tacit join; members shows and confirms them, rotate makes new ones."""
EPILOG = """\
examples:
  tacit federation init --name credit --server bank --host tacit.bank.example \\
        --party bank --party shop --party phone --out credit
  tacit federation init credit.toml --out credit
  tacit federation add credit insurer
  tacit federation renew credit --only shop
  tacit federation members credit/shop
  tacit federation members credit/shop --confirm bank
  tacit federation members credit/shop --confirm "bank=4f1c 90aa ..."
  tacit federation members credit/shop --revoke bank
  tacit federation rotate credit/shop
  tacit federation clean credit/shop --days 90
  tacit federation demo             all of it on this machine
  tacit federation samples --out .  the sample files of the demo

credit.toml:
  name = "credit"
  server = "bank"
  host = "tacit.bank.example"
  port = 8002
  parties = ["bank", "shop", "phone"]"""


ACTIONS = ("init", "add", "renew", "members", "rotate", "restored", "clean", "demo", "samples")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action")
    init = actions.add_parser("init", help="make the kits of a new federation", allow_abbrev=False)
    init.add_argument("file", metavar="FEDERATION.toml", nargs="?", help="who takes part, as a file")
    init.add_argument("--name", help="the federation's name")
    init.add_argument("--server", metavar="NAME", help="the organisation that runs the server: who holds the labels")
    init.add_argument("--host", help="where the others reach the server")
    init.add_argument("--port", type=int, help="the one port to open (default: 8002)")
    init.add_argument("--party", metavar="NAME", action="append", help="an organisation with data; give all of them")
    init.add_argument("--out", metavar="DIR", required=True, help="a directory that does not exist yet")
    init.set_defaults(act=_init)
    add = actions.add_parser("add", help="make the kit of one more party", allow_abbrev=False)
    add.add_argument("directory", metavar="DIR", help="what init made")
    add.add_argument("party", metavar="NAME", help="the new party")
    add.set_defaults(act=_add)
    renew = actions.add_parser("renew", help="make kits with new keys and certificates", allow_abbrev=False)
    renew.add_argument("directory", metavar="DIR", help="what init made")
    renew.add_argument("--only", metavar="NAME", action="append", default=[], help="a party, or server (default: all)")
    renew.set_defaults(act=_renew)
    members = actions.add_parser("members", help="compare, confirm and revoke everybody's keys", allow_abbrev=False)
    members.add_argument("kit", metavar="KIT", help="your organisation's directory")
    members.add_argument(
        "--confirm", metavar="NAME[=FINGERPRINT]", nargs="+", default=[], help="the fingerprint was compared with them"
    )
    members.add_argument("--yes", action="store_true", help="do not ask, for scripts that compared it themselves")
    members.add_argument("--revoke", metavar="NAME", nargs="+", default=[], help="let this key in no more, ever")
    members.add_argument(
        "--run", metavar="RUN", dest="masks_of", help="also show the fingerprint of the masks of this run"
    )
    members.set_defaults(act=_members)
    rotate = actions.add_parser("rotate", help="make new keys of your own", allow_abbrev=False)
    rotate.add_argument("kit", metavar="KIT", help="your organisation's directory")
    rotate.add_argument("--stolen", action="store_true", help="the old key does not vouch for the new one")
    rotate.set_defaults(act=_rotate)
    restored = actions.add_parser("restored", help="go on after your home was put back to a copy", allow_abbrev=False)
    restored.add_argument("kit", metavar="KIT", help="your organisation's directory")
    restored.add_argument("--starts", type=int, required=True, help="the largest number that others have seen of you")
    restored.set_defaults(act=_restored)
    clean = actions.add_parser("clean", help="free the disk of what ended runs have left", allow_abbrev=False)
    clean.add_argument("kit", metavar="KIT", help="your organisation's directory, or the server's")
    clean.add_argument("--days", type=float, default=30.0, help="only runs that ended so long ago (default: 30)")
    clean.add_argument("--results", action="store_true", help="also models, predictions, reports and traces")
    clean.add_argument("--yes", action="store_true", help="delete it; without this it is only listed")
    clean.set_defaults(act=_clean)
    demo = actions.add_parser("demo", help="see three organisations train on this machine", allow_abbrev=False)
    demo.add_argument("--out", metavar="DIR", default="federation-demo", help="a new folder (default: federation-demo)")
    demo.add_argument("--minutes", type=float, default=10.0, help="give up after so many minutes (default: 10)")
    demo.set_defaults(act=_demo)
    samples = actions.add_parser("samples", help="write sample files of three organisations", allow_abbrev=False)
    samples.add_argument("--out", metavar="DIR", default=".", help="the folder (default: this one)")
    samples.set_defaults(act=_samples)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    if options.action is None:
        raise InputError(f"say what to do: tacit federation {', '.join(ACTIONS)}; see tacit federation --help")
    options.act(options)
    return 0


def _init(options: argparse.Namespace) -> None:
    from tacit.federation.project import CERTIFICATE_DAYS, init

    federation = _federation(options)
    kits = init(federation, options.out)
    for kit in kits:
        keep = " (you keep it)" if kit.organisation == federation.server else f": hand it to {kit.organisation}"
        print(f"kit        {kit.path}{keep}")
    print(f"authority  {kits[0].path.parent / 'authority'} (you keep it, secret: it signs new kits)")
    print(f"compare    {kits[0].authority.fingerprint}")
    print(f"valid      certificates {CERTIFICATE_DAYS} days, until {kits[0].certificate.until.date()}")
    print(f"next       read README.html in each kit; start with {command('tacit', 'serve', kits[0].path)}")


def _add(options: argparse.Namespace) -> None:
    from tacit.federation.project import add

    kit = add(options.directory, options.party)
    print(f"kit        {kit.path}: hand it to {kit.organisation}")
    print(f"compare    {kit.authority.fingerprint}")


def _renew(options: argparse.Namespace) -> None:
    from tacit.federation.project import renew

    kits: list[Kit] = renew(options.directory, options.only)
    for kit in kits:
        print(f"kit        {kit.path}: valid until {kit.certificate.until.date()}")
    print("next       each organisation copies the new keys over the old ones; README.html says how")


def _members(options: argparse.Namespace) -> None:
    from tacit.federation.identity import OwnKeys, starts_of
    from tacit.federation.members import Members

    kit = _party(options.kit)
    own, members = OwnKeys.of(kit).card, Members(kit)
    for name in options.revoke:
        for one in members.revoke(name):
            print(f"{'revoked':<14} {name}: {one}")
    for word in options.confirm:
        name, _, fingerprint = word.partition("=")
        done = members.confirm(name, fingerprint or _compared(members, name, options.yes))
        print(f"{name}: {done}")
    print(f"{'you':<14} {own.name}: {own.fingerprint} (generation {own.generation}; {starts_of(kit)} starts)")
    for name in members.names():
        member = members.get(name)
        card = member.card or member.seen
        shown = card.fingerprint if card is not None else member.pinned or "no key came yet"
        starts = members.starts_seen(name)
        note = f"; {member.note}" if member.note else ""
        note += f"; {starts} starts seen" if starts else ""
        print(plain(f"{members.state(name):<14} {name}: {shown}{note}"))
    if options.masks_of is not None:
        print(plain(f"{'masks':<14} run {options.masks_of}: {_masks(kit, options.masks_of)}"))


def _compared(members: Members, name: str, yes: bool) -> str:
    """The fingerprint that a person has compared, or says to have."""
    seen = members.get(name).seen or members.get(name).card
    if seen is None:
        raise InputError(f"no key of {name!r} came yet: give the fingerprint that they told you, {name}=FINGERPRINT")
    if yes:
        return seen.fingerprint
    if not sys.stdin.isatty():
        raise InputError(
            f"give the fingerprint that {name!r} told you, {name}=FINGERPRINT, or --yes if you compared it"
        )
    print(f"{name}: {seen.fingerprint}")
    said = input("Is this what they read to you, at a number that you knew before? Type yes: ").strip().lower()
    if said != "yes":
        raise InputError(f"{name!r} is not confirmed")
    return seen.fingerprint


def _masks(kit: Kit, run: str) -> str:
    """All fingerprints of the masks of a run, one more whenever it went on; and whose keys people have to compare."""
    from tacit.federation.parts import read_masks
    from tacit.federation.site import check_run

    found, unchecked = read_masks(kit.jobs / check_run(run))
    if not found:
        return "none (it has no masks, or none yet)"
    told = "; then ".join(found)
    if not unchecked:
        return f"{told} (every key was signed by its confirmed owner)"
    return (
        f"{told} (nobody here confirmed {', '.join(unchecked)}: compare all of these with them, or confirm their keys)"
    )


def _rotate(options: argparse.Namespace) -> None:
    from tacit.federation.identity import OwnKeys
    from tacit.federation.processes import running

    kit = _party(options.kit)
    if running(kit):
        raise InputError(f"{kit.name} runs: stop tacit join first")
    card = OwnKeys.of(kit).rotate(kit, stolen=options.stolen).card
    print(f"you        {card.name}: {card.fingerprint} (generation {card.generation})")
    if options.stolen:
        print("next       tell the others: each revokes your old key, compares this one by telephone and confirms it")
    else:
        print(
            "next       nothing: the old key vouches for it; each of the others takes it at the next job, and notes it"
        )


def _restored(options: argparse.Namespace) -> None:
    from tacit.federation.identity import raise_starts
    from tacit.federation.processes import running

    kit = _party(options.kit)
    if running(kit):
        raise InputError(f"{kit.name} runs: stop tacit join first")
    if not 0 <= options.starts < 2**40:
        raise InputError(f"--starts {options.starts} is not allowed: give the number that others read to you")
    print(f"starts     {raise_starts(kit, options.starts)}: the next process has a larger number")
    if not kit.ledger.exists():
        print("budget     there is no ledger: nothing was promised")
        return
    aside = kit.home / f"ledger-restored-{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    kit.ledger.replace(aside)
    print(f"budget     closed: what was spent since the copy is unknown; the old ledger is {aside}")
    print("next       no training is taken part in; see Keep a budget: a new ledger is a new promise")


def _clean(options: argparse.Namespace) -> None:
    from tacit.federation.kit import Kit
    from tacit.federation.status import KEPT, clean
    from tacit.text import size

    if not 0 <= options.days < 1e6:
        raise InputError(f"--days {options.days:g} is not allowed: give a number of days from 0")
    found = clean(Kit.open(options.kit), options.days, results=options.results, delete=options.yes)
    for run, count in found:
        print(f"{'deleted' if options.yes else 'would go':<10} {size(count)} of run {run}")
    if not found:
        print(f"nothing: no run ended more than {options.days:g} days ago")
    elif not options.yes:
        print(f"next       the same with --yes deletes it; {KEPT} stays")


def _demo(options: argparse.Namespace) -> None:
    from tacit.cli.federation_demo import run_demo

    run_demo(Path(options.out), options.minutes)


def _samples(options: argparse.Namespace) -> None:
    from tacit.data.samples import JOB_FILE, sample_names, write_samples

    folder = Path(options.out)
    if not folder.is_dir():
        raise InputError(f"there is no folder {show(options.out)}: make it first, or give another --out")
    there = [name for name in sample_names() if (folder / name).exists()]
    if there:
        raise InputError(f"{show(options.out)} holds {there[0]} already: give another folder with --out")
    for path in write_samples(folder):
        print(f"written    {path}")
    print(f"next       tacit federation init ..., then tacit train {JOB_FILE} --kit KITS/server")


def _party(path: str) -> Kit:
    from tacit.federation.kit import PARTY, Kit

    kit = Kit.open(path)
    if kit.role != PARTY:
        raise InputError(f"{path} is the kit of the server, which has no keys of its own: give a party's")
    return kit


def _federation(options: argparse.Namespace) -> Federation:
    """The federation of the file, or of the options."""
    from tacit.federation.project import DEFAULT_PORT, Federation

    given = {name: getattr(options, name) for name in ("name", "server", "host", "port", "party")}
    if options.file is not None:
        for name, value in given.items():
            if value is not None:
                raise InputError(f"--{name} and a file together: say it in {options.file}")
        return Federation.read(options.file)
    for name in ("name", "server", "host", "party"):
        if not given[name]:
            raise InputError(f"--{name} is missing: give it, or a file; see tacit federation init --help")
    port = DEFAULT_PORT if options.port is None else options.port
    return Federation(options.name, options.server, options.host, tuple(options.party), port)
