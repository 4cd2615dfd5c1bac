from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import (
    Conflict,
    ConnectionFailed,
    Expired,
    GarbledLine,
    NoAnswer,
    NotFound,
    ServerError,
    StreamStalled,
    TooManyRequests,
)
from kubecontroller.client.meta import Manifest, Projected
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.client.watch import Bookmark
from kubecontroller.runtime.backoff import ItemExponential
from kubecontroller.runtime.controller import Controller, Watch
from kubecontroller.runtime.informer import Informer
from kubecontroller.runtime.outcomes import Done
from kubecontroller.testing.faults import (
    CRASHES,
    Crashed,
    Fault,
    FaultyTransport,
    NoFaults,
    Nth,
    Seeded,
    StreamFault,
)
from kubecontroller.testing.tiny import TinyServer

PLAIN: Kind[Manifest] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
META = Kind("", "v1", "ConfigMap", "configmaps", True, Projected)
KEY = ("d", "a")


def manifest(name: str = "a", **data: str) -> Manifest:
    return {"metadata": {"namespace": "d", "name": name}, "data": data}


class World:
    def __init__(self, plan: Any) -> None:
        self.server = TinyServer()
        self.transport = FaultyTransport(self.server.transport(), plan)
        self.client = Client(self.transport)
        self.direct = Client(self.server.transport())

    async def exists(self) -> bool:
        try:
            await self.direct.get(PLAIN, KEY)
        except NotFound:
            return False
        return True


@pytest.mark.parametrize(
    ("fault", "error", "done"),
    [
        (Fault.CRASH_BEFORE, Crashed, False),
        (Fault.CRASH_AFTER, Crashed, True),
        (Fault.LOST_REPLY, NoAnswer, True),
        (Fault.RESET_BEFORE, ConnectionFailed, False),
        (Fault.RESET_AFTER, ConnectionFailed, True),
        (Fault.CONFLICT, Conflict, False),
        (Fault.TOO_MANY, TooManyRequests, False),
        (Fault.SERVER_ERROR, ServerError, False),
    ],
    ids=lambda value: getattr(value, "name", None),
)
async def test_each_fault_of_a_write_raises_what_it_should_and_does_what_it_says(
    fault, error, done
):
    world = World(Nth(writes={1: fault}))
    with pytest.raises(error):
        await world.client.create(PLAIN, manifest())
    assert await world.exists() is done
    assert [struck.fault for struck in world.transport.journal] == [fault]


async def test_a_write_on_its_way_when_we_die_arrives_later():
    world = World(Nth(writes={1: Fault.CRASH_DURING}))
    with pytest.raises(Crashed):
        await world.client.create(PLAIN, manifest())
    assert not await world.exists()
    await world.transport.close()
    assert await world.exists()


def test_a_crash_is_not_an_exception_that_a_worker_could_survive():
    assert not issubclass(Crashed, Exception)


async def test_a_server_told_to_slow_down_says_for_how_long():
    world = World(Nth(writes={1: Fault.TOO_MANY}))
    with pytest.raises(TooManyRequests) as caught:
        await world.client.create(PLAIN, manifest())
    assert caught.value.retry_after == 1


async def test_a_slow_answer_is_an_answer():
    world = World(Nth(writes={1: Fault.SLOW}))
    await world.client.create(PLAIN, manifest())
    assert asyncio.get_running_loop().time() == pytest.approx(5)


async def test_only_the_numbered_write_is_struck_and_reads_never():
    world = World(Nth(writes={2: Fault.SERVER_ERROR}))
    await world.client.create(PLAIN, manifest())
    await world.client.list(PLAIN)
    with pytest.raises(ServerError):
        await world.client.create(PLAIN, manifest("b"))
    await world.client.create(PLAIN, manifest("b"))
    assert world.transport.writes == 3


async def test_a_list_is_old_only_where_the_protocol_allows_it():
    world = World(Seeded(1, {Fault.STALE: 1.0}))
    await world.direct.create(PLAIN, manifest())
    first = await world.client.list(PLAIN, resource_version="0")
    world.transport._lists.clear()
    world.transport._plan = NoFaults()
    first = await world.client.list(PLAIN, resource_version="0")
    world.transport._plan = Seeded(1, {Fault.STALE: 1.0})
    await world.direct.delete(PLAIN, KEY)
    stale = await world.client.list(PLAIN, resource_version="0")
    assert stale == first
    assert (await world.client.list(PLAIN)).items == ()


