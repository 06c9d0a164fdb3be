"""Boosted trees between sites: the trees of one process to the last bit, whatever dies or lies on the way."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.columns.raw import RawTable
from tacit.errors import RunError
from tacit.federation import leads, party_handler
from tacit.federation.budget import BudgetBook, Limit
from tacit.federation.consent import describe
from tacit.federation.protocol import (
    Answer,
    Answered,
    Begin,
    Numbers,
    Packet,
    Reason,
    Refused,
    Scores,
    Shaped,
    Step,
    decode_reply,
    decode_request,
    encode,
)
from tacit.federation.score_handler import PredictionRequest, ScoreHandler
from tacit.federation.site import read_text
from tacit.run.prepare import plan_job
from tacit.run.star import InProcess, Run
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import make_loss
from tacit.types import Shard
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_star import KilledError, run_to_the_end, trace
from tests.plans import feature_plan

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
pytest.importorskip("lightgbm", reason="needs tacit[trees]")

RUN, ROWS, NAMES = "run-00000001", 160, ("bank", "shop", "phone")


def write_files(folder: Path) -> dict[str, Path]:
    """Three parties with numbers, text, dates and blanks; every one lacks some rows, and each has its own order."""
    rng = np.random.default_rng(7)
    age, spent = rng.integers(18, 90, ROWS), rng.gamma(2.0, 50.0, ROWS).round(2)
    city, calls = rng.choice(["Basel", "Bern", "Chur"], ROWS), rng.poisson(4, ROWS)
    since = np.datetime64("2015-01-01") + rng.integers(0, 3000, ROWS)
    score = 1.5 * (city == "Bern") + (age > 50) * (calls > 3) + 0.02 * spent - 2.0 + 0.5 * rng.normal(size=ROWS)
    late, amount = np.where(score > 0, "yes", "no"), np.exp(score / 2).round(4)
    size = np.array(["small", "middle", "large"])[np.digitize(score, [-0.5, 0.7])]
    tables = {
        "bank": ("customer,age,since,late,amount,size", (age, since, late, amount, size)),
        "shop": ("customer,spent,city", (np.where(rng.random(ROWS) < 0.1, "", spent.astype(str)), city)),
        "phone": ("customer,calls", (calls,)),
    }
    files = {}
    for name, (head, columns) in tables.items():
        chosen = rng.permutation(ROWS)[: ROWS - 10]
        lines = [",".join([f"c{row:03d}", *(str(column[row]) for column in columns)]) for row in chosen]
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join([head, *lines]) + "\n")
    return files


def job_text(
    files: dict[str, Path],
    engine: str,
    model: str = "",
    label: str = "late",
    top: str = "rounds = 3",
    more: str = "",
    columns: Any = MappingProxyType({}),
) -> str:
    lines = [f'[job]\nname = "trees"\nengine = "{engine}"', top, '[model]\nkind = "trees"', model, more]
    for name, path in files.items():
        lines.append(f'[[party]]\nname = "{name}"\nid = "customer"')
        lines += [] if engine == "flare" else [f'data = "{path}"']
        lines += [f'label = "{label}"\nfeatures = ["age", "since"]'] if name == "bank" else [columns.get(name, "")]
    return "\n".join(lines) + "\n"


def in_process(folder: Path, files: dict[str, Path], **parts: Any) -> Path:
    job = folder / "job.toml"
    job.write_text(job_text(files, "in-process", **parts))
    assert main(["train", str(job), "--out", str(folder / "one"), "--quiet"]) == 0
    return folder / "one"


def texts(folder: Path, names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """Each party's trees; below a folder of sites each at its own."""
    own = {name: folder / name / RUN if (folder / name).is_dir() else folder for name in names}
    return {name: (path / "model" / f"{name}.txt").read_text() for name, path in own.items()}


CASES: dict[str, dict[str, str]] = {
    "two classes": {},
    "three classes": {"model": 'loss = "softmax"\nclasses = 3', "label": "size"},
    "numbers": {"model": 'loss = "squared"', "label": "amount"},
    "counts": {"model": 'loss = "poisson"', "label": "amount"},
    "under masks": {"top": "rounds = 3\nsecure_aggregation = true"},
    "quantile": {"model": 'loss = "quantile"\nquantile = 0.8', "label": "amount", "top": "rounds = 2"},
}


