"""`tacit report`: a page that is whole in itself, says what matters, and shows nobody's coefficients."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.report import pictures
from tests.cli.pages import Page
from tests.cli.test_samples import Nodes


def reported(files: Any, tacit: Any) -> Page:
    out = files.folder / "run"
    assert tacit("train", files.write(), "--out", out, "--quiet").code == 0
    answer = tacit("report", out)
    assert (answer.code, answer.out) == (0, f"written    {out / 'report.html'}\n")
    return Page((out / "report.html").read_text(encoding="utf-8"))


def lines_drawn(picture: Any) -> int:
    return len([one for one in picture.iter() if one.tag == "path" and one.get("d")])


def assert_whole(page: Page) -> None:
    assert page.problems == []
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert not re.findall(r"url\((?!#)|@import|https?://", page.source)
    assert len(page.ids) == len(set(page.ids))
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page.source))
    assert {one or two for one, two in used} <= set(page.ids)
    assert "default-src 'none'" in page.source


def test_page_of_other_columns(files: Any, tacit: Any) -> None:
    files.job = "holdout = 0.25"
    files.shop = {name: values[2:] for name, values in files.shop.items()}
    page = reported(files, tacit)
    assert_whole(page)
    assert set(page.pictures) == {
        "ROC", "Calibration", "What each party adds to a score", "Objective", "Convergence",
    }  # fmt: skip
    assert all(lines_drawn(picture) >= 5 for picture in page.pictures.values())
    record = json.loads((files.folder / "run" / "evaluation.json").read_text())
    for model in record["models"]:
        assert f"{model['measures']['log_loss']:.4f}" in page.text
    for words in (
        "bank and shop trained one model together", "Evaluated on 30 held-out rows", "bank alone",
        "shop alone, given the label",
        "all data in one place", "yes is positive", "Rows were matched by id", "NOT differentially private",
        "Not covered", "certified within", "predictions: each asked row discloses one score per party",
    ):  # fmt: skip
        assert words in page.text
    own = next(model["joint_against_it"] for model in record["models"] if model["party"] == "bank")
    ends = [f"{own['difference'] + side * 1.959964 * own['error']:+.2g}".replace("-", "−") for side in (-1, 1)]
    verdict = f"its log loss on 30 held-out rows is {own['joint']:.4f} against {own['other']:.4f}, a difference of"
    assert f"The joint model is better than bank alone: {verdict}" in page.text
    assert f"(95 % interval {ends[0]} to {ends[1]}). It is not private: nothing is protected" in page.text
    assert page.text.index("95 % interval") < page.text.index("Who trained what")
    assert re.search(r"yes is positive \(\d+\.\d% of the evaluated rows\)", page.text)
    assert re.search(r"Trained on \d{4}-\d\d-\d\d with tacit \d", page.text)
    assert re.search(r"bank \(has the label\) 3 118 2 shop 4 118 0", page.text)


def test_nobodys_coefficients_are_shown(files: Any, tacit: Any) -> None:
    page = reported(files, tacit)
    for name in ("bank", "shop"):
        coef = json.loads((files.folder / "run" / "model" / f"{name}.json").read_text())["coef"]
        assert f"{np.linalg.norm(coef):.4g}" in page.text or f"{np.linalg.norm(coef):.4f}" in page.text
        for value in coef:
            shown = {repr(value), f"{value:.4f}", f"{value:.4g}", f"{value:.5g}", f"{abs(value):.4f}"}
            assert not any(one in page.text for one in shown)


def test_figures_of_trained_rows_are_called_so(files: Any, tacit: Any) -> None:
    page = reported(files, tacit)
    assert "Evaluated on the 120 rows it was trained on," in page.text
    assert "holdout = 0.2" in page.text


def test_page_of_a_private_run_is_not_for_others(files: Any, tacit: Any) -> None:
    files.job, files.privacy = "holdout = 0.25", "epsilon = 3"
    page = reported(files, tacit)
    assert_whole(page)
    assert "Not for publication." in page.text
    assert "every other party gives away one exact score of each of them" in page.text
    assert "This run is differentially private: epsilon = 3" in page.text
    assert "after the planned number of rounds" in page.text
    assert "shop alone" not in page.text
    assert "Objective" not in page.pictures
    assert stat.S_IMODE((files.folder / "run" / "report.html").stat().st_mode) == 0o600


def test_page_of_a_run_that_could_not_be_evaluated(files: Any, tacit: Any) -> None:
    files.privacy = 'epsilon = 8\nmechanism = "shares"'
    page = reported(files, tacit)
    assert_whole(page)
    assert "Nothing was evaluated" in page.text
    assert not {"ROC", "Calibration", "What each party adds to a score"} & set(page.pictures)
    assert "bank 3 – – –" in page.text  # even counts and norms would tell of rows
    (files.folder / "run" / "evaluation.json").unlink()
    assert tacit("report", files.folder / "run").code == 0
    assert "This run was not evaluated." in (files.folder / "run" / "report.html").read_text()


@pytest.mark.parametrize("privacy", [None, "epsilon = 4"])
def test_page_of_other_rows(tmp_path: Path, tacit: Any, privacy: str | None) -> None:
    page = reported(Nodes(tmp_path, job="holdout = 0.2", privacy=privacy), tacit)
    assert_whole(page)
    assert {"Who talks to whom", "ROC", "Calibration"} <= set(page.pictures)
    words = {"".join(text.itertext()).strip() for text in page.pictures["Who talks to whom"].iter("text")}
    assert words == {"north", "east", "south"}
    assert lines_drawn(page.pictures["Who talks to whom"]) >= 3
    assert "3 nodes, 3 edges" in page.text
    assert ("Agreement between nodes" in page.pictures) == (privacy is None)
    assert ("Not for publication." in page.text) == (privacy is not None)
    assert re.search(r"north 48 (east, south|south, east)", page.text)


@pytest.mark.parametrize("loss", ["squared", "hinge", "poisson"])
def test_page_of_every_task(files: Any, tacit: Any, loss: str) -> None:
    files.job, files.model = "holdout = 0.25", f'loss = "{loss}"\nalpha = 0.01'
    if loss != "hinge":
        files.bank["default"] = np.abs(np.round(files.X.sum(axis=1))).tolist()
    page = reported(files, tacit)
    assert_whole(page)
    assert ("ROC" in page.pictures) == (loss == "hinge")
    assert ("Calibration" in page.pictures) == (loss != "hinge")


def test_names_are_escaped_and_long_ones_fit(files: Any, tacit: Any) -> None:
    job = files.write()
    name = "<b>& a very long name of a job"
    job.write_text(job.read_text().replace('"credit"', f'"{name}"').replace('name = "shop"', f'name = "{"s" * 60}"'))
    assert tacit("train", job, "--out", files.folder / "run", "--quiet").code == 0
    assert tacit("report", files.folder / "run").code == 0
    page = Page((files.folder / "run" / "report.html").read_text())
    assert_whole(page)
    assert "&lt;b&gt;&amp; a very long name" in page.source
    assert "<b>& a" not in page.source
    assert "ss…" in page.text


def test_the_same_run_gives_the_same_page(files: Any, tacit: Any) -> None:
    reported(files, tacit)
    first = (files.folder / "run" / "report.html").read_bytes()
    assert tacit("report", files.folder / "run", "--out", files.folder / "again.html").code == 0
    assert (files.folder / "again.html").read_bytes() == first


def test_train_makes_the_page_where_it_is_asked_to(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = tacit("train", files.write(), "--out", files.folder / "run", "--report")
    assert f"\nreport     {files.folder / 'run' / 'report.html'}\n" in answer.out
    assert (answer.code, answer.err) == (0, "")
    assert (files.folder / "run" / "report.html").exists()
    monkeypatch.setattr(pictures, "has_matplotlib", lambda: False)
    answer = tacit("train", files.write(), "--out", files.folder / "other", "--report")
    assert answer.code == 0
    assert answer.err == f"tacit: no report.html: {pictures.NO_MATPLOTLIB}\n"
    assert not (files.folder / "other" / "report.html").exists()


def test_what_is_refused(files: Any, tacit: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = files.folder / "run"
    assert "there is no run" in refused("report", run)
    assert tacit("train", files.write(), "--out", run, "--quiet").code == 0
    assert "in a directory that is there" in refused("report", run, "--out", files.folder)
    assert "in a directory that is there" in refused("report", run, "--out", files.folder / "no" / "page.html")
    whole = (run / "evaluation.json").read_text()
    for damage in ("{", "[]", '{"models": [{}]}', whole.replace('"measures"', '"measure"')):
        (run / "evaluation.json").write_text(damage)
        assert "evaluation.json" in refused("report", run)
    (run / "evaluation.json").write_text(whole)
    (run / "trace.jsonl").write_text("")
    assert "trace.jsonl" in refused("report", run)
    monkeypatch.setattr(pictures, "has_matplotlib", lambda: False)
    assert 'pip install "tacit[plot]"' in refused("report", run)
