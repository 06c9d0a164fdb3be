"""Small jobs of every mechanism in every file format."""

from __future__ import annotations

from tacit.audit.harness.world import CATEGORY, DATE, Column, World, make_world
from tacit.job.file import parse_job

SUFFIX = {"dense": ".csv", "parquet": ".parquet", "sparse": ".svm", "encoded": ".csv"}
SUFFIX |= {"curves": ".csv", "curves in parquet": ".parquet"}
CURVES = ("curves", "curves in parquet")
ROWS, NODE_ROWS = 40, 16
ENCODED = """
[party.columns]
a = { low = -2, high = 2 }
b = { missing = true }
c = { values = ["u", "v", "w", "x"] }
d = { buckets = 4 }
e = { low = 2000-01-01, high = 2020-01-01 }
"""
ENCODED_COLUMNS = (
    Column("a", blanks=True),
    Column("b", blanks=True),
    Column("c", CATEGORY, values=("u", "v", "w", "x"), blanks=True),
    Column("d", CATEGORY, values=("p", "q", "r"), blanks=True),
    Column("e", DATE, 11000, 18000, blanks=True),
)

CURVED = """
[party.columns]
a = { low = -2, high = 2 }
b = { low = 0, high = 5000, log = true, missing = true }
c = { values = ["u", "v", "w", "x"] }
d = { low = 1, high = 4, whole = true }
e = { low = 2000-01-01, high = 2020-01-01 }
f = { low = -1, high = 1, term = "linear" }
"""
CURVED_COLUMNS = (
    Column("a", blanks=True),
    Column("b", low=0, high=5000, blanks=True),
    Column("c", CATEGORY, values=("u", "v", "w", "x"), blanks=True),
    Column("d", low=1, high=4, blanks=True),
    Column("e", DATE, 11000, 18000, blanks=True),
    Column("f", low=-1, high=1),
)

FEATURES = {
    "gram": "[privacy]\nepsilon = 2",
    "gram, labels too": "[privacy]\nepsilon = 2\nlabel_epsilon = 2",
    "gram, everyone": "[privacy]\nepsilon = 4\nprotect = 'everyone'",
    "gram, everyone, label holder": "[privacy]\nepsilon = 4\nprotect = 'everyone'\npredictions = 'label-holder'",
    "gram, refit": "[privacy]\nepsilon = 4\nrefit = true",
    "shares": "[privacy]\nepsilon = 8\nmechanism = 'shares'",
    "labels": "[privacy]\nepsilon = 'none'\nlabel_epsilon = 2",
}
SAMPLES = {
    "gaussian": ("ring", "rounds = 4", "[privacy]\nepsilon = 4"),
    "gaussian under masks": ("ring", "rounds = 1\nsecure_aggregation = true", "[privacy]\nepsilon = 4"),
    "dual": ("ring", "rounds = 2", "[privacy]\nepsilon = 4\n[model]\nmethod = 'dual'"),
    "primal": ("ring", "rounds = 2", "[privacy]\nepsilon = 4\n[model]\nmethod = 'primal'"),
    "pdml": ("ring", "rounds = 2", "[privacy]\nepsilon = 4\nlabel_epsilon = 2\n[model]\nmethod = 'pdml'"),
}
FEATURE_FAMILIES = {
    "gram, four classes": "[privacy]\nepsilon = 2\n[model]\nclasses = 4",
    "gram, counts": "[privacy]\nepsilon = 2\n[model]\nloss = 'poisson'",
}
FAMILIES = {
    "gaussian, four classes": "[privacy]\nepsilon = 4\n[model]\nclasses = 4",
    "gaussian, counts": "[privacy]\nepsilon = 4\nlabel_norm = 8\n[model]\nloss = 'poisson'",
}


def columns_of(kind: str, party: str, count: int) -> tuple[Column, ...]:
    """The columns of a party's file."""
    if kind == "encoded":
        return ENCODED_COLUMNS
    if kind in CURVES:
        return CURVED_COLUMNS
    if kind == "sparse":
        return tuple(Column(str(j + 1)) for j in range(count))
    return tuple(Column(f"{party}_{j}") for j in range(count))


