"""Public sizes of files: those of the table that training reads, for every kind of file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tacit.columns.spec import EncodeRules
from tacit.data import sizes
from tacit.data.load import PartySpec, load_training_data
from tacit.data.sizes import PublicSize, public_size
from tacit.errors import InputError

CSV = 'k,"a, b",c,y\n1,2,"3",0\n2,"5",6,1\n3,7,8,0\n'


def write(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".csv"):
        path.write_text(CSV)
    elif name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(CSV.encode()))
    elif name.endswith(".parquet"):
        table = pa.table({"k": [1, 2, 3], "a, b": [2, 5, 7], "c": [3, 6, 8], "y": [0, 1, 0]})
        pyarrow.parquet.write_table(table, path)
    else:
        path.write_text("0 1:2 2:3\n1 2:1\n0 1:4\n")
    return path


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.parquet", "d.svm"])
def test_sizes_are_those_of_training(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    spec = PartySpec("a", name, None, "label", width=2) if name == "d.svm" else PartySpec("a", name, "k", "y")
    shard = load_training_data([spec], tmp_path).shards[0]
    assert public_size(spec, [spec], tmp_path) == PublicSize(*shard.features.shape) == PublicSize(3, 2)


def test_line_breaks_in_quotes_are_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BLOCK", 64)  # so that a break may fall between two blocks
    (tmp_path / "d.csv").write_text("note,x,y\n" + '"one\ntwo, three",1,0\n' * 50)
    spec = PartySpec("a", "d.csv", None, "y", ("x",))
    assert public_size(spec, [spec], tmp_path) == PublicSize(50, 1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d.csv", b"", "is empty"),
        ("d.csv", b"a,b\n1,2,3\n", "cannot read"),
        ("d.csv.gz", b"no gzip", "cannot read"),
        ("d.parquet", b"PAR1 no parquet", "write the Parquet file again"),
        ("d.svm", b"0 x:y\n", "cannot read"),
        ("d.txt", b"a", "is not known"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    spec = PartySpec("a", name, None, "y", width=3)
    with pytest.raises(InputError, match='party "a"') as caught:
        public_size(spec, [spec], tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "d.csv")
    spec = PartySpec("a", "d.csv", "key", "y")
    with pytest.raises(InputError, match='has no column "key"'):
        public_size(spec, [spec], tmp_path)


def test_dates_of_a_protected_party_are_refused_by_their_type(tmp_path: Path) -> None:
    days = pa.array([18000, 19000], pa.date32())
    pyarrow.parquet.write_table(pa.table({"since": days, "x": [1.0, 2.0]}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r'column "since" holds dates: .* since = \{ low = 2000-01-01'):
        public_size(PartySpec("p", "d.parquet"), [], tmp_path, EncodeRules())
