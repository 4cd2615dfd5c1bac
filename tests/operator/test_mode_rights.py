"""A server that was started in another mode gets the rights that its new mode needs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.users import (
    FAILOVER_USERS,
    OPERATOR,
    STANDALONE_USERS,
    USERS,
    rules_of,
)
from redis_operator.operator.logins import changes_of
from redis_operator.redis import commands
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
