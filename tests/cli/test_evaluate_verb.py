"""`tacit evaluate`, and rows held out by time or in files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

import tacit as package
from tests.cli.conftest import Files
from tests.cli.wards import Nodes


@pytest.fixture
def parts(files: Files) -> Files:
    """The rows of two files, the later half of which is new; `opened` is a date at the bank."""
    days = np.arange(files.rows)
    files.bank["opened"] = [str(day) for day in np.datetime64("2024-01-01") + days - 90]
    return files


def cut(files: Files, rows: slice) -> list[Path]:
    """Some rows of both files as files of their own."""
    paths = []
    for name, table in (("bank", files.bank), ("shop", files.shop)):
        path = files.folder / f"new-{name}.csv"
        pd.DataFrame({key: values[rows] for key, values in table.items()}).to_csv(path, index=False)
        paths.append(path)
    return paths


def evaluation(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "evaluation.json").read_text()))


def test_rows_from_a_date_on_are_held_out_and_evaluate_finds_the_same_figures(parts: Files, tacit: Any) -> None:
    parts.job = 'holdout_after = "2024-01-01"'
    parts.bank_keys += '\nholdout_column = "opened"'
    answer = tacit("train", parts.write(), "--out", parts.folder / "run")
    assert answer.code == 0, answer
    assert "30 of them held out, 90 trained on" in answer.out
    record = evaluation(parts.folder / "run")
    assert record["rows"] == {"trained": 90, "held_out": 30, "evaluated": 30}
    run = package.load(parts.folder / "run")
    assert list(run.coef["bank"]) == ["b0", "b1", "b2"]  # the column of dates is no feature
    again = tacit("evaluate", parts.folder / "run", *cut(parts, slice(90, None)), "--json", parts.folder / "found.json")
    assert (again.code, again.err) == (0, "")
    found = json.loads((parts.folder / "found.json").read_text())
    joint = record["models"][0]
    for key, value in joint["measures"].items():
        assert found["measures"][key] == pytest.approx(value, rel=1e-9), key
    assert found["intervals"].keys() == joint["intervals"].keys()
    assert "AUC" in again.out
    assert "tenth, highest first" in again.out
    measured = next(line for line in answer.out.splitlines() if line.startswith("measures"))
    assert f"AUC {joint['measures']['auc']:.4g} ({joint['intervals']['auc'][0]:.4g} to " in measured


def test_rows_before_a_date_are_trained_on_alone(parts: Files, tacit: Any) -> None:
    """Scales and the model are those of a job with the earlier rows alone."""
    parts.job, keys = "holdout_after = 2024-01-01\ntol = 1e-9", parts.bank_keys
    parts.bank_keys += '\nholdout_column = "opened"'
    tacit("train", parts.write(), "--out", parts.folder / "run", "--quiet")
    parts.job, parts.bank_keys = "tol = 1e-9", keys
    del parts.bank["opened"]
    parts.bank, parts.shop = [{k: v[:90] for k, v in table.items()} for table in (parts.bank, parts.shop)]
    tacit("train", parts.write(), "--out", parts.folder / "early", "--quiet")
    one, other = (package.load(parts.folder / name).coef for name in ("run", "early"))
    assert one["shop"] == pytest.approx(other["shop"], rel=1e-6)


def test_files_of_their_own_are_held_out(parts: Files, tacit: Any, refused: Any) -> None:
    del parts.bank["opened"]
    cut(parts, slice(80, None))
    parts.bank, parts.shop = [{k: v[:80] for k, v in table.items()} for table in (parts.bank, parts.shop)]
    parts.bank_keys += '\nholdout_data = "new-bank.csv"'
    parts.shop_keys += '\nholdout_data = "new-shop.csv"'
    answer = tacit("train", parts.write(), "--out", parts.folder / "run")
    assert "40 more in files of their own, held out" in answer.out
    record = evaluation(parts.folder / "run")
    assert record["rows"] == {"trained": 80, "held_out": 40, "evaluated": 40}
    files = [parts.folder / f"new-{name}.csv" for name in ("bank", "shop")]
    found = package.load(parts.folder / "run").evaluate(files)
    assert found.measures == pytest.approx(record["models"][0]["measures"])
    assert package.load(parts.folder / "run").job.to_toml().count("holdout_data") == 2
    predicted = package.load(parts.folder / "run").predict(files)
    positive = pd.read_csv(files[0])["default"] == "yes"
    order = np.argsort(pd.read_csv(files[0])["customer"].to_numpy())
    assert found.measures["auc"] == pytest.approx(roc_auc_score(positive[order], predicted.score))
    assert found.measures["pr_auc"] == pytest.approx(average_precision_score(positive[order], predicted.score))
    assert found.measures["brier"] == pytest.approx(brier_score_loss(positive[order], predicted.probability))
    pd.concat([pd.read_csv(files[0]), pd.read_csv(parts.folder / "bank.csv").head(1)]).to_csv(files[0], index=False)
    pd.concat([pd.read_csv(files[1]), pd.read_csv(parts.folder / "shop.csv").head(1)]).to_csv(files[1], index=False)
    assert "1 row of holdout_data are trained on too" in refused(
        "train", parts.folder / "credit.toml", "--out", parts.folder / "again"
    )


def test_nodes_hold_rows_out_by_a_column_and_in_files(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    for number, table in enumerate(nodes.tables.values()):
        table["year"] = (2000 + np.arange(len(table["ill"])) % (5 + number)).tolist()
    nodes.job = "holdout_after = 2004"
    text = nodes.write().read_text()
    job = tmp_path / "late.toml"
    job.write_text(text.replace('label = "ill"', 'label = "ill"\nholdout_column = "year"'))
    answer = tacit("train", job, "--out", tmp_path / "run")
    assert answer.code == 0, answer
    late = sum(int(np.sum(np.array(table["year"]) >= 2004)) for table in nodes.tables.values())
    assert evaluation(tmp_path / "run")["rows"]["held_out"] == late
    assert package.load(tmp_path / "run").model.parties[0].columns == ("x0", "x1", "x2", "x3")
    found = tacit("evaluate", tmp_path / "run", tmp_path / "north.csv")
    assert found.out.startswith("60 rows; 95 % intervals")
    for name, table in nodes.tables.items():
        pd.DataFrame(table).iloc[:25].drop(columns="year").to_csv(tmp_path / f"new-{name}.csv", index=False)
        nodes.tables[name] = {key: values[25:] for key, values in table.items() if key != "year"}
    nodes.job = ""
    lines = nodes.write().read_text().splitlines()
    lines = [
        line.replace('data = "', 'holdout_data = "new-') + "\n" + line if "data =" in line else line for line in lines
    ]
    job.write_text("\n".join(lines))
    answer = tacit("train", job, "--out", tmp_path / "filed")
    assert answer.code == 0, answer
    assert evaluation(tmp_path / "filed")["rows"]["held_out"] == 75


def test_bad_holdouts_are_one_line(parts: Files, refused: Any) -> None:
    keys = parts.bank_keys

    def line(top: str, bank: str = "", shop: str = "") -> str:
        parts.job, parts.bank_keys, parts.shop_keys = top, f"{keys}\n{bank}", f'id = "customer"\n{shop}'
        return str(refused("train", parts.write(), "--out", parts.folder / "run"))

    opened = 'holdout_column = "opened"'
    assert "two ways to hold rows out" in line('holdout = 0.2\nholdout_after = "2024-01-01"', opened)
    assert "has the label and no holdout_column" in line('holdout_after = "2024-01-01"')
    assert "add holdout_after" in line("", opened)
    assert "has a holdout_column and no label" in line('holdout_after = "2024-01-01"', opened, 'holdout_column = "s0"')
    assert "leaves nothing to train on" in line('holdout_after = "1990-01-01"', opened)
    assert "leaves nothing to evaluate on" in line('holdout_after = "2030-01-01"', opened)
    assert "it must be a date such as" in line('holdout_after = "soon"', opened)
    assert "has no column" in line('holdout_after = "2024-01-01"', 'holdout_column = "closed"')
    assert "give a file for each party, or for none" in line("", 'holdout_data = "new.csv"')
    assert "is its id or label" in line('holdout_after = "2024-01-01"', 'holdout_column = "default"')
    parts.privacy = "epsilon = 1\ndelta = 1e-5"
    assert "holdout_after does not go with [privacy]" in line('holdout_after = "2024-01-01"', opened)
    parts.privacy, parts.bank["opened"][3] = None, ""
    assert "has 1 blank, the first in row 4" in line('holdout_after = "2024-01-01"', opened)


def test_bad_rows_to_evaluate_on_are_one_line(parts: Files, tacit: Any, refused: Any) -> None:
    del parts.bank["opened"]
    run = parts.folder / "run"
    tacit("train", parts.write(), "--out", run, "--quiet")
    bank, shop = cut(parts, slice(0, 40))
    table = pd.read_csv(bank)
    table.drop(columns="default").to_csv(bank, index=False)
    assert 'its file has no label column "default"' in refused("evaluate", run, bank, shop)
    table.assign(default=["maybe", *table["default"][1:]]).to_csv(bank, index=False)
    assert 'the label "maybe" is none of those that the model was trained on' in refused("evaluate", run, bank, shop)
    table.assign(default=["", *table["default"][1:]]).to_csv(bank, index=False)
    assert "blank" in refused("evaluate", run, bank, shop)
    table.assign(default="yes").to_csv(bank, index=False)
    one = tacit("evaluate", run, bank, shop)  # one class: no AUC, and what can be said is said
    assert one.code == 0
    assert "AUC" not in one.out
    assert "accuracy" in one.out
    table.head(1).to_csv(bank, index=False)
    assert tacit("evaluate", run, bank, shop).code == 0
    assert "there is no run" in refused("evaluate", parts.folder / "none", bank, shop)


def test_files_of_their_own_leave_a_private_run_as_it_is(parts: Files, tacit: Any) -> None:
    """The same noise gives the same model whatever rows are held out; the certificate says what it does not cover."""
    del parts.bank["opened"]
    cut(parts, slice(80, None))
    parts.bank, parts.shop = [{k: v[:80] for k, v in table.items()} for table in (parts.bank, parts.shop)]
    parts.privacy, keys = "epsilon = 2\ndelta = 1e-5\nrow_norm = 3\nnoise_seed = 1", (parts.bank_keys, parts.shop_keys)
    tacit("train", parts.write(), "--out", parts.folder / "plain", "--quiet")
    parts.bank_keys, parts.shop_keys = (
        f'{own}\nholdout_data = "new-{name}.csv"' for own, name in zip(keys, ("bank", "shop"), strict=True)
    )
    assert tacit("train", parts.write(), "--out", parts.folder / "held", "--quiet").code == 0
    models = [json.loads((parts.folder / run / "model" / "shop.json").read_text()) for run in ("plain", "held")]
    assert models[0] == models[1]
    certificate = (parts.folder / "held" / "certificate.txt").read_text()
    assert "the rows held out (holdout_data): every claim is about the rows trained on" in certificate
    found = tacit("evaluate", parts.folder / "held", *(parts.folder / f"new-{name}.csv" for name in ("bank", "shop")))
    assert found.code == 0
    assert "these figures are for bank alone: no certificate covers them" in found.err
