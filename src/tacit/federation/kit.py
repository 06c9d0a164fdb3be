"""A kit: the directory with which one organisation takes part in a federation, and the home of what is its own.

A kit is made elsewhere. It holds a description, a page and TLS keys, and nothing else is taken from it. What the
organisation itself decides, makes or keeps (settings, identity, budget, runs, logs) lies in its home, outside the kit.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from jinja2 import Environment

from tacit.errors import InputError
from tacit.files import literal, read_toml_file, write_text
from tacit.text import listing, one_line, show

# --- A kit: the directory with which one organisation takes part in a federation, and the home of what is its own


SERVER, PARTY = "server", "party"
ENVIRONMENT = "TACIT_KIT"  # where the processes of a job find their kit
HOME = "TACIT_HOME"  # where organisations keep what is their own; ~/.tacit where it is not set
KEYS = ("server.crt", "server.key", "client.crt", "client.key", "rootCA.pem")
COORDINATOR = "coordinator@tacit.local"  # who submits jobs, as FLARE names people
RESERVED = ("server", "admin", "authority", "all", "logs")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_TEXTS = ("name", "role", "federation", "organisation", "host")
_KEY_FOLDERS = ("flare", "flare/startup", "admin", "admin/startup")
_BROUGHT = {"tacit.toml", "README.html", *_KEY_FOLDERS}
_BROUGHT |= {f"{folder}/{key}" for folder in ("flare/startup", "admin/startup") for key in KEYS}
_OWN = ("site.toml", "ledger.json", "ledger.json.lock", "releases.jsonl", "jobs", "logs", "identity")


@dataclass(frozen=True)
class TlsCertificate:
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
    def read(cls, path: Path) -> TlsCertificate:
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
    home : Path
        Where the organisation keeps what is its own: below TACIT_HOME, and never in the kit.
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
    home: Path
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
            Where it is no kit, a damaged one, one with what a kit does not hold, or with keys that others can read.
        """
        place = Path(path).resolve()
        file = place / "tacit.toml"
        if not file.is_file():
            inside = sorted(child.parent.name for child in place.glob("*/tacit.toml"))
            hint = f"it holds the kits {listing(inside)}: give one of them" if inside else "give the directory of a kit"
            raise InputError(f"{show(str(path))} is no kit, as it has no tacit.toml: {hint}")
        record = read_toml_file(file)
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
        elif record["name"] != SERVER:  # it names a folder
            raise InputError(f"{show(str(file))}: a server is named {SERVER!r}: take the kit again from its maker")
        check_name(record["federation"], "federation")
        check_host(record["host"])
        kit = cls.of(place, port=port, parties=tuple(parties), **{key: record[key] for key in _TEXTS})
        kit._check_content()
        return kit

    @classmethod
    def of(cls, path: Path, *, federation: str, name: str, **rest: Any) -> Kit:
        """The kit in a directory that has its keys already; its home follows from its authority."""
        authority = TlsCertificate.read(path / "flare" / "startup" / "rootCA.pem").fingerprint.replace(":", "").lower()
        home = tacit_home() / f"{federation}-{authority[:8]}" / name
        return cls(path, home, federation=federation, name=name, **rest)

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

    def _check_content(self) -> None:
        """Refuse what a kit does not bring, by name, and keys that others can read."""
        found = sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob("*"))
        foreign = [name for name in found if name not in _BROUGHT or (self.path / name).is_symlink()]
        own = [name for name in _OWN if name in foreign]
        where = f"the kit {show_long(self.path)} holds"
        if own:
            moved = shlex.join(["mv", *(str(self.path / name) for name in own), str(self.home)])
            raise InputError(
                f"{where} {listing(own)}: what is yours is not taken from a kit, as others made it; delete it, or, if "
                f"it is yours from an older version: mkdir -p -m 700 {shlex.quote(str(self.home))} && {moved}"
            )
        if foreign:
            raise InputError(f"{where} {show(foreign[0])}, which does not belong into a kit: delete it")
        for folder in ("flare/startup", "admin/startup"):
            for key in (self.path / folder).glob("*.key"):
                check_private(key, self.path)

    @property
    def flare(self) -> Path:
        """The workspace of FLARE's process; at every start written afresh from the package and the kit's keys."""
        return self.home / "flare"

    @property
    def admin(self) -> Path:
        """The workspace of whoever submits jobs, at the server."""
        return self.home / "admin"

    @property
    def startup(self) -> Path:
        """The keys and certificates of the kit's TLS."""
        return self.path / "flare" / "startup"

    @property
    def logs(self) -> Path:
        """The folder of what the site's processes log."""
        return self.home / "logs"

    @property
    def jobs(self) -> Path:
        """Holds a folder for each run in which the site takes part."""
        return self.home / "jobs"

    @property
    def ledger(self) -> Path:
        """What was spent of the privacy budget."""
        return self.home / "ledger.json"

    @property
    def site(self) -> Path:
        """The organisation's own settings."""
        return self.home / "site.toml"

    @property
    def identity(self) -> Path:
        """The organisation's own keys, and the keys of others that it has confirmed."""
        return self.home / "identity"

    @property
    def certificate(self) -> TlsCertificate:
        """The certificate with which the site's process shows who it is."""
        return TlsCertificate.read(self.startup / ("server.crt" if self.role == SERVER else "client.crt"))

    @property
    def authority(self) -> TlsCertificate:
        """The certificate of the federation, which signs all others."""
        return TlsCertificate.read(self.startup / "rootCA.pem")

    def make_home(self) -> Path:
        """Make the home, which the owner alone can read; refuse one that others can get into.

        Raises
        ------
        InputError
            Where others can read or write it.
        """
        try:
            self.home.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.home.parent.mkdir(exist_ok=True, mode=0o700)
            self.home.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise InputError(f"cannot make {show(str(self.home))}: {one_line(error)}; set {HOME}") from error
        check_private(self.home)
        return self.home

    def settings(self) -> dict[str, Any]:
        """The organisation's own settings, from site.toml; empty before the first start."""
        return read_toml_file(self.site) if self.site.is_file() else {}

    def keep(self, **settings: Any) -> None:
        """Set some of the own settings and keep the others; None takes one away."""
        self.make_home()
        merged = {key: value for key, value in {**self.settings(), **settings}.items() if value is not None}
        write_text(
            self.site, "".join(f"{key} = {literal(_plain(value))}\n" for key, value in merged.items()), secret=True
        )


