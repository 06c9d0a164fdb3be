"""A bank that asks, three parties that answer, and their services as processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tacit.cli.main import main

NAMES = ("shop", "phone", "water")
ROWS = 60
TOKEN = "t" * 40
IDS = [f"c{number:03d}" for number in range(ROWS)]


def train(folder: Path, others: tuple[str, ...] = NAMES, numbers: bool = False, more: str = "") -> Path:
    """Files of all parties and a finished run of them, in the place of one that is there."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 2 * (1 + len(others)))) + 3.0
    label = np.where((X - 3).sum(axis=1) + rng.logistic(size=ROWS) > 0, "yes", "no")
    text = f'[job]\nname = "credit"\n[model]\nalpha = 0.01\n{more}'
    for place, name in enumerate(("bank", *others)):
        own = name == "bank"
        lines = [f"customer,{name}0,{name}1" + (",default" if own else "")]
        for row in rng.permutation(ROWS):
            cells = [str(1000 + row) if numbers else IDS[row], *X[row, 2 * place : 2 * place + 2].astype(str)]
            lines.append(",".join([*cells, *([label[row]] if own else [])]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nid = "customer"\n'
        text += 'label = "default"\n' if own else ""
    (folder / "credit.toml").write_text(text)
    shutil.rmtree(folder / "run", ignore_errors=True)
    assert main(["train", str(folder / "credit.toml"), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


def secret_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@dataclass
class Company:
    """The services of some parties, started one by one and ended by their process ids."""

    folder: Path
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def write_peers(self, names: tuple[str, ...] = NAMES) -> Path:
        """A file with everybody's identity, which each prints."""
        from tacit.service.identity import open_identity

        lines = [f'{name} = "{open_identity(self.folder / f"{name}.pem").text}"' for name in names]
        (self.folder / "parties.toml").write_text("[peers]\n" + "\n".join(lines) + "\n")
        return self.folder / "parties.toml"

    def start(self, name: str, *words: Any) -> str:
        """Start a party's service and return its address."""
        self.start_all((name,), *words)
        return self.urls[name]

    def start_all(self, names: tuple[str, ...], *words: Any) -> None:
        """Start several at once."""
        for name in names:
            self._spawn(name, *words)
        for name in names:
            self._await(name)

    def _spawn(self, name: str, *words: Any) -> None:
        state, identity = self.folder / f"{name}.db", self.folder / f"{name}.pem"
        command = [sys.executable, "-m", "tacit.cli.main", "answer", self.run, "--party", name]
        command += ["--data", self.folder / f"{name}.csv", "--port", 0, "--state", state, "--identity", identity]
        log = open(self.folder / f"{name}.log", "a")  # noqa: SIM115
        process = subprocess.Popen(
            [str(word) for word in [*command, *words]],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        log.close()
        self.running[name] = process

    def _await(self, name: str) -> None:
        process = self.running[name]
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " answers at " in line, (self.folder / f"{name}.log").read_text()
        self.urls[name] = line.split(" answers at ")[1].split(",")[0]
        if self.urls[name].startswith("http:"):
            self.wait(name)

    def wait(self, name: str) -> None:
        for _ in range(200):
            try:
                httpx.get(f"{self.urls[name]}/v1/health", timeout=2, trust_env=False)
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"{name} does not answer")

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        for name in list(self.running):
            self.stop(name)
