"""The files around the code: what they name exists, and they agree with each other."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tacit.version import __version__

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_citation_has_the_version_and_the_licence() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == __version__
    assert f'license = "{citation["license"]}"' in (ROOT / "pyproject.toml").read_text()


def test_the_workflow_runs_what_a_developer_runs() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    steps = [step["run"] for step in jobs["test"]["steps"] if step.get("name") == "Everything"]
    assert steps == ["bash .ci/run"]
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("make test")
    for target in jobs["versions"]["strategy"]["matrix"]["target"]:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_python_versions_of_the_workflow_are_those_of_the_package() -> None:
    stated = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert read(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == stated


@pytest.mark.parametrize("page", ["GOVERNANCE.md", "CONTRIBUTING.md"])
def test_pages_name_targets_and_files_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"`make ([\w-]+)", text):
        assert re.search(rf"^{target}\b.*:", MAKEFILE, re.MULTILINE), target
    for folder in re.findall(r"`((?:mechanisms|privacy|federation|service|columns|run)/[\w.]*)`", text):
        assert (ROOT / "src/tacit" / folder).exists(), folder


def test_hooks_run_tools_of_the_environment() -> None:
    developers = re.search(r"^dev = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert developers is not None
    for hook in read(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert f'"{tool}>=' in developers[1], tool


def test_forms_and_containers_can_be_read() -> None:
    for form in ("bug", "idea"):
        assert {"name", "description", "body"} <= set(read(f".github/ISSUE_TEMPLATE/{form}.yml"))
    assert json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())["postCreateCommand"].endswith(
        "make check"
    )
    assert {one["package-ecosystem"] for one in read(".github/dependabot.yml")["updates"]} == {"pip", "github-actions"}


def test_the_lock_file_pins_every_package_within_the_ranges() -> None:
    lines = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    pinned: dict[str, list[str]] = {}
    for line in lines:
        wanted = Requirement(line.split(" --hash")[0])
        assert "--hash=sha256:" in line, wanted.name
        pinned.setdefault(canonicalize_name(wanted.name), []).append(str(wanted.specifier).removeprefix("=="))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    for wanted in map(Requirement, asked):
        if wanted.name != "tacit":
            versions = pinned[canonicalize_name(wanted.name)]
            assert all(wanted.specifier.contains(version) for version in versions), f"{wanted}: make lock"


def test_a_release_is_published_without_a_password() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]
    assert [step["run"] for step in jobs["build"]["steps"] if "make" in step.get("run", "")] == ["make dist"]
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()
