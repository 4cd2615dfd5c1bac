"""Actions of mode Failover: promotions, replicas, planned switchovers, and sentinels.

Every function here may be repeated. A `Refused` means that nothing was done; a `RedisError` means
that the effect is unknown and the next observation will show it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.names import SENTINEL_PORT
from redis_operator.manifests.users import SENTINEL, password_hash
from redis_operator.operator.effects import Effect, Effects, require
from redis_operator.operator.errors import ActionError, Failed, Refused
from redis_operator.operator.servers.actions import PORT, Servers
from redis_operator.operator.servers.dialect import must
from redis_operator.operator.servers.logins import SERVER_PASSWORD
from redis_operator.operator.servers.sentinels import view_sentinel
from redis_operator.operator.servers.sources import LiveSource
from redis_operator.planning.at import At
from redis_operator.planning.failover.actions import (
    Elect,
    Follow,
    FollowSource,
    Introduce,
    Promote,
    ResetSentinel,
    SwitchOver,
    Unwatch,
    Watch,
)
from redis_operator.planning.failover.preconditions import naming, not_a_primary
from redis_operator.planning.preconditions import ActionFacts, ServerFacts, identity_limitation
from redis_operator.planning.sentinels import SentinelView
from redis_operator.redis import commands, sentinel
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import NoPermError, RedisError, ReplyError, UnknownPrimaryError
from redis_operator.redis.replies import InfoReplication, PrimaryRole
from redis_operator.redis.sentinel_replies import Vote

__all__ = ["replication_effects"]

_TIMEOUT = 2.0
_PAUSE_MILLISECONDS = 3000
_CATCH_UP_SECONDS = 1.5
_PROMOTION_SECONDS = 2.0
_EPOCH_STEPS: tuple[int, ...] = (1, *(2**n for n in range(20)))


def replication_effects(
    servers: Servers, passwords: Passwords, source: LiveSource | None = None
) -> Effects:
    """How each action of the mode is carried out; without a source, none is followed."""
    return _Replication(servers, passwords, source).effects()


class _Replication:
    """The servers and sentinels of one database during one pass."""

    def __init__(
        self, servers: Servers, passwords: Passwords, source: LiveSource | None = None
    ) -> None:
        self._servers = servers
        self._passwords = passwords
        self._source = source

    def effects(self) -> Effects:
        return {
            Elect: Effect(self._elect, read=self._read_promotion),
            Promote: Effect(self._promote, read=self._read_promotion, verify=self._promoted),
            Follow: Effect(self._follow, read=self._read_promotion),
            FollowSource: Effect(self._follow_source, read=self._read),
            Watch: Effect(self._watch, read=self._read_sentinel),
            Introduce: Effect(self._introduce, read=self._read_sentinel),
            Unwatch: Effect(self._unwatch, read=self._read_sentinel),
            ResetSentinel: Effect(self._reset, read=self._read_sentinel),
            SwitchOver: Effect(self._switch, read=self._read_promotion, verify=self._promoted),
        }

    # Live facts right before

    async def _facts(self, at: At) -> ServerFacts:
        return await self._servers.dialect.facts(await self._servers.reach(at))

    async def _read(self, action: FollowSource) -> ActionFacts:
        return ActionFacts(server=await self._facts(action.node))

    async def _read_promotion(self, action: Promote | Elect | SwitchOver | Follow) -> ActionFacts:
        """Ask the server, and all sentinels that are known to respond."""
        server, views = await asyncio.gather(
            self._facts(action.node), asyncio.gather(*map(self._view, action.sentinels))
        )
        return ActionFacts(server=server, sentinels=tuple(views))

    async def _read_sentinel(
        self, action: Watch | Introduce | Unwatch | ResetSentinel
    ) -> ActionFacts:
        return ActionFacts(sentinel=await self._view(action.node))

    async def _sentinel(self, at: At) -> Connection:
        """Return a connection to a sentinel whose id was just checked. I11"""
        connection = await self._servers.open(at.pod, at.uid)
        found = await connection.run(sentinel.my_id(), timeout=_TIMEOUT)
        require(identity_limitation(at, found))
        return connection

    async def _view(self, at: At) -> SentinelView:
        return await view_sentinel(await self._sentinel(at), timeout=_TIMEOUT, now=0.0)

    # Promotion

    async def _promote(self, action: Promote, facts: ActionFacts) -> None:
        """Make a replica a primary: the fence is checked right before. I7"""
        assert facts.server is not None
        if facts.server.is_primary:
            return
        await self._servers.check_fence(action)
        connection = await self._servers.reach(action.node)
        if action.source:
            await self._arrived(action, connection)
        await connection.run(commands.replica_of_no_one(), timeout=_TIMEOUT)

    async def _elect(self, action: Elect, facts: ActionFacts) -> None:
        """Win the votes of the sentinels, and have them name the replica. I7

        The rules are theirs: a sentinel votes once in an epoch, and accepts from any other sentinel
        whatever has a higher epoch than it knows. Those that voted begin no failover for a while.
        """
        if naming(action.name, action.node, facts.sentinels) >= action.needed:
            return  # they do since the vote of an earlier operator that got no further
        links = await asyncio.gather(*map(self._sentinel, action.sentinels))
        epoch = await _win(links, action)
        for receiver, link in zip(action.sentinels, links, strict=True):
            sender = next(other for other in action.sentinels if other != receiver)
            hello = _hello(sender, action.name, action.node.ip, epoch=epoch)
            await link.run(hello, timeout=_TIMEOUT)

    async def _arrived(self, action: Promote, connection: Connection) -> None:
        """Wait until a server has all data that the source had when it was asked. I1

        A client that has stopped writing there finds every write here.
        """
        if self._source is None:
            raise Refused(f"{action.source} cannot be asked")
        history, offset = await self._source.offset(action.source, connection)
        if history != action.replication_id:
            raise Refused(f"{action.source} has another history now")
        await _caught_up(connection, offset, action.node.pod)
        if not action.whole:
            return
        info = await connection.run(commands.info(), timeout=_TIMEOUT)
        if info.stats.refused_commands:
            raise Refused(
                f"{action.node.pod} refused {info.stats.refused_commands} commands of what it "
                "copied, so it does not have all of it"
            )

    async def _promoted(self, action: Promote | SwitchOver) -> None:
        connection = await self._servers.reach(action.node)
        deadline = asyncio.get_running_loop().time() + _PROMOTION_SECONDS
        while True:
            role = await connection.run(commands.role(), timeout=_TIMEOUT)
            if isinstance(role, PrimaryRole):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise Failed(
                    f"{action.node.pod} was asked to take over and is not a primary after "
                    f"{_PROMOTION_SECONDS:g} s"
                )
            await asyncio.sleep(0.005)

    # Followers

    async def _follow(self, action: Follow, facts: ActionFacts) -> None:
        """Make a server copy a server that is a primary at this moment. I1"""
        assert facts.server is not None
        host = action.primary.ip
        if facts.server.follows == f"{host}:{PORT}":
            return
        found = await self._facts(action.primary)
        if not action.source or found.follows != action.source:
            require(not_a_primary(action.primary, found))
        connection = await self._servers.reach(action.node)
        await connection.run(commands.replica_of(host, PORT), timeout=_TIMEOUT)

    async def _follow_source(self, action: FollowSource, _: ActionFacts) -> None:
        """Make a server copy an external one, and log in there with that server's credentials. I1

        Both in one step: neither server is sent the login of the other.
        """
        if self._source is None or self._source.login is None:
            raise Refused(f"the login of {action.host}:{action.port} is not known")
        await self._source.check(action)
        login = self._source.login
        connection = await self._servers.reach(action.node)
        words: list[Command[Any]] = [
            commands.config_set({"masteruser": login.username if login.password else ""}),
            commands.config_set({"masterauth": login.password}),
            commands.replica_of(action.host, action.port),
        ]
        for answer in await connection.run_all(commands.transaction(words), timeout=_TIMEOUT):
            must(answer)

    # Sentinels

    async def _watch(self, action: Watch, _: ActionFacts) -> None:
        """Have a sentinel monitor a server that is a primary at this moment."""
        require(not_a_primary(action.primary, await self._facts(action.primary)))
        connection = await self._sentinel(action.node)
        name, primary = action.name, action.primary
        named = await connection.run(sentinel.address_of(name), timeout=_TIMEOUT)
        words: list[Command[Any]] = []
        again = action.afresh or named != (primary.ip, PORT)
        if named is not None and again:
            words.append(sentinel.remove(name))
        if again:
            words.append(sentinel.monitor(name, primary.ip, PORT, action.quorum))
        settings = {
            "quorum": str(action.quorum),
            "auth-user": SENTINEL,
            "auth-pass": self._passwords.sentinel,
            **dict(action.settings),
        }
        words.append(sentinel.set_options(name, settings))
        others = action.others if again else ()
        await _send(connection, words, _introductions(others, name, primary.ip))
        connection.notes[SERVER_PASSWORD] = password_hash(self._passwords.sentinel)

    async def _introduce(self, action: Introduce, _: ActionFacts) -> None:
        """Introduce other sentinels to a sentinel that does not know them."""
        connection = await self._sentinel(action.node)
        others = _introductions(action.others, action.name, action.primary.ip)
        await _send(connection, [], others)

    async def _unwatch(self, action: Unwatch, facts: ActionFacts) -> None:
        """Have a sentinel monitor nothing."""
        assert facts.sentinel is not None
        if facts.sentinel.named(action.name) is None:
            return
        connection = await self._sentinel(action.node)
        await connection.run(sentinel.remove(action.name), timeout=_TIMEOUT)

    async def _reset(self, action: ResetSentinel, _: ActionFacts) -> None:
        """Have a sentinel forget all replicas and sentinels, and rediscover the live ones."""
        connection = await self._sentinel(action.node)
        others = _introductions(action.others, action.name, action.primary.ip)
        await _send(connection, [sentinel.reset(action.name)], others)

    # Planned switchover

    async def _switch(self, action: SwitchOver, facts: ActionFacts) -> None:
        """Pause, check that the replica has everything, promote, demote. I6, I10"""
        assert facts.server is not None
        if facts.server.is_primary:
            return
        old = await self._servers.reach(action.primary)
        new = await self._servers.reach(action.node)
        require(not_a_primary(action.primary, await self._servers.dialect.facts(old)))
        await _demotable(old, action.primary.pod)
        offset = await _pause(old)
        try:
            await _caught_up(new, offset, action.node.pod)
            await self._promote_unless_written(action, old, new, offset)
            await old.run(commands.replica_of(action.node.ip, PORT), timeout=_TIMEOUT)
        except (RedisError, ActionError) as error:
            raise Failed(f"{action.node.pod} did not take over: {error}") from error
        finally:
            await _release(old)

    async def _promote_unless_written(
        self, action: SwitchOver, old: Connection, new: Connection, offset: int
    ) -> None:
        """Promote a replica; revert it unless its primary certainly accepted no write since.

        The pause ends by itself: a server that hangs, or an operator without CPU, may outlast it.
        Until the label and the sentinels name the replica, no client writes to it.
        """
        try:
            await new.run(commands.replica_of_no_one(), timeout=_TIMEOUT)
            await _unwritten(old, offset, action.primary.pod)
        except (RedisError, ActionError):
            await self._take_back(action)
            raise

    async def _take_back(self, action: SwitchOver) -> None:
        try:
            new = await self._servers.reach(action.node)
            await new.run(commands.replica_of(action.primary.ip, PORT), timeout=_TIMEOUT)
        except (RedisError, ActionError):
            return  # several primaries are repaired by another rule


async def _win(links: list[Connection], action: Elect) -> int:
    """Return the epoch in which enough sentinels voted for this candidate, and for no other.

    The last votes show where to begin. A sentinel that has seen a higher epoch does not vote in a
    lower one and does not report which one it is: it is searched in growing steps.
    """
    host, _, port = action.follows.rpartition(":")
    candidate = secrets.token_hex(20)

    async def ask(epoch: int) -> list[Vote]:
        asked = sentinel.vote(host, int(port), epoch, candidate)
        return await asyncio.gather(*(link.run(asked, timeout=_TIMEOUT) for link in links))

    epoch = max(vote.epoch for vote in await ask(0))
    for step in _EPOCH_STEPS:
        epoch += step
        votes = await ask(epoch)
        won = [v for v in votes if v.down and (v.leader, v.epoch) == (candidate, epoch)]
        if len(won) >= action.needed:
            return epoch
    raise Refused(f"the sentinels did not vote for a failover to {action.node.pod}")


async def _send(
    connection: Connection, words: list[Command[Any]], others: list[Command[Any]]
) -> None:
    """Send a sentinel its configuration and its peers in one write: its timer runs after all of it.

    One that refuses introductions, because its ACL users are of an older version, discovers them.
    """
    answers = await connection.run_all([*words, *others], timeout=_TIMEOUT)
    for answer in answers[: len(words)]:
        if isinstance(answer, RedisError) and not isinstance(answer, UnknownPrimaryError):
            raise answer
    for answer in answers[len(words) :]:
        if isinstance(answer, RedisError) and not isinstance(answer, NoPermError):
            raise answer


def _introductions(others: tuple[At, ...], name: str, ip: str) -> list[Command[Any]]:
    """The messages that other sentinels would send within two seconds: their ids and addresses."""
    return [_hello(other, name, ip) for other in others]


def _hello(sender: At, name: str, ip: str, *, epoch: int = 0) -> Command[int]:
    who = (sender.ip, SENTINEL_PORT, str(sender.id))
    return sentinel.hello(who, name, (ip, PORT), epoch=epoch)


async def _demotable(old: Connection, pod: str) -> None:
    """Check that a primary can be demoted, with a command that no server carries out."""
    try:
        await old.run(commands.replica_of_no_port(), timeout=_TIMEOUT)
    except NoPermError as error:
        raise Refused(f"{pod} could not be demoted: {error}") from error
    except ReplyError as error:
        if error.code != "ERR":
            raise


async def _pause(old: Connection) -> int:
    """Pause the writes of a primary, bounded by itself; return its offset after that."""
    asked: list[Command[Any]] = [
        commands.client_pause_writes(_PAUSE_MILLISECONDS),
        commands.info_replication(),
    ]
    answers = await old.run_all(commands.transaction(asked), timeout=_TIMEOUT)
    for answer in answers:
        if isinstance(answer, RedisError):
            raise Refused(f"writes cannot be paused: {answer}") from answer
    replication: InfoReplication = must(answers[-1])[1]
    return replication.offset


async def _unwritten(old: Connection, offset: int, pod: str) -> None:
    """Check that a primary has accepted no write since an offset; pause it again."""
    if await _pause(old) > offset:
        raise Failed(f"{pod} accepted writes after its pause")


async def _caught_up(new: Connection, offset: int, pod: str) -> None:
    """Wait until a replica has reached an offset; writes wait meanwhile."""
    deadline = asyncio.get_running_loop().time() + _CATCH_UP_SECONDS
    pause = 0.001
    while True:
        found = await new.run(commands.info_replication(), timeout=_TIMEOUT)
        if not found.is_primary and found.offset >= offset:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise Failed(f"{pod} is at offset {found.offset} and not yet at {offset}")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.02)


async def _release(old: Connection) -> None:
    """Resume writes; a server that cannot be reached resumes by itself."""
    try:
        await old.run(commands.client_unpause(), timeout=_TIMEOUT)
    except RedisError:
        return
