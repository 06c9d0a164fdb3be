"""Verbs by name, and their modules: each is imported when it is used, and not before.

A module of this folder has DESCRIPTION, EPILOG, `add_arguments(parser)` and `run(options)`. Other distributions bring
verbs by entry points of the group "tacit.verbs", which name such a module with HELP besides. A verb of Tacit's own is
never looked up there, so that nobody can replace it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError, RunError
from tacit.text import show

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tacit.verbs"
PARTS = ("HELP", "DESCRIPTION", "EPILOG", "add_arguments", "run")


@dataclass(frozen=True)
class Verb:
    """A verb of this project: its line of help, and what to install for it where another distribution brings it.

    Its module has its name where `module` says nothing else.
    """

    HELP: str
    distribution: str = ""
    module: str = ""


VERBS = {
    "demo": Verb("see it work on data shipped with scikit-learn"),
    "init": Verb("write a first job file from data files"),
    "plan": Verb("see privacy, cost and use of a job before training"),
    "train": Verb("train what a job file describes"),
    "report": Verb("write a page about a finished run"),
    "predict": Verb("predict new rows with a trained model"),
    "evaluate": Verb("measure a trained model on new rows with labels"),
    "summary": Verb("see standard errors, p-values and tests by party", module="standard_errors"),
    "explain": Verb("take a prediction apart, party by party"),
    "curves": Verb("draw what each column adds to the score"),
    "scorecard": Verb("write a classifier as points that are added up"),
    "export": Verb("hand a model over: plain Python, ONNX, skops, a card"),
    "describe": Verb("look at the columns of a job before training"),
    "compare": Verb("see whether lines, curves or trees are worth it"),
    "watch": Verb("watch a run in progress"),
    "verify": Verb("recompute a privacy certificate"),
    "sign": Verb("sign a privacy certificate with your own key"),
    "audit": Verb("try to break the privacy of a job"),
    "randomize": Verb("randomize labels before handing data over"),
    "align": Verb("match rows by id without showing ids"),
    "answer": Verb("answer requests for scores (a party's service)"),
    "ask": Verb("predict with the parties' services"),
    "federation": Verb("set up training between organisations"),
    "serve": Verb("run the server of a federation"),
    "join": Verb("take part in a federation with your data"),
    "accept": Verb("answer a job that asks whether you take part"),
    "status": Verb("see what your part in a federation does"),
    "design": Verb("choose the alpha of the mechanisms dual and primal", "tacit-papers"),
    "reproduce": Verb("rerun the papers and judge their claims", "tacit-papers"),
}


def find_verb(name: str) -> Any:
    """The module of a verb that is not Tacit's own, or None where no installed package brings it.

    Raises
    ------
    RunError
        Where a package brings it, and it cannot be used.
    """
    found = _entry_points(name)
    if not found:
        return None
    if len(found) > 1:
        owners = ", ".join(sorted(map(_owner, found)))
        raise RunError(f"more than one package brings the verb {show(name)} ({owners}): uninstall all but one")
    return _load(found[0])


def need_verb(name: str, where: Verb) -> Any:
    """The module of a verb of this project.

    Raises
    ------
    InputError
        Where its distribution is not installed.
    """
    module = find_verb(name)
    if module is None:
        raise InputError(
            f"tacit {name} is in {where.distribution}, which is not installed: pip install {where.distribution}"
        )
    return module


def further_names() -> list[str]:
    """Names of all verbs that installed packages bring."""
    return sorted({entry.name for entry in _entry_points()})


def _entry_points(name: str | None = None) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [entry for entry in dict.fromkeys(entry_points(group=GROUP)) if name in (None, entry.name)]


def _load(entry: EntryPoint) -> Any:
    """Import what an entry point names; whatever goes wrong there is one line."""
    try:
        module = entry.load()
    except (Exception, SystemExit) as error:
        raise _broken(entry, f"{type(error).__name__}: {error}") from error
    missing = [part for part in PARTS if not hasattr(module, part)]
    if missing:
        raise _broken(entry, f"{entry.value} has no {missing[0]}")
    return module


def _broken(entry: EntryPoint, why: str) -> RunError:
    owner = _owner(entry)
    return RunError(f"the verb {show(entry.name)} of {owner} cannot be used ({why}): update or uninstall {owner}")


def _owner(entry: EntryPoint) -> str:
    """The distribution that brings it."""
    return entry.dist.name if entry.dist is not None else entry.value
