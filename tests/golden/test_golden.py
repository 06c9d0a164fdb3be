"""Every configuration leaves what its record says.

The records guard a change of structure that must change nothing else: plans, certificates, messages, models, traces,
what is printed and what is written. Texts and structure are compared to the byte, floats to 1e-12 of their size (of an
array: of its root of squares).

A record holds a fingerprint of the machine that made it (processor, Python, numpy, scipy, numba, BLAS). On another
machine floats are compared to 1e-6, texts without the numbers in them, and these are not compared: digests, whole
numbers, the number of rounds of runs without noise, and values and sentences that noise went into (noise follows from
every bit of the message that is answered). Then only a part of what the records say is guarded: make them anew from the
commit before a change, with `python -m tests.golden.write`, to guard all of it.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tacit.mechanisms import MECHANISMS
from tacit.solvers import SOLVERS
from tests.golden.compare import Comparison
from tests.golden.play import CONFIGURATIONS, NOISY, RECORDS, differences, play, read

MOST_SHOWN = 20
ESTIMATORS = ("features-", "samples-")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_nothing_has_changed(name: str, tmp_path: Path) -> None:
    found = differences(name, play(name, tmp_path.resolve()))
    assert not found, "\n".join([f"{len(found)} differences from the record", *found[:MOST_SHOWN]])


def test_every_record_has_its_configuration() -> None:
    assert {path.stem for path in RECORDS.glob("*.json")} == set(CONFIGURATIONS)
    assert set(CONFIGURATIONS) >= NOISY


def test_every_solver_and_mechanism_has_a_record() -> None:
    """A new one comes with a configuration of its own; the solvers are those of the feature split."""
    plans = [read(name)["record"]["plan"][0]["record"] for name in CONFIGURATIONS if name.startswith(ESTIMATORS)]
    asked = [plan["privacy"] for plan in plans if plan["privacy"] is not None]
    assert {plan["method"] for plan in plans if plan["privacy"] is None} == {"none", *SOLVERS}
    assert {one.get("mechanism") or one["method"] for one in asked} == set(MECHANISMS)


def test_records_are_small_and_name_no_place() -> None:
    texts = [path.read_text(encoding="utf-8") for path in RECORDS.glob("*.json")]
    assert sum(map(len, texts)) < 600_000
    assert not [word for word in ("/home/", "/tmp/", "/root/", "/Users/") if any(word in text for text in texts)]


# --- a change is noticed ----------------------------------------------------------------------------------


def changed(name: str, *path: Any, to: Any) -> list[str]:
    """What the comparison says after one value was changed."""
    kept = read(name)["record"]
    found = copy.deepcopy(kept)
    place = found
    for step in path[:-1]:
        place = place[step]
    before = place.pop(path[-1]) if to is None else place[path[-1]]
    if to is not None:
        place[path[-1]] = to(before)
        assert repr(place[path[-1]]) != repr(before)
    return list(Comparison(here=True, noisy=False).differences(kept, found))


def test_the_same_is_the_same() -> None:
    kept = read("jobs-features")["record"]
    assert list(Comparison(here=True, noisy=False).differences(kept, copy.deepcopy(kept))) == []


@pytest.mark.parametrize(
    "path",
    [
        ("model", "intercept_", "values", 0),
        ("model", "coef_", "squares"),
        ("plan", 0, "record", "alpha"),
        ("trace", "columns", "objective", 1),
        ("transcript", 1, 1, "share", "some", 0),
    ],
)
def test_a_changed_float_is_noticed(path: tuple[Any, ...]) -> None:
    said = changed("features-memory-logistic", *path, to=lambda value: value * (1 + 1e-10))
    assert len(said) == 1, said
    assert changed("features-memory-logistic", *path, to=lambda value: value * (1 + 4e-16) + 1e-300) == []


def test_a_changed_text_is_noticed() -> None:
    path = ("printed", "plan", "out", "lines", 0)
    assert len(changed("jobs-features", *path, to=lambda line: line.replace("credit", "Credit"))) == 1
    told = ("certificate", "json", "does_not_cover", 0)
    assert changed("jobs-features", "files", "certificate.json", *told[1:], to=lambda line: line + ".")


def test_a_missing_or_new_file_is_noticed() -> None:
    assert changed("jobs-features", "files", "trace.jsonl", to=None) == ["files: without trace.jsonl"]
    kept = read("jobs-features")["record"]
    found = {**kept, "files": {**kept["files"], "more.txt": {"lines": []}}}
    assert list(Comparison(here=True, noisy=False).differences(kept, found)) == ["files: with more.txt"]


def test_a_changed_kind_name_or_order_is_noticed() -> None:
    head = ("transcript", 0, 0)
    assert changed(
        "features-memory-logistic", *head, to=lambda line: line.replace("step", "stop").replace("start", "st")
    )
    assert changed("features-memory-logistic", "model", "n_rounds_", to=float)
    kept = read("features-memory-logistic")["record"]
    turned = {**kept, "model": dict(reversed(kept["model"].items()))}
    assert list(Comparison(here=True, noisy=False).differences(kept, turned)) == ["model: in another order"]


def test_another_machine_may_round_otherwise() -> None:
    kept = read("features-memory-logistic")["record"]
    found = copy.deepcopy(kept)
    found["model"]["coef_"]["squares"] *= 1 + 1e-9
    found["transcript"].pop()
    there = Comparison(here=False, noisy=False)
    assert list(there.differences(kept, found)) == []
    found["model"]["coef_"]["squares"] *= 1 + 1e-4
    assert len(list(there.differences(kept, found))) == 1


def test_another_machine_may_draw_other_noise() -> None:
    kept = read("jobs-features-curves-private")["record"]
    found = copy.deepcopy(kept)
    found["printed"]["train"]["out"]["lines"][0] = "verdict    with other words"
    found["printed"]["train"]["out"]["lines"].pop()
    there = Comparison(here=False, noisy=True)
    assert list(there.differences(kept, found)) == []
    assert list(Comparison(here=False, noisy=False).differences(kept, found))
    found["files"]["certificate.json"]["json"]["does_not_cover"][0] += "."
    assert len(list(there.differences(kept, found))) == 1
