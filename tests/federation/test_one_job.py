"""One job file with ids, a holdout, a search, curves, privacy and an evaluation, in one process and between sites.

The model, the figures and the claims are the same, to the last bit: without privacy, and with it for the same coins.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import coef

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")

RUN = "run-00000001"
ROWS = 120
SEARCH = "[search]\nalphas = [1, 0.01]\nfolds = 2\n"
PRIVACY = "[privacy]\nepsilon = 4\nnoise_seed = 5\n"


def write_files(folder: Path, names: tuple[str, ...] = ("bank", "shop")) -> dict[str, Path]:
    """Files with different rows in different orders; all but about 20 ids are common."""
    rng = np.random.default_rng(4)
    values = rng.uniform(-2, 2, (ROWS, 2 * len(names)))
    labels = np.sin(2 * values[:, 0]) + values[:, 2] ** 2 - 1 + 0.3 * rng.normal(size=ROWS) > 0
    files = {}
    for k, name in enumerate(names):
        lines = [f"customer,{name}1,{name}2" + (",y" if k == 0 else "")]
        for row in rng.permutation(ROWS)[: ROWS - 10]:
            x, z = values[row, 2 * k : 2 * k + 2]
            lines.append(f"c{row},{float(x)!r},{float(z)!r}" + (f",{int(labels[row])}" if k == 0 else ""))
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join(lines) + "\n")
    return files


def job_text(files: dict[str, Path], engine: str, sections: str) -> str:
    private = 'evaluation = "private"\n' if "[privacy]" in sections else ""
    text = f'[job]\nname = "all"\nengine = "{engine}"\nholdout = 0.3\nseed = 3\n{private}'
    text += f'[model]\nterms = "spline"\n{sections}'
    for k, (name, path) in enumerate(files.items()):
        text += f'[[party]]\nname = "{name}"\nid = "customer"\n' + ('label = "y"\n' if k == 0 else "")
        text += "" if engine == "flare" else f'data = "{path}"\n'
        text += f"[party.columns]\n{name}1 = {{ low = -2, high = 2 }}\n{name}2 = {{ low = -2, high = 2 }}\n"
    return text


def trained_here(folder: Path, text: str) -> Path:
    (folder / "here.toml").write_text(text)
    assert main(["train", str(folder / "here.toml"), "--out", str(folder / "here"), "--quiet"]) == 0
    return folder / "here"


def read(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name).read_text())


def assert_same_evaluation(one: Path, lead: Path, other: Path) -> None:
    """The lead has the figures of one process, and tells the other site what the job says."""
    known, found, told = (read(folder, "evaluation.json") for folder in (one, lead, other))
    assert found["rows"] == known["rows"]
    wanted = {(model["kind"], model["party"]): model["measures"] for model in known["models"]}
    for model in found["models"]:
        assert model["measures"] == wanted[model["kind"], model["party"]]
    assert {model["kind"] for model in found["models"]} == {"joint", "alone"}
    assert told["models"][0]["measures"].items() <= found["models"][0]["measures"].items()


def assert_same_run(one: Path, folders: dict[str, Path], sections: str) -> None:
    """The model, the search, the figures and the claims of one process at the sites, to the last bit."""
    lead, *others = folders.values()
    for name, folder in folders.items():
        np.testing.assert_array_equal(coef(folder, name), coef(one, name))
    assert read(lead, "model/joint.json") == read(one, "model/joint.json")
    for other in others:
        assert_same_evaluation(one, lead, other)
    if "[search]" in sections:
        found, known = read(lead, "search.json"), read(one, "search.json")
        assert {**found, "seconds": 0} == {**known, "seconds": 0}
    if "[privacy]" in sections:
        claims = read(one, "certificate.json")["claims"]
        assert [claim.get("rows") for claim in claims] == [None, "held out"]
        assert read(others[0], "certificate.json")["claims"] == claims


@pytest.mark.parametrize("sections", [SEARCH, PRIVACY], ids=["search", "privacy"])
def test_sites_do_what_one_process_does(tmp_path: Path, sections: str) -> None:
    files = write_files(tmp_path)
    one = trained_here(tmp_path, job_text(files, "in-process", sections))
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", sections))
    assert_same_run(one, {name: tmp_path / "sites" / name / RUN for name in files}, sections)
