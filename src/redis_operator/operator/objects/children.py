"""Keeps the objects of a database as `manifests` wants them, and deletes what is left over.

Each object is applied server-side under one field manager and stamped; nothing is sent while the
stamp says that nothing changed. An object with another owner is never changed, whether the cache
shows it or not: see `ownership`. IN-19, K-28
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kubecontroller import (
    ApiError,
    Applier,
    Client,
    Invalid,
    Key,
    Kind,
    Manifest,
    NotFound,
    NotOwned,
    Propagation,
)
from kubecontroller.client import key_of
from kubecontroller.runtime import write_own
from redis_operator.api.redis import Mode, OnDataLoss, Persistence, Redis, RedisSpec
from redis_operator.api.status import Endpoints
from redis_operator.api.version import RedisVersionSpec
from redis_operator.manifests import names
from redis_operator.manifests.build import MANAGED_KINDS, build
from redis_operator.manifests.config import proposed
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.manifests.layout import ServiceRow
from redis_operator.manifests.layouts import layout_of
from redis_operator.operator.mode_change import as_run
from redis_operator.operator.objects.look import is_left_out
from redis_operator.operator.objects.ownership import (
    chosen_version,
    limitation,
    pods_to_adopt,
    unrecorded,
)
from redis_operator.operator.wanted import read_acceptance
from redis_operator.operator.world import CHILD_KINDS, World
from redis_operator.planning.advice import ACCEPT_LOSS
from redis_operator.redis.slots import ALL_SLOTS
from redis_operator.redis.versions import Version, parse_version

__all__ = ["ChildError", "Children"]

_TIMEOUT = 10.0
_PRUNED = frozenset(
    {("policy/v1", "PodDisruptionBudget"), ("networking.k8s.io/v1", "NetworkPolicy")}
    | {("v1", "Service"), ("v1", "Secret")}
)


class ChildError(Exception):
    """The objects of a database cannot be as they should; the message says which and why."""


class _Built(msgspec.Struct, frozen=True):
    """The last manifests of a database, and their input."""

    meta: Any
    spec: Any
    facts: Facts
    wanted: tuple[Manifest, ...]


class Children:
    """The objects of all databases of one operator."""

    def __init__(
        self,
        client: Client,
        world: World,
        applier: Applier,
        *,
        namespace: str = "",
        labels: Mapping[str, str],
        binding_addresses: bool = False,
    ) -> None:
        self._binding_addresses = binding_addresses
        self._namespace = namespace
        self._labels = labels
        self._client = client
        self._world = world
        self._applier = applier
        self._uids: dict[Key, str] = {}
        self._built: dict[Key, _Built] = {}
        self._applied: dict[str, set[tuple[Kind[Any], Key]]] = {}  # by the database's uid
        self._writes: dict[str, int] = {}  # by the database's uid
        self._stamps: dict[str, dict[tuple[str, str], tuple[Manifest, str]]] = {}  # also by uid

    def as_run(self, redis: Redis) -> tuple[Redis, RedisSpec | None]:
        """Return a database in the mode that it is run in, and the spec it changes to, if any."""
        key = (redis.metadata.namespace, redis.metadata.name)
        return as_run(redis, self._world.workloads_of(key), self._world.claims_of(key))

    def facts(
        self,
        redis: Redis,
        entry: RedisVersionSpec,
        passwords: Passwords,
        *,
        becomes: RedisSpec | None = None,
    ) -> Facts:
        """Return what `manifests` needs to know in addition to the spec."""
        key = (redis.metadata.namespace, redis.metadata.name)
        version = _version(redis, entry)
        layout = layout_of(redis)
        pods = {
            group: found.spec.replicas or 0
            for found in self._world.workloads_of(key)
            if (group := layout.group_labelled(found.metadata.labels or {})) is not None
            and not found.metadata.is_deleting
        }
        adopted = pods_to_adopt(redis, (pod.metadata for pod in self._world.pods_of(key)))
        pods = adopted | pods
        if all(count == 0 for count in pods.values()):
            pods = {}  # hibernated, or nothing there yet: the spec alone says how many
        watching = layout.sentinels.group if layout.sentinels is not None else None
        left_out = [
            layout.group_labelled(pod.metadata.labels or {}) or 0
            for pod in self._world.pods_of(key)
            if is_left_out(pod)
        ]
        return Facts(
            version=version,
            image=redis.spec.image or entry.image,
            passwords=passwords,
            exporter_image=entry.exporter_image,
            minimum_patch=entry.minimum_patch,
            deprecated=entry.deprecated,
            running=self._running(redis),
            client_address=self._address((key[0], names.client_service(key[1]))),
            sentinel_address=self._address((key[0], names.sentinel_service(key[1]))),
            operator_namespace=self._namespace,
            operator_labels=self._labels,
            pods=pods,
            identity=self._identity(key),
            once_set=self._once_set(key),
            accepted=self._accepted(key) if redis.status.binding is not None else None,
            persistence=self._persistence(key),
            holds_losses=_holds_losses(redis),
            sidecar_broken=any(group != watching for group in left_out),
            sentinel_sidecar_broken=any(group == watching for group in left_out),
            becomes=becomes,
        )

    def endpoints(self, redis: Redis) -> Endpoints:
        """Return where clients reach the database: names, or addresses where there is no DNS."""
        namespace, name = redis.metadata.namespace, redis.metadata.name

        layout = layout_of(redis)

        def where(row: ServiceRow) -> str:
            service, sentinels = row.name(name), layout.sentinels
            port = sentinels.port.number if row.sentinels and sentinels else names.CLIENT_PORT
            host = self._address((namespace, service)) or f"{service}.{namespace}.svc"
            return f"{host}:{port}"

        addresses = {"clients" if row.optioned else row.key: where(row) for row in layout.services}
        watched = layout.sentinels is not None
        return Endpoints(
            **addresses, primary_name=names.primary_name(namespace, name) if watched else ""
        )

    def _address(self, service_key: Key) -> str:
        """Return the address of a Service, for bindings and endpoints without host names."""
        if not self._binding_addresses:
            return ""
        service = self._world.child(("v1", "Service"), service_key)
        address = service.spec.cluster_ip if service is not None else ""
        return "" if address == "None" else address

    def _running(self, redis: Redis) -> tuple[Version, ...]:
        """Return the versions that servers were last seen to run: their files must stay."""
        status, asked = redis.status, redis.spec.engine.value
        shown = {(status.engine or asked, status.version)}
        shown |= {(pod.engine or asked, pod.version) for pod in status.pods}
        found = [parse_version(engine, version) for engine, version in sorted(shown) if version]
        return tuple(
            dict.fromkeys(Version(v.engine, v.major, v.minor) for v in found if v is not None)
        )

    def _identity(self, key: Key) -> str:
        """Return the identity that retained volumes are marked with, if there are any. K-22"""
        for claim in self._world.claims_of(key):
            marked = claim.metadata.annotation(names.IDENTITY_ANNOTATION)
            if marked and not claim.metadata.is_deleting:
                return marked
        return ""

    def recorded(self, raw: Manifest) -> Manifest:
        """Return a database with the spec that its objects were last made from.

        The ConfigMap of this very object is annotated with the spec; without the annotation there
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
            spec = None  # the annotation was edited
        return {**raw, "spec": spec}

    def unrecorded(self, redis: Redis, facts: Facts) -> str:
        """Name the fields of a spec that differ from those its objects were last made from."""
        found = self._config_map((redis.metadata.namespace, redis.metadata.name))
        recorded = found.metadata.annotation(names.SPEC_ANNOTATION) if found is not None else ""
        return unrecorded(facts.becomes or redis.spec, recorded)

    def recorded_mode(self, raw: Manifest) -> Mode | None:
        """Return the mode in which a database was last reconciled, if one is recorded."""
        try:
            return Mode((self.recorded(raw)["spec"] or {}).get("mode"))
        except ValueError:
            return None

    def chosen(self, redis: Redis) -> str:
        """Return the version of the spec's engine that the database was created with. IN-29"""
        found = self._config_map((redis.metadata.namespace, redis.metadata.name))
        return chosen_version(redis, found.metadata if found is not None else None)

    def _config_map(self, key: Key) -> Any:
        return self._world.child(("v1", "ConfigMap"), (key[0], names.config_map(key[1])))

    def _once_set(self, key: Key) -> frozenset[str]:
        """Return the directives that the spec has or had, from the annotation of the ConfigMap."""
        found = self._config_map(key)
        marked = found.metadata.annotation(names.SETTINGS_ANNOTATION) if found is not None else ""
        return frozenset(marked.split())

    def _accepted(self, key: Key) -> dict[str, str] | None:
        """Return the values that servers accepted live, from the annotation of the ConfigMap."""
        found = self._config_map(key)
        marked = found.metadata.annotation(names.ACCEPTED_ANNOTATION) if found is not None else ""
        try:
            return msgspec.json.decode(marked, type=dict[str, str]) if marked else None
        except msgspec.DecodeError:
            return None  # the annotation was edited

    def _persistence(self, key: Key) -> Persistence | None:
        """Return the kind of persistence that pods start with, from the annotation."""
        found = self._config_map(key)
        marked = found.metadata.annotation(names.PERSISTENCE_ANNOTATION) if found else ""
        try:
            return Persistence(marked) if marked else None
        except ValueError:
            return None  # the annotation was edited

    async def accept(
        self, redis: Redis, facts: Facts, taken: Mapping[str, str], *, persisted: bool = False
    ) -> Facts:
        """Let pods start with what servers have accepted; return the facts after that.

        These are the proposed values that a server has, and the kind of persistence whose files all
        have.
        """
        changes = facts.persistence not in (None, redis.spec.persistence)
        if changes and persisted:
            facts = replace(facts, persistence=redis.spec.persistence)
            await self.ensure(redis, facts)
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
        files = [d for d in self._build(redis, found) if d["kind"] == "ConfigMap"]
        self._raise(await self._ensure_all(redis, files))
        return found

    def writes(self, redis: Redis) -> int:
        """Return how many objects of a database were written by this process."""
        return self._writes.get(redis.metadata.uid, 0)

    async def ensure(self, redis: Redis, facts: Facts) -> None:
        """Make every object as it should be, and delete those that should not exist.

        An object that fails does not stop the others; only workloads wait for what their pods need.

        Errors: `ChildError` that names every object that could not be brought up to date.
        """
        meta = redis.metadata
        self._uids[meta.namespace, meta.name] = meta.uid
        wanted = self._build(redis, facts)
        problems = await self._ensure_all(redis, wanted)
        try:
            await self._prune(redis, wanted)
        except ApiError as error:
            problems.append(str(error))
        self._raise(problems)

    async def ensure_surroundings(self, redis: Redis, facts: Facts) -> None:
        """Keep up objects that a refused version or size does not affect: no files, no workloads.

        Errors: `ChildError`.
        """
        wanted = [
            d for d in self._build(redis, facts) if d["kind"] not in ("ConfigMap", "StatefulSet")
        ]
        self._raise(await self._ensure_all(redis, wanted))

    async def ensure_secrets(self, redis: Redis, facts: Facts) -> None:
        """Make only the Secrets as they should be. Raises `ChildError`."""
        wanted = [d for d in self._build(redis, facts) if d["kind"] == "Secret"]
        self._raise(await self._ensure_all(redis, wanted))

    def _build(self, redis: Redis, facts: Facts) -> tuple[Manifest, ...]:
        """Return the manifests, built once as long as their input does not change.

        Of the metadata, only the name and the annotations are input, not the server's counters.
        """
        meta = redis.metadata
        key = (meta.namespace, meta.name)
        same = replace(meta, resource_version="", generation=0)
        found = self._built.get(key)
        if found is None or (found.meta, found.spec, found.facts) != (same, redis.spec, facts):
            wanted = build(redis, facts)
            found = self._built[key] = _Built(
                meta=same, spec=redis.spec, facts=facts, wanted=wanted
            )
        return found.wanted

    def _raise(self, problems: list[str]) -> None:
        if problems:
            raise ChildError("; ".join(problems))

    async def _ensure_all(self, redis: Redis, wanted: Iterable[Manifest]) -> list[str]:
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
        return problems

    async def _ensure_one(self, redis: Redis, document: Manifest, what: str) -> None:
        kind = CHILD_KINDS[document["apiVersion"], document["kind"]]
        key = (document["metadata"]["namespace"], document["metadata"]["name"])
        if self._is_orphaned(redis):
            meta = {k: v for k, v in document["metadata"].items() if k != "ownerReferences"}
            document = {**document, "metadata": meta}
        try:
            await write_own(
                self._client,
                kind,
                key,
                observed=self._world.child((kind.api_version, kind.kind), key),
                limitation=partial(limitation, redis),
                write=partial(self._apply, redis, kind, document),
            )
        except NotOwned as error:
            raise ChildError(f"{what} {error.limitation}") from None

    def _is_orphaned(self, redis: Redis) -> bool:
        """Whether a deletion that is blocked (`protected`) removed the owner from the objects.

        They are not adopted again, or they would be deleted with the database later. K-31
        """
        meta = redis.metadata
        return meta.is_being_deleted and any(
            all(owner.uid != meta.uid for owner in found.metadata.owner_references or ())
            for kind in MANAGED_KINDS
            for found in self._world.children_of(kind, (meta.namespace, meta.name))
        )

    async def _apply(
        self, redis: Redis, kind: Kind[Any], document: Manifest, observed: Any
    ) -> None:
        """Apply one object over the existing one; a missing one is created without force."""
        version = ""
        if document["kind"] == "StatefulSet" and observed is not None:
            # Only plans decide how many pods there are: the number is kept, and only over the
            # very version that it was read from.
            spec = {**document["spec"], "replicas": observed.spec.replicas}
            document = {**document, "spec": spec}
            version = observed.metadata.resource_version
        self._applied.setdefault(redis.metadata.uid, set()).add((kind, key_of(document)))
        try:
            sent = await self._applier.apply(
                kind.plain(),
                document,
                observed=observed,
                owner=redis_owner(redis),
                force=observed is not None,
                resource_version=version,
                stamp=self._stamp(redis, document),
            )
            if sent is not None:
                self._writes[redis.metadata.uid] = self.writes(redis) + 1
        except Invalid as error:
            if not _is_frozen(document, observed, error):
                raise
            await self._client.delete(
                kind,
                key_of(document),
                uid=observed.metadata.uid,
                propagation=Propagation.ORPHAN,
                timeout=_TIMEOUT,
            )

    def _stamp(self, redis: Redis, document: Manifest) -> str:
        """Return the hash of an object, computed once as long as the object is the same."""
        known = self._stamps.setdefault(redis.metadata.uid, {})
        place = (document["kind"], document["metadata"]["name"])
        found = known.get(place)
        if found is None or found[0] != document:
            found = known[place] = (document, self._applier.stamp_of(document))
        return found[1]

    async def _prune(self, redis: Redis, wanted: tuple[Manifest, ...]) -> None:
        """Delete the database's objects that `manifests` does not want any more."""
        key = (redis.metadata.namespace, redis.metadata.name)
        keep = {(d["apiVersion"], d["kind"], d["metadata"]["name"]) for d in wanted}
        keep.add(("v1", "Secret", redis.spec.auth.secret_name))  # it may be the generated one
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

    def forget(self, key: Key) -> str:
        """Forget a database that is gone; return its uid, if it was known."""
        self._built.pop(key, None)
        uid = self._uids.pop(key, "")
        self._writes.pop(uid, None)
        self._stamps.pop(uid, None)
        for kind, child in self._applied.pop(uid, ()):
            self._applier.forget(kind, child)
        return uid


