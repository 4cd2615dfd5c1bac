"""The scripts of the pod, run by a real shell around real servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from manifests.pods import (
    SHELL,
    Pod,
    ask,
    form_shard,
    pods,
    printed,
    serving_shard,
    until,
    write,
)
from redis_operator.api.redis import Mode, Persistence, RedisSpec
from redis_operator.manifests.cluster_scripts import BOOT
from redis_operator.manifests.config import boot_settings
from redis_operator.redis import commands
from redis_operator.redis.replies import PrimaryRole
from redis_operator.redis.slots import ALL_SLOTS, SlotSet
from redis_testing.servers import EngineBinary


async def test_a_server_starts_with_its_users_and_its_address(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [who, nodes] = await ask(pod, commands.acl_whoami(), commands.cluster_nodes())
        assert who == "operator"
        assert [node.ip for node in nodes] == [pod.host]  # type: ignore[attr-defined]
        assert (pod.data / "identity").read_text() == "uid-1 db-0-0\n"
        assert "-pw" not in pod.public()


async def test_a_server_starts_with_the_settings_its_pod_was_made_with(
    tmp_path: Path, binary: EngineBinary
) -> None:
    config = {"tcp-backlog": "300", "syslog-ident": 'a "word" or $(two)'}
    spec = RedisSpec(mode=Mode.CLUSTER, shards=3, config=config)
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        pod.end(kill=False)
        pod.settings = boot_settings(spec, binary.version)
        pod.start()
        for name, value in config.items():
            assert await ask(pod, commands.config_get(name)) == [{name: value}]


@pytest.mark.parametrize("kind", [Persistence.AOF, Persistence.RDB], ids=lambda k: k.value)
async def test_a_server_that_was_stopped_comes_back_as_itself(
    tmp_path: Path, binary: EngineBinary, kind: Persistence
) -> None:
    async with pods(tmp_path, binary, 1, kind) as [pod]:
        [before, _] = await ask(pod, commands.my_id(), commands.add_slots(ALL_SLOTS))
        await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        await write(pod, 100)
        pod.end(kill=False)
        assert not (pod.data / "server.pid").exists()
        pod.start()
        [after, size] = await ask(pod, commands.my_id(), commands.dbsize())
        assert after == before
        assert size == 100


async def test_a_primary_without_its_data_starts_as_somebody_new(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [before, _] = await ask(pod, commands.my_id(), commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        shutil.rmtree(pod.data / "appendonlydir", ignore_errors=True)
        (pod.data / "appendonly.aof").unlink(missing_ok=True)
        pod.start()
        [after, nodes] = await ask(pod, commands.my_id(), commands.cluster_nodes())
        assert after != before
        assert not nodes[0].slots  # type: ignore[index]
        assert "data of this primary is gone" in pod.log()


async def test_a_primary_in_memory_does_not_start_while_a_replica_would_copy_nothing_from_it(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """A replica follows an address, whoever listens there: a new node would empty it.

    Alone it cannot be elected. When it leads, the old primary starts as somebody new.
    """
    async with pods(tmp_path, binary, 2, Persistence.NONE) as [primary, replica]:
        primary.failover_seconds = 1
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await write(primary, 100)
        await until(replica, commands.dbsize(), lambda size: size == 100)
        [before] = await ask(primary, commands.my_id())
        primary.end(kill=True)
        primary.start()
        await printed(primary.directory / "log", "a replica has the data")
        assert await ask(replica, commands.dbsize()) == [100]
        await ask(replica, commands.failover(commands.FailoverOption.TAKEOVER))
        [after] = await ask(primary, commands.my_id())
        assert after != before
        assert await ask(replica, commands.dbsize()) == [100]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
async def test_a_primary_in_memory_waits_for_no_replica_at_a_new_address(
    tmp_path: Path, binary: EngineBinary, kill: bool
) -> None:
    """CL-31: as after a reboot. It starts as a new node, from which no replica copies."""
    async with pods(tmp_path, binary, 2, Persistence.NONE) as [primary, replica]:
        primary.failover_seconds = 60
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await write(primary, 100)
        await until(replica, commands.dbsize(), lambda size: size == 100)
        [before] = await ask(primary, commands.my_id())
        primary.end(kill=kill)
        primary.move()
        primary.start()
        [after] = await ask(primary, commands.my_id())
        assert after != before
        assert "to take over" not in primary.log()
        assert await ask(replica, commands.dbsize()) == [100]


async def test_a_stale_file_is_not_the_data_of_a_database_in_memory(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.NONE) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        (pod.data / "dump.rdb").write_bytes(b"old")
        pod.start()
        [nodes] = await ask(pod, commands.cluster_nodes())
        assert not nodes[0].slots  # type: ignore[index]
        assert not (pod.data / "dump.rdb").exists()


async def test_the_name_on_a_volume_is_written_once(tmp_path: Path, binary: EngineBinary) -> None:
    """Written again at every start, a full disk or a power cut would leave none."""
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [before] = await ask(pod, commands.my_id())
        first = (pod.data / "identity").stat()
        pod.end(kill=False)
        pod.start()
        [after] = await ask(pod, commands.my_id())
        assert after == before
        second = (pod.data / "identity").stat()
        assert (first.st_ino, first.st_mtime_ns) == (second.st_ino, second.st_mtime_ns)


async def test_a_volume_of_another_server_does_not_lend_its_identity(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        [before] = await ask(pod, commands.my_id())
        pod.end(kill=False)
        pod.name = "db-1-0"
        pod.start()
        [after] = await ask(pod, commands.my_id())
        assert after != before
        pod.end(kill=False)
        pod.identity = "uid-2"
        pod.start()
        [last] = await ask(pod, commands.my_id())
        assert last != after


async def test_a_killed_primary_lets_its_replica_go_first(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await serving_shard(primary, replica)
        primary.end(kill=True)
        primary.failover_seconds = 1
        primary.start()
        (await primary.answers()).close()
        assert primary.log().count("1 s to take over") == 1
        waited = primary.slept()
        assert waited >= 1
        primary.end(kill=False)
        primary.start()
        (await primary.answers()).close()
        assert primary.slept() == waited, "a clean end needs no grace"
        assert primary.log().count("to take over") == 1


async def test_a_killed_primary_waits_no_longer_than_until_its_replica_leads(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.NONE) as [primary, replica]:
        await serving_shard(primary, replica)
        primary.end(kill=True)
        primary.failover_seconds = 600
        primary.start()
        await printed(primary.directory / "log", "600 s to take over")
        await ask(replica, commands.failover(commands.FailoverOption.TAKEOVER))
        (await primary.answers()).close()


@pytest.mark.parametrize("kind", [Persistence.AOF, Persistence.NONE], ids=lambda k: k.value)
async def test_primaries_do_not_wait_for_replicas_that_were_killed_with_them(
    tmp_path: Path, binary: EngineBinary, kind: Persistence
) -> None:
    """A replica that restarted and had no link since is never elected: waiting for it is vain."""
    async with pods(tmp_path, binary, 2, kind) as [primary, replica]:
        await serving_shard(primary, replica)
        written = await write(primary, 100)
        primary.failover_seconds = replica.failover_seconds = 600
        primary.end(kill=True)
        replica.end(kill=True)
        primary.start()
        await printed(primary.directory / "log", "600 s to take over")
        replica.start()
        [size] = await ask(primary, commands.dbsize())
        assert size == (written if kind is Persistence.AOF else 0)


async def saved(pod: Pod) -> None:
    """Let a server write a snapshot, and wait for it."""
    await ask(pod, commands.bgsave())
    await until(
        pod,
        commands.info(),
        lambda info: (pod.data / "dump.rdb").exists() and not info.persistence.bgsave_running,
    )


async def test_a_primary_whose_snapshot_is_the_newest_starts_at_once(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """Both servers of a shard are killed: the replica has nothing that the primary lacks."""
    async with pods(tmp_path, binary, 2, Persistence.RDB) as [primary, replica]:
        await serving_shard(primary, replica)
        await write(primary, 100)
        await saved(replica)
        written = await write(primary, 2000)
        await saved(primary)
        primary.failover_seconds = replica.failover_seconds = 600
        primary.end(kill=True)
        replica.end(kill=True)
        primary.start()
        await printed(primary.directory / "log", "600 s to take over")
        replica.start()
        [size] = await ask(primary, commands.dbsize())
        assert size == written


async def test_a_replica_whose_snapshot_is_the_newest_leads(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """What the primary would start with is older: it becomes a replica of its replica."""
    shares = [SlotSet.parse(text) for text in ("0-5460", "5461-10922", "10923-16383")]
    async with pods(tmp_path, binary, 4, Persistence.RDB) as [primary, replica, *voters]:
        for voter, share in zip(voters, shares[1:], strict=True):
            await ask(voter, commands.add_slots(share), commands.meet(primary.host, 6379, 16379))
        await form_shard(primary, replica, shares[0])
        for pod in (primary, replica, *voters):
            await until(pod, commands.cluster_info(), lambda info: info.is_ok)
        await printed(primary.data / "nodes.conf", " slave ")
        await write(primary, 100, shares[0])
        await saved(primary)
        written = await write(primary, 2000, shares[0])
        await until(replica, commands.dbsize(), lambda size: size == written)
        await saved(replica)
        primary.failover_seconds = replica.failover_seconds = 600
        primary.end(kill=True)
        replica.end(kill=True)
        primary.start()
        await printed(primary.directory / "log", "600 s to take over")
        replica.start()
        await until(replica, commands.role(), lambda role: isinstance(role, PrimaryRole))
        await until(primary, commands.dbsize(), lambda size: size == written)
        [role] = await ask(primary, commands.role())
        assert not isinstance(role, PrimaryRole)


async def test_a_primary_with_a_snapshot_of_another_history_leaves_the_replica_its_time(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """Which of the two is newer is not known: the replica may be promoted by hand."""
    async with pods(tmp_path, binary, 2, Persistence.RDB) as [primary, replica]:
        await serving_shard(primary, replica)
        await saved(primary)
        snapshot = (primary.data / "dump.rdb").read_bytes()
        start = snapshot.index(b"repl-id") + len(b"repl-id") + 1
        other = snapshot[:start] + b"f" * 40 + snapshot[start + 40 :]
        primary.failover_seconds = 4
        primary.end(kill=True)
        replica.end(kill=True)
        (primary.data / "dump.rdb").write_bytes(other)
        replica.start()
        (await replica.answers()).close()
        primary.start()
        await printed(primary.directory / "log", "4 s to take over")
        await printed(primary.directory / "log", "no replica has taken over within 4 s")


async def test_waiting_for_the_replica_ends_when_the_pod_is_deleted(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 1, Persistence.AOF) as [pod]:
        await ask(pod, commands.add_slots(ALL_SLOTS))
        pod.end(kill=True)
        me = (pod.data / "nodes.conf").read_text().split()[0]
        line = f"{'b' * 40} 127.0.0.9:6379@16379 slave {me} 0 0 1 connected\n"
        text = (pod.data / "nodes.conf").read_text()
        (pod.data / "nodes.conf").write_text(line + text)
        pod.failover_seconds = 600
        pod.start()
        await printed(pod.directory / "log", "to take over")
        pod.end(kill=False)  # fails when that takes long


@pytest.mark.parametrize("client", ["with-client", "with-bash"])
async def test_ready_means_that_the_cluster_serves_and_the_copy_is_complete(
    tmp_path: Path, binary: EngineBinary, client: str
) -> None:
    path = None
    if client == "with-bash":
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("bash", "cat"):
            (tools / name).symlink_to(shutil.which(name) or "")
        path = str(tools)
    elif not shutil.which("redis-cli") and not shutil.which("valkey-cli"):
        pytest.skip("no command line client here")
    async with pods(tmp_path / "pods", binary, 2, Persistence.AOF) as [primary, replica]:
        await ask(primary, commands.ping())
        assert not primary.is_ready(path), "a server without slots serves nothing"
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await until(replica, commands.cluster_info(), lambda info: info.is_ok)
        assert primary.is_ready(path)
        assert replica.is_ready(path)
        primary.end(kill=True)
        assert not primary.is_ready(path)
        await until(replica, commands.info_replication(), lambda found: not found.link_up)
        assert not replica.is_ready(path), "a replica without its primary falls behind"


async def test_a_primary_that_is_let_go_hands_over_first_also_while_the_operator_is_away(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await form_shard(primary, replica)
        await until(primary, commands.cluster_info(), lambda info: info.is_ok)
        await until(primary, commands.info_replication(), lambda found: bool(found.replicas))
        assert await replica.stop_hook() == 0, "it has nothing to hand over"
        written = await write(primary, 100)
        assert await primary.stop_hook() >= 1, "the operator has its time"
        [role] = await ask(replica, commands.role())
        assert isinstance(role, PrimaryRole)
        [keys] = await ask(replica, commands.dbsize())
        assert keys == written
        assert await primary.stop_hook() == 0, "it leads nobody any more"


def test_a_pod_that_is_told_to_stop_while_it_boots_stops(tmp_path: Path) -> None:
    """As the first process of a container, where nothing stops a process that does not listen."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this machine gives no process namespace of our own")
    programs = tmp_path / "bin"
    programs.mkdir()
    cat = programs / "cat"
    cat.write_text("#!/bin/sh\nkill -TERM 1\n")  # told to stop right here
    cat.chmod(0o755)
    (tmp_path / "nodes.conf").touch()
    (tmp_path / "boot.sh").write_text(BOOT)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        **dict.fromkeys(("DATA", "CONFIG", "USERS"), str(tmp_path)),
        **dict.fromkeys(("IDENTITY", "POD_NAME", "POD_IP", "CONFIG_FILE", "ACL_FILE"), "any"),
        "PERSISTENCE": "none",
        "SERVER": "echo",
    }
    done = subprocess.run(
        [*alone, SHELL, str(tmp_path / "boot.sh")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
