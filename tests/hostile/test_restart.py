"""Runs that die and go on: with the same model, and never with the same coins on changed data."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import RunError
from tacit.federation.protocol import (
    Answer,
    Begin,
    Done,
    End,
    Forget,
    Keys,
    Open,
    Opened,
    Play,
    Prepare,
    Reason,
    Refused,
    Shape,
    Step,
)
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

RUN = "run-00000001"


class KilledError(Exception):
    """A process died."""


def kill_at(loop: Loopback, point: int, *, before: bool) -> None:
    """Break the network at one call, before it is handled or after; threads call at once, and one of them is it."""
    calls = count(1)

    def die(*_: object) -> None:
        if next(calls) == point:
            raise KilledError

    loop.disturb, loop.after = (die, lambda *_: None) if before else (lambda *_: None, die)


GRAPH = {
    "plain": {"top": "tol = 1e-2"},  # it finds out by itself that it is done
    "dual": {"extra": f'{graph.PRIVATE}\n[model]\nmethod = "dual"', "top": "rounds = 2"},
    "masked star": {"graph": "star", "extra": graph.PRIVATE, "top": "secure_aggregation = true\nrounds = 6"},
}


def rounds(folder: Path) -> int:
    return int(json.loads((folder / "node0" / RUN / "result.json").read_text())["rounds"])


@pytest.mark.parametrize(
    ("parts", "who"),
    [("plain", ()), ("plain", ("node0",)), ("dual", ("node2",)), ("masked star", ())],
    ids=["plain-all", "plain-lead", "dual-another", "masked star-all"],
)
def test_a_sample_split_that_dies_at_any_call_ends_with_the_same_model_and_rounds(
    tmp_path: Path, parts: str, who: tuple[str, ...]
) -> None:
    files = graph.write_files(tmp_path)
    text = graph.job_text(files, "flare", **GRAPH[parts])
    calm = Loopback(files, tmp_path / "calm")
    calm.run(text)
    last = max(i for i, one in enumerate(calm.carried) if isinstance(one.asked, Play))
    total = len(calm.carried)
    points = {True: (4, last // 2, *range(last, total + 1)), False: range(last - 3, total + 1)}
    for before, point in [(before, point) for before, crashes in points.items() for point in crashes]:
        folder = tmp_path / f"{point}-{before}"
        loop = Loopback(files, folder)
        kill_at(loop, point, before=before)
        try:
            loop.run(text)
        except (KilledError, RunError):  # a neighbour that cannot be reached stops the node that calls it
            loop.restart(*who)
            loop.run(text)
        assert rounds(folder) == rounds(tmp_path / "calm")
        for name in files:
            wanted = graph.coef(tmp_path / "calm" / name / RUN, name)
            got, slack = graph.coef(folder / name / RUN, name), 1e-13 if parts == "plain" else 0.0
            np.testing.assert_allclose(got, wanted, rtol=0, atol=slack)  # plain: a curvature is computed anew


@pytest.mark.parametrize("who", [(), ("node3",)], ids=["all", "another"])
def test_a_sum_under_masks_that_dies_at_any_step_on_its_way_begins_again_with_the_same_noise(
    tmp_path: Path, who: tuple[str, ...]
) -> None:
    """On a path of four nodes hidden parts are on their way for two rounds; other noise would give another model."""
    files = graph.write_files(tmp_path)
    edges = [["node0", "node1"], ["node1", "node2"], ["node2", "node3"]]
    text = graph.job_text(files, "flare", extra=graph.PRIVATE, top="secure_aggregation = true\nrounds = 1")
    text = text.replace('kind = "ring"', f"edges = {edges}")
    calm = Loopback(files, tmp_path / "calm")
    calm.run(text)
    asked = [one.asked for one in calm.carried]
    first = next(i for i, one in enumerate(asked) if isinstance(one, Play) and one.round == 2)
    last = next(i for i, one in enumerate(asked) if isinstance(one, Play) and one.round == 5)
    for point in range(first + bool(who), last, 5):
        folder = tmp_path / str(point)
        loop = Loopback(files, folder)
        kill_at(loop, point, before=bool(point % 2))
        try:
            loop.run(text)
        except (KilledError, RunError):
            loop.restart(*who)
            loop.run(text)
        assert rounds(folder) == rounds(tmp_path / "calm")
        for name in files:
            wanted, got = (graph.coef(one / name / RUN, name) for one in (tmp_path / "calm", folder))
            np.testing.assert_array_equal(got, wanted)


def stop_at(loop: Loopback, kind: type[Step], round_: int) -> None:
    def stop(caller: str, name: str, request: Step) -> None:
        number = request.message.round if isinstance(request, Answer) else getattr(request, "round", 0)
        if isinstance(request, kind) and number == round_:
            raise KilledError

    loop.disturb = stop


def flip_label(path: Path) -> None:
    """Change the label of the first row, the last column."""
    lines = path.read_text().splitlines()
    values = lines[1].split(",")
    values[-1] = repr(1.0 - float(values[-1]))
    path.write_text("\n".join([lines[0], ",".join(values), *lines[2:]]) + "\n")


STAR = {
    "label private": star.CASES["label private"],
    "labels and rows": {"extra": "[privacy]\nepsilon = 2\nlabel_epsilon = 1\n[encode]\nscale = 'none'"},
}


@pytest.mark.parametrize("parts", STAR)
def test_a_restarted_lead_does_not_repeat_its_coins_on_a_changed_label(tmp_path: Path, parts: str) -> None:
    """The same coins on two labels show the change with certainty: a changed file is refused before anything leaves."""
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare", **STAR[parts]).replace("noise_seed = 5", "")
    loop = Loopback(files, tmp_path / "sites")
    stop_at(loop, Answer, 1)
    with pytest.raises(KilledError):
        loop.run(text)
    loop.disturb = lambda *_: None
    flip_label(files["party0"])
    loop.restart()
    before = len(loop.carried)
    with pytest.raises(RunError, match="its data are not those that this run began with"):
        loop.run(text)
    assert not [one for one in loop.carried[before:] if isinstance(one.asked, Answer)]


@pytest.mark.parametrize("name", ["party0", "party1"])
def test_a_restarted_party_does_not_answer_from_a_changed_row(tmp_path: Path, name: str) -> None:
    files = star.write_files(tmp_path)
    text = star.job_text(files, "flare", **star.CASES["private shares"]).replace("noise_seed = 5\n", "")
    loop = Loopback(files, tmp_path / "sites")
    stop_at(loop, Answer, 2)
    with pytest.raises(KilledError):
        loop.run(text)
    loop.disturb = lambda *_: None
    lines = files[name].read_text().splitlines()
    values = lines[3].split(",")
    values[0] = repr(float(values[0]) + 1.0)
    files[name].write_text("\n".join([*lines[:3], ",".join(values), *lines[4:]]) + "\n")
    loop.restart()
    with pytest.raises(RunError, match=f"party '{name}': its data are not those that this run began with"):
        loop.run(text)


@pytest.mark.parametrize("round_", [1, 2])
def test_a_restarted_node_does_not_play_on_with_a_changed_row(tmp_path: Path, round_: int) -> None:
    files = graph.write_files(tmp_path)
    text = graph.job_text(files, "flare", **GRAPH["dual"]).replace("noise_seed = 3", "")
    loop = Loopback(files, tmp_path / "sites")
    stop_at(loop, Play, round_)
    with pytest.raises(KilledError):
        loop.run(text)
    loop.disturb = lambda *_: None
    flip_label(files["node2"])
    loop.restart()
    with pytest.raises(RunError, match="party 'node2': its data are not those that this run began with"):
        loop.run(text)


def test_the_fingerprint_of_the_data_goes_with_the_end_of_the_run(tmp_path: Path) -> None:
    files = graph.write_files(tmp_path)
    Loopback(files, tmp_path / "sites").run(graph.job_text(files, "flare", **GRAPH["plain"]))
    assert not list((tmp_path / "sites").glob("*/*/data.json"))
    files = star.write_files(tmp_path)
    Loopback(files, tmp_path / "stars").run(star.job_text(files, "flare"))
    assert not list((tmp_path / "stars").glob("*/*/data.json"))


@pytest.mark.parametrize("split", ["columns", "rows"])
def test_a_run_that_is_over_is_not_played_again(tmp_path: Path, split: str) -> None:
    """One consent and one part of the budget would give as many private fits, with fresh noise, as the lead likes."""
    kind = star if split == "columns" else graph
    files = kind.write_files(tmp_path)
    parts = "private" if split == "columns" else "few gaussian rounds"
    text = kind.job_text(files, "flare", **kind.CASES[parts])
    loop = Loopback(files, tmp_path / "sites")
    loop.run(text)
    lead, name, *_ = files
    model = (tmp_path / "sites" / name / RUN / "model" / f"{name}.json").read_bytes()
    for restarted in (False, True):
        if restarted:
            loop.restart()
        site = loop.sites[name]
        assert site.handle(Open(run=RUN, job=text, version=tacit.__version__), lead) == Opened()
        for request in (Prepare(), Shape(), Begin(rows=[1], columns=[1], plan=""), Play(round=1), End(), Keys()):
            assert site.handle(request, lead) == Refused(reason=Reason.OVER)
        assert site.handle(Forget(), lead) == Done()  # a lead that died before it heard of it asks again
    assert (tmp_path / "sites" / name / RUN / "model" / f"{name}.json").read_bytes() == model
    before = len(loop.carried)
    loop.run(text)  # the lead knows that its run is over
    assert {type(one.asked) for one in loop.carried[before:]} == {Open, Forget}


def test_a_journal_that_ends_before_what_has_left_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    """An older copy of a journal, put back: its noise would be drawn a second time, for other questions."""
    files = graph.write_files(tmp_path)
    text = graph.job_text(files, "flare", **graph.CASES["gaussian"]).replace("noise_seed = 3", "")
    gates = {name: star.Book(tmp_path / "books" / name / "ledger.json", name) for name in files}
    loop = Loopback(files, tmp_path / "sites", gates)
    stop_at(loop, Play, 2)
    with pytest.raises(KilledError):
        loop.run(text)
    journal, kept = tmp_path / "sites/node1" / RUN / "journal", tmp_path / "kept"
    shutil.copytree(journal, kept)
    loop.restart()
    stop_at(loop, Play, 3)
    with pytest.raises(KilledError):
        loop.run(text)
    released = gates["node1"].book().releases()
    shutil.rmtree(journal)
    shutil.copytree(kept, journal)
    loop.disturb = lambda *_: None
    loop.restart()
    with pytest.raises(RunError, match="party 'node1': it lost what it had written in this run: start a new run"):
        loop.run(text)
    assert gates["node1"].book().releases() == released
