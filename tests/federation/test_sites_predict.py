"""Joint prediction between sites: the predictions of one process, from sums under masks."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli.main import main
from tacit.errors import InputError, RunError
from tacit.federation.protocol import Open, Reason, RefusalError, Refused, Scores
from tacit.federation.score_handler import PredictionRequest, read_request
from tacit.federation.site import AllowAll, MatchingLimits
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
    return {row["customer"]: float(row["score"]) for row in csv.DictReader(text.splitlines())}


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
    told = loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), PREDICT)
    got = read((tmp_path / "sites/bank" / PREDICT / "predictions.csv").read_text())
    assert got.keys() == wanted.keys()
    assert told == 1
    np.testing.assert_allclose([got[k] for k in wanted], list(wanted.values()), rtol=0, atol=1e-9)
    sent = [one.answered.message.arrays["share"] for one in loop.carried[before:] if isinstance(one.asked, Scores)]
    assert {numbers.kind for numbers in sent} == ({"u8"} if parties > 2 else {"f8"})
    assert not list((tmp_path / "sites/shop" / PREDICT).glob("*.csv"))


def test_only_who_led_the_training_gets_scores(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 3)
    turned = PredictionRequest(TRAIN, ("shop", "bank", "phone"))
    with pytest.raises(RunError, match="no finished run of this name"):
        loop.run(turned.to_toml(), PREDICT)
    fewer = PredictionRequest(TRAIN, ("bank", "shop"))  # the difference to all would be the phone company's own scores
    with pytest.raises(RunError, match="no finished run of this name"):
        loop.run(fewer.to_toml(), PREDICT)
    with pytest.raises(RunError, match="no finished run of this name"):
        loop.run(PredictionRequest("run-00000009", tuple(files)).to_toml(), PREDICT)
    opening = Open(run=PREDICT, job=PredictionRequest(TRAIN, tuple(files)).to_toml(), version=tacit.__version__)
    loop.restart("phone")
    assert loop.sites["phone"].handle(opening, "shop") == Refused(reason=Reason.NOT_LEAD)


class No(AllowAll):
    """A gate that lets no scores out."""

    limits = MatchingLimits(least_common=1)

    def allow(self, *_: object, **__: object) -> None:
        pass

    allow_job = allow_preparing = allow

    def allow_scores(self, run: str, party: str, lines: list[str], bound: object) -> None:
        assert any("under masks" in line for line in lines)
        raise RefusalError(Reason.REFUSED)

    def released(self, *_: object) -> None:
        pass


def test_a_party_can_refuse_and_then_no_score_leaves(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 3)
    loop.authorizers = {"phone": No()}
    loop.restart("phone")
    with pytest.raises(RunError, match="'phone': it was asked, and does not take part"):
        loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), PREDICT)
    assert not [one for one in loop.carried if isinstance(one.asked, Scores)]
    assert loop.sites["phone"].handle(Scores(), "bank") == Refused(reason=Reason.NOT_AGREED)


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
