"""Actions on servers: the live facts right before, the effect, and whether it took effect.

Every function here may be repeated. A `Refused` means that nothing was done; a `RedisError` means
that the effect is unknown and the next observation will show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from redis_operator.operator.effects import Effect, Effects, require
from redis_operator.operator.errors import Failed, Refused
from redis_operator.operator.live import LivePods
from redis_operator.operator.servers.cluster_dialect import CLUSTER
from redis_operator.operator.servers.dialect import Dialect
from redis_operator.operator.servers.links import Links, Target
from redis_operator.planning.actions import ConfigSet
from redis_operator.planning.at import At
from redis_operator.planning.cluster.actions import (
    AssignSlots,
    CancelJob,
    CloseSlots,
    Failover,
    FailoverMode,
    Forget,
    InheritSlots,
    Meet,
    RaiseEpoch,
    Replicate,
    ResetEmptyNode,
    SetConfigEpoch,
    TuneForBootstrap,
    UnassignSlots,
)
from redis_operator.planning.failover.actions import Promote
from redis_operator.planning.fence import Fence
from redis_operator.planning.identity import Role
from redis_operator.planning.preconditions import (
    ActionFacts,
    FenceFacts,
    PodFacts,
    PortState,
    ServerFacts,
    fence_limitation,
    identity_limitation,
)
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Address, Connection, connect
from redis_operator.redis.errors import RedisError, RefusedError, ReplyError
from redis_operator.redis.replies import PrimaryRole
from redis_operator.redis.versions import Ability, Version, can, parse_version

__all__ = ["BUS_PORT", "PORT", "Servers", "version_of"]

PORT, BUS_PORT = 6379, 16379
_TIMEOUT = 2.0
_PROMOTION_SECONDS = 6.0
_ENDED_SECONDS = 0.5  # an election that was in progress when the primary ended may still succeed
_PAUSE_MILLISECONDS = 3000
_MODES = {
    FailoverMode.PLAIN: commands.FailoverOption.COORDINATED,
    FailoverMode.FORCE: commands.FailoverOption.FORCE,
    FailoverMode.TAKEOVER: commands.FailoverOption.TAKEOVER,
}
_OnServer: TypeAlias = (
    TuneForBootstrap
    | RaiseEpoch
    | AssignSlots
    | UnassignSlots
    | InheritSlots
    | Replicate
    | Forget
    | ResetEmptyNode
    | Failover
)


class Servers:
    """The servers of one database during one pass, by pod."""

    def __init__(
        self,
        links: Links,
        targets: Mapping[str, Target],
        pods: LivePods,
        dialect: Dialect = CLUSTER,
    ) -> None:
        self._links = links
        self._targets = targets  # by pod name
        self._pods = pods
        self.dialect = dialect
        self._reaching: dict[At, asyncio.Task[Connection]] = {}

    async def open(self, pod: str, uid: str) -> Connection:
        """Return a connection to the server of exactly this pod, whatever id it has."""
        target = self._targets.get(pod)
        if target is None or target.uid != uid:
            raise Refused(f"{pod} was recreated")
        return await self._links.open(target, timeout=_TIMEOUT)

    async def reach(self, at: At) -> Connection:
        """Return a connection to a server whose id was just checked. I11"""
        target = self._targets.get(at.pod)
        if target is not None and target.address.host != at.ip:
            raise Refused(f"{at.pod} is not where it was: it moved to {target.address.host}")
        connection = await self.open(at.pod, at.uid)
        require(identity_limitation(at, await self.dialect.identity(connection)))
        return connection

    async def facts(self, pod: str, uid: str) -> ServerFacts:
        """Ask the server of exactly this pod for its facts."""
        return await self.dialect.facts(await self.open(pod, uid))

    def effects(self) -> Effects:
        """How each action on a server is carried out."""
        return {
            Meet: Effect(self._meet),
            TuneForBootstrap: Effect(self._tune, read=self._read),
            SetConfigEpoch: Effect(self._set_epoch),
            RaiseEpoch: Effect(self._raise_epoch, read=self._read),
            AssignSlots: Effect(self._assign, read=self._read),
            UnassignSlots: Effect(self._unassign, read=self._read),
            InheritSlots: Effect(self._inherit, read=self._read),
            Replicate: Effect(self._replicate, read=self._read),
            Forget: Effect(self._forget, read=self._read),
            CloseSlots: Effect(self._close_slots),
            CancelJob: Effect(self._cancel_job),
            ConfigSet: Effect(self._configure),
            ResetEmptyNode: Effect(self._reset_empty, read=self._read),
            Failover: Effect(self._fail_over, read=self._read, verify=self._promoted),
        }

    async def _read(self, action: _OnServer) -> ActionFacts:
        """Ask the server of an action for its role, slots and keys."""
        connection = await self.reach(action.node)
        return ActionFacts(server=await self.dialect.facts(connection))

    async def own_connection(self, at: At) -> Connection:
        """Open a separate connection to a server, for long work. The caller closes it."""
        await self.reach(at)
        target = self._targets[at.pod]
        return await connect(
            target.address, timeout=_TIMEOUT, credentials=target.credentials, tls=target.tls
        )

    async def at_addresses(
        self, addresses: Iterable[str], *, all_of_them: bool = False
    ) -> list[Connection]:
        """Return connections to those servers of the database that are at these addresses."""
        wanted = set(addresses)
        found = []
        for target in self._targets.values():
            if target.address.host in wanted:
                try:
                    found.append(await self._links.open(target, timeout=_TIMEOUT))
                except RedisError:
                    if all_of_them:
                        raise
                    continue  # it will learn from its peers
        return found

    async def _meet(self, action: Meet, _: ActionFacts) -> None:
        """Introduce two servers by CLUSTER MEET, after both ids were checked."""
        node, _peer = await asyncio.gather(
            self._reach_once(action.node), self._reach_once(action.peer)
        )
        await node.run(commands.meet(action.peer.ip, PORT, BUS_PORT), timeout=_TIMEOUT)

    async def _reach_once(self, at: At) -> Connection:
        """Reach a server, sharing the check of its id with other calls at the same time.

        A new database of 30 servers has 435 introductions, all at the same time.
        """
        task = self._reaching.get(at)
        if task is None:
            task = self._reaching[at] = asyncio.create_task(self.reach(at))
            task.add_done_callback(lambda _: self._reaching.pop(at))
        return await asyncio.shield(task)

    async def _tune(self, action: TuneForBootstrap, _: ActionFacts) -> None:
        """Shorten the timeouts of a server that holds nothing."""
        await _set_config(await self.reach(action.node), action.values)

    async def _set_epoch(self, action: SetConfigEpoch, _: ActionFacts) -> None:
        """Give a new server its own epoch."""
        connection = await self.reach(action.node)
        try:
            await connection.run(commands.set_config_epoch(action.epoch), timeout=_TIMEOUT)
        except ReplyError as error:
            nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
            if next(node for node in nodes if node.is_myself).config_epoch != action.epoch:
                raise Refused(f"{action.node.pod} has an epoch already: {error}") from error

    async def _raise_epoch(self, action: RaiseEpoch, _: ActionFacts) -> None:
        """Let an owner take the next epoch, unless it has another one now. I3"""
        connection = await self.reach(action.node)
        nodes = await connection.run(commands.cluster_nodes(), timeout=_TIMEOUT)
        if next(node for node in nodes if node.is_myself).config_epoch == action.epoch:
            await connection.run(commands.bump_epoch(), timeout=_TIMEOUT)

    async def _assign(self, action: AssignSlots, facts: ActionFacts) -> None:
        """Give slots without an owner to a server. I3"""
        missing = action.slots - _known(facts).slots
        if not missing:
            return
        connection = await self.reach(action.node)
        version = await version_of(connection)
        ranged = can(version, Ability.ADDSLOTSRANGE)
        command = commands.add_slots_range(missing) if ranged else commands.add_slots(missing)
        await connection.run(command, timeout=_TIMEOUT)

    async def _unassign(self, action: UnassignSlots, _: ActionFacts) -> None:
        """Let a server forget the presumed owner of slots that have none. I3"""
        connection = await self.reach(action.node)
        await connection.run(commands.delete_slots(action.slots), timeout=_TIMEOUT)

    async def _inherit(self, action: InheritSlots, facts: ActionFacts) -> None:
        """Let a promoted replica claim the slots of its dead primary, in an epoch of its own. I3"""
        connection = await self.reach(action.node)
        server = _known(facts)
        # Only a slot that comes from another node gives its owner a new epoch: any node will do.
        other = next(peer.id for peer in server.peers if peer.role is Role.PRIMARY)
        for slot in action.slots - server.slots:
            for command in (
                commands.set_slot_importing(slot, other),
                commands.set_slot_node(slot, action.node.id),
            ):
                await connection.run(command, timeout=_TIMEOUT)

    async def _replicate(self, action: Replicate, facts: ActionFacts) -> None:
        """Make a server copy a primary. I1"""
        if _known(facts).replica_of == action.primary.id:
            return
        await self.reach(action.primary)
        connection = await self.reach(action.node)
        await _until_known(connection, commands.replicate(action.primary.id), action.node.pod)

    async def _forget(self, action: Forget, facts: ActionFacts) -> None:
        """Have one server forget an id that owns nothing but slots that were given up. I3, I11"""
        if all(peer.id != action.id for peer in _known(facts).peers):
            return
        connection = await self.reach(action.node)
        await connection.run(commands.forget(action.id), timeout=_TIMEOUT)

    async def _close_slots(self, action: CloseSlots, _: ActionFacts) -> None:
        """Close slots whose migration has no other end."""
        connection = await self.reach(action.node)
        answers = await connection.run_all(
            [commands.set_slot_stable(slot) for slot in action.slots], timeout=_TIMEOUT
        )
        _raise_first(answers)

    async def _cancel_job(self, action: CancelJob, _: ActionFacts) -> None:
        """Cancel the atomic slot migrations of a server."""
        connection = await self.reach(action.node)
        version = await version_of(connection)
        if can(version, Ability.MIGRATESLOTS):
            await connection.run(commands.cancel_slot_migrations(), timeout=_TIMEOUT)
        else:
            await connection.run(commands.cancel_migration(), timeout=_TIMEOUT)

    async def _configure(self, action: ConfigSet, _: ActionFacts) -> None:
        """Set directives, in order."""
        connection = await self.reach(action.node)
        for name, value in action.values:
            try:
                await connection.run(commands.config_set({name: value}), timeout=_TIMEOUT)
            except ReplyError as error:
                raise Failed(
                    f"{action.node.pod} refuses {name} {value!r} of spec.config: {error}"
                ) from error

    async def _reset_empty(self, action: ResetEmptyNode, _: ActionFacts) -> None:
        """Give a server that holds no key a new node id. I1, I3"""
        connection = await self.reach(action.node)
        await connection.run(commands.reset_hard(), timeout=_TIMEOUT)

    # Promotion

    async def _fail_over(self, action: Failover, facts: ActionFacts) -> None:
        """Promote a replica: the fence is checked right before. I6, I7, CL-22"""
        if _known(facts).is_primary:
            return
        await self.check_fence(action)
        connection = await self.reach(action.node)
        try:
            await connection.run(commands.failover(_MODES[action.mode]), timeout=_TIMEOUT)
        except ReplyError:
            if (await self.dialect.facts(connection)).is_primary:
                return  # another request was faster. CL-23
            raise

    async def check_fence(self, action: Failover | Promote) -> None:
        """Check again that the old primary does not acknowledge writes any more."""
        match action.fence:
            case Fence.HANDSHAKE | Fence.NEVER_LED | Fence.DEPOSED:
                facts = FenceFacts()
            case Fence.IS_REPLICA:
                facts = await self._restarted(action)
            case Fence.PROCESS_GONE:
                facts = await _knock(self._targets.get(action.primary_pod))
            case Fence.CONTAINER_ENDED:
                facts = await self._ended(action)
            case Fence.POD_GONE:
                facts = await self._existing(action)
            case Fence.EMPTY_AND_PAUSED:
                await self._pause_empty(action)
                return
        require(fence_limitation(action, facts))

    async def _ended(self, action: Failover | Promote) -> FenceFacts:
        """Read the pod of a primary from the API: it may run again, here or at another address."""
        live = await self._pods.read(action.primary_pod)
        if live is None:
            return FenceFacts()
        pod = PodFacts(live.uid)
        if not live.ip:
            return FenceFacts(port=PortState.REFUSED, pod=pod)
        found = await _knock(Target(live.uid, Address(live.ip, PORT)))
        return FenceFacts(port=found.port, error=found.error, pod=pod)

    async def _existing(self, action: Failover | Promote) -> FenceFacts:
        """Read pods from the API that were not observed: one that exists may be the primary. K-27

        The caches only hold pods with the operator's label, and may be late; a read by name sees
        all.
        """
        found = await asyncio.gather(*(self._pods.read(pod) for pod in action.unseen))
        pairs = zip(action.unseen, found, strict=True)
        return FenceFacts(existing=tuple(pod for pod, live in pairs if live is not None))

    async def _restarted(self, action: Failover | Promote) -> FenceFacts:
        """Ask a server that led before for its facts now."""
        try:
            server = await self.facts(action.primary_pod, action.primary_uid)
        except RedisError as error:
            return FenceFacts(error=str(error))
        return FenceFacts(server=server)

    async def _pause_empty(self, action: Failover | Promote) -> None:
        """Pause the writes of a primary that restarted empty, bounded by the server itself. I10"""
        target = self._targets.get(action.primary_pod)
        if target is None:
            require(fence_limitation(action, FenceFacts()))
            return
        connection = await self._links.open(target, timeout=_TIMEOUT)
        before = await self.dialect.facts(connection)
        require(fence_limitation(action, FenceFacts(server=before)))
        pause = commands.client_pause_writes(_PAUSE_MILLISECONDS)
        await connection.run(pause, timeout=_TIMEOUT)
        why = fence_limitation(action, FenceFacts(server=await self.dialect.facts(connection)))
        if why is not None:
            await connection.run(commands.client_unpause(), timeout=_TIMEOUT)
        require(why)

    async def _handing_over(self, action: Failover) -> Connection | None:
        """Return the link to a primary that takes part in its own switchover.

        Once it has ended, only FORCE replaces it: waiting for the planned switchover is an outage.
        """
        target = self._targets.get(action.primary_pod)
        if action.fence is not Fence.HANDSHAKE or target is None:
            return None
        try:
            return await self._links.open(target, timeout=_TIMEOUT)
        except RedisError:
            return None

    async def _promoted(self, action: Failover) -> None:
        """Wait until a server says that it is a primary: the reply OK only meant `started`."""
        connection = await self.reach(action.node)
        primary = await self._handing_over(action)
        ended: float | None = None
        pause = 0.002
        deadline = asyncio.timeout(_PROMOTION_SECONDS)
        try:
            async with deadline:
                while True:
                    role = await connection.run(commands.role(), timeout=_TIMEOUT)
                    if isinstance(role, PrimaryRole):
                        return
                    if primary is not None and not primary.is_open:
                        primary = None
                        ended = asyncio.get_running_loop().time()
                        deadline.reschedule(ended + _ENDED_SECONDS)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 0.05)
        except TimeoutError:
            if not deadline.expired():
                raise
        if ended is not None:
            raise Failed(f"{action.primary_pod} ended before {action.node.pod} had taken over")
        raise Failed(
            f"{action.node.pod} was asked to take over and did not within {_PROMOTION_SECONDS:g} s"
        )


def _known(facts: ActionFacts) -> ServerFacts:
    assert facts.server is not None, "the precondition has checked that"
    return facts.server


async def _knock(target: Target | None) -> FenceFacts:
    """Find out whether a process listens at the address of a pod."""
    if target is None:
        return FenceFacts(error="its pod is gone from the cache, and may run elsewhere")
    try:
        connection = await connect(
            target.address, timeout=_TIMEOUT, credentials=target.credentials, tls=target.tls
        )
    except RefusedError:
        return FenceFacts(port=PortState.REFUSED)
    except RedisError as error:
        return FenceFacts(error=str(error))
    connection.close()
    return FenceFacts(port=PortState.ANSWERED)


async def _until_known(connection: Connection, command: Command[None], pod: str) -> None:
    """Repeat a command that fails while the handshake of two servers is in progress."""
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


async def version_of(connection: Connection) -> Version:
    """Ask a server for its engine and version."""
    info = await connection.run(commands.info(), timeout=_TIMEOUT)
    version = parse_version(info.server.engine, info.server.version)
    if version is None:
        raise Failed(f"{connection.address} runs {info.server.version}, which is not a version")
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
