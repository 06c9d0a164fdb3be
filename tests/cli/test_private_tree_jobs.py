"""Jobs of trees with [privacy]: protected rows beside the label holder's trees, and randomized labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit as package
from tacit import Privacy, VerticalBoostingClassifier
from tacit.errors import InputError
from tacit.job import read_job
from tacit.job.file import parse_job
from tacit.run.predict import load_rows, predict
from tacit.run.prepare import prepare
from tacit.run.result import PartyModel, TreePart
from tests.cli.test_tree_jobs import write

pytest.importorskip("lightgbm", reason="needs tacit[trees]")

SHOP = """[party.columns]
city = { values = ["Basel", "Bern", "Chur"] }
visits = { low = 0, high = 15 }
zip = { low = 0, high = 6 }"""
ROWS = {"sections": "[privacy]\nepsilon = 4\nnoise_seed = 3", "shop": SHOP}
BOTH = {"sections": "[privacy]\nepsilon = 4\nlabel_epsilon = 3\nnoise_seed = 3", "shop": SHOP}
LABELS = {"sections": '[privacy]\nepsilon = "none"\nlabel_epsilon = 3\nnoise_seed = 3'}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job whose rows of the shop are protected, trained; files beside the run."""
    folder = tmp_path_factory.mktemp("private")
    package.run_job(write(folder, **ROWS), folder / "run")
    return folder


def test_a_job_with_privacy_is_read_back(tmp_path: Path) -> None:
    job = read_job(write(tmp_path, **ROWS))
    assert job.protected == {"shop"}
    assert [job.grows_trees(name) for name in job.names] == [True, False]
    again = parse_job(job.to_toml(), "credit")
    assert (again.privacy, again.encode, again.trees, again.parties) == (
        job.privacy,
        job.encode,
        job.trees,
        job.parties,
    )


REFUSED = [
    ({"sections": '[privacy]\nepsilon = 1\nprotect = "everyone"'}, 'privacy.protect = "everyone" does not go with'),
    ({"sections": "[privacy]\nepsilon = 1"}, "have no ranges"),
    ({**ROWS, "model": 'loss = "poisson"', "label": "amount"}, "mechanism='gram' does not fit loss='poisson'"),
    ({**ROWS, "sections": '[privacy]\nepsilon = 1\nmechanism = "shares"'}, 'privacy.mechanism = "shares" does not'),
    ({**LABELS, "model": 'loss = "squared"', "label": "amount"}, "label_epsilon does not fit loss='squared'"),
    ({"sections": f"{LABELS['sections']}\n[encode]\npairs = 3"}, "encode.pairs is not for trees"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "said"), REFUSED, ids=[said[:30] for _, said in REFUSED])
