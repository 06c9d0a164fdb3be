"""`tacit init`: a first job from files; of protected parties nothing but the names of columns gets into it."""

from __future__ import annotations

import csv
import datetime
import gzip
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.cli.main import main
from tacit.job import read_job, skeleton
from tacit.job.skeleton import SkeletonOptions, make_skeleton, party_names
from tacit.text import is_control

Rows = list[list[Any]]
CITIES = ("Basel", "Bern", 'Zü"rich')


def bank_rows() -> Rows:
    rows: Rows = [["customer", "age", "city", "vip", "code", "default"]]
    for i in range(60):
        city = "Genf" if i == 7 else CITIES[i % 3]
        rows.append([f"{i:04d}", "" if i == 5 else 20 + i, city, i % 2, i % 4, "yes" if i * 7 % 11 > 5 else "no"])
    return rows


def phone_rows() -> Rows:
    return [["customer", "calls", "the plan"], *([f"{i:04d}", i % 17 / 2, "abc"[i % 3]] for i in range(60))]


def write(path: Path, rows: Rows) -> Path:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bank.csv", bank_rows())
    write(tmp_path / "phone.csv", phone_rows())
    return tmp_path


def text_of(here: Path) -> str:
    return (here / "job.toml").read_text(encoding="utf-8")


# --- nobody is protected -----------------------------------------------------------------------------------


def test_a_job_that_trains_as_it_is(here: Path, tacit: Any) -> None:
    answer = tacit("init", "bank.csv", "phone.csv")
    assert answer.code == 0, answer.err
    assert 'job.toml: 2 parties; "bank" has the label "default"; the id is "customer"' in answer.out
    assert "check the label, which is a guess" in answer.out
    job = read_job(here / "job.toml")
    assert [(p.name, p.data, p.id, p.label, p.positive) for p in job.parties] == [
        ("bank", "bank.csv", "customer", "default", "yes"),
        ("phone", "phone.csv", "customer", None, None),
    ]
    assert job.privacy is None
    assert job.model.terms == "auto"
    assert {spec.name: spec.values for party in job.parties for spec in party.columns} == {
        "city": ("Basel", "Bern", 'Zü"rich'),
        "the plan": ("a", "b", "c"),
    }
    text = text_of(here)
    assert '# Proposed, as it has two values; also of two kinds: "vip" of bank. Is it the one?' in text
    assert "# age: numbers from 20 to 79, 1 blank" in text
    assert "# code: numbers from 0 to 3; if these 4 are codes: code" in text
    assert "# 1 rare text counts as other" in text
    assert "# [privacy]" in text
    assert "run tacit init again, with --epsilon 1" in text
    assert tacit("plan", "job.toml").code == 0
    assert tacit("train", "job.toml", "--quiet").code == 0


def test_a_label_that_is_a_number(here: Path, tacit: Any) -> None:
    assert tacit("init", "bank.csv", "phone.csv", "--label", "age", "--out", "ages.toml").code == 0
    job = read_job(here / "ages.toml")
    assert (job.name, job.model.loss, job.parties[0].positive) == ("ages", "squared", None)
    assert tacit("init", "bank.csv", "phone.csv", "--label", "vip").code == 0
    job = read_job(here / "job.toml")
    assert (job.model.loss, job.parties[0].positive) == ("logistic", 1)


def test_parties_that_hold_other_rows(here: Path, tacit: Any) -> None:
    for name, part in (("north", slice(1, 31)), ("east", slice(31, 61))):
        write(here / f"{name}.csv", [bank_rows()[0], *bank_rows()[part]])
    answer = tacit("init", "north.csv", "east.csv", "--split", "samples")
    assert 'each party has the label "default"' in answer.out
    job = read_job(here / "job.toml")
    assert job.graph is not None
    assert [(p.id, p.label, p.positive) for p in job.parties] == [
        ("customer", "default", "yes"), ("customer", "default", None)]  # fmt: skip
    assert "# age: numbers from 20 to 79, 1 blank" in text_of(here)  # of all rows
    assert job.parties[1].columns == ()
    assert tacit("plan", "job.toml").code == 0


