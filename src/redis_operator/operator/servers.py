"""Doing actions on servers: each checks again what must hold, acts, and sees that it took effect.

Every function here may be repeated. A `Refused` means that nothing was done; a `RedisError` that
the effect is unknown and the next look will tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from redis_operator.operator.errors import Failed, Refused
from redis_operator.operator.links import Links, Target
from redis_operator.operator.live import LivePods
from redis_operator.planning.actions import (
    AssignSlots,
    At,
    CancelJob,
    CloseSlots,
    ConfigSet,
    Failover,
    FailoverMode,
    Fence,
    Forget,
    InheritSlots,
    Meet,
    Replicate,
    ResetEmptyNode,
    SetConfigEpoch,
    TuneForBootstrap,
)
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, connect
from redis_operator.redis.errors import RedisError, RefusedError, ReplyError
from redis_operator.redis.replies import ClusterNode, PrimaryRole
from redis_operator.redis.versions import Ability, Version, can, parse_version

__all__ = ["BUS_PORT", "PORT", "Servers", "version_of"]

PORT, BUS_PORT = 6379, 16379
_TIMEOUT = 2.0
_PROMOTION_SECONDS = 6.0
_PAUSE_MILLISECONDS = 3000
_MODES = {
    FailoverMode.PLAIN: commands.FailoverMode.COORDINATED,
    FailoverMode.FORCE: commands.FailoverMode.FORCE,
    FailoverMode.TAKEOVER: commands.FailoverMode.TAKEOVER,
}


class Servers:
    """The servers of one database during one pass: how to reach each pod's."""

    def __init__(self, links: Links, targets: Mapping[str, Target], pods: LivePods) -> None:
        self._links = links
        self._targets = targets  # by pod name
        self._pods = pods
        self._reaching: dict[At, asyncio.Task[Connection]] = {}

    async def open(self, pod: str, uid: str) -> Connection:
        """Return a connection to the server of exactly this pod, whoever it says it is."""
        target = self._targets.get(pod)
        if target is None or target.uid != uid:
            raise Refused(f"{pod} is not the pod it was: it was re-created")
        return await self._links.open(target, timeout=_TIMEOUT)

    async def reach(self, at: At) -> Connection:
        """Return a connection to a server whose id was just checked. I11"""
        target = self._targets.get(at.pod)
        if target is not None and target.address.host != at.ip:
            raise Refused(f"{at.pod} is not where it was: it moved to {target.address.host}")
        connection = await self.open(at.pod, at.uid)
        found = await connection.run(commands.my_id(), timeout=_TIMEOUT)
        if found != at.id:
            raise Refused(f"{at.pod} is node {found[:8]} now, not {at.id[:8]}")
        return connection

    async def anew(self, at: At) -> Connection:
        """Open a connection of one's own to a server, for work that takes long. Close it."""
        await self.reach(at)
        target = self._targets[at.pod]
        return await connect(
            target.address, timeout=_TIMEOUT, credentials=target.credentials, tls=target.tls
        )

    async def at_addresses(self, addresses: Iterable[str]) -> list[Connection]:
        """Return connections to those of our servers that are at these addresses and answer."""
        wanted = set(addresses)
        found = []
        for target in self._targets.values():
            if target.address.host in wanted:
                try:
                    found.append(await self._links.open(target, timeout=_TIMEOUT))
                except RedisError:
                    continue  # it will learn from its peers
        return found

    async def meet(self, action: Meet) -> None:
        """Introduce two servers that are both who we think they are."""
        node, _ = await asyncio.gather(self._reach_once(action.node), self._reach_once(action.peer))
        await node.run(commands.meet(action.peer.ip, PORT, BUS_PORT), timeout=_TIMEOUT)

    async def _reach_once(self, at: At) -> Connection:
        """Reach a server together with whoever else is asking who it is in this moment.

        A new database of 30 servers has 435 introductions, all at the same time.
        """
        task = self._reaching.get(at)
        if task is None:
            task = self._reaching[at] = asyncio.create_task(self.reach(at))
            task.add_done_callback(lambda _: self._reaching.pop(at))
        return await asyncio.shield(task)

    async def tune(self, action: TuneForBootstrap) -> None:
        """Shorten timeouts of a server that holds nothing."""
        connection = await self.reach(action.node)
        myself = await _myself(connection)
        if myself.slots or await _keys(connection):
            raise Refused(f"{action.node.pod} holds data by now")
        await _set_config(connection, action.values)

    async def set_epoch(self, action: SetConfigEpoch) -> None:
        """Give a fresh server its own epoch."""
        connection = await self.reach(action.node)
        try:
            await connection.run(commands.set_config_epoch(action.epoch), timeout=_TIMEOUT)
        except ReplyError as error:
            if (await _myself(connection)).config_epoch != action.epoch:
                raise Refused(f"{action.node.pod} has an epoch already: {error}") from error

    async def assign(self, action: AssignSlots) -> None:
        """Give slots that nobody owns to a server. I3"""
        connection = await self.reach(action.node)
        nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
        for node in nodes:
            taken = node.slots & action.slots
            if taken and not node.is_myself:
                raise Refused(f"slots {taken} belong to node {node.id[:8]} by now")
        missing = action.slots - next(n for n in nodes if n.is_myself).slots
        if not missing:
            return
        keys = await _keys(connection)
        if keys > action.expect_keys:
            raise Refused(f"{action.node.pod} holds {keys} keys by now")
        version = await version_of(connection)
        ranged = can(version, Ability.ADDSLOTSRANGE)
        command = commands.add_slots_range(missing) if ranged else commands.add_slots(missing)
        await connection.run(command, timeout=_TIMEOUT)

    async def inherit(self, action: InheritSlots) -> None:
        """Let a promoted replica claim what its dead primary owned, in an epoch of its own. I3"""
        connection = await self.reach(action.node)
        nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
        myself = next(node for node in nodes if node.is_myself)
        if not myself.is_primary:
            raise Refused(f"{action.node.pod} is no primary by now")
        if any(_alive(node, action.dead) for node in nodes):
            raise Refused(f"node {action.dead[:8]} is alive in the eyes of {action.node.pod}")
        # Only a slot that comes from somebody gets its owner a new epoch; from whom is no matter.
        other = next(node.id for node in nodes if node.is_primary and not node.is_myself)
        for slot in action.slots - myself.slots:
            for command in (
                commands.set_slot_importing(slot, other),
                commands.set_slot_node(slot, action.node.id),
            ):
                await connection.run(command, timeout=_TIMEOUT)

    async def replicate(self, action: Replicate) -> None:
        """Make a server copy a primary; it must have nothing of its own. I1"""
        connection = await self.reach(action.node)
        await self.reach(action.primary)
        myself = await _myself(connection)
        if myself.primary == action.primary.id:
            return
        if myself.slots:
            raise Refused(f"{action.node.pod} owns slots {myself.slots} by now")
        if myself.is_primary and (keys := await _keys(connection)):
            raise Refused(f"{action.node.pod} holds {keys} keys that no other server may have")
        if myself.is_replica and myself.primary != action.expect_primary:
            raise Refused(f"{action.node.pod} follows another primary by now")
        await _until_known(connection, commands.replicate(action.primary.id), action.node.pod)

    async def forget(self, action: Forget) -> None:
        """Have one server forget an id that owns nothing but what was given up. I3, I11"""
        connection = await self.reach(action.node)
        nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
        view = next((node for node in nodes if node.id == action.id), None)
        if view is None:
            return
        myself = next(node for node in nodes if node.is_myself)
        if owned := view.slots - action.expect_slots:
            raise Refused(f"{action.node.pod} says node {action.id[:8]} owns slots {owned}")
        if myself.primary == action.id:
            raise Refused(f"{action.node.pod} follows node {action.id[:8]}")
        await connection.run(commands.forget(action.id), timeout=_TIMEOUT)

    async def close_slots(self, action: CloseSlots) -> None:
        """End moves that lead nowhere."""
        connection = await self.reach(action.node)
        answers = await connection.run_all(
            [commands.set_slot_stable(slot) for slot in action.slots], timeout=_TIMEOUT
        )
        _raise_first(answers)

    async def cancel_job(self, action: CancelJob) -> None:
        """Cancel the atomic slot migrations of a server."""
        connection = await self.reach(action.node)
        version = await version_of(connection)
        if can(version, Ability.MIGRATESLOTS):
            await connection.run(commands.cancel_slot_migrations(), timeout=_TIMEOUT)
        else:
            await connection.run(commands.cancel_migration(), timeout=_TIMEOUT)

    async def configure(self, action: ConfigSet) -> None:
        """Set directives, in order."""
        connection = await self.reach(action.node)
        for name, value in action.values:
            try:
                await connection.run(commands.config_set({name: value}), timeout=_TIMEOUT)
            except ReplyError as error:
                raise Failed(
                    f"{action.node.pod} refuses {name} {value!r} of spec.config: {error}"
                ) from error

    async def reset_empty(self, action: ResetEmptyNode) -> None:
        """Give a server that holds no key a new identity. I1, I3"""
        connection = await self.reach(action.node)
        if keys := await _keys(connection):
            raise Refused(f"{action.node.pod} holds {keys} keys by now")
        await connection.run(commands.reset_hard(), timeout=_TIMEOUT)

    # Promotion

    async def fail_over(self, action: Failover) -> None:
        """Promote a replica: fence checked again, asked, and seen to be done. I6, I7, CL-22"""
        connection = await self.reach(action.node)
        myself = await _myself(connection)
        if myself.is_primary:
            return
        if myself.primary != action.primary:
            raise Refused(f"{action.node.pod} follows another primary by now")
        found = await connection.run(commands.info_replication(), timeout=_TIMEOUT)
        if found.offset < action.min_offset:
            raise Refused(f"{action.node.pod} is at {found.offset}, before {action.min_offset}")
        await self._check_fence(action)
        try:
            await connection.run(commands.failover(_MODES[action.mode]), timeout=_TIMEOUT)
        except ReplyError:
            if (await _myself(connection)).is_primary:
                return  # somebody else asked as well, and was faster. CL-23
            raise
        await _promoted(connection, action.node.pod)

    async def _check_fence(self, action: Failover) -> None:
        match action.fence:
            case Fence.HANDSHAKE:
                return
            case Fence.PROCESS_GONE:
                await _must_refuse(action.primary_pod, self._targets.get(action.primary_pod))
            case Fence.CONTAINER_ENDED:
                await self._must_have_ended(action)
            case Fence.POD_GONE:
                await self._must_be_absent(action.unseen)
            case Fence.EMPTY_AND_PAUSED:
                await self._pause_empty(action)

    async def _must_have_ended(self, action: Failover) -> None:
        """Read the pod of a primary from the API: it may run again, here or at another address."""
        pod = action.primary_pod
        live = await self._pods.read(pod)
        if live is None:
            return  # deleted since: its process has ended with it
        if live.uid != action.primary_uid:
            raise Refused(f"pod {pod} was re-created meanwhile: its server may be running again")
        if live.ip:
            await _must_refuse(pod, Target(live.uid, Address(live.ip, PORT)))

    async def _must_be_absent(self, pods: tuple[str, ...]) -> None:
        """Read pods from the API that were not observed: one that exists may be the primary. K-27

        The caches hold what carries our label, and may be late; a read by name sees every pod.
        """
        for pod, live in zip(
            pods, await asyncio.gather(*(self._pods.read(pod) for pod in pods)), strict=True
        ):
            if live is not None:
                raise Refused(f"pod {pod} exists and was not observed: it may be the primary")

    async def _pause_empty(self, action: Failover) -> None:
        """Pause the writes of a primary that restarted empty, bounded by the server itself. I10"""
        target = self._targets.get(action.primary_pod)
        if target is None:
            return
        connection = await self._links.open(target, timeout=_TIMEOUT)
        found = await connection.run(commands.my_id(), timeout=_TIMEOUT)
        if found != action.primary:
            raise Refused(f"{action.primary_pod} is another node by now")
        pause = commands.client_pause_writes(_PAUSE_MILLISECONDS)
        await connection.run(pause, timeout=_TIMEOUT)
        if keys := await _keys(connection):
            await connection.run(commands.client_unpause(), timeout=_TIMEOUT)
            raise Refused(f"{action.primary_pod} holds {keys} keys: it is not empty")


