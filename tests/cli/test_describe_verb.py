"""`tacit describe`, `tacit summary` and `tacit scorecard` on small jobs."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

import tacit as package
from tests.cli.conftest import Files
from tests.cli.people import People
from tests.cli.wards import Nodes

# --- describe ----------------------------------------------------------------------------------------------


def facts(path: Path) -> dict[str, dict[str, Any]]:
    """Columns by name, of all parties."""
    record = json.loads(path.read_text())
    return {column["name"]: column for party in record["parties"] for column in party["columns"]}


def plain_value(values: pd.Series, positive: pd.Series, bins: pd.Series) -> float:
    """The information value as books write it."""
    table = pd.crosstab(bins, positive)
    shares = table / table.sum()
    return float(((shares[True] - shares[False]) * np.log(shares[True] / shares[False])).sum())


def test_figures_are_those_of_a_plain_computation(tmp_path: Path, tacit: Any) -> None:
    people = People(tmp_path, terms="linear")
    answer = tacit("describe", people.write(), "--json", tmp_path / "facts.json", "--bins")
    assert (answer.code, answer.err) == (0, "")
    tables, found = people.tables(), facts(tmp_path / "facts.json")
    bank, phone = tables["bank"], tables["phone"]
    positive = bank["late"] == "yes"
    age = bank["age"]
    assert found["age"]["blanks"] == int(age.isna().sum())
    assert found["age"]["mean"] == pytest.approx(age.mean())
    np.testing.assert_allclose(found["age"]["quantiles"], age.quantile([0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]))
    cuts = np.unique([np.quantile(age.dropna(), k / 10, method="higher") for k in range(1, 10)])
    bins = pd.Series(np.searchsorted(cuts, age, side="right")).where(age.notna(), -1)
    assert found["age"]["evidence"]["value"] == pytest.approx(plain_value(age, positive, bins))
    plan = phone["plan"].replace("", "blank")
    assert found["plan"]["evidence"]["value"] == pytest.approx(plain_value(plan, positive, plan))
    assert sum(found["plan"]["evidence"]["rows"]) == 400
    numbers = bank[["age", "income", "children"]].fillna(bank[["age", "income", "children"]].mean())
    table = sm.add_constant(numbers).to_numpy()
    assert found["age"]["vif"] == pytest.approx(variance_inflation_factor(table, 1))
    both = json.loads((tmp_path / "facts.json").read_text())["parties"][0]["correlations"]
    expected = bank[["age", "income", "children"]].corr()
    assert {(a, b): value for a, b, value in both} == {
        pair: pytest.approx(expected.loc[pair]) for pair in [(a, b) for a, b, _ in both]
    }
    assert "weight of evidence" in answer.out
    assert "commonest values" in answer.out


def test_a_later_file_is_compared(tmp_path: Path, tacit: Any) -> None:
    people = People(tmp_path, terms="linear")
    job, bank = people.write(), people.tables()["bank"]
    moved = bank.assign(age=bank["age"] + 15)
    moved.to_csv(tmp_path / "later.csv", index=False)
    tacit("describe", job, "--against", f"bank={tmp_path / 'later.csv'}", "--json", tmp_path / "facts.json")
    found = facts(tmp_path / "facts.json")
    cuts = np.unique([np.quantile(bank["age"].dropna(), k / 10, method="higher") for k in range(1, 10)])
    shares = [
        np.bincount(np.where(a.isna(), 10, np.searchsorted(cuts, a, side="right")), minlength=11) / 400
        for a in (bank["age"], moved["age"])
    ]
    assert (np.array(shares) > 0).sum() > 18
    both = np.array([np.where(s == 0, 0.5 / 400, s + (0.5 / 400) * (shares[1] == 0)) for s in shares])
    assert found["age"]["stability"] == pytest.approx(float(np.sum((both[1] - both[0]) * np.log(both[1] / both[0]))))
    assert found["income"]["stability"] == 0.0
    assert found["since"]["stability"] is None


def test_nodes_and_numbers_as_labels(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    tacit("describe", nodes.write(), "--party", "east", "--json", tmp_path / "facts.json")
    record = json.loads((tmp_path / "facts.json").read_text())
    assert [one["party"] for one in record["parties"]] == ["east"]
    assert record["parties"][0]["rows"] == 90
    assert record["parties"][0]["columns"][0]["evidence"]["value"] > 0.3
    nodes.model = 'loss = "squared"'
    for table in nodes.tables.values():
        table["ill"] = (2 * np.array(table["x0"])).tolist()
    tacit("describe", nodes.write(), "--json", tmp_path / "facts.json")
    assert facts(tmp_path / "facts.json")["x0"]["label_correlation"] == pytest.approx(1.0)


def test_with_privacy_nobody_looks_at_another_file(files: Files, tacit: Any) -> None:
    """The protected party's file is not even there; the label holder's figures are of its own file alone."""
    files.privacy = "epsilon = 1\ndelta = 1e-5"
    job = files.write()
    (files.folder / "shop.csv").unlink()
    answer = tacit("describe", job, "--json", files.folder / "facts.json")
    assert (answer.code, answer.err) == (0, "")
    assert "shop: its rows are protected by [privacy]" in answer.out
    assert set(facts(files.folder / "facts.json")) == {"b0", "b1", "b2"}
    files.write()
    (files.folder / "bank.csv").unlink()
    own = tacit("describe", job, "--party", "shop", "--json", files.folder / "facts.json")
    assert own.code == 0
    found = facts(files.folder / "facts.json")
    assert found["s0"]["evidence"] is None  # the label is elsewhere
    assert found["s0"]["mean"] == pytest.approx(np.mean(files.shop["s0"]))


def test_odd_columns_and_bad_input(files: Files, tacit: Any, refused: Any) -> None:
    files.bank["same"], files.bank["twin"] = [1] * files.rows, files.bank["b0"]
    files.bank["none"], files.bank["huge"] = [""] * files.rows, [1e300] * (files.rows - 1) + [-1e300]
    answer = tacit("describe", files.write(), "--json", files.folder / "facts.json")
    assert (answer.code, answer.err) == (0, "")
    found = facts(files.folder / "facts.json")
    assert found["twin"]["vif"] == "infinity"
    assert found["same"]["vif"] is None
    assert found["same"]["evidence"]["value"] == pytest.approx(0.0)
    assert found["none"]["blanks"] == files.rows
    assert 'there is no party "shpo"' in refused("describe", files.folder / "credit.toml", "--party", "shpo")
    assert "is not PARTY=FILE" in refused("describe", files.folder / "credit.toml", "--against", "new.csv")
    assert "there is no job file" in refused("describe", files.folder / "none.toml")


# --- summary -----------------------------------------------------------------------------------------------


def test_summary_of_a_run_is_as_statsmodels_has_it(files: Files, tacit: Any, refused: Any) -> None:
    files.model, files.encode, files.job = 'loss = "logistic"\npenalty = "none"', 'scale = "none"', "tol = 1e-12"
    run = files.folder / "run"
    tacit("train", files.write(), "--out", run, "--quiet")
    answer = tacit("summary", run, "--json", files.folder / "errors.json")
    assert (answer.code, answer.err) == (0, "")
    expected = sm.Logit(files.y == "yes", sm.add_constant(files.X, prepend=False)).fit(disp=0, tol=1e-12)
    record = json.loads((files.folder / "errors.json").read_text())
    np.testing.assert_allclose([one["standard_error"] for one in record["coefficients"]], expected.bse, rtol=1e-6)
    np.testing.assert_allclose([one["p"] for one in record["coefficients"]], expected.pvalues, atol=1e-6)
    wald = expected.wald_test(np.eye(8)[3:7], scalar=True)
    assert record["parties"]["shop"]["statistic"] == pytest.approx(float(wald.statistic), rel=1e-5)
    own = tacit("summary", run, "--party", "shop").out
    assert "s0" in own
    assert "b0" not in own
    assert 'there is no party "shpo"' in refused("summary", run, "--party", "shpo")
    bank = pd.read_csv(files.folder / "bank.csv")
    bank.assign(b0=-bank["b0"]).to_csv(files.folder / "bank.csv", index=False)
    assert "standard errors away from the optimum" in refused("summary", run)
    bank.drop(columns="b1").to_csv(files.folder / "bank.csv", index=False)
    assert "other columns than those" in refused("summary", run)


def test_summary_of_nodes_curves_searches_and_private_runs(tmp_path: Path, tacit: Any, refused: Any) -> None:
    nodes = Nodes(tmp_path)
    tacit("train", nodes.write(), "--out", tmp_path / "nodes", "--quiet")
    assert "all parties  x0" in tacit("summary", tmp_path / "nodes").out
    people = People(tmp_path, top="holdout = 0.2")
    tacit("train", people.write(), "--out", tmp_path / "curves", "--quiet")
    answer = tacit("summary", tmp_path / "curves")
    assert answer.code == 0, answer
    assert "320 rows" in answer.out
    assert "does a column add anything?" in answer.out
    assert "no row" in next(line for line in answer.out.splitlines() if "plan=other" in line)
    cells, value, low, high = package.load(tmp_path / "curves").summary().curves()["bank"]["income"]
    assert np.all((low <= value) & (value <= high))
    assert len(cells) == len(value)
    people.more = "[privacy]\nepsilon = 4\ndelta = 1e-5"
    tacit("train", people.write(), "--out", tmp_path / "private", "--quiet")
    assert "a private model has none" in refused("summary", tmp_path / "private")


# --- scorecard -----------------------------------------------------------------------------------------------


def number(cell: str) -> float:
    """A number, or a date as days."""
    return float((pd.Timestamp(cell) - pd.Timestamp("1970-01-01")).days) if cell.count("-") == 2 else float(cell)


def points(card: list[dict[str, str]], party: str, column: str, cell: Any) -> float:
    """The points of a cell, as somebody with the card would find them."""
    own = [row for row in card if row["party"] == party and row["column"] == column]
    blank = cell is None or cell != cell or cell == ""
    named = {row["cell"]: float(row["points"]) for row in own if row["from"] == ""}
    if blank:
        return named["missing"]
    if isinstance(cell, str) or f"= {cell:g}" in named:
        return named.get(cell if isinstance(cell, str) else f"= {cell:g}", named.get("other", math.nan))
    ends = [(number(row["from"]), float(row["points"])) for row in own if row["from"]]
    last = next(row for row in reversed(own) if row["from"])
    x, y = zip(*[*ends, (number(last["to"]), float(last["points at the end"]))], strict=True)
    return float(np.interp(cell, x, y))


def test_points_add_up_to_the_score(tmp_path: Path, tacit: Any) -> None:
    people = People(tmp_path)
    run, job = tmp_path / "run", people.write()
    tacit("train", job, "--out", run, "--quiet")
    answer = tacit(
        "scorecard", run, "--pdo", 20, "--score", 600, "--odds", 50, "--digits", 6, "--out", tmp_path / "c.csv"
    )
    assert (answer.code, answer.err) == (0, "")
    card = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    tables = people.tables()
    predicted = package.load(run).predict([tmp_path / "bank.csv", tmp_path / "phone.csv"])
    factor = 20 / math.log(2)
    expected = 600 - factor * math.log(50) - factor * predicted.score
    bank, phone = tables["bank"], tables["phone"]
    for k in range(0, 400, 37):
        at = int(predicted.ids[k])
        total = float(card[0]["points"])
        for party, table in (("bank", bank), ("phone", phone)):
            for column in table.columns:
                if column in ("customer", "late", "code"):
                    continue
                cell = table[column][at]
                cell = number(cell) if column == "since" else cell
                total += points(card, party, column, cell if isinstance(cell, str) else float(cell))
        buckets = {float(row["points"]) for row in card if row["column"] == "code"}
        assert min(abs(total + own - expected[k]) for own in buckets) < 0.02
    assert min(float(row["points"]) for row in card[1:]) >= 0
    doubled = tacit("scorecard", run, "--party", "bank")
    assert doubled.out.splitlines()[0].split() == [
        "party",
        "column",
        "cell",
        "from",
        "to",
        "points",
        "points",
        "at",
        "the",
        "end",
    ]
    assert "phone" not in doubled.out


def test_the_page_and_bad_input(files: Files, tacit: Any, refused: Any) -> None:
    run = files.folder / "run"
    tacit("train", files.write(), "--out", run, "--quiet")
    answer = tacit("scorecard", run, "--page", files.folder / "card.html", "--good", "yes")
    assert answer.code == 0, answer
    page = (files.folder / "card.html").read_text()
    assert "double the odds of “yes”" in page
    assert page.count("<tr>") == 2 + 2 * 7
    assert "--pdo 0 is not allowed" in refused("scorecard", run, "--pdo", 0)
    assert "--odds nan is not allowed" in refused("scorecard", run, "--odds", "nan")
    assert '--good "maybe" is none of the labels' in refused("scorecard", run, "--good", "maybe")
    assert "give --out a file" in refused("scorecard", run, "--out", files.folder)
    assert "there is no party" in refused("scorecard", run, "--party", "phone")
    files.model = 'loss = "squared_hinge"\nalpha = 0.01'
    tacit("train", files.write(), "--out", files.folder / "hinge", "--quiet")
    assert "a scorecard needs two classes" in refused("scorecard", files.folder / "hinge")