def test_columns_that_cannot_be_used_or_that_not_all_have_are_left_out(here: Path, tacit: Any) -> None:
    day, times = datetime.date(2020, 1, 1), [[1], [2], [3]] * 20
    columns = {"key": list(range(60)), "since": [day] * 60, "parts": times, "y": [0, 1, 1] * 20}
    pyarrow.parquet.write_table(pa.table(columns), here / "shop.parquet")
    assert tacit("init", "shop.parquet").code == 0
    party = read_job(here / "job.toml").parties[0]
    assert (party.id, party.label, party.features) == ("key", "y", ("since",))
    assert party.columns[0].kind == "date"
    write(here / "more.csv", [[*row, "x" if i % 2 else "y"] for i, row in enumerate(bank_rows())])
    assert tacit("init", "bank.csv", "more.csv", "--split", "samples", "--label", "default", "--overwrite").code == 0
    first, second = read_job(here / "job.toml").parties
    assert first.features is None
    assert second.features == ("age", "city", "vip", "code")


def test_a_column_with_a_slip_is_left_to_its_owner(here: Path, tacit: Any, refused: Any) -> None:
    rows = bank_rows()
    write(
        here / "bank.csv",
        [[*rows[0], "pay"], *([*row, "n.a." if i == 3 else i * 10] for i, row in enumerate(rows[1:]))],
    )
    assert tacit("init", "bank.csv", "phone.csv", "--label", "default").code == 0
    assert "# pay is not ready: " in text_of(here)
    assert 'column "pay" holds numbers and "n.a." as text' in refused("plan", "job.toml")


# --- protected parties -------------------------------------------------------------------------------------


def changed(rows: Rows) -> list[tuple[str, Rows]]:
    """Neighbours of a file: one row is another, or there, or not."""
    one = [[*row] for row in rows]
    one[9] = ["x9", "no number", 'a "new"\nplan']
    blank = [[*row] for row in rows]
    blank[3] = ["", "", ""]
    return [("one", one), ("blank", blank), ("more", [*rows, ["z", 1e300, "NaN"]]), ("less", rows[:-1])]


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("words", [["--epsilon", "1"], ["--protect", "phone"]])
def test_neighbours_give_the_same_job_to_the_byte(here: Path, tacit: Any, ending: str, words: list[str]) -> None:
    path = here / f"phone.{ending}"
    (here / "phone.csv").unlink()
    found = set()
    for _, rows in [("as it is", phone_rows()), *changed(phone_rows())]:
        write(path, rows)
        answer = tacit("init", "bank.csv", path.name, "--label", "default", *words, "--overwrite")
        assert answer.code == 0, answer.err
        found.add((text_of(here), answer.out))
    assert len(found) == 1
    assert "# calls = { low = ?, high = ? }" in text_of(here)
    assert '# "the plan" = { low = ?, high = ? }' in text_of(here)


def test_the_same_of_everyone_and_of_other_rows(here: Path, tacit: Any) -> None:
    for words in (["--protect", "bank"], ["--split", "samples", "--epsilon", "0.5"]):
        found = set()
        for _, rows in [("as it is", phone_rows()), *changed(phone_rows())]:
            write(here / "bank.csv", rows)
            other = "phone.csv" if "samples" in words else "bank2.csv"
            write(here / "bank2.csv", [["customer", "w"], ["1", 2]])
            answer = tacit("init", "bank.csv", other, "--label", "the plan", *words, "--overwrite")
            assert answer.code == 0, answer.err
            found.add((text_of(here), answer.out))
        assert len(found) == 1


