"""Job files: the section [encode], and columns and positive of a party."""

from __future__ import annotations

import dataclasses
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.columns.spec import ColumnSpec, EncodeRules
from tacit.errors import InputError
from tacit.job import Job, PartySpec, read_job
from tacit.text import is_control
from tests.cli.test_private_jobs import FORMS

HEAD = """
[encode]
scale = "range"
rare = 3
most = 7
pairs = 5

[model]
terms = "spline"
"""
PARTY = """
[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "default"
positive = "yes"
"""
COLUMNS = """
[party.columns]
age = { low = 18, high = 90 }
city = { values = ["Bern", "Basel", 7, true, "Zu\u0308rich"] }
code = { kind = "category", buckets = 32, missing = true }
since = { low = 1970-01-02, high = 1971-01-01 }
"a.b c" = { kind = "category" }
free = {}
pay = { low = 0, high = 1e6, log = true, term = "spline" }
visits = { whole = true, term = "linear" }
"""
SPECS = (
    ColumnSpec("a.b c", kind="category"),
    ColumnSpec("age", low=18.0, high=90.0),
    ColumnSpec("city", values=("7", "Basel", "Bern", "Z\u00fcrich", "true")),
    ColumnSpec("code", kind="category", buckets=32, missing=True),
    ColumnSpec("free"),
    ColumnSpec("pay", low=0.0, high=1e6, log=True, term="spline"),
    ColumnSpec("since", kind="date", low=1.0, high=365.0),
    ColumnSpec("visits", whole=True, term="linear"),
)


def read(folder: Path, text: str) -> Job:
    (folder / "job.toml").write_text(text)
    return read_job(folder / "job.toml")


def test_every_key(tmp_path: Path) -> None:
    job = read(tmp_path, HEAD + PARTY + COLUMNS)
    assert job.encode == EncodeRules("range", 3, 7, "spline", 5)
    assert job.model.terms == "spline"
    assert job.parties[0].columns == SPECS
    assert job.parties[0].positive == "yes"
    assert job.parties[0].text_columns == ("a.b c", "city", "code")


def test_defaults(tmp_path: Path) -> None:
    job = read(tmp_path, PARTY)
    assert job.encode == EncodeRules(None, 10, 50, "linear", None, None)
    assert job.model.terms == "linear"
    assert job.parties[0].columns == ()


@pytest.mark.parametrize("head", ["", HEAD])
@pytest.mark.parametrize("columns", ["", COLUMNS])
def test_written_and_read_again(tmp_path: Path, head: str, columns: str) -> None:
    job = read(tmp_path, head + PARTY + columns)
    assert read(tmp_path, job.to_toml()) == dataclasses.replace(job, name="job")


