"""The page of every organisation in a run between sites: what it may hold, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from tacit.cli.main import main
from tacit.data.samples import JOB, write_samples
from tacit.errors import InputError
from tacit.federation.budget import BudgetBook, Limit, events_of
from tacit.federation.kit import Kit
from tacit.federation.releases import log_question, log_step
from tacit.federation.site import AllowAll
from tacit.federation.site_report import load_site, site_page
from tacit.report.run_words import number
from tests.federation.loopback import Loopback

RUN = "credit-0123456789ab"
PARTIES = ("bank", "shop", "phone")
COMMON = {
    "Who trained what",
    "How good it is",
    "What {} contributed",
    "What left this machine",
    "Privacy budget of {}",
    "Privacy certificate",
}
LEADS = COMMON | {"How the run went"}  # of who led
PRIVATE = "[privacy]\nepsilon = 4.0\n"
RANGES = {
    "bank": "income = { low = 10000, high = 100000 }\nage = { low = 18, high = 80 }",
    "shop": "basket = { low = 0, high = 150 }\nreturns = { low = 0, high = 10 }",
    "phone": 'calls = { low = 0, high = 80 }\ncontract = { values = ["prepaid", "monthly", "yearly"] }',
}
_opened: list[str] = []
_listening = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event == "open" and isinstance(arguments[0], str | bytes):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_hear)


@contextmanager
def files_opened() -> Iterator[list[str]]:
    """The paths of all files that are opened meanwhile."""
    global _listening
    _opened.clear()
    _listening = True
    try:
        yield _opened
    finally:
        _listening = False


class Booked(AllowAll):
    """Takes part, and keeps a budget in its home."""

    def __init__(self, home: Path, runs: Path) -> None:
        home.mkdir(parents=True)
        (home / "site.toml").write_text("[budget]\nepsilon = 9\ndelta = 1e-5\nallow_not_private = true\n")
        limits = {"record": Limit(9, 1e-5)}
        self.book = BudgetBook(home / "ledger.json", limits, home.name, allow_not_private=True, runs=runs)

    def allow(self, run: str, job: Any, plan: Any, party: str, bound: Any) -> None:
        self.book.reserve(run, events_of(plan, party))

    def released(self, run: str, number: int, digest: str) -> None:
        self.book.released(run, number, digest)


def trained(place: Path, text: str, files: dict[str, Path]) -> Path:
    """Homes of three organisations after a run, as they would be on three machines."""
    homes = place / "homes"
    authorizers = {name: Booked(homes / name, place / "runs" / name) for name in PARTIES}
    loop = Loopback(files, place / "runs", authorizers)
    loop.run(text, RUN)
    for name in PARTIES:
        shutil.move(place / "runs" / name, homes / name / "jobs")
    for one in loop.carried:
        sizes = (len(one.request), len(one.reply))
        asked, caller = (cast("Kit", SimpleNamespace(logs=homes / name / "logs")) for name in (one.name, one.caller))
        log_step(asked, RUN, one.asked, one.answered, one.caller, *sizes, 0.0)
        log_question(caller, RUN, one.asked, one.answered, one.name, sizes[1], sizes[0], 0.0)
    return homes


def sample_paths(place: Path) -> dict[str, Path]:
    place.mkdir(exist_ok=True)
    write_samples(place, trained=150, new=10)
    return {name: place / f"{name}.csv" for name in PARTIES}


def columns_job(privacy: str = "", model: str = "") -> str:
    text = JOB.replace('loss = "logistic"', f'loss = "logistic"\n{model}\n{privacy}')
    for name, ranges in RANGES.items() if privacy else ():
        if name == "bank" and "trees" in model:
            continue  # which grows them of its columns as they are
        text = re.sub(rf'(name = "{name}"\n(?:[a-z]+ = .*\n)+)', rf"\1[party.columns]\n{ranges}\n", text)
    return text


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Homes after a run without noise, one with noise, and one of parties that hold different rows."""
    place = tmp_path_factory.mktemp("sites")
    files = sample_paths(place)
    rows = {}
    whole = pd.read_csv(files["bank"]).drop(columns="customer")
    for at, name in enumerate(PARTIES):
        rows[name], table = place / f"{name}-rows.csv", whole.iloc[at::3]
        table.assign(default=(table["default"] == "yes").astype(int)).to_csv(rows[name], index=False)
    nodes = "".join(f'[[party]]\nname = "{name}"\nlabel = "default"\n' for name in PARTIES)
    split = f'[job]\nname = "credit"\nengine = "flare"\nsplit = "samples"\n[model]\n[graph]\nkind = "complete"\n{nodes}'
    return {
        "plain": trained(place / "plain", columns_job(), files),
        "curves": trained(place / "curves", columns_job(model='terms = "spline"'), files),
        "private": trained(place / "private", columns_job(PRIVATE), files),
        "samples": trained(place / "samples", split, rows),
        "trees": trained(place / "trees", columns_job(model='kind = "trees"'), files),
        "private trees": trained(place / "private-trees", columns_job(PRIVATE, 'kind = "trees"'), files),
    }


