"""Whatever bytes a file holds, the only refusal a user may see is an InputError of one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.data.align import align
from tacit.data.labels import encode_binary
from tacit.data.read import read_table
from tacit.errors import InputError
from tacit.job import read_job

CSV = b'id,age,city,label\n1,30,Oslo,0\n2,41.5,"Ro, me",1\n007,-1e3,,0\n4,nan,x,1\n'
SVM = b"+1 1:0.5 3:2 # note\n-1 2:1e3\n1 qid:3 4:-7\n"
TOML = b"""[job]
name = "demo"
rounds = 50
tol = 1e-3
[model]
alpha = 0.1
rho = "auto"
fit_intercept = true
[[party]]
name = "bank"
data = "bank.csv"
id = "id"
label = "default"
features = ["age", 'income']
[[party]]
name = "phone"
data = "phone.parquet"
id = "id"
"""
SPECIAL = [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b'"', b",", b":", b"[", b"]", b"=", b"#", b"\\"]
SPECIAL += [
    b"nan",
    b"1e999",
    b"-",
    b"99999999999999999999",
    b"\xe2\x80\xa8",
    b"'''",
    b"{",
    b"1979-05-27",
    b";",
]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a few places: replace, insert, delete, repeat or cut."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        start = int(rng.integers(0, len(data) + 1))
        stop = min(len(data), start + int(rng.integers(0, 9)))
        piece = bytes(data[start:stop])
        choice = int(rng.integers(0, 5))
        special = SPECIAL[int(rng.integers(len(SPECIAL)))]
        if choice == 0:
            data[start:stop] = special
        elif choice == 1:
            data[start:start] = special
        elif choice == 2:
            data[start:stop] = b""
        elif choice == 3:
            data[start:start] = piece * 3
        else:
            data[start:stop] = rng.bytes(stop - start)
    return bytes(data[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.1 and data else data)


def use_table(path: Path) -> None:
    """Do all that training does with a table, each part on its own."""
    table = read_table(path, party="bank", id_column="id")
    for step in (
        lambda: table.features(table.default_features(["id", "label"])),
        lambda: encode_binary(table.column("label")),
        lambda: align([table, table], ["id", "id"]),
        *(lambda name=name: table.features([name]) for name in table.columns),
        *(lambda name=name: table.column(name) for name in table.columns[:9]),
    ):
        try:
            step()
        except InputError as error:
            assert_one_line(error)


def assert_one_line(error: InputError) -> None:
    assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "use"),
    [("t.csv", CSV, use_table), ("t.svm", SVM, use_table), ("job.toml", TOML, read_job)],
    ids=["csv", "libsvm", "toml"],
)
def test_only_input_errors(tmp_path: Path, name: str, content: bytes, use: Callable[[Path], object]) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / name
    refused = 0
    for _ in range(500):
        path.write_bytes(mutated(content, rng))
        try:
            use(path)
        except InputError as error:
            refused += 1
            assert_one_line(error)
    assert 25 < refused < 500  # the mutations are neither harmless nor hopeless
