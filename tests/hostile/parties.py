"""Parties with keys of their own, for attacks on what they send each other: no FLARE, no processes."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tacit.federation.channel import Channel
from tacit.federation.identity import OwnKeys, count_start
from tacit.federation.kit import Kit
from tacit.federation.members import Members, introduce
from tacit.federation.project import Federation, init

NAMES = ("bank", "shop", "phone")
RUN = "credit-0123456789ab"


@cache
def made() -> Path:
    """Kits of a federation, made once and only read."""
    place = Path(mkdtemp(prefix="tacit-hostile-")) / "credit"
    atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
    init(Federation("credit", NAMES[0], "localhost", NAMES), place)
    return place


def copied_kits(place: Path) -> dict[str, Kit]:
    """Copies of the kits of a federation whose members have not met."""
    shutil.copytree(made(), place / "credit")
    return {name: Kit.open(place / "credit" / name) for name in ("server", *NAMES)}


def make_kits(place: Path) -> dict[str, Kit]:
    """Kits of a federation whose members have met and confirmed each other."""
    kits = copied_kits(place)
    introduce(list(kits.values()))
    cards = {name: OwnKeys.of(kits[name]).cards() for name in NAMES}
    assert all(Members(kits[one]).meet(other, cards[other]) for one in NAMES for other in NAMES if one != other)
    return kits


def channel(kit: Kit, run: str = RUN) -> Channel:
    """A process of a site."""
    return Channel(OwnKeys.of(kit), Members(kit).card, run, count_start(kit))


class Receiver:
    """What a site does about requests; remembers what it was asked, and by whom."""

    def __init__(self, reply: bytes = b"") -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.reply = reply

    def __call__(self, content: bytes, sender: str) -> bytes:
        self.asked.append((sender, content))
        return self.reply or b"answer to " + content


Work = Callable[[bytes, str], bytes]
