"""Verbs that other packages bring: found when they are used, one clear line where they cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import verbs

GOOD = """
HELP, DESCRIPTION, EPILOG = "count things", "Count things.", "example: tacit count 3"

def add_arguments(parser):
    parser.add_argument("number", type=int)

def run(options):
    print(f"counted {options.number}")
    return 3
"""


def install(folder: Path, verbs: str, name: str = "other-tools", **modules: str) -> None:
    """Put a distribution with these entry points and modules into a folder of the path."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tacit.verbs]\n{verbs}\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_verb_of_another_package_runs(tacit: Any, folder: Path) -> None:
    install(folder, "count = counting_verb", counting_verb=GOOD)
    answer = tacit("count", "3")
    assert (answer.code, answer.out) == (3, "counted 3\n")
    assert "usage: tacit count" in tacit("count", "--help").out
    assert 'did you mean "count"?' in tacit("cuont").err


def test_a_broken_verb_is_one_line_when_it_is_used_and_nothing_otherwise(tacit: Any, folder: Path) -> None:
    install(
        folder,
        "gone = no_such_module_at_all\nhalf = half_verb\nraises = raising_verb\nleaves = leaving_verb",
        half_verb="HELP = ''",
        raising_verb="1 / 0",
        leaving_verb="raise SystemExit(0)",
    )
    for verb, why in (
        ("gone", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("half", "half_verb has no DESCRIPTION"),
        ("raises", "ZeroDivisionError: division by zero"),
        ("leaves", "SystemExit: 0"),
    ):
        answer = tacit(verb)
        words = f'the verb "{verb}" of other-tools cannot be used ({why}): update or uninstall other-tools'
        assert (answer.code, answer.err) == (1, f"tacit: error: {words}\n")
    assert tacit("--help").code == 0
    assert tacit("train", "--help").code == 0


def test_two_packages_with_one_verb_are_refused(tacit: Any, folder: Path) -> None:
    install(folder, "count = counting_verb", counting_verb=GOOD)
    install(folder, "count = counting_again", "second-tools", counting_again=GOOD)
    answer = tacit("count", "3")
    assert answer.code == 1
    assert 'more than one package brings the verb "count" (other-tools, second-tools)' in answer.err


def test_nobody_replaces_a_verb_of_the_core(tacit: Any, folder: Path) -> None:
    install(folder, "train = counting_verb", counting_verb=GOOD)
    assert "counted" not in tacit("train", "3").out


@pytest.mark.parametrize("verb", ["design", "reproduce"])
@pytest.mark.parametrize("words", [[], ["--help"], ["all"]])
def test_without_the_papers_their_verbs_say_what_to_install(
    refused: Any, monkeypatch: pytest.MonkeyPatch, verb: str, words: list[str]
) -> None:
    monkeypatch.setattr(verbs, "_entry_points", lambda name=None: [])
    assert refused(verb, *words) == (
        f"tacit: error: tacit {verb} is in tacit-papers, which is not installed: pip install tacit-papers\n"
    )


def test_help_looks_nothing_up() -> None:
    code = "import sys; from tacit.cli.main import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "'importlib.metadata'" not in done.stderr
    assert "'tacit_papers'" not in done.stderr