async def watch(world: World, *, changes: int = 10) -> list[Any]:
    """Watch while somebody changes one object; return the versions seen."""
    await world.direct.create(PLAIN, manifest(n="0"))
    version = str(world.server.version)
    seen: list[Any] = []

    async def change() -> None:
        for n in range(1, changes + 1):
            await world.direct.patch(PLAIN, KEY, MergePatch({"data": {"n": str(n)}}))
        await world.direct.delete(PLAIN, KEY)

    async with world.client.watch(PLAIN, resource_version=version, server_timeout=30) as events:
        writer = asyncio.create_task(change())
        try:
            async for event in events:
                if isinstance(event, Bookmark):
                    continue
                seen.append(
                    event.type.value if event.type == "DELETED" else event.object["data"]["n"]
                )
                if seen[-1] == "DELETED":
                    break
        finally:
            await writer
    return seen


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (StreamFault.CUT, ConnectionFailed),
        (StreamFault.CUT_IN_LINE, ConnectionFailed),
        (StreamFault.HANG, StreamStalled),
        (StreamFault.GARBAGE, GarbledLine),
        (StreamFault.DROPPED, Expired),
        (StreamFault.EXPIRED, Expired),
    ],
    ids=lambda value: getattr(value, "name", None),
)
async def test_each_fault_of_a_stream_ends_it_as_it_should(fault, error):
    world = World(Nth(streams={1: fault}))
    with pytest.raises(error):
        await watch(world)


async def test_late_changes_all_arrive_seconds_late():
    world = World(Nth(streams={1: StreamFault.LATE}))
    assert await watch(world, changes=3) == ["1", "2", "3", "DELETED"]
    assert asyncio.get_running_loop().time() == pytest.approx(3.0, abs=0.1)  # not 3 s for each


async def test_a_stream_that_lost_changes_says_so_within_seconds_though_nothing_follows():
    world = World(Nth(streams={1: StreamFault.DROPPED}))
    with pytest.raises(Expired):
        await watch(world, changes=3)  # the fourth, a deletion, is lost and nothing comes after it
    assert asyncio.get_running_loop().time() < 3


async def test_changes_that_never_cease_are_coalesced_no_longer_than_a_second():
    world = World(Nth(streams={1: StreamFault.COALESCED}))
    await world.direct.create(PLAIN, manifest(n="0"))
    version, loop = str(world.server.version), asyncio.get_running_loop()

    async def change() -> None:
        for n in range(40):
            await world.direct.patch(PLAIN, KEY, MergePatch({"data": {"n": str(n)}}))
            await asyncio.sleep(0.3)

    async with world.client.watch(PLAIN, resource_version=version, server_timeout=30) as events:
        writer = asyncio.create_task(change())
        first = await anext(aiter(events))
        assert not isinstance(first, Bookmark)
        assert int(first.object["data"]["n"]) >= 2
        assert loop.time() < 2
        writer.cancel()


async def test_of_coalesced_changes_the_last_remains_and_a_deletion_is_never_lost():
    world = World(Nth(streams={1: StreamFault.COALESCED}))
    assert await watch(world) == ["10", "DELETED"]


async def test_a_coalesced_stream_ends_when_the_server_ends_it():
    world = World(Nth(streams={1: StreamFault.COALESCED}))
    async with world.client.watch(PLAIN, resource_version="1", server_timeout=5) as events:
        assert [event async for event in events if not isinstance(event, Bookmark)] == []


async def drive(world: World) -> list[str]:
    for n in range(30):
        with contextlib.suppress(Exception, Crashed):
            await world.client.create(PLAIN, manifest(f"a-{n}"))
        await asyncio.sleep(0.1)
    return [f"{struck.at:.3f} {struck.fault} {struck.path}" for struck in world.transport.journal]


async def test_the_same_seed_gives_the_same_faults_in_the_same_order():
    rates = dict.fromkeys([*Fault, *StreamFault], 0.1)
    begin = asyncio.get_running_loop().time()
    runs = []
    for seed in (7, 7, 8):
        faults = await drive(World(Seeded(seed, rates)))
        runs.append([line.split(" ", 1)[1] for line in faults])
    assert runs[0] == runs[1] != runs[2]
    assert len(runs[0]) > 5
    assert begin >= 0


