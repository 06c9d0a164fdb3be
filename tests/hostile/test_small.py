"""Jobs, files and ledgers of an attacker: texts that take long to read, names that act, budgets that are put back."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.errors import InputError, RunError
from tacit.federation import ledger_file
from tacit.federation.budget import BudgetBook, Limit
from tacit.federation.site import read_text
from tacit.files import DEEPEST, MOST_BYTES, read_toml
from tacit.job import read_job
from tacit.privacy import accountant
from tacit.privacy.events import UNITS, Event, GaussianRelease
from tacit.text import PlainStream, is_control, one_line, plain, show
from tests.federation import test_sites_graph as graph
from tests.federation import test_sites_star as star
from tests.federation.loopback import Loopback

SOON = 0.5  # seconds of work, whatever else the machine does
MANY = MOST_BYTES // 2 - 5
TITLE, BIDI, C1 = "\x1b]0;owned\x07", "\u202e", "\x9b2J"
NASTY = f"x{TITLE}{BIDI}{C1}"

# ---------------------------------------------------------------- texts that take long

LONG = {
    "dotted key": "a." * MANY + "a = 1",
    "dotted key, quoted": '"a".' * (MANY // 2) + "a = 1",
    "dotted key, quoted otherwise": "'a' . " * (MANY // 3) + "a = 1",
    "dotted table": "[" + "a." * (MANY - 1) + "a]",
    "dotted key after a text": 'b = """ # """\n' + "a." * (MANY - 10) + "a = 1",
    "dotted key after a comment": "# it's here\n" + "a." * (MANY - 10) + "a = 1",
    "dotted key in a table": "x = {" + "a." * (MANY - 10) + "a = 1}",
    "brackets": "x = " + "[" * (MOST_BYTES - 4),
    "braces": "x = " + "{a=" * (MOST_BYTES // 3 - 4),
    "quotes that do not end": '"""\\' * (MOST_BYTES // 4),
    "more bytes than allowed": "x = 1\n" * (MOST_BYTES // 3),
    "more bytes than letters": "# " + "\u00e9" * (MOST_BYTES * 3 // 4),
}


@pytest.mark.parametrize("kind", list(LONG))
def test_texts_that_a_parser_takes_long_for_are_refused_at_once(kind: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError) as refused:
        read_toml(LONG[kind], "the job")
    assert time.process_time() - start < SOON
    assert str(refused.value).startswith("the job ")
    assert len(str(refused.value)) < 200


def test_the_job_of_another_site_and_a_job_file_are_read_that_way(tmp_path: Path) -> None:
    text = "a." * MANY + "a = 1"
    (tmp_path / "job.toml").write_text(text)
    start = time.process_time()
    with pytest.raises(InputError, match="dotted key of more than 16 parts"):
        read_text(text)
    with pytest.raises(InputError, match=r"job\.toml: .* dotted key of more than 16 parts"):
        read_job(tmp_path / "job.toml")
    assert time.process_time() - start < 2 * SOON


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    start = time.process_time()
    with pytest.raises(InputError, match="longer than 1,000,000 bytes"):
        read_job("/dev/zero")
    assert time.process_time() - start < SOON


def test_jobs_as_they_are_written_pass() -> None:
    """What looks deep and is not: dots and brackets in texts, comments, and lists of numbers."""
    dots = "a." * 100
    text = f"""# {dots}
name = "{dots}[[[[" # {dots}
other = '{dots}' # it's
numbers = [{"1.5, " * 1000}]
long = \"\"\"
{dots} "" {"[" * 100} \\\"\"\" ''' #\"\"\"
{".".join("abcdefghijklmnop")} = 1
[[party]]
[[party]]
{"x.y = {z = [1.5]}"}
"""
    found = read_toml(text, "the job")
    assert (len(found["party"]), len(found["numbers"]), found["name"]) == (2, 1000, f"{dots}[[[[")
    assert ".".join("abcdefghijklmnop").count(".") == DEEPEST - 1
    with pytest.raises(InputError, match="dotted key"):
        read_toml(".".join("abcdefghijklmnopq") + " = 1", "the job")


def test_time_grows_with_the_length_alone() -> None:
    """For every text of a few letters that is repeated: twice the text takes no more than about twice the time."""

    def seconds(text: str) -> float:
        start = time.process_time()
        with contextlib.suppress(InputError):
            read_toml(text, "the job")
        return time.process_time() - start

    pieces = [
        "a.",
        "a=1\n",
        "[a]\n",
        "[[a]]\n",
        '"',
        "'",
        '"""',
        "'''",
        '"\\',
        "\\",
        "#",
        "[",
        "{",
        ".",
        " ",
        "\n",
        "1",
        "_",
    ]
    for piece in [one + other for one in pieces for other in pieces]:
        text = piece * (200_000 // len(piece))
        if seconds(text) > 1.0:
            assert seconds(text) < 1.5, piece


def test_a_job_of_very_many_parties_is_refused() -> None:
    start = time.process_time()
    parties = "".join(f'[[party]]\nname = "p{number}"\nlabel = "y"\n' for number in range(20_000))
    with pytest.raises(InputError, match="there are 20000 parties, more than 500"):
        read_text(f'[job]\nengine = "flare"\nsplit = "samples"\n[graph]\nkind = "complete"\n{parties}')
    assert time.process_time() - start < 10


@pytest.mark.parametrize("number", ["1e309", "9" * 400, "inf", "nan", "-inf", "9" * 5000, "0x" + "f" * 5000])
@pytest.mark.parametrize("key", ["tol", "rounds", "seed"])
def test_huge_numbers_in_a_job_are_refused(key: str, number: str) -> None:
    with pytest.raises(InputError) as refused:
        read_text(f'[job]\n{key} = {number}\n[[party]]\nname = "a"\nlabel = "y"\n')
    assert len(str(refused.value)) < 300


# ---------------------------------------------------------------- names that act


@pytest.mark.parametrize("bad", [TITLE, BIDI, "\u2066", "\u2069", "\u200f", C1, "\x7f", "\x00", "\n", "\u2028"])
@pytest.mark.parametrize(
    "where",
    ["job.name", "party.name", "party.label", "party.features", "party.id", "party.data", "values", "positive", "key"],
)
def test_control_characters_in_a_job_are_refused_in_one_line(where: str, bad: str) -> None:
    def text(place: str) -> str:
        return json.dumps(f"x{bad}" if place == where else "x").replace("\x7f", "\\u007f")

    job = f"""[job]
name = {text("job.name")}
[[party]]
name = {text("party.name")}
data = {text("party.data")}
id = {text("party.id") if where == "party.id" else '"i"'}
label = {text("party.label") if where == "party.label" else '"l"'}
positive = {text("positive")}
features = [{text("party.features")}]
columns = {{{text("key")} = {{values = [{text("values")}, "b"]}}}}
"""
    with pytest.raises(InputError, match="the job has a control character in ") as refused:
        read_text(job)
    assert str(refused.value).isprintable()


def test_what_is_shown_does_not_act() -> None:
    assert show(NASTY).isprintable()
    assert one_line(ValueError(NASTY)).isprintable()
    assert plain(NASTY) == "x\\u001b]0;owned\\u0007\\u202e\\u009b2J"
    assert (
        plain("Zo\u00eb \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u65e5\u672c")
        == "Zo\u00eb \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u65e5\u672c"
    )
    assert json.loads(plain(json.dumps(NASTY, ensure_ascii=False))) == NASTY  # JSON stays JSON
    stream = io.StringIO()
    print(f"a\t{NASTY}\r\nb", file=PlainStream(stream))  # type: ignore[arg-type]
    assert stream.getvalue() == f"a\t{plain(NASTY)}\\u000d\nb\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two parties whose files have columns, ids, categories and labels that act."""
    folder = tmp_path_factory.mktemp("nasty")
    rng = np.random.default_rng(3)
    for name, more in (("bank", ["default"]), ("shop", [])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["customer", f"amount{NASTY}", f"kind{NASTY}", *more])
            for row in range(80):
                kind = f"{rng.choice(['red', 'blue'])}{NASTY}"
                label = [f"yes{NASTY}" if rng.random() < 0.5 else "no"] if more else []
                out.writerow([f"c{row}{NASTY}", f"{rng.normal():.3f}", kind, *label])
    parties = '[[party]]\nname = "bank"\ndata = "bank.csv"\nid = "customer"\nlabel = "default"\n'
    parties += '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "customer"\n'
    (folder / "job.toml").write_text(f'[job]\nname = "credit"\nholdout = 0.25\n[model]\nalpha = 0.01\n{parties}')
    (folder / "search.toml").write_text(f'[job]\nname = "credit"\n[search]\nalphas = [0.01, 0.1]\n{parties}')
    return folder


def test_no_verb_lets_a_name_act(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = [f"bank={files / 'bank.csv'}", f"shop={files / 'shop.csv'}"]
    run = files / "run"
    commands: list[list[Any]] = [
        ["plan", files / "job.toml"],
        ["plan", files / "job.toml", "--json"],
        ["align", files / "job.toml", "--out", files / "aligned"],
        ["train", files / "job.toml", "--out", run],
        ["train", files / "search.toml", "--out", files / "searched"],
        ["watch", run],
        ["report", run],
        ["explain", run, *data, "--id", f"c1{NASTY}", "--party", "shop"],
        ["explain", run, *data, "--id", f"c1{NASTY}", "--party", "bank", "--json"],
        ["explain", run, *data, "--id", f"c2000{NASTY}"],
        ["verify", run],
        ["predict", run, *data, "--out", files / "scores.csv"],
        ["train", files / f"there-is-no{NASTY}.toml"],
        ["train", files / "job.toml", f"--{NASTY}"],
        [NASTY],
    ]
    seen = ""
    for words in commands:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        acting = {one for one in out + err if is_control(one)} - {"\n", "\t"}
        assert not acting, (words[0], acting)
        assert code == 0 or err.startswith("tacit: error: "), (words, err)
        seen += out + err
    assert re.search(r"(amount|kind)x\\u001b", seen)  # the names were there


def test_predictions_on_a_terminal_do_not_act_and_in_a_file_are_exact(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", str(files / "job.toml"), "--out", str(run), "--quiet"]) == 0
    words = ["predict", str(run), f"bank={files / 'bank.csv'}", f"shop={files / 'shop.csv'}"]
    piped = subprocess.run(
        [sys.executable, "-m", "tacit.cli.main", *words], capture_output=True, check=True, timeout=120
    ).stdout.decode()
    assert {row["customer"] for row in csv.DictReader(io.StringIO(piped))} == {f"c{row}{NASTY}" for row in range(80)}
    main_end, other = os.openpty()
    process = subprocess.Popen([sys.executable, "-m", "tacit.cli.main", *words], stdout=other, stderr=other)
    os.close(other)
    shown = b""
    try:
        while part := os.read(main_end, 2**16):
            shown += part
    except OSError:  # how a terminal ends
        pass
    finally:
        process.wait(timeout=120)
        os.close(main_end)
    assert b"owned" in shown
    assert b"\x1b" not in shown
    assert BIDI.encode() not in shown


# ---------------------------------------------------------------- a budget that is put back

FILES = ("ledger.json", "releases.jsonl", "ledger.json.lock")
MU = accountant.gdp_mu(3.0, 1e-6)


def spending(part: float) -> dict[str, tuple[Event, ...]]:
    """Releases that take a part of the budget."""
    return dict.fromkeys(UNITS, (GaussianRelease(MU * part**0.5, 1.0, party="phone"),))


def book(folder: Path) -> BudgetBook:
    return BudgetBook(folder / "ledger.json", {"record": Limit(3.0, 1e-6)}, "phone", runs=folder / "jobs")


def copy_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}


def put_back(folder: Path, copy: dict[str, bytes], names: Sequence[str]) -> None:
    for name in names:
        if name in copy:
            (folder / name).write_bytes(copy[name])
        else:
            (folder / name).unlink(missing_ok=True)


BACK = [FILES[:1], FILES[1:2], FILES[:2], FILES[:1] + FILES[2:], FILES]


@pytest.mark.parametrize("names", BACK, ids=[" ".join(names) for names in BACK])
@pytest.mark.parametrize("when", ["before all", "after the first", "before the second release"])
def test_a_ledger_that_is_put_back_is_noticed_and_counted_again(
    tmp_path: Path, names: tuple[str, ...], when: str
) -> None:
    book(tmp_path).standings(spending(0.1))  # makes the lock
    copies = {"before all": copy_of(tmp_path)}
    book(tmp_path).reserve("run-a", spending(0.4))
    book(tmp_path).released("run-a", 0, "x")
    copies["after the first"] = copy_of(tmp_path)
    book(tmp_path).reserve("run-b", spending(0.4))
    book(tmp_path).released("run-b", 0, "y")
    copies["before the second release"] = copy_of(tmp_path)
    book(tmp_path).released("run-b", 1, "z")
    put_back(tmp_path, copies[when], names)
    before = copy_of(tmp_path)
    if when == "before the second release" and "releases.jsonl" not in names:
        assert book(tmp_path).standings(spending(0.1))[0].share_before == pytest.approx(0.8)  # nothing was lost
        return
    if when == "before the second release" and "ledger.json.lock" in names:
        assert book(tmp_path).standings(spending(0.1))[0].share_before == pytest.approx(0.8)  # nor of the budget here
        return
    for use in (
        lambda: book(tmp_path).reserve("run-c", spending(0.4)),
        lambda: book(tmp_path).standings(spending(0.1)),
        lambda: book(tmp_path).cancel("run-b"),
    ):
        with pytest.raises(InputError, match="no job is taken") as refused:
            use()
        assert "backup" not in str(refused.value)
        assert "\n" not in str(refused.value)
    assert copy_of(tmp_path) == before
    if "ledger.json" in names and when == "before all":
        with pytest.raises(InputError, match="no job is taken"):
            book(tmp_path).count_again()  # there is nothing to count from: the scale of the budget is gone with it
        return
    found = book(tmp_path).count_again()
    assert found == (["run-b"] if "ledger.json" in names and when == "after the first" else [])
    assert book(tmp_path).standings(spending(0.1))[0].share_before == pytest.approx(0.8)
    with pytest.raises(RunError, match="does not fit"):
        book(tmp_path).reserve("run-c", spending(0.4))
    with pytest.raises(RunError, match="that stays spent"):
        book(tmp_path).cancel("run-b")
    assert book(tmp_path).released("run-b", 2, "later")  # the run itself goes on


def test_what_no_run_accounts_for_is_not_forgiven(tmp_path: Path) -> None:
    book(tmp_path).reserve("run-a", spending(0.4))
    copy = copy_of(tmp_path)
    book(tmp_path).reserve("run-b", spending(0.4))
    book(tmp_path).released("run-b", 0, "y")
    put_back(tmp_path, copy, FILES[:2])
    shutil.rmtree(tmp_path / "jobs" / "run-b")  # and the folder of the run is gone, too
    with pytest.raises(InputError, match="written 3 times and is a copy from time 1"):
        book(tmp_path).reserve("run-c", spending(0.4))
    with pytest.raises(InputError, match="more was spent than the folders of the runs say"):
        book(tmp_path).count_again()


def test_a_crash_between_two_writes_is_no_older_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is written, then the count, then the folder of the run; what a crash left out is made up for."""
    for number, (kind, name) in enumerate(((ledger_file.LedgerFile, "count"), (ledger_file.Reservations, "put"))):
        with monkeypatch.context() as crash:
            crash.setattr(kind, name, lambda *given, **named: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                book(tmp_path).reserve(f"run-{number}", spending(0.1))
        assert not book(tmp_path).reserve(f"run-{number}", spending(0.1))
        with monkeypatch.context() as crash:
            crash.setattr(kind, name, lambda *given, **named: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                book(tmp_path).released(f"run-{number}", 0, "x")
        assert not book(tmp_path).released(f"run-{number}", 0, "x")
    assert book(tmp_path).standings(spending(0.1))[0].share_before == pytest.approx(0.2)
    assert book(tmp_path).count_again() == []


def test_what_is_given_back_leaves_no_mark(tmp_path: Path) -> None:
    book(tmp_path).reserve("run-a", spending(0.9))
    assert book(tmp_path).cancel("run-a")
    assert book(tmp_path).reserve("run-b", spending(0.9))


def test_a_run_whose_name_leads_elsewhere_writes_nothing_there(tmp_path: Path) -> None:
    for name in ("../outside", "..", "a/b", "/tmp"):
        with pytest.raises(InputError, match="names no folder of a run"):
            book(tmp_path).reserve(name, spending(0.01))
    assert list(tmp_path.iterdir()) == []


def test_a_mark_that_was_changed_is_refused(tmp_path: Path) -> None:
    book(tmp_path).reserve("run-a", spending(0.9))
    (tmp_path / "jobs" / "run-a" / "spent.json").write_text("{}")
    with pytest.raises(InputError, match=r"cannot read .*spent\.json, which says what the run has spent"):
        book(tmp_path).reserve("run-b", spending(0.01))


@pytest.mark.parametrize("split", ["columns", "rows"])
def test_each_release_is_recorded_by_one_call(tmp_path: Path, split: str) -> None:
    kind, parts = (star, "private shares") if split == "columns" else (graph, "few gaussian rounds")
    files = kind.write_files(tmp_path)
    gates = {name: star.Counting() for name in files}
    Loopback(files, tmp_path / "sites", gates).run(kind.job_text(files, "flare", **kind.CASES[parts]))
    for gate in gates.values():
        assert gate.calls
        assert len(gate.calls) == len(set(gate.calls))
