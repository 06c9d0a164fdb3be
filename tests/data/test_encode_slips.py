"""Numbers and dates that a file holds as text are refused, not taken for categories in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.columns.spec import ColumnSpec, EncodeRules
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


LOST = {
    "comma": [f"28{k},4" for k in range(40)],
    "thousands": [f"{k + 1}'453.4" for k in range(40)],
    "percent": [f"3.{k}%" for k in range(40)],
    "date": [f"{k % 28 + 1:02}.08.20{k % 20:02}" for k in range(40)],
    "mail": [f"a{k}@example.org" for k in range(40)],
    "blanks": [*(f"28{k},4" for k in range(12)), *['""'] * 30],
}


@pytest.mark.parametrize("texts", LOST.values(), ids=LOST)
def test_a_column_of_rare_texts_alone_is_refused(texts: list[str], tmp_path: Path) -> None:
    cells = [text if text == '""' else f'"{text}"' for text in texts]
    with pytest.raises(InputError, match=r"28453\.4 .* 2023-08-07 .* \"category\" .* features without") as caught:
        load(tmp_path, cells)
    held = set(texts) - {'""'}
    said = str(caught.value)
    assert said.startswith(f'party "p": column "age" holds {len(held)} different texts such as "{min(held)}"')
    assert "\n" not in said


@pytest.mark.parametrize("spec", [{"kind": "category"}, {"values": ("280,4",)}, {"buckets": 4}])
def test_rare_texts_are_taken_where_the_job_says_so(spec: dict[str, Any], tmp_path: Path) -> None:
    data = load(tmp_path, [f'"{text}"' for text in LOST["comma"]], ColumnSpec("age", **spec))
    assert data.shards[0].features.sum() == 40


def test_one_text_that_is_kept_is_enough(tmp_path: Path) -> None:
    data = load(tmp_path, [*(f"a{k}" for k in range(30)), *["b"] * 10])
    assert data.shards[0].columns == ("age=b", "age=other")


def test_nothing_is_lost_of_a_single_text(tmp_path: Path) -> None:
    data = load(tmp_path, [*["b"] * 3, *['""'] * 30])
    assert data.shards[0].columns == ("age=other", "age=missing")


def test_the_texts_of_protected_rows_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["age,y", *(f"a{k},{k % 2}" for k in range(40))]) + "\n")
    party = PartySpec("p", "a.csv", label="y")
    with pytest.raises(InputError) as caught:
        load_training_data([party], tmp_path, EncodeRules(), protected=["p"])
    assert "holds categories" in str(caught.value)
    assert "a0" not in str(caught.value)


def test_few_rows_are_no_reason_to_mend_a_file(tmp_path: Path) -> None:
    assert load(tmp_path, list("abcdefghi")).shards[0].columns == ("age=other",)
    with pytest.raises(InputError, match="none of them in rare = 10 of the 10 rows"):
        load(tmp_path, list("abcdefghij"))


ZEROS = {
    "thousands": ["0"] * 30 + [f"{k + 1},234" for k in range(40)],
    "percent": ["0"] * 30 + [f"3.{k:02}%" for k in range(40)],
    "decimal comma": ["0"] * 30 + [f"28{k},4" for k in range(40)],
    "money": ["0"] * 30 + [f"${k + 1},000.50" for k in range(40)],
    "money behind": ["0"] * 30 + [f"{k + 1}.000,50 €" for k in range(40)],
    "negative": ["0"] * 30 + [f"({k + 1},000)" for k in range(40)],
    "apostrophe": ["0"] * 30 + [f"{k + 1}'000.-" for k in range(40)],
    "no value": ["unknown"] * 50 + [f"{k + 1}.5" for k in range(40)],
    "date": ["never"] * 30 + [f"{k % 28 + 1:02}.08.20{k % 20:02}" for k in range(40)],
    "a few texts": ["0"] * 30 + [f"{k + 1},234" for k in range(40)] + [f"see {k}" for k in range(15)],
}


@pytest.mark.parametrize("texts", ZEROS.values(), ids=ZEROS)
def test_amounts_beside_many_zeros_are_refused_and_not_lost(texts: list[str], tmp_path: Path) -> None:
    """In silence they were one category, "other", beside the zeros."""
    with pytest.raises(InputError, match=r"holds numbers or dates as text") as caught:
        load(tmp_path, [f'"{text}"' for text in texts])
    said = str(caught.value)
    assert "would all count as other" in said
    assert 'numbers = "1.234,56"' in said
    assert 'kind = "category"' in said
    assert "\n" not in said


KEPT = {
    "levels": ["0%"] * 20 + ["10%"] * 20 + ["50%"] * 20,
    "ranges": ["1-5"] * 20 + ["6-10"] * 20 + [f"{k}-{k + 3}" for k in range(11, 30)],
    "names": ["none"] * 30 + [f"a{k}" for k in range(30)],
    "few slips": ["yes"] * 30 + ["no"] * 30 + ["1,5", "7%", "12"],
    "codes": ["A"] * 30 + [f"X1{k}" for k in range(20)] + [f"{k}" for k in range(12)],
    "letters": ["none"] * 30 + [f"ABC{k}" for k in range(100, 130)],
    "versions": ["1.0.2"] * 30 + [f"v{k}.0.1" for k in range(30)],
}


@pytest.mark.parametrize("texts", KEPT.values(), ids=KEPT)
def test_categories_that_only_look_like_amounts_are_kept(texts: list[str], tmp_path: Path) -> None:
    assert load(tmp_path, [f'"{text}"' for text in texts]).shards[0].columns[-1] == "age=other"


def test_amounts_may_be_kept_as_categories(tmp_path: Path) -> None:
    data = load(tmp_path, [f'"{text}"' for text in ZEROS["percent"]], ColumnSpec("age", kind="category"))
    assert data.shards[0].columns == ("age=0", "age=other")
