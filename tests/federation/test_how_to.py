"""`tacit federation demo`, whose commands are those of docs/how-to/three-organisations.md, on a running federation."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tacit.data.samples import JOB, PARTIES
from tacit.federation.kit import Kit
from tests.docs.blocks import FOLLOWED, blocks_of, commands_of
from tests.federation.live import environment

WAIT = 600.0
ONCE = ("--resume", "pip install")  # nothing died, and it is installed
pytestmark = pytest.mark.slow


def page_commands() -> list[str]:
    blocks = [block for block in blocks_of(FOLLOWED) if block.language == "sh"]
    found = [command for block in blocks for command in commands_of(block)]
    return [command for command in found if not any(word in command for word in ONCE)]


def typed(folder: Path) -> list[str]:
    """The demo's commands as the page has them: it takes a free port, and nobody is at a terminal to be asked."""
    lines = [line.split("    #")[0] for line in (folder / "commands.txt").read_text().splitlines()]
    commands = [line for line in lines if line.startswith("tacit ")]
    return [
        re.sub(r" --port \d+", "", line).removesuffix(" --yes") if " accept " in line or " init " in line else line
        for line in commands
    ]


def test_the_demo_follows_the_page_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "tacit.cli.main", "federation", "demo", "--out", "demo"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(f"\nthe page took {time.monotonic() - began:.0f} s")
    folder = tmp_path / "demo"
    assert typed(folder) == page_commands()
    assert [block.text for block in blocks_of(FOLLOWED) if block.language == "toml"] == [JOB]
    assert "shown, and accepted automatically" in done.stdout
    assert "NOT differentially private" in done.stdout
    assert "must accept: bank first, then shop, phone" in (folder / "screens" / "train-server.txt").read_text()

    monkeypatch.setenv("TACIT_HOME", str(folder / "home"))
    bank, shop, _ = (Kit.open(folder / "credit" / name) for name in PARTIES)
    predictions = pd.read_csv(next(bank.jobs.glob("predict-*/predictions.csv")))
    truth = pd.read_csv(folder / "bank-new-truth.csv").set_index("customer")["default"]
    assert len(predictions) > 200
    assert (predictions["prediction"].to_numpy() == truth[predictions["customer"]].to_numpy()).mean() > 0.7
    assert not list(shop.jobs.glob("*/predictions.csv"))
    for name in PARTIES:
        page = (folder / f"report-{name}.html").read_text()
        assert f"the part of {name}" in page
        assert "scores of rows to predict" in page or name == "bank"
    assert left_running(folder) == []


def left_running(folder: Path) -> list[str]:
    """Commands of processes that still name the folder."""
    import psutil

    commands = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(folder) in command]
