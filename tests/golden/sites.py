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

RUN, PREDICTION = "run-00000001", "predict-00000001"
PARTIES = ("bank", "shop", "phone")
CURVES = '[model]\nterms = "spline"\n'
SEEDED = "[privacy]\nepsilon = 4\nnoise_seed = 3\n"


def parties(folder: Path, *, ids: bool) -> dict[str, Path]:
    """Three files of the same rows, or with ids of which most are common."""
    rng, files = np.random.RandomState(8), {}
    for number, name in enumerate(PARTIES):
        own = rng.permutation(44)[:40] if ids else np.arange(40)
        X = rng.normal(size=(44, 2)).round(6)[own]
        table: dict[str, Any] = {"customer": [f"c{i}" for i in own]} if ids else {}
        table |= {f"{name}{j}": X[:, j] for j in range(2)}
        if number == 0:
            table["y"] = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
        files[name] = write_csv(folder / f"{name}.csv", table)
    return files


def star_job(*, top: str = "", more: str = "", ids: bool = False, curves: bool = False) -> str:
    """A job of three parties with other columns, in ranges where these are curves."""
    ranges = "[party.columns]\n'*' = { low = -2, high = 2 }\n" if curves else ""
    lines = [f'[job]\nname = "joint"\nengine = "flare"\n{top}\n{more}']
    for name in PARTIES:
        lines.append(f'[[party]]\nname = "{name}"\n' + ('id = "customer"\n' if ids else ""))
        lines.append(('label = "y"\n' if name == "bank" else "") + ranges)
    return "".join(lines)


def graph_job(*, top: str = "", more: str = "", kind: str = "ring") -> str:
    """A job of three hospitals."""
    lines = [f'[job]\nname = "wards"\nengine = "flare"\nsplit = "samples"\n{top}\n[graph]\nkind = "{kind}"\n{more}']
    ranges = "[party.columns]\n'*' = { low = -2, high = 2 }\n" if CURVES in more else ""
    lines += [f'[[party]]\nname = "{name}"\nid = "patient"\nlabel = "ill"\n{ranges}' for name in NODES]
    return "".join(lines)


def star(text: str, ids: bool, predict: bool, broken_at: int, folder: Path) -> Record:
    """A feature split, perhaps broken off and gone on with, perhaps with a joint prediction."""
    files = parties(folder, ids=ids)
    together = adapter.Sites(files, folder / "sites")
    if broken_at:
        together.train_until(text, RUN, broken_at)
    rounds = [together.train(text, RUN)]
    if predict:
        rounds.append(together.predict(RUN, PARTIES, PREDICTION))
    return _record(together, rounds, folder)


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
    "sites-features": partial(star, star_job(top="rounds = 4"), False, False, 0),
    "sites-features-masks": partial(star, star_job(top="rounds = 2\nsecure_aggregation = true"), False, False, 0),
    "sites-features-private": partial(star, star_job(more=SEEDED + UNSCALED), False, False, 0),
    "sites-features-broken": partial(
        star, star_job(top="rounds = 3", more=SEEDED + 'mechanism = "shares"\n' + UNSCALED), False, False, 20
    ),
    "sites-features-curves-private": partial(star, star_job(more=CURVES + SEEDED, curves=True), False, False, 0),
    "sites-samples-curves-private": partial(
        graph, graph_job(top="rounds = 3", more=CURVES + SEEDED + "[encode]\npairs = 2\n")
    ),
    "sites-matched-and-predicted": partial(star, star_job(top="rounds = 2", ids=True), True, True, 0),
    "sites-samples": partial(graph, graph_job(top="rounds = 3", more=UNSCALED)),
    "sites-samples-private": partial(graph, graph_job(top="rounds = 3", more=SEEDED + UNSCALED)),
    "sites-samples-masked-star": partial(
        graph, graph_job(top="rounds = 2\nsecure_aggregation = true", more=SEEDED + UNSCALED, kind="star")
    ),
}
NOISY = {name for name in CONFIGURATIONS if name.endswith(("private", "broken", "masked-star"))}
