"""The generated pages of the reference say all that the code accepts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import tacit
from tacit.cli.main import VERBS
from tacit.errors import InputError
from tacit.job import read_job
from tacit.job.sections import COLUMN_KEYS
from tacit.job.sections import SECTION_KEYS as SECTIONS
from tests.docs.blocks import DOCS, GENERATED, load_script

PARTY = '[[party]]\nname = "bank"\ndata = "bank.csv"\nlabel = "default"\n'
script = load_script(DOCS / "reference_pages.py")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    script.write_pages(folder)
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_pages_that_others_link_to_are_written(pages: dict[str, str]) -> None:
    assert set(pages) == {path.name for path in GENERATED}


def test_every_verb_has_its_help(pages: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.findall(r"^## tacit (\w+)$", pages["cli.md"], flags=re.M) == list(VERBS)
    assert "--checkpoint-every SECONDS" in pages["cli.md"]
    monkeypatch.setenv("COLUMNS", "40")
    assert script.cli_page() == pages["cli.md"]  # whatever the terminal of whoever builds it
    assert os.environ["COLUMNS"] == "40"


def test_every_key_is_there_with_what_it_must_be_and_what_it_means(pages: dict[str, str]) -> None:
    parts = dict(re.findall(r"^## `\[+([\w.]+)\]+`\n(.*?)(?=^## |\Z)", pages["job.md"], flags=re.S | re.M))
    assert set(parts) == {*SECTIONS, "party.columns"}
    for section, keys in {**SECTIONS, "party.columns": COLUMN_KEYS}.items():
        lines = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*) \|$", parts[section], flags=re.M)
        assert [key for key, *_ in lines] == list(keys)
        for key, allowed, _, meaning in lines:
            assert allowed, (section, key)
            assert meaning.strip(), (section, key)


def test_defaults_are_those_of_a_job_that_says_nothing(pages: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[privacy]\n" + PARTY)
    job = read_job(tmp_path / "job.toml")
    parts = dict(re.findall(r"^## `\[+([\w.]+)\]+`\n(.*?)(?=^## |\Z)", pages["job.md"], flags=re.S | re.M))
    for section, values in (("job", job), ("model", job.model), ("privacy", job.privacy), ("encode", job.encode)):
        defaults = re.findall(r"^\| `(\w+)` \| .*? \| `([^`]*)`", parts[section], flags=re.M)
        assert len(defaults) >= 2
        for key, default in defaults:
            assert json.loads(default) == getattr(values, key), (section, key)


@pytest.mark.parametrize("key", ["split", "engine", "loss", "penalty", "method"])
def test_words_that_are_looked_up_later_are_listed(pages: dict[str, str], key: str) -> None:
    line = re.findall(rf"^\| `{key}` \| (.*?) \|", pages["job.md"], flags=re.M)[0]
    assert len(re.findall(r'"[\w-]+"', line)) >= 1
    assert "text in quotes" not in line


def test_every_public_name_is_described(pages: dict[str, str]) -> None:
    names = {name for name in tacit.__all__ if not name.startswith("__")}
    assert set(re.findall(r"^\.\. auto\w+:: tacit\.(\w+)$", pages["python.md"], flags=re.M)) == names
    assert ".. automethod:: tacit.VerticalClassifier.fit" in pages["python.md"]
    assert "get_metadata_routing" not in pages["python.md"]  # scikit-learn's own


def test_every_field_of_a_certificate_is_there(pages: dict[str, str]) -> None:
    schema = json.loads(re.findall(r"```json\n(.*?)```", pages["certificate.md"], flags=re.S)[0])
    fields = re.findall(r"^\| `(\w+)` \|", pages["certificate.md"], flags=re.M)
    assert set(schema["properties"]) <= set(fields)


def test_a_key_that_is_not_in_the_reference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[privacy]\nepsilom = 1\n" + PARTY)
    with pytest.raises(InputError, match="epsilom"):
        read_job(tmp_path / "job.toml")