def _holds_losses(redis: Redis) -> bool:
    """Whether data of a database that was in use may not be replaced by nothing."""
    everything = layout_of(redis).everything
    text = redis.metadata.annotations.get(ACCEPT_LOSS, "")
    accepted = read_acceptance(text, everything=everything)
    in_use = redis.status.binding is not None
    return in_use and redis.spec.on_data_loss is OnDataLoss.HOLD and accepted.slots != ALL_SLOTS


def _is_frozen(document: Manifest, observed: Any, error: Invalid) -> bool:
    """Whether a StatefulSet differs only in an immutable field: the size of its claims.

    Then it is recreated and adopts the pods. Any other problem would prevent its creation. IN-03
    """
    fields = [(cause.field, cause.reason) for cause in error.causes]
    return (
        document["kind"] == "StatefulSet"
        and observed is not None
        and fields == [("spec", "FieldValueForbidden")]
    )


def redis_owner(redis: Redis) -> Manifest:
    """Return a database as an owner: only what names it."""
    meta = redis.metadata
    named = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    return {"apiVersion": redis.api_version, "kind": redis.kind, "metadata": named}


def _version(redis: Redis, entry: RedisVersionSpec) -> Version:
    version = parse_version(redis.spec.engine.value, entry.version)
    if version is None:
        raise ChildError(f"{entry.version!r} is not a version; use one such as 9.1")
    return version
