"""Who may import whom, and what may not be imported at all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import tacit

SOURCE = Path(tacit.__file__).parent
PAPERS = SOURCE.parents[1] / "papers" / "src" / "tacit_papers"
# A layer may import itself and every layer in a row above it.
LAYERS = [
    ["types", "errors", "version"],
    ["text", "records", "problem", "topologies"],
    ["files", "privacy", "columns"],
    ["data"],
    ["job", "blocks"],
    ["solvers"],
    ["mechanisms"],
    ["plan"],
    ["run"],
    ["report"],
    ["alignment"],
    ["federation"],
    ["service"],
    ["estimators"],
    ["audit"],
    ["training"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
    return frozenset(found)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(path)
    for name in imports(path):
        if name.startswith("tacit."):
            other = name.split(".")[1]
            allowed = other == own or RANK[other] < RANK[own]
            assert allowed, f"{path.relative_to(SOURCE)} ({own}) imports {name} ({other})"


def test_the_core_knows_nothing_of_the_papers() -> None:
    """They build on the core; what they add to the command line is found by entry points."""
    for path in [*MODULES, SOURCE / "__init__.py"]:
        assert not any(name.split(".")[0] == "tacit_papers" for name in imports(path)), path
        assert "tacit_papers" not in path.read_text(), path


def test_the_papers_import_modules_of_the_core() -> None:
    found = sorted(PAPERS.rglob("*.py"))
    assert len(found) > 30
    for path in found:
        own = {name for name in imports(path) if name.split(".")[0] == "tacit"}
        for name in own - {"tacit"}:
            assert find_spec(name) is not None, f"{path.relative_to(PAPERS)} imports {name}, which is not there"
        assert not imports(path) & {"pickle", "joblib", "dill", "cloudpickle", "marshal", "shelve"}
        assert "allow_pickle=True" not in path.read_text()


def test_the_papers_have_no_cycle_of_imports() -> None:
    """Among modules of the papers, by what they import when they are imported."""
    names = {".".join(path.relative_to(PAPERS.parent).with_suffix("").parts): path for path in PAPERS.rglob("*.py")}
    waiting = {name: imports_of_body(path, set(names)) - {name} for name, path in names.items()}
    while waiting:
        free = {name for name, needed in waiting.items() if not needed & set(waiting)}
        assert free, f"these import each other: {sorted(waiting)}"
        waiting = {name: needed for name, needed in waiting.items() if name not in free}


def test_no_modules_import_each_other() -> None:
    """Wherever in a file the import stands: in a function or for types alone, too."""
    names = {module_name(path): path for path in [*MODULES, SOURCE / "__init__.py"]}
    waiting = {name: all_imports(path, set(names)) - {name} for name, path in names.items()}
    while free := {name for name, needed in waiting.items() if not needed & set(waiting)}:
        waiting = {name: needed for name, needed in waiting.items() if name not in free}
    assert not waiting, f"these import each other, or what does: {sorted(waiting)}"


def module_name(path: Path) -> str:
    parts = ("tacit", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def all_imports(path: Path, modules: set[str]) -> set[str]:
    """Modules of a set that a module imports anywhere; a package where a name of its own is meant."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in modules else node.module for whole in inner.values()}
    return found & modules


def imports_of_body(path: Path, modules: set[str]) -> set[str]:
    """Modules of a set that a module imports at its top level."""
    found = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & modules


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_code_from_files(path: Path) -> None:
    assert not imports(path) & {"pickle", "joblib", "dill", "cloudpickle", "marshal", "shelve"}
    assert "allow_pickle=True" not in path.read_text()


def test_solvers_know_nothing_of_privacy_or_files() -> None:
    for path in MODULES:
        if layer_of(path) in ("blocks", "solvers"):
            assert not {name.split(".")[0] for name in imports(path)} & {"os", "pathlib", "json", "socket", "secrets"}
            assert not any(name.startswith("tacit.privacy") for name in imports(path))


def test_no_catch_all_modules() -> None:
    assert not [path for path in MODULES if path.stem in {"utils", "common", "helpers", "core", "misc"}]


def test_import_of_the_package_computes_nothing() -> None:
    tree = tree_of(SOURCE / "__init__.py")
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert modules <= {"__future__", "typing", "tacit.version"}


def test_public_names_exist() -> None:
    assert all(getattr(tacit, name) is not None for name in tacit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tacit.nothing  # noqa: B018


def test_only_the_accountant_knows_the_privacy_library() -> None:
    users = {
        str(path.relative_to(SOURCE)) for path in MODULES if any("dp_accounting" in name for name in imports(path))
    }
    assert users == {"privacy/accountant.py"}


def test_only_its_engine_knows_flare() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(name.split(".")[0] == "nvflare" for name in imports(path))
    }
    assert users <= {"federation/flare.py", *(f"federation/flare_{end}.py" for end in ("policy", "roll_call"))}


def test_only_one_file_knows_the_library_of_private_set_intersection() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any("private_set_intersection" in name for name in imports(path))
    }
    assert users == {"alignment/key.py"}


def test_only_one_file_knows_dask() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(name.split(".")[0] in {"dask", "distributed"} for name in imports(path))
    }
    assert users == {"data/cluster.py"}


def test_dask_is_imported_when_it_is_asked_for_and_not_before() -> None:
    check = "import sys, tacit.run.star, tacit.cli.main; print({'dask', 'distributed'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=True)
    assert said.stdout == "set()\n"


def test_flare_is_imported_by_its_processes_and_not_by_who_looks_at_a_kit() -> None:
    modules = ", ".join(f"tacit.federation.{name}" for name in ("status", "driver", "project", "processes", "loopback"))
    check = f"import sys, {modules}; print({{'nvflare', 'psutil'}} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=True)
    assert said.stdout == "set()\n"


def test_files_that_are_named_in_the_code_exist() -> None:
    """A file may name another by its path in the package, in its own folder, or in the repository."""
    for path in MODULES:
        for name in set(re.findall(r"(?<![\w.*])[\w/]+\.py(?![\w(])", path.read_text())):
            homes = (path.parent, SOURCE, SOURCE.parents[1])
            assert any((home / name).exists() for home in homes), f"{path.relative_to(SOURCE)} names {name}"
