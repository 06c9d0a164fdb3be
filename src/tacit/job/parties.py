"""What the parties of a job must be, each by itself and beside the others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from tacit.data.load import PartySpec
from tacit.data.wording import listing, show
from tacit.errors import InputError

MOST_PARTIES = 500  # a graph of all pairs of them is still made in seconds
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def check_count(count: int) -> None:
    """Refuse more parties than a run can have."""
    if count > MOST_PARTIES:
        raise InputError(f"there are {count} parties, more than {MOST_PARTIES}: leave some out")


def check_party(spec: PartySpec, number: int) -> None:
    """Check one party by itself; `number` counts from 1."""
    _check_name(spec.name, number)
    if spec.id is not None and spec.id == spec.label:
        raise InputError(f"party {show(spec.name)}: {show(spec.id)} is both id and label: they must differ")
    for role, column in (("id", spec.id), ("label", spec.label)):
        if column is not None and column in (spec.features or ()):
            raise InputError(
                f"party {show(spec.name)}: the {role} {show(column)} is among its features: remove it there"
            )


def check_parties(parties: Sequence[PartySpec]) -> None:
    """Check the parties of a feature split against each other."""
    _check_unique(parties)
    _check_label(parties)


def check_nodes(parties: Sequence[PartySpec]) -> None:
    """Check the parties of a sample split against each other: each holds rows with their labels."""
    _check_unique(parties)
    for party in parties:
        if party.label is None:
            raise InputError(
                f'party {show(party.name)} has no label: with split = "samples" each party has the labels of its own '
                "rows, so give label = its column"
            )


def _check_name(name: str, number: int) -> None:
    """Refuse a name that some file system would refuse, as each party gets a file of its name."""
    plain = re.fullmatch(r"\w([\w. -]*[\w-])?", name) and not _RESERVED.fullmatch(name)
    if not plain or len(name.encode("utf-8")) > 100:
        raise InputError(
            f"party {number}.name = {show(name)} is not allowed: it names a file, so use at most 100 "
            "letters, digits, spaces or . _ - and begin and end with a letter or digit"
        )


def _check_unique(parties: Sequence[PartySpec]) -> None:
    """Refuse two parties of one name, also where only a file system would take them for one."""
    seen: dict[str, str] = {}
    for party in parties:
        key = unicodedata.normalize("NFKC", party.name).casefold()
        if key in seen:
            raise InputError(f"two parties are named {show(seen[key])} and {show(party.name)}: give each its own name")
        seen[key] = party.name


def _check_label(parties: Sequence[PartySpec]) -> None:
    """Refuse all but one party with labels."""
    holders = [party.name for party in parties if party.label is not None]
    if not holders:
        names = listing(party.name for party in parties)
        raise InputError(f"no party has the label (parties: {names}): give one of them label = its column")
    if len(holders) > 1:
        raise InputError(f"parties {listing(holders)} both have a label: exactly one party may")
