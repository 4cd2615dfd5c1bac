"""One pass over one database: look, think, do, tell. The only place where the three rings meet.

A pass takes whatever it finds, however broken, and ends in a status. While there is something to do
at once it looks again within the same pass, so that forming and healing are not slowed by queues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.client.errors import Forbidden, KubeError
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.outcomes import Again, Done, Retry
from kubecontroller.runtime.outcomes import Outcome as Result
from redis_operator.api.redis import Redis
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.api.validation import config_problems, load, load_status
from redis_operator.api.version import RedisVersionSpec, exporter_problems, find_version
from redis_operator.manifests import names
from redis_operator.manifests.facts import Facts, Passwords
from redis_operator.manifests.users import OPERATOR, REPLICATION
from redis_operator.operator.children import ChildError, Children
from redis_operator.operator.dialects import DIALECTS
from redis_operator.operator.ending import Ending, is_protected
from redis_operator.operator.execute import Executor, Outcome
from redis_operator.operator.links import Links
from redis_operator.operator.live import ApiPods
from redis_operator.operator.look import memory_limit
from redis_operator.operator.memory import Memories
from redis_operator.operator.movers import SlotMovers
from redis_operator.operator.objects import ClusterObjects
from redis_operator.operator.observe import Observer, Request
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.passwords import PasswordError
from redis_operator.operator.report import Reporter
from redis_operator.operator.requests import close, met
from redis_operator.operator.rotation import Rotations
from redis_operator.operator.servers import Servers
from redis_operator.operator.wanted import directives, wanted_of
from redis_operator.operator.world import World
from redis_operator.planning import gates
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.connect import PATIENT_TIMES
from redis_operator.planning.common.configure import accepted, unpersisted
from redis_operator.planning.context import Context
from redis_operator.planning.degradations import Degradation
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.planning.sizes import lowered_too_far
from redis_operator.planning.status import refused, status
from redis_operator.redis.connection import Credentials
from redis_operator.redis.versions import parse_version

__all__ = ["Reconciler"]

_LOG = logging.getLogger(__name__)
_LOOKS = 40  # in one pass; then other databases have their turn
_SOON_SECONDS = 0.02
_BUSY_SECONDS = 1.0
_FORBIDDEN_SECONDS = 5.0
_USUAL = 0  # the priority of a database that nobody waits for more than for others


class Reconciler(Struct, frozen=True):
    """Everything a pass needs, made once for all databases."""

    world: World
    client: Any
    links: Links
    observer: Observer
    children: Children
    passwords: PasswordStore
    rotations: Rotations
    reporter: Reporter
    ending: Ending
    memories: Memories
    movers: SlotMovers
    interval: float
    clock: Callable[[], float] = time.time
    before: Callable[[Action], None] = lambda _: None
    behind: Callable[[Key], str | None] = lambda _: None

    async def reconcile(self, key: Key) -> Result:
        """Bring one database as far as it can be brought now."""
        raw = self.world.redis(key)
        if raw is None:
            self.forget(key)
            return Done()
        try:
            ends = bool(raw["metadata"].get("deletionTimestamp"))
            if ends and not is_protected(raw):
                await self._report_deletion(raw)
                return await self.ending.end(raw)
            if not ends and await self.ending.hold(raw):
                return Done()  # the finalizer comes back as an event
            return await self._pass(key, raw)
        except Forbidden as error:
            self.reporter.complain(raw, error)
            return Again(_FORBIDDEN_SECONDS, _USUAL)  # rights come back without a sign
        except KubeError as error:
            return Retry(error)

    async def _report_deletion(self, raw: Manifest) -> None:
        before = load_status(raw)
        await self.reporter.report(raw, before, replace(before, phase=Phase.DELETING, plan=()))

    def forget(self, key: Key) -> None:
        """Let go of a database that is gone."""
        self.observer.forget(key)
        self.world.forget(key)
        self.memories.forget(key)
        self.movers.forget(key)
        uid = self.children.forget(key)
        self.passwords.forget(uid)
        self.rotations.forget(uid)

    async def _pass(self, key: Key, raw: Manifest) -> Result:
        loaded = self.memories.loaded(key, raw)
        if not isinstance(loaded, Redis):
            problems = [f"{p.path}: {p.message}" for p in loaded]
            return await self._refuse(key, raw, "InvalidSpec", problems)
        entry = find_version(loaded.spec, self._catalog(), chosen=self.children.chosen(loaded))
        if isinstance(entry, str):
            return await self._refuse(key, raw, "UnknownVersion", [entry])
        version = parse_version(loaded.spec.engine.value, entry.version)
        found = [str(problem) for problem in config_problems(loaded.spec, version)]
        found += exporter_problems(loaded.spec, entry)
        if found:
            return await self._refuse(key, raw, "InvalidSpec", found)
        try:
            passwords = await self.passwords.read(loaded)
            facts = self.children.facts(loaded, entry, passwords)
            refusal = await self._refusal(key, loaded, facts)
            hindrance = None
            if not loaded.spec.paused and refusal is None:
                hindrance = await self._ensure(key, loaded, facts)
            elif not loaded.spec.paused:
                await self.children.ensure_surroundings(loaded, facts)
            return await self._bring(key, raw, loaded, facts, refusal=refusal, hindrance=hindrance)
        except PasswordError as error:
            return await self._refuse(key, raw, error.reason, [str(error)])
        except ChildError as error:
            return await self._refuse(key, raw, "ChildRefused", [str(error)])

    async def _ensure(self, key: Key, redis: Redis, facts: Facts) -> Degradation | None:
        """Bring the objects in order; return what is in the way, if what runs is cared for yet.

        A database that was whole once is healed whatever becomes of its objects. K-13, K-14
        """
        try:
            await self.children.ensure(redis, facts)
        except ChildError as error:
            if redis.status.binding is None:
                raise
            return Degradation("ChildRefused", str(error))
        self.memories.follow(key, redis, facts)
        return None

    async def _refusal(self, key: Key, redis: Redis, facts: Facts) -> str | None:
        """Say why what runs cannot become the wanted version or size: then no template may say so.

        A pod that ends meanwhile would come back as the refused version, or too small. I12
        """
        wanted = wanted_of(redis, facts)
        running = redis.status.version
        engine = redis.status.engine or wanted.engine
        same = not running or (engine == wanted.engine and running.startswith(f"{wanted.version}."))
        limits = (memory_limit(pod) for pod in self.world.pods_of(key))
        shrinks = bool(wanted.memory_limit) and any(
            not limit or limit > wanted.memory_limit for limit in limits
        )
        if same and not shrinks:
            return None
        credentials = Credentials(OPERATOR, facts.passwords.operator)
        request = Request(key=key, credentials=credentials, mode=redis.spec.mode)
        observed = await self.observer.observe(request)
        return gates.limitation(wanted, observed) or lowered_too_far(wanted, observed)

    async def _bring(
        self,
        key: Key,
        raw: Manifest,
        redis: Redis,
        facts: Facts,
        *,
        refusal: str | None,
        hindrance: Degradation | None,
    ) -> Result:
        """Look, plan and act until there is nothing to do at once."""
        wanted = wanted_of(redis, facts)
        count_on: tuple[str, ...] = ()
        told = redis.status
        acted = False
        for _ in range(_LOOKS):
            request = Request(
                key=key,
                credentials=Credentials(OPERATOR, facts.passwords.operator),
                mode=redis.spec.mode,
                directives=directives(wanted),
                count_on=count_on,
                memory=self.memories.of(
                    key, told, self.movers.moving(key), self.movers.shadows(key)
                ),
            )
            observed = await self.observer.observe(request)
            observed = self.memories.spellings.heard(key, observed)
            advice = plan(wanted, observed, self.clock())
            if refusal is not None:
                advice = replace(
                    advice, blocked=tuple({refusal: 0} | dict.fromkeys(advice.blocked))
                )
            if advice.is_announced:
                context = self._context(key, redis, told, hindrance)
                before = status(wanted, observed, advice, context)
                if before.plan != told.plan:  # else what failed last time would be untold and told
                    told = await self.reporter.report(raw, told, before)
            outcomes = await self._carry_out(raw, redis, request, advice, facts.passwords)
            self.memories.attempted(key, observed, advice)
            self.memories.learn(key, observed, outcomes)
            if not redis.spec.paused and refusal is None and hindrance is None:
                facts = await self.children.accept(
                    redis,
                    facts,
                    accepted(wanted, observed),
                    persisted=unpersisted(wanted, observed) is None,
                )
                facts = await self.rotations.settle(
                    redis,
                    facts,
                    observed,
                    self.observer.targets(request),
                    moving=bool(self.movers.moving(key)),
                )
            for request_met in met(redis.metadata.annotations, wanted, observed):
                await close(self.client, raw, request_met)
            count_on = advice.count_on
            failures = [o.error for o in outcomes if not o.done]
            image = facts.image if advice.settled else ""
            context = self._context(key, redis, told, hindrance, failures, image=image)
            after = status(wanted, observed, advice, context)
            if not self._goes_on(advice, outcomes) or self._is_superseded(key, redis):
                await self.reporter.report(raw, told, after)
                return self._rest(advice, observed, outcomes)
            acted = acted or bool(outcomes)
            await asyncio.sleep(_SOON_SECONDS)
        await self.reporter.report(raw, told, after)
        # Looking alone does not bring it about: others have their turn.
        return Again(_SOON_SECONDS if acted else _BUSY_SECONDS)

    async def _carry_out(
        self, raw: Manifest, redis: Redis, request: Request, advice: Plan, passwords: Passwords
    ) -> tuple[Outcome, ...]:
        if not advice.stages:
            return ()
        pods = ApiPods(self.client, request.key[0])
        targets = self.observer.targets(request)
        servers = Servers(self.links, targets, pods, DIALECTS[request.mode])
        objects = ClusterObjects(
            self.client,
            *request.key,
            servers,
            layout=request.layout,
            keep_claims=redis.spec.storage is not None and redis.spec.storage.retain,
            on_written=self.world.wrote,
        )
        login = Credentials(REPLICATION, passwords.replication)
        movers = self.movers.of(request.key, login)
        executor = Executor(
            servers.effects(),
            objects.effects(),
            movers.effects(servers),
            DIALECTS[request.mode].effects(servers, passwords),
            before=self.before,
        )
        _LOG.info("acting", extra=fields(rule=advice.rule, why=advice.why, steps=len(advice.steps)))
        outcomes = await executor.carry_out(advice)
        for outcome in outcomes:
            if not outcome.done:
                _LOG.info("not done", extra=fields(action=outcome.action, why=outcome.error))
        if advice.event and any(outcome.done for outcome in outcomes):
            self.reporter.tell(raw, advice.rule, advice.event, advice.why)
        return outcomes

    def _is_superseded(self, key: Key, redis: Redis) -> bool:
        """Tell whether somebody wants something else since this pass began."""
        now = self.world.redis(key)
        return now is None or now["metadata"].get("generation") != redis.metadata.generation

    def _goes_on(self, advice: Plan, outcomes: tuple[Outcome, ...]) -> bool:
        """Tell whether looking again at once may show something new to do.

        What was refused now is refused again at once: counting keys over and over for it would only
        burden the servers.
        """
        refused = any(not outcome.done for outcome in outcomes)
        if advice.count_on and not refused:
            return True
        if advice.again_after is not None and advice.again_after < 0.5:
            return True
        return bool(outcomes) and not refused

    def _rest(self, advice: Plan, observed: Observed, outcomes: tuple[Outcome, ...]) -> Result:
        """Say when to look again although nothing happens."""
        spans = [self.interval]
        if advice.again_after is not None:
            spans.append(advice.again_after)
        if advice.stages or advice.blocked or observed.unreachable or outcomes:
            spans.append(_BUSY_SECONDS)
        hears = all(tried.times < PATIENT_TIMES for tried in observed.introductions)
        if hears and any(not node.state_ok for node in observed.seen):
            spans.append(0.1)
        # What was urgent is not when it is at rest: others need the workers for what is.
        return Again(min(spans), None if len(spans) > 1 else _USUAL)

    async def _refuse(self, key: Key, raw: Manifest, reason: str, messages: list[str]) -> Result:
        """Tell why a spec cannot be followed; what runs is cared for by the last that could be."""
        meta, before = raw["metadata"], load_status(raw)
        generation = meta.get("generation", 0)
        _LOG.info("the spec is invalid", extra=fields(reason=reason, problems=messages))
        known = self.memories.last_followed(key, meta.get("uid", ""))
        known = known or await self._recorded(raw)
        if known is not None and before.binding is not None:
            redis, facts = known
            redis = replace(
                redis, status=before, metadata=replace(redis.metadata, generation=generation)
            )
            hindrance = Degradation(reason, "; ".join(messages))
            return await self._bring(key, raw, redis, facts, refusal=None, hindrance=hindrance)
        context = Context(previous=before, generation=generation, now=self._now())
        await self.reporter.report(raw, before, refused(context, reason, messages))
        return Again(self.interval, _USUAL)

    async def _recorded(self, raw: Manifest) -> tuple[Redis, Facts] | None:
        """Return the last spec that was followed by whoever was operator before, if one was."""
        loaded = load(self.children.recorded(raw))
        if not isinstance(loaded, Redis):
            return None
        entry = find_version(loaded.spec, self._catalog(), chosen=self.children.chosen(loaded))
        if isinstance(entry, str):
            return None
        try:
            passwords = await self.passwords.read(loaded, known_will_do=True)
        except PasswordError:
            return None
        return loaded, self.children.facts(loaded, entry, passwords)

    def _context(
        self,
        key: Key,
        redis: Redis,
        told: RedisStatus,
        hindrance: Degradation | None,
        failures: Iterable[str] = (),
        *,
        image: str = "",
    ) -> Context:
        meta = redis.metadata
        stopped = self.movers.failure(key)
        return Context(
            previous=told,
            generation=meta.generation,
            now=self._now(),
            failures=(*failures, stopped) if stopped else tuple(failures),
            hindrance=hindrance,
            auth=self.rotations.problem(redis),
            progress=self.movers.progress(key),
            unseen=self.behind(key) or "",
            image=image,
            endpoints=self.children.endpoints(redis),
            protected=meta.is_being_deleted,
            binding=names.connection_secret(meta.name),
            selector=",".join(f"{k}={v}" for k, v in names.selector(meta.name).items()),
        )

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _catalog(self) -> list[RedisVersionSpec]:
        return self.memories.catalog(self.world.versions.cache)
