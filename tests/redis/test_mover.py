"""Slots move with all their keys, on real servers, however the move is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import hiredis
import pytest
from msgspec.structs import replace

from redis_operator.redis import commands
from redis_operator.redis.atomic import MAXIMUM_REDIS_CHUNK
from redis_operator.redis.carrying import load_script
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.mover import move_slots, preflight
from redis_operator.redis.moving import (
    Method,
    Move,
    MoveError,
    MoveProgress,
    Pace,
    Side,
    choose_method,
)
from redis_operator.redis.rescue import Rescued, rescue_keys
from redis_operator.redis.resp import encode
from redis_operator.redis.slots import SlotSet, key_slot
from redis_operator.redis.versions import Ability, Version, can
from redis_testing.servers import EngineBinary, Servers
from support.pair_of_servers import KEYS, Pair, eventually, fill, pair, run, speak

pytestmark = pytest.mark.servers
GENTLE = Pace(slots=16, keys=10, bytes=2000, microseconds=200)


METHODS = [Method.VALKEY_ATOMIC, Method.REDIS_ATOMIC, Method.SCRIPT, Method.PLAIN]
ATOMIC = {
    Method.VALKEY_ATOMIC: Ability.MIGRATESLOTS,
    Method.REDIS_ATOMIC: Ability.MIGRATION_IMPORT,
}
HALF = SlotSet.span(8192, 8191 + 128)


@pytest.fixture(params=METHODS, ids=lambda m: m.name.lower())
def method(request: pytest.FixtureRequest, binary: EngineBinary) -> Method:
    needed = ATOMIC.get(request.param)
    if needed is not None and not can(binary.version, needed):
        pytest.skip(f"{binary.name} has no {request.param.value}")
    return request.param


async def test_the_password_of_a_move_is_in_no_file(binary: EngineBinary) -> None:
    """Before redis 7.0 a script that is loaded goes to the append-only file and to replicas."""
    async with Servers(binary) as servers:
        [server] = await servers.start(options={"appendonly": "yes"})
        side = Side("a" * 40, server.address.host, 6379, binary.version)
        move = Move(side, side, HALF, username="replication", password="canary")
        async with await server.connect() as link:
            digest = await load_script(link, move)
            [known] = await link.run_all(
                [commands.evalsha(digest, ["", 0, 0, 1, 1, 1, 1])], timeout=5
            )
            assert isinstance(known, list)
            assert known[0] == 0
            await speak(server, ("SCRIPT", "LOAD", "return 'marker'"))
        files = [file for file in server.directory.rglob("*aof*") if file.is_file()]
        written = b"".join(file.read_bytes() for file in files)
    assert files
    assert b"canary" not in written
    assert b"".join(b"\\%03d" % byte for byte in b"canary") not in written
    assert binary.version.major > 6 or b"marker" in written, "what is loaded is written"


async def check_moved(found: Pair, slots: SlotSet, expected: dict[int, int]) -> None:
    there = sum(n for slot, n in expected.items() if slot in slots)
    here = sum(n for slot, n in expected.items() if slot not in slots)
    assert await found.keys("target") == there
    assert await found.keys("source") == here
    assert await found.open_slots() == 0
    assert slots <= await found.owned("target", "target")
    assert not slots & await found.owned("source", "source")

    async def agreed() -> bool:
        return slots <= await found.owned("other", "target")

    async def copied() -> bool:
        return await found.keys("replica") == there

    await eventually(agreed)
    await eventually(copied)


@pytest.mark.slow
async def test_slots_move_with_all_their_keys(binary: EngineBinary, method: Method) -> None:
    async with pair(binary) as found:
        expected = await fill(found)
        told: list[MoveProgress] = []
        last = await run(found, found.move(HALF), method, on_progress=told.append)
        await check_moved(found, HALF, expected)
        assert told[-1] == last
        assert last.slots_moved == HALF
        if method not in ATOMIC:
            assert last.keys_moved == sum(n for slot, n in expected.items() if slot in HALF)
            assert last.bytes_moved > 0
        values = await speak(found.target, *_reads(HALF))
        assert not [value for value in values if value is None or isinstance(value, Exception)]


def _reads(slots: SlotSet) -> list[tuple[bytes | str | int, ...]]:
    return [
        ("OBJECT", "ENCODING", f"key:{n}") for n in range(KEYS) if key_slot(f"key:{n}") in slots
    ]


@pytest.mark.parametrize("way", [Method.SCRIPT, Method.PLAIN], ids=lambda m: m.name.lower())
async def test_a_server_without_slots_gets_one_before_it_gets_many(
    binary: EngineBinary, way: Method
) -> None:
    """From then on a replica takes over when it dies, with the keys of slots still under way."""
    async with pair(binary, **{"cluster-require-full-coverage": "no"}) as found:
        expected = await fill(found, 2000)
        await speak(found.target, ("CLUSTER", "DELSLOTS", 0))
        told: list[MoveProgress] = []
        await run(found, found.move(HALF), way, on_progress=told.append)
        await check_moved(found, HALF, expected)
        assert [len(progress.slots_moved) for progress in told] == [1, len(HALF)]
        assert not HALF - await found.owned("replica", "target")  # heard before the source gave up


@pytest.mark.slow
async def test_a_move_that_was_done_may_be_done_again(binary: EngineBinary, method: Method) -> None:
    async with pair(binary) as found:
        expected = await fill(found, 2000)
        await run(found, found.move(HALF), method)
        again = await run(found, found.move(HALF), method)
        assert again.slots_moved == HALF
        await check_moved(found, HALF, expected)


@pytest.mark.slow
async def test_a_move_interrupted_anywhere_is_finished_by_the_next(
    binary: EngineBinary, method: Method
) -> None:
    """Stop after ever more commands, as a crash would, each time with new connections."""
    slots = SlotSet.span(9000, 9063)
    async with pair(binary) as found:
        expected = await fill(found, 8_000)
        for patience in range(1, 40, 3):
            source, target = await found.source.connect(), await found.target.connect()
            left = _Countdown(patience)
            with contextlib.suppress(_CrashedError):
                await move_slots(
                    _Mortal(source, left),
                    _Mortal(target, left),
                    found.move(slots),
                    replicas=[found.links["replica"]],
                    method=method,
                    pace=GENTLE,
                )
            source.close()
            target.close()
            total = await found.keys("source") + await found.keys("target")
            assert total >= sum(expected.values()), "no key is ever on neither side"
        await run(found, found.move(slots), method)
        await check_moved(found, slots, expected)


async def test_a_group_of_slots_is_announced_to_the_other_servers_once(
    binary: EngineBinary,
) -> None:
    """Each announcement costs every server of the cluster time in which it serves no client."""
    version = binary.version
    if can(version, Ability.REPLICATED_SETSLOT) or not can(version, Ability.ADDSLOTSRANGE):
        pytest.skip(f"{binary.name} announces slots one by one for good, or not by itself")
    async with pair(binary) as found:
        expected = await fill(found, 2000)
        before = await _announcements(found)
        await run(found, found.move(HALF), Method.SCRIPT)
        assert await _announcements(found) - before < len(HALF) / 4
        await check_moved(found, HALF, expected)


async def _announcements(found: Pair) -> int:
    [answer] = await speak(found.target, ("CLUSTER", "INFO"))
    assert isinstance(answer, bytes)
    lines = dict(line.split(":") for line in answer.decode().split())
    return int(lines["cluster_stats_messages_pong_sent"])


async def test_a_claim_wins_over_the_source_after_somebody_else_closed_the_slots_on_the_target(
    binary: EngineBinary,
) -> None:
    """I4: without a new epoch the source takes the slots back, and the keys become strays."""
    async with pair(binary) as found:
        expected = await fill(found, 2000)
        epochs = {"source": 0, "target": 0}
        await found.links["source"].run(commands.bump_epoch(), timeout=5)
        link = found.links["target"]
        found.links["target"] = _Meddler(link, found)  # type: ignore[assignment]
        await run(found, found.move(HALF), Method.SCRIPT, pace=Pace(slots=len(HALF)))
        found.links["target"] = link
        nodes = await link.run(commands.cluster_nodes(), timeout=5)
        for name in epochs:
            epochs[name] = next(n.config_epoch for n in nodes if n.id == found.ids[name])
        assert epochs["target"] > epochs["source"]
        await check_moved(found, HALF, expected)


class _Meddler:
    """A link to the target, where somebody closes the last slot just before it is claimed."""

    def __init__(self, link: Connection, found: Pair) -> None:
        self._link = link
        self._found = found

    async def run(self, command: Command[object], *, timeout: float) -> object:
        return await self._link.run(command, timeout=timeout)

    async def run_all(self, asked: list[Command[object]], *, timeout: float) -> list[object]:
        if any("NODE" in command.arguments for command in asked):
            last = max(HALF)
            if not can(self._found.version, Ability.REPLICATED_SETSLOT):
                await speak(self._found.target, ("CLUSTER", "SETSLOT", last, "STABLE"))
        return await self._link.run_all(asked, timeout=timeout)


async def test_an_atomic_move_of_many_keys_is_made_of_jobs_that_each_pause_only_briefly(
    binary: EngineBinary,
) -> None:
    if not can(binary.version, Ability.MIGRATESLOTS):
        pytest.skip(f"{binary.name} has no CLUSTER MIGRATESLOTS")
    slots, told = HALF, []
    async with pair(binary) as found:
        expected = await fill(found, 8_000)
        await run(
            found,
            found.move(slots),
            Method.VALKEY_ATOMIC,
            pace=Pace(job_keys=20),
            on_progress=told.append,
        )
        await check_moved(found, slots, expected)
        jobs = await found.links["source"].run(commands.slot_migrations(), timeout=5)
        assert len(jobs) >= 3, jobs
        assert [len(p.slots_moved) for p in told] == sorted(len(p.slots_moved) for p in told)
        assert told[-1].slots_moved == slots


class _CrashedError(Exception):
    """The process that moved is gone."""


class _Countdown:
    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _CrashedError


class _Mortal:
    """A link whose owner dies after so many commands: what was sent is still done."""

    def __init__(self, link: Connection, left: _Countdown) -> None:
        self._link = link
        self._left = left

    async def run(self, command: Command[object], *, timeout: float) -> object:
        self._left.spend()
        return await self._link.run(command, timeout=timeout)

    async def run_all(self, asked: list[Command[object]], *, timeout: float) -> list[object]:
        self._left.spend()
        return await self._link.run_all(asked, timeout=timeout)


@pytest.mark.slow
async def test_clients_that_write_meanwhile_lose_nothing(
    binary: EngineBinary, method: Method
) -> None:
    slots = HALF
    async with pair(binary) as found:
        await fill(found)
        keys = [f"w:{n}" for n in range(5000) if key_slot(f"w:{n}") in slots]
        stop = asyncio.Event()
        written: dict[str, int] = {}
        async with asyncio.TaskGroup() as group:
            group.create_task(_write(found, keys, written, stop))
            await asyncio.sleep(0.05)
            await run(found, found.move(slots), method, pace=GENTLE)
            stop.set()
        assert written
        values = await speak(found.target, *[("GET", key) for key in written])
        lost = {
            key: (value, count)
            for (key, count), value in zip(written.items(), values, strict=True)
            if not isinstance(value, bytes) or int(value) < count
        }
        assert lost == {}


async def _write(
    found: Pair, keys: list[str], written: dict[str, int], stop: asyncio.Event
) -> None:
    """A cluster client in small: follows MOVED and ASK, notes what was acknowledged."""
    talks = {
        server.address.host: await asyncio.open_connection(server.address.host, 6379)
        for server in (found.source, found.target)
    }

    async def say(host: str, *lines: tuple[str, ...]) -> object:
        reader, writer = talks[host]
        writer.write(b"".join(encode(line) for line in lines))
        parser = hiredis.Reader()
        answers: list[object] = []
        while len(answers) < len(lines):
            parser.feed(await reader.read(65536))
            while (answer := parser.gets()) is not False:
                answers.append(answer)
        return answers[-1]

    try:
        home, number = found.source.address.host, 0
        while not stop.is_set():
            key, number = keys[number % len(keys)], number + 1
            answer = await say(home, ("SET", key, str(number)))
            for _ in range(20):
                if answer == b"OK":
                    written[key] = number
                    break
                text = str(answer)
                host = text.rpartition(" ")[2].partition(":")[0]
                if text.startswith("ASK "):
                    answer = await say(host, ("ASKING",), ("SET", key, str(number)))
                elif text.startswith("MOVED "):
                    answer = await say(host, ("SET", key, str(number)))
                else:
                    answer = await say(home, ("SET", key, str(number)))
            await asyncio.sleep(0)
    finally:
        for _, writer in talks.values():
            writer.close()


@pytest.mark.slow
async def test_a_target_that_dies_leaves_the_rest_with_the_source(
    binary: EngineBinary, method: Method
) -> None:
    slots = HALF
    async with pair(binary) as found:
        expected = await fill(found, 8_000)
        if method in ATOMIC:  # else the engine is done before anybody can be killed
            large = [f"large:{n}" for n in range(2000) if key_slot(f"large:{n}") in slots]
            await speak(found.source, *[("SETRANGE", key, 10_000_000, "x") for key in large])
            for key in large:
                expected[key_slot(key)] = expected.get(key_slot(key), 0) + 1
        moved: list[SlotSet] = []

        async def murder() -> None:
            async def begun() -> bool:
                if method is Method.VALKEY_ATOMIC:
                    jobs = await found.links["source"].run(commands.slot_migrations(), timeout=5)
                    return bool(jobs)
                if method is Method.REDIS_ATOMIC:
                    jobs = await found.links["target"].run(commands.migration_status(), timeout=5)
                    return bool(jobs)
                return await found.keys("target") > 20

            await eventually(begun)
            await found.target.kill()

        killer = asyncio.create_task(murder())
        slow = Pace(slots=16, keys=5, bytes=500, microseconds=100, migrate_milliseconds=500)
        with pytest.raises(RedisError):
            await run(
                found,
                found.move(slots),
                method,
                pace=slow,
                on_progress=lambda progress: moved.append(progress.slots_moved),
            )
        await killer
        gone = moved[-1] if moved else SlotSet([])
        assert slots - gone, "it was killed while slots were left to move"
        kept = await found.owned("source", "source")
        # The batch under way may have changed hands without a report of it.
        assert len((slots - gone) - kept) <= slow.slots
        counts = [("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots]
        here, copied = await speak(found.source, *counts), await speak(found.replica, *counts)
        for slot, one, other in zip(slots, here, copied, strict=True):
            assert one + other >= expected.get(slot, 0), f"keys of slot {slot} are on no server"
            if slot in gone:
                assert other == expected.get(slot, 0)


async def test_a_job_that_fails_inside_the_engine_is_told_of_leaves_all_and_can_be_repeated(
    binary: EngineBinary,
) -> None:
    """CL-09: the target wants a password that the source does not know."""
    if not can(binary.version, Ability.MIGRATESLOTS):
        pytest.skip(f"{binary.name} has no jobs that move slots by themselves")
    async with pair(binary) as found:
        expected = await fill(found, 3000)
        await speak(found.target, ("CONFIG", "SET", "requirepass", "secret"))
        with pytest.raises(MoveError, match=r"slot migration failed: .*AUTH"):
            await run(found, found.move(HALF), Method.VALKEY_ATOMIC)
        assert await found.owned("source", "source") >= HALF
        assert await found.keys("source") == sum(expected.values())
        assert await found.keys("target") == 0
        await speak(found.target, ("AUTH", "secret"), ("CONFIG", "SET", "requirepass", ""))
        await run(found, found.move(HALF), Method.VALKEY_ATOMIC)
        await check_moved(found, HALF, expected)


async def test_a_big_key_travels_alone_and_one_too_big_not_at_all(binary: EngineBinary) -> None:
    key = "{key:1}big"
    slots = SlotSet([key_slot(key)])
    async with pair(binary) as found:
        await speak(found.source, ("SET", key, "x" * 3_000_000), ("SET", "{key:1}small", "y"))
        with pytest.raises(MoveError, match="takes 3"):
            await run(found, found.move(slots), Method.SCRIPT, pace=Pace(largest_key=1_000_000))
        assert await found.keys("source") == 2
        done = await run(found, found.move(slots), Method.SCRIPT)
        assert done.keys_moved == 2
        assert await found.keys("target") == 2


async def test_the_source_logs_in_to_the_target(binary: EngineBinary) -> None:
    async with pair(binary) as found:
        await fill(found, 2000)
        rules = ("reset", "on", ">pass'word\\", "~*", "-@all", "+restore-asking", "+select")
        await speak(found.target, ("ACL", "SETUSER", "carrier", *rules))
        move = found.move(HALF, "carrier", "pass'word\\")
        assert await preflight(found.links["target"], move) is None
        await run(found, move, Method.SCRIPT)
        assert await found.owned("target", "target") >= HALF


async def test_missing_rights_are_found_before_anything_is_opened(binary: EngineBinary) -> None:
    if not can(binary.version, Ability.ACL_DRYRUN):
        pytest.skip("this version cannot tell beforehand")
    async with pair(binary) as found:
        await speak(found.target, ("ACL", "SETUSER", "carrier", "on", ">x", "~*", "-@all"))
        with pytest.raises(MoveError, match="may not restore keys"):
            await run(found, found.move(HALF, "carrier", "x"), Method.SCRIPT)
        assert await found.open_slots() == 0


async def test_servers_that_are_somebody_else_by_now_are_refused(binary: EngineBinary) -> None:
    async with pair(binary) as found:
        links = found.links
        with pytest.raises(MoveError, match="now, not the primary"):
            await move_slots(links["other"], links["target"], found.move(HALF))
        with pytest.raises(MoveError, match="belong to neither"):
            await move_slots(links["source"], links["target"], found.move(SlotSet([1])))


async def test_stray_keys_are_brought_to_their_owner_copies_removed_and_his_own_left_alone(
    binary: EngineBinary,
) -> None:
    slot = key_slot("{key:1}")
    async with pair(binary) as found:
        stray = found.links["other"]
        # Strays come to be when a move is cut off: keys on a server that does not own their slot.
        await stray.run(commands.set_slot_importing(slot, found.ids["source"]), timeout=5)
        await speak(
            found.other,
            *[line for n in range(5) for line in (("ASKING",), ("SET", f"{{key:1}}{n}", "stray"))],
        )
        await speak(found.source, ("SET", "{key:1}0", "true"), ("SET", "{key:1}1", "stray"))
        await stray.run(commands.set_slot_stable(slot), timeout=5)
        move = Move(
            source=Side(found.ids["other"], found.other.address.host, 6379, found.version),
            target=Side(found.ids["source"], found.source.address.host, 6379, found.version),
            slots=SlotSet([slot]),
        )
        brought = await rescue_keys(stray, found.links["source"], move)
        assert brought == Rescued(4, {slot: frozenset([b"{key:1}0"])}, SlotSet([slot]))
        values = await speak(found.source, *[("GET", f"{{key:1}}{n}") for n in range(5)])
        assert values == [b"true"] + [b"stray"] * 4
        left = await stray.run(commands.get_keys_in_slot(slot, 10), timeout=5)
        trims = can(binary.version, Ability.MIGRATION_IMPORT)  # what it does not own, by itself
        assert left == (() if trims else (b"{key:1}0",))
        assert await found.open_slots() == 0
        with pytest.raises(MoveError, match="nothing to rescue"):
            await rescue_keys(found.links["source"], stray, found.move(SlotSet([slot])))


@pytest.mark.parametrize("hides", [False, True], ids=["keys stay visible", "keys are hidden"])
async def test_stray_keys_are_moved_in_batches(binary: EngineBinary, *, hides: bool) -> None:
    """A server that hides keys of closed slots keeps a slot open until the last one is moved."""
    if can(binary.version, Ability.MIGRATION_IMPORT) and not hides:
        pytest.skip("this version hides them")
    tags = {key_slot(tag): tag for tag in ("{key:1}", "{key:2}")}
    async with pair(binary) as found:
        stray = found.links["other"]
        for slot, tag in tags.items():
            await stray.run(commands.set_slot_importing(slot, found.ids["source"]), timeout=5)
            sets = [line for n in range(6) for line in (("ASKING",), ("SET", f"{tag}{n}", "stray"))]
            await speak(found.other, *sets)
            await speak(found.source, *(("SET", f"{tag}{n}", "true") for n in range(3)))
            if not hides:
                await stray.run(commands.set_slot_stable(slot), timeout=5)
        version = Version("redis", 8, 4) if hides else found.version
        move = Move(
            source=Side(found.ids["other"], found.other.address.host, 6379, version),
            target=Side(found.ids["source"], found.source.address.host, 6379, found.version),
            slots=SlotSet(tags),
        )
        moved, kept = 0, dict[int, frozenset[bytes]]()
        for _ in range(5):
            one = await rescue_keys(
                stray, found.links["source"], move, kept=kept, pace=Pace(stray_keys=4)
            )
            moved += one.moved
            kept |= one.kept
            move = replace(move, slots=move.slots - one.finished)
            assert await found.open_slots() == (len(move.slots) if hides else 0)
            if not move.slots:
                break
        assert not move.slots
        assert moved == 6
        assert kept == {s: {f"{tag}{n}".encode() for n in range(3)} for s, tag in tags.items()}
        values = [await speak(found.source, ("GET", f"{tag}5")) for tag in tags.values()]
        assert values == [[b"stray"]] * 2


@pytest.mark.parametrize("state", ["MIGRATING", "IMPORTING"])
async def test_a_slot_that_is_open_only_at_a_replica_is_closed_by_its_primary(
    binary: EngineBinary, state: str
) -> None:
    """From Valkey 8 on the replica may open it late, when its primary has refused: NOREPLICAS."""
    if not can(binary.version, Ability.REPLICATED_SETSLOT):
        pytest.skip("replicas of this version are not told")
    slot, peer = (0, "other") if state == "MIGRATING" else (9000, "source")
    async with pair(binary) as found:

        async def open_at(name: str) -> bool:
            nodes = await found.links[name].run(commands.cluster_nodes(), timeout=5)
            return any(node.migrating or node.importing for node in nodes if node.is_myself)

        async def left_open() -> bool:
            return await open_at("replica")

        async def closed() -> bool:
            return not await open_at("replica")

        os.kill(found.replica.pid, signal.SIGSTOP)
        try:
            opened = ("CLUSTER", "SETSLOT", slot, state, found.ids[peer])
            [refused] = await speak(found.target, opened)
        finally:
            os.kill(found.replica.pid, signal.SIGCONT)
        assert "NOREPLICAS" in str(refused)
        await eventually(left_open)
        assert not await open_at("target")
        await found.links["target"].run(commands.set_slot_stable(slot), timeout=5)
        await eventually(closed)


def test_the_best_way_both_ends_know_is_chosen() -> None:
    v9, v8 = Version("valkey", 9, 0), Version("valkey", 8, 1)
    r84, r70 = Version("redis", 8, 4), Version("redis", 7, 0)
    assert choose_method(v9, v9) is Method.VALKEY_ATOMIC
    assert choose_method(v9, v8) is Method.SCRIPT
    assert choose_method(r84, r84) is Method.REDIS_ATOMIC
    assert choose_method(r70, r84) is Method.SCRIPT
    assert MAXIMUM_REDIS_CHUNK <= 1024


def test_a_move_does_not_show_its_password() -> None:
    side = Side("a" * 40, "127.0.0.1", 6379, Version("redis", 7, 0))
    assert "secret" not in repr(Move(side, side, HALF, "user", "secret"))