def test_of_a_parquet_file_the_types_are_known_and_no_rows(here: Path, tacit: Any) -> None:
    found = set()
    for last in ("red", 'b"l\nue'):
        columns = {
            "customer": ["a", "b"],
            "pay": [1.5, 2.5],
            "colour": ["red", last],
            "since": [datetime.date(2020, 1, 1)] * 2,
        }
        pyarrow.parquet.write_table(pa.table(columns), here / "shop.parquet")
        assert (
            tacit("init", "bank.csv", "shop.parquet", "--label", "default", "--epsilon", "1", "--overwrite").code == 0
        )
        found.add(text_of(here))
    assert len(found) == 1
    for line in ("# pay = { low = ?, high = ? }", "# colour = { values = [?] }", "# since = { low = ?, high = ? }"):
        assert line in text_of(here)


def test_without_protection_neighbours_are_told_apart(here: Path, tacit: Any) -> None:
    found = set()
    for _, rows in [("as it is", phone_rows()), *changed(phone_rows())]:
        write(here / "phone.csv", rows)
        tacit("init", "bank.csv", "phone.csv", "--label", "default", "--overwrite")
        found.add(text_of(here))
    assert len(found) > 2


@pytest.mark.parametrize(
    ("words", "read", "everyone"),
    [
        (["--epsilon", "1"], {"bank"}, False),
        (["--protect", "phone"], {"bank"}, False),
        (["--protect", "bank", "--epsilon", "3"], set(), True),
        (["--protect", "bank", "phone"], set(), True),
    ],
)
def test_rows_of_protected_parties_are_never_read(
    here: Path, tacit: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], read: set[str], everyone: bool
) -> None:
    seen: set[str] = set()
    plain: Callable[..., Any] = skeleton.read_table
    monkeypatch.setattr(skeleton, "read_table", lambda path, party, style: seen.add(party) or plain(path, party=party))
    assert tacit("init", "bank.csv", "phone.csv", "--label", "default", *words).code == 0
    assert seen == read
    job = read_job(here / "job.toml")
    assert job.privacy is not None
    assert job.privacy.epsilon == (3.0 if "3" in words else 1.0)
    assert job.protected == {"bank", "phone"} - read
    assert (job.privacy.protect == "everyone") is everyone


def test_two_parties_without_labels_are_both_protected(here: Path, tacit: Any) -> None:
    write(here / "shop.csv", [["customer", "spent"], ["0001", 3]])
    answer = tacit("init", "bank.csv", "phone.csv", "shop.csv", "--label", "default", "--protect", "shop")
    assert 'protected: "phone", "shop"; of their files only the names of columns were read' in answer.out
    assert "# calls = { low = ?, high = ? }" in text_of(here)


def test_the_job_does_not_run_before_ranges_are_filled_in(here: Path, tacit: Any, refused: Any) -> None:
    tacit("init", "bank.csv", "phone.csv", "--label", "default", "--epsilon", "1")
    line = refused("plan", "job.toml")
    assert 'party "phone": columns "calls", "the plan"' in line
    assert "low and high in [party.columns]" in line


def test_it_runs_with_what_was_asked_for(here: Path, tacit: Any) -> None:
    tacit("init", "bank.csv", "phone.csv", "--label", "default", "--epsilon", "1")
    text = text_of(here).replace("# calls = { low = ?, high = ? }", "calls = { low = 0, high = 10 }")
    text = text.replace('# "the plan" = { low = ?, high = ? }', '"the plan" = { values = ["a", "b", "c"] }')
    (here / "job.toml").write_text(text, encoding="utf-8")
    assert tacit("plan", "job.toml").code == 0


