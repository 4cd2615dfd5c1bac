"""Small things that went wrong at the edges of the runtime."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from prometheus_client import generate_latest

from kubecontroller.client.errors import ConnectionFailed, Invalid
from kubecontroller.runtime.certificates import renewed
from kubecontroller.runtime.finalizers import remove_finalizer
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.logs import Format, fields, set_up
from kubecontroller.runtime.metrics import Metrics
from kubecontroller.runtime.process import run_process
from kubecontroller.runtime.server import HealthServer
from kubecontroller.runtime.watch_states import Progress, Replaced


async def test_a_cache_of_a_cluster_that_was_restored_is_as_old_as_what_it_holds(client, kind):
    informer = Informer(client, kind)
    await informer._take(Replaced(objects=(), version="1000"))
    await informer._take(Replaced(objects=(), version="50"))  # from a backup of yesterday
    assert informer.version == "50"
    assert not await informer.wait_for("60", timeout=1)
    await informer._take(Progress("60"))
    assert await informer.wait_for("60", timeout=1)


async def test_an_error_is_over_when_the_watch_goes_on(client, kind, manifest, running):
    informer = Informer(client, kind)
    async with running(informer.run()):
        await informer.wait_synced()
        informer._note(ConnectionFailed("refused", host="api"), 1.0)
        assert informer.last_error is not None
        await client.create(kind, manifest("a"))
        await asyncio.sleep(1)
        assert informer.last_error is None


async def test_a_refusal_to_remove_a_finalizer_is_told_as_what_it_is(
    client, kind, manifest, monkeypatch
):
    obj = await client.create(kind, manifest("a", finalizers=["ours/one"]))

    async def refuse(*_, **__):
        raise Invalid("denied by a webhook", status=422, reason="Invalid", ref="a")

    monkeypatch.setattr(client, "patch", refuse)
    with pytest.raises(Invalid, match="denied by a webhook"):
        await remove_finalizer(client, kind, obj, "ours/one")


def test_a_certificate_without_names_is_issued_again():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    material, _ = renewed(None, names=("a.svc",), now=now)
    signer = serialization.load_pem_private_key(material.authority_key, None)
    leaf = serialization.load_pem_private_key(material.key, None)
    [authority] = x509.load_pem_x509_certificates(material.authorities)
    bare = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.svc")]))
        .issuer_name(authority.subject)
        .public_key(leaf.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=300))
        .sign(signer, hashes.SHA256())
    )
    pem = bare.public_bytes(serialization.Encoding.PEM)
    changed, reason = renewed(
        msgspec.structs.replace(material, certificate=pem), names=("a.svc",), now=now
    )
    assert reason == "it is for other names"
    assert changed.certificate != pem


def test_a_traceback_does_not_take_the_place_of_a_field():
    stream = io.StringIO()
    undo = set_up(style=Format.JSON, stream=stream)
    try:
        logging.getLogger("x").error("failed", extra=fields(error="told"), exc_info=KeyError("a"))
    finally:
        undo()
    line = json.loads(stream.getvalue())
    assert line["error"] == "told"
    assert "KeyError" in line["traceback"]


def test_a_port_in_use_is_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def main() -> None:
            await HealthServer(Metrics(), host="127.0.0.1", port=port).start()

        assert run_process(main) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: cannot serve health and metrics on 127.0.0.1")
    assert "Traceback" not in said


def test_metrics_say_what_the_process_costs():
    text = generate_latest(Metrics().registry).decode()
    assert "process_resident_memory_bytes" in text
    assert "python_gc_collections_total" in text
