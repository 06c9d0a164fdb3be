"""Families, offsets, weights and costs between sites: the model of one process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.cli.main import main
from tacit.errors import InputError
from tacit.job.file import parse_job
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")

RUN, ROWS = "run-00000001", 80


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    days, weight = rng.uniform(0.5, 3.0, ROWS), rng.uniform(0.5, 2.0, ROWS)
    table["claims"] = rng.poisson(days * np.exp(0.3 * table.sum(axis=1)))
    table = table.assign(days=days, weight=weight, late=np.where(table["claims"] > 2, "yes", "no"))
    table["customer"] = [f"c{k:03d}" for k in range(ROWS)]
    table[["customer", "a", "b", "claims", "late", "days", "weight"]].to_csv(folder / "bank.csv", index=False)
    table[["customer", "c", "d"]].sample(frac=1, random_state=0).to_csv(folder / "shop.csv", index=False)
    table[:50].to_csv(folder / "north.csv", index=False)
    table[50:].to_csv(folder / "south.csv", index=False)
    return {path.stem: path for path in folder.iterdir()}


def text(files: dict[str, Path], engine: str, model: str, of_label: str, *, split: str = "features") -> str:
    parts = [f'[job]\nengine = "{engine}"\nsplit = "{split}"\n[model]\n{model}\n[encode]\nscale = "none"']
    if split == "samples":
        parts.append('[graph]\nkind = "ring"')
    for name in ("bank", "shop") if split == "features" else ("north", "south"):
        data = f'data = "{files[name]}"\n' if engine == "in-process" else ""
        own = of_label if name != "shop" else ""
        columns = {"bank": '["a", "b"]', "shop": '["c", "d"]'}.get(name, '["a", "b", "c", "d"]')
        parts.append(f'[[party]]\nname = "{name}"\n{data}id = "customer"\nfeatures = {columns}\n{own}')
    return "\n".join(parts) + "\n"


CASES = {
    "exposure and weights": ('loss = "poisson"', 'label = "claims"\nexposure = "days"\nweight = "weight"'),
    "dispersion": ('loss = "negative_binomial"\ndispersion = 0.5', 'label = "claims"\noffset = "weight"'),
    "costs": ("costs = { false_positive = 1, false_negative = 3 }", 'label = "late"\nweight = "weight"'),
    "class weights": ('class_weight = "balanced"', 'label = "late"'),
}


@pytest.mark.parametrize(("model", "of_label"), CASES.values(), ids=CASES)
def test_sites_train_the_model_of_one_process(
    tmp_path: Path, files: dict[str, Path], model: str, of_label: str
) -> None:
    (tmp_path / "job.toml").write_text(text(files, "in-process", model, of_label))
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    own = {name: files[name] for name in ("bank", "shop")}
    Loopback(own, tmp_path / "sites").run(text(files, "flare", model, of_label))
    for name in ("bank", "shop"):
        site, one = tmp_path / "sites" / name / RUN / "model", tmp_path / "one" / "model"
        found, wanted = (json.loads((path / f"{name}.json").read_text()) for path in (site, one))
        np.testing.assert_allclose(found.pop("coef"), wanted.pop("coef"), atol=1e-9)
        assert found.pop("offset") == pytest.approx(wanted.pop("offset"), abs=1e-9)
        del found["schema"], wanted["schema"]  # means of the same rows in another order
        assert found == wanted
    joint = [json.loads((path / "joint.json").read_text()) for path in (tmp_path / "sites/bank" / RUN / "model", one)]
    assert joint[0].pop("constant") == pytest.approx(joint[1].pop("constant"), abs=1e-9)
    assert joint[0] == joint[1]


def test_nodes_train_the_model_of_one_process(tmp_path: Path, files: dict[str, Path]) -> None:
    model, of_label = 'loss = "poisson"', 'label = "claims"\nexposure = "days"'
    (tmp_path / "job.toml").write_text(text(files, "in-process", model, of_label, split="samples"))
    assert main(["train", str(tmp_path / "job.toml"), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    own = {name: files[name] for name in ("north", "south")}
    Loopback(own, tmp_path / "sites").run(text(files, "flare", model, of_label, split="samples"))
    whole = json.loads((tmp_path / "one/model/joint.json").read_text())
    for name in own:
        found = json.loads((tmp_path / "sites" / name / RUN / "model/joint.json").read_text())
        np.testing.assert_allclose(found["coef"], whole["coef"], atol=1e-4)
        assert found["row_columns"] == whole["row_columns"] == {"exposure": "days"}


@pytest.mark.parametrize(
    ("model", "of_label", "split", "match"),
    [
        ('loss = "negative_binomial"', 'label = "claims"', "features", "estimated in one process alone: give a number"),
        ("", 'label = "late"\nweight = "weight"', "samples", "need the sums of all parties"),
        ('class_weight = "balanced"', 'label = "late"', "samples", "need the sums of all parties"),
    ],
)
def test_what_sites_cannot_do_is_refused(
    files: dict[str, Path], model: str, of_label: str, split: str, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        parse_job(text(files, "flare", model, of_label, split=split), "job")
