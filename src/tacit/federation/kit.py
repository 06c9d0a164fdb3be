"""A kit: the directory with which one organisation takes part in a federation."""

from __future__ import annotations

import datetime
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from tacit.data.wording import listing, one_line, show
from tacit.errors import InputError
from tacit.job.write import literal
from tacit.runtime.files import write_text

__all__ = ["ENVIRONMENT", "PARTY", "SERVER", "Certificate", "Kit", "check_name"]

SERVER, PARTY = "server", "party"
ENVIRONMENT = "TACIT_KIT"  # where the processes of a job find their kit
COORDINATOR = "coordinator@tacit.local"  # who submits jobs, as FLARE names people
RESERVED = ("server", "admin", "authority", "all", "logs")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_TEXTS = ("name", "role", "federation", "organisation", "host")


@dataclass(frozen=True)
class Certificate:
    """What a certificate says about its owner.

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the certificate, in pairs of hexadecimal digits.
    until : datetime
        The last moment at which it is valid.
    """

    fingerprint: str
    until: datetime.datetime

    @classmethod
    def read(cls, path: Path) -> Certificate:
        """Read a certificate in PEM form."""
        try:
            found = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read the certificate {show(str(path))}: {one_line(error)}") from error
        return cls(found.fingerprint(SHA256()).hex(":").upper(), found.not_valid_after_utc)

    @property
    def days(self) -> float:
        """Days until it expires; negative afterwards."""
        return (self.until - datetime.datetime.now(datetime.UTC)).total_seconds() / 86400


@dataclass(frozen=True)
class Kit:
    """One organisation's part in a federation.

    Attributes
    ----------
    path : Path
        The directory.
    name : str
        The name of the site: the party's name, or "server".
    role : {"server", "party"}
        What it runs.
    federation : str
        The name of the federation.
    organisation : str
        Whose kit it is.
    host, port
        Where the server is reached.
    parties : tuple of str
        Everyone who was a party when the kit was made.
    """

    path: Path
    name: str
    role: str
    federation: str
    organisation: str
    host: str
    port: int
    parties: tuple[str, ...]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Kit:
        """Read a kit from its directory.

        Raises
        ------
        InputError
            Where it is no kit, or a damaged one.
        """
        place = Path(path).resolve()
        file = place / "tacit.toml"
        if not file.is_file():
            inside = sorted(child.parent.name for child in place.glob("*/tacit.toml"))
            hint = f"it holds the kits {listing(inside)}: give one of them" if inside else "give the directory of a kit"
            raise InputError(f"{show(str(path))} is no kit, as it has no tacit.toml: {hint}")
        record = _read(file)
        for key in _TEXTS:
            if not isinstance(record.get(key), str):
                raise InputError(f"{show(str(file))} does not say {key}: take the kit again from whoever made it")
        port, parties = record.get("port"), record.get("parties")
        if (
            not isinstance(port, int)
            or not isinstance(parties, list)
            or not all(isinstance(one, str) for one in parties)
        ):
            raise InputError(
                f"{show(str(file))} is damaged at port or parties: take the kit again from whoever made it"
            )
        if record["role"] not in (SERVER, PARTY):
            raise InputError(f"{show(str(file))}: role {show(record['role'])} is neither {SERVER!r} nor {PARTY!r}")
        if record["role"] == PARTY:
            check_name(record["name"], "party")
        check_host(record["host"])
        return cls(path=place, port=port, parties=tuple(parties), **{key: record[key] for key in _TEXTS})

    @classmethod
    def from_environment(cls) -> Kit:
        """The kit of this process, which `tacit serve` or `tacit join` started."""
        path = os.environ.get(ENVIRONMENT)
        if not path:
            raise InputError(f"{ENVIRONMENT} is not set: start the site with tacit join or tacit serve")
        return cls.open(path)

    def write(self) -> None:
        """Write tacit.toml."""
        pairs = {key: getattr(self, key) for key in (*_TEXTS, "port", "parties")}
        write_text(self.path / "tacit.toml", "".join(f"{key} = {literal(value)}\n" for key, value in pairs.items()))

    @property
    def flare(self) -> Path:
        """The workspace of FLARE's process."""
        return self.path / "flare"

    @property
    def admin(self) -> Path:
        """The part of the server's kit with which jobs are submitted."""
        return self.path / "admin"

    @property
    def logs(self) -> Path:
        """What the site's processes wrote."""
        return self.path / "logs"

    @property
    def jobs(self) -> Path:
        """A directory for each job."""
        return self.path / "jobs"

    @property
    def ledger(self) -> Path:
        """What was spent of the privacy budget."""
        return self.path / "ledger.json"

    @property
    def site(self) -> Path:
        """The organisation's own settings."""
        return self.path / "site.toml"

    @property
    def certificate(self) -> Certificate:
        """The site's own certificate."""
        return Certificate.read(self.flare / "startup" / ("server.crt" if self.role == SERVER else "client.crt"))

    @property
    def authority(self) -> Certificate:
        """The certificate of the federation, which signs all others."""
        return Certificate.read(self.flare / "startup" / "rootCA.pem")

    def settings(self) -> dict[str, Any]:
        """The organisation's own settings, from site.toml; empty before the first start."""
        return _read(self.site) if self.site.is_file() else {}

    def keep(self, **settings: Any) -> None:
        """Set some of the own settings and keep the others; None takes one away."""
        merged = {key: value for key, value in {**self.settings(), **settings}.items() if value is not None}
        write_text(
            self.site, "".join(f"{key} = {literal(_plain(value))}\n" for key, value in merged.items()), secret=True
        )


def check_name(name: str, what: str) -> str:
    """Refuse names that FLARE, certificates or file systems would take badly."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{what} {show(name)}: use at most 40 letters a to z, digits, - and _, a letter first")
    if name.lower() in RESERVED:
        raise InputError(f"{what} {show(name)}: the name is taken by the federation itself: choose another")
    return name


def check_host(host: str) -> str:
    """Refuse what is no host name."""
    if not re.fullmatch(
        r"(?=.{1,64}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*", host
    ):
        raise InputError(f"host {show(host)}: give a host name such as tacit.bank.example, or an IPv4 address")
    return host


def _read(path: Path) -> dict[str, Any]:
    """Read TOML, with one line for what is wrong."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {show(str(path))}: {one_line(error)}") from error


def _plain(value: Any) -> Any:
    """Paths as text, lists as tuples, also inside tables."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(_plain(item) for item in value) if isinstance(value, (list, tuple)) else value
