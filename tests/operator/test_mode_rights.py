"""A server that was started in another mode gets the rights that its new mode needs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.users import (
    BACKUP,
    FAILOVER_USERS,
    OPERATOR,
    STANDALONE_USERS,
    USERS,
    password_hash,
    rules_of,
)
from redis_operator.operator.logins import changes_of
from redis_operator.redis import commands
from redis_operator.redis.connection import Credentials
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
