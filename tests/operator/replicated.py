"""A primary, two replicas and three sentinels as real processes, and actions on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis_operator.manifests.facts import Passwords
from redis_operator.operator.effects import carry_out
from redis_operator.operator.errors import ActionError
from redis_operator.operator.live import LivePod
from redis_operator.operator.servers.actions import Servers as Reached
from redis_operator.operator.servers.failover_dialect import FAILOVER
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.servers.replication import replication_effects
from redis_operator.planning.at import At
from redis_operator.planning.failover.actions import Follow, SwitchOver, Watch
from redis_operator.planning.identity import NodeId
from redis_operator.redis import commands, sentinel
from redis_operator.redis.connection import Address
from redis_testing.servers import EngineBinary, Server, Servers

NAME = "ns.db"
PASSWORDS = Passwords("a", "b", "c", "d", "e", sentinel="watch")
RULES = ["on", ">watch", "&*", "~*", "+@all"]


class Database:
    """One primary, two replicas and sentinels that monitor nothing yet."""

    def __init__(self, servers: list[Server], sentinels: list[Server]) -> None:
        self.servers, self.sentinels = servers, sentinels
        self.links = Links(on_lost=lambda _: None)
        named = {f"db-{n}": s for n, s in enumerate(servers)}
        named |= {f"sentinel-{n}": s for n, s in enumerate(sentinels)}
        self._targets = {pod: Target(f"uid-{pod}", server.address) for pod, server in named.items()}
        reached = Reached(self.links, self._targets, self, FAILOVER)
        self.effects = replication_effects(reached, PASSWORDS)

    def reach(self, pod: str, address: Address) -> None:
        """Speak to a pod's server at another address from now on."""
        self.links.close()
        self._targets[pod] = Target(f"uid-{pod}", address)

    async def read(self, pod: str) -> LivePod | None:
        return LivePod(f"uid-{pod}", self.servers[int(pod[-1])].address.host)

    async def do(self, action: Any) -> str:
        """Carry an action out as the executor does; return why it was not."""
        try:
            await carry_out(self.effects, action)
        except ActionError as error:
            return str(error)
        return ""

    async def at(self, ordinal: int) -> At:
        (info,) = await self.servers[ordinal].ask(commands.info())
        host = self.servers[ordinal].address.host
        return At(f"db-{ordinal}", f"uid-db-{ordinal}", host, NodeId(info.server.run_id))  # type: ignore[attr-defined]

    async def watcher(self, ordinal: int) -> At:
        (found,) = await self.sentinels[ordinal].ask(sentinel.my_id())
        pod = f"sentinel-{ordinal}"
        return At(pod, f"uid-{pod}", self.sentinels[ordinal].address.host, NodeId(str(found)))

    def of(self, ordinal: int) -> str:
        return f"{self.servers[ordinal].address.host}:6379"

    async def is_primary(self, ordinal: int) -> bool:
        (found,) = await self.servers[ordinal].ask(commands.info_replication())
        return bool(found.is_primary)  # type: ignore[attr-defined]

    async def named(self) -> list[Any]:
        return [(await s.ask(sentinel.address_of(NAME)))[0] for s in self.sentinels]

    async def in_sync(self) -> None:
        while True:
            (found,) = await self.servers[0].ask(commands.info_replication())
            if sum(line.state == "online" for line in found.replicas) == 2:  # type: ignore[attr-defined]
                return
            await asyncio.sleep(0.02)

    async def switch(self, to: int) -> SwitchOver:
        watchers = [await self.watcher(n) for n in range(len(self.sentinels))]
        return SwitchOver(await self.at(to), await self.at(0), NAME, tuple(watchers))


@asynccontextmanager
async def replicated(engine: EngineBinary, *, announced: bool = False) -> AsyncIterator[Database]:
    """A database of this engine, in sync and monitored.

    All come from one address: only if theirs are announced do sentinels find replicas and others.
    """
    async with Servers(engine) as servers:
        started = await servers.start(3, cluster=False, options={"repl-diskless-sync-delay": "0"})
        watching = await servers.start_sentinels(3, config="")
        made = Database(started, watching)
        for server in started:
            await server.ask(commands.acl_setuser("sentinel", RULES))
        if announced:
            await _announce(made)
        primary = await made.at(0)
        for n in (1, 2):
            assert not await made.do(Follow(await made.at(n), primary, ""))
        async with asyncio.timeout(60):
            await made.in_sync()
        for n in range(3):
            assert not await made.do(Watch(await made.watcher(n), NAME, primary, 2))
        yield made
        made.links.close()


async def _announce(database: Database) -> None:
    for server in database.servers:
        await server.ask(commands.config_set({"replica-announce-ip": server.address.host}))
    for watcher in database.sentinels:
        await watcher.ask(
            sentinel.config_set("announce-ip", watcher.address.host),
            sentinel.config_set("announce-port", str(watcher.address.port)),
        )