def page_of(home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    run = home / "jobs" / RUN
    assert main(["report", str(run)]) == 0, capsys.readouterr().err
    page = run / "report.html"
    assert page.stat().st_mode & 0o077 == 0
    return page.read_text()


def words_of(page: str) -> str:
    """What a reader sees, with the words of drawings; no style, no lines."""
    return re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", " ", page, flags=re.S))


def holds(page: str, value: float) -> bool:
    """Whether a number stands on a page, in the digits that pages show."""
    return re.search(rf"(?<![\d.]){re.escape(number(value))}(?!\d)", words_of(page)) is not None


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["plain", "curves", "private", "samples", "trees", "private trees"])
@pytest.mark.parametrize("party", PARTIES)
def test_a_page_has_its_sections_and_is_made_of_its_own_home_alone(
    homes: dict[str, Path], kind: str, party: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home = homes[kind] / party
    with files_opened() as opened:
        page = page_of(home, capsys)
    root = str(homes[kind].parent.parent)
    strange = [path for path in opened if path.startswith(root) and not path.startswith(str(home) + "/")]
    assert strange == []
    assert any(path.startswith(str(home)) for path in opened)
    wanted = LEADS if party == "bank" else COMMON
    assert set(re.findall(r"<h2>(.*?)</h2>", page)) == {title.format(party) for title in wanted}


@pytest.mark.parametrize("kind", ["plain", "curves", "private"])
@pytest.mark.parametrize("party", PARTIES)
def test_a_page_holds_nothing_of_the_others_parts(
    homes: dict[str, Path], kind: str, party: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(homes[kind] / party, capsys)
    for other in set(PARTIES) - {party}:
        part = json.loads((homes[kind] / other / "jobs" / RUN / "model" / f"{other}.json").read_text())
        sources = [name for name in pd.read_csv(homes[kind].parent.parent / f"{other}.csv") if name != "customer"]
        for name in {*part["columns"], *sources} - {"default"}:  # which the job names
            assert not re.search(rf"\b{re.escape(name)}\b", words_of(page)), (other, name)
        own = "".join(path.read_text(errors="replace") for path in (homes[kind] / party).rglob("*") if path.is_file())
        assert not [value for value in part["coef"] if value and repr(value) in own]  # so no page of it can hold them
    if party != "bank":
        joint = json.loads((homes[kind] / "bank" / "jobs" / RUN / "model" / "joint.json").read_text())
        trace = lines_of(homes[kind] / "bank" / "jobs" / RUN / "trace.jsonl")
        hidden = [joint["constant"], *(row["objective"] for row in trace if isinstance(row["objective"], float))]
        assert not [value for value in hidden if value and repr(value) in own]
        assert "is positive" not in page  # what the labels are called is the label holder's


def test_the_own_part_is_there(homes: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    page = words_of(page_of(homes["plain"] / "shop", capsys))
    part = json.loads((homes["plain"] / "shop" / "jobs" / RUN / "model" / "shop.json").read_text())
    for name, value in zip(part["columns"], part["coef"], strict=True):
        assert name in page
        assert holds(page, value)
    assert "numbers of training" in page
    drawn = page_of(homes["curves"] / "shop", capsys)
    assert drawn.count("<svg") == 2  # its two columns
    assert "basket" in drawn


def test_what_left_is_what_the_log_says(homes: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(homes["plain"] / "shop" / "logs" / "steps.jsonl")
    answers = [one for one in lines if one["step"] == "Answer"]
    page = words_of(page_of(homes["plain"] / "shop", capsys))
    row = re.search(r"numbers of training\s+bank\s+(\d+)\s+([\d.]+) kB", page)
    assert row is not None
    assert int(row[1]) == len(answers)
    assert float(row[2]) == pytest.approx(sum(one["bytes_out"] for one in answers) / 1000, rel=0.01)
    own = load_site(homes["plain"] / "shop" / "jobs" / RUN)
    assert own.about["answers"] == len({one["number"] for one in answers})


def test_the_budget_is_the_books(homes: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    home = homes["private"] / "shop"
    book = BudgetBook(home / "ledger.json", {"record": Limit(9, 1e-5)}, "shop", runs=home / "jobs")
    spent = book.standings(dict.fromkeys(("label", "record", "person", "column"), ()))[0].before
    assert 3 < spent <= 9
    said = re.search(r"epsilon ([\d.]+) of 9 is spent", words_of(page_of(home, capsys)))
    assert said is not None
    assert float(said[1]) == pytest.approx(spent, rel=1e-3)
    assert "outside the budget" not in page_of(home, capsys)
    for kind, party in (("plain", "shop"), ("private", "bank")):  # whose rows nothing protects
        assert "it stands outside the budget" in page_of(homes[kind] / party, capsys)


def test_an_evaluation_is_shown_where_one_was_left(homes: dict[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "shop"
    shutil.copytree(homes["plain"] / "shop", home)
    run = home / "jobs" / RUN
    assert "was not told how good" in site_page(load_site(run))
    record = {"auc": {"value": 0.8123, "interval": [0.75, 0.86], "rows": 61}, "someone": "else", "log_loss": 0.5}
    (run / "evaluation.json").write_text(json.dumps(record))
    page = words_of(site_page(load_site(run)))
    assert re.search(r"AUC ↑\s+0.8123\s+0.7500 to 0.8600\s+61", page)
    assert "its AUC is 0.8123" in page
    assert "someone" not in page


def test_a_part_that_is_not_there_or_damaged_is_one_line(homes: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has not ended here"):
        load_site(tmp_path)
    run = tmp_path / "jobs" / RUN
    shutil.copytree(homes["plain"] / "shop" / "jobs" / RUN, run)
    (run / "about.json").write_text('{"lead": "bank", "parties": []}')
    with pytest.raises(InputError, match="older version"):
        load_site(run)
    (run / "about.json").write_text("{")
    with pytest.raises(InputError, match=r"about\.json"):
        load_site(run)


def test_whose_columns_are_drawn_is_not_chosen_on_such_a_page(
    homes: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(homes["plain"] / "shop" / "jobs" / RUN), "--party", "bank"]) == 2
    assert "--party is not used here" in capsys.readouterr().err
