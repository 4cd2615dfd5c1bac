"""The HTTPS front end: certificates, tokens, streams, and clients that behave badly."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from kubelocal.apiserver.daemon import Daemon
from kubelocal.apiserver.http import connection
from kubelocal.apiserver.storage.watch import Watch

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    running = Daemon(tmp_path)
    await running.start()
    yield running
    await running.stop()


def trust(daemon: Daemon) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=daemon.authority.certificate.decode())


def admin(daemon: Daemon, folder: Path) -> ssl.SSLContext:
    user = yaml.safe_load(daemon.kubeconfig())["users"][0]["user"]
    context = trust(daemon)
    for name in ("certificate", "key"):
        (folder / name).write_bytes(base64.b64decode(user[f"client-{name}-data"]))
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


@pytest.fixture
async def session(daemon: Daemon, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=admin(daemon, tmp_path), limit=0)
    async with aiohttp.ClientSession(daemon.url, connector=connector) as opened:
        yield opened


async def test_admin_writes_and_reads(session):
    async with session.post(MAPS, json={"metadata": {"name": "a"}}) as answer:
        assert answer.status == 201
    async with session.get(f"{MAPS}/a") as answer:
        assert (await answer.json())["metadata"]["name"] == "a"


async def test_nobody_may_read_without_a_credential(daemon):
    connector = aiohttp.TCPConnector(ssl=trust(daemon))
    async with aiohttp.ClientSession(daemon.url, connector=connector) as nobody:
        async with nobody.get(MAPS) as answer:
            assert answer.status == 403
        async with nobody.get("/healthz") as answer:
            assert answer.status == 200
        async with nobody.get(MAPS, headers={"Authorization": "Bearer x"}) as answer:
            assert answer.status == 401


async def test_token_of_a_service_account_is_its_bearer(daemon, session):
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    async with session.post(path, json={"spec": {}}) as answer:
        token = (await answer.json())["status"]["token"]
    connector = aiohttp.TCPConnector(ssl=trust(daemon))
    bearer = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(daemon.url, connector=connector, headers=bearer) as robot,
        robot.get(MAPS) as answer,
    ):
        refused = await answer.json()
    assert refused["code"] == 403
    assert 'User "system:serviceaccount:default:default" cannot list' in refused["message"]


async def test_watch_streams_until_its_timeout(session):
    async with session.get(MAPS, params={"watch": "true", "timeoutSeconds": "1"}) as stream:
        first = json.loads(await stream.content.readline())
        assert first["type"] == "ADDED"
        async with session.post(MAPS, json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        second = json.loads(await stream.content.readline())
        assert second["object"]["metadata"]["name"] == "a"
        assert await stream.content.readline() == b""


async def test_watchers_that_leave_are_forgotten(daemon, session):
    home = daemon.server.core.store.collection("configmaps")
    streams = [await session.get(MAPS, params={"watch": "true"}) for _ in range(20)]
    assert len(home.wakers) == 20
    for stream in streams:
        stream.close()
    async with asyncio.timeout(30):
        while home.wakers:  # noqa: ASYNC110 - the end of a stream tells nobody
            await asyncio.sleep(0)


async def test_body_that_says_it_is_huge_is_refused_unread(session):
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    with pytest.raises((aiohttp.ClientError, AssertionError)):
        async with session.post(MAPS, data=endless()) as answer:
            assert answer.status != 413


async def test_restart_keeps_objects_and_kubeconfig(tmp_path):
    first = Daemon(tmp_path / "data")
    await first.start()
    connector = aiohttp.TCPConnector(ssl=admin(first, tmp_path))
    async with (
        aiohttp.ClientSession(first.url, connector=connector) as session,
        session.post(MAPS, json={"metadata": {"name": "a"}}) as answer,
    ):
        made = await answer.json()
    before = admin(first, tmp_path)
    await first.stop()
    second = Daemon(tmp_path / "data")
    await second.start()
    connector = aiohttp.TCPConnector(ssl=before)
    async with (
        aiohttp.ClientSession(second.url, connector=connector) as session,
        session.get(f"{MAPS}/a") as answer,
    ):
        assert await answer.json() == made
    await second.stop()


async def raw(daemon: Daemon, folder: Path, text: bytes, *, until: bytes) -> bytes:
    """Send bytes as the admin and return what comes back, up to and with `until`."""
    host, _, port = daemon.url.removeprefix("https://").rpartition(":")
    context = admin(daemon, folder)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(text)
    try:
        async with asyncio.timeout(30):
            return await reader.readuntil(until) if until else await reader.read()
    finally:
        writer.close()


async def test_requests_sent_at_once_are_answered_in_their_order(daemon, tmp_path):
    body = b'{"metadata":{"name":"a"}}'
    post = f"POST {MAPS} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    get = f"GET {MAPS}/a HTTP/1.1\r\n\r\n".encode()
    missing = f"GET {MAPS}/b HTTP/1.1\r\nConnection: close\r\n\r\n".encode()
    answers = await raw(daemon, tmp_path, post + get + missing, until=b"")
    assert re.findall(rb"HTTP/1\.1 ([0-9]+)", answers) == [b"201", b"200", b"404"]


async def test_what_is_no_request_is_told_so_and_hung_up_on(daemon, tmp_path):
    answer = await raw(daemon, tmp_path, b"NONSENSE\r\n\r\n", until=b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"connection: close" in answer


async def test_head_is_answered_without_a_body(daemon, tmp_path):
    text = b"HEAD /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
    answer = await raw(daemon, tmp_path, text, until=b"")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"content-length: 2" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_answer_larger_than_all_buffers_arrives_whole(session):
    for number in range(8):
        big = {"metadata": {"name": f"big{number}"}, "data": {"k": "x" * 900_000}}
        async with session.post(MAPS, json=big) as answer:
            assert answer.status == 201
    async with session.get(MAPS) as answer:
        await asyncio.sleep(0)  # lets the server fill what there is of buffers
        listed = await answer.json()
    assert [len(item["data"]["k"]) for item in listed["items"][:8]] == [900_000] * 8


async def test_failure_of_ours_is_an_answer_and_is_logged(daemon, session, monkeypatch, caplog):
    def broken(*_args, **_more):
        raise RuntimeError("a bug")

    monkeypatch.setattr(daemon.server, "_route", broken)
    async with session.get(MAPS) as answer:
        assert answer.status == 500
        assert "a bug" in (await answer.json())["message"]
    assert f"GET {MAPS} failed inside the API server" in caplog.text
    monkeypatch.undo()
    async with session.get(MAPS) as answer:
        assert answer.status == 200


async def test_a_watch_that_cannot_show_a_change_ends(daemon, session, monkeypatch, caplog):
    """Its client lists again; one that heard nothing would keep an older state."""

    def broken(*_args, **_more):
        raise RuntimeError("a bug")

    async with session.get(f"{MAPS}?watch=1&timeoutSeconds=60") as watch:
        monkeypatch.setattr(Watch, "_lines", broken)
        async with session.post(MAPS, json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        async with asyncio.timeout(10):
            with pytest.raises(aiohttp.ClientError):
                await watch.read()
    assert "failed inside the API server" in caplog.text


async def test_watcher_that_never_reads_is_cut_off(daemon, session, tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_STALLED", 0.2)
    home = daemon.server.core.store.collection("configmaps")
    host, _, port = daemon.url.removeprefix("https://").rpartition(":")
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=admin(daemon, tmp_path), limit=1024
    )
    writer.write(f"GET {MAPS}?watch=true HTTP/1.1\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")  # the head, and nothing more from here on
    assert len(home.wakers) == 1
    for number in range(12):
        big = {"metadata": {"name": f"big{number}"}, "data": {"k": "x" * 900_000}}
        async with session.post(MAPS, json=big) as answer:
            assert answer.status == 201
    async with asyncio.timeout(20):
        while home.wakers:  # noqa: ASYNC110 - the end of a stream tells nobody
            await asyncio.sleep(0.01)
    writer.transport.abort()
