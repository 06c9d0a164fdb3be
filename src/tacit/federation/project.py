"""Set a federation up: keys and certificates from FLARE's provisioning, and a kit for every organisation."""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.errors import InputError, RunError
from tacit.federation.flare_settings import ROLE
from tacit.federation.kit import COORDINATOR, KEYS, PARTY, SERVER, Kit, check_host, check_name, write_page
from tacit.files import literal, read_toml_file, write_json, write_text
from tacit.text import listing, one_line, show

__all__ = ["Federation", "add", "init", "renew", "require_flare"]

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 360  # FLARE gives no choice
DEFAULT_PORT = 8002
_KEYS = ("name", "server", "host", "port", "parties")
_SECONDS = 120


@dataclass(frozen=True)
class Federation:
    """Who takes part, and where the server is.

    Attributes
    ----------
    name : str
        The federation's name.
    server : str
        The organisation that runs the server: the one with the labels.
    host, port
        Where the others reach it.
    parties : tuple of str
        Every organisation with data, by the name that jobs use.
    """

    name: str
    server: str
    host: str
    parties: tuple[str, ...]
    port: int = DEFAULT_PORT

    def __post_init__(self) -> None:
        check_name(self.name, "federation")
        check_name(self.server, "server organisation")
        check_host(self.host)
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 1 <= self.port <= 65535:
            raise InputError(f"port {show(self.port)}: give a number from 1 to 65535")
        for party in self.parties:
            check_name(party, "party")
        if len({party.lower().replace("-", "_") for party in self.parties}) < max(len(self.parties), 1):
            raise InputError(f"parties {listing(self.parties)}: name each once, and at least one")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Federation:
        """Read a federation from a TOML file.

        Raises
        ------
        InputError
            Where something is missing, unknown or of another kind.
        """
        record = read_toml_file(Path(path))
        for key in record:
            if key not in _KEYS:
                raise InputError(f"{show(str(path))}: {show(key)} is not known: write {', '.join(_KEYS)}")
        for key in ("name", "server", "host"):
            if not isinstance(record.get(key), str):
                raise InputError(f'{show(str(path))}: write {key} = "..."')
        parties = record.get("parties")
        if not isinstance(parties, list) or not all(isinstance(party, str) for party in parties):
            raise InputError(f'{show(str(path))}: write parties = ["...", "..."]')
        return cls(**{**record, "parties": tuple(parties)})

    def write(self, path: Path) -> None:
        """Write the federation's file, from which kits can be made again."""
        write_text(path, "".join(f"{key} = {literal(getattr(self, key))}\n" for key in _KEYS))


def init(federation: Federation, out: str | os.PathLike[str]) -> list[Kit]:
    """Make a directory with the kit of every organisation and the federation's authority.

    Parameters
    ----------
    federation : Federation
        Who takes part.
    out : path
        A directory that does not exist yet.

    Returns
    -------
    list of Kit
        The server's kit, then the parties' kits in their order.

    Raises
    ------
    InputError
        Where `out` exists or FLARE is not installed.
    RunError
        Where provisioning failed; nothing is left behind.
    """
    place = Path(out)
    if place.exists() or place.is_symlink():
        raise InputError(f"{show(str(out))} exists and is never overwritten: choose another --out")
    require_flare()
    with _building(place) as made:
        authority = made / "authority"
        authority.mkdir(mode=0o700)
        federation.write(authority / "federation.toml")
        with _provisioned(federation, authority) as startup:
            names = [SERVER, *federation.parties]
            for name in names:
                _make_kit(federation, name, made / name, startup)
    return _open_all(place, names)


def add(out: str | os.PathLike[str], party: str) -> Kit:
    """Make the kit of one more party; the others keep theirs.

    Parameters
    ----------
    out : path
        The directory that `init` made, with the authority in it.
    party : str
        The new party's name.
    """
    place, federation = _open_authority(out)
    if (place / party).exists() or party in federation.parties:
        raise InputError(f"{show(party)} is in the federation already: choose another name, or renew its kit")
    grown = replace(federation, parties=(*federation.parties, party))
    require_flare()
    with _building(place / party) as made, _provisioned(grown, place / "authority") as startup:
        _make_kit(grown, party, made, startup)
    grown.write(place / "authority" / "federation.toml")
    return Kit.open(place / party)


