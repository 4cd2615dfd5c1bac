"""The server's own certificate authority, its certificate, and the admin's kubeconfig.

Made once in the data directory and used again on the next start, so that kubeconfigs stay good.
Private keys are readable by their owner only.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from base64 import b64encode
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

__all__ = ["Authority", "kubeconfig", "server_context"]

_YEARS = dt.timedelta(days=3650)
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class Pair(Struct, frozen=True):
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority kept in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        pair = _stored(directory, "ca")
        if pair is None:
            pair = _store(directory, "ca", _make_ca())
        self.certificate = pair.certificate
        self._key = serialization.load_pem_private_key(pair.key, password=None)
        self._issuer = x509.load_pem_x509_certificate(pair.certificate)

    def server(self, address: str) -> Pair:
        """Return the certificate of the server at an address."""
        stored = _stored(self._directory, "server")
        if stored is not None:
            return stored
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
        addresses = dict.fromkeys((address, "127.0.0.1"))
        names += [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
        pair = self._issue("kube-apiserver", (), ExtendedKeyUsageOID.SERVER_AUTH, names)
        return _store(self._directory, "server", pair)

    def client(self, user: str, groups: tuple[str, ...], *, file: str) -> Pair:
        """Return a client certificate that makes its holder the user, in the groups."""
        stored = _stored(self._directory, file)
        if stored is not None:
            return stored
        pair = self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])
        return _store(self._directory, file, pair)

    def _issue(
        self,
        name: str,
        groups: tuple[str, ...],
        usage: x509.ObjectIdentifier,
        names: list[x509.GeneralName],
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        builder = _builder(subject, self._issuer.subject, key)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)


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


def _make_ca() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis-operator-local")])
    builder = _builder(name, name, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _stored(directory: Path, name: str) -> Pair | None:
    try:
        return Pair(
            (directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes()
        )
    except FileNotFoundError:
        return None


def _store(directory: Path, name: str, pair: Pair) -> Pair:
    write_private(directory / f"{name}.key", pair.key)
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    return pair


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; whole, or not at all."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def server_context(authority: Authority, directory: Path, address: str) -> ssl.SSLContext:
    """Return the TLS settings of the server: its certificate, and whose clients it trusts."""
    authority.server(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def kubeconfig(authority: Authority, url: str, user: Pair) -> str:
    """Return a kubeconfig with everything inside."""

    def text(content: bytes) -> str:
        return b64encode(content).decode()

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "local",
                    "cluster": {
                        "server": url,
                        "certificate-authority-data": text(authority.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {
                        "client-certificate-data": text(user.certificate),
                        "client-key-data": text(user.key),
                    },
                }
            ],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
            "current-context": "local",
        },
        sort_keys=False,
    )