SHOWN = st.characters(exclude_categories=["Cs"]).filter(lambda one: not is_control(one))
TEXT = st.text(SHOWN, min_size=1).filter(str.strip)
LIST = st.sets(TEXT.map(lambda text: unicodedata.normalize("NFC", text.strip())), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(TEXT, st.none() | st.integers(1, 2**20) | LIST, max_size=4), st.data())
def test_any_names_and_values_survive(
    tmp_path_factory: pytest.TempPathFactory, found: dict, data: st.DataObject
) -> None:
    specs = tuple(
        ColumnSpec(name, buckets=value) if isinstance(value, int)
        else ColumnSpec(name, values=tuple(sorted(value))) if value
        else ColumnSpec(name, low=-1.5, high=data.draw(st.floats(-1, 1e300)), missing=data.draw(st.booleans()))
        for name, value in sorted(found.items())
    )  # fmt: skip
    positive = data.draw(st.none() | TEXT | st.booleans() | st.integers(-(2**60), 2**60))
    party = PartySpec("a", "a.csv", "the id", "the label", None, positive, specs)
    job = Job("j", (party,), folder=tmp_path_factory.getbasetemp())
    if {"the id", "the label"} & set(found):
        return
    path = job.folder / "any.toml"
    path.write_text(job.to_toml(), encoding="utf-8")
    again = read_job(path)
    assert again == job
    assert type(again.parties[0].positive) is type(positive)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[encode]\nscale = "minmax"' + PARTY, 'encode.scale = "minmax" is not allowed: it must be one of "standard"'),
        ("[encode]\nrare = 0" + PARTY, "encode.rare = 0 is not allowed"),
        ("[encode]\nsacle = 1" + PARTY, 'unknown key "encode.sacle" (did you mean "scale"?)'),
        (PARTY + "columns = 3", "party 1.columns = 3 is not allowed: it must be a table of columns"),
        (PARTY + "columns = { age = 3 }", "party 1.columns.age = 3 is not allowed: write a table"),
        (PARTY + "columns = { age = { lwo = 3 } }", 'unknown key "party 1.columns.age.lwo" (did you mean "low"?)'),
        (PARTY + 'columns = { age = { low = "a" } }', 'party 1.columns.age.low = "a" is not allowed: it must'),
        (PARTY + "columns = { age = { low = nan, high = 1 } }", "columns.age.low = nan is not allowed"),
        (PARTY + "columns = { age = { low = 3 } }", 'column "age" has low alone: give both low and high'),
        (PARTY + "columns = { age = { low = 3, high = 3 } }", "low = 3 is not below high = 3"),
        (PARTY + "columns = { age = { low = 0, high = 5e-324 } }", "is not below high"),
        (PARTY + 'columns = { age = { kind = "category", low = 3, high = 4 } }', "low and high are for numbers"),
        (PARTY + 'columns = { age = { kind = "number", buckets = 4 } }', "buckets is for categories"),
        (PARTY + 'columns = { age = { values = ["a"], buckets = 4 } }', "has both values and buckets: keep one"),
        (PARTY + "columns = { age = { values = [] } }", "columns.age.values = [] is not allowed"),
        (PARTY + 'columns = { age = { values = ["a", "a"] } }', "none twice"),
        (PARTY + 'columns = { age = { values = [" "] } }', "is not allowed: it must be a list of categories"),
        (PARTY + "columns = { age = { buckets = 0 } }", "columns.age.buckets = 0 is not allowed"),
        (PARTY + 'columns = { age = { kind = "flag" } }', 'columns.age.kind = "flag" is not allowed'),
        (PARTY + "columns = { default = {} }", 'the label "default" is among its columns'),
        (PARTY + "columns = { customer = {} }", 'the id "customer" is among its columns'),
        ('[model]\nterms = "curves"' + PARTY, 'model.terms = "curves" is not allowed: it must be one of'),
        ("[encode]\npairs = 65" + PARTY, "encode.pairs = 65 is not allowed: it must be a whole number from 0 to 64"),
        ("[encode]\nnoise = 1" + PARTY, 'unknown key "encode.noise"'),
        ('[encode]\nterms = "spline"' + PARTY, 'unknown key "encode.terms"'),
        (PARTY + 'columns = { age = { term = "auto" } }', 'columns.age.term = "auto" is not allowed'),
        (PARTY + "columns = { age = { log = 1 } }", "columns.age.log = 1 is not allowed: it must be true or false"),
        (PARTY + "columns = { age = { log = true } }", 'column "age": log = true needs low and high'),
        (PARTY + 'columns = { age = { term = "spline", values = ["a"] } }', 'column "age": term is for numbers'),
        (PARTY + "columns = { age = { log = false, buckets = 3 } }", 'column "age": log is for numbers'),
        (PARTY + 'columns = { age = { whole = true, kind = "category" } }', 'column "age": whole is for numbers'),
        ('[job]\nmemory = "2GB"\n[model]\nterms = "spline"' + PARTY, 'memory does not go with terms = "spline"'),
        (PARTY.replace('"yes"', "[1]"), "positive = [1] is not allowed: it must be a label"),
        (PARTY + '[[party]]\nname = "b"\ndata = "b.csv"\npositive = 1', "positive = 1 and no label: remove it"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_curve_of_dates_and_a_plain_line_without_a_range_are_fine() -> None:
    assert ColumnSpec("since", kind="date", whole=True, term="spline").given_kind == "date"
    assert ColumnSpec("age", log=False).given_kind == ColumnSpec("age", term="linear").given_kind == "number"


@pytest.mark.parametrize("name", FORMS)
def test_whoever_has_a_claim_about_rows_is_protected(tmp_path: Path, name: str) -> None:
    from tacit.run.prepare import plan_job

    parties = PARTY + '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "customer"\n'
    job = read(tmp_path, f"[privacy]\n{FORMS[name]}\n{parties}")
    claims = plan_job(job, 120, (3, 4), 8 * 120 * 7).certificate().claims
    claimed = {claim.party for claim in claims if claim.unit in ("record", "column")}
    assert claimed <= job.protected
    assert job.protected == {
        "labels alone": set(),
        "others": {"shop"},
        "others and labels": {"shop"},
        "labels for the label holder": {"shop"},
        "refit": {"shop"},
        "by person": {"shop"},
    }.get(name, {"bank", "shop"})
    assert not dataclasses.replace(job, privacy=None).protected


def test_all_nodes_are_protected(tmp_path: Path) -> None:
    parties = PARTY + PARTY.replace('"bank"', '"shop"')
    head = '[job]\nsplit = "samples"\n[graph]\nkind = "ring"\n[privacy]\n'
    assert read(tmp_path, head + "epsilon = 1" + parties).protected == {"bank", "shop"}
    assert read(tmp_path, head + 'epsilon = "none"\nlabel_epsilon = 1' + parties).protected == set()