def encoding(kind: str, privacy: str, pairs: str) -> str:
    """The sections on encoding and privacy; the model's, which may be there, says whether numbers are curves."""
    if kind not in CURVES:
        return f'[encode]\nscale = "none"\n{privacy}'
    model = privacy if "[model]" in privacy else f"{privacy}\n[model]"
    return f"[encode]\n{pairs}\n{model}\nterms = 'spline'"


def said_of(kind: str) -> str:
    """What the job says of a party's columns."""
    if kind in CURVES:
        return CURVED
    return ENCODED if kind == "encoded" else "width = 3" if kind == "sparse" else ""


def feature_world(case: str, kind: str, parties: tuple[str, ...] = ("bank", "shop", "phone")) -> World:
    """A feature split; the labels are with the first party."""
    few = "rounds = 4" if case == "labels" else ""
    lines = ["[job]", 'name = "neighbours"', few, encoding(kind, (FEATURES | FEATURE_FAMILIES)[case], "")]
    for name in parties:
        own = "label" if kind == "sparse" else "y"
        lines += ["[[party]]", f'name = "{name}"', *([f'label = "{own}"'] if name == parties[0] else [])]
        lines += [said_of(kind)]
    job = parse_job("\n".join(lines).replace('name = "neighbours"', 'name = "neighbours"\nengine = "flare"'), "a job")
    columns = {name: columns_of(kind, name, 3) for name in parties}
    return make_world(job, columns, dict.fromkeys(parties, SUFFIX[kind]), dict.fromkeys(parties, ROWS))


def held_world(kind: str, seed: int | None = 1) -> World:
    """A feature split of two parties, of which some rows are held out and evaluated by a planned release.

    Without a seed rows are matched by id, in private, and both make the key together.
    """
    top = 'holdout = 0.3\nevaluation = "private"' + ("" if seed is None else f"\nseed = {seed}")
    lines = ["[job]", 'name = "neighbours"\nengine = "flare"', top, encoding(kind, FEATURES["gram"], "")]
    for name in ("bank", "shop"):
        own = ['label = "y"'] if name == "bank" else []
        lines += ["[[party]]", f'name = "{name}"', *(['id = "customer"'] if seed is None else []), *own, said_of(kind)]
    job = parse_job("\n".join(lines), "a job")
    columns = {name: columns_of(kind, name, 3) for name in job.names}
    return make_world(job, columns, dict.fromkeys(job.names, SUFFIX[kind]), dict.fromkeys(job.names, ROWS))


def sample_world(case: str, kind: str, nodes: int = 3) -> World:
    """A sample split; under masks with a node more, so that one of them passes on what another has hidden."""
    graph, top, extra = SAMPLES[case] if case in SAMPLES else ("ring", "rounds = 4", FAMILIES[case])
    nodes += "secure_aggregation" in top
    own = "label" if kind == "sparse" else "y"
    lines = ["[job]", 'name = "neighbours"\nengine = "flare"\nsplit = "samples"', top, f'[graph]\nkind = "{graph}"']
    lines += [encoding(kind, extra, "pairs = 2")]
    names = tuple(f"node{k}" for k in range(nodes))
    for name in names:
        lines += ["[[party]]", f'name = "{name}"', f'label = "{own}"']
        lines += [said_of(kind)]
    job = parse_job("\n".join(lines), "a job")
    columns = dict.fromkeys(names, columns_of(kind, "x", 3))
    return make_world(job, columns, dict.fromkeys(names, SUFFIX[kind]), dict.fromkeys(names, NODE_ROWS))


def aligned_world() -> World:
    """A feature split whose rows are matched by id, in private."""
    names = ("bank", "shop", "phone")
    lines = ["[job]", 'name = "neighbours"\nengine = "flare"', "[encode]", 'scale = "none"', FEATURES["gram"]]
    for name in names:
        lines += ["[[party]]", f'name = "{name}"\nid = "customer"', *(['label = "y"'] if name == names[0] else [])]
        lines += [ENCODED]
    job = parse_job("\n".join(lines), "a job")
    columns = dict.fromkeys(names, ENCODED_COLUMNS)
    return make_world(job, columns, dict.fromkeys(names, ".csv"), {"bank": 36, "shop": 40, "phone": 38})
