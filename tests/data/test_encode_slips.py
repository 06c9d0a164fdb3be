"""One wrong cell makes a file's numbers text: that is refused, not taken for categories in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.data.encode.spec import ColumnSpec, EncodeRules
from tacit.data.load import JobData, PartySpec, load_training_data
from tacit.errors import InputError


def load(folder: Path, cells: list[str], *columns: ColumnSpec) -> JobData:
    rows = [f"{cell},{('no', 'yes')[k % 2]}" for k, cell in enumerate(cells)]
    (folder / "a.csv").write_text("\n".join(["age,y", *rows]) + "\n")
    return load_training_data([PartySpec("p", "a.csv", label="y", columns=columns)], folder, EncodeRules())


AGES = [str(20 + k % 15) for k in range(40)]


@pytest.mark.parametrize("slip", ["3o", "1_000", "5 %", "?"])
def test_a_slip_among_few_different_numbers_is_refused(slip: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds numbers and .* as text"):
        load(tmp_path, [*AGES, slip])


def test_the_job_may_say_that_they_are_categories(tmp_path: Path) -> None:
    data = load(tmp_path, [*(["1"] * 15), *(["2"] * 15), "U"], ColumnSpec("age", kind="category"))
    assert data.shards[0].columns == ("age=1", "age=2", "age=other")


def test_codes_that_stand_in_many_rows_are_categories(tmp_path: Path) -> None:
    data = load(tmp_path, [*(["1"] * 15), *(["2"] * 15), *(["U"] * 12)])
    assert data.shards[0].columns == ("age=1", "age=2", "age=U", "age=other")


def test_only_plain_numbers_are_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='holds "1_000" in row 41'):
        load(tmp_path, [*AGES, "1_000"], ColumnSpec("age", kind="number"))