def test_what_trees_cannot_guarantee_is_refused_in_one_line(parts: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepare(read_job(write(tmp_path, rows=60, **parts)))
    assert "\n" not in str(caught.value)
    if "ranges" not in said:
        assert said in str(caught.value)


def test_a_label_holder_that_is_away_cannot_count_as_average(trained: Path, tacit: Any) -> None:
    """Its trees do not add 0 to an average row, as a linear part would."""
    where = ("--from", "bank=http://127.0.0.1:9", "--degrade")
    answer = tacit("ask", trained / "run", "--data", trained / "shop.csv", *where)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "the average of trees is not" in answer.err


def test_the_plan_says_whose_rows_are_protected_and_whose_are_not(tmp_path: Path, tacit: Any) -> None:
    out = " ".join(tacit("plan", write(tmp_path, **ROWS)).out.split())
    assert "bank has boosted trees of its own columns, grown without noise" in out
    assert "each record of shop: epsilon 4 at delta 1e-05 (replace-one)" in out
    assert "the rows of bank: one score of each row is sent to the other parties" in out
    assert "rounds 2, fixed beforehand" in out
    assert "columns those of bank as they are" in out
    out = " ".join(tacit("plan", write(tmp_path, **LABELS)).out.split())
    assert "labels that were randomized once; the rows are not protected: boosted trees" in out
    assert "each label of bank: epsilon 3 at delta 0" in out


def test_the_model_is_that_of_the_estimator(trained: Path, tmp_path: Path) -> None:
    """The same noise on the same rows: the estimator is the outside oracle."""
    pandas = pytest.importorskip("pandas")
    job = write(tmp_path, **(ROWS | {"job": "seed = 5"}))
    run = package.run_job(job, tmp_path / "run", note=lambda remark: None)
    frames = {
        name: pandas.read_csv(tmp_path / f"{name}.csv").sort_values("customer", ignore_index=True)
        for name in ("bank", "shop")
    }
    late = frames["bank"]["default"].to_numpy()
    frames["bank"]["since"] = pandas.to_datetime(frames["bank"]["since"])
    tables = {"bank": frames["bank"][["age", "since"]], "shop": frames["shop"][["city", "visits", "zip"]]}
    model = VerticalBoostingClassifier(
        privacy=Privacy(epsilon=4, noise_seed=3),
        ranges={"visits": (0, 15), "zip": (0, 6)},
        categories={"city": ["Basel", "Bern", "Chur"]},
        random_state=5,
    ).fit(tables, late)
    bank, shop = run.model.parties
    assert isinstance(bank, TreePart)
    assert isinstance(shop, PartyModel)
    own = dict(zip(("bank", "shop"), model._parts, strict=True))
    assert bank.text == own["bank"].text
    np.testing.assert_allclose(shop.coef, own["shop"].coef, rtol=0, atol=1e-12)
    rows = load_rows(run.model, [tmp_path / "bank.csv", tmp_path / "shop.csv"])
    np.testing.assert_allclose(predict(run.model, rows).score, model.decision_function(tables), atol=1e-9)


def test_the_run_is_written_verified_explained_and_shown(trained: Path, tacit: Any) -> None:
    run, files = trained / "run", [trained / "bank.csv", trained / "shop.csv"]
    assert {path.name for path in (run / "model").iterdir()} == {"bank.json", "bank.txt", "shop.json", "joint.json"}
    assert tacit("verify", run).code == 0
    said = (run / "certificate.txt").read_text()
    assert "epsilon = 4" in said
    assert "the saved parts of the model of bank: the splits of trees" in said
    evaluation = json.loads((run / "evaluation.json").read_text())
    assert [(one["kind"], one["party"]) for one in evaluation["models"]] == [("joint", ""), ("alone", "bank")]
    joint, alone = (one["measures"]["auc"] for one in evaluation["models"])
    assert joint > alone + 0.05
    for party in ("bank", "shop"):
        record = json.loads(tacit("explain", run, *files, "--row", 3, "--party", party, "--json").out)
        added = record["constant"] + sum(one["adds"] for one in record["parties"])
        assert abs(added - record["score"]) < 1e-9
        view, own = record["view"], {one["party"]: one["adds"] for one in record["parties"]}[party]
        assert abs(sum(one["adds"] for one in view["columns"]) + view["own_constant"] - own) < 1e-9
    assert tacit("report", run).code == 0
    page = (run / "report.html").read_text()
    assert "bank has trees of its own columns, the others have curves" in page
    assert "What this run revealed" not in page
    with pytest.raises(InputError, match="a model of trees has no coefficients"):
        package.load(run).coef  # noqa: B018


def test_randomized_labels_protect_labels_alone_and_the_page_says_so(tmp_path: Path, tacit: Any) -> None:
    run = package.run_job(write(tmp_path, **LABELS), tmp_path / "run", note=lambda remark: None)
    assert run.model.loss == "logistic"
    assert run.certificate.private
    assert {claim.unit for claim in run.certificate.claims} == {"label"}
    with pytest.warns(UserWarning, match="the certificate does not cover predictions"):
        assert run.predict([tmp_path / "bank.csv", tmp_path / "shop.csv"]).probability is not None
    assert tacit("report", tmp_path / "run").code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Labels are protected, and no row is" in page
    assert "epsilon is infinite" not in page.split("certificate below")[0]


@pytest.mark.parametrize("parts", [ROWS, BOTH, LABELS], ids=["rows", "both", "labels"])
def test_a_run_that_stopped_goes_on_to_the_same_model(tmp_path: Path, parts: dict[str, str]) -> None:
    """Without a seed: the noise is repeated from the key in the checkpoint."""
    job = read_job(write(tmp_path, rows=200, **{k: v.replace("\nnoise_seed = 3", "") for k, v in parts.items()}))

    class StopError(Exception):
        pass

    def stop(row: Any) -> None:
        raise StopError

    with pytest.raises(StopError):
        package.run_job(job, tmp_path / "run", checkpoint_every=0, observe=stop, note=lambda remark: None)
    import shutil

    shutil.copytree(tmp_path / "run", tmp_path / "again")
    runs = [package.run_job(job, tmp_path / name, resume=True, note=lambda remark: None) for name in ("run", "again")]
    first, second = ([getattr(part, "text", None) or part.coef.tolist() for part in run.model.parties] for run in runs)
    assert first == second
    assert runs[0].model.constant == runs[1].model.constant
