"""The number of columns of a protected LIBSVM file is stated in the job: its rows would tell it.

The attacker sees sizes: before, whether one record used the last column was told by the number of columns alone (one
record of a9a uses column 123), before consent and outside every epsilon.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.data.load import PartySpec, load_training_data
from tacit.data.nodes import load_nodes
from tacit.data.sizes import public_size
from tacit.errors import InputError
from tacit.job import read_job

USUAL = ["+1 1:0.5 3:1", "-1 2:1", "+1 3:0.25", "-1 1:1 2:1"]
RARE = [*USUAL[:2], "+1 3:0.25 9:1", USUAL[3]]  # one record with a column that no other has


def files(folder: Path) -> tuple[Path, Path]:
    """Two neighbouring files."""
    found = []
    for name, lines in (("usual", USUAL), ("rare", RARE)):
        (folder / name).mkdir()
        (folder / name / "own.svm").write_text("\n".join(lines) + "\n")
        found.append(folder / name)
    return found[0], found[1]


def holder(folder: Path) -> PartySpec:
    (folder / "holder.csv").write_text("label,x\n" + "".join(f"{k % 2},{k}\n" for k in range(4)))
    return PartySpec("holder", "holder.csv", label="label")


@pytest.mark.parametrize("stated", [{"width": 5}, {"width": 9}, {"width": 12}, {"features": ("1", "2", "7")}])
def test_neighbouring_files_have_the_same_columns(tmp_path: Path, stated: dict[str, object]) -> None:
    shapes, matrices = [], []
    for folder in files(tmp_path):
        specs = [holder(folder), PartySpec("own", "own.svm", **stated)]  # type: ignore[arg-type]
        data = load_training_data(specs, folder, protected={"own"})
        size = public_size(specs[1], specs, folder, protected=True)
        shapes.append((data.shards[1].features.shape, data.shards[1].columns, size.rows, size.columns))
        matrices.append(data.shards[1].features.toarray())
    assert shapes[0] == shapes[1]
    apart = [row for row in range(4) if not np.array_equal(matrices[0][row], matrices[1][row])]
    assert apart == ([2] if stated.get("width", 0) in (9, 12) else [])  # entries beyond what was stated are left out


def test_rows_alone_do_not_say_how_many_columns_a_protected_file_has(tmp_path: Path) -> None:
    for folder in files(tmp_path):
        specs = [holder(folder), PartySpec("own", "own.svm")]
        with pytest.raises(InputError, match="give width = their number") as refusal:
            load_training_data(specs, folder, protected={"own"})
        assert "\n" not in str(refusal.value)
        with pytest.raises(InputError, match="give width = their number"):
            public_size(specs[1], specs, folder, protected=True)


def test_nodes_state_it_too(tmp_path: Path) -> None:
    for folder in files(tmp_path):
        spec = PartySpec("own", "own.svm", label="label")
        with pytest.raises(InputError, match="give width"):
            load_nodes([spec], folder, protected=True)
        wide = PartySpec("own", "own.svm", label="label", width=7)
        assert load_nodes([wide], folder, protected=True).shards[0].features.shape == (4, 7)


def test_without_protection_the_rows_count_as_before(tmp_path: Path) -> None:
    widths = []
    for folder in files(tmp_path):
        specs = [holder(folder), PartySpec("own", "own.svm")]
        widths.append(load_training_data(specs, folder).shards[1].features.shape[1])
        assert load_nodes([PartySpec("own", "own.svm", label="label")], folder).shards[0].features.shape[0] == 4
    assert widths == [3, 9]


JOB = """
[model]
alpha = 0.1

[privacy]
epsilon = 1.0

[[party]]
name = "holder"
data = "holder.csv"
label = "label"

[[party]]
name = "own"
data = "own.svm"
"""


def test_a_job_states_it(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB + "width = 123\n")
    assert read_job(tmp_path / "job.toml").parties[1].width == 123
    (tmp_path / "job.toml").write_text(JOB + "width = 0\n")
    with pytest.raises(InputError, match="width"):
        read_job(tmp_path / "job.toml")
