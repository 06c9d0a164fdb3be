"""Rows that a CSV reader could lose in silence: a quote that stays open, blank lines in a file of one column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tacit.data.read import read_table
from tacit.errors import InputError


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    "content",
    [b'id,a\n1,x\n2,"y\n3,z\n4,w\n', b'id,a\n1,2\n3,"4', b'id,a\n1,2\n3,"', b'id,a\n1,"x""\n2,y\n', b'"a"\n1\n"2\n3\n'],
)
def test_a_quote_that_stays_open_is_refused(content: bytes, zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.csv.gz" if zipped else "a.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(InputError, match="a quote is not closed"):
        read_table(path, party="p")


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_closed_quotes_are_read_whole(end: bytes, zipped: bool, tmp_path: Path) -> None:
    content = b'id,a\n"1","x\ny, ""z"""\n2,5" pipe\n3,"w"' + end
    path = tmp_path / ("a.csv.gz" if zipped else "a.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    table = read_table(path, party="p", id_column="id")
    assert table.column("id").tolist() == ["1", "2", "3"]
    assert table.column("a").tolist() == ['x\ny, "z"', '5" pipe', "w"]


def test_a_quoted_header_over_two_lines_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,"a\nb, c",d\n1,2,3\n')
    assert read_table(tmp_path / "a.csv", party="p").columns == ("id", "a\nb, c", "d")


def test_a_blank_line_in_one_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\n1\n\n3\n")
    with pytest.raises(InputError, match="blank line"):
        read_table(tmp_path / "a.csv", party="p")


@pytest.mark.parametrize(("content", "values"), [(b"\na\n1\n3\n\n\n", [1, 3]), (b'a\n1\n""\n', [1, None])])
def test_blank_lines_around_one_column_are_no_rows(content: bytes, values: list[object], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert read_table(tmp_path / "a.csv", party="p").arrow("a").to_pylist() == values


def test_a_cell_of_spaces_is_blank_and_makes_no_number_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b,c\n1,x,2\n ,  ,\t\n3,y,   \n")
    table = read_table(tmp_path / "a.csv", party="p")
    assert table.arrow("a").to_pylist() == [1, None, 3]
    assert table.arrow("b").to_pylist() == ["x", "  ", "y"]
    assert table.arrow("c").to_pylist() == [2, None, None]
