from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tacit.data.read import Table, read_table
from tacit.errors import InputError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def read(folder: Path, content: str | bytes, name: str = "bank.csv", **options: str) -> Table:
    return read_table(write(folder, name, content), party="bank", **options)


def refusal(folder: Path, content: str | bytes, name: str = "bank.csv") -> str:
    with pytest.raises(InputError) as caught:
        read(folder, content, name)
    return one_line(caught)


def one_line(caught: pytest.ExceptionInfo[InputError]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert '"bank"' in message
    return message


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
def test_csv_columns_keep_their_types(tmp_path: Path, name: str) -> None:
    table = read(tmp_path, "id,age,member,city\n7,30,true,Oslo\n8,41.5,false,Rome\n", name)
    assert table.columns == ("id", "age", "member", "city")
    assert table.n_rows == 2
    assert table.column("id").dtype == np.int64
    assert table.column("city").tolist() == ["Oslo", "Rome"]
    features = table.features(["member", "age"])
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, [[1, 30], [0, 41.5]])


def test_csv_id_column_keeps_leading_zeros(tmp_path: Path) -> None:
    table = read(tmp_path, "id,x\n007,1\n12345678901234567890123,2\n", id_column="id")
    assert table.column("id").tolist() == ["007", "12345678901234567890123"]


def test_csv_with_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    table = read(tmp_path, b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert table.columns == ("a", "b")


def test_csv_rows_of_many_thousand_columns(tmp_path: Path) -> None:
    width = 10_000
    header = ",".join(f"a_name_of_more_than_one_hundred_letters_{'x' * 70}_{i}" for i in range(width))
    table = read(tmp_path, header + "\n" + ",".join(["1.25"] * width) + "\n")
    assert len(table.columns) == width


def test_quoted_newline_stays_in_its_row(tmp_path: Path) -> None:
    table = read(tmp_path, 'a,b\n"1\n2",3\n"4",5\n')
    assert table.n_rows == 2


def test_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "day=3" / "bank.parquet"
    path.parent.mkdir()
    data = pa.table(
        {
            "id": pa.array(["a", "b"]),
            "small": pa.array([1, 2], pa.uint8()),
            "half": pa.array([0.5, 1.5], pa.float32()),
            "price": pa.array([1, 2]).cast(pa.decimal128(22, 2)),
            "kind": pa.array(["u", "v"]).dictionary_encode(),
            "__index_level_0__": [0, 1],
        }
    )
    pq.write_table(data, path)
    table = read_table(path, party="bank")
    assert table.columns == tuple(data.column_names)  # the folder's name is no column
    assert table.column("kind").tolist() == ["u", "v"]
    np.testing.assert_array_equal(table.features(["half", "small", "price"]), [[0.5, 1, 1], [1.5, 2, 2]])
    assert "__index_level_0__" not in table.default_features()


def test_large_whole_numbers_are_rounded_not_refused(tmp_path: Path) -> None:
    table = read(tmp_path, f"x\n{2**53 + 1}\n")
    assert table.features(["x"])[0, 0] == float(2**53)


@pytest.mark.parametrize("name", ["t.svm", "t.libsvm", "t.svm.gz"])
def test_libsvm_stays_sparse(tmp_path: Path, name: str) -> None:
    table = read(tmp_path, "+1 1:0.5 3:2\n-1 2:1\n", name)
    assert table.columns == ("1", "2", "3", "label")
    assert table.default_features() == ("1", "2", "3")
    assert table.column("label").tolist() == [1, -1]
    assert table.column("3").tolist() == [2, 0]
    features = table.features(["3", "1"])
    assert sp.issparse(features)
    assert features.format == "csr"
    np.testing.assert_array_equal(features.toarray(), [[2, 0.5], [0, 0]])


def test_libsvm_columns_above_the_file_are_zeros_when_asked(tmp_path: Path) -> None:
    table = read(tmp_path, "+1 1:0.5\n-1 2:1\n", "t.svm")
    with pytest.raises(InputError, match='no column "5"'):
        table.features(["1", "5"])
    padded = table.features(["1", "5"], absent_as_zero=True)
    np.testing.assert_array_equal(padded.toarray(), [[0.5, 0], [0, 0]])
    for wrong in ("x", "0", "-1", "01", "99999999"):
        with pytest.raises(InputError, match=f'no column "{wrong}"'):
            table.features([wrong], absent_as_zero=True)


def test_libsvm_label_is_no_feature(tmp_path: Path) -> None:
    table = read(tmp_path, "+1 1:0.5\n-1 2:1\n", "t.svm")
    with pytest.raises(InputError, match="cannot be a feature"):
        table.features(["1", "label"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows"),
        ("\n\n\n", "Empty CSV"),
        ("a,b\n1\n", "Expected 2 columns, got 1"),
        ("a,b,a\n1,2,3\n", 'more than one column "a": give each column its own name'),
        (",a\n0,1\n", "column 1 of"),
        ("a;b\n1;2\n", "looks separated by semicolons"),
        ("a\tb\n1\t2\n", "looks separated by tabs"),
        (b"\xff\xfea\x00,\x00b\x00\n\x00", "UTF-8"),
    ],
)
def test_csv_that_is_refused(tmp_path: Path, content: str | bytes, expected: str) -> None:
    assert expected in refusal(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("# only a remark\n", "has no rows"),
        ("hello world\n", "each line is a label"),
        ("1 0:1\n", "columns counted from 1"),
        ("1 2:1 1:1\n", "cannot read"),
        ("1 99999999:1\n", "column number 99999999"),
        ("1 1:x\n", "cannot read"),
    ],
)
def test_libsvm_that_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    assert expected in refusal(tmp_path, content, "bank.svm")


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    for name, content in (("bank.csv.gz", b"a,b\n1,2\n" * 50), ("bank.svm.gz", b"1 1:2\n" * 50)):
        whole = gzip.compress(content)
        for damaged in (whole[:-5], whole[:12], b"no archive", whole[:-8] + bytes(8)):
            path = tmp_path / name
            path.write_bytes(damaged)
            with pytest.raises(InputError, match="cannot read") as caught:
                read_table(path, party="bank")
            one_line(caught)


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bank.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:20], b"PAR1", b"a,b\n1,2\n"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="write the Parquet file again") as caught:
            read_table(path, party="bank")
        one_line(caught)


