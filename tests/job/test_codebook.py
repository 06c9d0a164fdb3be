"""A code book beside a job: what it says of which party's columns, what is refused, and that a job takes it along."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.main import main
from tacit.columns.spec import ColumnSpec
from tacit.data.load import load_training_data
from tacit.errors import InputError
from tacit.job import Job, read_job
from tacit.job.codebook import read_codebook
from tacit.job.file import parse_job

BOOK = """\
column,low,high,values,kind,term,log,whole,missing
age,17,90,,,spline,,TRUE,
income,0,1e6,,,,true,,false
since,2000-01-01,2030-01-01,,,,,,
city,,,Basel|Bern| Zürich ,,,,,true
"BILL, AMT*",-1e5,1.5,,number,,,,
nobody,0,1,,,,,,
"""
ENTRIES = (
    ColumnSpec("BILL, AMT*", low=-1e5, high=1.5, kind="number", optional=True),
    ColumnSpec("age", low=17.0, high=90.0, term="spline", whole=True, optional=True),
    ColumnSpec("city", values=("Basel", "Bern", "Zürich"), missing=True, optional=True),
    ColumnSpec("income", low=0.0, high=1e6, log=True, missing=False, optional=True),
    ColumnSpec("nobody", low=0.0, high=1.0, optional=True),
    ColumnSpec("since", low=10957.0, high=21915.0, kind="date", optional=True),
)
JOB = """
[encode]
rare = 1
codebook = "codes.csv"

[[party]]
name = "bank"
data = "bank.csv"
id = "age"
label = "default"

[[party]]
name = "shop"
data = "shop.csv"
id = "number"

