"""Jobs by the command line: what every verb prints, and every file of a run."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import adapter, values
from tests.golden.fitting import Record, transcript

ROWS, NODE_ROWS = 60, (30, 40, 26)
NODES = ("north", "east", "south")
BANK = '[[party]]\nname = "bank"\ndata = "bank.csv"\nid = "customer"\nlabel = "default"\n'
SHOP = '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "customer"\n'
UNSCALED = '[encode]\nscale = "none"\n'
ENCODED = """
[party.columns]
s0 = { low = -1, high = 1 }
s1 = { missing = true }
town = { values = ["ham", "sea", "wood"] }
code = { buckets = 3 }
day = { low = 2000-01-01, high = 2020-01-01 }
"""
CURVES = 'alpha = 0.01\nterms = "spline"'
CURVED = ENCODED.replace("s1 = { missing = true }", "s1 = { low = -2, high = 2, missing = true }")
BETWEEN = "[party.columns]\n'x*' = { low = -1, high = 1 }\n"
VERBS = ("plan", "plan --json", "train", "predict", "explain", "verify", "report")


# --- files -----------------------------------------------------------------------------------------------


def write_csv(path: Path, table: Mapping[str, Sequence[Any]]) -> Path:
    """A table in a file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
    return path


def customers(folder: Path, *, encoded: bool = False) -> None:
    """The files of a bank and of a shop, with rows that only one of them has, in other orders."""
    rng = np.random.RandomState(4)
    X = rng.normal(size=(ROWS, 5))
    score = X @ [1.2, -0.8, 0.5, 1.0, -0.6] + 0.2 + rng.normal(size=ROWS)
    ids = [f"c{number:03d}" for number in range(ROWS)]
    bank = {"customer": ids, **{f"b{j}": X[:, j].round(6) for j in range(3)}}
    write_csv(folder / "bank.csv", {**bank, "default": np.where(score > 0, "yes", "no")})
    order = rng.permutation(ROWS)[3:]
    shop: dict[str, Any] = {
        "customer": [ids[i] for i in order],
        **{f"s{j}": X[order, 3 + j].round(6) for j in range(2)},
    }
    write_csv(folder / "shop.csv", {**shop, **(_texts(len(order)) if encoded else {})})


def _texts(count: int) -> dict[str, Any]:
    """Columns of text and of dates, with blanks."""
    towns = [("ham", "sea", "", "wood", "hill")[i % 5] for i in range(count)]
    days = ["" if i % 9 == 4 else f"20{i % 18:02d}-{1 + i % 12:02d}-1{i % 10}" for i in range(count)]
    return {"town": towns, "code": [f"k{i % 7}" for i in range(count)], "day": days}


def wards(folder: Path, kinds: tuple[Any, Any] = ("no", "yes")) -> None:
    """The files of three hospitals."""
    rng = np.random.RandomState(6)
    for name, count in zip(NODES, NODE_ROWS, strict=True):
        X = (rng.normal(size=(count, 3)) / 3).round(6)
        ill = np.where(X @ [4.0, -3.0, 2.0] + 0.3 + 0.5 * rng.normal(size=count) > 0, kinds[1], kinds[0])
        ids = [f"{name}{i}" for i in range(count)]
        write_csv(folder / f"{name}.csv", {"patient": ids, **{f"x{j}": X[:, j] for j in range(3)}, "ill": ill})


def parquet(folder: Path) -> None:
    """The files of the bank and the shop as Parquet, with numbers as ids and labels."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    customers(folder)
    for name in ("bank", "shop"):
        text = (folder / f"{name}.csv").read_text()
        (folder / f"{name}.csv").write_text(
            text.replace("\nc", "\n1").replace(",yes\n", ",1\n").replace(",no\n", ",0\n")
        )
        table: pa.Table = pc.read_csv(folder / f"{name}.csv")
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=25)


def credit(*, top: str = "", model: str = "alpha = 0.01", more: str = "", shop: str = "", files: str = "csv") -> str:
    """The text of a job of the bank and the shop."""
    text = f'[job]\nname = "credit"\n{top}\n' + (f"[model]\n{model}\n" if model else "") + more
    return (text + BANK + SHOP + shop).replace(".csv", f".{files}")


def clinic(*, top: str = "", model: str = "alpha = 0.05", more: str = "", ending: str = ".csv", own: str = "") -> str:
    """The text of a job of the three hospitals."""
    text = f'[job]\nname = "wards"\nsplit = "samples"\n{top}\n[model]\n{model}\n[graph]\nkind = "ring"\n{more}'
    party = '[[party]]\nname = "{0}"\ndata = "{0}{1}"\nid = "patient"\nlabel = "ill"\n'
    return text + "".join(party.format(name, ending) + own for name in NODES)


# --- commands --------------------------------------------------------------------------------------------


def told(folder: Path, *words: str) -> Record:
    """Run a command; what it printed, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = adapter.command_line(words)
    printed = {"out": values.of_text(out.getvalue(), folder), "err": values.of_text(err.getvalue(), folder)}
    return {"code": code, **printed}


