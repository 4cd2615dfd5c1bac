"""One pass over one `RedisFailover`: translate it, apply its `Redis`, report the result.

The `Redis` has the same name and is owned: deleting the `RedisFailover` deletes it. A `Redis` with
another owner is refused by name and never changed. If the spec cannot be translated, the `Redis`
stays as it is. K-28
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from kubecontroller import (
    Again,
    ApiError,
    Applier,
    BadRequest,
    Caches,
    Client,
    Done,
    Forbidden,
    Invalid,
    Key,
    KubeError,
    Manifest,
    NotFound,
    ObjectMeta,
    Outcome,
    Recorder,
    Regarding,
    Retry,
    controller_of,
    fields,
    meta_of,
)
from redis_operator.api.redis import Redis
from redis_operator.api.redisfailover import RedisFailoverStatus
from redis_operator.api.redisfailover_validation import load_redisfailover_status
from redis_operator.api.validation import change_problems, load
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES
from redis_operator.translation.status import Refusal, failover_status
from redis_operator.translation.translate import (
    FAILOVER_LABEL,
    in_their_words,
    origins_of,
    translate,
    with_origin,
)

__all__ = ["RedisFailovers", "name_limitation"]

_LOG = logging.getLogger(__name__)
_TIMEOUT = 10.0
_REFUSED_SECONDS = 30.0  # no event reports new permissions or quotas


class RedisFailovers(Struct, frozen=True):
    """The controller of all `RedisFailover`s of one operator."""

    client: Client
    applier: Applier
    recorder: Recorder
    failovers: Caches[Manifest]
    redises: Caches[Manifest]
    clock: Callable[[], float] = time.time

    async def reconcile(self, key: Key) -> Outcome:
        """Bring the `Redis` of one of them up to date, and copy its status."""
        raw = self.failovers.get(key)
        if raw is None:
            self.applier.forget(REDISES, key)
            return Done()
        if meta_of(raw).is_deleting:
            return Done()  # its Redis is deleted with it, by its owner reference
        try:
            return await self._pass(key, raw)
        except KubeError as error:
            return Retry(error)

    async def _pass(self, key: Key, raw: Manifest) -> Outcome:
        found = self.redises.get(key)
        if found is None:
            found = await self._live(key)
        taken = name_limitation(raw, meta_of(found)) if found is not None else None
        if taken is not None:
            await self._report(raw, None, Refusal("ChildRefused", (f"Redis {key[1]} {taken}",)))
            return Done()  # changes of that Redis trigger the next pass
        wanted = translate(raw)
        problems = wanted if isinstance(wanted, tuple) else _changes(found, wanted)
        if problems:
            refusal = Refusal("InvalidSpec", tuple(str(problem) for problem in problems))
            await self._report(raw, found, refusal)
            return Done()
        if found is not None and meta_of(found).is_deleting:
            refusal = Refusal("ChildRefused", (f"Redis {key[1]} is being deleted",))
            await self._report(raw, found, refusal)
            return Done()
        assert isinstance(wanted, dict)
        try:
            applied = await self._apply(raw, wanted, found)
        except (Forbidden, Invalid, BadRequest) as error:
            await self._report(raw, found, Refusal("ChildRefused", (_refused(key, error),)))
            return Again(_REFUSED_SECONDS)
        await self._report(raw, applied or found, None)
        return Done()

    async def _apply(
        self, raw: Manifest, wanted: Manifest, found: Manifest | None
    ) -> Manifest | None:
        """Apply the `Redis`; one with another owner that appeared meanwhile is not taken over."""
        return await self.applier.apply_owned(
            REDISES,
            wanted,
            owner_kind=REDIS_FAILOVERS,
            owner=raw,
            observed=found,
            limitation=partial(name_limitation, raw),
        )

    async def _live(self, key: Key) -> Manifest | None:
        try:
            return await self.client.get(REDISES, key, timeout=_TIMEOUT)
        except NotFound:
            return None

    async def _report(self, raw: Manifest, redis: Manifest | None, refusal: Refusal | None) -> None:
        meta, before = raw["metadata"], load_redisfailover_status(raw)
        now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        after = failover_status(
            meta.get("generation", 0),
            redis,
            refusal,
            previous=before,
            now=now,
            words=partial(in_their_words, origins=origins_of(raw)),
        )
        if refusal is not None:
            _LOG.info(
                "the RedisFailover is not followed",
                extra=fields(name=meta["name"], reason=refusal.reason, why=refusal.text),
            )
        key = (meta["namespace"], meta["name"])
        try:
            written = await self.applier.apply_status(
                REDIS_FAILOVERS, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return  # it was deleted meanwhile
        if written is not None:
            self._announce(raw, before, after)

    def _announce(
        self, raw: Manifest, before: RedisFailoverStatus, after: RedisFailoverStatus
    ) -> None:
        """Send an event when *Ready* changes: details are in the events of the `Redis`."""
        was = {c.type: (c.status, c.reason) for c in before.conditions}
        for condition in after.conditions:
            if condition.type != "Ready":
                continue
            if was.get("Ready") == (condition.status, condition.reason):
                continue
            about = Regarding.of(REDIS_FAILOVERS, raw)
            if condition.reason in ("InvalidSpec", "ChildRefused"):
                self.recorder.warning(about, condition.reason, condition.message)
            elif condition.status == "True":
                self.recorder.normal(about, condition.reason, condition.message)


def name_limitation(raw: Manifest, meta: ObjectMeta) -> str | None:
    """Return why the `Redis` with that name does not belong to this object, or None."""
    controller = controller_of(meta)
    if controller is None and meta.label(FAILOVER_LABEL) == meta.name:
        return None  # handed over by a person, or orphaned by a deletion
    if controller is None:
        return (
            "already exists and does not belong to this RedisFailover; give this one another name, "
            f"delete that Redis, or label it {FAILOVER_LABEL}={meta.name} to hand it over"
        )
    if controller.uid == raw["metadata"].get("uid"):
        return None
    if meta.is_deleting or (controller.kind, controller.name) == ("RedisFailover", meta.name):
        return (
            f"of the deleted {controller.kind} {controller.name} is still being deleted; this one "
            "waits until it is gone"
        )
    return (
        f"already exists and is owned by {controller.kind} {controller.name}; give this "
        "RedisFailover another name"
    )


def _changes(found: Manifest | None, wanted: Manifest) -> tuple[Any, ...]:
    """Return why the existing `Redis` cannot be changed to the wanted one."""
    old, new = load(found) if found is not None else None, load(wanted)
    if not isinstance(old, Redis) or not isinstance(new, Redis):
        return ()
    return tuple(with_origin(problem, {}) for problem in change_problems(old.spec, new.spec))


def _refused(key: Key, error: ApiError) -> str:
    return f"Redis {key[1]} may not be applied: {error}"


def _plain(status: RedisFailoverStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
