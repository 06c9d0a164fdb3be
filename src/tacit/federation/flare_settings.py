"""What FLARE's process of a site may do: its settings, written afresh at every start from this package.

Of a kit the TLS keys, the certificates and the names in tacit.toml are used; they are copied into the organisation's
home, where everything else is written. Whoever made the kit cannot bring settings, and so no code, into a site.

Names FLARE's classes and imports none of them: `tacit status` and `tacit federation` need no FLARE.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path
from typing import Any

from tacit.federation.kit import COORDINATOR, KEYS, PARTY, SERVER, Kit
from tacit.files import write_json

# A job may name these classes and no others; a name that ends in a dot stands for the classes of that module.
ALLOWED_CLASSES = (
    "tacit.federation.flare.",
    "tacit.federation.flare_roll_call.",
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
# Objects that FLARE's own messages hold besides plain data; a message with any other is not read.
MESSAGE_TYPES = (
    "tuple",
    "nvflare.apis.client.Client",
    "nvflare.apis.fl_context.FLContext",
    "nvflare.apis.job_def.JobMetaKey",
    "nvflare.apis.shareable.Shareable",
    "nvflare.fuel.utils.fobs.datum.DatumRef",  # a part of the same message that is large
    "nvflare.private.admin_defs.Message",
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


def _plain_messages() -> dict[str, Any]:
    """The component that every process of a site makes first."""
    return _component("messages", "tacit.federation.flare_policy.PlainMessages", types=list(MESSAGE_TYPES))


def _client_resources() -> dict[str, Any]:
    managers = _COMMON + "resource_managers.gpu_resource_manager.GPUResourceManager"
    consumer = _COMMON + "resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    return {
        **_guards(),
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            _plain_messages(),
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
            _plain_messages(),
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
