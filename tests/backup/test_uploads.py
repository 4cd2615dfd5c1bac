"""Uploads that a killed worker left are ended: by the next worker, and with the backup."""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from backup.conftest import LOGIN, source, task
from backup.test_s3 import NEWEST, keys, place, s3  # noqa: F401 - fixtures
from redis_operator.backup.manifest import MANIFEST
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.uploads import Bucket, StoreCredentials, signature_of
from support.pair_of_servers import speak
from support.s3_server import S3Server

pytestmark = pytest.mark.xdist_group("s3")


def asked(url: str, method: str, body: bytes | None = None) -> str:
    kind = {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(url, method=method, data=body, headers=kind)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def left_behind(server: S3Server, key: str) -> None:
    """Begin an upload, store a part of it, and never end it."""
    place = f"{server.endpoint}/{server.bucket}/{quote(key)}"
    upload = asked(f"{place}?uploads", "POST", b"").partition("<UploadId>")[2].partition("<")[0]
    asked(f"{place}?partNumber=1&uploadId={upload}", "PUT", b"x" * 1000)


def uploads(server: S3Server) -> list[str]:
    text = asked(f"{server.endpoint}/{server.bucket}?uploads", "GET")
    return [piece.partition("<")[0] for piece in text.split("<Key>")[1:]]


@pytest.mark.servers
async def test_parts_that_a_killed_worker_left_go_with_the_next_one_and_with_the_backup(
    s3: S3Server,  # noqa: F811
    keys: str,  # noqa: F811
) -> None:
    left_behind(s3, "killed/it & more-1.rdb.zst")
    left_behind(s3, "killed-too/other.rdb.zst")
    store = place(s3, "killed")
    shelf = open_shelf(store, keys=keys)
    async with source(NEWEST[0]) as full:
        await speak(full, ("SET", "a", "1"))
        await take(task(full, store=store), shelf, lambda: LOGIN)
    assert uploads(s3) == ["killed-too/other.rdb.zst"]  # of another backup: it may be on its way
    left_behind(s3, "killed/again.rdb.zst")
    await shelf.remove(first=MANIFEST)
    assert uploads(s3) == ["killed-too/other.rdb.zst"]
    await open_shelf(place(s3, "killed-too"), keys=keys).remove(first=MANIFEST)
    assert uploads(s3) == []


async def test_a_store_that_refuses_to_list_uploads_fails_nothing(
    s3: S3Server,  # noqa: F811
    keys: str,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    await open_shelf(place(s3, "x", bucket="missing"), keys=keys).end_uploads()
    assert "may be left: s3://missing/" in caplog.text
    assert "hidden-word" not in caplog.text


@pytest.mark.parametrize("query", ["prefix=a%2Fb%2F&uploads=", "uploadId=x%2By%3D"])
def test_requests_are_signed_as_by_the_stores_own_library(query: str) -> None:
    # Here, since every worker reads this module and one of them runs this test.
    from botocore.auth import S3SigV4Auth  # noqa: PLC0415
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    from botocore.credentials import Credentials as Peer  # noqa: PLC0415

    bucket = Bucket(
        "https://store:9000", "eu-1", "backups", StoreCredentials("ours", "hidden-word")
    )
    path = "/backups/a%20b/c%26d"
    found = signature_of(bucket, "GET", "store:9000", path, query, now=datetime.now(UTC))
    request = AWSRequest(method="GET", url=f"https://store:9000{path}?{query}")
    request.context["timestamp"] = found["x-amz-date"]
    request.headers["X-Amz-Date"] = found["x-amz-date"]
    request.headers["X-Amz-Content-SHA256"] = found["x-amz-content-sha256"]
    peer = S3SigV4Auth(Peer("ours", "hidden-word"), "s3", "eu-1")
    text = peer.string_to_sign(request, peer.canonical_request(request))
    assert found["authorization"].endswith(f"Signature={peer.signature(text, request)}")
