"""A sample split between sites is the run of one process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import RunError
from tacit.federation.protocol import Numbers, Packet, Play, Put, Reason, Refused, Step
from tests.federation.loopback import Carried, Loopback, no_waiting_for_the_disk  # noqa: F401

NODES = 4


class KilledError(Exception):
    """A process died."""


def write_files(folder: Path, seed: int = 0) -> dict[str, Path]:
    rng = np.random.default_rng(seed)
    truth, files = rng.normal(size=3), {}
    for k in range(NODES):
        features = rng.normal(size=(40 + 10 * k, 3))
        labels = (features @ truth + rng.normal(size=len(features)) > 0).astype(int)
        path = files[f"node{k}"] = folder / f"node{k}.csv"
        lines = ["a,b,c,y"] + [",".join(map(repr, row)) for row in np.column_stack([features, labels]).tolist()]
        path.write_text("\n".join(lines) + "\n")
    return files


def job_text(
    files: dict[str, Path], engine: str, graph: str = "ring", extra: str = "", top: str = "", encode: str = ""
) -> str:
    lines = ["[job]", f'name = "joint"\nengine = "{engine}"\nsplit = "samples"', top]
    lines += [f"[encode]\nscale = 'none'\n{encode}"]
    lines += [f'[graph]\nkind = "{graph}"', extra]
    for name, path in files.items():
        lines += ["[[party]]", f'name = "{name}"\nlabel = "y"']
        lines += [] if engine == "flare" else [f'data = "{path}"']
        lines += [RANGES] if "spline" in extra else []
    return "\n".join(lines) + "\n"


def coef(folder: Path, name: str) -> np.ndarray:
    record = json.loads((folder / "model" / f"{name}.json").read_text())
    return np.array([*record["coef"], record["offset"]])


def trace(folder: Path) -> list[tuple]:
    rows = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    return [(row["round"], row["dual"], row["rho"], row["bytes_up"], row["epsilon"]) for row in rows]


PRIVATE = "[privacy]\nepsilon = 4\nnoise_seed = 3"
CURVES = '\n[model]\nterms = "spline"'
RANGES = "[party.columns]\n'[abc]' = { low = -2, high = 2 }"
CASES = {
    "plain": {"top": "rounds = 6"},
    "gaussian": {"extra": PRIVATE},  # 60 gradients
    "few gaussian rounds": {"extra": PRIVATE, "top": "rounds = 6"},  # 6 exact solves
    "masked star": {"graph": "star", "extra": PRIVATE, "top": "secure_aggregation = true"},
    "masked ring": {"extra": PRIVATE, "top": "secure_aggregation = true\nrounds = 2"},
    "dual": {"extra": f'{PRIVATE}\n[model]\nmethod = "dual"', "top": "rounds = 4"},
    "curves": {"extra": PRIVATE + CURVES, "encode": "pairs = 3"},
    "curves on a masked star": {
        "graph": "star",
        "extra": PRIVATE + CURVES,
        "top": "secure_aggregation = true",
        "encode": "pairs = 2",
    },
    "curves by dual": {
        "extra": f'{PRIVATE}{CURVES}\nmethod = "dual"',
        "top": "rounds = 4",
        "encode": "pairs = 2",
    },
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A case played in one process ("one") and between sites ("sites"), once for all tests that look at it."""

    @cache
    def play(case: str) -> Path:
        folder, parts = tmp_path_factory.mktemp("played"), CASES[case]
        files = write_files(folder)
        job = folder / "job.toml"
        job.write_text(job_text(files, "in-process", **parts))
        assert main(["train", str(job), "--out", str(folder / "one"), "--quiet"]) == 0
        Loopback(files, folder / "sites").run(job_text(files, "flare", **parts))
        return folder

    return play


@pytest.mark.parametrize("case", CASES)
def test_sites_train_the_models_of_one_process(played: Callable[[str], Path], case: str) -> None:
    place = played(case)
    for k in range(NODES):
        name = f"node{k}"
        folder = place / "sites" / name / "run-00000001"
        np.testing.assert_array_equal(coef(folder, name), coef(place / "one", name))
    assert trace(place / "sites" / "node0" / "run-00000001") == trace(place / "one")


