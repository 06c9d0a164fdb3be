"""Who may ask: bearer tokens by caller, and the rules for where a service may listen."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from tacit.errors import InputError
from tacit.files import show_path
from tacit.text import one_line, show

LEAST_LENGTH = 32  # characters of a token: 128 bits even in hexadecimal
BY_CERTIFICATE, UNKNOWN = "certificate", "local"


class Tokens:
    """Tokens by the name of the caller; only their digests are kept.

    Parameters
    ----------
    tokens : mapping of str to str
        A token for each name.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._digests = {name: hashlib.sha256(token.encode()).digest() for name, token in tokens.items()}

    def caller(self, token: str | None) -> str | None:
        """Whose token this is; every one is compared, in constant time."""
        given = hashlib.sha256((token or "").encode("utf-8", "surrogatepass")).digest()
        found = [name for name, digest in self._digests.items() if hmac.compare_digest(given, digest)]
        return found[0] if found else None


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens from a file that only its owner can read: a name and a token on each line; # begins a comment."""
    where = show_path(path)
    try:
        if os.stat(path).st_mode & 0o077:
            raise InputError(f"others can read {where}, which holds tokens: chmod 600 it")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {where}: {one_line(error)}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] in found or not re.fullmatch(rf"[!-~]{{{LEAST_LENGTH},}}", words[1]):
            raise InputError(
                f"{where}, line {number}: give a name, once, and a token of at least {LEAST_LENGTH} characters"
            )
        found[words[0]] = words[1]
    if not found:
        raise InputError(f"{where} holds no token: write a name and a token on a line")
    return found


@dataclass(frozen=True)
class ServiceAccess:
    """Where a service listens and who may come in.

    Attributes
    ----------
    host, port
        0 takes a free port.
    cert, key : str or None
        Files for TLS.
    ca : str or None
        Whoever comes needs a certificate from here (mutual TLS).
    tokens : Tokens or None
        Whoever comes needs a token.
    insecure : bool
        Anybody on this machine may come in.
    """

    host: str = "127.0.0.1"
    port: int = 0
    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    tokens: Tokens | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise InputError("TLS needs both: give --cert and --key")
        if self.ca is not None and self.cert is None:
            raise InputError("--ca asks callers for certificates, which needs TLS: give --cert and --key too")
        local = is_loopback(self.host)
        if self.cert is None and not local:
            raise InputError(
                f"without TLS a service listens on this machine alone, not on {show(self.host)}: give --cert and --key"
            )
        if self.ca is None and self.tokens is None and not (self.insecure and local):
            raise InputError(
                "nobody is asked who they are: give --token-file, or --ca for certificates "
                "(or --insecure, to try it out on 127.0.0.1)"
            )

    @property
    def scheme(self) -> str:
        """The scheme of the service's address: https where it has a certificate."""
        return "http" if self.cert is None else "https"

    def caller(self, token: str | None, certificate: str | None) -> str | None:
        """The name of a caller: that of its token, else that in its certificate; None for nobody who may come in."""
        if self.tokens is not None:
            return self.tokens.caller(token)
        return UNKNOWN if self.ca is None else certificate


def caller_of(certificate: x509.Certificate) -> str:
    """The name of whoever shows this certificate: its subject, so that it stays when the certificate is renewed.

    An authority that gives one subject to two callers makes them one caller. A certificate without a subject is known
    by its fingerprint.
    """
    subject = certificate.subject.rfc4514_string() or certificate.fingerprint(SHA256()).hex()
    return f"{BY_CERTIFICATE} {subject}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def client_tls(ca: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """What whoever asks trusts and shows."""
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot use the certificates: {one_line(error)}") from error
    return context
