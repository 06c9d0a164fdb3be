"""What a site lets FLARE bring in: jobs that are data and name known classes, and no orders besides.

What a site lets FLARE bring in: jobs that are data and name known classes, and no orders besides.

FLARE's own policies refuse a job with code and build no class that is not listed. This adds what they leave
open: anything in a job besides its two settings files, words that FLARE would replace (braces), names that
a listed module only imported, and orders to a site other than those of jobs.

What FLARE's process of a site may do: its settings, written afresh at every start from this package.

Of a kit the TLS keys, the certificates and the names in tacit.toml are used; they are copied into the organisation's
home, where everything else is written. Whoever made the kit cannot bring settings, and so no code, into a site.
"""

from __future__ import annotations

import filecmp
import importlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidationKey, AppValidator
from nvflare.apis.fl_component import FLComponent
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from tacit.federation.kit import COORDINATOR, KEYS, PARTY, SERVER, Kit
from tacit.files import write_json

# --- What a site lets FLARE bring in: jobs that are data and name known classes, and no orders besides


FILES = ("config/config_fed_server.json", "config/config_fed_client.json")
SIGNATURES = (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)  # FLARE puts them into each folder of a signed job
SECTIONS = {"format_version", "workflows", "executors", "components", "task_data_filters", "task_result_filters"}
NAMES_A_CLASS = ("path", "class_path", "name")
MOST_BYTES = 64 * 1024 * 1024
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
            reason = f"this site refuses the job: {error}"
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
        """Check one settings file."""
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
        """Check what names a class."""
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


# --- What FLARE's process of a site may do: its settings, written afresh at every start from this package


