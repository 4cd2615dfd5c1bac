"""Has every running server accept exactly the passwords that it should, without a restart.

A server reads its users from a file when it starts; a running one gets commands. It is asked for
its passwords once for each connection, and again whenever they should change: a server that
restarted with an old file answers on a new connection. Permissions are changed only with a user
that the server does not have yet, and with the user of backups; users of the operator that belong
to another mode, or that are not needed any more, are deleted. IN-28, T-01

Before data is replaced, clients are disabled by the file alone (ACL LOAD): a server that did so has
that file in its pod, and does not accept clients when it restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

from msgspec import Struct

from redis_operator.api.redis import Redis
from redis_operator.manifests.facts import Facts, Passwords, SourceLogin
from redis_operator.manifests.layouts import layout_of
from redis_operator.manifests.names import primary_name
from redis_operator.manifests.users import (
    BACKUP,
    DEFAULT,
    FAILOVER_USERS,
    REPLICATION,
    SENTINEL_USERS,
    USERS,
    is_shut_out,
    password_hash,
    rules_of,
)
from redis_operator.operator.jobs import loop_time
from redis_operator.operator.servers.links import Links, Target
from redis_operator.planning.observed import Observed, SentinelSeen
from redis_operator.redis import commands, sentinel
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import ReplicaRole
from redis_operator.redis.versions import Version, parse_version

__all__ = ["SERVER_PASSWORD", "Logins", "changes_of", "cut_off"]

SERVER_PASSWORD = "password for servers"  # noqa: S105 - the name of a note
"""Noted for a connection to a sentinel: the hash of its password when it began to monitor."""

_TIMEOUT = 5.0
_LOAD_SECONDS = 10.0  # older versions disconnect replicas when they load their ACL file
_USERS_NOTE = "users"  # a note of a connection
_REPLICA_LOGIN = "masterauth"
_LATER_RIGHTS = frozenset({"+replicaof", "+publish"})  # of another mode, or of a later version
_OURS = frozenset({*USERS, *FAILOVER_USERS}) - {DEFAULT}
_OLD_FILE = (
    "does not have the file of users yet that shuts clients out (its kubelet refreshes mounted "
    "Secrets within a minute or two)"
)
Users: TypeAlias = Mapping[str, Callable[[Version], str]]


class _Who(Struct, frozen=True):
    """A server or a sentinel: its version, its users, and its logins to other servers."""

    pod: str
    engine: str
    version: str
    users: Users
    login: Callable[[Connection, Passwords], Awaitable[list[Command[None]]]]
    filling: bool = False  # it is being restored from a backup, and clients cannot connect
    emptying: bool = False  # and its data is dropped before
    proves: bool = False  # clients are disabled by its file, which proves that it has the file


class Logins:
    """The users of all servers of one operator."""

    def __init__(self, links: Links, *, may_act: Callable[[], bool] = lambda: True) -> None:
        self._links = links
        self._may_act = may_act
        self._loads: dict[str, float] = {}

    async def apply(
        self, redis: Redis, observed: Observed, targets: Mapping[str, Target], facts: Facts
    ) -> tuple[str, ...]:
        """Have servers accept these passwords and log in with them; return why some could not.

        Sentinels too, if there are any.
        """
        layout, meta, passwords = layout_of(redis), redis.metadata, facts.passwords
        digest = _digest(passwords, layout.users)
        closed = (facts.shuts_out, facts.is_emptied, facts.shuts_out and facts.is_proven)
        elsewhere = _elsewhere(redis, facts, observed)
        name = primary_name(meta.namespace, meta.name)
        work = [
            self._apply(
                _Who(
                    node.pod.name,
                    node.engine,
                    node.version,
                    layout.users,
                    partial(_server_login, elsewhere),
                    *closed,
                ),
                targets[node.pod.name],
                passwords,
                f"{digest} {closed} {_mark(elsewhere, node.replication.follows)}",
            )
            for node in observed.seen
            if node.pod.name in targets
        ]
        work += [
            self._apply(
                _Who(
                    node.pod.name,
                    node.view.engine,
                    node.view.version,
                    SENTINEL_USERS,
                    partial(_sentinel_login, name, node.view.named(name) is not None, digest),
                ),
                targets[node.pod.name],
                passwords,
                f"{digest} {node.view.named(name) is not None}",
            )
            for node in observed.sentinels
            if isinstance(node, SentinelSeen) and node.pod.name in targets
        ]
        return tuple(answer for answer in await asyncio.gather(*work) if answer)

    async def _apply(self, who: _Who, target: Target, passwords: Passwords, digest: str) -> str:
        version = parse_version(who.engine, who.version)
        if version is None:
            return f"{who.pod} runs {who.engine} {who.version}, which is not known"
        try:
            connection = await self._links.open(target, timeout=_TIMEOUT)
            if connection.notes.get(_USERS_NOTE) == digest:
                return ""
            found = await connection.run(commands.acl_list(), timeout=_TIMEOUT)
            if who.proves and not _is_shut(found, who.users):
                if not await self._load(target, connection):
                    return f"{who.pod} {_OLD_FILE}"
                connection = await self._links.open(target, timeout=_TIMEOUT)
                found = await connection.run(commands.acl_list(), timeout=_TIMEOUT)
                if not _is_shut(found, who.users):
                    return f"{who.pod} {_OLD_FILE}"
            changes = changes_of(
                found,
                version,
                passwords,
                who.users,
                filling=who.filling,
                emptying=who.emptying,
            )
            if who.filling:
                changes += cut_off(who.users)
            changes += await who.login(connection, passwords)
            for change in changes:
                if not self._may_act():
                    return f"{who.pod} is not given its passwords: this is not the leader"
                await connection.run(change, timeout=_TIMEOUT)
        except RedisError as error:
            return f"{who.pod} could not be given its passwords: {error}"
        connection.notes[_USERS_NOTE] = digest
        return ""

    async def _load(self, target: Target, connection: Connection) -> bool:
        """Have a server load its ACL file; False: it did so a moment ago."""
        now = loop_time()
        self._loads = {uid: at for uid, at in self._loads.items() if now - at < _LOAD_SECONDS}
        if target.uid in self._loads or not self._may_act():
            return False
        await connection.run(commands.acl_load(), timeout=_TIMEOUT)
        self._loads[target.uid] = now
        self._links.drop(target.uid)  # older versions close it themselves, a moment later
        return True


def _elsewhere(redis: Redis, facts: Facts, observed: Observed) -> dict[str, SourceLogin | None]:
    """Return the logins to external servers that may be followed; None: unchanged."""
    asked = redis.spec.bootstrap.from_redis
    found: dict[str, SourceLogin | None] = {observed.copied: None} if observed.copied else {}
    if asked is not None:
        found[f"{asked.host}:{asked.port}"] = facts.source
    return found


def _mark(elsewhere: Mapping[str, SourceLogin | None], follows: str) -> str:
    """Return a text that changes when a login does, or the primary of a server of a copy."""
    if not elsewhere:
        return ""
    words = [
        follows,
        *(
            word
            for place, login in sorted(elsewhere.items())
            for word in (place, *((login.username, login.password) if login is not None else ()))
        ),
    ]
    return sha256("\n".join(words).encode()).hexdigest()


async def _server_login(
    elsewhere: Mapping[str, SourceLogin | None], connection: Connection, passwords: Passwords
) -> list[Command[None]]:
    """Return how a server has to log in to its current primary, if it does otherwise.

    The operator's own password is never sent to an external server.
    """
    wanted: SourceLogin | None = SourceLogin(REPLICATION, passwords.replication)
    if elsewhere:
        role = await connection.run(commands.role(), timeout=_TIMEOUT)
        if isinstance(role, ReplicaRole):
            place = f"{role.primary_host}:{role.primary_port}"
            wanted = elsewhere.get(place, wanted)
    if wanted is None:
        return []
    found: list[Command[None]] = []
    user = wanted.username if wanted.password else ""
    for name, value in (("masteruser", user), (_REPLICA_LOGIN, wanted.password)):
        has = await connection.run(commands.config_get(name), timeout=_TIMEOUT)
        if has.get(name, value) != value:
            found.append(commands.config_set({name: value}))
    return found


async def _sentinel_login(
    name: str, monitors: bool, digest: str, connection: Connection, passwords: Passwords
) -> list[Command[None]]:
    """Return how a sentinel has to log in to the others, and to servers. It does not report it.

    Each of these commands closes connections of the sentinel, which it reopens a second later: they
    are not repeated on this connection.
    """
    notes, found = connection.notes, []
    if not notes.get(_USERS_NOTE, "").startswith(digest):
        found.append(sentinel.config_set("sentinel-pass", passwords.sentinel))
    if monitors and notes.pop(SERVER_PASSWORD, "") != password_hash(passwords.sentinel):
        found.append(sentinel.set_option(name, "auth-pass", passwords.sentinel))
    return found


def changes_of(
    found: Iterable[str],
    version: Version,
    passwords: Passwords,
    users: Users,
    *,
    filling: bool = False,
    emptying: bool = False,
) -> list[Command[Any]]:
    """Return the commands that change users, given the existing ones.

    Clients are disabled before a worker gets more permissions, and enabled after it has fewer.
    """
    known = {words[1]: words[2:] for line in found if len(words := line.split()) > 1}
    others = [
        user for user in known if user in _OURS and (user not in users or not passwords.has(user))
    ]
    changes: list[Command[Any]] = [commands.acl_deluser(user) for user in others]
    for user in sorted(filter(passwords.has, users), key=lambda u: is_shut_out(u) != filling):
        wanted = [password_hash(word) for word in passwords.accepted(user)]
        rules = rules_of(
            user, version, passwords, users, filling=filling, emptying=emptying
        ).split()
        if user not in known:
            changes.append(commands.acl_setuser(user, rules))
            continue
        if _lacks_rights(known[user], rules) or _is_other(user, known[user], rules):
            changes.append(commands.acl_setuser(user, rules))
        if {word for word in known[user] if word.startswith("#")} != set(wanted):
            changes.append(commands.acl_setuser(user, ["resetpass", *wanted]))
    return changes


def _is_shut(found: Iterable[str], users: Users) -> bool:
    """Whether a server has disabled every user that could write."""
    known = {words[1]: words[2:] for line in found if len(words := line.split()) > 1}
    return all("off" in known[user] for user in users if is_shut_out(user) and user in known)


def cut_off(users: Users) -> list[Command[int]]:
    """Return the commands that close connections of clients: disabled users keep theirs."""
    return [commands.client_kill_user(user) for user in users if is_shut_out(user)]


def _is_other(user: str, known: list[str], rules: list[str]) -> bool:
    """Whether a user differs from what it should be during a restore, or otherwise.

    The user of backups has exactly the permissions of this version: an earlier one gave it fewer.
    """
    if is_shut_out(user):
        return ("off" in known) != ("off" in rules)
    if user == BACKUP:
        return _rights(known) != _rights(rules)
    marks = ("+info", "+flushall")
    return user == REPLICATION and any((mark in known) != (mark in rules) for mark in marks)


def _rights(words: list[str]) -> set[str]:
    return {word for word in words if word[:1] in ("+", "&", "~")}


def _lacks_rights(known: list[str], rules: list[str]) -> bool:
    """Whether a user lacks a permission to change replication, or to talk to sentinels."""
    return "-@all" in known and bool(_LATER_RIGHTS & {*rules} - {*known})


def _digest(passwords: Passwords, users: Users) -> str:
    given = filter(passwords.has, users)
    words = [word for user in given for word in (user, *passwords.accepted(user))]
    return sha256("\n".join([*words, passwords.replication]).encode()).hexdigest()
