"""Files that a page takes for granted, as they are the reader's own: generated, with the columns the page names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 240


def credit(folder: Path, *phone: str) -> None:
    """bank.csv and phone.csv, for training and new: `phone` names the columns of the phone company."""
    rng = np.random.default_rng(0)
    for end in ("", "-new"):
        customer = [f"c{number:04d}" for number in range(ROWS)]
        age, calls = rng.integers(18, 90, ROWS), rng.poisson(60, ROWS)
        late = 0.05 * (age - 50) + 0.03 * (calls - 60) + rng.logistic(size=ROWS) > 0
        bank = pd.DataFrame({"customer": customer, "age": age, "city": rng.choice(["Basel", "Bern", ""], ROWS)})
        bank["default"] = np.where(late, "yes", "no")
        columns = {
            "calls": calls,
            "plan": rng.choice(["basic", "gold", "silver"], ROWS),
            "since": [f"20{year:02d}-03-01" for year in rng.integers(10, 26, ROWS)],
            "zip": rng.choice([4001, 4058, 3000], ROWS),
        }
        other = pd.DataFrame({"customer": customer, **{name: columns[name] for name in phone}})
        (bank if not end else bank.drop(columns="default")).to_csv(folder / f"bank{end}.csv", index=False)
        other.sample(frac=1, random_state=1).to_csv(folder / f"phone{end}.csv", index=False)


def wards(folder: Path) -> None:
    """A file of patients for each ward, new ones, and people who hand over rows themselves."""
    rng = np.random.default_rng(0)
    for name in ("north", "east", "south", "new-patients", "people"):
        rows = rng.normal(size=(ROWS, 3))
        table = pd.DataFrame(rows, columns=["pulse", "weight", "age"])
        if name != "new-patients":
            table["ill"] = (rows.sum(axis=1) + rng.logistic(size=ROWS) > 0).astype(int)
        table.to_csv(folder / f"{name}.csv", index=False)


def job_files(folder: Path) -> None:
    credit(folder, "calls", "since", "plan")
    wards(folder)
    book = "column,low,high,values\nage,18,90,\ns?nce,2000-01-01,2030-01-01,\nplan,,,basic|gold|silver\n"
    (folder / "codes.csv").write_text(book)


def large(folder: Path) -> None:
    """bank.parquet and shop.parquet, of numbers alone."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, 4))
    bank = pd.DataFrame(rows[:, :2], columns=["age", "debt"]).assign(customer=np.arange(ROWS))
    bank["default"] = (rows.sum(axis=1) + rng.logistic(size=ROWS) > 0).astype(int)
    shop = pd.DataFrame(rows[:, 2:], columns=["visits", "spent"]).assign(customer=np.arange(ROWS))
    bank.to_parquet(folder / "bank.parquet", index=False)
    shop.sample(frac=1, random_state=1).to_parquet(folder / "shop.parquet", index=False)


def some_common(folder: Path) -> None:
    """bank.csv and phone.csv, each with customers that the other does not have."""
    credit(folder, "calls")
    phone = pd.read_csv(folder / "phone.csv")
    phone = phone[phone["customer"] < "c0200"]
    strangers = pd.DataFrame({"customer": [f"p{number:04d}" for number in range(20)], "calls": 1})
    pd.concat([phone, strangers]).to_csv(folder / "phone.csv", index=False)


def company(folder: Path) -> None:
    """bank.csv with labels, and shop.csv, phone.csv and water.csv."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, 4, 2))
    for place, name in enumerate(("bank", "shop", "phone", "water")):
        table = pd.DataFrame(rows[:, place], columns=[f"{name} a", f"{name} b"]).assign(customer=np.arange(ROWS))
        if name == "bank":
            table["default"] = (rows.sum(axis=(1, 2)) + rng.logistic(size=ROWS) > 0).astype(int)
        table.to_csv(folder / f"{name}.csv", index=False)


def claims(folder: Path) -> None:
    """bank.csv with counts and the months in which they were counted, and phone.csv."""
    rng = np.random.default_rng(0)
    rows, months = rng.normal(size=(ROWS, 2)), rng.integers(1, 13, ROWS)
    bank = pd.DataFrame({"customer": np.arange(ROWS), "age": rows[:, 0], "months": months})
    bank["calls"] = rng.poisson(months * np.exp(0.3 * rows.sum(axis=1)) / 6)
    bank.to_csv(folder / "bank.csv", index=False)
    pd.DataFrame({"customer": np.arange(ROWS), "plan": rows[:, 1]}).to_csv(folder / "phone.csv", index=False)


FILES: dict[str, Callable[[Path], None]] = {
    "README.md": lambda folder: credit(folder, "calls", "plan"),
    "docs/how-to/align-ids.md": some_common,
    "docs/how-to/curves.md": lambda folder: credit(folder, "calls", "plan", "since"),
    "docs/how-to/dask.md": large,
    "docs/how-to/evaluate.md": lambda folder: credit(folder, "calls", "plan", "since"),
    "docs/explanation/inference.md": lambda folder: credit(folder, "calls", "plan", "since"),
    "docs/how-to/encode-columns.md": lambda folder: credit(folder, "calls", "plan", "since", "zip"),
    "docs/how-to/families.md": claims,
    "docs/how-to/job-files.md": job_files,
    "docs/how-to/larger-than-memory.md": large,
    "docs/how-to/predict-together.md": company,
    "docs/how-to/private-trees.md": lambda folder: credit(folder, "calls", "plan"),
    "docs/how-to/train-trees.md": lambda folder: credit(folder, "calls", "plan", "since", "zip"),
}
