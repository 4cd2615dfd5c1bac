"""A certificate authority and small API servers on loopback, with and without TLS."""

from __future__ import annotations

import ipaddress
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class Authority:
    """A CA that issues server and client certificates."""

    def __init__(self, name: str = "test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = self._sign(self._name, self._key, authority=True)

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *hosts: str) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name), key, hosts=hosts)
        return certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        authority: bool = False,
        hosts: tuple[str, ...] = (),
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names: list[x509.GeneralName] = []
            for host in hosts:
                try:
                    names.append(x509.IPAddress(ipaddress.ip_address(host)))
                except ValueError:
                    names.append(x509.DNSName(host))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


@dataclass
class Server:
    """A running server and the requests it saw."""

    url: str
    seen: list[web.Request]
    context: ssl.SSLContext | None = None


Start = Callable[..., Awaitable[Server]]


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def other_authority() -> Authority:
    return Authority("another CA")


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a Python program and return its path."""

    def write(code: str) -> str:
        path = tmp_path / "login"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


@pytest.fixture
async def serve(authority: Authority, tmp_path: Path) -> AsyncIterator[Start]:
    runners: list[web.AppRunner] = []

    async def start(
        handler: Handler,
        *,
        tls: bool = False,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        issuer: Authority | None = None,
        client_ca: bytes = b"",
    ) -> Server:
        seen: list[web.Request] = []

        async def record(request: web.Request) -> web.StreamResponse:
            seen.append(request)
            return await handler(request)

        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", record)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        runners.append(runner)
        context = None
        if tls:
            certificate, key = (issuer or authority).issue("server", *hosts)
            pair = tmp_path / f"server-{len(runners)}.pem"
            pair.write_bytes(certificate + key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair)
            if client_ca:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=client_ca.decode())
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        return Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}", seen, context)

    yield start
    for runner in runners:
        await runner.cleanup()
