"""Sample files of three organisations that know different things about some of the same people, drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.files import write_text
from tacit.types import Vector

if TYPE_CHECKING:
    import pandas as pd

BANK, SHOP, PHONE = "bank", "shop", "phone"
PARTIES = (BANK, SHOP, PHONE)
ID, LABEL = "customer", "default"
TRAINED, NEW, MISSES = 800, 400, 0.1  # people to train on, people to predict, and what part of them each file lacks
JOB_FILE, TRUTH = "credit.toml", "bank-new-truth.csv"
JOB = f"""\
# {JOB_FILE}
[job]
name = "credit"
engine = "flare"

[model]
loss = "logistic"

[[party]]
name = "{BANK}"
id = "{ID}"
label = "{LABEL}"

[[party]]
name = "{SHOP}"
id = "{ID}"

[[party]]
name = "{PHONE}"
id = "{ID}"
"""


def sample_files(seed: int = 0, trained: int = TRAINED, new: int = NEW) -> dict[str, pd.DataFrame]:
    """One table for each sample file, by its name.

    NAME.csv is what an organisation trains with, NAME-new.csv what it predicts, and bank-new-truth.csv what became of
    the new people afterwards. Each file lacks some people, and has its rows in an order of its own.
    """
    import pandas as pd

    rng, n = np.random.default_rng(seed), trained + new
    ids = np.array([f"c{number:05d}" for number in rng.choice(90_000, n, replace=False) + 10_000])
    columns = _columns(rng, n)
    labels = np.where(_log_odds(columns) + rng.logistic(size=n) > 0, "yes", "no")
    files = {}
    for end, people in (("", np.arange(trained)), ("-new", np.arange(trained, n))):
        for party in PARTIES:
            rows = rng.permutation(people)[: max(1, round((1 - MISSES) * len(people)))]
            table = pd.DataFrame({ID: ids[rows], **{name: column[rows] for name, column in columns[party].items()}})
            if party == BANK and not end:
                table[LABEL] = labels[rows]
            files[f"{party}{end}.csv"] = table
    files[TRUTH] = pd.DataFrame({ID: ids[trained:], LABEL: labels[trained:]})
    return files


def sample_names() -> list[str]:
    """The names of all sample files."""
    return [*(f"{party}{end}.csv" for end in ("", "-new") for party in PARTIES), TRUTH, JOB_FILE]


def write_samples(folder: Path, seed: int = 0, trained: int = TRAINED, new: int = NEW) -> list[Path]:
    """Write the sample files and the job into a folder; their paths."""
    tables = sample_files(seed, trained, new)
    texts = {name: table.to_csv(index=False) for name, table in tables.items()} | {JOB_FILE: JOB}
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _columns(rng: np.random.Generator, n: int) -> dict[str, dict[str, Vector]]:
    """What each organisation knows of n people."""
    return {
        BANK: {"income": np.exp(rng.normal(10.4, 0.4, n)).round(-2), "age": rng.integers(18, 80, n).astype(float)},
        SHOP: {"basket": rng.gamma(4.0, 12.0, n).round(2), "returns": rng.poisson(2.0, n).astype(float)},
        PHONE: {
            "calls": rng.poisson(40.0, n).astype(float),
            "contract": np.array(["prepaid", "monthly", "yearly"])[rng.integers(0, 3, n)],
        },
    }


def _log_odds(columns: dict[str, dict[str, Vector]]) -> Vector:
    """How likely it is that somebody defaults, from what all three know together."""
    bank, shop, phone = (columns[party] for party in PARTIES)
    contract = np.select([phone["contract"] == "prepaid", phone["contract"] == "yearly"], [1.0, -0.8], 0.0)
    return np.asarray(
        -1.1 * (np.log(bank["income"]) - 10.4) / 0.4
        - 0.03 * (bank["age"] - 48)
        + 0.7 * (shop["returns"] - 2.0)
        - 0.02 * (shop["basket"] - 48)
        + 0.06 * (phone["calls"] - 40)
        + contract
        - 0.6
    )