@pytest.mark.parametrize("parts", CASES.values(), ids=CASES)
def test_sites_grow_the_trees_of_one_process(tmp_path: Path, parts: dict[str, str]) -> None:
    files = write_files(tmp_path)
    one = in_process(tmp_path, files, **parts)
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", **parts))
    assert texts(tmp_path / "sites") == texts(one)
    lead = tmp_path / "sites" / "bank" / RUN
    for name in NAMES:
        own = tmp_path / "sites" / name / RUN
        assert (own / "model" / f"{name}.json").read_text() == (one / "model" / f"{name}.json").read_text()
        assert sorted(path.name for path in (own / "model").glob("*.txt")) == [f"{name}.txt"]
    joint, known = (json.loads((folder / "model" / "joint.json").read_text()) for folder in (lead, one))
    assert joint == known
    assert trace(lead) == trace(one)
    history, wanted = (json.loads((folder / "result.json").read_text())["boosting"] for folder in (lead, one))
    assert history == wanted
    assert sum(len(text) for text in texts(one).values()) > 10_000, "there are no trees to compare"


def test_numbers_of_each_row_travel_in_four_bytes(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", top="rounds = 1"))
    asked, answered = next((one.asked, one.answered) for one in loop.carried if isinstance(one.asked, Answer))
    down, up = asked.message.arrays, answered.message.arrays
    rows = up["added"].shape[0]
    assert {name: numbers.kind for name, numbers in up.items()} == {"added": "f4"}
    assert {name: numbers.kind for name, numbers in down.items()} == {
        "labels": "f8", "constant": "f8", "margin": "f4", "trees": "f8",
    }  # fmt: skip
    assert len(up["added"].content) == 4 * rows
    assert set(down["labels"].array().tolist()) == {-1.0, 1.0}
    assert len(down["labels"].content) == 8 * (rows - round(0.15 * rows))  # those of held-out rows are never sent


def test_whole_numbers_as_ids_are_ordered_as_in_one_process(tmp_path: Path) -> None:
    """Numbers sort otherwise than their texts, and which rows are held out depends on the order."""
    files = write_files(tmp_path)
    for path in files.values():
        path.write_text(re.sub(r"^c0*(\d)", r"\1", path.read_text(), flags=re.M))
    one = in_process(tmp_path, files, top="rounds = 1")
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", top="rounds = 1"))
    assert texts(tmp_path / "sites") == texts(one)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_trees_are_the_same_through_the_bytes_of_the_protocol(loss: str) -> None:
    """Of several classes, too, which the estimators have: the sides of one process, every message as it travels."""
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(150, 2)) for _ in range(3)]
    sums = tables[0][:, 0] * tables[1][:, 0] + tables[2].sum(axis=1)
    codes = np.digitize(sums, [-0.7, 0.7]).astype(np.float64)
    labels = codes if loss == "softmax" else np.where(codes > 0, 1.0, -1.0)
    shards = [Shard(n, RawTable(n, ("a", "b"), own), ("a", "b")) for n, own in zip(NAMES, tables, strict=True)]
    plan = feature_plan(
        loss=loss, penalty="none", alpha=0.0, fit_intercept=False, tol=1e-4, max_rounds=3, seed=3, party_names=NAMES,
        rows=150, columns=(2, 2, 2), trees=TreeSettings(make_loss(loss, classes=3), trees=(4,)),
    )  # fmt: skip
    plain, carried = Run(plan, shards, labels), Run(plan, shards, labels)
    carried.engine = Wire(carried.parties)
    texts_of = [[part.text for part in run.go().model.parts] for run in (plain, carried)]
    assert texts_of[0] == texts_of[1]
    assert (
        carried.state.trace[-1].bytes_up
        == plain.state.trace[-1].bytes_up
        == 4 * 150 * 2 * plan.problem.trees.loss.outputs
    )


