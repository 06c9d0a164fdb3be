"""Runs between sites: every request and reply, and every file that is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import adapter, values
from tests.golden.fitting import Record
from tests.golden.jobs import NODES, UNSCALED, wards, write_csv

RUN = "run-00000001"
PARTIES = ("bank", "shop", "phone")
SEEDED = "[privacy]\nepsilon = 4\nnoise_seed = 3\n"


def parties(folder: Path) -> dict[str, Path]:
    """Three files of the same rows."""
    rng, files = np.random.RandomState(8), {}
    for number, name in enumerate(PARTIES):
        X = rng.normal(size=(44, 2)).round(6)[:40]
        table: dict[str, Any] = {f"{name}{j}": X[:, j] for j in range(2)}
        if number == 0:
            table["y"] = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
        files[name] = write_csv(folder / f"{name}.csv", table)
    return files


def star_job(*, top: str = "", more: str = "") -> str:
    """A job of three parties with different columns."""
    lines = [f'[job]\nname = "joint"\nengine = "flare"\n{top}\n{more}']
    lines += [f'[[party]]\nname = "{name}"\n' + ('label = "y"\n' if name == "bank" else "") for name in PARTIES]
    return "".join(lines)


def graph_job(*, top: str = "", more: str = "") -> str:
    """A job of three hospitals."""
    lines = [f'[job]\nname = "wards"\nengine = "flare"\nsplit = "samples"\n{top}\n[graph]\nkind = "ring"\n{more}']
    lines += [f'[[party]]\nname = "{name}"\nid = "patient"\nlabel = "ill"\n' for name in NODES]
    return "".join(lines)


def interrupted_star(text: str, at: int, folder: Path) -> Record:
    """A feature split that is broken off at a request, and goes on."""
    together = adapter.Sites(parties(folder), folder / "sites")
    together.train_until(text, RUN, at)
    return _record(together, [together.train(text, RUN)], folder)


def graph(text: str, folder: Path) -> Record:
    """A sample split."""
    wards(folder, (0, 1))
    together = adapter.Sites({name: folder / f"{name}.csv" for name in NODES}, folder / "sites")
    return _record(together, [together.train(text, RUN)], folder)


def _record(together: adapter.Sites, rounds: list[int], folder: Path) -> Record:
    exchanged = [_short(one) for one in together.exchanged()]
    return {"rounds": rounds, "exchanged": exchanged, "files": values.of_folder(folder / "sites", folder, 1500)}


def _short(one: dict[str, Any]) -> list[Any]:
    """Who asked whom, and for both directions the number of bytes, their digest and what they say."""
    both = [_said(one[way]) for way in ("request", "reply")]
    return [f"{one['caller']} asks {one['asked']}", *both]


def _said(way: dict[str, Any]) -> dict[str, Any]:
    version = adapter.versions()["tacit"]
    raw = way["raw"].replace(version.encode(), values.VERSION.encode())
    says = way["says"]
    if says["fields"].get("version") == version:
        says = {**says, "fields": {**says["fields"], "version": values.VERSION}}
    return {**values.plain(raw), "says": values.plain(says)}


CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "sites-features-broken": partial(
        interrupted_star, star_job(top="rounds = 3", more=SEEDED + 'mechanism = "shares"\n' + UNSCALED), 20
    ),
    "sites-samples-private": partial(graph, graph_job(top="rounds = 3", more=SEEDED + UNSCALED)),
}
NOISY = set(CONFIGURATIONS)
