"""`tacit curves`: at cells where curves are drawn they sum to what `tacit predict` says; pictures and CSV are whole."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit as library
from tacit.columns.encoder import BucketColumn
from tacit.run.curves import load_curves
from tacit.run.explain import explain
from tacit.run.predict import load_rows, predict
from tacit.run.result import ALL_PARTIES
from tests.cli.conftest import Files
from tests.cli.pages import Page
from tests.cli.people import WHOLE, People

JOBS = {
    "plain": ("", ""),
    "linear": ("", ""),
    "others protected": ("", "[privacy]\nepsilon = 2"),
    "everyone": ("", "[privacy]\nepsilon = 4\nprotect = 'everyone'"),
    "label holder": ("", "[privacy]\nepsilon = 4\nprotect = 'everyone'\npredictions = 'label-holder'"),
    "rows": (WHOLE, ""),
    "private rows": (WHOLE, "[privacy]\nepsilon = 4"),
}
BANDS = {"others protected": {"phone"}, "everyone": {"bank", "phone"}, "label holder": {"phone"}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Train a job once."""
    known: dict[str, Path] = {}

    def trained(name: str) -> Path:
        if name not in known:
            folder = tmp_path_factory.mktemp("people")
            people = People(folder, *JOBS[name], terms="linear" if name == "linear" else "spline")
            library.run_job(people.write(), out=folder / "run")
            known[name] = folder / "run"
        return known[name]

    return trained


