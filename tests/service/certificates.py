"""Certificates for a server on localhost and for a client, from an authority made on the spot."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(folder: Path, clients: tuple[str, ...] = ()) -> Certificates:
    """An authority, a server and a client; more clients by name."""
    folder.mkdir()
    ca_key = generate_private_key(SECP256R1())
    subject = _name(f"authority {folder.name}")
    ca = _build(subject, subject, ca_key, ca_key, x509.BasicConstraints(ca=True, path_length=0))
    _write(folder / "ca.pem", ca.public_bytes(Encoding.PEM))
    for role in ("server", "client", *clients):
        key = generate_private_key(SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        certificate = _build(_name(role), subject, key, ca_key, names)
        _write(folder / f"{role}.pem", certificate.public_bytes(Encoding.PEM))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write(folder / f"{role}-key.pem", private)
    files = [folder / f"{name}.pem" for name in ("ca", "server", "server-key", "client", "client-key")]
    return Certificates(*files)


def _build(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    signer: EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
    builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(signer, SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)
