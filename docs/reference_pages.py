"""Write the pages of docs/reference from the code: what it accepts is what they say.

| page | from |
|---|---|
| cli.md | `--help` of every verb |
| job.md | the tables of sections and keys that `tacit.job` reads files by |
| python.md | the public names of `tacit`, for autodoc |
| certificate.md | the JSON schema that certificates are written and read by |
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module, resources
from pathlib import Path
from types import FunctionType
from typing import Any

import tacit
from tacit.cli.main import VERBS, make_parser
from tacit.columns.spec import ColumnSpec, EncodeRules
from tacit.data.load import PartySpec
from tacit.estimators.vertical import ENGINES
from tacit.job.file import SPLITS, Job
from tacit.job.sections import COLUMN_KEYS, GraphSpec, ModelSection, SearchSpec
from tacit.job.sections import SECTION_KEYS as SECTIONS
from tacit.job.trees import TREE_DEFAULTS, TREE_LOSSES, TreesSection
from tacit.mechanisms import names_for
from tacit.privacy.request import PaperOptions, Privacy
from tacit.problem.registry import LOSSES, REGULARIZERS
from tacit.solvers import METHODS

WIDTH = "100"  # of the help of a verb
COLUMN_SECTION = "party.columns"
NEEDED = {("party", "name"), ("party", "data")}

# The class that holds the values of a section, whose docstring says what they mean and whose fields have the defaults.
HOLDERS: dict[str, Any] = {
    "job": Job,
    "model": ModelSection,
    "trees": TreesSection,
    "graph": GraphSpec,
    "search": SearchSpec,
    "encode": EncodeRules,
    "privacy": Privacy,
    "privacy.options": PaperOptions,
    "party": PartySpec,
    COLUMN_SECTION: ColumnSpec,
}
ABOUT = {
    "job": "What the run is, and where it ends.",
    "model": "What is trained.",
    "trees": 'How trees are grown, with `kind = "trees"` under [model]: see [Train trees](../how-to/train-trees.md).',
    "search": "How alpha is chosen, where `model.alpha` is left out: see [Choose alpha](../how-to/choose-alpha.md).",
    "graph": 'Who talks to whom: needed with `split = "samples"`, refused without.',
    "encode": "How columns become numbers, for all parties: see [Encode columns](../how-to/encode-columns.md).",
    "privacy": "What the whole run must guarantee. Without it nothing is protected, and the certificate says so.",
    "privacy.options": "Numbers that the papers' methods of the sample split leave open, all optional.",
    "party": "One `[[party]]` for each, in double brackets.",
    COLUMN_SECTION: 'A table for a column, below its party: `zip = { kind = "category" }`.',
}


def write_pages(folder: Path) -> None:
    """Write every generated page into a folder; a page that is as it should be is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# --- the command line -----------------------------------------------------------------------------------


def cli_page() -> str:
    """The help of every verb, as it prints it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        parser = make_parser(list(VERBS))
        verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parts = [
            "# The command line",
            "What `tacit --help` and `tacit VERB --help` print.",
            _text(parser.format_help()),
        ]
        for name in VERBS:
            parts += [f"## tacit {name}", _text(verbs.choices[name].format_help())]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n\n".join(parts) + "\n"


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


# --- the job file ---------------------------------------------------------------------------------------


def job_page() -> str:
    """Every section and key of a job file, with what is allowed, the default and the meaning."""
    parts = [
        "# The job file",
        "Every section and every key that a job file may have; others are refused by name. How to write one: "
        "[Write a job file](../how-to/job-files.md). Where a meaning speaks of None, the key is left out.",
    ]
    for section, keys in (SECTIONS | {COLUMN_SECTION: COLUMN_KEYS}).items():
        title = f"[[{section}]]" if section == "party" else f"[{section}]"
        parts += [f"## `{title}`", ABOUT[section], _key_table(section, keys)]
    return "\n\n".join(parts) + "\n"


def _key_table(section: str, keys: Mapping[str, Any]) -> str:
    meanings = _meanings(section)
    lines = ["| key | must be | default | |", "|---|---|---|---|"]
    for key, kind in keys.items():
        allowed = _allowed(section, key) or kind.allowed
        lines.append(
            "| " + " | ".join([f"`{key}`", _cell(allowed), _default(section, key), _cell(meanings[key])]) + " |"
        )
    return "\n".join(lines)


def _allowed(section: str, key: str) -> str | None:
    """The words that a key takes, where it reads any text and looks it up later."""
    words = {
        ("job", "split"): SPLITS,
        ("job", "engine"): ENGINES,
        ("model", "penalty"): sorted(REGULARIZERS),
        ("privacy", "mechanism"): ["auto", *names_for("features")],
    }.get((section, key))
    if (section, key) == ("model", "loss"):
        return f"one of {_words(sorted(LOSSES))}; with trees one of {_words(TREE_LOSSES)}"
    if (section, key) == ("model", "method"):
        return (
            f'"auto"; by columns one of {_words(METHODS)}; with split = "samples" "none", or for one more '
            "release the name of a mechanism"
        )
    if (section, key) == ("privacy", "mechanism"):
        by_columns, by_rows = (_words(names_for(split)) for split in SPLITS)
        return f'"auto"; by columns one of {by_columns}; with split = "samples" one of {by_rows}'
    return None if words is None else f"one of {_words(words)}"


def _words(words: Any) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _default(section: str, key: str) -> str:
    """The default as it would be written in a job file."""
    for field in dataclasses.fields(HOLDERS[section]):
        if field.name != key or (section, key) == ("job", "name"):
            continue
        if (
            (section, key) in NEEDED
            or field.default is None
            or field.default == ()
            or field.default is dataclasses.MISSING
        ):
            break
        written = f"`{json.dumps(field.default)}`"
        others = SPLITS["samples"].defaults if section == "job" else {}
        of_trees = f"; trees: `{TREE_DEFAULTS[key]}`" if section == "job" and key in TREE_DEFAULTS else ""
        return written + (f"; samples: `{others[key]}`" if key in others else "") + of_trees
    if (section, key) == ("job", "name"):
        return "the file's name"
    return "needed" if (section, key) in NEEDED else ""


def _meanings(section: str) -> dict[str, str]:
    """What each key means, from the docstring of the class that holds it."""
    source = tacit.VerticalClassifier if section == "model" else HOLDERS[section]
    found = described(inspect.getdoc(source) or "")
    if section == "model":
        found |= described(inspect.getdoc(ModelSection) or "")
        by_rows = described(inspect.getdoc(tacit.HorizontalClassifier) or "")
        found["published"] = by_rows["published"]  # of the sample split alone
        numbers = described(inspect.getdoc(tacit.VerticalRegressor) or "")["loss"]
        found["loss"] = f"For two kinds of labels {found['loss']} For numbers {numbers}"
    return {key: found.get(key, "") for key in (SECTIONS | {COLUMN_SECTION: COLUMN_KEYS})[section]}


def described(docstring: str) -> dict[str, str]:
    """Names and their descriptions in the sections Parameters and Attributes of a numpydoc text."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in docstring.splitlines():
        head = re.match(r"^(\w[\w, ]*?) : ", line)
        if head:
            names = head[1].split(", ")
            found |= dict.fromkeys(names, "")
        elif line.startswith("    ") and names:
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
        elif line.strip():
            names = []
    return found


