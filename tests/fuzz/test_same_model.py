"""What does not change the data does not change the model; what does, is seen or refused."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest

from tacit.job import read_job
from tacit.run.prepare import encode_job_data, match_job_files
from tests.fuzz.runs import check_refusal, job_text, tacit, write_tables

Cells = list[list[str]]
FILES = ("bank.csv", "shop.csv")


def job_data(path: Path) -> Any:
    job = read_job(path)
    return encode_job_data(job, match_job_files(job))


def cells(content: bytes) -> Cells:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def written(rows: Cells, *, end: str = "\n", quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator=end, quoting=quoting).writerows(rows)
    return buffer.getvalue().encode()


def shuffled_rows(content: bytes) -> bytes:
    header, *rows = cells(content)
    Random(3).shuffle(rows)
    return written([header, *rows])


def shuffled_columns(content: bytes) -> bytes:
    rows = cells(content)
    order = list(range(len(rows[0])))
    Random(4).shuffle(order)
    return written([[row[place] for place in order] for row in rows])


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "row order": shuffled_rows,
    "column order": shuffled_columns,
    "all cells quoted": lambda content: written(cells(content), quoting=csv.QUOTE_ALL),
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "CR": lambda content: content.replace(b"\n", b"\r"),
    "no last newline": lambda content: content.rstrip(b"\n"),
    "blank lines": lambda content: content.replace(b"\n", b"\n\n"),
    "BOM": lambda content: b"\xef\xbb\xbf" + content,
    "BOM, quotes and CRLF": lambda content: (
        b"\xef\xbb\xbf" + written(cells(content), end="\r\n", quoting=csv.QUOTE_ALL)
    ),
    "blanks around text": lambda content: content.replace(b"Bern", b"  Bern ").replace(b"c07", b" c07"),
    "decomposed letters": lambda content: content.replace("ü".encode(), "u\u0308".encode()),
}


def write(folder: Path, kind: str) -> None:
    write_tables(folder, kind)
    (folder / "job.toml").write_text(job_text(kind))


def model_of(folder: Path) -> dict[str, Any]:
    answer = tacit("train", folder / "job.toml", "--out", folder / "run", "--quiet")
    assert answer.code == 0, answer
    return {path.name: json.loads(path.read_bytes()) for path in sorted((folder / "run" / "model").iterdir())}


@cache
def original(kind: str) -> dict[str, Any]:
    folder = Path(mkdtemp())
    write(folder, kind)
    return model_of(folder)


@pytest.mark.parametrize("kind", ["features", "private"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_model_is_the_same(change: str, kind: str, tmp_path: Path) -> None:
    write(tmp_path, kind)
    for name in FILES:
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(CHANGES[change](content))
    assert model_of(tmp_path) == original(kind)


@pytest.mark.parametrize("kind", ["features", "private"])
def test_the_model_of_zipped_files_is_the_same(kind: str, tmp_path: Path) -> None:
    write(tmp_path, kind)
    for name in FILES:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
        (tmp_path / name).unlink()
    (tmp_path / "job.toml").write_text(job_text(kind).replace(".csv", ".csv.gz"))
    assert model_of(tmp_path) == original(kind)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["again", "with a space", "cut"])
def test_a_repeated_row_and_a_cut_zip_are_refused(name: str, how: str, tmp_path: Path) -> None:
    write(tmp_path, "features")
    content = (tmp_path / name).read_bytes()
    last = content.rstrip(b"\n").split(b"\n")[-1]
    if how == "cut":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content)[:-9])
        (tmp_path / "job.toml").write_text(job_text("features").replace(f'"{name}"', f'"{name}.gz"'))
    else:
        (tmp_path / name).write_bytes(content + (b" " if how == "with a space" else b"") + last + b"\n")
    answer = tacit("train", tmp_path / "job.toml", "--out", tmp_path / "run", "--quiet")
    check_refusal(answer)
    assert answer.code == 2
    assert ("cannot read" if how == "cut" else "repeated id") in answer.err


@pytest.mark.parametrize("row", range(0, 40, 3))
def test_a_changed_label_is_counted(row: int, tmp_path: Path) -> None:
    write(tmp_path, "features")
    before = Counter(job_data(tmp_path / "job.toml").labels.tolist())
    rows = cells((tmp_path / "bank.csv").read_bytes())
    old = rows[row + 1][-1]
    new = rows[row + 1][-1] = {"yes": "no", "no": "yes"}[old]
    (tmp_path / "bank.csv").write_bytes(written(rows))
    after = Counter(job_data(tmp_path / "job.toml").labels.tolist())
    assert after == before - Counter([old]) + Counter([new])


@pytest.mark.parametrize("label", ["yes ", " yes", "\tno"])
def test_labels_that_differ_by_blanks_alone_are_no_two_classes(label: str, tmp_path: Path) -> None:
    write(tmp_path, "features")
    rows = cells((tmp_path / "bank.csv").read_bytes())
    for number, row in enumerate(rows[1:]):
        row[-1] = label if number % 2 else label.strip()
    (tmp_path / "bank.csv").write_bytes(written(rows))
    answer = tacit("train", tmp_path / "job.toml", "--out", tmp_path / "run", "--quiet")
    assert answer.code == 2, answer
    assert "one class only" in answer.err
