"""An archive in a bucket, encrypted with a key of a Secret."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest

from backup.stream.conftest import archiver_of, digest, info, replicated, running
from redis_operator.backup.errors import WorkerError
from redis_operator.backup.store import open_shelf
from redis_operator.backup.stream.catalogue import read_catalogue
from redis_operator.backup.stream.feed import feed
from redis_operator.backup.stream.find import find_plan
from redis_operator.backup.stream.plan import Offset
from redis_operator.backup.stream.replay import content_of
from redis_operator.backup.task import Encryption, S3Place, Store
from redis_testing.servers import Servers, find_engines
from support.pair_of_servers import eventually, speak
from support.s3_server import S3Server

pytestmark = pytest.mark.servers

NEWEST = find_engines()[-1]


async def test_an_encrypted_archive_in_a_bucket_comes_back_with_its_key_alone(
    tmp_path: Path,
) -> None:
    for folder in ("keys", "right", "wrong"):
        (tmp_path / folder).mkdir()
    (tmp_path / "keys/accessKeyId").write_text("ours")
    (tmp_path / "keys/secretAccessKey").write_text("hidden-word")
    for folder in ("right", "wrong"):
        (tmp_path / folder / "first").write_text(b64encode(os.urandom(32)).decode())
    s3 = S3Server(tmp_path)
    try:
        place = S3Place(s3.bucket, endpoint=s3.endpoint, keys=True)
        store = Store("archive/server-0", place, Encryption("words"))
        keys = str(tmp_path / "keys")
        shelf = open_shelf(store, keys=keys, encryption=str(tmp_path / "right"))
        async with replicated(NEWEST, 1) as shard:
            async with running(archiver_of(shard, tmp_path, shelf=shelf)):

                async def has_base() -> bool:
                    return any(x.bases for x in (await read_catalogue(shelf)).lines)

                await eventually(has_base)
                await speak(shard.primary, *(("SET", f"k:{n}", "a-plain-word") for n in range(500)))
                told = await info(shard.primary)
                end = int(told["master_repl_offset"])

                async def reached() -> bool:
                    newest = await (await read_catalogue(shelf)).newest()
                    return newest is not None and newest.last >= end

                await eventually(reached)
            catalogue = await read_catalogue(shelf)
            plan = await find_plan(catalogue, Offset(told["master_replid"], end))
            for span in plan.spans:
                stored = await shelf.get(span.segment.object)
                assert stored is not None
                assert b"a-plain-word" not in stored
            other = open_shelf(store, keys=keys, encryption=str(tmp_path / "wrong"))
            with pytest.raises(WorkerError, match=plan.spans[0].segment.object):
                await content_of(other, plan.spans[0].segment)
            debug = {"enable-debug-command": "yes"}
            async with Servers(NEWEST, options=debug) as servers:
                [server] = await servers.start(1, cluster=False)
                await feed(shelf, plan, server.address)
                assert await digest(server) == await digest(shard.primary)
    finally:
        s3.stop()