def trained(folder: Path, *more: str) -> Record:
    """Train the job of the folder, with everything that was said."""
    with adapter.watched() as seen:
        printed = told(folder, "train", "job.toml", "--out", "run", *more)
    return {**printed, "transcript": transcript(seen)}


def whole_way(
    write: Callable[[Path], None], text: str, new: Sequence[str], verbs: Sequence[str], folder: Path
) -> Record:
    """Plan, train and use a job."""
    write(folder)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    commands: dict[str, Callable[[], Record]] = {
        "plan": lambda: told(folder, "plan", "job.toml"),
        "plan --json": lambda: told(folder, "plan", "job.toml", "--json"),
        "train": lambda: trained(folder),
        "predict": lambda: told(folder, "predict", "run", *new, "--out", "predicted.csv"),
        "explain": lambda: told(folder, "explain", "run", *new, "--row", "2"),
        "verify": lambda: told(folder, "verify", "run"),
        "report": lambda: told(folder, "report", "run"),
    }
    printed = {verb: commands[verb]() for verb in verbs}
    predicted = folder / "predicted.csv"
    more = {"predicted": values.of_file(predicted, folder)} if predicted.exists() else {}
    return {"printed": printed, **more, "files": values.of_folder(folder / "run", folder)}


def resumed(write: Callable[[Path], None], text: str, at: int, folder: Path) -> Record:
    """Stop a run in the middle, and go on."""
    write(folder)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    with adapter.stopped_at(at):
        first = trained(folder, "--checkpoint-every", "0")
    middle = values.of_folder(folder / "run", folder)
    second = trained(folder, "--resume")
    return {"stopped": first, "middle": middle, "resumed": second, "files": values.of_folder(folder / "run", folder)}


def in_little_memory(folder: Path) -> Record:
    """Rows that stay on disk."""
    parquet(folder)
    (folder / "job.toml").write_text(credit(more=UNSCALED, files="parquet"), encoding="utf-8")
    printed = trained(folder, "--memory", "600MB")
    return {"train": printed, "files": values.of_folder(folder / "run", folder)}


def labels_beforehand(folder: Path) -> Record:
    """Labels that were randomized before the job."""
    wards(folder)
    printed = {name: told(folder, "randomize", f"{name}.csv", "--label", "ill", "--epsilon", "2") for name in NODES}
    more = '[privacy]\nepsilon = 4\nnoise_seed = 2\n[encode]\nscale = "none"\n'
    text = clinic(top="rounds = 3", model='alpha = 0.05\nmethod = "pdml"', more=more, ending=".randomized.csv")
    (folder / "job.toml").write_text(text, encoding="utf-8")
    handed = {name: values.of_file(folder / f"{name}.randomized.csv", folder) for name in NODES}
    plan, train = told(folder, "plan", "job.toml"), trained(folder)
    files = values.of_folder(folder / "run", folder)
    return {"randomize": printed, "handed": handed, "plan": plan, "train": train, "files": files}


def aligned(folder: Path) -> Record:
    """Ids matched in private, by the command line."""
    customers(folder)
    (folder / "job.toml").write_text(credit(), encoding="utf-8")
    printed = told(folder, "align", "job.toml", "--out", "aligned")
    return {"align": printed, "files": values.of_folder(folder / "aligned", folder)}


