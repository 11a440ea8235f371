"""A self-signed certificate for 127.0.0.1 and 127.0.0.2, trusted only on request."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate and its key as PEM files; returns their paths.

    Skips the test if the package cryptography is missing.
    """
    x509 = pytest.importorskip(
        "cryptography.x509", reason="certificates need the package cryptography: pip install cryptography"
    )
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "agentbook tests")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.IPAddress(ipaddress.ip_address(f"127.0.0.{n}")) for n in (1, 2)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, key_format = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, key_format, serialization.NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"
