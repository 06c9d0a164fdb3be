"""`tacit explain`: the parts sum to what `tacit predict` says, and a party's columns are shown to nobody else."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.blocks.dense import RowClip
from tacit.run.explain import explain
from tacit.run.predict import SavedModel
from tacit.run.result import PartyModel
from tacit.types import Shard
from tests.cli.test_encode_jobs import Customers, write_csv
from tests.cli.test_private_jobs import FORMS, KEPT
from tests.cli.test_samples import Nodes


def trained(files: Any, tacit: Any) -> list[Any]:
    out = files.folder / "run"
    assert tacit("train", files.write(), "--out", out, "--quiet").code == 0
    return [out, files.folder / "bank.csv", files.folder / "shop.csv"]


def predicted(tacit: Any, words: list[Any]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tacit("predict", *words).out)))


def test_parts_sum_to_the_prediction(files: Any, tacit: Any) -> None:
    words = trained(files, tacit)
    wanted = predicted(tacit, words)[16]
    for options in (["--id", "c0016"], ["--row", 17], ["--id", " c0016 "]):
        record = json.loads(tacit("explain", *words, *options, "--json").out)
        assert record["id"] == "c0016" == wanted["customer"]
        total = record["constant"] + sum(one["adds"] for one in record["parties"])
        assert total == pytest.approx(float(wanted["score"]), rel=1e-12)
        assert record["score"] == pytest.approx(total, rel=1e-12)
        assert record["probability"] == pytest.approx(float(wanted["probability"]), rel=1e-12)
        assert record["prediction"] == wanted["prediction"]
        assert "view" not in record
    first = json.loads(tacit("explain", *words, "--json").out)
    assert (first["row"], first["id"]) == (1, "c0000")


def test_a_party_sees_its_own_columns_alone(files: Any, tacit: Any) -> None:
    files.encode = 'scale = "none"'
    words = trained(files, tacit)
    record = json.loads(tacit("explain", *words, "--id", "c0003", "--party", "shop", "--json").out)
    view = record["view"]
    coef = json.loads((files.folder / "run" / "model" / "shop.json").read_text())
    assert [one["column"] for one in view["columns"]] == sorted(
        coef["columns"], key=lambda name: -abs(files.shop[name][3] * coef["coef"][coef["columns"].index(name)])
    )
    for one in view["columns"]:
        assert one["value"] == pytest.approx(files.shop[one["column"]][3])
        expected = files.shop[one["column"]][3] * coef["coef"][coef["columns"].index(one["column"])]
        assert one["adds"] == pytest.approx(expected)
    shop = next(one["adds"] for one in record["parties"] if one["party"] == "shop")
    assert sum(one["adds"] for one in view["columns"]) + view["own_constant"] == pytest.approx(shop, rel=1e-12)
    few = json.loads(tacit("explain", *words, "--id", "c0003", "--party", "shop", "--top", 1, "--json").out)["view"]
    assert (len(few["columns"]), few["other_columns"]) == (1, 3)
    rest = few["other_columns_add"] + few["columns"][0]["adds"] + few["own_constant"]
    assert rest == pytest.approx(shop, rel=1e-12)
    for party, own, others in (("shop", "s0", "b0"), ("bank", "b0", "s0")):
        text = tacit("explain", *words, "--party", party).out
        assert f" {own} = " in text
        assert others not in text
    assert not any(name in tacit("explain", *words).out for name in ("b0", "s0"))


KINDS = """
id = "customer"
[party.columns]
since = { kind = "date", low = 2020-01-01, high = 2025-12-31 }
code = { buckets = 8 }
calls = { low = 0, high = 100 }
"""


def test_columns_are_shown_as_the_file_has_them(tmp_path: Path, tacit: Any) -> None:
    customers = Customers(tmp_path, phone_keys=KINDS)
    for number, row in enumerate(customers.phone):
        row["since"] = f"2021-03-{1 + number % 28:02d}"
    assert tacit("train", customers.write(random.Random(3)), "--out", tmp_path / "run", "--quiet").code == 0
    new = {"customer": "n1", "plan": "bronze", "calls": 130.5, "code": "00", "since": "2021-07-04"}
    blank = {"customer": "n2", "plan": "", "calls": "", "code": "", "since": ""}
    write_csv(tmp_path / "phone-new.csv", [blank, new])
    bank = {"customer": "n1", "age": "", "city": "Bern", "vip": "true"}
    write_csv(tmp_path / "bank-new.csv", [bank, {**bank, "customer": "n2", "age": 42, "city": ""}])
    words = [tmp_path / "run", tmp_path / "bank-new.csv", tmp_path / "phone-new.csv"]
    shown = {}
    for id_, party in (("n1", "bank"), ("n1", "phone"), ("n2", "bank"), ("n2", "phone")):
        record = json.loads(tacit("explain", *words, "--id", id_, "--party", party, "--json").out)
        view = record["view"]
        saved = json.loads((tmp_path / "run" / "model" / f"{party}.json").read_text())
        parts = {part["column"]: part for one in view["columns"] for part in one["parts"]}
        assert {
            name: parts[name]["value"] * coef for name, coef in zip(saved["columns"], saved["coef"], strict=True)
        } == (pytest.approx({name: part["adds"] for name, part in parts.items()}))
        for one in view["columns"]:
            assert one["adds"] == pytest.approx(sum(part["adds"] for part in one["parts"]), abs=1e-14)
        sizes = [abs(one["adds"]) for one in view["columns"]]
        assert sizes == sorted(sizes, reverse=True)
        total = sum(one["adds"] for one in view["columns"]) + view["own_constant"]
        assert total == pytest.approx(next(one["adds"] for one in record["parties"] if one["party"] == party))
        shown[id_, party] = {one["column"]: (one["value"], one["note"]) for one in view["columns"]}
    mean = float(np.mean([row["age"] for row in customers.bank if row["age"] != ""]))
    assert shown["n1", "bank"] == {
        "age": (None, f"filled with {float(f'{mean:.4g}'):g}"), "city": ("Bern", ""), "vip": (True, ""),
    }  # fmt: skip
    assert shown["n2", "bank"] == {"age": (42.0, ""), "city": (None, ""), "vip": (True, "")}
    phone = shown["n1", "phone"]
    assert (phone["plan"], phone["calls"]) == (("bronze", "counted as other"), (130.5, "taken as 100"))
    assert (phone["code"][0], phone["since"]) == ("00", ("2021-07-04", ""))
    assert phone["code"][1].startswith("bucket ")
    assert shown["n2", "phone"] == {
        "plan": (None, "counted as other"), "calls": (None, "filled with 50"), "code": (None, "no bucket"),
        "since": (None, "filled with 2022-12-31"),
    }  # fmt: skip
    text = tacit("explain", *words, "--id", "n1", "--party", "phone").out
    assert '  plan = "bronze" (counted as other) ' in text
    assert '  since = "2021-07-04" ' in text


def test_text(files: Any, tacit: Any) -> None:
    answer = tacit("explain", *trained(files, tacit), "--id", "c0007")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "customer c0007"
    assert [line.split()[0] for line in lines[2:5]] == ["constant", "bank", "shop"]
    assert sum(float(line.split()[1]) for line in lines[2:5]) == pytest.approx(
        float(lines[6].split()[1][:-1]), abs=2e-3
    )
    assert "probability of yes" in lines[6]


@pytest.mark.parametrize("name", FORMS)
def test_private_models_are_taken_apart_as_they_predict(files: Any, tacit: Any, name: str) -> None:
    files.privacy = FORMS[name] + "\nnoise_seed = 5"
    words = trained(files, tacit)
    wanted = predicted(tacit, words)
    for party, row in (("bank", 1), ("shop", 40)):
        answer = tacit("explain", *words, "--row", row, "--party", party, "--json")
        record = json.loads(answer.out)
        assert record["score"] == pytest.approx(float(wanted[row - 1]["score"]), rel=1e-9)
        part = next(one["adds"] for one in record["parties"] if one["party"] == party)
        view = record["view"]
        assert sum(one["adds"] for one in view["columns"]) + view["own_constant"] == pytest.approx(part, abs=1e-12)
        covered = "as published" not in name
        assert ("the certificate covers training, not this row" in answer.err) == covered
        assert answer.err.count("must stay with bank") == (name in KEPT)
    if covered:
        assert "not covered: " in answer.err


@pytest.mark.parametrize("bend", [0.0, 0.7])
@pytest.mark.parametrize("clip", [None, RowClip(1.0), RowClip(1.0, np.array([0.1, -0.2, 0.0]), 0.6)])
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1e80])
def test_columns_sum_to_a_clipped_and_bent_score(bend: float, clip: RowClip | None, size: float) -> None:
    part = PartyModel("a", ("x", "y", "z"), np.array([3.0, -4.0, 5.0]), 0.3, clip, bend)
    model = SavedModel("squared", "regression", (), 0.0, (part,), (None,))
    shard = Shard("a", size * np.array([[1.0, 0.5, 1.0], [-1.0, 2.0, 0.0]]), ("x", "y", "z"))
    for row in (0, 1):
        (share,) = explain(model, [shard], row)
        assert share.score == part.score(shard.features)[row]
        assert share.adds.sum() + share.rest == pytest.approx(share.score, rel=1e-9, abs=1e-12)


def test_other_rows_show_the_common_columns(tmp_path: Path, tacit: Any, refused: Any) -> None:
    nodes = Nodes(tmp_path)
    assert tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet").code == 0
    words = [tmp_path / "run", tmp_path / "north.csv"]
    record = json.loads(tacit("explain", *words, "--row", 5, "--json").out)
    wanted = predicted(tacit, words)[4]
    total = record["constant"] + sum(one["adds"] for one in record["view"]["columns"]) + record["view"]["own_constant"]
    assert total == pytest.approx(float(wanted["score"]), rel=1e-12)
    assert "x0 = " in tacit("explain", *words).out
    assert "leave it out" in refused("explain", *words, "--party", "north")
    assert json.loads(tacit("explain", *words, "--id", "north1", "--json").out)["row"] == 2


def test_what_is_refused(files: Any, tacit: Any, refused: Any) -> None:
    assert "there is no run" in refused("explain", files.folder, "a.csv")
    words = trained(files, tacit)
    assert "there are 120 rows, counted from 1" in refused("explain", *words, "--row", 0)
    assert "there are 120 rows" in refused("explain", *words, "--row", 121)
    assert 'no row has the id "nobody"' in refused("explain", *words, "--id", "nobody")
    assert 'did you mean "shop"?' in refused("explain", *words, "--party", "shp")
    assert "--top 0" in refused("explain", *words, "--top", 0)
    assert "not allowed with" in refused("explain", *words, "--row", 1, "--id", "c0001")
    assert "1 data file for 2 parties" in refused("explain", *words[:2])
    (files.folder / "run" / "certificate.json").write_text("{")
    assert "certificate.json" in refused("explain", *words)
