"""A bench that goes on: what was measured with the same code is not measured again."""

from __future__ import annotations

import json

from bench.kept import Kept, code_of

FIT = {"set": "adult", "run": 0}


class Counted:
    """A measurement that gives another result each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, float]:
        self.calls += 1
        return {"loss": float(self.calls)}


def test_a_fit_is_measured_once_for_each_code(tmp_path):
    path, measure = tmp_path / "kept.jsonl", Counted()
    assert Kept(path).result(FIT, "a", measure) == {"loss": 1.0}
    assert Kept(path).result(FIT, "a", measure) == {"loss": 1.0}
    assert Kept(path).result(FIT, "b", measure) == {"loss": 2.0}
    assert Kept(path).result({**FIT, "run": 1}, "a", measure) == {"loss": 3.0}
    assert measure.calls == 3


def test_a_line_that_was_written_half_is_measured_again(tmp_path):
    path, measure = tmp_path / "kept.jsonl", Counted()
    for code in ("a", "b"):
        Kept(path).result(FIT, code, measure)
    path.write_text(path.read_text()[:-5])
    kept = Kept(path)
    assert kept.result(FIT, "a", measure) == {"loss": 1.0}
    assert kept.result(FIT, "b", measure) == {"loss": 3.0}
    assert [json.loads(line)["result"]["loss"] for line in path.read_text().splitlines()] == [1.0, 3.0]


def test_without_a_file_nothing_is_written(tmp_path):
    measure = Counted()
    Kept().result(FIT, "a", measure)
    Kept().result(FIT, "a", measure)
    assert measure.calls == 2
    assert not list(tmp_path.iterdir())


def test_the_code_is_what_files_and_libraries_are(tmp_path):
    path = tmp_path / "fit.py"
    path.write_text("alpha = 1\n")
    before = code_of([path], "1.0")
    assert code_of([path], "1.0") == before
    assert code_of([path], "1.1") != before
    path.write_text("alpha = 2\n")
    assert code_of([path], "1.0") != before