async def test_a_budget_bounds_how_much_goes_wrong():
    world = World(Seeded(3, {Fault.SERVER_ERROR: 1.0}, budget=2))
    for name in "ab":
        with pytest.raises(ServerError):
            await world.client.create(PLAIN, manifest(name))
    await world.client.create(PLAIN, manifest("c"))


# What it is for: a controller that is crashed at every write and fed every fault


class Copier:
    """Copies each ConfigMap labelled `copy=yes` to `<name>-copy`, and takes copies away again."""

    def __init__(self, transport: Any) -> None:
        client = Client(transport)
        self.client = client
        self.informer = Informer(client, PLAIN, random=lambda: 0.5)
        self.controller = Controller(
            "copier", self.reconcile, [Watch(self.informer)], limiter=ItemExponential(base=0.1)
        )

    async def reconcile(self, key):
        namespace, name = key
        if name.endswith("-copy"):
            key = (namespace, name.removesuffix("-copy"))
        copy_key = (namespace, f"{key[1]}-copy")
        source, copy = self.informer.cache.get(key), self.informer.cache.get(copy_key)
        wanted = source is not None and source["metadata"].get("labels") == {"copy": "yes"}
        if wanted and (copy is None or copy.get("data") != source.get("data")):
            intent = {"metadata": {"namespace": namespace, "name": copy_key[1]},
                      "data": source.get("data")}  # fmt: skip
            await self.client.apply(PLAIN, intent)
        elif not wanted and copy is not None:
            await self.client.delete(PLAIN, copy_key, uid=copy["metadata"]["uid"])
        return Done()

    async def run(self) -> None:
        """Run until the process dies, which takes all its tasks along."""
        tasks = [
            asyncio.ensure_future(self.informer.run()),
            asyncio.ensure_future(self.controller.run()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def run_with_restarts(transport: FaultyTransport, seconds: float) -> int:
    """Run the copier for so long, starting a new one whenever it dies; how often it died."""
    loop = asyncio.get_running_loop()
    ends, deaths = loop.time() + seconds, 0
    while (left := ends - loop.time()) > 0:
        task = asyncio.ensure_future(Copier(transport).run())
        done, _ = await asyncio.wait({task}, timeout=left)
        if not done:
            task.cancel()
        else:
            deaths += 1
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.1)
    return deaths


async def scenario(world: World) -> None:
    for n in range(3):
        source = manifest(f"s-{n}", x="1")
        source["metadata"]["labels"] = {"copy": "yes"}
        await world.direct.create(PLAIN, source)
    await asyncio.sleep(5)
    await world.direct.patch(PLAIN, ("d", "s-0"), MergePatch({"data": {"x": "2"}}))
    await world.direct.delete(PLAIN, ("d", "s-1"))
    await world.direct.patch(PLAIN, ("d", "s-2"), MergePatch({"metadata": {"labels": None}}))


def contents(world: World) -> dict[str, Any]:
    return {key[1]: obj["data"] for key, obj in world.server.objects["api/v1/configmaps"].items()}


GOAL = {"s-0": {"x": "2"}, "s-0-copy": {"x": "2"}, "s-2": {"x": "1"}}


async def converge(plan: Any, *, seconds: float = 900) -> World:
    world = World(plan)
    run = asyncio.ensure_future(run_with_restarts(world.transport, seconds))
    await scenario(world)
    world.deaths = await run
    await world.transport.settle()
    return world


async def test_without_faults_the_copier_needs_six_writes():
    world = await converge(NoFaults(), seconds=60)
    assert contents(world) == GOAL
    assert world.transport.writes == 6


@pytest.mark.parametrize("crash", sorted(CRASHES), ids=lambda fault: fault.name)
@pytest.mark.parametrize("write", range(1, 7))
async def test_a_controller_crashed_at_any_write_converges_after_a_restart(write, crash):
    world = await converge(Nth(writes={write: crash}), seconds=120)
    assert world.deaths == 1
    assert contents(world) == GOAL


@pytest.mark.parametrize("seed", range(40))
async def test_a_controller_fed_every_fault_at_random_converges(seed):
    rates = dict.fromkeys([*Fault], 0.05) | dict.fromkeys([*StreamFault], 0.1)
    world = await converge(Seeded(seed, rates, budget=25))
    assert contents(world) == GOAL, f"seed {seed}: {world.transport.journal}"
