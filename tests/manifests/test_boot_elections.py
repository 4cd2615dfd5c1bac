"""Servers that were killed together and start again: who has the newest data leads.

A snapshot is older than what a server that lives has in memory; of several snapshots of one
history the one with the highest offset is the newest; and a replica that follows somebody else by
now has no say. Real servers, and the boot script in a real shell.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from manifests.pods import Pod, ask, form_shard, pods, printed, serving_shard, until, write
from manifests.test_scripts import saved
from redis_operator.api.redis import Persistence
from redis_operator.redis import commands
from redis_operator.redis.replies import ClusterNode, PrimaryRole, ReplicaRole, Role
from redis_operator.redis.slots import SlotSet
from redis_testing.servers import EngineBinary

pytestmark = pytest.mark.servers
SHARES = [SlotSet.parse(text) for text in ("0-5460", "5461-10922", "10923-16383")]
MINE = SHARES[0]


def leads(role: Role) -> bool:
    return isinstance(role, PrimaryRole)


def follows(role: Role) -> bool:
    return isinstance(role, ReplicaRole) and role.link_up


@asynccontextmanager
async def shard(directory: Path, binary: EngineBinary) -> AsyncIterator[tuple[Pod, Pod, Pod]]:
    """A primary with snapshots and two replicas, in the order in which it knows them.

    The primary has the smallest id: of two with the same epoch, it takes another one.
    """
    async with pods(directory, binary, 5, Persistence.RDB) as made:
        ids = [(await ask(pod, commands.my_id()))[0] for pod in made]
        [primary, one, two, *voters] = sorted(made, key=lambda pod: ids[made.index(pod)])
        for voter, share in zip(voters, SHARES[1:], strict=True):
            await ask(voter, commands.add_slots(share), commands.meet(primary.host, 6379, 16379))
        await form_shard(primary, one, MINE)
        await form_shard(primary, two, SlotSet())
        for pod in (primary, one, two, *voters):
            await until(pod, commands.cluster_info(), lambda info: info.is_ok)
            await until(pod, commands.cluster_nodes(), _agree)
        conf = primary.data / "nodes.conf"
        for replica in (one, two):
            await printed(conf, f"{replica.host}:6379")
        await until(primary, commands.info_replication(), lambda info: len(info.replicas) == 2)
        await write(primary, 100, MINE)
        await saved(primary)
        text = conf.read_text()
        first, second = sorted((one, two), key=lambda pod: text.index(f"{pod.host}:6379"))
        for pod in (primary, one, two):
            pod.failover_seconds = 600
        yield primary, first, second


def _agree(nodes: tuple[ClusterNode, ...]) -> bool:
    """All know each other, and who votes has an epoch of its own: else nobody is elected."""
    epochs = {node.config_epoch for node in nodes if node.slots}
    replicas = sum(node.is_replica for node in nodes)
    linked = all(node.link_connected and not node.is_in_handshake for node in nodes)
    return len(nodes) == 5 and replicas == 2 and len(epochs) == 3 and linked


async def copied(pod: Pod, count: int) -> None:
    await until(pod, commands.dbsize(), lambda size: size == count)


@pytest.mark.slow
async def test_a_replica_that_does_not_listen_yet_is_asked_again(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with pods(tmp_path, binary, 2, Persistence.AOF) as [primary, replica]:
        await serving_shard(primary, replica)
        written = await write(primary, 100)
        primary.failover_seconds = replica.failover_seconds = 600
        primary.end(kill=True)
        replica.end(kill=True)
        (primary.directory / "slept").touch()
        primary.start()
        await printed(primary.directory / "slept", "1\n1\n1\n")
        replica.start()
        await copied(primary, written)


@pytest.mark.slow
async def test_a_replica_that_lives_leads_and_not_the_newer_of_two_snapshots(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with shard(tmp_path, binary) as (primary, killed, alive):
        await copied(killed, await write(primary, 500, MINE))
        await saved(killed)
        written = await write(primary, 3000, MINE)
        await copied(alive, written)
        primary.end(kill=True)
        killed.end(kill=True)
        killed.start()
        primary.start()
        await until(alive, commands.role(), leads)
        for pod in (primary, killed):
            await until(pod, commands.role(), follows)
        await copied(alive, written)


@pytest.mark.slow
async def test_of_two_replicas_that_were_killed_the_one_with_the_newest_snapshot_leads(
    tmp_path: Path, binary: EngineBinary
) -> None:
    async with shard(tmp_path, binary) as (primary, older, newest):
        await copied(older, await write(primary, 500, MINE))
        await saved(older)
        written = await write(primary, 3000, MINE)
        await copied(newest, written)
        await saved(newest)
        for pod in (primary, older, newest):
            pod.end(kill=True)
        for pod in (older, newest, primary):
            pod.start()
        await until(newest, commands.role(), leads)
        for pod in (primary, older):
            await until(pod, commands.role(), follows)
            await copied(pod, written)


@pytest.mark.slow
async def test_a_replica_that_follows_another_by_now_is_not_asked_to_lead(
    tmp_path: Path, binary: EngineBinary
) -> None:
    """A primary that was away does not know who leads by now; its former replica does."""
    async with shard(tmp_path, binary) as (primary, other, chosen):
        await copied(other, await write(primary, 500, MINE))
        await saved(other)
        await copied(chosen, await write(primary, 500, MINE))
        primary.end(kill=True)
        await ask(chosen, commands.failover(commands.FailoverOption.FORCE))
        await until(chosen, commands.role(), leads)
        await until(other, commands.role(), follows)
        written = await write(chosen, 3000, MINE)
        await saved(chosen)
        [node] = await ask(chosen, commands.my_id())
        await printed(other.data / "nodes.conf", f"myself,slave {node}")
        other.end(kill=True)
        chosen.end(kill=True)
        chosen.failover_seconds = 5
        other.start()
        (await other.answers()).close()
        chosen.start()
        primary.start()
        await until(chosen, commands.role(), leads)
        for pod in (primary, other):
            await until(pod, commands.role(), follows)
            await copied(pod, written)


@pytest.mark.slow
@pytest.mark.parametrize("its", ["the leader's", "a higher one", "that of another shard"])
async def test_a_primary_whose_epoch_collides_does_not_take_its_slots_back(
    tmp_path: Path, binary: EngineBinary, its: str
) -> None:
    """Its epoch met another's, it took a new one, and ended before anybody heard of it.

    Nobody who voted for its replica knew that epoch, so the replica leads with one that is not
    above it. Or it ended before it took one: it would take the next one when it starts, and that is
    above the replica's.
    """
    async with shard(tmp_path, binary) as (primary, one, two):
        primary.end(kill=True)
        await ask(one, commands.failover(commands.FailoverOption.FORCE))
        await until(one, commands.role(), leads)
        await until(two, commands.role(), follows)
        written = await write(one, 3000, MINE)
        [nodes] = await ask(one, commands.cluster_nodes())
        epochs = sorted(node.config_epoch for node in nodes if node.slots)
        epoch = {"the leader's": epochs[-1], "a higher one": epochs[-1] + 1}.get(its, epochs[0])
        conf = primary.data / "nodes.conf"
        before = _with_epoch(conf.read_text(), epoch)
        conf.write_text(before)
        primary.start()
        await until(primary, commands.role(), follows)
        await copied(primary, written)
        [role] = await ask(one, commands.role())
        assert isinstance(role, PrimaryRole)
        await copied(one, written)
        kept = (primary.data / "nodes.conf.before").read_text()
        assert kept == before


def _with_epoch(text: str, epoch: int) -> str:
    """What nodes.conf would say if the server had taken an epoch right before its end."""
    lines = []
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == "vars":
            words[2] = str(epoch)
        elif "myself" in words[2]:
            words[6] = str(epoch)
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"
