"""Where the passwords of databases are read from, and what happens when they are gone. IN-28"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Client, Forbidden, Key, KubeError, NotFound, controller_of
from kubecontroller.client.objects import SECRETS, Secret
from redis_operator.api.redis import Redis
from redis_operator.manifests import names
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.layouts import layout_of
from redis_operator.manifests.secrets import PASSWORD_KEY
from redis_operator.operator.objects.ownership import limitation
from redis_operator.operator.passwords import (
    PasswordError,
    PasswordMemory,
    SecretLost,
    created,
    generated,
    newest,
    read_password,
    wished,
)
from redis_operator.operator.world import World

__all__ = ["PasswordStore"]

_TIMEOUT = 10.0
_HASTY_TIMEOUT = 1.0
_FRESH_SECONDS = 5.0
"""For so long a password counts as read: every observation of the servers waits for this read."""
_FIRST_KEY = "operator"


class _Reading(Struct, frozen=True):
    """The password in a user's Secret when it was last read, and what was wrong with the Secret."""

    at: float
    password: str | None
    problem: str = ""


def _judged(
    redis: Redis, name: str, secret: Secret | None, now: float, last: str | None
) -> _Reading:
    if secret is None:
        return _Reading(
            now,
            last,
            f"spec.auth.secretName: there is no Secret {name} in namespace "
            f"{redis.metadata.namespace}; create it with a key `password`, or leave the field "
            "out to have one generated",
        )
    try:
        return _Reading(now, read_password(secret.data, secret=name))
    except PasswordError as error:
        return _Reading(now, last, str(error))


class PasswordStore:
    """The passwords of all databases of one operator."""

    def __init__(
        self, client: Client, world: World, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._memory = PasswordMemory()
        self._read: dict[tuple[str, str], _Reading] = {}  # by uid and Secret

    async def read(self, redis: Redis, *, known_will_do: bool = False) -> Passwords:
        """Return the passwords of a database, generated if it is new. Raises `PasswordError`.

        `known_will_do`: servers must be managed whatever the user's Secret says, so the known
        passwords are enough.
        """
        meta = redis.metadata
        users = await self._own(redis, names.users_secret(meta.name))
        found = newest(self._memory.get(meta.uid), users.data if users is not None else None)
        if found is None:
            copy = await self._own(redis, names.recovery_secret(meta.name))
            found = newest(None, copy.data if copy is not None else None)
        marked = meta.annotations.get(names.ROTATE_ANNOTATION, "")
        if found is not None:
            default = found.default
            if not (known_will_do and redis.spec.auth.secret_name):
                default = await self._wanted(redis, known=found.default)
            found = wished(found, default, marked)
            if layout_of(redis).sentinels is not None and not found.sentinel:
                # The record is from before there were any.
                found = replace(found, sentinel=generated(), serial=found.serial + 1)
        else:
            found = await self._first(redis, users, marked)
        needed = self._world.needs_backup_user((meta.namespace, meta.name))
        if not found.backup and needed:
            found = replace(found, backup=generated(), serial=found.serial + 1)
        elif found.backup and needed is False and found.rotation is None:
            found = replace(found, backup="", serial=found.serial + 1)
        self.keep(redis, found)
        return found

    async def _first(self, redis: Redis, users: Secret | None, marked: str) -> Passwords:
        data = users.data if users is not None else None
        if _FIRST_KEY not in (data or {}) and self._is_running(redis):
            name = redis.metadata.name
            raise SecretLost(
                f"Secret {names.users_secret(name)} and its copy {names.recovery_secret(name)} are "
                "gone or damaged, so the passwords of the running servers are not known. Servers "
                f"keep serving. Restore one of the two Secrets from a backup; or set the "
                f"annotation {names.NEW_PASSWORDS_ANNOTATION}=true and delete all pods, which has "
                "servers start with new passwords"
            )
        return created(await self._wanted(redis, known=None), data, marked)

    def _is_running(self, redis: Redis) -> bool:
        """Whether there may be servers that have other passwords than new ones.

        Servers of a deleted database with this name end soon and do not count.
        """
        meta = redis.metadata
        if meta.annotations.get(names.NEW_PASSWORDS_ANNOTATION) == "true":
            return False
        key = (meta.namespace, meta.name)
        ours = {
            found.metadata.uid
            for found in self._world.workloads_of(key)
            if limitation(redis, found.metadata) is None
        }
        owners = [
            controller_of(pod.metadata)
            for pod in self._world.pods_of(key)
            if not pod.metadata.is_deleting
        ]
        return any(owner is None or owner.uid in ours for owner in owners)

    async def _wanted(self, redis: Redis, *, known: str | None) -> str:
        """Return the wanted password of the default user: of the user's Secret, else the known one.

        A user's Secret is only read by name, whatever its labels say.
        """
        meta = redis.metadata
        if redis.spec.auth.secret_name:
            return await self._given(redis, redis.spec.auth.secret_name, known)
        ours = await self._own(redis, names.auth_secret(meta.name))
        if ours is not None and PASSWORD_KEY in (ours.data or {}):
            return read_password(ours.data, secret=ours.metadata.name)
        return known if known is not None else generated()

    async def _given(self, redis: Redis, name: str, known: str | None) -> str:
        """Read a user's Secret, for which there are no watch events.

        While passwords are known, a slow API server does not delay a failover: the last read value
        is used, and the Secret is read again during a later observation.
        """
        mark, now = (redis.metadata.uid, name), self._clock()
        reading = self._read.get(mark) or _Reading(0.0, known)
        if known is None or reading.password is None or now - reading.at >= _FRESH_SECONDS:
            self._read[mark] = replace(reading, at=now)  # also while it is read, and if that fails
            timeout = _TIMEOUT if reading.password is None else _HASTY_TIMEOUT
            try:
                secret = await self._live((redis.metadata.namespace, name), timeout)
                reading = self._read[mark] = _judged(redis, name, secret, now, reading.password)
            except Forbidden as error:
                if reading.password is None:
                    raise
                problem = (
                    f"spec.auth.secretName: the operator may not read Secret {name}, so a changed "
                    f"password would not be noticed; the one that is known stays. {error}"
                )
                reading = self._read[mark] = replace(reading, at=now, problem=problem)
            except KubeError:
                if reading.password is None:
                    raise
        if reading.problem:
            raise PasswordError(reading.problem)
        assert reading.password is not None
        return reading.password

    async def _own(self, redis: Redis, name: str) -> Secret | None:
        """Return a Secret of the database, also one whose label was removed."""
        key = (redis.metadata.namespace, name)
        found = self._world.secret(key) or await self._live(key)
        if found is None or limitation(redis, found.metadata) is not None:
            return None
        return found

    async def _live(self, key: Key, timeout: float = _TIMEOUT) -> Secret | None:
        try:
            return await self._client.get(SECRETS, key, timeout=timeout)
        except NotFound:
            return None

    def binding(self, redis: Redis) -> str:
        """Return the password that the binding is known to give to applications."""
        key = (redis.metadata.namespace, names.connection_secret(redis.metadata.name))
        found = self._world.secret(key)
        return (found.data or {}).get("password", b"").decode() if found is not None else ""

    def keep(self, redis: Redis, passwords: Passwords) -> None:
        """Remember the passwords of a database."""
        self._memory.keep(redis.metadata.uid, passwords)

    def forget(self, uid: str) -> None:
        """Forget a database that is gone."""
        self._memory.forget(uid)
        for mark in [mark for mark in self._read if mark[0] == uid]:
            del self._read[mark]
