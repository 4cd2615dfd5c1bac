"""External servers that new databases follow: their logins, and their answers.

While the spec names the server, its login comes from the spec's Secret. After it was removed from
the spec, the only open question is whether everything has arrived: then the login is that of the
server which follows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Client, Key, KubeError, NotFound
from kubecontroller.client.objects import SECRETS
from redis_operator.api.redis import BootstrapFromBackup, BootstrapFromRedis, Redis
from redis_operator.manifests.facts import Facts, Restore, SourceLogin
from redis_operator.manifests.names import CLIENT_PORT
from redis_operator.manifests.secrets import password_limitation
from redis_operator.operator.errors import Refused
from redis_operator.operator.servers.links import Links, Target
from redis_operator.operator.world import REDISES
from redis_operator.planning.failover.actions import FollowSource
from redis_operator.planning.identity import RunId
from redis_operator.planning.observed import Observed, Seen
from redis_operator.planning.sources import SourceNode, SourceSeen, SourceSilent
from redis_operator.redis import commands
from redis_operator.redis.connection import Address, Connection, Credentials
from redis_operator.redis.errors import (
    LinkError,
    NoAuthError,
    NoPermError,
    RedisError,
    WrongPassError,
)
from redis_operator.redis.replies import Info

__all__ = ["LiveSource", "Sources", "login_of"]

_TIMEOUT = 5.0
_PROBE_TIMEOUT = 1.0
_FRESH_SECONDS = 5.0
_FIELD = "spec.bootstrap.fromRedis"


class _SecretReading(Struct, frozen=True):
    """The content of the Secret when it was last read, or what was wrong with it."""

    at: float
    asked: BootstrapFromRedis
    login: SourceLogin | None = None
    problem: str = ""


class Sources:
    """The external servers of all databases of one operator."""

    def __init__(
        self, client: Client, links: Links, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._links = links
        self._clock = clock
        self._read: dict[Key, _SecretReading] = {}
        self._open: dict[Key, str] = {}  # the identity of the connection

    async def facts(self, redis: Redis, facts: Facts) -> Facts:
        """Return the facts with the login in the spec's Secret, or what is wrong with it.

        The Secret is read every few seconds: there are no watch events for it.
        """
        asked, key = redis.spec.bootstrap.from_redis, _key(redis)
        if asked is None:
            self._read.pop(key, None)
            return facts
        reading = self._read.get(key)
        now = self._clock()
        if reading is None or reading.asked != asked or now - reading.at >= _FRESH_SECONDS:
            reading = self._read[key] = await self._reading(key, asked, now)
        return replace(facts, source=reading.login, source_problem=reading.problem)

    async def _reading(self, key: Key, asked: BootstrapFromRedis, now: float) -> _SecretReading:
        secret = asked.password_secret
        if secret is None:
            return _SecretReading(now, asked, SourceLogin(asked.username, ""))
        path = f"{_FIELD}.passwordSecret: Secret {secret.name}"
        try:
            found = await self._client.get(SECRETS, (key[0], secret.name), timeout=_TIMEOUT)
        except NotFound:
            return _SecretReading(
                now, asked, problem=f"{path} does not exist in namespace {key[0]}"
            )
        except KubeError as error:
            return _SecretReading(now, asked, problem=f"{path} cannot be read: {error}")
        raw = (found.data or {}).get(secret.key)
        wrong = password_limitation(raw, secret.key)
        if raw is None or wrong is not None:
            return _SecretReading(now, asked, problem=f"{path} {wrong}")
        return _SecretReading(now, asked, SourceLogin(asked.username, raw.decode()))

    async def look(
        self, redis: Redis, facts: Facts, observed: Observed, targets: Mapping[str, Target]
    ) -> SourceNode | None:
        """Ask the server that is followed, or was until the spec did not name it any more."""
        asked, copied = redis.spec.bootstrap.from_redis, observed.copied
        if observed.formed or not (asked or facts.restore or copied):
            self.forget(_key(redis))
            return None
        if facts.restore is not None:
            if not facts.restore.host or facts.source is None:
                reason = "Copying" if facts.restore.coming else "RestoreWaits"
                return SourceSilent(reason, facts.restore.problem, hopeless=True)
            place = Address(facts.restore.host, CLIENT_PORT)
            return await self._ask(redis, place, facts.source)
        if asked is not None:
            if facts.source is None:
                return SourceSilent("SourceSecret", facts.source_problem, hopeless=True)
            return await self._ask(redis, Address(asked.host, asked.port), facts.source)
        host, _, port = copied.rpartition(":")
        head = next((n for n in observed.seen if n.replication.follows == copied), None)
        if head is None or not port.isdecimal():
            return SourceSilent("SourceUnreachable", "no server follows it")
        try:
            login = await self._login_of(head, targets)
        except RedisError as error:
            return SourceSilent("SourceUnreachable", f"its login is not known: {error}")
        return await self._ask(redis, Address(host, int(port)), login)

    async def _login_of(self, head: Seen, targets: Mapping[str, Target]) -> SourceLogin:
        connection = await self._links.open(targets[head.pod.name], timeout=_TIMEOUT)
        return await login_of(connection)

    async def _ask(self, redis: Redis, address: Address, login: SourceLogin) -> SourceNode:
        key, uid = _key(redis), f"source of {redis.metadata.uid}"
        self._open[key] = uid
        try:
            return _seen(await _info(self._links, uid, address, login, key[0]))
        except RedisError as error:
            self._links.drop(uid)
            return _silent(error, login)

    def forget(self, key: Key) -> None:
        """Drop the server of a database that does not follow it any more."""
        uid = self._open.pop(key, None)
        if uid is not None:
            self._links.keep_only((), of=(uid,))
        self._read.pop(key, None)


class LiveSource(Struct, frozen=True):
    """What actions of one pass need to know of the external server, at this moment."""

    client: Client
    key: Key
    links: Links
    login: SourceLogin | None = None
    restore: Restore | None = None

    async def check(self, action: FollowSource) -> None:
        """Refuse unless the API says that the source is wanted and that all data is a copy."""
        try:
            raw = await self.client.get(REDISES, self.key, timeout=_TIMEOUT)
        except KubeError as error:
            raise Refused(f"{self.key[1]} cannot be read: {error}") from error
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        begins = spec.get("bootstrap") or {}
        found, backup = begins.get("fromRedis") or {}, _label(begins.get("fromBackup") or {})
        wanted = (found.get("host"), found.get("port", CLIENT_PORT))
        if self.restore is not None and backup == self.restore.backup:
            wanted = (self.restore.host, CLIENT_PORT)
        if wanted != (action.host, action.port) or raw["metadata"].get("deletionTimestamp"):
            raise Refused(f"{action.host}:{action.port} is not wanted any more")
        if status.get("binding") or not status.get("source"):
            raise Refused(f"{self.key[1]} may have data of its own now")

    async def offset(self, place: str, head: Connection) -> tuple[str, int]:
        """Return the history of a source and its offset; only a primary reports it."""
        host, _, port = place.rpartition(":")
        address, uid = Address(host, int(port)), f"source of {self.key}"
        try:
            info = await _info(self.links, uid, address, await login_of(head), self.key[0])
        finally:
            self.links.keep_only((), of=(uid,))
        if not info.replication.is_primary:
            raise Refused(f"{place} is a replica now")
        return info.replication.replication_id, info.replication.offset


async def _info(
    links: Links, uid: str, address: Address, login: SourceLogin, namespace: str
) -> Info:
    """Ask a source for its INFO.

    For pods a bare name is a Service in the database's namespace, so it is qualified here.
    """
    hosts = [address.host]
    if "." not in address.host and ":" not in address.host:
        hosts.append(f"{address.host}.{namespace}.svc")
    while True:
        target = Target(uid, Address(hosts.pop(), address.port), _credentials(login))
        try:
            connection = await links.open(target, timeout=_PROBE_TIMEOUT)
            return await connection.run(commands.info(), timeout=_PROBE_TIMEOUT)
        except LinkError:
            if not hosts:
                raise


async def login_of(connection: Connection) -> SourceLogin:
    """Return the login of a server to its primary."""
    user = await connection.run(commands.config_get("masteruser"), timeout=_TIMEOUT)
    word = await connection.run(commands.config_get("masterauth"), timeout=_TIMEOUT)
    return SourceLogin(user.get("masteruser", ""), word.get("masterauth", ""))


def _label(raw: dict[str, Any]) -> str:
    """Return the text for people about the backup that a database is created from."""
    try:
        return msgspec.convert(raw, BootstrapFromBackup).label
    except msgspec.ValidationError:
        return ""


def _credentials(login: SourceLogin) -> Credentials | None:
    return Credentials(login.username, login.password) if login.password else None


def _seen(info: Info) -> SourceSeen:
    replication = info.replication
    return SourceSeen(
        id=RunId(info.server.run_id),
        is_primary=replication.is_primary,
        follows=""
        if replication.is_primary
        else f"{replication.primary_host}:{replication.primary_port}",
        linked=replication.is_primary or replication.link_up,
        replication_id=replication.replication_id,
        offset=replication.offset,
        engine=info.server.engine,
        version=info.server.version,
        cluster=info.cluster_enabled,
        loading=info.persistence.loading,
    )


def _silent(error: RedisError, login: SourceLogin) -> SourceSilent:
    if isinstance(error, NoPermError):
        text = f"user {login.username or 'default'} may not run INFO there, so the lag is not known"
        return SourceSilent("SourceNotAsked", text)
    if isinstance(error, NoAuthError | WrongPassError):
        fields = f"{_FIELD}.passwordSecret and {_FIELD}.username"
        what = "its password is refused" if login.password else "it asks for a password"
        return SourceSilent("SourceLogin", f"{what}: {error}; see {fields}", hopeless=True)
    return SourceSilent("SourceUnreachable", f"the operator cannot reach it: {error}")


def _key(redis: Redis) -> Key:
    return redis.metadata.namespace, redis.metadata.name