def cells_at(run: Any, name: str, picks: np.random.Generator, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of cells at which the curves of a party are drawn, and the sums of their values."""
    table, total = {}, np.zeros(rows)
    encoder = dict(zip(run.curves(), run.model.encoders, strict=True))[name]
    for column in encoder.columns:
        cells, value, _, _ = run.curves()[name][column.name]
        at = picks.integers(0, len(cells), rows)
        total += value[at]
        chosen = cells[at]
        if isinstance(column, BucketColumn):
            texts = {f"bucket {column.bucket(text)}": text for text in map(str, range(200))}
            chosen = np.array([texts[cell] for cell in chosen])
        table[column.name] = ["" if pd.isna(cell) or cell == "missing" else cell for cell in chosen]
    return pd.DataFrame(table), total


@pytest.mark.parametrize("name", JOBS)
def test_values_at_the_cells_of_a_row_and_constants_sum_to_its_score(
    name: str, runs: Callable[[str], Path], tmp_path: Path
) -> None:
    run, picks, rows = library.load(runs(name)), np.random.default_rng(1), 60
    frames, sums = [], []
    for party in run.curves():
        frame, total = cells_at(run, party, picks, rows)
        frame.assign(customer=np.arange(rows)).to_csv(tmp_path / f"{party}.csv", index=False)
        frames.append(tmp_path / f"{party}.csv")
        sums.append(total)
    expected = np.full(rows, run.model.constant)
    data = load_rows(run.model, frames)
    for part, shard, total in zip(run.model.parties, data.shards, sums, strict=True):
        clipped = None if part.clip is None else part.clip.apply(shard.features)
        factor = 1.0 if clipped is None else clipped.factor
        assert clipped is None or np.all(clipped.shrink > 1 - 1e-12), "norm of an encoded row"
        straight = factor * total / (1 + part.bend) + part.constant
        expected += straight + part.bend * np.clip(straight, -4, 4)
    np.testing.assert_allclose(predict(run.model, data).score, expected, atol=1e-9, rtol=0)


def test_beyond_its_range_a_cell_counts_as_its_end(runs: Callable[[str], Path], tmp_path: Path) -> None:
    run = library.load(runs("everyone"))
    age, value = run.curves()["bank"]["age"][:2]
    assert (age[0], age[-2], len(age)) == (18, 90, 74), "at each whole number, and at a blank"
    assert np.isnan(age[-1])
    (phone := tmp_path / "phone.csv").write_text("customer,since,plan,code\n1,1999-01-01,new,a\n2,2040-01-01,other,a\n")
    shares = []
    for low, high in (("18", "90"), ("-5", "1000")):
        (bank := tmp_path / "bank.csv").write_text(f"customer,age,income,children\n1,{low},0,0\n2,{high},0,0\n")
        with pytest.warns(UserWarning, match="counted as other"):
            shares.append(run.predict([bank, phone]).score)
    np.testing.assert_array_equal(*shares)
    assert value[0] != value[-2]


def test_bands_are_of_parts_with_noise_and_dates_are_dates(runs: Callable[[str], Path]) -> None:
    for name, parties in {**BANDS, "plain": set(), "private rows": {ALL_PARTIES}, "rows": set()}.items():
        curves = load_curves(runs(name))
        assert {party for party, own in curves.items() if all(curve.has_band for curve in own)} == parties, name
        for curve in (curve for own in curves.values() for curve in own):
            if curve.has_band:
                assert np.all(curve.low <= curve.value)
                assert np.all(curve.high >= curve.value)
                assert np.any(curve.high > curve.low)
            assert curve.days == (curve.column == "since")
    since = library.load(runs("others protected")).curves()["phone"]["since"][0]
    assert (str(since[0]), str(since[-1]), since.dtype) == ("2012-01-01", "2023-12-31", "datetime64[D]")


def test_pictures_are_whole_and_the_csv_holds_what_python_gives(
    runs: Callable[[str], Path], tacit: Any, tmp_path: Path
) -> None:
    answer = tacit("curves", runs("others protected"), "--out", tmp_path / "new" / "here")
    assert answer.code == 0
    assert answer.out == f"written    6 pictures and {tmp_path / 'new' / 'here' / 'curves.csv'}\n"
    assert "bank: no band, as no noise was added" in answer.err
    assert "A band is about noise alone" in answer.err
    pictures = sorted((tmp_path / "new" / "here").glob("*.svg"))
    assert [path.name for path in pictures] == [
        "bank-01-age.svg", "bank-02-children.svg", "bank-03-income.svg",
        "phone-01-code.svg", "phone-02-plan.svg", "phone-03-since.svg",
    ]  # fmt: skip
    texts = {path.name: "".join(ET.fromstring(path.read_text()).itertext()) for path in pictures}
    assert all(word in texts["phone-02-plan.svg"] for word in ("phone: plan", "$ and $", "blank", "gold"))
    assert "blank" in texts["bank-01-age.svg"]
    assert "2016" in texts["phone-03-since.svg"]
    assert not any("var(--" in path.read_text() for path in pictures)
    known = library.load(runs("others protected")).curves()
    with open(tmp_path / "new" / "here" / "curves.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["party", "column", "x", "value", "low", "high"]
    for party, columns in known.items():
        for column, (cells, value, low, high) in columns.items():
            own = [line for line in lines if (line["party"], line["column"]) == (party, column)]
            words = ["missing" if pd.isna(cell) else str(cell) for cell in cells.tolist()]
            assert [line["x"] for line in own] == words
            assert [float(line["value"]) for line in own] == value.tolist()
            if party == "phone":
                assert [float(line["low"]) for line in own] == low.tolist()
                assert [float(line["high"]) for line in own] == high.tolist()
            else:
                assert {line["low"] + line["high"] for line in own} == {""}


def test_one_party_sees_its_own_curves(runs: Callable[[str], Path], tacit: Any, refused: Any, tmp_path: Path) -> None:
    assert tacit("curves", runs("plain"), "--party", "phone", "--out", tmp_path / "phone").code == 0
    assert {path.name.partition("-")[0] for path in (tmp_path / "phone").glob("*.svg")} == {"phone"}
    assert "bank" not in (tmp_path / "phone" / "curves.csv").read_text()
    assert 'there are no curves of "fone"' in refused("curves", runs("plain"), "--party", "fone")
    assert "all parties share the columns" in refused("curves", runs("rows"), "--party", "bank")
    assert tacit("curves", runs("rows")).code == 0
    assert (runs("rows") / "curves" / "all-parties-01-age.svg").exists()


def test_explain_gives_one_share_for_each_column_and_all_of_its_parts(runs: Callable[[str], Path], tacit: Any) -> None:
    run = runs("others protected")
    files = [run.parent / "bank.csv", run.parent / "phone.csv"]
    curves, table = library.load(run).curves(), pd.read_csv(files[0])
    for row in (5, 6, 7):
        record = json.loads(tacit("explain", run, *files, "--id", row, "--party", "bank", "--json").out)["view"]
        assert sorted(one["column"] for one in record["columns"]) == ["age", "children", "income"]
        shares = {one["column"]: one for one in record["columns"]}
        assert shares["age"]["value"] == (None if pd.isna(table["age"][row]) else table["age"][row])
        assert len(shares["age"]["parts"]) > 5
        assert sum(part["adds"] for part in shares["age"]["parts"]) == pytest.approx(shares["age"]["adds"], abs=1e-12)
        cells, value = curves["bank"]["age"][:2]
        where = np.isnan(cells) if pd.isna(table["age"][row]) else cells == table["age"][row]
        if where.any():
            assert shares["age"]["adds"] == pytest.approx(value[where][0], abs=1e-9)
    text = tacit("explain", run, *files, "--id", 5, "--party", "bank").out
    assert f"  age = {table['age'][5]:g} " in text


def test_a_run_without_encodings_is_refused(tmp_path: Path, tacit: Any, refused: Any) -> None:
    files = Files(tmp_path)
    assert tacit("train", files.write(), "--out", tmp_path / "run", "--quiet").code == 0
    for part in (tmp_path / "run" / "model").glob("*.json"):
        part.write_text(json.dumps(json.loads(part.read_text()) | {"schema": None}))
    assert "has no curves: its columns were not encoded" in refused("curves", tmp_path / "run")
    assert library.load(tmp_path / "run").curves() == {}
    assert "there is no run" in refused("curves", tmp_path / "nothing")


def test_noise_that_does_not_fit_is_refused(runs: Callable[[str], Path], refused: Any, tmp_path: Path) -> None:
    part = runs("everyone") / "model" / "bank.json"
    kept = part.read_text()
    record = json.loads(kept)
    try:
        for noise in ([1.0], [[1.0], *record["noise"][1:]], ["x", *record["noise"][1:]]):
            part.write_text(json.dumps(record | {"noise": noise}))
            assert "its noise" in refused("curves", runs("everyone"), "--out", tmp_path / "out")
        part.write_text(json.dumps(record | {"noise": [None, *record["noise"][1:]]}))
        assert [curve.has_band for curve in load_curves(runs("everyone"))["bank"]] == [False, True, True]
    finally:
        part.write_text(kept)


def test_the_part_that_one_organisation_has_of_a_joint_run(
    runs: Callable[[str], Path], tacit: Any, tmp_path: Path
) -> None:
    run, part = runs("everyone"), tmp_path / "part"
    (part / "model").mkdir(parents=True)
    (part / "about.json").write_text('{"lead": "bank", "parties": ["bank", "phone"]}')
    for name in ("certificate.json", "model/phone.json"):
        (part / name).write_bytes((run / name).read_bytes())
    answer = tacit("curves", part)
    assert (answer.code, answer.out) == (0, f"written    3 pictures and {part / 'curves' / 'curves.csv'}\n")
    for name in ("job.toml", "result.json", "model/joint.json"):  # what the organisation has that led it
        (part / name).write_bytes((run / name).read_bytes())
    assert tacit("curves", part).out == answer.out
    assert {line.split(",")[0] for line in (part / "curves" / "curves.csv").read_text().split()[1:]} >= {"phone"}
    assert "bank," not in (part / "curves" / "curves.csv").read_text()


# --- on the page ---------------------------------------------------------------------------------------


def test_the_page_draws_what_matters_most_and_lists_the_rest(
    runs: Callable[[str], Path], tacit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.report.curves.MOST", 4)
    for name in ("plain", "everyone", "private rows"):
        assert tacit("report", runs(name), "--out", tmp_path / "page.html").code == 0
        page = Page((tmp_path / "page.html").read_text())
        assert page.problems == []
        columns = {curve.column: curve for own in load_curves(runs(name)).values() for curve in own}
        drawn = set(page.pictures) & set(columns)
        assert (len(drawn), len(columns)) == (4, 6)
        rest = re.findall(r'<tr><th scope="row">(\w+)</th>', page.source.partition("<details>")[2])
        assert set(columns) - drawn <= set(rest)
        if name == "plain":  # by the deviation over rows that was measured
            known = json.loads((runs(name) / "evaluation.json").read_text())["columns"]
            spread = {column: value for own in known.values() for column, value in own.items()}
        else:
            spread = {column: curve.spread for column, curve in columns.items()}
        assert drawn == set(sorted(spread, key=lambda column: -spread[column])[:4])


def test_importance_is_the_deviation_of_shares_over_rows(runs: Callable[[str], Path]) -> None:
    run = library.load(runs("plain"))
    data = load_rows(run.model, [runs("plain").parent / f"{name}.csv" for name in ("bank", "phone")])
    shares = [explain(run.model, data.shards, row) for row in range(len(data.shards[0].features[:, 0]))]
    assert run.evaluation is not None
    for number, (party, encoder) in enumerate(zip(("bank", "phone"), run.model.encoders, strict=True)):
        assert encoder is not None
        for source, at in zip(encoder.sources, encoder.slices, strict=True):
            found = np.std([share[number].adds[at].sum() for share in shares])
            assert run.evaluation["columns"][party][source] == pytest.approx(found, rel=1e-9)


def test_a_page_for_one_party_draws_no_others(
    runs: Callable[[str], Path], tacit: Any, refused: Any, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    assert tacit("report", runs("plain"), "--party", "phone", "--out", out).code == 0
    assert {"since", "plan", "code"} <= set(Page(out.read_text()).pictures)
    assert not {"age", "income", "children"} & set(Page(out.read_text()).pictures)
    assert tacit("report", runs("linear"), "--out", out).code == 0
    assert "What each column adds" not in out.read_text(), "coefficients of lines are their party's own"
    assert tacit("report", runs("linear"), "--party", "bank", "--out", out).code == 0
    assert {"age", "income", "children"} <= set(Page(out.read_text()).pictures)
    assert "there are no curves of" in refused("report", runs("plain"), "--party", "fone")
