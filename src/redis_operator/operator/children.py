"""Keeps the objects of a database as `manifests` wants them, and removes what is left over.

Each object is applied server-side under one field manager and stamped; nothing is sent while the
stamp says that nothing changed. A child that belongs to another owner is never touched. IN-19
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.api.version import RedisVersionSpec
from redis_operator.kube.client import Client, Propagation
from redis_operator.kube.errors import ApiError, Invalid, NotFound
from redis_operator.kube.meta import Key, Manifest
from redis_operator.kube.objects import SECRETS
from redis_operator.manifests import names
from redis_operator.manifests.build import MANAGED_KINDS, build
from redis_operator.manifests.config import proposed
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.operator.passwords import (
    PasswordError,
    PasswordMemory,
    complete,
    generated,
    read_password,
)
from redis_operator.operator.world import CHILD_KINDS, World
from redis_operator.redis.versions import Version, parse_version
from redis_operator.runtime.applier import Applier

__all__ = ["ChildError", "Children"]

_TIMEOUT = 10.0
_PRUNED = frozenset(
    {("policy/v1", "PodDisruptionBudget"), ("networking.k8s.io/v1", "NetworkPolicy")}
    | {("v1", "Service"), ("v1", "Secret")}
)


class ChildError(Exception):
    """The objects of a database cannot be what they should; the message says which and why."""


class Children:
    """The objects of all databases of one operator."""

    def __init__(self, client: Client, world: World, applier: Applier) -> None:
        self._client = client
        self._world = world
        self._applier = applier
        self._memory = PasswordMemory()

    async def passwords(self, redis: Redis) -> Passwords:
        """Return the passwords of a database, made up if it is new. Raises `PasswordError`."""
        meta = redis.metadata
        key = (meta.namespace, redis.spec.auth.secret_name or names.auth_secret(meta.name))
        known = self._memory.get(meta.uid)
        own = self._world.secret((meta.namespace, names.users_secret(meta.name)))
        if redis.spec.auth.secret_name:
            default = await self._given_password(key)
        else:
            found = self._world.secret(key)
            if found is not None:
                default = read_password(found.data, secret=key[1])
            else:
                default = known.default if known is not None else generated()
        passwords = complete(default, own.data if own is not None else None, known)
        self._memory.keep(meta.uid, passwords)
        return passwords

    async def _given_password(self, key: Key) -> str:
        try:
            secret = await self._client.get(SECRETS, key, timeout=_TIMEOUT)
        except NotFound as error:
            raise PasswordError(
                f"spec.auth.secretName: there is no Secret {key[1]} in namespace {key[0]}; create "
                "it with a key `password`, or leave the field out to have one made"
            ) from error
        return read_password(secret.data, secret=key[1])

    def facts(self, redis: Redis, entry: RedisVersionSpec, passwords: Passwords) -> Facts:
        """Return what `manifests` needs to know besides the spec."""
        key = (redis.metadata.namespace, redis.metadata.name)
        version = _version(redis, entry)
        pods = {
            int(shard): found.spec.replicas or 0
            for found in self._world.workloads_of(key)
            if (shard := found.metadata.label(names.SHARD_LABEL)).isdecimal()
            and not found.metadata.is_deleting
        }
        pods = self._orphans(redis) | pods
        if all(count == 0 for count in pods.values()):
            pods = {}  # asleep, or nothing there yet: the spec alone says how many
        return Facts(
            version=version,
            image=redis.spec.image or entry.image,
            passwords=passwords,
            exporter_image=entry.exporter_image,
            running=self._running(redis),
            pods=pods,
            identity=self._identity(key),
            once_set=self._once_set(key),
            accepted=self._accepted(key) if redis.status.binding is not None else None,
        )

    def _orphans(self, redis: Redis) -> dict[int, int]:
        """Return how many pods a shard's next StatefulSet adopts, of those that have none now."""
        meta = redis.metadata
        found: dict[int, int] = {}
        for pod in self._world.pods_of((meta.namespace, meta.name)):
            place = names.place_of(meta.name, pod.metadata.name)
            owned = any(r.controller for r in pod.metadata.owner_references or ())
            if place is not None and not owned and not pod.metadata.is_deleting:
                found[place.shard] = max(found.get(place.shard, 0), place.ordinal + 1)
        return found

    def _running(self, redis: Redis) -> tuple[Version, ...]:
        """Return the versions that servers were last seen to run: their files must stay."""
        shown = redis.status.version
        version = parse_version(redis.spec.engine.value, shown) if shown else None
        return (Version(version.engine, version.major, version.minor),) if version else ()

    def _identity(self, key: Key) -> str:
        """Return the identity that retained volumes are marked with, if there are any. K-22"""
        for claim in self._world.claims_of(key):
            marked = claim.metadata.annotation(names.IDENTITY_ANNOTATION)
            if marked:
                return marked
        return ""

    def recorded(self, raw: Manifest) -> Manifest:
        """Return a database as it was when its objects were last made from its spec.

        The spec is what the ConfigMap of this very object is marked with; without such a mark there
        is none.
        """
        meta = raw["metadata"]
        found = self._config_map((meta["namespace"], meta["name"]))
        owners = (found.metadata.owner_references or ()) if found is not None else ()
        if found is None or all(owner.uid != meta.get("uid") for owner in owners):
            return {**raw, "spec": None}
        try:
            spec = msgspec.json.decode(found.metadata.annotation(names.SPEC_ANNOTATION))
        except msgspec.DecodeError:
            spec = None  # somebody wrote on it
        return {**raw, "spec": spec}

    def _config_map(self, key: Key) -> Any:
        return self._world.child(("v1", "ConfigMap"), (key[0], names.config_map(key[1])))

    def _once_set(self, key: Key) -> frozenset[str]:
        """Return the directives that the spec has or had, as the ConfigMap is marked with them."""
        found = self._config_map(key)
        marked = found.metadata.annotation(names.SETTINGS_ANNOTATION) if found is not None else ""
        return frozenset(marked.split())

    def _accepted(self, key: Key) -> dict[str, str] | None:
        """Return the live values that servers took, as the ConfigMap is marked with them."""
        found = self._config_map(key)
        marked = found.metadata.annotation(names.ACCEPTED_ANNOTATION) if found is not None else ""
        try:
            return msgspec.json.decode(marked, type=dict[str, str]) if marked else None
        except msgspec.DecodeError:
            return None  # somebody wrote on it

    async def accept(self, redis: Redis, facts: Facts, taken: Mapping[str, str]) -> Facts:
        """Let pods start with the proposed values that a server has taken; return what is so."""
        if facts.accepted is None:
            return facts
        wanted = proposed(redis.spec, facts.version)
        fresh = {
            name: value
            for name, value in wanted.items()
            if taken.get(name) == value and facts.accepted.get(name) != value
        }
        if not fresh:
            return facts
        found = replace(facts, accepted={**facts.accepted, **fresh})
        await self.ensure(redis, found)
        return found

    async def ensure(self, redis: Redis, facts: Facts) -> None:
        """Make every object what it should be, and delete what no longer should be.

        One that cannot be does not stop the others; only workloads wait for what their pods need.

        Errors: `ChildError` that tells of every object that could not be brought in order.
        """
        wanted = build(redis, facts)
        problems: list[str] = []
        for document in wanted:
            if problems and document["kind"] == "StatefulSet":
                break
            what = f"{document['kind']} {document['metadata']['name']}"
            try:
                await self._ensure_one(redis, document, what)
            except ChildError as error:
                problems.append(str(error))
            except ApiError as error:
                problems.append(f"{what}: {error}")
        try:
            await self._prune(redis, wanted)
        except ApiError as error:
            problems.append(str(error))
        if problems:
            raise ChildError("; ".join(problems))

    async def _ensure_one(self, redis: Redis, document: Manifest, what: str) -> None:
        kind = (document["apiVersion"], document["kind"])
        meta = document["metadata"]
        key = (meta["namespace"], meta["name"])
        observed = self._world.child(kind, key)
        self._check_owner(redis, observed, what)
        if observed is not None and observed.metadata.is_deleting:
            return  # its end comes back as an event
        try:
            await self._applier.apply(
                CHILD_KINDS[kind].plain(), document, observed=observed, owner=redis_owner(redis)
            )
        except Invalid as error:
            if not _is_frozen(document, observed, error):
                raise
            await self._client.delete(
                CHILD_KINDS[kind],
                key,
                uid=observed.metadata.uid,
                propagation=Propagation.ORPHAN,
                timeout=_TIMEOUT,
            )

    def _check_owner(self, redis: Redis, observed: Any, what: str) -> None:
        if observed is None:
            return
        controllers = [r for r in observed.metadata.owner_references or () if r.controller]
        if controllers and controllers[0].uid != redis.metadata.uid:
            other = controllers[0]
            raise ChildError(
                f"{what} belongs to {other.kind} {other.name}; give this database another name"
            )

    async def _prune(self, redis: Redis, wanted: tuple[Manifest, ...]) -> None:
        """Delete our own objects that `manifests` does not want any more."""
        key = (redis.metadata.namespace, redis.metadata.name)
        keep = {(d["apiVersion"], d["kind"], d["metadata"]["name"]) for d in wanted}
        for kind in MANAGED_KINDS:
            if kind not in _PRUNED:
                continue
            for found in self._world.children_of(kind, key):
                meta = found.metadata
                ours = any(r.uid == redis.metadata.uid for r in meta.owner_references or ())
                if (*kind, meta.name) in keep or not ours or meta.is_deleting:
                    continue
                try:
                    await self._client.delete(CHILD_KINDS[kind], meta.key, uid=meta.uid)
                except NotFound:
                    continue

    def forget(self, uid: str) -> None:
        """Forget a database that is gone."""
        self._memory.forget(uid)


def _is_frozen(document: Manifest, observed: Any, error: Invalid) -> bool:
    """Tell whether a StatefulSet differs only in what never changes: the size of its claims.

    Then it is made anew and adopts the pods. Anything else that is wrong with it would keep it
    from being made again. IN-03
    """
    fields = [(cause.field, cause.reason) for cause in error.causes]
    return (
        document["kind"] == "StatefulSet"
        and observed is not None
        and fields == [("spec", "FieldValueForbidden")]
    )


def redis_owner(redis: Redis) -> Manifest:
    """Return a database as an owner: what names it and no more."""
    meta = redis.metadata
    named = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    return {"apiVersion": redis.api_version, "kind": redis.kind, "metadata": named}


def _version(redis: Redis, entry: RedisVersionSpec) -> Version:
    version = parse_version(redis.spec.engine.value, entry.version)
    if version is None:
        raise ChildError(f"{entry.version!r} is no version; use one such as 9.1")
    return version