def refused(folder: Path) -> Record:
    """What the command line says of wrong input."""
    customers(folder)
    texts = {
        "unknown key": credit(top="rouns = 3"),
        "unknown loss": credit(model='loss = "logit"'),
        "no party": '[job]\nname = "credit"\n',
        "graph": credit(more='[graph]\nkind = "ring"\n'),
        "epsilon": credit(more="[privacy]\nepsilon = 0\n"),
        "no file": credit().replace("shop.csv", "shops.csv"),
        "id": credit().replace('id = "customer"\nlabel', 'id = "client"\nlabel'),
    }
    record: Record = {}
    for name, text in texts.items():
        (folder / "job.toml").write_text(text, encoding="utf-8")
        record[name] = told(folder, "train", "job.toml", "--out", "run")
    words = {"verb": ["trian"], "option": ["plan", "job.toml", "--rho", "1"], "run": ["verify", "nothing"]}
    return {**record, **{name: told(folder, *own) for name, own in words.items()}}


def helped(folder: Path) -> Record:
    """What the command line says of itself."""
    verbs = ["", "plan", "train", "predict", "explain", "verify", "report", "randomize", "align", "audit", "design"]
    return {verb or "tacit": told(folder, *verb.split(), "--help") for verb in verbs}


BOTH, EACH = ("bank.csv", "shop.csv"), ("east.csv",)
LITTLE = ("plan", "train", "verify")
PRIVATE = "[privacy]\nepsilon = 4\nnoise_seed = 3\n"
ENCODING = partial(customers, encoded=True)
CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "jobs-features": partial(whole_way, customers, credit(top="holdout = 0.2\nseed = 1"), BOTH, VERBS),
    "jobs-features-encoded": partial(whole_way, ENCODING, credit(top="rounds = 12", shop=ENCODED), BOTH, VERBS[:-1]),
    "jobs-features-search": partial(
        whole_way,
        customers,
        credit(model="", more="[search]\nalphas = [0.1, 0.01]\nfolds = 2\n"),
        BOTH,
        ("plan", "train"),
    ),
    "jobs-features-private": partial(
        whole_way, ENCODING, credit(top="holdout = 0.2", more=PRIVATE + UNSCALED, shop=ENCODED), BOTH, VERBS
    ),
    "jobs-features-everyone": partial(
        whole_way, customers, credit(more=PRIVATE + 'protect = "everyone"\n' + UNSCALED), BOTH, LITTLE
    ),
    "jobs-features-curves": partial(whole_way, customers, credit(top="rounds = 8", model=CURVES), BOTH, LITTLE),
    "jobs-features-curves-private": partial(
        whole_way, ENCODING, credit(top="holdout = 0.2", model=CURVES, more=PRIVATE, shop=CURVED), BOTH, VERBS[:-1]
    ),
    "jobs-features-memory": in_little_memory,
    "jobs-features-resumed": partial(resumed, customers, credit(top="tol = 1e-9"), 5),
    "jobs-features-resumed-private": partial(
        resumed, customers, credit(more=PRIVATE + 'mechanism = "shares"\n' + UNSCALED), 4
    ),
    "jobs-samples": partial(
        whole_way, wards, clinic(top="rounds = 6\nholdout = 0.2\nseed = 1", more=UNSCALED), EACH, VERBS
    ),
    "jobs-samples-private": partial(
        whole_way, wards, clinic(top="rounds = 4", more=PRIVATE + UNSCALED), EACH, VERBS[:-1]
    ),
    "jobs-samples-curves-private": partial(
        whole_way,
        wards,
        clinic(top="rounds = 4", model=CURVES, more=PRIVATE + "[encode]\npairs = 2\n", own=BETWEEN),
        EACH,
        LITTLE,
    ),
    "jobs-samples-dual": partial(
        whole_way,
        wards,
        clinic(
            model='alpha = 0.05\nmethod = "dual"\nfit_intercept = false',
            more=PRIVATE
            + "[privacy.options]\nalphas = { north = [0.1, 0.2], east = 0.3, south = [0.4, 0.1] }\n"
            + UNSCALED,
        ),
        EACH,
        LITTLE,
    ),
    "jobs-samples-resumed": partial(resumed, wards, clinic(top="rounds = 5", more=UNSCALED), 4),
    "jobs-samples-resumed-private": partial(resumed, wards, clinic(top="rounds = 4", more=PRIVATE + UNSCALED), 3),
    "jobs-samples-randomized": labels_beforehand,
    "jobs-align": aligned,
    "jobs-refused": refused,
    "jobs-help": helped,
}
NOISY = {
    "jobs-features-private",
    "jobs-features-curves-private",
    "jobs-samples-curves-private",
    "jobs-features-everyone",
    "jobs-features-resumed-private",
    "jobs-samples-private",
    "jobs-samples-dual",
    "jobs-samples-resumed-private",
    "jobs-samples-randomized",
}
