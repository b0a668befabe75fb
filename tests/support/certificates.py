"""A CA for one test, and certificates that it has signed."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


__all__ = ["Certificates", "make_certificates"]


class Certificates(NamedTuple):
    """Files in PEM.

    Attributes:
        ca: Certificate of the CA.
        cert: Certificate of a server.
        key: Its key.
    """

    ca: Path
    cert: Path
    key: Path


def make_certificates(directory: Path, *names: str) -> Certificates:
    """Write a CA's certificate, and one for a server of these names and addresses."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "CA of a test")])
    ca = _builder(issuer, issuer, ca_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = ca.add_extension(usage, critical=True)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server of a test")])
    server = _builder(subject, issuer, key).add_extension(
        x509.SubjectAlternativeName([_name(name) for name in names]), critical=False
    )
    files = Certificates(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    files.ca.write_bytes(_pem(ca.sign(ca_key, hashes.SHA256())))
    files.cert.write_bytes(_pem(server.sign(ca_key, hashes.SHA256())))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
