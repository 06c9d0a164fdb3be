"""Joint prediction between sites: the predictions of one process, from sums under masks."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli.main import main
from tacit.errors import InputError, RunError
from tacit.federation.score_work import Request, read_request
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_aligned import job_text, write_files

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
TRAIN, PREDICT = "run-00000001", "predict-0001"


def trained(tmp_path: Path, parties: int) -> tuple[dict[str, Path], Loopback]:
    files = dict(list(write_files(tmp_path).items())[:parties])
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare"), TRAIN)
    return files, loop


def read(text: str) -> dict[str, float]:
    return {row["id"]: float(row["score"]) for row in csv.DictReader(text.splitlines())}


@pytest.mark.parametrize("parties", [2, 3])
def test_the_lead_gets_the_predictions_of_one_process(
    tmp_path: Path, parties: int, capsys: pytest.CaptureFixture[str]
) -> None:
    files, loop = trained(tmp_path, parties)
    job = tmp_path / "job.toml"
    job.write_text(job_text(files, "in-process"))
    assert main(["train", str(job), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "one"), *map(str, files.values())]) == 0
    wanted = read(capsys.readouterr().out)
    before = len(loop.carried)
    told = loop.run(Request(TRAIN, tuple(files)).to_toml(), PREDICT)
    got = read((tmp_path / "sites/bank" / PREDICT / "predictions.csv").read_text())
    assert got.keys() == wanted.keys()
    assert told["rows"] == len(got)
    np.testing.assert_allclose([got[k] for k in wanted], list(wanted.values()), rtol=0, atol=1e-9)
    sent = [reply["message"]["arrays"]["share"] for *_, step, _, reply in loop.carried[before:] if step == "scores"]
    assert {array.dtype.name for array in sent} == ({"uint64"} if parties > 2 else {"float64"})
    assert not list((tmp_path / "sites/shop" / PREDICT).glob("*.csv"))


def test_only_who_led_the_training_gets_scores(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 3)
    turned = Request(TRAIN, ("shop", "bank", "phone"))
    with pytest.raises(RunError, match="led by another party"):
        loop.run(turned.to_toml(), PREDICT)
    fewer = Request(TRAIN, ("bank", "shop"))  # the difference to all would be the phone company's own scores
    with pytest.raises(RunError, match="other parties"):
        loop.run(fewer.to_toml(), PREDICT)
    with pytest.raises(RunError, match="no finished run"):
        loop.run(Request("run-00000009", tuple(files)).to_toml(), PREDICT)
    payload = {
        "run": PREDICT,
        "job": Request(TRAIN, tuple(files)).to_toml(),
        "version": tacit.__version__,
    }
    assert "does not lead" in loop.sites["phone"].handle("open", payload, "shop")["error"]


class No:
    """A gate that lets nothing out."""

    def allow(self, *_: object) -> None:
        pass

    def allow_scores(self, run: str, party: str, lines: list[str]) -> None:
        assert any("under masks" in line for line in lines)
        raise RunError(f"{party} refused")

    def released(self, *_: object) -> None:
        pass


def test_a_party_can_refuse_and_then_no_score_leaves(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 3)
    loop.gates = {"phone": No()}
    loop.restart("phone")
    with pytest.raises(RunError, match="phone refused"):
        loop.run(Request(TRAIN, tuple(files)).to_toml(), PREDICT)
    assert not [call for call in loop.carried if call[2] == "scores"]
    assert "not agreed" in loop.sites["phone"].handle("scores", {}, "bank")["error"]


@pytest.mark.parametrize(
    "text",
    [
        "[predict]\nrun = 1",
        '[predict]\nrun = "run-00000001"\nparties = ["bank"]',
        '[predict]\nrun = "../../etc1"\nparties = ["bank", "shop"]',
        '[predict]\nrun = "run-00000001"\nparties = ["bank", "bank"]',
        '[predict]\nrun = "run-00000001"\nparties = ["bank", "shop"]\ncode = "x"',
        "[predict",
    ],
)
def test_a_request_is_checked(text: str) -> None:
    with pytest.raises(InputError):
        read_request(text)