class Wire(InProcess):
    """Hands messages over as sites do: as bytes."""

    def exchange(self, message: Any) -> list[Any]:
        asked = decode_request(encode(Answer(message=Packet.of(message))))
        arrived = asked.message.message("coordinator", singles=True)
        replies = [encode(Answered(message=Packet.of(party.answer(arrived)))) for party in self.parties]
        names = [party.name for party in self.parties]
        return [
            decode_reply(reply, asked).message.message(name, singles=True)
            for reply, name in zip(replies, names, strict=True)
        ]


# --- what dies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [None, "bank", "shop"])
def test_a_run_that_was_killed_anywhere_ends_with_the_same_trees(tmp_path: Path, who: str | None) -> None:
    files = write_files(tmp_path)
    text = job_text(files, "flare", top="rounds = 2")
    calm = Loopback(files, tmp_path / "calm")
    total = run_to_the_end(calm, text, -1, True, None)
    first = next(place for place, one in enumerate(calm.carried, 1) if isinstance(one.asked, Answer))
    for point, before in ((first, False), (first + 2, True), (total - 5, False)):
        folder = tmp_path / f"{point}"
        run_to_the_end(Loopback(files, folder), text, point, before, who)
        assert texts(folder) == texts(tmp_path / "calm")


def test_a_message_that_comes_twice_gets_the_same_bytes_and_another_one_none(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 2:
            raise KilledError

    loop.disturb = stop
    with pytest.raises(KilledError):
        loop.run(job_text(files, "flare"))
    last = next(one for one in reversed(loop.carried) if isinstance(one.asked, Answer) and one.name == "shop")
    assert loop.sites["shop"].handle(last.asked, "bank") == last.answered
    other = last.asked
    other.message.arrays["margin"] = moved(other.message.arrays["margin"])
    assert loop.sites["shop"].handle(other, "bank") == Refused(reason=Reason.SECOND)


def moved(numbers: Numbers) -> Numbers:
    """The same numbers, each of another row."""
    return Numbers.of(np.roll(numbers.array(), 7))


# --- what lies --------------------------------------------------------------------------------------------


def added(*values: float, size: int = 0, kind: Any = np.float32) -> Any:
    """Change an answer of so many rows to these numbers."""

    def change(message: Any) -> None:
        rows = size or message.arrays["added"].shape[0]
        message.arrays["added"] = Numbers.of(np.resize(np.array(values, dtype=kind), rows))

    return change


LIES = {
    "nan": added(np.nan),
    "infinite": added(np.inf),
    "short": added(0.0, size=7),
    "float64": added(0.0, kind=np.float64),
    "words": added(0, kind=np.uint64),
    "bytes": added(0, kind=np.uint8),
    "missing": lambda message: message.arrays.pop("added"),
    "cut": lambda message: message.arrays.update(added=Numbers("f4", [5], b"")),
    "old": lambda message: setattr(message, "round", 0),
    "other kind": lambda message: setattr(message, "kind", "start"),
}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of three parties, and a run of two rounds that nothing disturbed."""
    folder = tmp_path_factory.mktemp("calm")
    files = write_files(folder)
    Loopback(files, folder / "sites").run(job_text(files, "flare", top="rounds = 2"))
    return folder


def files_of(folder: Path) -> dict[str, Path]:
    return {name: folder / f"{name}.csv" for name in NAMES}


@pytest.mark.parametrize("change", LIES.values(), ids=LIES)
def test_a_party_that_sends_nonsense_is_named_in_one_line(calm: Path, tmp_path: Path, change: Any) -> None:
    files = files_of(calm)
    loop = Loopback(files, tmp_path / "sites")

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if name == "shop" and isinstance(reply, Answered) and reply.message.kind == "step":
            change(reply.message)

    loop.after = after
    with pytest.raises(RunError, match="shop") as caught:
        loop.run(job_text(files, "flare", top="rounds = 2"))
    assert "\n" not in str(caught.value)


def test_after_nonsense_the_run_goes_on_to_the_same_trees(calm: Path, tmp_path: Path) -> None:
    files, lies = files_of(calm), [LIES["nan"]]
    loop = Loopback(files, tmp_path / "sites")

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if lies and name == "shop" and isinstance(reply, Answered) and reply.message.round == 2:
            lies.pop()(reply.message)

    loop.after = after
    with pytest.raises(RunError, match="shop"):
        loop.run(job_text(files, "flare", top="rounds = 2"))
    loop.restart()
    loop.run(job_text(files, "flare", top="rounds = 2"))
    assert texts(tmp_path / "sites") == texts(calm / "sites")


QUESTIONS = {
    "short": ("margin", np.zeros(5, dtype=np.float32)),
    "nan": ("margin", np.array([np.nan], dtype=np.float32)),
    "float64": ("margin", np.zeros(5)),
    "labels of another loss": ("labels", np.full(1, 0.5)),
    "no margin": ("margin", np.zeros(0, dtype=np.float32)),
    "half a tree": ("trees", np.array([0.5])),
    "too many trees": ("trees", np.array([1e9])),
    "huge labels": ("labels", np.array([1e90, 0.0])),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_lead_that_sends_nonsense_gets_no_answer(calm: Path, tmp_path: Path, question: tuple[str, Any]) -> None:
    files, (name, array) = files_of(calm), question
    loop = Loopback(files, tmp_path / "sites")

    def disturb(caller: str, site: str, request: Step) -> None:
        if isinstance(request, Answer):
            shape = request.message.arrays[name].shape if name == "labels" else array.shape
            request.message.arrays[name] = Numbers.of(np.resize(array, shape))

    loop.disturb = disturb
    with pytest.raises(RunError, match=r"party 'shop': it (stopped|was sent a message)"):
        loop.run(job_text(files, "flare", **(CASES["numbers"] if 1e90 in array.tolist() else {})))
    assert not [one for one in loop.carried if isinstance(one.answered, Answered)]


def test_margins_of_other_rows_make_other_trees_and_nothing_else_leaves(calm: Path, tmp_path: Path) -> None:
    files = files_of(calm)
    loop, seen = Loopback(files, tmp_path / "sites"), set()

    def disturb(caller: str, site: str, request: Step) -> None:
        if isinstance(request, Answer) and id(request) not in seen and "labels" in request.message.arrays:
            seen.add(id(request))
            request.message.arrays["labels"] = moved(request.message.arrays["labels"])

    loop.disturb = disturb
    loop.run(job_text(files, "flare", top="rounds = 2"))
    got, wanted = texts(tmp_path / "sites"), texts(calm / "sites")
    assert got["shop"] != wanted["shop"]
    sent = {name for one in loop.carried if isinstance(one.asked, Answer) for name in one.answered.message.arrays}
    assert sent == {"added"}


def test_lies_about_sizes_are_refused_in_one_line(calm: Path, tmp_path: Path) -> None:
    files = files_of(calm)
    loop = Loopback(files, tmp_path / "party")

    def fewer(caller: str, name: str, request: Step, reply: Step) -> None:
        if name == "shop" and isinstance(reply, Shaped):
            reply.rows -= 1

    loop.after = fewer
    with pytest.raises(RunError, match="the parties have different numbers of rows"):
        loop.run(job_text(files, "flare"))
    loop = Loopback(files, tmp_path / "lead")

    def wider(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Begin):
            request.columns[1] += 1

    loop.disturb = wider
    with pytest.raises(RunError, match="party 'shop': it was told different sizes than its own"):
        loop.run(job_text(files, "flare"))
    assert not [one for one in loop.carried if isinstance(one.asked, Answer)]


# --- LightGBM ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"phone": "3.3.5"}, "party 'phone': it has a different version of LightGBM, which grows other trees: install"),
        ({"shop": ""}, "party 'shop': LightGBM is missing there, or cannot be loaded: install it with pip install"),
        ({"bank": ""}, "party 'bank': LightGBM is missing there"),
    ],
)
def test_another_lightgbm_is_refused_before_anything_is_matched(
    calm: Path, tmp_path: Path, versions: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, at = files_of(calm), ["bank"]
    loop = Loopback(files, tmp_path / "sites")
    loop.disturb = lambda caller, name, request: at.__setitem__(0, name)
    for module in (leads, party_handler):
        monkeypatch.setattr(module, "lightgbm_version", lambda: versions.get(at[0], "4.7.0"))
    with pytest.raises(RunError) as caught:
        loop.run(job_text(files, "flare"))
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    assert {type(one.asked).__name__ for one in loop.carried} <= {"Open"}


# --- what people are asked, and what comes of it -----------------------------------------------------------


def test_consent_says_plainly_that_nothing_is_private(calm: Path, tmp_path: Path) -> None:
    files = files_of(calm)
    job = read_text(job_text(files, "flare"))
    plan = plan_job(job, 1000, (2, 2, 1), 0)
    book = BudgetBook(tmp_path / "ledger.json", {"record": Limit(3.0, 1e-6)}, "shop")
    shop, bank = (" ".join(" ".join(describe(job, plan, name, book)).split()) for name in ("shop", "bank"))
    for said in (shop, bank):
        assert "model boosted trees, logistic loss, at most 15 leaves" in said
        assert "claim NOT differentially private" in said
        assert "no privacy - nothing is claimed for any row: epsilon is infinite" in said
        assert "your data - nothing is proven for your data" in said
        assert "it is refused" in said  # by a budget, unless allow_not_private is set
        assert "trees are grown by LightGBM" in said
    assert "bank can reconstruct columns of yours from what you send" in shop
    assert "you get the labels of the rows that trees are grown on, as they are, and in each round their joint" in shop
    assert "you send in each round what its new trees add to the score of each of 1000 rows to bank" in shop
    assert "size about 4 kB in each round; 3.4 kB come back" in shop
    assert "every other party gets the labels of the rows that trees are grown on, as they are" in bank
    assert "you can reconstruct columns of the others from their answers" in bank


def test_sizes_are_told_before_encoding_as_there_is_none(calm: Path, tmp_path: Path) -> None:
    loop = Loopback(files_of(calm), tmp_path / "sites")
    handler = party_handler.PartyHandler.open(loop.sites["shop"], opening(calm), "bank")
    assert handler.describe("customer")[3].endswith("; the number of your columns")


def opening(folder: Path) -> Any:
    text = job_text(files_of(folder), "flare")
    return leads.Open(run=RUN, job=text, version=leads.__version__, lightgbm=leads.lightgbm_version())


def predicted(text: str) -> dict[str, list[float]]:
    """The scores of each id: one number, or one for each class."""
    rows = csv.DictReader(text.splitlines())
    return {row["customer"]: [float(row[name]) for name in row if name.startswith("score")] for row in rows}


def test_the_lead_gets_the_predictions_of_one_process(
    calm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(calm)
    shutil.copytree(calm / "sites", tmp_path / "sites")
    one = in_process(tmp_path, files, top="rounds = 2")
    capsys.readouterr()
    assert main(["predict", str(one), *map(str, files.values())]) == 0
    wanted = predicted(capsys.readouterr().out)
    loop = Loopback(files, tmp_path / "sites")
    assert loop.run(PredictionRequest(RUN, NAMES).to_toml(), "predict-0001") == 1
    got = predicted((tmp_path / "sites/bank/predict-0001/predictions.csv").read_text())
    assert got.keys() == wanted.keys()
    np.testing.assert_allclose([got[key] for key in wanted], list(wanted.values()), rtol=0, atol=1e-9)
    sent = [one.answered.message.arrays["share"] for one in loop.carried if isinstance(one.asked, Scores)]
    assert {numbers.kind for numbers in sent} == {"u8"}  # under masks


@pytest.mark.parametrize("names", [NAMES, NAMES[:2]], ids=["under masks", "as they are"])
def test_scores_of_several_classes_are_added_up_between_sites(
    tmp_path: Path, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: path for name, path in write_files(tmp_path).items() if name in names}
    loop, parts = Loopback(files, tmp_path / "sites"), CASES["three classes"] | {"top": "rounds = 1"}
    loop.run(job_text(files, "flare", **parts))
    one = in_process(tmp_path, files, **parts)
    capsys.readouterr()
    assert main(["predict", str(one), *map(str, files.values())]) == 0
    wanted = capsys.readouterr().out
    loop.run(PredictionRequest(RUN, names).to_toml(), "predict-0001")
    got = (tmp_path / "sites/bank/predict-0001/predictions.csv").read_text()
    ids = list(predicted(wanted))
    assert sorted(ids) == sorted(predicted(got))
    scores = [np.array([predicted(text)[key] for key in ids]) for text in (got, wanted)]
    assert scores[0].shape == (len(ids), 3)
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-9)
    chosen = [
        {row["customer"]: row["prediction"] for row in csv.DictReader(text.splitlines())} for text in (got, wanted)
    ]
    assert chosen[0] == chosen[1]
    sent = [one.answered.message.arrays["share"] for one in loop.carried if isinstance(one.asked, Scores)]
    words = [2] if len(names) > 2 else []  # of 64 bits for each number under masks
    assert [(numbers.kind, numbers.shape) for numbers in sent] == [
        ("u8" if words else "f8", [*words, len(ids), 3]) for _ in names[1:]
    ]


def test_consent_to_predictions_of_several_classes_counts_their_scores(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", **(CASES["three classes"] | {"top": "rounds = 1"})))
    shop = loop.sites["shop"]
    text = PredictionRequest(RUN, NAMES).to_toml()
    handler = ScoreHandler.open(shop, leads.Open(run="predict-0001", job=text, version=leads.__version__), "bank")
    handler.prepare()
    said = " ".join(" ".join(handler.describe(90)).split())
    assert "you send 3 scores, one of each class, for each of 90 rows, once, under masks" in said
    job = read_text(job_text(files, "flare", **CASES["three classes"]))
    consent = describe(job, plan_job(job, 1000, (2, 2, 1), 0), "shop", BudgetBook(tmp_path / "ledger.json", {}, "shop"))
    told = " ".join(" ".join(consent).split())
    assert "model boosted trees, softmax loss, at most 15 leaves" in told
    assert "size about 12 kB in each round; 10.2 kB come back" in told  # 4 bytes for each of 1000 rows and 3 classes


@pytest.mark.parametrize("shape", [(1,), (1, 2), (1, 4)])
def test_scores_of_another_number_of_classes_are_refused_in_one_line(tmp_path: Path, shape: tuple[int, ...]) -> None:
    files = {name: path for name, path in write_files(tmp_path).items() if name in NAMES[:2]}
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare", **(CASES["three classes"] | {"top": "rounds = 1"})))

    def after(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(request, Scores) and isinstance(reply, Answered):
            rows = reply.message.arrays["share"].shape[0]
            reply.message.arrays["share"] = Numbers.of(np.zeros((rows, *shape[1:])))

    loop.after = after
    with pytest.raises(RunError, match=r"shop did not send 3 scores for each of \d+ rows$"):
        loop.run(PredictionRequest(RUN, NAMES[:2]).to_toml(), "predict-0001")


@pytest.mark.parametrize("change", ["foreign", "damaged", "missing"])
def test_a_damaged_text_of_trees_stops_its_owner_alone(calm: Path, tmp_path: Path, change: str) -> None:
    shutil.copytree(calm / "sites", tmp_path / "sites")
    own = tmp_path / "sites" / "shop" / RUN / "model" / "shop.txt"
    text = own.read_text()
    foreign = (tmp_path / "sites" / "phone" / RUN / "model" / "phone.txt").read_text()
    own.write_text({"foreign": foreign, "damaged": text[: len(text) // 2], "missing": ""}[change])
    loop = Loopback(files_of(calm), tmp_path / "sites")
    with pytest.raises(RunError, match="party 'shop': it stopped; tacit status there says why"):
        loop.run(PredictionRequest(RUN, NAMES).to_toml(), "predict-0001")
    line = (tmp_path / "sites/shop/predict-0001/problem.txt").read_text()
    assert line.count("\n") == 1
    assert "cannot use" in line
    assert "shop.txt" in line


# --- with privacy -----------------------------------------------------------------------------------------

COLUMNS = {
    "shop": '[party.columns]\nspent = { low = 0, high = 300 }\ncity = { values = ["Basel", "Bern", "Chur"] }',
    "phone": "[party.columns]\ncalls = { low = 0, high = 12 }",
}
PRIVATE: dict[str, dict[str, Any]] = {
    "rows": {"more": "[privacy]\nepsilon = 8\nnoise_seed = 5", "columns": COLUMNS},
    "rows and labels": {"more": "[privacy]\nepsilon = 8\nlabel_epsilon = 4\nnoise_seed = 5", "columns": COLUMNS},
    "labels": {"more": '[privacy]\nepsilon = "none"\nlabel_epsilon = 4\nnoise_seed = 5'},
}


def parts_of(folder: Path) -> dict[str, Any]:
    """Each party's part of the model as it was written: trees as text, coefficients as numbers."""
    found: dict[str, Any] = {}
    for name in NAMES:
        own = (folder / name / RUN if (folder / name).is_dir() else folder) / "model"
        record = json.loads((own / f"{name}.json").read_text())
        numbers = [*record.get("coef", []), record["offset"], record["bend"]]
        found[name] = (own / f"{name}.txt").read_text() if record.get("kind") == "trees" else "", numbers
    return found


@pytest.mark.parametrize("parts", PRIVATE.values(), ids=PRIVATE)
def test_private_trees_between_sites_are_those_of_one_process(tmp_path: Path, parts: dict[str, Any]) -> None:
    files = write_files(tmp_path)
    one = in_process(tmp_path, files, **parts)
    Loopback(files, tmp_path / "sites").run(job_text(files, "flare", **parts))
    got, wanted = parts_of(tmp_path / "sites"), parts_of(one)
    for name in NAMES:
        assert got[name][0] == wanted[name][0]
        np.testing.assert_allclose(got[name][1], wanted[name][1], rtol=0, atol=1e-12)
    trees = sorted(path.name for path in (tmp_path / "sites").glob("*/*/model/*.txt"))
    assert trees == (["bank.txt"] if "columns" in parts else ["bank.txt", "phone.txt", "shop.txt"])
    lead = tmp_path / "sites" / "bank" / RUN
    assert trace(lead) == trace(one)


@pytest.mark.parametrize("parts", PRIVATE.values(), ids=PRIVATE)
def test_a_private_run_that_was_killed_repeats_its_noise(tmp_path: Path, parts: dict[str, Any]) -> None:
    """Without a seed, so that other noise would be seen: everybody dies after the first answers, once and not again."""
    files = write_files(tmp_path)
    text = job_text(files, "flare", **parts).replace("noise_seed = 5", "")
    loop, sent = Loopback(files, tmp_path / "sites"), list[Any]()

    def stop(caller: str, name: str, request: Step, reply: Step) -> None:
        if isinstance(reply, Answered):
            sent.append((name, reply.message.round, reply.message.arrays))
            if len(sent) == 2:
                raise KilledError

    loop.after = stop
    with pytest.raises(KilledError):
        loop.run(text)
    loop.restart()
    loop.run(text)
    again = [(name, arrays) for name, round_, arrays in sent[2:] if round_ == 1]
    assert dict(again) == {name: arrays for name, _, arrays in sent[:2]}


def test_protected_parties_need_no_lightgbm_and_get_no_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path)
    loop, at = Loopback(files, tmp_path / "sites"), ["bank"]
    real = leads.lightgbm_version()
    loop.disturb = lambda caller, name, request: at.__setitem__(0, name)
    loop.after = lambda *_: at.__setitem__(0, "bank")
    for module in (leads, party_handler):
        monkeypatch.setattr(module, "lightgbm_version", lambda: real if at[0] == "bank" else "")
    loop.run(job_text(files, "flare", **PRIVATE["rows"]))
    sent = {name for one in loop.carried if isinstance(one.asked, Answer) for name in one.asked.message.arrays}
    assert sent == {"offset", "labels", "side"}