def _cell(text: str) -> str:
    """Text in a cell of a table; braces and bars stay as they are."""
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


# --- Python ---------------------------------------------------------------------------------------------

OBJECTS = {  # what estimators hand back, by the attribute that has it
    "certificate_": "tacit.privacy.certificate.Certificate",
    "trace_": "tacit.types.Trace",
    "trace_[0]": "tacit.types.TraceRow",
}


def python_page() -> str:
    """The public names, described by their docstrings."""
    names = [name for name in tacit.__all__ if not name.startswith("__")]
    classes = [name for name in names if inspect.isclass(getattr(tacit, name))]
    parts = ["# Python", "All of it is imported from `tacit`, as in `from tacit import VerticalClassifier`."]
    for name in sorted(names, key=lambda name: (name.endswith("Error"), name not in classes, name)):
        kind = "autoexception" if name.endswith("Error") else "autoclass" if name in classes else "autofunction"
        own = [] if kind != "autoclass" else _own_members(getattr(tacit, name))
        parts += [f"## {name}", _directive(kind, f"tacit.{name}", own)]
    parts += ["## What a fit hands back"]
    for attribute, path in OBJECTS.items():
        parts += [f"### `{attribute}`", _directive("autoclass", path, _own_members(_find(path)))]
    return "\n\n".join(parts) + "\n"


def _find(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(import_module(module), name)


def _own_members(thing: Any) -> list[tuple[str, str]]:
    """The members to describe, each with its directive: those that Tacit writes, and none that scikit-learn does.

    A property that the class lists among its attributes is described there.
    """
    listed = set(re.findall(r"^ +(\w+) : ", thing.__doc__ or "", re.MULTILINE))
    found = {
        name: "autoproperty" if isinstance(value, property) else "automethod"
        for base in thing.__mro__
        if base.__module__.startswith("tacit.")
        for name, value in vars(base).items()
        if not name.startswith("_") and isinstance(value, FunctionType | property | classmethod) and value.__doc__
    }
    return [(name, kind) for name, kind in found.items() if kind == "automethod" or name not in listed]


def _directive(kind: str, path: str, members: list[tuple[str, str]]) -> str:
    lines = [f".. {kind}:: {path}"]
    for name, directive in members:
        lines += ["", f"   .. {directive}:: {path}.{name}"]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"


# --- the certificate ------------------------------------------------------------------------------------


def certificate_page() -> str:
    """The fields of certificate.json, and the schema itself."""
    schema = json.loads(resources.files("tacit.privacy").joinpath("certificate.schema.json").read_text("utf-8"))
    parts = [
        "# The certificate",
        "Every run writes `certificate.txt` for people and `certificate.json` for programs. How to read one: "
        "[Read a certificate](../how-to/read-a-certificate.md).",
        "## Fields of certificate.json",
        _field_table(schema),
    ]
    for name, part in schema.get("$defs", {}).items():
        if "properties" in part:
            parts += [f"### {name}", *([part["description"]] if "description" in part else []), _field_table(part)]
    parts += ["## JSON schema", f"```json\n{json.dumps(schema, indent=2)}\n```"]
    return "\n\n".join(parts) + "\n"


def _field_table(part: Mapping[str, Any]) -> str:
    needed = set(part.get("required", []))
    lines = ["| field | | |", "|---|---|---|"]
    for name, field in part["properties"].items():
        always = "always there" if name in needed else "where it applies"
        lines.append(f"| `{name}` | {_cell(field.get('description', ''))} | {always} |")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "job.md": job_page,
    "python.md": python_page,
    "certificate.md": certificate_page,
}