@pytest.mark.parametrize("name", ["exports", "exports.csv", "exports.parquet"])
def test_folders_are_called_so(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r'^party "bank": ".*" is a folder: give the file in it$'):
        read_table(tmp_path / name, party="bank")


def test_paths_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, expected in (
        ("none.csv", "there is no file"),
        ("folder.csv", "is a folder"),
        ("a\0b.csv", "no file"),
        ("a" * 5000 + ".csv", "cannot open"),
        ("bank.xls", "ends in .csv"),
        ("bank.parquet.gz", "ends in .csv"),
    ):
        with pytest.raises(InputError, match=expected) as caught:
            read_table(tmp_path / name, party="bank")
        one_line(caught)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("1\n2\nOslo\nRome", 'column "x" is not numeric, row 3 holds "Oslo": encode it'),
        ("2020-01-01\n2020-01-02", "row 1 holds 2020-01-01"),
        ("1\n\n3\n", "has 2 blank or non-finite values, the first in row 2 (blank or NaN)"),
        ("1\nnan\n3", "has 1 blank or non-finite value, the first in row 2"),
        ("1\n2\n-inf", "the first in row 3 (infinite)"),
        ("1e400\n2\n3", "the first in row 1 (infinite)"),
        ("\n\n", "the first in row 1 (blank or NaN)"),
        ("true\nmaybe", 'row 1 holds "true"'),
    ],
)
def test_columns_that_are_no_features(tmp_path: Path, column: str, expected: str) -> None:
    rows = "\n".join(f"k,{value}" for value in column.split("\n"))
    table = read(tmp_path, "key,x\n" + rows + "\n")
    with pytest.raises(InputError) as caught:
        table.features(["x"])
    message = one_line(caught)
    assert '"x"' in message
    assert expected in message


def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    table = read(tmp_path, b"x,y\n\xff\xfe,1\n")
    for use in (lambda: table.features(["x"]), lambda: table.column("x")):
        with pytest.raises(InputError, match="save the file as UTF-8"):
            use()


def test_parquet_columns_that_are_no_features(tmp_path: Path) -> None:
    path = tmp_path / "bank.parquet"
    far = pa.array([2**60], pa.timestamp("us"))
    pq.write_table(pa.table({"text": ["12"], "nested": [[1, 2]], "far": far, "none": pa.nulls(1)}), path)
    table = read_table(path, party="bank")
    expected = {"text": 'row 1 holds "12"', "nested": "not numeric", "far": "not numeric", "none": "blank"}
    for name, words in expected.items():
        with pytest.raises(InputError, match=words):
            table.features([name])


def test_sparse_values_that_are_refused(tmp_path: Path) -> None:
    table = read(tmp_path, "1 1:1\n1 2:nan\n-1 1:3 2:inf\n", "bank.svm")
    with pytest.raises(InputError) as caught:
        table.features(["1", "2"])
    assert 'column "2" has 2 blank or non-finite values, the first in row 2' in one_line(caught)
    assert table.features(["1"]).shape == (3, 1)


def test_absent_columns_are_named_with_the_nearest(tmp_path: Path) -> None:
    table = read(tmp_path, "age,city\n1,2\n")
    with pytest.raises(InputError, match=r'party "bank" has no column "agee" \(did you mean "age"\?\)'):
        table.features(["agee"])
    with pytest.raises(InputError, match='no columns "p", "q"'):
        table.require(["p", "q", "age"])


def test_real_files(real_data: Path) -> None:
    table = read_table(real_data / "a9a.svm.gz", party="bank")
    assert (table.n_rows, len(table.columns)) == (32561, 124)
    guest = read_table(real_data / "ionosphere_scale_hetero_guest.csv.gz", party="bank")
    with pytest.raises(InputError, match='column "x2" has 351 blank'):
        guest.features(guest.default_features(["sid", "label"]))
