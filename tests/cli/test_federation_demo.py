"""What `tacit federation demo` does when something fails; the whole of it runs in tests/federation/test_how_to.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tacit.cli import federation_demo
from tacit.cli.federation_demo import Demo, run_demo
from tacit.cli.main import main
from tacit.data.samples import PARTIES, sample_files, sample_names
from tacit.errors import InputError, RunError

FAKE = """
import sys, time
words = sys.argv[1:]
if words[0] == "fails":
    sys.exit("tacit: error: the disk is full")
if words[0] == "sleeps":
    print("ready:", flush=True)
    time.sleep(600)
print("said", *words)
"""


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """A demo whose commands are those of a fake."""
    (tmp_path / "screens").mkdir()
    monkeypatch.setattr(federation_demo, "_tacit", lambda words: [sys.executable, "-c", FAKE, *words])
    return Demo(tmp_path, tmp_path, minutes=1.0)


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_was_started_ends_where_the_demo_fails(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_HOME", "before")
    numbers = []

    def go() -> None:
        with demo.ending():
            terminal = demo.open("sleeps", "credit/bank")
            demo.wait(lambda: "ready:" in terminal.printed(), "it", terminal)
            numbers.append(terminal.process.pid)
            assert os.environ["TACIT_HOME"] == str(demo.folder / "home")
            demo.call("fails", "credit/bank")

    with pytest.raises(RunError, match=r"tacit fails credit/bank failed: .*the disk is full"):
        go()
    assert not alive(numbers[0])
    assert os.environ["TACIT_HOME"] == "before"
    assert "tacit sleeps credit/bank    # in a terminal of its own" in (demo.folder / "commands.txt").read_text()
    assert "disk is full" in (demo.folder / "screens" / "fails-bank.txt").read_text()


def test_a_terminal_that_ends_early_and_time_that_is_over_are_said(demo: Demo) -> None:
    with demo.ending():
        short = demo.open("other", "credit/shop")
        with pytest.raises(RunError, match=r"tacit other credit/shop ended early: .*said other"):
            demo.wait(lambda: False, "nothing", short)
        demo.minutes = 0.0
        with pytest.raises(RunError, match="waited for the moon, and 0 minutes are over"):
            demo.wait(lambda: False, "the moon", None)
        assert "said again" in demo.call("again")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_all_that_it_started(tmp_path: Path, number: int) -> None:
    code = f"""
import sys
from pathlib import Path
from tacit.cli import federation_demo as module
fake = {FAKE!r}
module._tacit = lambda words: [sys.executable, "-c", fake, *words]
folder = Path({str(tmp_path)!r})
(folder / "screens").mkdir()
demo = module.Demo(folder, folder, 1.0)
with module._ended_by_sigterm(), demo.ending():
    print(demo.open("sleeps", "credit/bank").process.pid, flush=True)
    demo.wait(lambda: False, "the end", None)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        child = int(lines[1])
        time.sleep(0.3)
        assert alive(child)
        process.send_signal(number)
        assert process.wait(60) != 0
    assert not alive(child)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something already"):
        run_demo(tmp_path, 10)
    with pytest.raises(InputError, match="--minutes 0"):
        run_demo(tmp_path / "new", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_sample_files_share_ids_and_are_the_same_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["federation", "samples", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(sample_names())
    tables = {name: pd.read_csv(tmp_path / f"{name}.csv") for name in PARTIES}
    common = set.intersection(*(set(table["customer"]) for table in tables.values()))
    assert 500 < len(common) < 720
    assert len({tuple(table["customer"][:5]) for table in tables.values()}) == 3  # orders of their own
    assert [name for name, table in tables.items() if "default" in table] == ["bank"]
    pd.testing.assert_frame_equal(tables["shop"], sample_files()["shop.csv"], check_dtype=False)
    capsys.readouterr()
    assert main(["federation", "samples", "--out", str(tmp_path)]) == 2
    assert "holds bank.csv already" in capsys.readouterr().err
    assert main(["federation", "samples", "--out", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err
