"""How much code a reader passes through: files of a fit, files of a mechanism, cycles, and tests of names and types."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tacit
from bench.row import Row
from tacit import HorizontalClassifier, Privacy, VerticalClassifier
from tacit.cli.main import main

TITLE = "structure: what a reader has to open"
SOURCE = Path(tacit.__file__).parent
PLANS_AND_RESULTS = r"\b\w*(Plan|Run|Result|Session|Algorithm|Solver)\b"
JOB = """\
[job]
name = "traced"
[model]
alpha = 0.1
[privacy]
epsilon = 1.0
delta = 1e-5
row_norm = 3.0
[[party]]
name = "bank"
data = "bank.csv"
id = "id"
label = "label"
[[party]]
name = "phone"
data = "phone.csv"
id = "id"
"""


def run(quick: bool) -> list[Row]:
    """Count everything; nothing here depends on the machine."""
    return [*_passed(), *_counted()]


# --- files passed ------------------------------------------------------------------------------------


def files_passed(action: Callable[[], Any]) -> set[str]:
    """The files of the package in which a function is called while the action runs, imports left out."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(SOURCE)):
            seen.add(code.co_filename[len(str(SOURCE)) + 1 :])

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def _passed() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    blocks, privacy = [X[:, :3], X[:, 3:]], Privacy(epsilon=1.0, delta=1e-5, row_norm=3.0)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        job = _write_job(Path(folder), X, y)
        fits: dict[str, tuple[int, Callable[[], Any]]] = {
            "VerticalClassifier.fit": (25, lambda: VerticalClassifier(alpha=0.1).fit(blocks, y)),
            "the same with privacy": (40, lambda: VerticalClassifier(alpha=0.1, privacy=privacy).fit(blocks, y)),
            "HorizontalClassifier.fit": (
                25,
                lambda: HorizontalClassifier(parties=4, alpha=0.1, random_state=0).fit(X, y),
            ),
            "tacit train with privacy": (60, lambda: _train(job)),
        }
        for name, (limit, action) in fits.items():
            action()  # so that nothing is imported while it is traced: bodies of classes are no steps of a fit
            count = len(files_passed(action))
            yield Row(f"files passed by {name}", str(count), count, limit, f"at most {limit}")


def _write_job(folder: Path, X: Any, y: Any) -> Path:
    ids = np.arange(len(y))
    for name, columns, label in (("bank", X[:, :3], y), ("phone", X[:, 3:], None)):
        head = ["id", *(f"{name}{k}" for k in range(3)), *([] if label is None else ["label"])]
        table = np.column_stack([ids, columns, *([] if label is None else [label])])
        kinds = ["%d", *["%.6f"] * 3, *([] if label is None else ["%d"])]
        np.savetxt(folder / f"{name}.csv", table, fmt=kinds, delimiter=",", header=",".join(head), comments="")
    (folder / "job.toml").write_text(JOB)
    return folder / "job.toml"


def _train(job: Path) -> None:
    out = Path(tempfile.mkdtemp(dir=job.parent)) / "run"
    if main(["train", str(job), "--out", str(out), "--quiet"]):
        raise RuntimeError("the traced job did not train")


# --- counts of the source ----------------------------------------------------------------------------


def _counted() -> Iterator[Row]:
    trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    gram = len(list((SOURCE / "mechanisms" / "gram").glob("*.py")))
    names = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    counts = (
        ("files of the gram mechanism", gram, 6),
        ("files of the package", len(trees), 280),
        ("import cycles, late and type imports counted", len(import_cycles(trees)), 0),
        ("isinstance tests on plans and results", sum(map(_isinstance_tests, trees.values())), 3),
        ("tests of the split's name", sum(_split_tests(path) for path in trees), 4),
        ("class names defined more than once", sum(count > 1 for count in names.values()), 0),
    )
    for name, count, limit in counts:
        yield Row(name, str(count), count, limit, f"at most {limit}")


def _isinstance_tests(tree: ast.AST) -> int:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance")
    return sum(bool(re.search(PLANS_AND_RESULTS, ast.unparse(call.args[1]))) for call in calls)


def _split_tests(path: Path) -> int:
    """Comparisons of a split with the name of one, written out or as a constant."""
    return len(re.findall(r"""split"?\]? (?:==|!=) (?:["']|[A-Z])|split in \(""", path.read_text()))


def import_cycles(trees: dict[Path, ast.Module]) -> list[set[str]]:
    """Sets of modules that import each other, at whatever place in the file."""
    modules = {_module(path): tree for path, tree in trees.items()}
    graph = {name: set(_imported(tree, modules)) - {name} for name, tree in modules.items()}
    reach = {name: _reachable(graph, name) for name in graph}
    cycles = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return [set(cycle) for cycle in cycles if len(cycle) > 1]


def _module(path: Path) -> str:
    parts = ("tacit", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST, modules: dict[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (name for name in (whole if whole in modules else node.module,) if name in modules)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """What a module imports, directly or not; itself where it comes back."""
    found, left = set[str](), list(graph[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += graph[name]
    return found
