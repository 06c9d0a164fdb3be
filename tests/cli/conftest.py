"""Two small parties in files, and the command line called in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main


@dataclass
class Files:
    """The files of a job with parties "bank" (labels) and "shop"; change what a test is about, then `write`."""

    folder: Path
    rows: int = 120
    bank: dict[str, list[Any]] = field(default_factory=dict)
    shop: dict[str, list[Any]] = field(default_factory=dict)
    job: str = ""
    model: str = 'loss = "logistic"\nalpha = 0.01'
    bank_keys: str = 'id = "customer"\nlabel = "default"'
    shop_keys: str = 'id = "customer"'
    privacy: str | None = None
    encode: str | None = None

    def __post_init__(self) -> None:
        rng = np.random.RandomState(7)
        X = rng.normal(size=(self.rows, 7))
        score = X @ [1.5, -1.0, 0.5, 0.0, 2.0, -0.5, 0.3] + 0.5 + rng.normal(size=self.rows)
        ids = [f"c{number:04d}" for number in range(self.rows)]
        self.X, self.y = X, np.where(score > 0, "yes", "no")
        self.bank = {"customer": ids, **{f"b{j}": X[:, j].tolist() for j in range(3)}, "default": self.y.tolist()}
        self.shop = {"customer": ids, **{f"s{j}": X[:, 3 + j].tolist() for j in range(4)}}

    def write(self, *, shuffle: int | None = None) -> Path:
        """Write the files and return the path of the job."""
        for number, (name, table) in enumerate((("bank", self.bank), ("shop", self.shop))):
            rows = list(zip(*table.values(), strict=True))
            if shuffle is not None:
                order = np.random.RandomState(shuffle + number).permutation(len(rows))
                rows = [rows[i] for i in order]
            lines = [",".join(table), *(",".join(str(value) for value in row) for row in rows)]
            (self.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        text = f'[job]\nname = "credit"\n{self.job}\n[model]\n{self.model}\n'
        if self.privacy is not None:
            text += f"[privacy]\n{self.privacy}\n"
        if self.encode is not None:
            text += f"[encode]\n{self.encode}\n"
        for name, keys in (("bank", self.bank_keys), ("shop", self.shop_keys)):
            text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\n{keys}\n'
        path = self.folder / "credit.toml"
        path.write_text(text)
        return path


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def tacit(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: Any) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def refused(tacit: Any) -> Any:
    """Call the command line, which must refuse with exit code 2 and one line; return the line."""

    def call(*words: Any) -> str:
        answer = tacit(*words)
        assert answer.code == 2, answer
        assert answer.err.startswith("tacit: error: ")
        assert answer.err.count("\n") == 1
        assert answer.err.endswith("\n")
        return answer.err

    return call
