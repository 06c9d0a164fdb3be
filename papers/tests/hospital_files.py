"""Three hospitals with other rows and the same columns, in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("north", "east", "south")


@dataclass
class Nodes:
    """Three hospitals in files; change what a test is about, then `write`."""

    folder: Path
    rows: tuple[int, ...] = (60, 90, 50)
    model: str = 'loss = "logistic"\nalpha = 0.01'
    job: str = ""
    privacy: str | None = None
    options: str | None = None
    label: str = 'label = "ill"'
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.RandomState(11)
        for name, count in zip(NAMES, self.rows, strict=True):
            X = rng.normal(size=(count, 4)) / 3
            score = X @ [4.0, -3.0, 2.0, 0.0] + 0.3 + 0.5 * rng.normal(size=count)
            self.tables[name] = {
                "patient": [f"{name}{i}" for i in range(count)],
                **{f"x{j}": X[:, j].tolist() for j in range(4)},
                "ill": np.where(score > 0, "yes", "no").tolist(),
            }

    def write(self) -> Path:
        text = f'[job]\nname = "wards"\nsplit = "samples"\n{self.job}\n[model]\n{self.model}\n[graph]\nkind = "ring"\n'
        text += "" if self.privacy is None else f"[privacy]\n{self.privacy}\n"
        text += "" if self.options is None else f"[privacy.options]\n{self.options}\n"
        for name, table in self.tables.items():
            lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
            (self.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
            text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nid = "patient"\n{self.label}\n'
        path = self.folder / "wards.toml"
        path.write_text(text)
        return path
