"""docs/how-to/three-organisations.md, followed command by command on a running federation."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.cli.main import main
from tacit.federation.kit import Kit
from tacit.federation.members import Members
from tacit.federation.questions import questions
from tests.docs.blocks import FOLLOWED, blocks_of, commands_of
from tests.federation.live import environment, free_port

WAIT = 240.0
pytestmark = pytest.mark.slow


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    values, ids = rng.normal(size=(400, 4)), np.array([f"c{number:05d}" for number in range(400)])
    labels = values.sum(axis=1) + rng.logistic(size=400) > 0
    for name, columns in {"bank": ["income", "age"], "shop": ["basket"], "phone": ["calls"]}.items():
        rows = rng.permutation(400)[:360]
        first = ["income", "age", "basket", "calls"].index(columns[0])
        table = pd.DataFrame(values[rows, first : first + len(columns)], columns=columns)
        table.insert(0, "customer", ids[rows])
        if name == "bank":
            table["default"] = np.where(labels[rows], "yes", "no")
        if name == "shop":
            table["plan"] = rng.choice(["basic", "gold"], len(rows))
        table.to_csv(folder / f"{name}.csv", index=False)


class Reader:
    """Does what the page says, in one terminal for each command that stays in the foreground."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.running = folder, free_port(), {}

    def type(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "pip":
            return ""
        assert words[0] == "tacit"
        if words[1:3] == ["federation", "init"]:
            words += ["--port", str(self.port)]
        if words[1:3] == ["federation", "members"]:
            return self.confirm(words)
        if words[1] in ("serve", "join", "train", "predict"):
            return self.start(command, words)
        return self.accept(words) if words[1] == "accept" else self.call(words)

    def start(self, command: str, words: list[str]) -> str:
        said = self.folder / f"said-{len(self.running)}.txt"
        with open(said, "wb") as out:
            process = subprocess.Popen(self.words(words), cwd=self.folder, env=environment(), stdout=out, stderr=out)
        self.running[command] = (process, said)
        if words[1] in ("serve", "join"):
            self.until(lambda: "ready:" in said.read_text(), command)
        return said.read_text()

    def call(self, words: list[str]) -> str:
        """A command that ends at once, in this process."""
        said = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(said):
            assert main(words[1:]) == 0, words
        return said.getvalue()

    def confirm(self, words: list[str]) -> str:
        """As soon as the keys have come."""
        others = words[words.index("--confirm") + 1 : words.index("--yes")]
        members = Members(Kit.open(self.folder / words[3]))
        self.until(lambda: {card.name for card in members.unconfirmed()} >= set(others), " ".join(words))
        said = self.call(words)
        assert all(f"{name}: confirmed\n" in said for name in others)
        return said

    def accept(self, words: list[str]) -> str:
        """As soon as the job asks; a person is asked at the terminal, which is not there."""
        home = Kit.open(self.folder / words[2]).home
        self.until(lambda: questions(home), " ".join(words))
        return self.call([*words, "--yes"])

    def finish(self, command: str) -> str:
        process, said = self.running.pop(command)
        assert process.wait(WAIT) == 0, said.read_text()
        return said.read_text()

    def until(self, true: object, what: str) -> None:
        end = time.monotonic() + WAIT
        while not true():
            assert time.monotonic() < end, f"{what}: {[said.read_text()[-2000:] for _, said in self.running.values()]}"
            time.sleep(0.1)

    def stop(self) -> None:
        for process, _ in reversed(self.running.values()):
            process.terminate()
        for process, _ in self.running.values():
            process.wait(120)

    @staticmethod
    def words(words: list[str]) -> list[str]:
        return [sys.executable, "-m", "tacit.cli.main", *words[1:]]


def test_the_page_can_be_followed_word_by_word(tmp_path: Path) -> None:
    write_files(tmp_path)
    reader, began, stages = Reader(tmp_path), time.monotonic(), 0
    try:
        for block in blocks_of(FOLLOWED):
            if block.language == "toml":
                (tmp_path / "credit.toml").write_text(block.text)
            for command in commands_of(block) if block.language == "sh" else []:
                if "--resume" in command:
                    continue  # nothing died
                reader.type(command)
                stages += command == "tacit accept credit/phone"  # the last to answer each question
                if command == "tacit accept credit/phone" and stages % 2 == 0:
                    last = next(c for c in reader.running if c.split()[1] in ("train", "predict"))
                    said = reader.finish(last)
                    assert "ended after" in said or "has the predictions" in said
    finally:
        reader.stop()
    print(f"\nthe page took {time.monotonic() - began:.0f} s")
    bank, shop = (Kit.open(tmp_path / "credit" / name) for name in ("bank", "shop"))
    found = list(bank.jobs.glob("predict-*/predictions.csv"))
    assert len(found) == 1
    predictions = pd.read_csv(found[0])
    truth = pd.read_csv(tmp_path / "bank.csv").set_index("customer")["default"]
    assert len(predictions) > 200
    assert (predictions["prediction"].to_numpy() == truth[predictions["customer"]].to_numpy()).mean() > 0.7
    assert not list(shop.jobs.glob("*/predictions.csv"))
