"""Where the passwords of databases are read from, and what is done when they are gone. IN-28"""

from __future__ import annotations

from redis_operator.api.redis import Redis
from redis_operator.kube.client import Client
from redis_operator.kube.errors import NotFound
from redis_operator.kube.meta import Key
from redis_operator.kube.objects import SECRETS, Secret
from redis_operator.manifests import names
from redis_operator.manifests.facts import Passwords
from redis_operator.manifests.secrets import PASSWORD_KEY
from redis_operator.operator.ownership import limitation
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
_FIRST_KEY = "operator"


class PasswordStore:
    """The passwords of all databases of one operator."""

    def __init__(self, client: Client, world: World) -> None:
        self._client = client
        self._world = world
        self._memory = PasswordMemory()

    async def read(self, redis: Redis) -> Passwords:
        """Return the passwords of a database, made up if it is new. Raises `PasswordError`."""
        meta = redis.metadata
        users = await self._own(redis, names.users_secret(meta.name))
        found = newest(self._memory.get(meta.uid), users.data if users is not None else None)
        if found is None:
            copy = await self._own(redis, names.recovery_secret(meta.name))
            found = newest(None, copy.data if copy is not None else None)
        marked = meta.annotations.get(names.ROTATE_ANNOTATION, "")
        if found is not None:
            default = await self._wanted(redis, known=found.default)
            found = wished(found, default, marked)
        else:
            found = await self._first(redis, users, marked)
        self.keep(redis, found)
        return found

    async def _first(self, redis: Redis, users: Secret | None, marked: str) -> Passwords:
        data = users.data if users is not None else None
        if _FIRST_KEY not in (data or {}) and self._is_running(redis):
            name = redis.metadata.name
            raise SecretLost(
                f"Secret {names.users_secret(name)} and its copy {names.recovery_secret(name)} are "
                "gone or damaged, so the passwords of the running servers are not known. Servers "
                f"go on serving. Restore one of the two Secrets from a backup; or set the "
                f"annotation {names.NEW_PASSWORDS_ANNOTATION}=true and delete all pods, which has "
                "servers start with new passwords"
            )
        return created(await self._wanted(redis, known=None), data, marked)

    def _is_running(self, redis: Redis) -> bool:
        """Tell whether there may be servers that know other passwords than new ones."""
        meta = redis.metadata
        if meta.annotations.get(names.NEW_PASSWORDS_ANNOTATION) == "true":
            return False
        return bool(self._world.pods_of((meta.namespace, meta.name)))

    async def _wanted(self, redis: Redis, *, known: str | None) -> str:
        """Return the password that the default user should have: the owner's word, else as it is.

        A Secret of the owner's own is only read by name, whatever its labels say.
        """
        meta = redis.metadata
        if redis.spec.auth.secret_name:
            return await self._given((meta.namespace, redis.spec.auth.secret_name))
        ours = await self._own(redis, names.auth_secret(meta.name))
        if ours is not None and PASSWORD_KEY in (ours.data or {}):
            return read_password(ours.data, secret=ours.metadata.name)
        return known if known is not None else generated()

    async def _given(self, key: Key) -> str:
        secret = await self._live(key)
        if secret is None:
            raise PasswordError(
                f"spec.auth.secretName: there is no Secret {key[1]} in namespace {key[0]}; create "
                "it with a key `password`, or leave the field out to have one generated"
            )
        return read_password(secret.data, secret=key[1])

    async def _own(self, redis: Redis, name: str) -> Secret | None:
        """Return a Secret of the database, also one whose label somebody removed."""
        key = (redis.metadata.namespace, name)
        found = self._world.secret(key) or await self._live(key)
        if found is None or limitation(redis, found.metadata) is not None:
            return None
        return found

    async def _live(self, key: Key) -> Secret | None:
        try:
            return await self._client.get(SECRETS, key, timeout=_TIMEOUT)
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
