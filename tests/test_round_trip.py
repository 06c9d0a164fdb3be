"""Job, run, `tacit.load`, predict: a notebook gets what `tacit predict` writes, on ten data sets and both splits."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

import tacit
from tacit.cli.main import main
from tests.cli.test_report_browser import BROWSER, browse

ROWS, NEW = 90, 40  # trained on, and predicted


def real(name: str) -> pd.DataFrame:
    """Rows of a data set of scikit-learn, shuffled, with its label in the column y."""
    table = getattr(datasets, f"load_{name}")(as_frame=True).frame.rename(columns={"target": "y"})
    table.columns = [re.sub(r"\W+", "_", str(column)) for column in table.columns]
    return table.sample(ROWS + NEW, random_state=0).reset_index(drop=True)


def made(label: str) -> pd.DataFrame:
    """Numbers, words, dates and blanks, with a label of some kind."""
    rng, rows = np.random.default_rng(3), ROWS + NEW
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    score = table.sum(axis=1) / 2
    table["word"] = rng.choice(["x", "y, z", "ü"], rows)
    table["day"] = pd.date_range("2020-01-01", periods=rows).strftime("%Y-%m-%d")
    table.loc[rng.random(rows) < 0.1, "b"] = np.nan
    kinds = {
        "words": np.where(score > 0, "ja", "nein"),
        "count": rng.poisson(np.exp(score)),
        "amount": rng.gamma(2.0, np.exp(score) / 2) + 0.01,
        "number": score + rng.normal(size=rows),
    }
    return table.assign(y=kinds[label])


SETS: dict[str, tuple[pd.DataFrame, str, str]] = {  # rows, how they are split, the model
    "cancer": (real("breast_cancer"), "features", "alpha = 0.01"),
    "diabetes": (real("diabetes"), "features", 'loss = "squared"'),
    "iris": (real("iris"), "features", "classes = 3"),
    "wine": (real("wine"), "features", 'classes = 3\nterms = "spline"'),
    "words": (made("words"), "features", 'terms = "spline"'),
    "count": (made("count"), "features", 'loss = "poisson"'),
    "amount": (made("amount"), "features", 'loss = "gamma"\nalpha = 0.1'),
    "cancer by rows": (real("breast_cancer"), "samples", "alpha = 0.01"),
    "diabetes by rows": (real("diabetes"), "samples", 'loss = "squared"'),
    "words by rows": (made("words"), "samples", ""),
}
DAY = '[party.columns]\nday = { kind = "date" }\n'


def write(folder: Path, table: pd.DataFrame, split: str, model: str) -> list[str]:
    """A job, its files, and files of new rows; the latter by party."""
    head = f'[job]\nsplit = "{split}"\n[model]\n{model}\n' + ("" if split == "features" else '[graph]\nkind = "ring"\n')
    table = table.assign(id=[f"r{number:03d}" for number in range(len(table))])
    names = [name for name in table.columns if name not in ("id", "y")]
    new, text, files = table[ROWS:].drop(columns="y"), head, []
    for place, party in enumerate(("one", "two") if split == "features" else ("one", "two", "three")):
        text += f'[[party]]\nname = "{party}"\ndata = "{party}.csv"\nid = "id"\n'
        if split == "features":
            own = ["id", *(names[::2] if place == 0 else names[1::2])]
            text += 'label = "y"\n' if place == 0 else ""
            table[:ROWS][own + ["y"] * (place == 0)].sample(frac=1, random_state=place).to_csv(
                folder / f"{party}.csv", index=False
            )
            new[own].sample(frac=1, random_state=place).to_csv(folder / f"{party}-new.csv", index=False)
            files.append(str(folder / f"{party}-new.csv"))
        else:
            own = list(table.columns)
            text += 'label = "y"\n'
            table[:ROWS][place::3].to_csv(folder / f"{party}.csv", index=False)
        text += DAY if "day" in own else ""
    (folder / "job.toml").write_text(text)
    if split == "samples":
        new.to_csv(folder / "new.csv", index=False)
        files = [str(folder / "new.csv")]
    return files


@pytest.mark.parametrize("name", SETS)
def test_a_loaded_model_predicts_what_the_command_line_does(name: str, tmp_path: Path) -> None:
    files = write(tmp_path, *SETS[name])
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    assert main(["predict", str(tmp_path / "run"), *files, "--out", str(tmp_path / "out.csv")]) == 0
    with (tmp_path / "out.csv").open(newline="") as lines:
        written = list(csv.DictReader(lines))
    model = tacit.load(tmp_path / "run")
    found = model.predict(files if len(files) > 1 else files[0])
    assert len(found) == len(written) == NEW
    for title, values in found.columns.items():
        assert [row[title] for row in written] == [str(value) for value in values], title
    frames = [pd.read_csv(path) for path in files]
    again = model.predict(dict(zip(("one", "two"), frames, strict=True)) if len(files) > 1 else frames[0])
    order = np.argsort([str(one) for one in again.ids])
    np.testing.assert_allclose(again.score[order], found.score[np.argsort(found.ids)], rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_a_notebook_shows_models_in_a_browser(tmp_path: Path) -> None:
    write(tmp_path, *SETS["words"])
    model: Any = tacit.run_job(tmp_path / "job.toml", tmp_path / "run", note=lambda remark: None)
    cells = "".join(f"<div>{thing._repr_html_()}</div>" for thing in (model, model.certificate_, model.coef_by_party_))
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><meta charset='utf-8'><body><main>{cells}</main></body>")
    for width, scheme in ((1280, "light"), (400, "dark")):
        _, out, first, least, _, _, _ = browse(page, width, scheme, tmp_path)
        assert (out, first) == ("0", ""), "something sticks out of a narrow cell"
        assert float(least) >= 11