def tacit_home() -> Path:
    """Where organisations keep what is their own on this machine."""
    return Path(os.environ.get(HOME) or Path.home() / ".tacit").expanduser().resolve()


def check_private(path: Path, whole: Path | None = None) -> None:
    """Refuse a file or folder that others than its owner can read or write, with the command that fixes it.

    Parameters
    ----------
    path : Path
    whole : Path, optional
        The folder around it, where all of it is to be made private.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"cannot read {show(str(path))}: {one_line(error)}") from error
    if stat.S_IMODE(mode) & 0o077:
        fix = shlex.join(["chmod", "-R", "go-rwx", str(whole or path)])
        raise InputError(f"{show_long(path)} can be read or written by others on this machine: {fix}")


def show_long(path: Path) -> str:
    """A path in quotes, whole, on one line."""
    return '"' + "".join(c if c.isprintable() else "?" for c in str(path)) + '"'


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


def _plain(value: Any) -> Any:
    """Paths as text, lists as tuples, also inside tables."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(_plain(item) for item in value) if isinstance(value, (list, tuple)) else value


# --- The page in every kit: what to install, what to run, what to compare by telephone, what to keep secret


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ kit.organisation }} in the federation {{ kit.federation }}</title>
<style>
 body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color: #1c2430; }
 pre { background: #f1f3f6; padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; }
 code { background: #f1f3f6; } h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
 .print { font-family: monospace; word-break: break-all; font-weight: 600; }
</style>
<h1>{{ kit.organisation }}: {{ "the server" if server else "a party" }} of the federation {{ kit.federation }}</h1>
<p>This directory is a kit. {% if server -%}
With it {{ kit.organisation }} runs the server, which the parties
{{ kit.parties | join(", ") }} connect to, and submits jobs. {{ kit.organisation }} takes part with its own data by a
second kit, if it has one.
{%- else -%}
With it {{ kit.organisation }} takes part in training with its own data. The data stay on your
machine; the model's parts are computed there.
{%- endif %} <strong>It holds the private key of a TLS certificate: whoever has it can connect in your name.</strong>
Hand it over by a channel you trust, and do not send it by plain e-mail. After unpacking, make it readable by one
account only; keys that others can read are refused:</p>
<pre>chmod -R go-rwx {{ kit.name }}</pre>

<h2>1. Install</h2>
<p>Python 3.11 or newer on Linux or macOS, then:</p>
<pre>python3 -m venv tacit-env
. tacit-env/bin/activate
pip install 'FOLDER[flare]'</pre>
<p>FOLDER is Tacit's source, or its wheel, from whoever made the kits, as <code>./tacit</code>: the same version for
every organisation. Do not install "tacit" by its name alone: an unrelated package of the public index is called so.</p>

<h2>2. Compare the fingerprint by telephone</h2>
<p>Call the organisation that made the kits, at a number you knew before, and read this number to each other. It is
the fingerprint of the federation's own certificate, the same in every kit, and <code>tacit join</code> and
<code>tacit serve</code> show it at the start. If one character differs, do not go on.</p>
<p class="print">{{ kit.authority.fingerprint }}</p>

<h2>3. Open the way</h2>
{% if server -%}
<p>Let the parties reach TCP port <strong>{{ kit.port }}</strong> of <strong>{{ kit.host }}</strong>, and open no
other port. Both sides of every connection must show a certificate of this federation (mutual TLS); anybody else is
turned away.</p>
{%- else -%}
<p>Your machine must be able to connect to TCP port <strong>{{ kit.port }}</strong> of <strong>{{ kit.host }}</strong>.
Open no port of your own: nobody connects to you.</p>
{%- endif %}

<h2>4. Start</h2>
{% if server -%}
<pre>tacit serve {{ kit.name }}</pre>
<p>The server has no data: it carries what the parties send each other, which it cannot read. {{ kit.organisation }}
joins with its own data by its party's kit.</p>
{%- else -%}
<pre>tacit join {{ kit.name }} --data your-file.csv</pre>
<p>With <code>--id COLUMN</code> it also checks that the file has that column.</p>
{%- endif %}
<p>The command stays in the foreground, says in one line when it is ready, starts FLARE again if it dies, and ends
everything it started when you press Ctrl-C. Nothing is written into this directory: what is your own lies in your home,
<code>~/.tacit/{{ home }}</code> (set <code>TACIT_HOME</code> for another place than <code>~/.tacit</code>): settings in
<code>site.toml</code>, logs in <code>logs</code>. It never leaves your machine, and every setting that holds is printed
at the start.</p>
{% if not server -%}
<p>At the first start you get keys of your own, with which everything you send is sealed; nobody else has them, not
even who made this kit. Call the organisations you work with, read fingerprints to each other, and confirm theirs:</p>
<pre>tacit federation members {{ kit.name }}
tacit federation members {{ kit.name }} --confirm NAME</pre>
{%- endif %}

<h2>5. {% if server %}Hand jobs in{% else %}Say yes, or no{% endif %}</h2>
{% if server -%}
<pre>tacit train job.toml --kit {{ kit.name }}</pre>
<p>A job has <code>engine = "flare"</code> and no paths of data. Every party is asked before anything of it leaves.
<code>tacit status {{ kit.name }}</code> shows how far jobs are.</p>
{%- else -%}
<pre>tacit accept {{ kit.name }} --show
tacit accept {{ kit.name }}
tacit accept {{ kit.name }} --refuse</pre>
<p>Each job shows what would leave you, to whom, and what it would spend of your budget, and waits for your answer:
here, or in the terminal of <code>tacit join</code>. <code>tacit status {{ kit.name }}</code> shows your jobs, who is
waited for, and what is left of the budget that you set in <code>site.toml</code>.
<code>tacit report {{ kit.name }}</code> writes a page about the last run that ended: your part of it,
and what left your machine.</p>
{%- endif %}

<h2>6. What is let in</h2>
<p>Jobs are data. A job that brings code or other files, or that names a class outside Tacit, is refused by your
site, whoever sends it; so are orders to show files, run shell commands, change logging, or stop your site, and messages
that no organisation sealed which you confirmed. The rules come from the package you installed, not from this kit: one
that brings settings, a ledger, runs or code is refused.</p>

<h2>7. Renew in time</h2>
<p>Your certificate is valid until <strong>{{ kit.certificate.until.date() }}</strong>, the federation's own until
{{ kit.authority.until.date() }}. Before that day the organisation that made the kits runs
<code>tacit federation renew DIRECTORY</code>, and you copy the new keys over the old ones:</p>
<pre>cp renewed/{{ kit.name }}/flare/startup/*.* {{ kit.name }}/flare/startup/
{%- if server %}
cp renewed/{{ kit.name }}/admin/startup/*.* {{ kit.name }}/admin/startup/{% endif %}</pre>
<p>and start again. Old certificates stay valid until their day: FLARE keeps no list of revoked ones. Who stole one can
connect until then, and cannot speak for you, as that needs your own keys. If those were stolen:
<code>tacit federation rotate {{ kit.name }} --stolen</code>, and call the others.</p>
</html>
"""


def write_page(kit: Kit) -> None:
    """Write README.html into a kit."""
    template = Environment(autoescape=True).from_string(PAGE)
    write_text(
        kit.path / "README.html",
        template.render(kit=kit, server=kit.role == SERVER, home="/".join(kit.home.parts[-2:])),
    )
