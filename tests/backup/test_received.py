"""A backup has what its database had acknowledged, also where its replica has just arrived."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from backup.conftest import LOGIN, RULES, task
from kubelocal.loopback import free_host
from redis_operator.backup.cut import wait_received
from redis_operator.backup.errors import SourceError
from redis_operator.backup.store import open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import Source, TakeTask
from redis_testing.servers import EngineBinary, Server, Servers
from support.pair_of_servers import eventually, speak

pytestmark = pytest.mark.servers


def of_replica(primary: Server, replica: Server) -> TakeTask:
    found = task(replica)
    [shard] = found.shards
    lead = Source("primary", primary.address.host)
    return msgspec.structs.replace(found, shards=(msgspec.structs.replace(shard, primary=lead),))


async def test_what_was_acknowledged_before_is_in_it_although_the_replica_has_just_synced(
    engine: EngineBinary, tmp_path: Path
) -> None:
    """The primary streams to it when it has responded to the first sync, up to a second later."""
    async with Servers(engine) as servers:
        options = {"repl-diskless-sync-delay": "0", "repl-diskless-sync": "yes"}
        options["repl-diskless-load"] = "swapdb"
        primary, replica = await servers.start(2, cluster=False, options=options)
        for server in (primary, replica):
            await speak(server, ("ACL", "SETUSER", "backup", *RULES, "+role"))
        await speak(replica, ("REPLICAOF", primary.address.host, 6379))

        async def linked() -> bool:
            [text] = await speak(replica, ("INFO", "replication"))
            return b"master_link_status:up" in text  # type: ignore[operator]

        await eventually(linked)
        await speak(primary, *(("SET", f"key:{n}", n) for n in range(500)))
        [role] = await speak(primary, ("ROLE",))
        shelf = open_shelf(task(replica).store, folder=str(tmp_path))
        [part] = (await take(of_replica(primary, replica), shelf, lambda: LOGIN)).parts
        assert part.offset >= int(role[1]) > 0  # type: ignore[index]
        assert part.keys in (None, {"0": 500})


async def test_a_replica_that_never_receives_it_is_named(
    engine: EngineBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redis_operator.backup.cut._RECEIVE_SECONDS", 0.3)
    async with Servers(engine) as servers:
        primary, other = await servers.start(2, cluster=False)
        for server in (primary, other):
            await speak(server, ("ACL", "SETUSER", "backup", *RULES, "+role"))
        await speak(other, ("REPLICAOF", free_host(), 1))
        lead, source = Source("primary", primary.address.host), Source("other", other.address.host)
        [replica] = await servers.start(1, cluster=False)
        await speak(replica, ("REPLICAOF", primary.address.host, 6379))

        async def written() -> bool:
            await speak(primary, ("SET", "key", "value"))
            [role] = await speak(primary, ("ROLE",))
            return int(role[1]) > 0  # type: ignore[index]

        await eventually(written)
        with pytest.raises(SourceError, match=r"other has not received within 0.3 s what primary"):
            await wait_received(source, lead, LOGIN)
