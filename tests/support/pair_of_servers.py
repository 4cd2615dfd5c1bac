"""A source full of keys and a target with a replica: real servers for tests of moving slots."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import hiredis

from redis_operator.redis import commands
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.mover import move_slots
from redis_operator.redis.moving import Method, Move, MoveProgress, Side
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet, key_slot
from redis_testing.servers import EngineBinary, Server, Servers

__all__ = ["KEYS", "Pair", "eventually", "fill", "pair", "run", "speak"]

KEYS = 4_000


class Pair:
    """A source that owns everything, a target with a replica, a bystander, and a way to look."""

    def __init__(self, servers: list[Server], links: list[Connection], ids: list[str]) -> None:
        self.source, self.target, self.replica, self.other = servers
        self.links = dict(zip(("source", "target", "replica", "other"), links, strict=True))
        self.ids = dict(zip(("source", "target", "replica", "other"), ids, strict=True))
        self.version = self.source.binary.version

    def move(self, slots: SlotSet, username: str = "", password: str = "") -> Move:
        return Move(
            source=Side(self.ids["source"], self.source.address.host, 6379, self.version),
            target=Side(self.ids["target"], self.target.address.host, 6379, self.version),
            slots=slots,
            username=username,
            password=password,
        )

    async def owned(self, asked: str, owner: str) -> SlotSet:
        nodes = await self.links[asked].run(commands.cluster_nodes(), timeout=5)
        return next((n.slots for n in nodes if n.id == self.ids[owner]), NO_SLOTS)

    async def open_slots(self) -> int:
        total = 0
        for name in ("source", "target", "other"):
            nodes = await self.links[name].run(commands.cluster_nodes(), timeout=5)
            [me] = [node for node in nodes if node.is_myself]
            total += len(me.migrating) + len(me.importing)
        return total

    async def keys(self, name: str) -> int:
        return await self.links[name].run(commands.dbsize(), timeout=5)


async def speak(server: Server, *lines: tuple[bytes | str | int, ...]) -> list[object]:
    """Talk to a server as an application does, past our allow-list."""
    reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
    parser = hiredis.Reader()
    answers: list[object] = []
    try:
        writer.write(b"".join(encode(line) for line in lines))
        while len(answers) < len(lines):
            while (answer := parser.gets()) is not False:
                answers.append(answer)
            if len(answers) < len(lines):
                found = await reader.read(65536)
                if not found:
                    raise ConnectionResetError(f"{server.address} ended the connection")
                parser.feed(found)
    finally:
        writer.close()
    return answers


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def pair(binary: EngineBinary, **options: str) -> AsyncIterator[Pair]:
    async with Servers(binary, options=options) as servers, contextlib.AsyncExitStack() as stack:
        # On a busy machine a server that says nothing for seconds is well.
        unhurried = {"cluster-allow-replica-migration": "no", "cluster-node-timeout": "30000"}
        started = await servers.start(4, options=unhurried)
        links = [await stack.enter_async_context(await server.connect()) for server in started]
        ids = [await link.run(commands.my_id(), timeout=5) for link in links]
        source, target, replica, other = links
        await source.run(commands.add_slots(ALL_SLOTS - SlotSet([0, 1])), timeout=5)
        await target.run(commands.add_slots(SlotSet([0])), timeout=5)
        await other.run(commands.add_slots(SlotSet([1])), timeout=5)
        for number, link in enumerate(links, 1):
            await link.run(commands.set_config_epoch(number), timeout=5)
        for link in links:
            meets = [commands.meet(server.address.host, 6379, 16379) for server in started]
            await link.run_all(meets, timeout=5)

        async def formed() -> bool:
            infos = [await link.run(commands.cluster_info(), timeout=5) for link in links]
            return all(info.is_ok and info.known_nodes == 4 for info in infos)

        async def follows() -> bool:
            found = await replica.run(commands.info_replication(), timeout=5)
            if found.is_primary:
                with contextlib.suppress(RedisError):
                    await replica.run(commands.replicate(ids[1]), timeout=5)
            return found.link_up

        await eventually(formed)
        await eventually(follows)
        yield Pair(started, links, ids)


async def fill(found: Pair, count: int = KEYS) -> dict[int, int]:
    """Write keys of several kinds; return how many each slot has."""
    lines: list[tuple[bytes | str | int, ...]] = []
    slots: dict[int, int] = {}
    for number in range(count):
        key = f"key:{number}"
        if key_slot(key) in (0, 1):
            continue
        slots[key_slot(key)] = slots.get(key_slot(key), 0) + 1
        kind = number % 4
        if kind == 0:
            lines.append(("SET", key, "v" * (number % 50)))
        elif kind == 1:
            lines.append(("HSET", key, "field", number))
        elif kind == 2:
            lines.append(("RPUSH", key, *range(5)))
        else:
            lines.append(("SET", key, "mortal", "EX", 1000))
    await speak(found.source, *lines)
    return slots


async def run(found: Pair, move: Move, method: Method, **more: object) -> MoveProgress:
    links = found.links
    if method is Method.PLAIN:
        await speak(found.source, ("ACL", "SETUSER", "default", "-script|load", "-script"))
    return await move_slots(
        links["source"],
        links["target"],
        move,
        others=[links["other"]],
        bystanders=[links["other"]],
        replicas=[links["replica"]],
        method=method,
        **more,  # type: ignore[arg-type]
    )
