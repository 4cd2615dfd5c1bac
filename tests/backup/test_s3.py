"""Backups in a bucket of a real S3 server, which refuses, is gone, or ends in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from backup.conftest import LOGIN, fill, source, task
from kubecontroller.runtime.certificates import renewed
from kubelocal.loopback import free_host
from redis_operator.backup.errors import Damaged, StoreError
from redis_operator.backup.primary import find_part, verify
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import S3Place, Store
from redis_testing.servers import EngineBinary, find_engines
from support.pair_of_servers import speak
from support.s3_server import S3Server

pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("s3")]

NEWEST = find_engines()[-1:]


@pytest.fixture(scope="session")  # tests of several modules take turns
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    made = S3Server(tmp_path_factory.mktemp("s3"))
    yield made
    made.stop()


@pytest.fixture
def keys(tmp_path: Path) -> str:
    (tmp_path / "accessKeyId").write_text("ours\n")
    (tmp_path / "secretAccessKey").write_text("hidden-word\n")
    return str(tmp_path)


def place(s3: S3Server, path: str, bucket: str = "") -> Store:
    return Store(path, S3Place(bucket or s3.bucket, endpoint=s3.endpoint, keys=True))


async def test_a_backup_goes_to_a_bucket_in_many_parts_and_comes_back(
    engine: EngineBinary, s3: S3Server, keys: str
) -> None:
    store = place(s3, f"many/{engine.name}")
    async with source(engine) as full:
        await fill(full)
        # more than one part of a multipart upload, though compressed
        await speak(full, *(("SET", f"big:{n}", os.urandom(100_000)) for n in range(200)))
        shelf = open_shelf(store, keys=keys)
        manifest = await take(task(full, store=store), shelf, lambda: LOGIN)
        assert manifest.stored > 16_000_000
        found, part = await find_part(open_shelf(store, keys=keys))
        assert found == manifest
        await verify(shelf, part)
        assert await take(task(full, store=store, attempt="two"), shelf, lambda: LOGIN) == manifest


async def test_a_bucket_that_is_missing_is_named(s3: S3Server, keys: str) -> None:
    shelf = open_shelf(place(s3, "x", bucket="missing"), keys=keys)
    with pytest.raises(StoreError, match="s3://missing/x") as told:
        await shelf.create("a", b"b")
    assert "hidden-word" not in str(told.value)


async def test_keys_that_the_secret_does_not_have_are_named(s3: S3Server, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="accessKeyId"):
        open_shelf(place(s3, "x"), keys=str(tmp_path))


async def test_swapped_and_damaged_parts_are_found(s3: S3Server, keys: str) -> None:
    store = place(s3, "damaged")
    shelf = open_shelf(store, keys=keys)
    async with source(NEWEST[0]) as full:
        await fill(full)
        manifest = await take(task(full, store=store), shelf, lambda: LOGIN)
    [part] = manifest.parts
    other = await whole(shelf, part.object)
    for damaged in (other[: len(other) // 2], other[:-1], other + other, b""):
        await shelf.delete([part.object])
        await shelf.create(part.object, damaged)
        with pytest.raises(Damaged, match="is damaged"):
            await verify(shelf, part)


async def whole(shelf: Shelf, name: str) -> bytes:
    found = await shelf.get(name)
    assert found is not None
    return found


async def test_a_store_that_ends_in_the_middle_is_an_error_and_no_backup(
    tmp_path: Path, keys: str
) -> None:
    s3 = S3Server(tmp_path)
    store = place(s3, "cut")
    try:
        async with source(NEWEST[0]) as full:
            await speak(
                full,
                *(("SET", f"big:{n}", os.urandom(100_000)) for n in range(400)),
                ("CONFIG", "SET", "rdb-key-save-delay", "5000"),
            )
            shelf = open_shelf(store, keys=keys, retry_seconds=2)
            taking = asyncio.ensure_future(take(task(full, store=store), shelf, lambda: LOGIN))
            await asyncio.sleep(0.7)
            s3.stop()
            with pytest.raises(BaseExceptionGroup) as failure:
                await taking
            assert failure.group_contains(StoreError, match="s3://backups/cut")
    finally:
        s3.stop()


async def test_an_image_without_certificates_of_authorities_is_named(
    keys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    store = Store("one", S3Place("backups", endpoint="http://127.0.0.1:1", keys=True))
    with pytest.raises(StoreError, match=r"s3://backups/one: .*ca-certificates\.crt") as told:
        open_shelf(store, keys=keys)
    assert "\n" not in str(told.value)


async def test_a_store_with_a_certificate_of_its_own_authority(
    s3: S3Server, keys: str, tmp_path: Path
) -> None:
    host = free_host()
    made = renewed(None, names=[host], now=datetime.now(UTC))
    assert made is not None
    for name, content in made[0].to_secret().items():
        (tmp_path / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give everything to the server behind, and back."""
        inner, outer = await asyncio.open_connection(s3.host, 9000)

        async def copied(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await one.read(65536):
                    other.write(data)
                    await other.drain()
            other.close()

        await asyncio.gather(copied(reader, outer), copied(inner, writer))

    async with await asyncio.start_server(passed, host, 9443, ssl=context):
        place = S3Place(s3.bucket, endpoint=f"https://{host}:9443", keys=True, ca=True)
        authority = str(tmp_path / "ca.crt")
        trusting = open_shelf(Store("tls", place), keys=keys, authority=authority)
        assert await trusting.create("a", b"b")
        assert await trusting.get("a") == b"b"
        without = msgspec.structs.replace(place, ca=False)
        strange = open_shelf(Store("tls", without), keys=keys, retry_seconds=1)
        with pytest.raises(StoreError, match=f"s3://{s3.bucket}/tls"):
            await strange.create("c", b"d")
        with pytest.raises(StoreError, match=r"storage\.s3\.caSecretName"):
            open_shelf(Store("tls", place), keys=keys, authority=str(tmp_path / "missing"))
