"""The same few verbs over simulated servers and over real ones, so that one suite runs on both."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit
from typing import Any, Protocol

import hiredis

from kubelocal.loopback import free_host
from redis_operator.redis import commands, tally
from redis_operator.redis.connection import Address
from redis_operator.redis.errors import LoadingError, ReplyError, reply_error
from redis_operator.redis.replies import ClusterNode
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import SLOTS, SlotSet, even_shares, key_slot
from redis_operator.redis.versions import Version, parse_version
from redis_testing.cluster import SimulatedCluster, disk
from redis_testing.cluster.transactions import Session
from redis_testing.cluster.wire import answer
from redis_testing.servers import EngineBinary, Servers

NODE_TIMEOUT = 0.8
_LOAD_SECONDS = 5.0
_MUCH = 12_000
TALLY = tally._SCRIPT


Words = tuple[str | int, ...]


class Fleet(Protocol):
    async def call(self, index: int, *words: str | int) -> Any: ...
    async def kill(self, index: int) -> None: ...
    async def end(self, index: int) -> None: ...
    async def stop(self, index: int) -> None: ...
    async def start(
        self, index: int, *, new_address: bool = False, empty: bool = False
    ) -> None: ...
    async def start_slowly(self, index: int) -> None: ...
    def runs(self, index: int) -> bool: ...
    async def fill_disk(self, index: int) -> None: ...
    async def make_room(self, index: int) -> None: ...
    async def cut_last_write(self, index: int, key: str) -> None: ...
    async def freeze(self, index: int) -> None: ...
    async def thaw(self, index: int) -> None: ...
    async def pipe(self, index: int, *asked: Words) -> list[Any]: ...
    def ip(self, index: int) -> str: ...
    async def tick(self) -> None: ...
    @property
    def version(self) -> Version: ...


class SimulatedFleet:
    def __init__(
        self,
        count: int,
        engine: str = "valkey",
        version: str = "9.1.2",
        *,
        options: Mapping[str, str] | None = None,
    ) -> None:
        found = parse_version(engine, version)
        assert found is not None
        self.version = found
        self.world = SimulatedCluster(seed=1)
        self.names = [f"s{i}" for i in range(count)]
        for name in self.names:
            server = self.world.add(name)
            server.engine, server.version, server.guarded = engine, version, False
            server.config["cluster-node-timeout"] = str(int(NODE_TIMEOUT * 1000))
            server.config["save"] = "3600 1"
            for option, value in (options or {}).items():
                server.config[option.replace("_", "-")] = value

    async def call(self, index: int, *words: str | int) -> Any:
        (reply,) = await self.pipe(index, words)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def pipe(self, index: int, *asked: Words) -> list[Any]:
        server = self.world.servers[self.names[index]]
        session = Session(self.world, server, lambda words: answer(self.world, server, words))
        return [session.answer([str(word) for word in words]) for words in asked]

    async def freeze(self, index: int) -> None:
        self.world.servers[self.names[index]].stopped = True

    async def thaw(self, index: int) -> None:
        self.world.servers[self.names[index]].stopped = False

    async def kill(self, index: int) -> None:
        await self.call(index, "SAVE")
        await self.end(index)

    async def end(self, index: int) -> None:
        self.world.kill(self.names[index])

    async def stop(self, index: int) -> None:
        self.world.end(self.names[index])

    async def start(self, index: int, *, new_address: bool = False, empty: bool = False) -> None:
        server = self.world.servers[self.names[index]]
        server.persistent = not empty
        address = self.world.new_address() if new_address else None
        self.world.start(server.name, address=address)
        server.persistent = True

    async def start_slowly(self, index: int) -> None:
        self.world.load_seconds = _LOAD_SECONDS
        self.world.start(self.names[index])
        self.world.load_seconds = 0.0

    def runs(self, index: int) -> bool:
        return self.world.servers[self.names[index]].alive

    async def fill_disk(self, index: int) -> None:
        disk.fill_up(self.world, self.world.servers[self.names[index]])

    async def make_room(self, index: int) -> None:
        disk.make_room(self.world, self.world.servers[self.names[index]])

    async def cut_last_write(self, index: int, key: str) -> None:
        disk.cut_off(self.world.servers[self.names[index]], key)

    def ip(self, index: int) -> str:
        return self.world.servers[self.names[index]].ip

    async def tick(self) -> None:
        self.world.advance(0.1)


class RealFleet:
    def __init__(
        self, binary: EngineBinary, count: int, *, extra: Mapping[str, str] | None = None
    ) -> None:
        self.count = count
        self.version = binary.version
        options = {
            "cluster-node-timeout": str(int(NODE_TIMEOUT * 1000)),
            "cluster-require-full-coverage": "no",
            "save": "3600 1",
        }
        if binary.version.number >= (6, 2, 0):
            options["cluster-allow-replica-migration"] = "no"
        more = {name.replace("_", "-"): value for name, value in (extra or {}).items()}
        self.servers = Servers(binary, options=options | more)
        self._starting: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> RealFleet:
        await self.servers.start(self.count)
        return self

    async def __aexit__(self, *error: Any) -> None:
        for starting in self._starting:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await self.servers.__aexit__(None, None, None)

    async def call(self, index: int, *words: str | int) -> Any:
        (reply,) = await self.pipe(index, words)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def pipe(self, index: int, *asked: Words) -> list[Any]:
        server = self.servers.members[index]
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        replies: list[Any] = []
        try:
            writer.write(b"".join(encode(words) for words in asked))
            parser = hiredis.Reader(replyError=lambda text: reply_error(str(text)))
            while len(replies) < len(asked):
                if (reply := parser.gets()) is not False:
                    replies.append(reply)
                    continue
                chunk = await asyncio.wait_for(reader.read(65536), 10)
                if not chunk:
                    raise ConnectionError("the server closed the connection")
                parser.feed(chunk)
        finally:
            writer.close()
        return replies

    async def freeze(self, index: int) -> None:
        self.servers.members[index].send_signal(signal.SIGSTOP)

    async def thaw(self, index: int) -> None:
        self.servers.members[index].send_signal(signal.SIGCONT)

    async def kill(self, index: int) -> None:
        server = self.servers.members[index]
        if server.is_running:
            await self.call(index, "SAVE")
        await server.kill()

    async def end(self, index: int) -> None:
        """Kill the process as it is, without a save."""
        await self.servers.members[index].kill()

    async def stop(self, index: int) -> None:
        await self.servers.members[index].stop()

    async def start(self, index: int, *, new_address: bool = False, empty: bool = False) -> None:
        server = self.servers.members[index]
        if new_address:
            server.address = Address(free_host(), server.address.port)
            server.options["cluster-announce-ip"] = server.address.host
        if empty:
            (server.directory / "dump.rdb").unlink(missing_ok=True)
        await server.start()

    async def start_slowly(self, index: int) -> None:
        """Start with files that take seconds to read; return while they are being read."""
        server = self.servers.members[index]
        server.options["key-load-delay"] = str(int(_LOAD_SECONDS / _MUCH * 1e6))
        starting = asyncio.create_task(server.start())
        self._starting.append(starting)
        while not starting.done():
            with contextlib.suppress(OSError, LoadingError):
                if b"loading:1" in await self.call(index, "INFO", "persistence"):
                    del server.options["key-load-delay"]  # the next start is a quick one
                    return
            await asyncio.sleep(0.005)
        await starting
        raise AssertionError("it had read its files before it could be asked")

    def runs(self, index: int) -> bool:
        return self.servers.members[index].is_running

    async def fill_disk(self, index: int) -> None:
        """Let its files grow no more: to the server that is an error like that of a full disk."""
        server = self.servers.members[index]
        size = max(path.stat().st_size for path in self._files(index))
        prlimit(server.pid, RLIMIT_FSIZE, (size, RLIM_INFINITY))

    async def make_room(self, index: int) -> None:
        prlimit(self.servers.members[index].pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))

    async def cut_last_write(self, index: int, key: str) -> None:
        """Cut the file off in the middle of its last command, which is the write to a key."""
        path = max(self._files(index), key=lambda path: (path.stat().st_mtime, path.name))
        text = path.read_bytes()
        at = text.rindex(key.encode())
        path.write_bytes(text[: at + 1])

    def _files(self, index: int) -> list[Path]:
        found = self.servers.members[index].directory.rglob("*.aof*")
        return [path for path in found if path.is_file() and path.suffix != ".manifest"]

    def ip(self, index: int) -> str:
        return self.servers.members[index].address.host

    async def tick(self) -> None:
        await asyncio.sleep(0.05)


# What both are asked


async def nodes(fleet: Fleet, index: int) -> dict[str, ClusterNode]:
    command = commands.cluster_nodes()
    return {node.id: node for node in command.read(await fleet.call(index, "CLUSTER", "NODES"))}


async def my_id(fleet: Fleet, index: int) -> str:
    return str((await fleet.call(index, "CLUSTER", "MYID")).decode())


async def myself(fleet: Fleet, index: int) -> ClusterNode:
    return (await nodes(fleet, index))[await my_id(fleet, index)]


async def until(
    fleet: Fleet, condition: Callable[[], Awaitable[bool]], *, ticks: int = 300
) -> None:
    for _ in range(ticks):
        if await condition():
            return
        await fleet.tick()
    raise AssertionError("it did not come to pass")


async def never(fleet: Fleet, condition: Callable[[], Awaitable[bool]], *, ticks: int) -> None:
    for _ in range(ticks):
        assert not await condition(), "it came to pass"
        await fleet.tick()


async def refusal(fleet: Fleet, index: int, *words: str | int) -> str:
    try:
        await fleet.call(index, *words)
    except ReplyError as error:
        return str(error)
    raise AssertionError(f"{words} was not refused")


async def mesh(fleet: Fleet, count: int) -> None:
    for one in range(count):
        for two in range(one + 1, count):
            await fleet.call(one, "CLUSTER", "MEET", fleet.ip(two), 6379)

    async def met() -> bool:
        return all([len(await settled_nodes(fleet, i)) == count for i in range(count)])

    await until(fleet, met)


async def settled_nodes(fleet: Fleet, index: int) -> list[ClusterNode]:
    return [n for n in (await nodes(fleet, index)).values() if not n.is_in_handshake]


async def form(fleet: Fleet, *, primaries: int, count: int) -> list[str]:
    """Primaries with even shares, the rest replicas in turn; the ids."""
    for index, share in enumerate(even_shares(primaries)):
        await fleet.call(index, "CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        await fleet.call(index, "CLUSTER", "ADDSLOTS", *share)
    await mesh(fleet, count)
    ids = [await my_id(fleet, index) for index in range(count)]
    for index in range(primaries, count):
        await fleet.call(index, "CLUSTER", "REPLICATE", ids[index % primaries])

    async def linked() -> bool:
        up = [await link_up(fleet, i) for i in range(primaries, count)]
        ok = [b"cluster_state:ok" in await fleet.call(i, "CLUSTER", "INFO") for i in range(count)]
        books = [list((await nodes(fleet, i)).values()) for i in range(count)]
        roles = [sum(node.is_replica for node in book) for book in books]
        # State ok is no proof: a server may not have heard yet what the others own.
        owners = [sum(len(node.slots) for node in book) for book in books]
        told = all(r == count - primaries for r in roles) and all(o == SLOTS for o in owners)
        return all(up) and all(ok) and told

    await until(fleet, linked)
    return ids


async def write_much(fleet: Fleet, index: int) -> None:
    """Write ten keys of the first of three shards so often that reading the file takes a while."""
    *most, last = [key for _, key in zip(range(10), keys_of(0, 3), strict=False)]
    await fleet.pipe(index, *(("SET", most[number % 9], "v") for number in range(_MUCH)))
    await fleet.call(index, "SET", last, "v")


async def link_up(fleet: Fleet, index: int) -> bool:
    return b"master_link_status:up" in await fleet.call(index, "INFO", "replication")


async def replication(fleet: Fleet, index: int) -> Any:
    return commands.info_replication().read(await fleet.call(index, "INFO", "replication"))


async def keys(fleet: Fleet, index: int) -> int:
    return int(await fleet.call(index, "DBSIZE"))


async def owned(fleet: Fleet, index: int) -> SlotSet:
    return (await myself(fleet, index)).slots


def key_of(shard: int, shards: int) -> str:
    """A key whose slot is in a shard of a cluster with even shares."""
    return next(keys_of(shard, shards))


def keys_of(shard: int, shards: int) -> Iterator[str]:
    """Keys of a shard, each of another slot as a rule."""
    share = even_shares(shards)[shard]
    return (k for k in (f"k{n}" for n in range(10_000)) if key_slot(k) in share)
