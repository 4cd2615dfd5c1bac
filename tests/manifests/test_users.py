"""What the users of a database may do, asked of real servers."""

from __future__ import annotations

from pathlib import Path

from manifests.pods import (
    EARLY,
    PASSWORDS,
    ask,
    form_shard,
    pods,
    talk,
    until,
    write,
)
from redis_operator.api.redis import Persistence
from redis_operator.redis import commands
from redis_operator.redis.mover import move_slots
from redis_operator.redis.moving import Move, Side
from redis_operator.redis.slots import ALL_SLOTS, SlotSet
from redis_operator.redis.versions import Ability, can
from redis_testing.servers import EngineBinary

# What applications do, what changes topology, users or the server, and what is between.
WORK = (
    *("SET a b", "KEYS *", "SCAN 0", "INFO", "SLOWLOG GET", "CLIENT LIST", "CONFIG GET maxmemory"),
    *("FLUSHDB", "FLUSHALL", "SORT a", "DBSIZE", "MEMORY USAGE a", "CLUSTER NODES"),
)
FORBIDDEN = (
    *("DEBUG SLEEP 0", "SHUTDOWN", "REPLICAOF a 1", "SLAVEOF NO ONE", "CLUSTER RESET", "FAILOVER"),
    *("CLUSTER FAILOVER", "CLUSTER MEET a 1", "CLUSTER ADDSLOTS 1", "CLUSTER FORGET x"),
    *("CONFIG SET hz 10", "CONFIG REWRITE", "ACL SETUSER x on", "ACL DELUSER default", "ACL LOAD"),
    *("MIGRATE a 1 b 0 1", "MODULE LIST", "PSYNC a 1", "REPLCONF a b", "RESTORE-ASKING a 0 b"),
    *("SAVE",),
)
ADMINISTRATION = ("ACL LIST", "CLIENT KILL ID 1", "BGSAVE", "MONITOR", "CONFIG RESETSTAT")


async def test_applications_may_work_and_may_not_administrate(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        say = await talk(pod)
        assert "NOAUTH" in await say("GET a")
        assert await say(f"AUTH default {PASSWORDS.default}") == "b'OK'"
        for allowed in (*WORK, "EVAL return(1) 0", "CLIENT SETNAME x", "CLUSTER KEYSLOT a"):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in (*FORBIDDEN, *ADMINISTRATION):
            answer = await say(refused)
            assert "NOPERM" in answer or "DEBUG command not allowed" in answer, refused


async def test_administrators_may_look_into_everything_and_do_not_fight_the_operator(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """X-07"""
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        say = await talk(pod)
        assert await say(f"AUTH admin {PASSWORDS.admin}") == "b'OK'"
        for allowed in (*WORK, *(word for word in ADMINISTRATION if word != "MONITOR")):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in FORBIDDEN:
            answer = await say(refused)
            assert "NOPERM" in answer or "DEBUG command not allowed" in answer, refused


async def test_the_exporter_may_ask_what_it_asks(tmp_path: Path, binary: EngineBinary) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        (await pod.answers()).close()
        say = await talk(pod)
        assert await say(f"AUTH exporter {PASSWORDS.exporter}") == "b'OK'"
        for allowed in (
            *("INFO ALL", "CONFIG GET *", "SLOWLOG LEN", "SLOWLOG GET 1", "LATENCY LATEST"),
            *("CLUSTER INFO", "CLIENT LIST", "CLIENT SETNAME redis_exporter"),
            *(("LATENCY HISTOGRAM",) if binary.version.major > 6 else ()),
            *(("COMMANDLOG LEN slow",) if can(binary.version, Ability.COMMANDLOG) else ()),
        ):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in (
            *("GET a", "SET a b", "CONFIG SET hz 10", "KEYS *", "FLUSHALL", "SCAN 0"),
            *("LATENCY RESET", "SLOWLOG RESET", "CLIENT KILL 1.2.3.4:5", "MONITOR", "ACL LIST"),
        ):
            assert "NOPERM" in await say(refused), refused


async def test_the_operators_user_has_what_is_on_the_allow_list_and_can_not_flush(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        (await pod.answers()).close()
        say = await talk(pod)
        assert await say("AUTH operator operator-pw") == "b'OK'"
        for allowed in (
            *("CLUSTER FORGET x", "CLUSTER SETSLOT 1 STABLE", "CLUSTER FAILOVER", "WAIT 0 1"),
            *(
                "CLIENT PAUSE 1 WRITE",
                "SCRIPT LOAD return(1)",
                "EVALSHA x 0",
                "EVALSHA_RO x 0",
                "ACL SETUSER x off",
            ),
            *("CONFIG SET hz 10", "CLUSTER ADDSLOTS 99999", "CLUSTER GETKEYSINSLOT x 1"),
        ):
            assert "NOPERM" not in await say(allowed), allowed
        for refused in (
            *("FLUSHALL", "FLUSHDB", "CLUSTER FLUSHSLOTS", "CLUSTER SAVECONFIG", "DEBUG SLEEP 0"),
            *("SET a b", "DEL a", "GET a", "KEYS *", "CONFIG REWRITE", "MONITOR", "SLAVEOF NO ONE"),
            # Redis 6 writes what SCRIPT LOAD loads to disk, so a move's script is run instead.
            *(("EVAL return(1) 0",) if binary.version.major > 6 else ()),
        ):
            answer = await say(refused)
            assert "NOPERM" in answer or "DEBUG command not allowed" in answer, refused


async def test_the_users_have_the_rights_that_moving_slots_needs(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """X-07, CL-09: a right that is missing shows only when slots move for the first time."""
    async with pods(tmp_path, binary, 3, Persistence.AOF) as [source, target, replica]:
        await ask(source, commands.set_config_epoch(1), commands.add_slots(EARLY))
        [target_id, _] = await ask(target, commands.my_id(), commands.set_config_epoch(2))
        await form_shard(target, replica, SlotSet([16383]))
        await ask(source, commands.meet(target.host, 6379, 16379))
        await until(source, commands.cluster_info(), lambda info: info.known_nodes == 3)
        await until(target, commands.cluster_info(), lambda info: info.is_ok)
        await until(source, commands.cluster_info(), lambda info: info.is_ok)
        # A target that has not heard yet whose the slots are refuses to take them.
        await until(target, commands.cluster_info(), lambda info: info.slots_assigned == 16384)
        written = await write(source, 5000, EARLY)
        [source_id] = await ask(source, commands.my_id())
        slots = SlotSet.span(0, 127)
        move = Move(
            source=Side(str(source_id), source.host, 6379, binary.version),
            target=Side(str(target_id), target.host, 6379, binary.version),
            slots=slots,
            username="replication",
            password=PASSWORDS.replication,
        )
        links = [await pod.answers() for pod in (source, target, replica)]
        done = await move_slots(links[0], links[1], move, replicas=[links[2]])
        assert done.slots_moved == slots
        [here, there] = [await link.run(commands.dbsize(), timeout=5) for link in links[:2]]
        assert here + there == written
        assert there > 0
        for link in links:
            link.close()
