"""The input of one pass over a database, read once and kept together.

Spec, facts, credentials and generation of a pass are from one moment: nothing in it is read again
during the pass, except what the pass itself changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Key, KubeError, Manifest
from redis_operator.api.fitting import fitting_problems
from redis_operator.api.metadata import Metadata
from redis_operator.api.redis import Redis
from redis_operator.api.rules import MODE_CHANGE
from redis_operator.api.status import RedisStatus
from redis_operator.api.validation import load, load_status
from redis_operator.api.version import RedisVersionSpec, find_version
from redis_operator.manifests.facts import Facts
from redis_operator.manifests.users import OPERATOR, REPLICATION
from redis_operator.operator.background import Background, Pending
from redis_operator.operator.backups.precautions import Precautions
from redis_operator.operator.backups.replacements import replacement_facts
from redis_operator.operator.backups.restores import restore_facts
from redis_operator.operator.memory import Memories
from redis_operator.operator.objects.children import ChildError, Children
from redis_operator.operator.objects.look import memory_limit
from redis_operator.operator.observe import Observer, Request
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.passwords import PasswordError
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.operator.servers.sources import Sources
from redis_operator.operator.wanted import directives, wanted_of
from redis_operator.operator.world import World
from redis_operator.planning import gates
from redis_operator.planning.advice import Wanted
from redis_operator.planning.modes import MODES
from redis_operator.planning.observed import Observed
from redis_operator.planning.reporting.degradations import Degradation
from redis_operator.planning.sizes import lowered_too_far
from redis_operator.redis.connection import Credentials

__all__ = ["NotFollowed", "Pass", "PassReader"]

_CATCH_UP_SECONDS: Final = 0.01
_CATCH_UP_TIMES: Final = 20  # caches usually show a write soon after it


class Pass(Struct, frozen=True):
    """One pass over one database."""

    key: Key
    raw: Manifest  # the object as it was read
    redis: Redis  # the spec that is used
    facts: Facts
    wanted: Wanted
    reported: RedisStatus  # the status as it was last written
    refusal: str | None = None  # why running servers cannot change to the wanted version or size
    awaits_backup: bool = False  # the refusal ends when a backup has completed
    hindrance: Degradation | None = None  # why the spec is not used, or its objects differ
    error: KubeError | None = None  # why its objects could not be written

    @property
    def credentials(self) -> Credentials:
        """The login of the operator."""
        return Credentials(OPERATOR, self.facts.passwords.operator)

    @property
    def replication(self) -> Credentials:
        """The login of servers to each other."""
        return Credentials(REPLICATION, self.facts.passwords.replication)

    @property
    def may_change(self) -> bool:
        """Whether objects and passwords may be changed to what the spec says."""
        if self.redis.spec.paused or self.wanted.unwritten:
            return False
        return self.refusal is None and self.hindrance is None

    @property
    def may_settle_passwords(self) -> bool:
        """Whether passwords may be changed: a backup that the pass waits for needs its own user."""
        return replace(self, refusal=None).may_change if self.awaits_backup else self.may_change


class NotFollowed(Struct, frozen=True):
    """Why a spec cannot be used: the reason of a condition, and its messages."""

    reason: str
    messages: tuple[str, ...]


class PassReader(Struct, frozen=True):
    """Begins passes, and observes databases for them."""

    world: World
    observer: Observer
    children: Children
    passwords: PasswordStore
    memories: Memories
    movers: SlotMovers
    sources: Sources
    background: Background
    precautions: Precautions
    behind: Callable[[Key], str | None] = lambda _: None

    async def begin(self, key: Key, raw: Manifest) -> Pass | NotFollowed:
        """Read the wanted state of a database and bring its objects up to date.

        A database that was complete before is repaired whatever happens to its objects: objects
        that are not written yet block changes, and nothing else. K-13, K-14

        Errors: `ChildError` and `KubeError` if it never was complete.
        """
        one = await self._read(key, raw)
        if isinstance(one, NotFollowed):
            await self.background.stop(key)
            return one
        if one.redis.spec.paused:
            await self.background.stop(key)
            changed = self.children.unrecorded(one.redis, one.facts)
            return replace(one, wanted=replace(one.wanted, unwritten=changed))
        if one.reported.binding is None:
            await self._write(one)
            return one
        try:
            found = await self.background.run(key, "its objects", partial(self._written, one))
        except KubeError as error:
            return self._unwritten(one, f"its objects are not written: {error}", error)
        if isinstance(found, Pending):
            return self._unwritten(one, f"the API server has not responded yet about {found.what}")
        one = replace(one, hindrance=found)
        if found is not None and one.facts.becomes is not None:
            return self._unwritten(one, "objects of the mode that it becomes are refused")
        if self.behind(key) is not None:
            # The workload has just changed: pods match what it asked for before.
            return self._unwritten(one, "the caches do not show yet what was written")
        return one

    def _unwritten(self, one: Pass, why: str, error: KubeError | None = None) -> Pass:
        """Return a pass that begins no change which needs the objects of its spec."""
        wanted = replace(one.wanted, unwritten=why)
        known = one.hindrance or self.memories.hindrance(one.key)
        return replace(one, wanted=wanted, hindrance=known, error=error)

    async def _written(self, one: Pass) -> Degradation | None:
        """Bring the objects of a pass up to date; return why one of them is refused, or None."""
        try:
            await self._write(one)
            found = None
        except ChildError as error:
            found = Degradation("ChildRefused", str(error))
        self.memories.hindered(one.key, found)
        for _ in range(_CATCH_UP_TIMES):
            if self.behind(one.key) is None:
                break
            await asyncio.sleep(_CATCH_UP_SECONDS)
        return found

    async def _write(self, one: Pass) -> None:
        if one.refusal is not None:
            await self.children.ensure_surroundings(one.redis, one.facts)
            return
        await self.children.ensure(one.redis, one.facts)
        self.memories.follow(one.key, one.redis, one.facts)

    async def look(self, one: Pass, count_strays_on: tuple[str, ...]) -> tuple[Request, Observed]:
        """Observe a database with what is remembered of it; keys are counted on some pods."""
        key, movers = one.key, self.movers
        request = Request(
            key=key,
            credentials=one.credentials,
            mode=one.wanted.mode,
            directives=directives(one.wanted),
            count_strays_on=count_strays_on,
            memory=self.memories.of(
                key, one.reported, movers.moving(key), movers.duplicate_strays(key)
            ),
        )
        observed = await self.observer.observe(request)
        targets = self.observer.targets(request)
        source = await self.sources.look(one.redis, one.facts, observed, targets)
        observed = replace(observed, source=source)
        return request, self.memories.spellings.heard(key, observed)

    async def _read(self, key: Key, raw: Manifest) -> Pass | NotFollowed:
        loaded = self.memories.loaded(key, raw)
        if not isinstance(loaded, Redis):
            return NotFollowed("InvalidSpec", tuple(f"{p.path}: {p.message}" for p in loaded))
        entry = self._version(loaded)
        if isinstance(entry, str):
            return NotFollowed("UnknownVersion", (entry,))
        found = fitting_problems(loaded.spec, entry)
        if found:
            return NotFollowed("InvalidSpec", tuple(map(str, found)))
        forbidden = self._forbidden_change(raw, loaded)
        if forbidden:
            return NotFollowed("InvalidSpec", (forbidden,))
        run, becomes = self.children.as_run(loaded)
        try:
            passwords = await self.passwords.read(run)
        except PasswordError as error:
            return NotFollowed(error.reason, (str(error),))
        facts = self.children.facts(run, entry, passwords, becomes=becomes)
        facts = await self.sources.facts(run, facts)
        facts = restore_facts(run, facts, self.world)
        facts = replacement_facts(run, facts, self.world)
        facts = replace(facts, backup=self.world.backup_that_holds(key))
        one = _pass(key, raw, run, facts)
        refusal = await self._refusal(one)
        if refusal is None and self._is_another_version(one):
            waits = await self.precautions.before_update(one.redis)
            return replace(one, refusal=waits, awaits_backup=waits is not None)
        return replace(one, refusal=refusal)

    async def last_followed(self, key: Key, raw: Manifest, why: NotFollowed) -> Pass | None:
        """Return a pass with the last usable spec; None: no server runs with any."""
        before = load_status(raw)
        if before.binding is None:
            return None
        meta = msgspec.convert(raw["metadata"], Metadata)  # what people ask for by annotations now
        known = self.memories.last_followed(key, meta.uid)
        known = known or await self._recorded(raw)
        if known is None:
            return None
        redis, facts = known
        redis = replace(redis, status=before, metadata=meta)
        # What is remembered of a restore is from the pass that could use the spec.
        facts = replace(facts, filling=None, opening=None)
        one = _pass(key, raw, redis, replacement_facts(redis, facts, self.world))
        return replace(one, hindrance=Degradation(why.reason, "; ".join(why.messages)))

    def forget(self, key: Key) -> None:
        """Drop everything about a database that is gone."""
        self.passwords.forget(self.children.forget(key))
        self.observer.forget(key)
        self.memories.forget(key)
        self.movers.forget(key)
        self.sources.forget(key)

    async def _recorded(self, raw: Manifest) -> tuple[Redis, Facts] | None:
        """Return the last spec that a previous operator process used, if there is one."""
        loaded = load(self.children.recorded(raw))
        if not isinstance(loaded, Redis):
            return None
        entry = self._version(loaded)
        if isinstance(entry, str) and loaded.status.image:
            # Its RedisVersion was deleted: servers are repaired with the image that they run.
            running = replace(loaded.spec, image=loaded.status.image)
            entry = self._version(replace(loaded, spec=running))
        if isinstance(entry, str):
            return None
        run, becomes = self.children.as_run(loaded)
        try:
            passwords = await self.passwords.read(run, known_will_do=True)
        except PasswordError:
            return None
        return run, self.children.facts(run, entry, passwords, becomes=becomes)

    def _forbidden_change(self, raw: Manifest, redis: Redis) -> str:
        """Name a change since the last used spec that bypassed the API server's validation."""
        before, now = self.children.recorded_mode(raw), redis.spec.mode
        if before is None or MODES[before].is_sharded == MODES[now].is_sharded:
            return ""
        return f"spec.mode: {MODE_CHANGE}; it was {before.value}"

    def _version(self, redis: Redis) -> RedisVersionSpec | str:
        catalog = self.memories.catalog(self.world.versions.cache)
        return find_version(redis.spec, catalog, chosen=self.children.chosen(redis))

    async def _refusal(self, one: Pass) -> str | None:
        """Say why running servers cannot change to the wanted version or size, or return None.

        No template may have it then: a pod that restarts would have the refused version or size.
        I12
        """
        wanted, same = one.wanted, not self._is_another_version(one)
        limits = (memory_limit(pod) for pod in self.world.pods_of(one.key))
        shrinks = bool(wanted.memory_limit) and any(
            not limit or limit > wanted.memory_limit for limit in limits
        )
        if same and not shrinks:
            return None
        request = Request(key=one.key, credentials=one.credentials, mode=wanted.mode)
        observed = await self.observer.observe(request)
        return gates.limitation(wanted, observed) or lowered_too_far(wanted, observed)

    @staticmethod
    def _is_another_version(one: Pass) -> bool:
        """Whether the running engine or version differs from the wanted one."""
        wanted, running = one.wanted, one.reported.version
        engine = one.reported.engine or wanted.engine
        same = engine == wanted.engine and running.startswith(f"{wanted.version}.")
        return bool(running) and not same


def _pass(key: Key, raw: Manifest, redis: Redis, facts: Facts) -> Pass:
    wanted = wanted_of(redis, facts)
    return Pass(key=key, raw=raw, redis=redis, facts=facts, wanted=wanted, reported=redis.status)