async def _must_refuse(pod: str, target: Target | None) -> None:
    """See that no process listens at the address of a pod."""
    if target is None:
        raise Refused(f"pod {pod} is gone from the cache: its server may be alive elsewhere")
    try:
        connection = await connect(
            target.address, timeout=_TIMEOUT, credentials=target.credentials, tls=target.tls
        )
    except RefusedError:
        return
    except RedisError as error:
        raise Refused(f"{pod} may be alive: {error}") from error
    connection.close()
    raise Refused(f"{pod} answers again")


async def _promoted(connection: Connection, pod: str) -> None:
    """Wait until a server says that it is a primary. OK to the request meant only `started`."""
    pause = 0.002
    deadline = asyncio.timeout(_PROMOTION_SECONDS)
    try:
        async with deadline:
            while True:
                role = await connection.run(commands.role(), timeout=_TIMEOUT)
                if isinstance(role, PrimaryRole):
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.05)
    except TimeoutError:
        if not deadline.expired():
            raise
    raise Failed(f"{pod} was asked to take over and did not within {_PROMOTION_SECONDS:g} s")


async def _until_known(connection: Connection, command: Command[None], pod: str) -> None:
    """Repeat a command that fails while two servers are still shaking hands."""
    last: ReplyError | None = None
    for _ in range(100):
        try:
            return await connection.run(command, timeout=_TIMEOUT)
        except ReplyError as error:
            if "unknown node" not in error.message.lower():
                raise
            last = error
            await asyncio.sleep(0.01)
    raise Refused(f"{pod} does not know its primary yet: {last}")


async def _myself(connection: Connection) -> ClusterNode:
    nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
    return next(node for node in nodes if node.is_myself)


def _alive(node: ClusterNode, wanted: str) -> bool:
    """Whether a line of a server's book shows this node linked and well."""
    return node.id == wanted and node.link_connected and not (node.is_failed or node.is_suspected)


async def _keys(connection: Connection) -> int:
    return await connection.run(commands.dbsize(), timeout=_TIMEOUT)


async def version_of(connection: Connection) -> Version:
    """Ask a server which engine and version it is."""
    info = await connection.run(commands.info(), timeout=_TIMEOUT)
    version = parse_version(info.server.engine, info.server.version)
    if version is None:
        raise Failed(f"{connection.address} runs {info.server.version}, which is no version")
    return version


async def _set_config(connection: Connection, values: tuple[tuple[str, str], ...]) -> None:
    answers = await connection.run_all(
        [commands.config_set({name: value}) for name, value in values], timeout=_TIMEOUT
    )
    _raise_first(answers)


def _raise_first(answers: list[Any]) -> None:
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
