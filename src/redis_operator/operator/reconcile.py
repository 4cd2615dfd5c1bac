"""One pass over one database: look, decide, act, settle. The only place where the rings meet.

A pass takes whatever it finds, however broken, and ends in a status. While there is something to do
at once it looks again within the same pass, so that forming and healing are not slowed by queues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.client.errors import Forbidden, KubeError
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.outcomes import Again, Done, Outcome, Retry
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
from redis_operator.planning.reporting.status import refused, status

__all__ = ["Reconciler"]

_LOG = logging.getLogger(__name__)
_LOOKS = 40  # in one pass; then other databases have their turn
_FORBIDDEN_SECONDS = 5.0


class Reconciler(Struct, frozen=True):
    """Everything a pass needs, made once for all databases."""

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
        """Bring one database as far as it can be brought now."""
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
                await self.reader.background.stop(key)  # nothing is made again that goes
                await self.reporter.report(raw, before, gone)
            return await self.ending.around(raw, partial(self._follow, key, raw))
        except Forbidden as error:
            self.reporter.complain(raw, error)
            return Again(_FORBIDDEN_SECONDS, pace.USUAL_PRIORITY)  # rights come without a sign
        except KubeError as error:
            return Retry(error)

    def forget(self, key: Key) -> None:
        """Let go of a database that is gone."""
        self.world.forget(key)
        self.reader.forget(key)
        self.reporter.forget(key)
        self.settler.rotations.forget(key)

    async def _follow(self, key: Key, raw: Manifest) -> Outcome:
        """Follow the spec; or the last one that could be followed, and tell why."""
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
        told = refused(context, found.reason, list(found.messages))
        await self.reporter.report(raw, before, told)
        behind = self.reporter.is_behind(key)
        return Again(pace.BEHIND_SECONDS if behind else self.interval, pace.USUAL_PRIORITY)

    async def _bring(self, one: Pass) -> Outcome:
        """Look, decide, act and settle until there is nothing to do at once."""
        count_on: tuple[str, ...] = ()
        acted, idle = False, 0
        for _ in range(_LOOKS):
            request, observed = await self.reader.look(one, count_on)
            written = self.contexts.children.writes(one.redis)
            advice = self._decide(one, observed)
            one = await self._announce(one, observed, advice)
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
            count_on, acted = advice.count_on, acted or bool(outcomes)
            idle = 0 if outcomes else idle + 1
            if idle == pace.IDLE_LOOKS:
                break
            await asyncio.sleep(pace.pause(idle))
        await self._report(one, after)
        # Looking alone does not bring it about: others have their turn.
        return Again(pace.SOON_SECONDS if acted else pace.BUSY_SECONDS)

    def _decide(self, one: Pass, observed: Observed) -> Plan:
        advice = plan(one.wanted, observed, self.clock())
        if one.refusal is None:
            return advice
        return replace(advice, blocked=tuple({one.refusal: 0} | dict.fromkeys(advice.blocked)))

    async def _announce(self, one: Pass, observed: Observed, advice: Plan) -> Pass:
        """Tell what is about to be done, unless it is told already: failures would come and go."""
        if not advice.is_announced:
            return one
        before = status(one.wanted, observed, advice, self.contexts.of(one))
        if before.plan == one.told.plan:
            return one
        try:
            return replace(one, told=await self._report(one, before))
        except KubeError as error:
            _LOG.warning("the plan is not in the status", extra=fields(error=error))
            return one  # what must be done is done all the same

    async def _report(self, one: Pass, after: RedisStatus) -> RedisStatus:
        """Write a status; return the one that stands then, as far as it is known."""
        write = partial(self.reporter.report, one.raw, one.told, after)
        if one.told.binding is None:
            return await write()
        found = await self.reader.background.run(one.key, "its status", write)
        return one.told if isinstance(found, Pending) else found

    async def _settle(self, one: Pass, request: Request, observed: Observed) -> Pass:
        """Write what follows from a look, unless the API server has other writes to answer yet."""
        settle = partial(self.settler.settle, one, request, observed)
        if one.told.binding is None:
            return await settle()
        found = await self.reader.background.run(one.key, "what servers have taken", settle)
        return one if isinstance(found, Pending) else found

    def _is_superseded(self, one: Pass) -> bool:
        """Tell whether somebody wants something else since this pass began."""
        now = self.world.redis(one.key)
        return now is None or now["metadata"].get("generation") != one.redis.metadata.generation
