"""A server that was started in another mode gets the rights that its new mode needs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.backup.empty import empty
from redis_operator.backup.errors import TargetError
from redis_operator.backup.link import CommandLink, connect
from redis_operator.backup.loader import info_fields
from redis_operator.backup.replica import Login
from redis_operator.backup.task import FillTarget
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.users import (
    BACKUP,
    FAILOVER_USERS,
    OPERATOR,
    STANDALONE_USERS,
    USERS,
    acl_file,
    password_hash,
    rules_of,
)
from redis_operator.operator.servers.logins import changes_of, cut_off
from redis_operator.redis import commands
from redis_operator.redis.connection import Credentials
from redis_operator.redis.versions import Version
from redis_testing.servers import EngineBinary, Servers, find_engines

pytestmark = pytest.mark.servers

PASSWORDS = Passwords("a", "b", "c", "d", "e", sentinel="f")


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_an_operator_may_change_replication_after_the_mode_changed(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, cluster=False)
        version = engine.version
        for user in filter(PASSWORDS.has, USERS):
            rules = rules_of(user, version, PASSWORDS, USERS).split()
            if user != "default":
                await server.ask(commands.acl_setuser(user, rules))
        users = {name: rules for name, rules in FAILOVER_USERS.items() if name != "default"}
        (found,) = await server.ask(commands.acl_list())
        changes = changes_of(found, version, PASSWORDS, users)
        assert sorted(change.arguments[2] for change in changes) == ["operator", "sentinel"]
        for change in changes:
            await server.ask(change)
        (found,) = await server.ask(commands.acl_list())
        assert changes_of(found, version, PASSWORDS, users) == [], "told once"
        rotated = replace(PASSWORDS, operator="new")
        (change,) = changes_of(found, version, rotated, users)
        assert change.arguments[2] == OPERATOR


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_the_user_of_sentinels_is_gone_after_the_mode_changed_back(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, cluster=False)
        version = engine.version
        for user in filter(PASSWORDS.has, FAILOVER_USERS):
            rules = rules_of(user, version, PASSWORDS, FAILOVER_USERS).split()
            if user != "default":
                await server.ask(commands.acl_setuser(user, rules))
        await server.ask(commands.acl_setuser("app", ["on", ">secret", "~*", "+get"]))
        users = {n: rules for n, rules in STANDALONE_USERS.items() if n != "default"}
        (found,) = await server.ask(commands.acl_list())
        for change in changes_of(found, version, PASSWORDS, users):
            await server.ask(change)
        (found,) = await server.ask(commands.acl_list())
        left = {line.split()[1] for line in found}
        assert left == {"default", "operator", "replication", "exporter", "admin", "app"}
        assert changes_of(found, version, PASSWORDS, users) == [], "told once"


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_clients_are_shut_out_while_a_database_is_filled_and_let_in_afterwards(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, cluster=False)
        version = engine.version
        await server.ask(commands.acl_setuser("boss", ["on", ">boss", "~*", "&*", "+@all"]))
        server.credentials = Credentials("boss", "boss")

        async def states() -> tuple[dict[str, bool], bool]:
            (found,) = await server.ask(commands.acl_list())
            assert isinstance(found, tuple | list)
            words = {str(line).split()[1]: str(line).split() for line in found}
            shut = {user: "off" in words[user] for user in ("default", "admin", "operator")}
            return shut, "+info" in words["replication"]

        async def tell(filling: bool) -> None:
            (found,) = await server.ask(commands.acl_list())
            assert isinstance(found, tuple | list)
            lines = tuple(map(str, found))
            for change in changes_of(lines, version, PASSWORDS, USERS, filling=filling):
                await server.ask(change)
            (found,) = await server.ask(commands.acl_list())
            assert isinstance(found, tuple | list)
            lines = tuple(map(str, found))
            assert changes_of(lines, version, PASSWORDS, USERS, filling=filling) == [], "told once"

        await tell(True)
        assert await states() == ({"default": True, "admin": True, "operator": False}, True)
        await tell(False)
        assert await states() == ({"default": False, "admin": False, "operator": False}, False)


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_the_user_of_backups_has_the_rights_of_this_version_and_goes_when_none_needs_it(
    engine: EngineBinary,
) -> None:
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, cluster=False)
        version, needed = engine.version, replace(PASSWORDS, backup="g")
        users = {name: rules for name, rules in USERS.items() if name == BACKUP}
        earlier = ["on", password_hash("g"), "-@all", "+psync", "+replconf", "+ping"]
        await server.ask(commands.acl_setuser(BACKUP, earlier))
        (found,) = await server.ask(commands.acl_list())
        for change in changes_of(found, version, needed, users):
            await server.ask(change)
        (found,) = await server.ask(commands.acl_list())
        assert any("+client|pause" in line for line in found)
        assert changes_of(found, version, needed, users) == [], "told once"
        for change in changes_of(found, version, PASSWORDS, users):
            await server.ask(change)
        (found,) = await server.ask(commands.acl_list())
        assert not any(line.startswith("user backup ") for line in found)


@pytest.mark.parametrize("engine", find_engines(), ids=lambda engine: engine.name)
async def test_a_client_that_is_connected_is_shut_out_too_and_a_worker_may_drop_data_meanwhile(
    engine: EngineBinary,
) -> None:
    """Users that are turned off keep their connections: these have to be ended."""
    async with Servers(engine) as servers:
        (server,) = await servers.start(1, cluster=False)
        await server.ask(commands.acl_setuser("boss", ["on", ">boss", "~*", "&*", "+@all"]))
        server.credentials = Credentials("boss", "boss")
        place: dict[str, Any] = {"host": server.address.host, "port": server.address.port}

        async def tell(*, filling: bool, emptying: bool = False) -> None:
            (found,) = await server.ask(commands.acl_list())
            assert isinstance(found, tuple | list)
            lines = tuple(map(str, found))
            closed = {"filling": filling, "emptying": emptying}
            for change in changes_of(lines, engine.version, PASSWORDS, USERS, **closed):
                await server.ask(change)
            for change in cut_off(USERS) if filling else ():
                await server.ask(change)
            (found,) = await server.ask(commands.acl_list())
            assert isinstance(found, tuple | list)
            lines = tuple(map(str, found))
            assert changes_of(lines, engine.version, PASSWORDS, USERS, **closed) == []

        await tell(filling=False)
        client = await connect("client", **place, login=Login("default", "a"))
        worker = await connect("worker", **place, login=Login("replication", "c"))
        assert await client.ask("SET", "key", "value") == b"OK"
        with pytest.raises(TargetError, match="NOPERM"):
            await worker.ask("FLUSHALL", "ASYNC")

        await tell(filling=True)
        with pytest.raises(TargetError, match=r"ended the connection|reset|Broken pipe"):
            await client.ask("SET", "key", "late")
        client.close()
        with pytest.raises(TargetError, match="WRONGPASS"):
            await connect("client", **place, login=Login("default", "a"))
        with pytest.raises(TargetError, match="NOPERM"):
            await worker.ask("FLUSHALL", "ASYNC")

        await tell(filling=True, emptying=True)
        target = FillTarget("pod", **place, replication_id=await history(worker))
        with pytest.raises(TargetError, match="not the primary any more"):
            await empty([replace(target, replication_id="0" * 40)], Login("replication", "c"))
        assert (await server.ask(commands.dbsize())) == [1]
        await empty([target], Login("replication", "c"))
        assert (await server.ask(commands.dbsize())) == [0]

        await tell(filling=False)
        for words in (("FLUSHALL", "ASYNC"), ("INFO", "server")):
            with pytest.raises(TargetError, match="NOPERM"):
                await worker.ask(*words)
        worker.close()
        again = await connect("client", **place, login=Login("default", "a"))
        assert await again.ask("SET", "key", "value") == b"OK"
        again.close()


async def history(worker: CommandLink) -> str:
    return info_fields(await worker.ask("INFO", "replication"))["master_replid"]


def test_clients_are_let_in_after_a_worker_has_lost_its_rights() -> None:
    version = Version("valkey", 8, 1, 1)
    closed = acl_file(version, PASSWORDS, USERS, filling=True, emptying=True).splitlines()
    changes = changes_of(closed, version, PASSWORDS, USERS)
    assert [c.arguments[2] for c in changes] == ["replication", "default", "admin"]
    opened = acl_file(version, PASSWORDS, USERS).splitlines()
    changes = changes_of(opened, version, PASSWORDS, USERS, filling=True, emptying=True)
    assert [c.arguments[2] for c in changes] == ["default", "admin", "replication"]
