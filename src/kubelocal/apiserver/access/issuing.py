"""Makes keys and certificates. Imported only when one is to be made: it is slow to load."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Issuer", "Made", "issue_client", "issue_server", "make_authority"]

_YEARS = dt.timedelta(days=3650)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


Made = tuple[bytes, bytes]
"""A certificate and its key, in PEM."""


class Issuer(Protocol):
    """The certificate and key of an authority, in PEM."""

    @property
    def certificate(self) -> bytes:
        """Return the certificate."""
        ...

    @property
    def key(self) -> bytes:
        """Return the private key."""
        ...


def make_authority() -> Made:
    """Return a new certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelocal")])
    builder = _builder(name, name, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_server(authority: Issuer, given: tuple[str, ...]) -> Made:
    """Return a certificate for the server at some addresses."""
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    addresses = dict.fromkeys((*given, "127.0.0.1"))
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
    return _issue(authority, "kube-apiserver", (), ExtendedKeyUsageOID.SERVER_AUTH, names)


def issue_client(authority: Issuer, user: str, groups: tuple[str, ...]) -> Made:
    """Return a client certificate for a user in some groups."""
    return _issue(authority, user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])


def _issue(
    authority: Issuer,
    name: str,
    groups: tuple[str, ...],
    usage: x509.ObjectIdentifier,
    names: list[x509.GeneralName],
) -> Made:
    signer = serialization.load_pem_private_key(authority.key, password=None)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = _builder(subject, issuer.subject, key)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _YEARS)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Made:
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
