"""Files as people have them: other delimiters, decimal commas, thousands, Excel; and blanks that are written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import InputError, VerticalBoostingClassifier, VerticalClassifier
from tacit.cli.main import main
from tacit.data.read import NUMBERS, FileStyle, read_table
from tacit.job import read_job
from tacit.job.file import parse_job

ROWS = 90
RNG = np.random.default_rng(4)
INCOME = np.round(RNG.gamma(2.0, 4000.0, ROWS), 2)
BANK = pd.DataFrame(
    {"customer": [f"{k:04d}" for k in range(ROWS)], "income": INCOME, "town": RNG.choice(["A", "B"], ROWS)}
)
BANK["late"] = np.where(INCOME + 4000 * RNG.normal(size=ROWS) > 8000, "yes", "no")
SHOP = pd.DataFrame({"customer": BANK.customer, "spent": np.round(INCOME / 10 + RNG.normal(size=ROWS), 2)})


def written(value: float, numbers: str) -> str:
    point, thousands = NUMBERS[numbers]
    return f"{value:,.2f}".replace(",", "T").replace(".", point).replace("T", thousands)


def write(table: pd.DataFrame, path: Path, delimiter: str, numbers: str) -> None:
    texts = table.map(lambda cell: written(cell, numbers) if isinstance(cell, float) else cell)
    texts.to_csv(path, index=False, sep=delimiter)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_every_style_gives_the_same_table(numbers: str, delimiter: str, tmp_path: Path) -> None:
    write(BANK, tmp_path / "bank.csv", delimiter, numbers)
    found = read_table(tmp_path / "bank.csv", party="bank", id_column="customer", style=FileStyle(delimiter, numbers))
    assert found.columns == tuple(BANK)
    np.testing.assert_allclose(found.column("income").astype(float), INCOME, rtol=1e-12)
    assert found.column("customer").tolist() == BANK.customer.tolist()
    assert found.column("town").tolist() == BANK.town.tolist()


def test_text_that_looks_like_a_number_here_and_there_stays_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;day;v\n1.234;01.02.2023;1.23\n12,5;02.02.2023;4\nn/a;03.02.2023;5\n")
    table = read_table(tmp_path / "a.csv", party="a", style=FileStyle(";", "1.234,56"))
    np.testing.assert_array_equal(table.column("x").astype(float), [1234.0, 12.5, np.nan])
    assert table.column("day").tolist() == ["01.02.2023", "02.02.2023", "03.02.2023"]
    assert table.column("v").tolist() == ["1.23", "4", "5"]  # 1.23 is no number in this style


JOB = """\
[job]
name = "credit"
[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "late"
delimiter = ";"
numbers = "1.234,56"
[[party]]
name = "shop"
data = "shop.{end}"
id = "customer"
"""


@pytest.mark.parametrize("end", ["csv", "xlsx"])
def test_a_job_trains_and_predicts_in_the_style_of_each_file(end: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="needs tacit[excel]")
    write(BANK, tmp_path / "bank.csv", ";", "1.234,56")
    SHOP.to_csv(tmp_path / "shop.csv", index=False)
    SHOP.to_excel(tmp_path / "shop.xlsx", index=False)
    (tmp_path / "job.toml").write_text(JOB.format(end=end))
    job = read_job(tmp_path / "job.toml")
    assert parse_job(job.to_toml(), "again").parties == job.parties
    assert main(["plan", str(tmp_path / "job.toml")]) == 0
    run = tacit.run_job(tmp_path / "job.toml", tmp_path / "run")
    BANK.to_csv(tmp_path / "plain.csv", index=False)
    plain = (
        JOB.format(end="csv").replace('delimiter = ";"\nnumbers = "1.234,56"\n', "").replace("bank.csv", "plain.csv")
    )
    (tmp_path / "plain.toml").write_text(plain)
    other = tacit.run_job(tmp_path / "plain.toml", tmp_path / "other")
    assert "delimiter" not in (tmp_path / "other" / "job.toml").read_text()
    assert run.coef == other.coef
    files = {"bank": tmp_path / "bank.csv", "shop": tmp_path / f"shop.{end}"}
    np.testing.assert_array_equal(run.predict(files).score, other.predict({"bank": BANK, "shop": SHOP}).score)


def test_the_refusal_of_another_delimiter_says_what_to_write(tmp_path: Path) -> None:
    write(BANK, tmp_path / "bank.csv", ";", "1234.56")
    with pytest.raises(InputError, match='looks separated by semicolons: write delimiter = ";" under its'):
        read_table(tmp_path / "bank.csv", party="bank")


def test_init_finds_the_delimiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(BANK, tmp_path / "bank.csv", ";", "1234.56")
    SHOP.to_csv("shop.csv", index=False)
    assert main(["init", "bank.csv", "shop.csv", "--label", "late"]) == 0
    job = read_job("job.toml")
    assert [party.delimiter for party in job.parties] == [";", ","]
    assert main(["train", "job.toml", "--quiet"]) == 0


@pytest.mark.parametrize(
    "model", [VerticalClassifier(parties=1), VerticalBoostingClassifier(parties=1, max_rounds=1, random_state=0)]
)
def test_whole_numbers_of_a_categorical_frame_are_categories(model: Any) -> None:
    frame = pd.DataFrame({"income": INCOME, "code": pd.Categorical(RNG.integers(0, 3, ROWS))})
    as_text = frame.assign(code=frame.code.astype(str).astype("category"))
    scores = [model.fit(table, BANK.late).decision_function(table) for table in (frame, as_text)]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    if isinstance(model, VerticalClassifier):
        assert model.fit(frame, BANK.late).coef_by_party_.columns[0][1:4] == ("code=0", "code=1", "code=2")
