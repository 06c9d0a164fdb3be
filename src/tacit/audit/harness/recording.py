"""Whatever leaves in a run, as named values; and the comparison of two runs, value by value."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit.federation.protocol import ORIGINS
from tacit.files import open_arrays

CLOCKS = frozenset({"seconds", "at"})  # what whoever writes a file measures by his own clock
MESSAGES, MASKED = "message of ", "<u8"  # words under masks are unsigned
SHOWN = 60  # characters of a value in a report
MOST = 1000  # differences that are kept


@dataclass(frozen=True)
class Leaf:
    """One value: where it is in its message, what it is, and why it may leave, where the protocol says so."""

    path: str
    value: str | bytes
    origin: str = ""

    def show(self) -> str:
        """The value in a few characters."""
        text = self.value.hex() if isinstance(self.value, bytes) else self.value
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


NOTHING = Leaf("", "nothing")


@dataclass(frozen=True)
class Item:
    """One message, reply, line or file: the step it belongs to, its values, and how often processes died before."""

    step: str
    leaves: tuple[Leaf, ...]
    life: int = 0


@dataclass(frozen=True)
class Difference:
    """A value that tells two neighbours apart."""

    channel: str
    step: str
    path: str
    first: str
    second: str
    origin: str = ""

    def __str__(self) -> str:
        why = f" ({self.origin})" if self.origin else ""
        where = " ".join(part for part in (self.channel, self.step) if part)
        return f"{where}: {self.path or 'the whole'}{why} is {self.first} on one data set, {self.second} on the other"


@dataclass
class Recording:
    """What left in one run, by channel: from whom to whom, or which log, file or command."""

    channels: dict[str, list[Item]] = field(default_factory=dict)
    life: int = 0
    predicting: bool = False  # whether messages are scores, which no claim covers
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, channel: str, step: str, value: Any) -> None:
        """Take a value down as it is now."""
        item = Item(step, tuple(leaves(value)), self.life)
        with self.lock:
            self.channels.setdefault(channel, []).append(item)

    @property
    def steps(self) -> int:
        """How many messages, replies, lines and files there are."""
        return sum(len(items) for items in self.channels.values())


@dataclass
class Comparison:
    """How many values were compared, and which of them differ."""

    comparisons: int = 0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        """Together with another comparison."""
        self.comparisons += other.comparisons
        self.steps += other.steps
        self.differences += other.differences[: MOST - len(self.differences)]


def compare(first: Recording, second: Recording) -> Comparison:
    """Compare two runs: the same channels, as many items on each, and in each the same values, to the byte."""
    found = Comparison(steps=max(first.steps, second.steps))
    for channel in sorted(first.channels.keys() | second.channels.keys()):
        here, there = first.channels.get(channel, []), second.channels.get(channel, [])
        for one, other in zip(here, there, strict=False):
            _compare_items(channel, one, other, found)
        found.comparisons += 1
        if len(here) != len(there):
            left = (here if len(here) > len(there) else there)[min(len(here), len(there))]
            found.differences.append(Difference(channel, left.step, "the number", str(len(here)), str(len(there))))
    return found


def sent_twice(record: Recording) -> Comparison:
    """Compare messages that were sent again after a restart with those of the first time; masks are drawn anew."""
    found = Comparison()
    for channel, items in record.channels.items():
        if not channel.startswith(MESSAGES):
            continue
        first: dict[tuple[str, int], Item] = {}
        count: Counter[tuple[str, int]] = Counter()
        for item in items:
            count[item.step, item.life] += 1  # a step may have a message for each of several receivers
            before = first.setdefault((item.step, count[item.step, item.life]), item)
            if before.life < item.life and not any(MASKED in str(leaf.value) for leaf in item.leaves):
                _compare_items(f"{channel}, sent again", before, item, found)
    return found


def _compare_items(channel: str, first: Item, second: Item, found: Comparison) -> None:
    found.comparisons += 1
    if first.step != second.step:
        found.differences.append(Difference(channel, first.step, "the step", first.step, second.step))
        return
    here, there = ({leaf.path: leaf for leaf in item.leaves} for item in (first, second))
    for path in here | there:
        one, other = here.get(path), there.get(path)
        found.comparisons += 1
        if one is None or other is None or one.value != other.value:
            texts = _apart(one or NOTHING, other or NOTHING)
            origin = (one or other or NOTHING).origin
            found.differences.append(Difference(channel, first.step, path, *texts, origin))


def _apart(one: Leaf, other: Leaf) -> tuple[str, str]:
    """Two values in a few characters, long ones from where they differ."""
    if one.show() != other.show():
        return one.show(), other.show()
    texts = [leaf.value.hex() if isinstance(leaf.value, bytes) else leaf.value for leaf in (one, other)]
    at = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    return f"...{texts[0][at : at + SHOWN]}", f"...{texts[1][at : at + SHOWN]}"


# --- values --------------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "", origin: str = "") -> Iterator[Leaf]:
    """Every value inside a value, with its place; types and shapes of arrays are values, too."""
    if isinstance(value, np.ndarray):
        yield Leaf(f"{path}.type", f"{value.dtype.str} {value.shape}", origin)
        yield Leaf(path, np.ascontiguousarray(value).tobytes(), origin)
    elif isinstance(value, enum.Enum):
        yield Leaf(path, str(value), origin)
    elif isinstance(value, Mapping):
        yield from _inside(value.items(), path, origin)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield Leaf(f"{path}.type", type(value).__name__, origin)
        yield from _inside(((one.name, getattr(value, one.name)) for one in dataclasses.fields(value)), path, origin)
    elif hasattr(value, "__struct_fields__"):
        yield Leaf(f"{path}.type", type(value).__name__, origin)
        origins = origins_of(type(value))
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name), _join(path, name), origins.get(name, origin))
    elif isinstance(value, (list, tuple)):
        yield Leaf(f"{path}.length", str(len(value)), origin)
        yield from _inside(enumerate(value), path, origin)
    elif isinstance(value, bytes):
        yield Leaf(path, value, origin)
    else:
        yield Leaf(path, f"{type(value).__name__} {value!r}", origin)


def _inside(items: Any, path: str, origin: str) -> Iterator[Leaf]:
    for name, item in items:
        yield from leaves(item, _join(path, name), origin)


def _join(path: str, name: object) -> str:
    return ".".join(part for part in (path, str(name)) if part)


def origins_of(kind: type) -> dict[str, str]:
    """Why each field of a message may leave, where its type says so."""
    return {name: origin.name for name, origin in ORIGINS.get(kind, {}).items()}


# --- files ---------------------------------------------------------------------------------------------


def add_files(record: Recording, folder: Path, whose: str, skip: Any = lambda name: False) -> None:
    """Take down every file below a folder but those that `skip` leaves out, by its name; wall-clock times are left out.

    Files grow and are replaced in a run: what is compared is how they end.
    """
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            record.add(f"folder {name} of {whose}", "", "")
        elif path.is_file() and not skip(name):
            record.add(f"file {name} of {whose}", "", content_of(path))


def content_of(path: Path) -> Any:
    """A file as values: JSON and arrays by their parts, text by its lines, anything else by its bytes."""
    raw = path.read_bytes()
    if path.suffix == ".npz":
        with open_arrays(path) as file:
            return {name: file[name] for name in file.files}
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
    if path.suffix == ".json":
        return without_clocks(json.loads(text))
    if path.suffix == ".jsonl":
        return [without_clocks(json.loads(line)) for line in text.splitlines()]
    return text.splitlines()


def without_clocks(value: Any) -> Any:
    """The same without what a clock measured."""
    if isinstance(value, Mapping):
        return {key: without_clocks(item) for key, item in value.items() if key not in CLOCKS}
    if isinstance(value, list):
        return [without_clocks(item) for item in value]
    return "not a number" if isinstance(value, float) and math.isnan(value) else value
