"""Play a configuration, and read and write its record."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.golden import adapter, features, jobs, samples, sites
from tests.golden.compare import Comparison
from tests.golden.fitting import Record
from tests.golden.machine import fingerprint

RECORDS = Path(__file__).parent / "records"
PARTS = (features, samples, jobs, sites)
CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    name: one for part in PARTS for name, one in part.CONFIGURATIONS.items()
}
NOISY = frozenset(name for part in PARTS for name in part.NOISY)
WIDTH = 400


def play(name: str, folder: Path) -> Record:
    """What a configuration leaves, in a folder that is empty."""
    with _inside(folder), adapter.repeatable():
        found = CONFIGURATIONS[name](folder)
    result: Record = json.loads(json.dumps(found, allow_nan=False))
    return result


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, so that paths are short and the same."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def differences(name: str, found: Record) -> list[str]:
    """What is different from the record."""
    kept = read(name)
    how = Comparison(here=kept["machine"] == fingerprint(), noisy=name in NOISY)
    return list(how.differences(kept["record"], found))


def read(name: str) -> dict[str, Any]:
    """The record of a configuration."""
    kept: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return kept


def write(name: str, found: Record) -> None:
    """Keep a record, with the machine that it was made on."""
    text = _lines({"machine": fingerprint(), "record": found})
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _lines(value: Any, indent: str = "") -> str:
    """JSON with one line for whatever fits into one."""
    short = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(short) + len(indent) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return short
    more = indent + " "
    if isinstance(value, dict):
        items = [f"{more}{json.dumps(key, ensure_ascii=False)}: {_lines(item, more)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    return "[\n" + ",\n".join(more + _lines(item, more) for item in value) + f"\n{indent}]"