# --- any names ---------------------------------------------------------------------------------------------

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(ANY.filter(str.strip), min_size=1, max_size=5), st.lists(ANY, min_size=2, max_size=3), st.booleans())
def test_any_names_and_texts_give_valid_toml(tmp_path: Path, names: set[str], texts: list[str], private: bool) -> None:
    columns = sorted({*names, "x"} - {"the label", "the id"})
    values = {name: [texts[i % len(texts)] for i in range(24)] for name in columns}
    path = tmp_path / "a b.parquet"
    table = {"the id": list(range(24)), **values, "the label": ["no", "yes"] * 12}
    pyarrow.parquet.write_table(pa.table(table), path)
    made = make_skeleton([path], tmp_path / "job.toml", SkeletonOptions("the label", ["a b"] if private else []))
    document = tomllib.loads(made.text)
    kept = [name for name in columns if not any(map(is_control, name))]
    party = document["party"][0]
    assert (party["id"], party["label"]) == ("the id", "the label")
    assert set(party.get("columns", {})) <= set(kept)
    assert party.get("features", kept) == kept or len(kept) == len(columns)
    filled = re.sub(r"(?m)^# (.* = \{ )values = \[\?\]", r"\1buckets = 2", made.text)
    if private:
        assert set(tomllib.loads(filled)["party"][0]["columns"]) == set(kept)


def test_a_file_without_features_is_refused(here: Path, refused: Any) -> None:
    write(here / "phone.csv", [["customer", "two\nlines"], ["1", "2"]])
    assert 'party "phone": "phone.csv" has no column that a job can use' in refused("init", "bank.csv", "phone.csv")


def test_names_of_parties() -> None:
    paths = [Path(name) for name in ("a/Bank (1).csv", "b/bank (1).csv.gz", "x\n.parquet", "....csv", "north.csv")]
    assert party_names(paths) == ["Bank -1", "bank -1-2", "x", "party 4", "north"]


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "defualt"], 'no file has a column "defualt" (did you mean "default"?): check --label'),
        (["--label", "customer"], '"bank.csv", "phone.csv" all have a column "customer": remove it from all but one'),
        (["--protect", "phoen"], '--protect "phoen" is no party (did you mean "phone"?): they are "bank", "phone"'),
        (["--epsilon", "1"], "would read rows that are to be protected: give --label COLUMN"),
        (["--protect", "bank", "phone"], "would read rows that are to be protected: give --label COLUMN"),
        (["--epsilon", "0", "--label", "default"], '--epsilon "0" is not allowed: it must be a number above 0'),
        (["--split", "samples", "--label", "age"], '"phone.csv" has no column "age": each party needs its labels'),
        (["--split", "samples"], "no column has two different values, so none is proposed as label"),
        (["--out", "phone.csv"], "--out phone.csv is not allowed: end its name in .toml"),
        (["--out", "none/job.toml"], "cannot write none/job.toml: give --out a file in a directory that is there"),
        (["absent.csv"], 'party "absent": there is no file "absent.csv"'),
        (["rows.svm"], "is LIBSVM text, which has no names of columns: write its party into a job by hand"),
    ],
)
def test_refusals(here: Path, refused: Any, words: list[str], said: str) -> None:
    (here / "rows.svm").write_text("1 1:2\n")
    assert said in refused("init", "bank.csv", "phone.csv", *words)
    assert not (here / "job.toml").exists()


def test_the_label_of_the_only_party_that_is_not_protected_is_proposed(here: Path, tacit: Any) -> None:
    answer = tacit("init", "bank.csv", "phone.csv", "--protect", "phone")
    assert '"bank" has the label "default"' in answer.out


def test_a_job_that_is_there_is_kept(here: Path, refused: Any, tacit: Any) -> None:
    (here / "job.toml").write_text("mine")
    line = refused("init", "bank.csv", "phone.csv")
    assert "job.toml is there already: give --overwrite to replace it, or another --out" in line
    assert text_of(here) == "mine"
    assert tacit("init", "bank.csv", "phone.csv", "--overwrite").code == 0
    assert "[[party]]" in text_of(here)


def test_paths_start_from_the_job(here: Path) -> None:
    (here / "jobs").mkdir()
    assert main(["init", "bank.csv", str(here / "phone.csv"), "--out", "jobs/a.toml"]) == 0
    job = read_job(here / "jobs" / "a.toml")
    assert [party.data for party in job.parties] == ["../bank.csv", (here / "phone.csv").as_posix()]