[party.columns]
age = { low = 0, high = 200 }
"""


def written(folder: Path, book: str = BOOK, job: str = JOB) -> Job:
    (folder / "codes.csv").write_text(book, encoding="utf-8")
    (folder / "job.toml").write_text(job, encoding="utf-8")
    return read_job(folder / "job.toml")


def test_every_kind_of_entry(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(BOOK, encoding="utf-8")
    assert read_codebook(tmp_path / "codes.csv") == ENTRIES


@pytest.mark.parametrize("change", [
    lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n"), lambda text: text + "\n\n,,,,,,,,\n",
    lambda text: text.replace("age,17", " age , 17"), lambda text: text.replace("column,low", "column, low"),
])  # fmt: skip
def test_the_same_as_spreadsheets_write_it(tmp_path: Path, change: Any) -> None:
    (tmp_path / "codes.csv").write_bytes(change(BOOK).encode())
    assert read_codebook(tmp_path / "codes.csv") == ENTRIES


def test_it_holds_for_every_party_but_what_a_party_says_itself_comes_first(tmp_path: Path) -> None:
    job = written(tmp_path)
    assert job.encode.codebook == ENTRIES
    bank, shop = job.parties
    assert [spec.name for spec in bank.columns] == ["BILL, AMT*", "city", "income", "nobody", "since"]  # age is its id
    assert shop.columns[0] == ColumnSpec("age", low=0.0, high=200.0)
    assert [spec.name for spec in shop.columns if spec.optional] == ["BILL, AMT*", "city", "income", "nobody", "since"]


def test_columns_that_no_party_has_are_passed_over(tmp_path: Path) -> None:
    job = written(tmp_path)
    (tmp_path / "bank.csv").write_text('age,income,"BILL, AMT3",default\n1,5e5,3,a\n2,,2e9,b\n')
    (tmp_path / "shop.csv").write_text("number,age,city\n1,100,Bern\n2,0,\n")
    read = load_training_data(job.parties, tmp_path, job.encode, protected=("bank", "shop"))
    columns = {spec.name: encoding.encoder.names for spec in job.parties
               for encoding in [read.encodings[spec.name]]}  # fmt: skip
    assert columns["bank"] == ("BILL, AMT3", "income")
    assert columns["shop"] == ("age", "city=Basel", "city=Bern", "city=Zürich", "city=other", "city=missing")
    assert read.shards[0].features[:, 1].tolist() == [0.0, 0.0]  # the middle of 0 to 1e6, also for a blank
    assert read.shards[1].features[:, 0].tolist() == [0.0, -1.0]  # 100 in 0 to 200, which the party itself says


def test_a_job_takes_it_along(tmp_path: Path) -> None:
    job = written(tmp_path)
    (tmp_path / "codes.csv").unlink()
    text = job.to_toml()
    assert "codes.csv" not in text
    again = parse_job(text, "the job")
    assert (again.encode, again.parties) == (job.encode, job.parties)
    (tmp_path / "again.toml").write_text(text, encoding="utf-8")
    assert read_job(tmp_path / "again.toml") == dataclasses.replace(job, name="job")


def test_a_job_from_elsewhere_cannot_name_a_file_here(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(BOOK, encoding="utf-8")
    text = JOB.replace('"codes.csv"', f'"{tmp_path / "codes.csv"}"')
    with pytest.raises(InputError, match=r"names a file of whoever wrote the job: write a table instead"):
        parse_job(text, "the job")


def test_a_code_book_may_be_written_in_the_job(tmp_path: Path) -> None:
    inline = '\n[encode.codebook]\nage = { low = 0, high = 1 }\n"B*" = { buckets = 3 }\n'
    job = written(tmp_path, job=inline + JOB[JOB.index("[[party]]") :])
    assert job.parties[0].columns == (ColumnSpec("B*", buckets=3, optional=True),)
    with pytest.raises(InputError, match=r'unknown key "encode.codebook.age.lwo" \(did you mean "low"\?\)'):
        written(tmp_path, job=inline.replace("low", "lwo") + JOB[JOB.index("[[party]]") :])


HEAD = "column,low,high,values\n"


@pytest.mark.parametrize(
    ("book", "words"),
    [
        (HEAD + "a,0,1,\nb,3,2,\n", 'codes.csv line 3: column "b": low = 3 is not below high = 2'),
        (HEAD + "a,0,1,x|y\n", 'codes.csv line 2: column "a": low and high are for numbers'),
        (HEAD + "a,0,,\n", 'codes.csv line 2: column "a" has low alone'),
        (HEAD + "a,0,1,\n\na,0,2,\n", 'codes.csv line 4: column "a" is in line 2 already: keep one'),
        (HEAD + "a,zero,1,\n", 'codes.csv line 2: a.low = "zero" is not allowed: it must be a number'),
        (HEAD + "a,1_0,20,\n", 'codes.csv line 2: a.low = "1_0" is not allowed'),
        (HEAD + "a,-inf,20,\n", 'codes.csv line 2: a.low = "-inf" is not allowed'),
        (HEAD + "a,2026-02-30,2027-01-01,\n", 'codes.csv line 2: a.low = "2026-02-30" is not allowed'),
        (HEAD + 'a,,,"x|\n|y"\n', "codes.csv line 2: it has a control character"),
        (HEAD + "a,,,x||y\n", "codes.csv line 2: a.values = ['x', '', 'y'] is not allowed"),
        (HEAD + "a,,,x|x\n", "none twice"),
        (HEAD + "a,,,\n", 'codes.csv line 2: it says nothing of column "a"'),
        (HEAD + ",0,1,\n", "codes.csv line 2: it names no column"),
        (HEAD + "a,0,1\n", "codes.csv line 2: it has 3 cells, and the header 4"),
        (HEAD + "a,1,000,2,\n", "codes.csv line 2: it has 5 cells, and the header 4"),
        (HEAD + 'a,"0,1,\n', "codes.csv line 2: cannot read it as CSV"),
        (HEAD, 'the code book "codes.csv" has no entries'),
        ("", 'codes.csv line 1: the header has no "column"'),
        ("low,high\n0,1\n", 'codes.csv line 1: the header has no "column"'),
        ("colum,low\na,0\n", 'codes.csv line 1: unknown header "colum" (did you mean "column"?): allowed are "column"'),
        ("column;low;high\n", 'codes.csv line 1: unknown header "column;low;high"'),
        ("column,low,low\n", 'codes.csv line 1: the header has "low" twice'),
        ("column,log\na,maybe\n", 'codes.csv line 2: a.log = "maybe" is not allowed: it must be true or false'),
        ("column,buckets\na,1.5\n", "codes.csv line 2: a.buckets = 1.5 is not allowed"),
        ("column,kind\na,flag\n", 'codes.csv line 2: a.kind = "flag" is not allowed'),
        ("column,log\na,true\n", 'codes.csv line 2: column "a": log = true needs low and high'),
    ],
)
def test_refusals_name_the_line(tmp_path: Path, book: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path, book)
    assert str(caught.value).startswith("job.toml: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "codes.csv").write_bytes(b"column,low\xff\n")
    with pytest.raises(InputError, match="is not UTF-8 text: save it as UTF-8"):
        read_job(tmp_path / "job.toml")
    (tmp_path / "codes.csv").write_bytes(b"column\n" + b"x" * 2_000_000)
    with pytest.raises(InputError, match="is longer than 1,000,000 bytes"):
        read_job(tmp_path / "job.toml")
    (tmp_path / "codes.csv").unlink()
    with pytest.raises(InputError, match=r"cannot open the code book .*: check encode\.codebook"):
        read_job(tmp_path / "job.toml")
    for value in ('""', "3", "[]"):
        with pytest.raises(InputError, match=r"encode.codebook = .* is not allowed: it must be the path of a CSV file"):
            written(tmp_path, job=JOB.replace('"codes.csv"', value))


def test_memory_leaves_columns_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"memory takes columns as the files have them: remove encode\.codebook"):
        written(tmp_path, job='[job]\nmemory = "2GB"\n' + JOB)


def test_a_run_is_the_same_with_a_code_book_and_with_columns(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 7},{'no' if i % 7 < 3 + i % 2 else 'yes'}\n" for i in range(40))
    (tmp_path / "bank.csv").write_text("age,income,default\n" + rows)
    (tmp_path / "shop.csv").write_text("number,spent\n" + "".join(f"{i},{i % 5}\n" for i in range(40)))
    book = "column,low,high\nincome,0,10\nspent,0,5\nnobody,1,2\n"
    written(tmp_path, book, JOB.replace("age = { low = 0, high = 200 }", ""))
    exact = JOB.replace('codebook = "codes.csv"', "").replace(
        "age = { low = 0, high = 200 }", "spent = { low = 0, high = 5 }"
    )
    exact = exact.replace('label = "default"', 'label = "default"\n[party.columns]\nincome = { low = 0, high = 10 }')
    (tmp_path / "exact.toml").write_text(exact)
    for name in ("job", "exact"):
        assert main(["train", str(tmp_path / f"{name}.toml"), "--out", str(tmp_path / name), "--quiet"]) == 0
    from tacit import load

    assert load(tmp_path / "job").coef == load(tmp_path / "exact").coef
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "job"), "--quiet", "--resume"]) == 0
