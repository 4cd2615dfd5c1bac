"""Plain servers and the sentinels that watch them, simulated or real: servers first, by number."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

from kubelocal.loopback import free_host
from redis_operator.redis import commands, sentinel
from redis_operator.redis.connection import Address
from redis_operator.redis.errors import ReplyError
from redis_operator.redis.replies import InfoReplication, InfoStats
from redis_operator.redis.sentinel_replies import KnownReplica, KnownSentinel, MonitoredPrimary
from redis_testing.sentinels.wire import configure
from redis_testing.servers import EngineBinary
from sim import fleet as f

NAME = "db"
# Real ones ask seldom; those that have SENTINEL DEBUG can be hurried, and the simulated need not.
_HURRY = (
    *("info-period", "400", "ping-period", "100", "ask-period", "200", "publish-period", "300"),
    *("slave-reconf-timeout", "2000", "tilt-period", "1000"),
)


class Group(f.Fleet, Protocol):
    servers_count: int
    watchers: list[int]

    async def restart_sentinel(
        self, index: int, *, keep: bool, new_address: bool = False
    ) -> None: ...
    @property
    def is_slow(self) -> bool: ...


def _file(ip: str, quorum: int, options: Mapping[str, str]) -> str:
    lines = [f"sentinel monitor {NAME} {ip} 6379 {quorum}"]
    lines += [f"sentinel {option} {NAME} {value}" for option, value in options.items()]
    return "\n".join(lines) + "\n"


class SimulatedGroup(f.SimulatedFleet):
    is_slow = False

    def __init__(self, servers: int, sentinels: int, engine: str, version: str) -> None:
        super().__init__(servers, engine, version)
        for name in self.names:
            self.world.servers[name].config |= {"cluster-enabled": "no", "save": ""}
            self.world.servers[name].config |= {"replica-priority": "100"}
            self.world.servers[name].config |= {
                "min-replicas-to-write": "0",
                "min-replicas-max-lag": "10",
            }
        self.servers_count = servers
        self.watchers = list(range(servers, servers + sentinels))
        self._text = ""

    async def watch(self, quorum: int, options: Mapping[str, str]) -> None:
        self._text = _file(self.ip(0), quorum, options)
        for number in self.watchers:
            name = f"w{number}"
            self.names.append(name)
            server = self.world.add_sentinel(name)
            server.engine, server.version = (
                self.version.engine,
                ".".join(map(str, self.version.number)),
            )
            configure(self.world, server, self._text)

    async def restart_sentinel(self, index: int, *, keep: bool, new_address: bool = False) -> None:
        server = self.world.servers[self.names[index]]
        assert server.sentinel is not None
        if not keep:
            server.sentinel.lose_file(self.world.new_id("s"))
        address = self.world.new_address() if new_address else None
        self.world.start(server.name, address=address)
        configure(self.world, server, self._text)


class RealGroup(f.RealFleet):
    def __init__(self, binary: EngineBinary, servers: int, sentinels: int) -> None:
        super().__init__(binary, servers)
        self.servers.options = {}
        self.servers_count = servers
        self.watchers = list(range(servers, servers + sentinels))
        self.is_slow = binary.version.number < (7, 0, 0)
        self._text = ""

    async def __aenter__(self) -> RealGroup:
        options = {"repl-diskless-sync-delay": "0", "repl-timeout": "5"}
        await self.servers.start(self.count, cluster=False, options=options)
        for index in range(self.count):
            await self._announce(index)
        return self

    async def _announce(self, index: int) -> None:
        await self.call(index, "CONFIG", "SET", "replica-announce-ip", self.ip(index))

    async def watch(self, quorum: int, options: Mapping[str, str]) -> None:
        self._text = _file(self.ip(0), quorum, options)
        for number in self.watchers:
            await self.servers.start_sentinels(1, config=self._text)
            await self._set_up(number)

    async def _set_up(self, index: int) -> None:
        await self.call(index, "SENTINEL", "CONFIG", "SET", "announce-ip", self.ip(index))
        if not self.is_slow:
            for start in range(0, len(_HURRY), 2):
                await self.call(index, "SENTINEL", "DEBUG", *_HURRY[start : start + 2])

    async def start(self, index: int, *, new_address: bool = False, empty: bool = False) -> None:
        await super().start(index, new_address=new_address, empty=empty)
        self.servers.members[index].options.pop("cluster-announce-ip", None)
        await self._announce(index)

    async def restart_sentinel(self, index: int, *, keep: bool, new_address: bool = False) -> None:
        server = self.servers.members[index]
        assert server.config_file is not None
        if not keep:
            server.config_file.write_text(self._text)
        if new_address:
            server.address = Address(free_host(), server.address.port)
        await server.start()
        await self._set_up(index)


# What both are asked


async def primary(group: Group, index: int, name: str = NAME) -> MonitoredPrimary:
    return sentinel.primary(name).read(await group.call(index, "SENTINEL", "MASTER", name))


async def replicas(group: Group, index: int) -> dict[str, KnownReplica]:
    found = sentinel.replicas(NAME).read(await group.call(index, "SENTINEL", "REPLICAS", NAME))
    return {replica.ip: replica for replica in found}


async def sentinels(group: Group, index: int) -> dict[str, KnownSentinel]:
    found = sentinel.sentinels(NAME).read(await group.call(index, "SENTINEL", "SENTINELS", NAME))
    return {other.run_id: other for other in found}


async def address(group: Group, index: int) -> str:
    found = sentinel.address_of(NAME).read(
        await group.call(index, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
    )
    return found[0] if found else ""


async def replication(group: Group, index: int) -> InfoReplication:
    return commands.info_replication().read(await group.call(index, "INFO", "replication"))


async def follow(group: Group, index: int, target: int) -> None:
    await group.call(index, "REPLICAOF", group.ip(target), 6379)
    await f.until(group, lambda: linked(group, index, target))


async def linked(group: Group, index: int, target: int) -> bool:
    """Whether one follows the other and has what it has."""
    mine, theirs = await replication(group, index), await replication(group, target)
    right = mine.primary_host == group.ip(target) and mine.link_up
    return right and mine.offset >= theirs.offset and mine.replication_id == theirs.replication_id


async def agree(group: Group, index: int) -> bool:
    """Whether all sentinels say that one server is the primary, and hold nothing against it."""
    found = [await primary(group, watcher) for watcher in group.watchers if group.runs(watcher)]
    return all(one.ip == group.ip(index) and one.is_up for one in found)


async def complete(group: Group) -> bool:
    """Whether all sentinels know one another, and all servers."""
    for watcher in group.watchers:
        others = await sentinels(group, watcher)
        known = await replicas(group, watcher)
        alive = [one for one in known.values() if one.is_up and one.primary_host]
        here = {group.ip(n) for n in group.watchers if n != watcher}
        if {o.ip for o in others.values() if o.is_up} != here:
            return False
        if len(alive) != group.servers_count - 1:
            return False
    return True


async def form(group: Any, *, quorum: int = 2, **options: str) -> None:
    """One primary, its replicas, and sentinels that know everybody."""
    for index in range(1, group.servers_count):
        await follow(group, index, 0)
    defaults = {"down-after-milliseconds": "500", "failover-timeout": "3000"}
    given = {name.replace("_", "-"): value for name, value in options.items()}
    await group.watch(quorum, defaults | given)
    await f.until(group, lambda: complete(group))


async def say(group: Group, index: int, *words: str | int) -> str:
    """What is answered, be it an error."""
    try:
        return str(await group.call(index, *words))
    except ReplyError as error:
        return str(error)


async def elected(group: Group, *among: int) -> int:
    """Wait until all sentinels agree on one of these servers, which leads; which one.

    On a busy machine a real sentinel may stand still for more than two seconds. It is in TILT then,
    and does nothing for half a minute: where two of three are (seen on Redis 6.2), they elect
    nobody before that.
    """
    found: list[int] = []

    async def one() -> bool:
        for index in among:
            with contextlib.suppress(ReplyError):
                if await agree(group, index) and (await replication(group, index)).is_primary:
                    found.append(index)
                    return True
        return False

    await f.until(group, one, ticks=1200)
    return found[0]


async def stats(group: Group, index: int) -> InfoStats:
    return commands.info().read(await group.call(index, "INFO")).stats


async def require(group: Any, index: int, user: str, password: str) -> None:
    """Let a server know one more user, and the one without a password no more."""
    if isinstance(group, SimulatedGroup):
        digest = hashlib.sha256(password.encode()).hexdigest()
        group.world.passwords[group.names[index]] = {user: (f"#{digest}",)}
        return
    await group.pipe(
        index,
        ("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all"),
        ("ACL", "SETUSER", "default", "off"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("CLIENT", "KILL", "TYPE", "pubsub"),
    )
