"""A cluster that is reached with certificates alone."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tacit.data import cluster
from tacit.data.cluster import ClusterAddress, ClusterGoneError, connect
from tests.cluster.local import local_cluster


def certificates(folder: Path) -> Path:
    """ca.pem, cert.pem and key.pem of an authority of its own."""
    folder.mkdir()
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "cluster"))
    now = datetime.datetime.now(datetime.UTC)

    def sign(name: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> bytes:
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(1))
        builder = builder.not_valid_after(now + datetime.timedelta(1))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = builder.add_extension(names, critical=False).sign(authority, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    (folder / "ca.pem").write_bytes(sign(issuer, authority, ca=True))
    (folder / "cert.pem").write_bytes(sign(subject, own, ca=False))
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(own.private_bytes(serialization.Encoding.PEM, kind, plain))
    return folder


def test_only_whoever_has_a_certificate_of_the_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Security

    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 8.0)
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    files = {"cert": str(ours / "cert.pem"), "key": str(ours / "key.pem")}
    roles = {f"tls_{role}_{kind}": path for role in ("scheduler", "worker", "client") for kind, path in files.items()}
    security = Security(require_encryption=True, tls_ca_file=str(ours / "ca.pem"), **roles)
    with local_cluster(n_workers=1, security=security, protocol="tls") as own:
        assert own.scheduler_address.startswith("tls://")
        with connect(ClusterAddress(own.scheduler_address, str(ours))) as found:
            total = found.total([found.submit(cluster.add, (np.ones(3),), (np.ones(3),)) for _ in range(20)])
            np.testing.assert_array_equal(total[0], 40.0)
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
        with pytest.raises(ClusterGoneError, match="cannot reach"):
            connect(ClusterAddress(own.scheduler_address, str(others)))
        with pytest.raises(ClusterGoneError, match="cannot reach"):
            connect(ClusterAddress(own.scheduler_address.replace("tls:", "tcp:")))