# A job may name these classes and no others; a name that ends in a dot stands for the classes of that module.
ALLOWED_CLASSES = (
    "tacit.federation.flare.",
    "tacit.federation.flare_roll_call.",
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
SCHEDULE = {"max_jobs": 4, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0, "max_schedule_count": 1000}
ROLE = "lead"  # FLARE's name for who may submit jobs
_COMMON = "nvflare.app_common."


def write_settings(kit: Kit) -> None:
    """Write every setting that FLARE's process reads, and take away whatever else lies there."""
    kit.make_home()
    startup, local = kit.flare / "startup", kit.flare / "local"
    _take_keys(kit.startup, startup)
    shutil.rmtree(local, ignore_errors=True)  # also removes local/custom, which FLARE would put on the path
    local.mkdir()
    server = kit.role == SERVER
    write_json(startup / ("fed_server.json" if server else "fed_client.json"), _server(kit) if server else _client(kit))
    write_json(local / "resources.json", _server_resources(kit) if server else _client_resources())
    write_json(local / "authorization.json", _rights())
    write_json(local / "log_config.json", _logging())
    write_json(local / "comm_config.json", {"allow_adhoc_conns": False})  # everything goes through the server
    if server:
        write_admin(kit)


def write_admin(kit: Kit, *, again: bool = True) -> None:
    """Write what is needed to submit jobs; not `again` where it is there, with the keys of the kit."""
    source, startup, local = kit.path / "admin" / "startup", kit.admin / "startup", kit.admin / "local"
    if not source.is_dir():
        return
    there = (startup / "fed_admin.json").is_file() and (local / "resources.json").is_file()
    if not again and there and not filecmp.cmpfiles(source, startup, KEYS[2:], shallow=False)[1]:
        return
    kit.make_home()
    _take_keys(source, startup)
    local.mkdir(exist_ok=True)
    write_json(startup / "fed_admin.json", _admin(kit))
    write_json(local / "resources.json", _admin_resources())


def _take_keys(source: Path, place: Path) -> None:
    """Copy keys and certificates, and leave nothing else."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, mode=0o700)
    for name in KEYS:
        if (source / name).is_file():
            with open(os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write((source / name).read_bytes())


def start_arguments(kit: Kit) -> list[str]:
    """The module of FLARE that a site runs, and its arguments."""
    organisation = kit.organisation.replace("-", "_")
    common = ["secure_train=true", f"org={organisation}", "config_folder=config"]
    if kit.role == PARTY:
        module, file, own = "client.client_train", "fed_client.json", [f"uid={kit.name}"]
    else:
        module, file, own = "server.server_train", "fed_server.json", []
    return [f"nvflare.private.fed.app.{module}", "-m", str(kit.flare), "-s", file, "--set", *common, *own]


def _component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


def _guards() -> dict[str, Any]:
    """What both kinds of site let in."""
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(ALLOWED_CLASSES),
        "app_validator": {
            "path": "tacit.federation.flare_policy.JobCheck",
            "args": {"allowed": list(ALLOWED_CLASSES)},
        },
    }


def _client_resources() -> dict[str, Any]:
    managers = _COMMON + "resource_managers.gpu_resource_manager.GPUResourceManager"
    consumer = _COMMON + "resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    return {
        **_guards(),
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            _component("orders", "tacit.federation.flare_policy.OnlyJobs"),
            _component("resource_manager", managers, num_of_gpus=0, mem_per_gpu_in_GiB=0, expiration_period=300),
            _component("resource_consumer", consumer),
            _component("process_launcher", _COMMON + "job_launcher.client_process_launcher.ClientProcessJobLauncher"),
        ],
    }


def _server_resources(kit: Kit) -> dict[str, Any]:
    storage = _COMMON + "storages.filesystem_storage.FilesystemStorage"
    snapshots = {"root_dir": str(kit.flare / "snapshots"), "uri_root": "/"}
    jobs = str(kit.flare / "jobs")
    return {
        **_guards(),
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 100, "heart_beat_timeout": 60, "admin_timeout": 10.0}
        ],
        "snapshot_persistor": {
            "path": _COMMON + "state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {"uri_root": "/", "storage": {"path": storage, "args": snapshots}},
        },
        "components": [
            _component("job_scheduler", _COMMON + "job_schedulers.job_scheduler.DefaultJobScheduler", **SCHEDULE),
            _component(
                "job_manager",
                "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=jobs,
                job_store_id="job_store",
            ),
            _component("job_store", storage),
            _component("process_launcher", _COMMON + "job_launcher.server_process_launcher.ServerProcessJobLauncher"),
        ],
    }


def _rights() -> dict[str, Any]:
    """The coordinator submits jobs and looks after its own; nobody brings code, reads files or steers a site."""
    none = ("clone_job", "operate", "shell_commands", "byoc", "server-predeployed-flwr", "configure_job_log")
    own = f"n:{COORDINATOR}"
    allowed = ("submit_job", "manage_job", "download_job", "view")
    return {
        "format_version": "1.0",
        "permissions": {ROLE: {**dict.fromkeys(allowed, own), **dict.fromkeys(none, "none")}},
    }


def _service(kit: Kit) -> dict[str, Any]:
    return {"target": f"{kit.host}:{kit.port}", "scheme": "grpc"}


def _server(kit: Kit) -> dict[str, Any]:
    keys = {"ssl_private_key": "server.key", "ssl_cert": "server.crt", "ssl_root_cert": "rootCA.pem"}
    server = {
        "name": kit.federation,
        "service": _service(kit),
        "admin_server": kit.host,
        "admin_port": kit.port,  # one open port for everything
        "connection_security": "mtls",
        **keys,
    }
    return {"format_version": 2, "require_signed_jobs": True, "servers": [server]}


def _client(kit: Kit) -> dict[str, Any]:
    keys = {"ssl_private_key": "client.key", "ssl_cert": "client.crt", "ssl_root_cert": "rootCA.pem"}
    client = {"fqsn": kit.name, "is_leaf": True, "connection_security": "mtls", **keys}
    server = {"name": kit.federation, "service": _service(kit), "identity": kit.host}
    return {"format_version": 2, "require_signed_jobs": True, "servers": [server], "client": client}


def _admin(kit: Kit) -> dict[str, Any]:
    keys = {"client_key": "client.key", "client_cert": "client.crt", "ca_cert": "rootCA.pem"}
    person = {"project_name": kit.federation, "username": COORDINATOR, "server_identity": kit.host}
    place = {"scheme": "grpc", "host": kit.host, "port": kit.port, "connection_security": "mtls"}
    files = {"with_file_transfer": True, "upload_dir": "transfer", "download_dir": "transfer"}
    return {"format_version": 1, "admin": {**person, **place, **files, **keys, "uid_source": "user_input"}}


def _admin_resources() -> dict[str, Any]:
    times = {"idle_timeout": 900.0, "login_timeout": 10.0, "authenticate_msg_timeout": 2.0}
    return {"format_version": 1, "admin": {**times, "with_debug": False, "prompt": "> "}}


def _logging() -> dict[str, Any]:
    """One stream, which the supervisor keeps in a file."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stdout"}},
        "loggers": {"nvflare.collab": {"level": "WARNING"}},  # else several lines for every call of every round
        "root": {"level": "INFO", "handlers": ["out"]},
    }
