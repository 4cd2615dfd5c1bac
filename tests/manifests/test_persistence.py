"""How data are kept is changed, and the server ends at a bad moment: it comes back with its data.

CL-33. Real servers; each moment of the change is made by hand, as the operator makes it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from manifests.pods import Pod, ask, pods, printed, until, write
from redis_operator.api.redis import Persistence
from redis_operator.redis import commands
from redis_operator.redis.slots import ALL_SLOTS
from redis_testing.servers import EngineBinary

AOF, RDB, BOTH, NONE = Persistence.AOF, Persistence.RDB, Persistence.BOTH, Persistence.NONE
KEYS = 100


async def owner(pod: Pod, keys: int = KEYS) -> str:
    """Make it the owner of all slots with so many keys; return its id."""
    [me, _] = await ask(pod, commands.my_id(), commands.add_slots(ALL_SLOTS))
    await until(pod, commands.cluster_info(), lambda info: info.is_ok)
    await write(pod, keys)
    return str(me)


async def comes_back(pod: Pod, me: str, keys: int = KEYS) -> None:
    [after, size] = await ask(pod, commands.my_id(), commands.dbsize())
    assert (after, size) == (me, keys), pod.log()
    await until(pod, commands.cluster_info(), lambda info: info.is_ok)


async def turn_on(pod: Pod, **also: str) -> None:
    values = {name.replace("_", "-"): value for name, value in also.items()}
    for name, value in (values | {"appendonly": "yes"}).items():
        await ask(pod, commands.config_set({name: value}))


async def written(pod: Pod) -> None:
    await until(
        pod,
        commands.info(),
        lambda info: (
            info.persistence.aof_enabled
            and not info.persistence.aof_rewrite_running
            and not info.persistence.aof_rewrite_scheduled
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AOF, BOTH], ids=lambda k: k.value)
async def test_snapshots_are_loaded_although_there_is_no_append_only_file_yet(
    tmp_path: Path, binary: EngineBinary, kind: Persistence
) -> None:
    async with pods(tmp_path, binary, 1, RDB) as [pod]:
        me = await owner(pod)
        pod.end(kill=False)
        pod.change(kind)
        pod.start()
        await comes_back(pod, me)
        await turn_on(pod)
        await written(pod)
        await write(pod, 2 * KEYS)
        pod.end(kill=False)
        pod.start()
        await comes_back(pod, me, 2 * KEYS)


@pytest.mark.slow
async def test_the_append_only_file_is_loaded_until_the_first_snapshot(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, AOF) as [pod]:
        me = await owner(pod)
        await ask(pod, commands.config_set({"appendonly": "no"}))
        pod.end(kill=True)
        pod.change(RDB)
        pod.start()
        await comes_back(pod, me)
        pod.end(kill=True)
        pod.start()
        await comes_back(pod, me)


@pytest.mark.slow
async def test_whichever_file_is_newer_is_loaded(tmp_path: Path, binary: EngineBinary) -> None:
    async with pods(tmp_path, binary, 1, RDB) as [pod]:
        me = await owner(pod, 10)
        pod.end(kill=False)
        pod.start()
        await comes_back(pod, me, 10)
        await turn_on(pod)
        await written(pod)
        await write(pod, KEYS)
        pod.end(kill=True)  # the snapshot has 10 keys, the append-only file all of them
        pod.start()
        await comes_back(pod, me)
        await ask(pod, commands.config_set({"appendonly": "no"}))
        await write(pod, 2 * KEYS)
        pod.end(kill=False)  # now the snapshot has all of them
        pod.start()
        await comes_back(pod, me, 2 * KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("next_start", [RDB, AOF], ids=lambda k: f"then-{k.value}")
async def test_a_kill_while_the_first_append_only_file_is_written(
    tmp_path: Path, binary: EngineBinary, next_start: Persistence
) -> None:
    async with pods(tmp_path, binary, 1, RDB) as [pod]:
        me = await owner(pod)
        pod.end(kill=False)
        pod.start()
        await turn_on(pod, rdb_key_save_delay="1000000")
        pod.end(kill=True)
        pod.change(next_start)
        pod.start()
        await comes_back(pod, me)


@pytest.mark.slow
async def test_an_old_append_only_file_is_not_loaded_over_a_newer_snapshot(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """On, off, on again: the second time it was not written to its end."""
    async with pods(tmp_path, binary, 1, AOF) as [pod]:
        me = await owner(pod, 10)
        pod.end(kill=False)
        pod.change(RDB)
        pod.start()
        await comes_back(pod, me, 10)
        await ask(pod, commands.config_set({"appendonly": "no"}))
        await write(pod, KEYS)
        pod.end(kill=False)
        pod.start()
        await comes_back(pod, me)
        await turn_on(pod, rdb_key_save_delay="1000000")
        pod.end(kill=True)
        pod.change(AOF)
        pod.start()
        await comes_back(pod, me)


@pytest.mark.slow
async def test_a_stop_waits_for_the_first_append_only_file(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """A server that is told to end while it writes the first one forgets that it was told."""
    async with pods(tmp_path, binary, 1, RDB) as [pod]:
        me = await owner(pod)
        await turn_on(pod, rdb_key_save_delay="10000")
        await write(pod, 2 * KEYS)
        await pod.stop_hook()
        pod.end(kill=False)
        pod.change(AOF)
        pod.start()
        await comes_back(pod, me, 2 * KEYS)


async def test_an_empty_database_keeps_its_identity(tmp_path: Path, binary: EngineBinary) -> None:
    async with pods(tmp_path, binary, 1, AOF) as [pod]:
        me = await owner(pod, 0)
        pod.end(kill=True)
        pod.start()
        await comes_back(pod, me, 0)


async def test_a_primary_with_neither_file_is_not_itself_any_more(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, RDB) as [pod]:
        me = await owner(pod)
        pod.end(kill=True)  # before the first snapshot
        pod.start()
        [after, size] = await ask(pod, commands.my_id(), commands.dbsize())
        assert after != me
        assert size == 0
        await printed(pod.directory / "log", "data of this primary is gone")
