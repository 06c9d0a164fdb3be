"""A bank and a phone company with columns of every kind, and jobs on them whose numbers are curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

BANK = """
age = { low = 18, high = 90, whole = true, missing = true }
income = { low = 0, high = 1e6, missing = true }
children = { low = 0, high = 8, term = "linear" }
"""
PHONE = """
since = { kind = "date", low = 2012-01-01, high = 2023-12-31 }
plan = { values = ["basic with a long name", "gold", "silver", "$ and $"], missing = true }
code = { buckets = 4 }
"""
WHOLE = "split = 'samples'"


@dataclass
class People:
    """The files of a job; `top` belongs to [job], `more` is added before the parties."""

    folder: Path
    top: str = ""
    more: str = ""
    rows: int = 400
    terms: str = "spline"

    def tables(self) -> dict[str, pd.DataFrame]:
        """What each party has, matched by id."""
        rng = np.random.default_rng(3)
        n = self.rows
        age, income = rng.integers(18, 90, n).astype(float), np.exp(rng.normal(10, 1, n)).round()
        days, plan = rng.integers(0, 4000, n), rng.choice(["basic with a long name", "gold", "silver", "$ and $"], n)
        score = np.sin(age / 12) + np.log(income / 22000) + (plan == "gold") + days / 2000 - 1
        label = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
        age[rng.random(n) < 0.1], income[rng.random(n) < 0.1] = np.nan, np.nan
        since = (pd.to_datetime("2012-03-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
        plan = np.where(rng.random(n) < 0.1, "", plan)
        key = {"customer": np.arange(n)}
        bank = {**key, "age": age, "income": income, "children": rng.integers(0, 5, n), "late": label}
        phone = {**key, "since": since, "plan": plan, "code": rng.choice(["a", "b", "c", "d", "e"], n)}
        return {"bank": pd.DataFrame(bank), "phone": pd.DataFrame(phone)}

    def write(self) -> Path:
        """Write the files, and return the path of the job."""
        tables = self.tables()
        parties = {"bank": (BANK, 'label = "late"'), "phone": (PHONE, "")}
        if WHOLE in self.top:  # each has half of the rows, with all columns
            whole = tables["bank"].merge(tables["phone"])
            tables = {"bank": whole[::2], "phone": whole[1::2]}
            parties = dict.fromkeys(tables, (BANK + PHONE, 'label = "late"'))
        graph = "[graph]\nkind = 'complete'" if WHOLE in self.top else ""
        text = f'[job]\nname = "people"\n{self.top}\n[model]\nterms = "{self.terms}"\n{graph}\n{self.more}\n'
        for name, (columns, label) in parties.items():
            tables[name].to_csv(self.folder / f"{name}.csv", index=False)
            text += f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\nid = "customer"\n{label}\n'
            text += f"[party.columns]\n{columns}"
        path = self.folder / "people.toml"
        path.write_text(text)
        return path
