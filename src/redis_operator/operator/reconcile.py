"""One pass over one database: observe, decide, act, settle. The only place where these meet.

A pass accepts any state, however broken, and ends in a status. While there is something to do at
once it observes again within the same pass, so that queues do not slow down bootstrap and repairs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Again, Done, Forbidden, Key, KubeError, Manifest, Outcome, Retry, fields
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.api.validation import load_status
from redis_operator.operator import pace
from redis_operator.operator.act import Actor
from redis_operator.operator.background import Pending
from redis_operator.operator.backups.precautions import Precautions
from redis_operator.operator.contexts import Contexts
from redis_operator.operator.objects.children import ChildError
from redis_operator.operator.objects.ending import Ending, is_protected
from redis_operator.operator.observe import Request
from redis_operator.operator.passes import NotFollowed, Pass, PassReader
from redis_operator.operator.report import Reporter
from redis_operator.operator.settle import Settler
from redis_operator.operator.world import World
from redis_operator.planning.advice import Plan
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.losses import is_recorded, until_recorded
from redis_operator.planning.reporting.status import refused, status

__all__ = ["Reconciler"]

_LOG = logging.getLogger(__name__)
_LOOKS = 40  # observations in one pass; then other databases get the worker
_FORBIDDEN_SECONDS = 5.0


class Reconciler(Struct, frozen=True):
    """Everything that a pass needs, created once for all databases."""

    world: World
    reader: PassReader
    actor: Actor
    settler: Settler
    contexts: Contexts
    reporter: Reporter
    ending: Ending
    precautions: Precautions
    interval: float
    clock: Callable[[], float] = time.time

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one database as close to its spec as is possible now."""
        raw = self.world.redis(key)
        if raw is None:
            self.forget(key)
            return Done()
        try:
            ends = bool(raw["metadata"].get("deletionTimestamp"))
            if ends and (is_protected(raw) or await self.precautions.before_end(raw)):
                return await self._follow(key, raw)
            if ends:
                before = load_status(raw)
                gone = replace(before, phase=Phase.DELETING, plan=())
                await self.reader.background.stop(key)  # no object is recreated during the deletion
                await self.reporter.report(raw, before, gone)
            return await self.ending.around(raw, partial(self._follow, key, raw))
        except Forbidden as error:
            self.reporter.report_forbidden(raw, error)
            return Again(_FORBIDDEN_SECONDS, pace.USUAL_PRIORITY)  # permissions cause no event
        except KubeError as error:
            return Retry(error)

    def forget(self, key: Key) -> None:
        """Drop everything about a database that is gone."""
        self.world.forget(key)
        self.reader.forget(key)
        self.reporter.forget(key)
        self.settler.rotations.forget(key)

    async def _follow(self, key: Key, raw: Manifest) -> Outcome:
        """Reconcile the spec; or the last one that could be used, and report why."""
        try:
            found = await self.reader.begin(key, raw)
            if isinstance(found, Pass):
                return await self._bring(found)
        except ChildError as error:
            found = NotFollowed("ChildRefused", (str(error),))
        _LOG.info("the spec is invalid", extra=fields(reason=found.reason, problems=found.messages))
        last = await self.reader.last_followed(key, raw, found)
        if last is not None:
            return await self._bring(last)
        before = load_status(raw)
        context = self.contexts.unread(before, raw["metadata"].get("generation", 0))
        after = refused(context, found.reason, list(found.messages))
        await self.reporter.report(raw, before, after)
        behind = self.reporter.is_behind(key)
        return Again(pace.BEHIND_SECONDS if behind else self.interval, pace.USUAL_PRIORITY)

    async def _bring(self, one: Pass) -> Outcome:
        """Observe, decide, act and settle until there is nothing to do at once."""
        count_strays_on: tuple[str, ...] = ()
        acted, idle = False, 0
        for _ in range(_LOOKS):
            request, observed = await self.reader.look(one, count_strays_on)
            written = self.contexts.children.writes(one.redis)
            advice = self._decide(one, observed)
            one = await self._announce(one, observed, advice)
            advice = until_recorded(advice, one.reported)
            outcomes = await self.actor.carry_out(one, request, advice)
            self.reader.memories.attempted(one.key, observed, advice)
            self.reader.memories.learn(one.key, observed, outcomes)
            one = await self._settle(one, request, observed)
            failures = [outcome.error for outcome in outcomes if not outcome.done]
            image = one.facts.image if advice.settled else ""
            unseen = self.contexts.children.writes(one.redis) != written
            context = self.contexts.of(one, failures, image=image, unseen=unseen)
            after = status(one.wanted, observed, advice, context)
            if not pace.goes_on(advice, outcomes) or self._is_superseded(one):
                await self._report(one, after)
                behind = unseen or self.reporter.is_behind(one.key)
                interval = pace.BEHIND_SECONDS if behind else self.interval
                again = pace.after(
                    advice,
                    observed,
                    outcomes,
                    interval=interval,
                    down_for=self.reader.memories.down_for(one.key),
                    waited=self.reader.memories.waited(one.key),
                )
                return Retry(one.error) if one.error and again.after >= interval else again
            count_strays_on, acted = advice.count_strays_on, acted or bool(outcomes)
            idle = 0 if outcomes else idle + 1
            if idle == pace.IDLE_LOOKS:
                break
            await asyncio.sleep(pace.pause(idle))
        await self._report(one, after)
        # Observing alone does not help: other databases get the worker.
        return Again(pace.SOON_SECONDS if acted else pace.BUSY_SECONDS)

    def _decide(self, one: Pass, observed: Observed) -> Plan:
        advice = plan(one.wanted, observed, self.clock())
        if one.refusal is None:
            return advice
        return replace(advice, blocked=tuple({one.refusal: 0} | dict.fromkeys(advice.blocked)))

    async def _announce(self, one: Pass, observed: Observed, advice: Plan) -> Pass:
        """Report the next steps, unless they are reported already: failures would come and go."""
        if not advice.is_announced and is_recorded(advice, one.reported):
            return one
        before = status(one.wanted, observed, advice, self.contexts.of(one))
        if before.plan == one.reported.plan:
            return one
        try:
            return replace(one, reported=await self._report(one, before))
        except KubeError as error:
            _LOG.warning("the plan is not in the status", extra=fields(error=error))
            return one  # the steps are taken all the same, unless they make a loss final

    async def _report(self, one: Pass, after: RedisStatus) -> RedisStatus:
        """Write a status; return the status in the API after that, as far as it is known."""
        write = partial(self.reporter.report, one.raw, one.reported, after)
        if one.reported.binding is None:
            return await write()
        found = await self.reader.background.run(one.key, "its status", write)
        return one.reported if isinstance(found, Pending) else found

    async def _settle(self, one: Pass, request: Request, observed: Observed) -> Pass:
        """Write what follows from an observation, unless earlier writes are still in progress."""
        settle = partial(self.settler.settle, one, request, observed)
        if one.reported.binding is None:
            return await settle()
        found = await self.reader.background.run(one.key, "what servers have taken", settle)
        return one if isinstance(found, Pending) else found

    def _is_superseded(self, one: Pass) -> bool:
        """Whether the spec has changed since this pass began."""
        now = self.world.redis(one.key)
        return now is None or now["metadata"].get("generation") != one.redis.metadata.generation
