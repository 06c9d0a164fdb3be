"""The distribution: versions that belong together, verbs that are found, folders whose code is counted."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import tacit
import tacit_papers
from tacit.cli import main
from tacit_papers import work

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_versions_belong_together() -> None:
    assert tacit_papers.__version__ == tacit.__version__
    assert f"tacit[plot]=={tacit.__version__}" in PROJECT["dependencies"]


def test_the_verbs_are_found_and_say_what_the_core_says_of_them() -> None:
    declared = PROJECT["entry-points"]["tacit.verbs"]
    found = {entry.name: entry for entry in entry_points(group="tacit.verbs")}
    for name, module in declared.items():
        assert found[name].value == module
        assert found[name].load().HELP == main.VERBS[name].HELP
        assert main.VERBS[name].distribution == PROJECT["name"]


def test_every_folder_whose_code_decides_an_outcome_is_there() -> None:
    package = Path(tacit.__file__).parent
    assert all((package / name).is_dir() for name in work._COMPUTING)
