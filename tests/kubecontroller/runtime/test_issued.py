"""Certificates that somebody else issues: read, checked, served, taken up without a restart."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.kubecontroller.runtime.test_certificates import NAMES, leaf

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.certificates import Material, renewed
from kubecontroller.runtime.certkeeper import SECRETS
from kubecontroller.runtime.issued import IssuedCertificate

SECRET = ("system", "webhook-issued")


def made(names=NAMES, days: float = 0.0) -> Material:
    now = datetime.now(UTC) - timedelta(days=days)
    material, _ = renewed(None, names=names, now=now)
    return material


def as_issued(material: Material, **changed: bytes | None) -> dict[str, str | None]:
    """Return the data as cert-manager writes them: no key of an authority is among them."""
    data = {
        "tls.crt": material.certificate,
        "tls.key": material.key,
        "ca.crt": material.authorities,
    }
    given = {**data, **{name.replace("_", "."): value for name, value in changed.items()}}
    return {
        name: None if value is None else base64.b64encode(value).decode()
        for name, value in given.items()
    }


async def store(client: Client, data: dict[str, str | None]) -> None:
    metadata = {"namespace": SECRET[0], "name": SECRET[1]}
    data = {name: value for name, value in data.items() if value is not None}
    await client.apply(SECRETS, {"metadata": metadata, "type": "kubernetes.io/tls", "data": data})


async def served(context: ssl.SSLContext) -> bytes:
    """Return the certificate that a client of a real server is shown."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    client = asking.wrap_bio(incoming, outgoing)
    server = context.wrap_bio(outgoing, incoming, server_side=True)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def shown(material: Material) -> bytes:
    return leaf(material).public_bytes(Encoding.DER)


async def test_what_is_issued_is_served_and_what_is_renewed_is_taken_up_without_a_restart(
    server, running
):
    client = Client(server.transport())
    one = IssuedCertificate(client, secret=SECRET, names=NAMES)
    await one.begin()
    assert "system/webhook-issued: it does not exist yet" in one.limitation()
    async with running(one.run()):
        await asyncio.sleep(1)
        first, second = made(), made()
        await store(client, as_issued(first))
        await asyncio.sleep(0.1)
        assert one.limitation() is None
        assert await served(one.context) == shown(first)
        await store(client, as_issued(second))
        await asyncio.sleep(0.1)
        assert await served(one.context) == shown(second)


def of_unknown_kind() -> bytes:
    """Return a key with one wrong byte in the name of its kind."""
    lines = made().key.decode().strip().split("\n")
    der = bytearray(base64.b64decode("".join(lines[1:-1])))
    place = der.index(bytes.fromhex("2a8648ce3d0201"))  # id-ecPublicKey
    der[place + 6] = 0x7F
    body = base64.encodebytes(bytes(der)).decode()
    return f"{lines[0]}\n{body}{lines[-1]}\n".encode()


DAMAGES = {
    "no key": (lambda: as_issued(made(), tls_key=None), "it has no tls.key"),
    "garbage": (lambda: as_issued(made(), tls_crt=b"garbage"), ""),
    "another key": (lambda: as_issued(made(), tls_key=made().key), "not the key of tls.crt"),
    "other names": (lambda: as_issued(made(("other",))), "tls.crt is not for webhook.default.svc"),
    "an unknown kind of key": (lambda: as_issued(made(), tls_key=of_unknown_kind()), "key type"),
    "not base64": (lambda: {**as_issued(made()), "tls.crt": "!!!"}, "it has no tls.crt"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_cannot_be_served_is_named_and_what_was_served_is_served_on(
    server, running, caplog, damage
):
    client = Client(server.transport())
    make, reason = DAMAGES[damage]
    one = IssuedCertificate(client, secret=SECRET, names=NAMES)
    await store(client, make())
    await one.begin()
    assert reason in one.limitation()
    good = made()
    async with running(one.run()):
        await store(client, as_issued(good))
        await asyncio.sleep(6)
        caplog.clear()
        await client.patch(SECRETS, SECRET, MergePatch({"data": make()}))
        await asyncio.sleep(60)
        assert await served(one.context) == shown(good)
        assert one.limitation() is None
        assert caplog.text.count("certificate not read") == 1, "it is logged once"
        await client.delete(SECRETS, SECRET)
        await asyncio.sleep(60)
        assert await served(one.context) == shown(good)


async def test_nothing_is_written_and_hardly_anything_asked_at_rest(server, running):
    client = Client(server.transport())
    await store(client, as_issued(made()))
    one = IssuedCertificate(client, secret=SECRET, names=NAMES)
    async with running(one.run()):
        await asyncio.sleep(60)
        server.requests.clear()
        await asyncio.sleep(3000)
        assert {request.method for request in server.requests} <= {"GET"}
        assert len([r for r in server.requests if dict(r.query).get("watch") is None]) <= 6


async def test_a_secret_that_cannot_be_watched_is_read_every_minute(server, running):
    client = Client(server.transport())
    await store(client, as_issued(made()))
    one = IssuedCertificate(Client(server.transport()), secret=SECRET, names=NAMES)
    whole = one._client.transport

    class Unwatched:
        async def request(self, request, *, timeout):
            if request.path.endswith("/secrets"):
                raise ConnectionFailed("refused", host="api")
            return await whole.request(request, timeout=timeout)

        def stream(self, request, *, idle):
            raise ConnectionFailed("refused", host="api")

    one._client.transport = Unwatched()
    async with running(one.run()):
        await asyncio.sleep(5)
        other = made()
        await store(client, as_issued(other))
        await asyncio.sleep(70)
        assert await served(one.context) == shown(other)