def test_whoever_asks_gets_the_reply_to_its_own_request(tmp_path: Path) -> None:
    """Nodes send at once: another thread's message may arrive between a reply and its reading."""
    files = write_files(tmp_path)
    calm, loop = Loopback(files, tmp_path / "calm"), Loopback(files, tmp_path / "sites")
    text = job_text(files, "flare", **CASES["plain"])
    calm.run(text)
    other = next(one for one in calm.carried if isinstance(one.asked, Put))

    class Crowded(list[Carried]):
        def append(self, one: Carried) -> None:
            super().extend([one, other])

    loop.carried = Crowded()
    loop.run(text)
    assert rows_of(tmp_path / "sites") == rows_of(tmp_path / "calm")


def rows_of(folder: Path) -> list[tuple]:
    return trace(folder / "node0" / "run-00000001")


@pytest.mark.parametrize("parts", ["plain", "few gaussian rounds", "masked ring"])
def test_a_run_that_was_killed_anywhere_ends_with_the_same_models(tmp_path: Path, parts: str) -> None:
    files = write_files(tmp_path)
    few = {"top": "secure_aggregation = true\nrounds = 6"} if parts == "masked star" else {}
    text = job_text(files, "flare", **{**CASES[parts], **few})
    calm = Loopback(files, tmp_path / "calm")
    calm.run(text)
    total = len(calm.carried)
    for point in sorted({3, *np.linspace(9, total, 3, dtype=int).tolist()}):
        for where in ("disturb", "after"):
            loop, calls = Loopback(files, tmp_path / f"{point}-{where}"), count(1)

            def die(*_: object, calls: Iterator[int] = calls, point: int = point) -> None:
                if next(calls) == point:
                    raise KilledError

            setattr(loop, where, die)
            try:
                loop.run(text)
            except (KilledError, RunError):
                loop.restart()
                loop.run(text)
            for name in files:
                got = coef(tmp_path / f"{point}-{where}" / name / "run-00000001", name)
                wanted = coef(tmp_path / "calm" / name / "run-00000001", name)
                np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-13)


def test_messages_travel_along_edges_only_and_strangers_are_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    refused: list[Step] = []

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(request, Put) and not refused:
            opposite = f"node{(int(name[-1]) + 2) % NODES}"
            changed = {key: Numbers.of(one.array() + 1.0) for key, one in request.message.arrays.items()}
            second = Put(message=Packet(request.message.round, request.message.kind, changed))
            refused.append(loop.sites[name].handle(request, opposite))
            refused.append(loop.sites[name].handle(second, caller))
            refused.append(loop.sites[name].handle(Play(round=2), "node3"))

    loop.after = after
    loop.run(job_text(files, "flare", **CASES["plain"]))
    assert refused == [Refused(reason=why) for why in (Reason.NOT_NEIGHBOUR, Reason.SECOND, Reason.NOT_LEAD)]
    ring = {tuple(sorted((f"node{k}", f"node{(k + 1) % NODES}"))) for k in range(NODES)}
    assert {tuple(sorted((one.caller, one.name))) for one in loop.carried if isinstance(one.asked, Put)} == ring


@pytest.mark.parametrize("parts", ["plain", "gaussian"])
def test_every_node_predicts_at_home_with_what_it_has(
    played: Callable[[str], Path], parts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = played(parts)
    new = str(place / "node1.csv")
    capsys.readouterr()
    assert main(["predict", str(place / "one"), new]) == 0
    wanted = [float(line.split(",")[1]) for line in capsys.readouterr().out.splitlines()[1:]]
    for k in range(NODES):
        assert main(["predict", str(place / "sites" / f"node{k}" / "run-00000001"), new]) == 0
        got = [float(line.split(",")[1]) for line in capsys.readouterr().out.splitlines()[1:]]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=0.05)  # nodes agree as far as they came