def renew(out: str | os.PathLike[str], names: Sequence[str] = ()) -> list[Kit]:
    """Make kits with fresh keys and certificates, under the same authority.

    Parameters
    ----------
    out : path
        The directory that `init` made, with the authority in it.
    names : sequence of str
        Whose kits: parties, or "server"; everybody's when empty.

    Returns
    -------
    list of Kit
        New kits below `out`/renewed-DATE; their keys are to be copied into the kits in use.
    """
    place, federation = _open_authority(out)
    known = [SERVER, *federation.parties]
    for name in names:
        if name not in known:
            raise InputError(f"{show(name)} is not in the federation: choose from {listing(known)}")
    target = place / f"renewed-{datetime.date.today().isoformat()}"
    if target.exists():
        raise InputError(f"{show(str(target))} exists and is never overwritten: move it away first")
    require_flare()
    chosen = [name for name in known if name in names or not names]
    with _building(target) as made, _provisioned(federation, place / "authority") as startup:
        for name in chosen:
            _make_kit(federation, name, made / name, startup)
    return _open_all(target, chosen)


def require_flare() -> None:
    """Refuse to go on without NVIDIA FLARE."""
    if importlib.util.find_spec("nvflare") is None:
        raise InputError("NVIDIA FLARE is not installed, and organisations need it: pip install 'tacit[flare]'")


# --- making -------------------------------------------------------------------------------------------


def _open_authority(out: str | os.PathLike[str]) -> tuple[Path, Federation]:
    place = Path(out)
    if not (place / "authority" / "root.json").is_file():
        raise InputError(f"{show(str(out))} has no authority: give the directory that tacit federation init made")
    return place, Federation.read(place / "authority" / "federation.toml")


def _open_all(place: Path, names: Sequence[str]) -> list[Kit]:
    return [Kit.open(place / name) for name in names]


@contextlib.contextmanager
def _building(place: Path) -> Iterator[Path]:
    """A directory that takes its name only when it is whole."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
    except OSError as error:
        raise RunError(f"cannot write {show(str(place))}: {one_line(error)}") from error
    try:
        yield made
        made.rename(place)
    except OSError as error:
        raise RunError(f"cannot write {show(str(place))}: {one_line(error)}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _make_kit(federation: Federation, name: str, place: Path, startup: Path) -> None:
    """Write one kit from what provisioning made."""
    place.mkdir(mode=0o700, exist_ok=True)
    role, source, organisation = PARTY, name, name
    if name == SERVER:
        role, source, organisation = SERVER, federation.host, federation.server
        _copy_keys(startup / COORDINATOR, place / "admin")
    _copy_keys(startup / source, place / "flare")
    about = {"organisation": organisation, "host": federation.host, "port": federation.port}
    kit = Kit.of(place, federation=federation.name, name=name, role=role, parties=federation.parties, **about)
    kit.write()
    write_page(kit)


def _copy_keys(source: Path, place: Path) -> None:
    """Copy keys and certificates, and nothing else."""
    (place / "startup").mkdir(parents=True, mode=0o700)
    for found in (source / "startup").iterdir():
        if found.name in KEYS:
            shutil.copy(found, place / "startup" / found.name)
            (place / "startup" / found.name).chmod(0o600)


@contextlib.contextmanager
def _provisioned(federation: Federation, authority: Path) -> Iterator[Path]:
    """Keys and certificates of everyone, new each time, under the authority's root; it keeps nobody else's key."""
    root = authority / "root.json"
    with tempfile.TemporaryDirectory(dir=authority) as folder:
        work = Path(folder)
        state = work / "made" / federation.name / "state"
        state.mkdir(parents=True)
        if root.exists():
            shutil.copy(root, state / "cert.json")
        write_json(work / "project.yml", _project(federation))  # JSON is YAML
        _run_provisioning(work)
        record = json.loads((state / "cert.json").read_text())
        if not root.exists():
            write_json(root, {key: record[key] for key in ("root_cert", "root_pri_key")}, secret=True)
        yield work / "made" / federation.name / "prod_00"


def _run_provisioning(work: Path) -> None:
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml", "-w", "made", "--force"]
    environment = {**os.environ, "HOME": str(work), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"FLARE's provisioning did not end well: {one_line(error)}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunError(f"FLARE's provisioning failed: {said[-1] if said else f'exit code {done.returncode}'}")


def _project(federation: Federation) -> dict[str, Any]:
    """The description that FLARE provisions from."""
    organisation = federation.server.replace("-", "_")
    server = {"name": federation.host, "type": "server", "org": organisation, "fed_learn_port": federation.port}
    people = {"name": COORDINATOR, "type": "admin", "org": organisation, "role": ROLE}
    parties = [{"name": party, "type": "client", "org": party.replace("-", "_")} for party in federation.parties]
    builders = "nvflare.lighter.impl."
    return {
        "api_version": 3,
        "name": federation.name,
        "description": "made by tacit federation init",
        "connection_security": "mtls",
        "participants": [server, *parties, people],
        "builders": [
            {"path": builders + "workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {"path": builders + "static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
            {"path": builders + "cert.CertBuilder", "args": {"root_valid_days": AUTHORITY_DAYS}},
            {"path": builders + "signature.SignatureBuilder", "args": {}},
        ],
    }
