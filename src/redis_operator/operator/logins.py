"""Has every running server accept exactly the passwords that it should, without a restart.

A server reads its users from a file when it starts; a running one is told. It is asked once for
each connection which passwords it has, and again whenever these should be others: a server that
restarted with an old file answers on a new connection. Rights are changed only with a user that the
server does not have yet. IN-28, T-01
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from weakref import WeakKeyDictionary

from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.users import USERS, password_hash, rules_of
from redis_operator.operator.links import Links, Target
from redis_operator.planning.observed import Seen
from redis_operator.redis import commands
from redis_operator.redis.command import Command
from redis_operator.redis.connection import Connection
from redis_operator.redis.errors import RedisError
from redis_operator.redis.versions import Version, parse_version

__all__ = ["Logins"]

_TIMEOUT = 5.0
_REPLICA_LOGIN = "masterauth"


class Logins:
    """The users of all servers of one operator."""

    def __init__(self, links: Links, *, may_act: Callable[[], bool] = lambda: True) -> None:
        self._links = links
        self._may_act = may_act
        self._told: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()

    async def apply(
        self, servers: Iterable[Seen], targets: Mapping[str, Target], passwords: Passwords
    ) -> tuple[str, ...]:
        """Have servers accept these passwords and log in with them; return why some could not."""
        digest = _digest(passwords)
        answers = await asyncio.gather(
            *(
                self._apply(node, targets[node.pod.name], passwords, digest)
                for node in servers
                if node.pod.name in targets
            )
        )
        return tuple(answer for answer in answers if answer)

    async def _apply(self, node: Seen, target: Target, passwords: Passwords, digest: str) -> str:
        version = parse_version(node.engine, node.version)
        if version is None:
            return f"{node.pod.name} runs {node.engine} {node.version}, which is not known"
        try:
            connection = await self._links.open(target, timeout=_TIMEOUT)
            if self._told.get(connection) == digest:
                return ""
            found = await connection.run(commands.acl_list(), timeout=_TIMEOUT)
            login = await connection.run(commands.config_get(_REPLICA_LOGIN), timeout=_TIMEOUT)
            for change in _changes(found, login, version, passwords):
                if not self._may_act():
                    return f"{node.pod.name} is not given its passwords: this is not the leader"
                await connection.run(change, timeout=_TIMEOUT)
        except RedisError as error:
            return f"{node.pod.name} could not be given its passwords: {error}"
        self._told[connection] = digest
        return ""


def _changes(
    found: Iterable[str], login: Mapping[str, str], version: Version, passwords: Passwords
) -> list[Command[None]]:
    """Return what a server has to be told, given its users and how it logs in to its primary."""
    known = {words[1]: words[2:] for line in found if len(words := line.split()) > 1}
    changes: list[Command[None]] = []
    for user in USERS:
        wanted = [password_hash(word) for word in passwords.accepted(user)]
        if user not in known:
            changes.append(commands.acl_setuser(user, rules_of(user, version, passwords).split()))
        elif {word for word in known[user] if word.startswith("#")} != set(wanted):
            changes.append(commands.acl_setuser(user, ["resetpass", *wanted]))
    if login.get(_REPLICA_LOGIN, passwords.replication) != passwords.replication:
        changes.append(commands.config_set({_REPLICA_LOGIN: passwords.replication}))
    return changes


def _digest(passwords: Passwords) -> str:
    words = [word for user in USERS for word in (user, *passwords.accepted(user))]
    return sha256("\n".join([*words, passwords.replication]).encode()).hexdigest()
