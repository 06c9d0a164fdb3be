"""What a site lets FLARE bring in: jobs that are data and name known classes, plain messages, and no orders besides.

FLARE's own policies refuse a job with code and build no class that is not listed. This adds what they leave
open: anything in a job besides its two settings files, words that FLARE would replace (braces), names that
a listed module only imported, orders to a site other than those of jobs, and messages that are more than plain
data: objects of other classes, files, and references to something that the reader would have to fetch.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nvflare.apis.app_validation import AppValidationKey, AppValidator
from nvflare.apis.fl_component import FLComponent
from nvflare.fuel.utils.fobs import fobs, lobs
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from tacit.text import one_line

FILES = ("config/config_fed_server.json", "config/config_fed_client.json")
SIGNATURES = (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)  # FLARE puts them into each folder of a signed job
SECTIONS = {"format_version", "workflows", "executors", "components", "task_data_filters", "task_result_filters"}
NAMES_A_CLASS = ("path", "class_path", "name")
MOST_BYTES = 64 * 1024 * 1024
LONGEST = 300  # characters of a refusal, which may hold words of the job
# The server's orders that a job needs; without the others it cannot change logging, show files or stop a site.
ORDERS = {
    "ClientStatusProcessor",
    "AbortAppProcessor",
    "AbortTaskProcessor",
    "DeployProcessor",
    "DeleteRunNumberProcessor",
    "StartJobProcessor",
    "CheckResourceProcessor",
    "CancelResourceProcessor",
    "NotifyJobStatusProcessor",
    "ReportVersionProcessor",
}


class JobCheck(AppValidator):  # type: ignore[misc]
    """Refuses a job before anything of it runs.

    Parameters
    ----------
    allowed : sequence of str
        The classes that a job may name; one that ends in a dot stands for the classes defined in that module.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return why a job is refused ("" where it is not), and what FLARE wants to know about it."""
        try:
            self._check(Path(app_folder))
        except (ValueError, OSError, RecursionError) as error:
            reason = f"this site refuses the job: {one_line(error)[:LONGEST]}"
            logging.getLogger(__name__).warning(reason)
            return reason, {}
        return "", {AppValidationKey.BYOC: False}

    def _check(self, folder: Path) -> None:
        """Raise ValueError with the reason of a refusal."""
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
        foreign = [name for name in found if name not in ("config", *FILES) and Path(name).name not in SIGNATURES]
        if foreign:
            raise ValueError(f"it brings {foreign[0]!r}; a job is data and brings no code or other files")
        for name in FILES:
            file = folder / name
            if file.is_symlink() or (file.exists() and file.stat().st_size > MOST_BYTES):
                raise ValueError(f"{name} is a link or too large")
            if file.exists():
                self._check_settings(json.loads(file.read_text(encoding="utf-8")), name)

    def _check_settings(self, settings: Any, name: str) -> None:
        """Refuse a settings file with anything but known sections and known classes."""
        if not isinstance(settings, dict) or not set(settings) <= SECTIONS:
            raise ValueError(f"{name} has other sections than {', '.join(sorted(SECTIONS))}")
        if settings.get("task_data_filters") or settings.get("task_result_filters"):
            raise ValueError(f"{name} has filters")
        for value in _values(settings):
            if isinstance(value, str) and ("{" in value or "}" in value):
                raise ValueError(f"{name} has a text with braces, which FLARE would replace")
            if isinstance(value, dict) and any(key in value for key in NAMES_A_CLASS):
                self._check_class(value, name)

    def _check_class(self, component: dict[str, Any], name: str) -> None:
        """Refuse a component whose class is not one of those that a job may name."""
        path = component.get("path")
        if not isinstance(path, str) or "name" in component or "class_path" in component:
            raise ValueError(f"{name} names a class by something else than path")
        module, _, wanted = path.rpartition(".")
        if path in self.allowed and wanted:
            return
        if f"{module}." not in self.allowed:
            raise ValueError(f"it names the class {path!r}, which is not allowed here")
        found = getattr(importlib.import_module(module), wanted, None)
        if wanted.startswith("_") or not isinstance(found, type) or found.__module__ != module:
            raise ValueError(f"it names {path!r}, which is no class of that module")


class OnlyJobs(FLComponent):  # type: ignore[misc]
    """A site that takes only the orders that jobs need.

    FLARE's server may tell a site to show its files, to change its logging, or to stop, and the site believes
    what the server says about who asked. Made at the start of a site, before it connects.
    """

    def __init__(self) -> None:
        super().__init__()
        known = ClientRequestProcessors.request_processors
        kept = [processor for processor in known if type(processor).__name__ in ORDERS]
        if {type(processor).__name__ for processor in kept} != ORDERS:
            raise RuntimeError("this version of FLARE takes other orders than Tacit knows: install tacit[flare] again")
        known[:] = kept


class PlainMessages(FLComponent):  # type: ignore[misc]
    """A process that makes nothing of a message but plain data and FLARE's own records of jobs.

    FLARE reads every message that comes before it looks at who sent it. By itself it then builds any class that some
    module registered, stores files that a message brings, and fetches what a message refers to. Made at the
    start of every process of a site, before it connects.

    Parameters
    ----------
    types : sequence of str
        The classes, by their full names, whose objects a message may hold besides plain data.
    """

    def __init__(self, types: Sequence[str]) -> None:
        super().__init__()
        read_only_plain(types)


def read_only_plain(types: Sequence[str]) -> None:
    """From now on let FLARE's reader of messages build objects of these classes alone, and neither store nor fetch."""

    class PlainPacker(_Packer):  # type: ignore[misc, valid-type]
        def unpack(self, obj: Any) -> Any:
            if type(obj) is dict and fobs.FOBS_TYPE in obj:
                name = obj[fobs.FOBS_TYPE]
                if not isinstance(name, str) or name not in types or fobs.FOBS_DATA not in obj:
                    raise ValueError(f"a message with a {name!r:.80} came, which is not read here")
            return super().unpack(obj)

    fobs.Packer = PlainPacker
    lobs.get_datum_dir = _refuse_file
    lobs.get_dot_handler = _refuse_fetching


_Packer = fobs.Packer


def _refuse_file() -> NoReturn:
    raise ValueError("a message with a file came, which is not stored here")


def _refuse_fetching(dot: int) -> NoReturn:
    raise ValueError(f"a message came that refers to something elsewhere ({dot}), which is not fetched from here")


def _values(node: Any) -> Iterator[Any]:
    """A value and everything inside it, keys too."""
    yield node
    if isinstance(node, dict):
        for key, item in node.items():
            yield key
            yield from _values(item)
    elif isinstance(node, list):
        for item in node:
            yield from _values(item)
