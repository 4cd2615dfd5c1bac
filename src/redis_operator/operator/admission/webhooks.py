"""Admission as every replica serves it: reviews in, verdicts out.

Only the certificate and its CA bundle are written: a dry run is judged like any other write.
Verdicts are based on the caches of the controller. A replica whose caches are not synced yet says
so, and the failure policy of the rule decides. Running databases do not need this: without a
certificate, a permission or a port it is not served, and everything else is.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubecontroller import (
    Client,
    Key,
    Kind,
    KubeError,
    Manager,
    Manifest,
    NotFound,
    ObjectMeta,
    Regarding,
    controller_of,
    meta_of,
    serve_webhooks,
)
from kubecontroller.runtime import (
    VALIDATING,
    Admission,
    AdmissionRequest,
    Admit,
    Allowed,
    Cause,
    Certificate,
    Denied,
    IssuedCertificate,
    WebhookServer,
    serve_with,
    webhook_target,
)
from redis_operator.api.redis import Redis
from redis_operator.api.shape import Problem
from redis_operator.api.validation import load
from redis_operator.api.version import RedisVersionSpec, find_version, read_entry
from redis_operator.api.webhooks import (
    CONFIGURATION,
    INSTALLATION_LABEL,
    ISSUED_SECRET,
    SECRET,
    WEBHOOKS,
    service_names,
)
from redis_operator.manifests.build import build
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.manifests.names import config_map
from redis_operator.operator.admission.verdicts import (
    Database,
    Verdict,
    judge_catalog,
    judge_redis,
    judge_redis_failover,
    judge_schedule,
)
from redis_operator.operator.objects.ownership import chosen_version, limitation
from redis_operator.operator.redis_failovers import name_limitation
from redis_operator.operator.settings import Settings, WebhookCertificate
from redis_operator.operator.world import CHILD_KINDS, World
from redis_operator.redis.versions import parse_version

__all__ = ["Reviews", "add_admission"]

_MOST_LOOKED_FOR: Final = 40  # objects that are read before a database is allowed
_LOOK_SECONDS: Final = 2.0
_NO_PASSWORDS: Final = Passwords("", "", "", "", "")


class NotSynced(RuntimeError):  # noqa: N818 - the state of affairs
    """The caches are not synced yet: any verdict now would be a guess."""


def add_admission(
    manager: Manager, settings: Settings, world: World
) -> tuple[Certificate, WebhookServer]:
    """Serve admission from now on, on every replica."""
    namespace = settings.namespace
    reviews = Reviews(world, manager.unfenced_client)
    admission = {hook.path: reviews.of(hook.resource) for hook in WEBHOOKS}
    host, port = settings.webhook_host, settings.webhook_port
    if settings.webhook_certificate is WebhookCertificate.ISSUED:
        issued = IssuedCertificate(
            manager.unfenced_client,
            secret=(namespace, ISSUED_SECRET),
            names=service_names(namespace)[:1],
        )
        return issued, serve_with(manager, issued, admission=admission, host=host, port=port)
    about = Regarding("v1", "Secret", namespace, SECRET)

    def renewed(reason: str) -> None:
        text = f"the certificate of admission was renewed: {reason}"
        manager.recorder.normal(about, "CertificateRenewed", text)

    return serve_webhooks(
        manager,
        secret=(namespace, SECRET),
        labels={INSTALLATION_LABEL: namespace},
        names=service_names(namespace),
        targets=[webhook_target(VALIDATING, CONFIGURATION, [hook.name for hook in WEBHOOKS])],
        admission=admission,
        host=host,
        port=port,
        on_renewed=renewed,
    )


class Reviews:
    """Judges the objects of admission reviews."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client

    def of(self, resource: str) -> Admit:
        """Return the function that judges objects of one resource."""
        judges: dict[str, Admit] = {
            "redis": self.redis,
            "redisfailovers": self.redis_failover,
            "redisbackupschedules": self.redis_backup_schedule,
            "redisversions": self.redis_version,
        }
        return judges[resource]

    async def redis(self, request: AdmissionRequest) -> Admission:
        """Judge a database."""
        new, old = request.object or {}, request.old_object
        self._check_synced()
        verdict = judge_redis(new, old, self._catalog(), chosen=self._chosen(new))
        if old is None and not verdict.problems:
            verdict = await self._with_names(new, verdict)
        return _answer(verdict)

    async def redis_failover(self, request: AdmissionRequest) -> Admission:
        """Judge a `RedisFailover` by the database that it would own."""
        new, old = request.object or {}, request.old_object
        self._check_synced()
        key = (request.namespace, request.name)
        redis = self._world.redis(key)
        taken = name_limitation(new, meta_of(redis)) if redis is not None else None
        own = redis if taken is None else None
        chosen = self._chosen(own) if own is not None else ""
        verdict = judge_redis_failover(new, old, own, self._catalog(), chosen=chosen)
        if old is None and taken is not None and redis is not None:
            text = f"Redis {request.name} {taken}"
            ends = _ends_soon(meta_of(redis), "RedisFailover", request.name)
            verdict = _added(verdict, "metadata.name", text, waits=ends)
        return _answer(verdict)

    async def redis_backup_schedule(self, request: AdmissionRequest) -> Admission:
        """Judge a schedule of backups by itself: its database may be created after it."""
        return _answer(judge_schedule(request.object or {}, request.old_object))

    async def redis_version(self, request: AdmissionRequest) -> Admission:
        """Judge a change of the catalog, or the deletion of an entry."""
        self._check_synced()
        old = request.old_object or {}
        catalog = {raw["metadata"]["name"]: raw for raw in self._world.versions.cache}
        catalog[request.name] = old
        databases = [Database(raw, self._chosen(raw)) for raw in self._world.all_redises()]
        return _answer(judge_catalog(request.name, request.object, catalog, databases))

    # Known state

    def _check_synced(self) -> None:
        missing = [one.kind.kind for one in (self._world.redises,) if not one.has_synced]
        if missing:
            raise NotSynced(f"no list yet of {', '.join(sorted(set(missing)))}")

    def _catalog(self) -> list[RedisVersionSpec]:
        entries = map(read_entry, self._world.versions.cache)
        return [entry for entry in entries if entry is not None]

    def _chosen(self, raw: Manifest) -> str:
        redis = load(raw)
        if not isinstance(redis, Redis):
            return ""
        key = (redis.metadata.namespace, config_map(redis.metadata.name))
        found = self._world.child(("v1", "ConfigMap"), key)
        return chosen_version(redis, found.metadata if found is not None else None)

    # Names that are taken

    async def _with_names(self, new: Manifest, verdict: Verdict) -> Verdict:
        """Refuse a database whose objects would have the names of existing foreign ones. K-28"""
        redis = load(new)
        assert isinstance(redis, Redis)
        wanted = self._objects(redis)
        looks = (self._live(kind, key) for kind, key in wanted)
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await asyncio.gather(*looks)
        except TimeoutError:
            return verdict  # unknown: the controller checks again before it changes anything
        for (kind, key), live in zip(wanted, found, strict=True):
            taken = limitation(redis, live.metadata) if live is not None else None
            if taken is not None and live is not None:
                text = f"{kind.kind} {key[1]} {taken}"
                ends = _ends_soon(live.metadata, "Redis", redis.metadata.name)
                verdict = _added(verdict, "metadata.name", text, waits=ends)
        return verdict

    def _objects(self, redis: Redis) -> list[tuple[Kind[Any], Key]]:
        """Return the objects of a new database; those that every database has come first."""
        entry = find_version(redis.spec, self._catalog())
        version = (
            parse_version(redis.spec.engine.value, entry.version)
            if isinstance(entry, RedisVersionSpec)
            else None
        )
        if version is None:
            return []
        documents = build(redis, Facts(version, "", _NO_PASSWORDS))
        return [
            (CHILD_KINDS[made["apiVersion"], made["kind"]], _key(made))
            for made in documents[:_MOST_LOOKED_FOR]
        ]

    async def _live(self, kind: Kind[Any], key: Key) -> Any:
        try:
            return await self._client.get(kind, key, timeout=_LOOK_SECONDS)
        except NotFound:
            return None
        except KubeError:
            return None  # unknown is not a reason to refuse


def _key(made: Manifest) -> Key:
    return made["metadata"]["namespace"], made["metadata"]["name"]


def _ends_soon(found: ObjectMeta, kind: str, name: str) -> bool:
    """Whether an object belongs to a deleted owner of the same name, and is deleted after it.

    A database that is created again at once is allowed: the controller waits.
    """
    owner = controller_of(found)
    return found.is_deleting or (owner is not None and (owner.kind, owner.name) == (kind, name))


def _added(verdict: Verdict, field: str, text: str, *, waits: bool) -> Verdict:
    """Return a verdict with one more problem, or a warning if it disappears by itself."""
    if waits:
        return Verdict(verdict.problems, (*verdict.warnings, f"{field}: {text}"))
    return Verdict((*verdict.problems, Problem(field, text)), verdict.warnings)


def _answer(verdict: Verdict) -> Admission:
    if not verdict.problems:
        return Allowed(verdict.warnings)
    text = "; ".join(map(str, verdict.problems))
    causes = tuple(Cause(problem.path, problem.message) for problem in verdict.problems)
    return Denied(text, code=422, causes=causes)
