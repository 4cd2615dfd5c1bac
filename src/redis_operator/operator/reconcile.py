"""One pass over one database: observe, plan, execute, settle. The only place where these meet.

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
from redis_operator.api.status import RedisStatus
from redis_operator.operator import pace
from redis_operator.operator.act import Actor
from redis_operator.operator.backups.precautions import Precautions
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.objects.children import ChildError
from redis_operator.operator.objects.ending import Ending, is_protected
from redis_operator.operator.passes import NotFollowed, Pass, PassReader
from redis_operator.operator.report import Reporter
from redis_operator.operator.settle import Settler
from redis_operator.operator.statuses import Statuses
from redis_operator.operator.world import World
from redis_operator.planning.advice import Plan
from redis_operator.planning.observed import Observed
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.losses import until_recorded

__all__ = ["Reconciler"]

_LOG = logging.getLogger(__name__)
_ROUNDS = 40  # of one pass; then other databases get the worker
_FORBIDDEN_SECONDS = 5.0


class _Round(Struct, frozen=True):
    """One observation of a pass, and what followed from it."""

    one: Pass
    observed: Observed
    plan: Plan
    outcomes: tuple[StepOutcome, ...]
    unseen: bool  # objects were written after servers and pods were observed
    status: RedisStatus


class Reconciler(Struct, frozen=True):
    """Everything that a pass needs, created once for all databases."""

    world: World
    reader: PassReader
    actor: Actor
    settler: Settler
    statuses: Statuses
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
            if raw["metadata"].get("deletionTimestamp"):
                if is_protected(raw) or await self.precautions.before_end(raw):
                    return await self._follow(key, raw)
                await self.reader.background.stop(key)  # no object is recreated during the deletion
                await self.statuses.write_deleting(raw)
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
        await self.statuses.write_refused(raw, found)
        behind = self.reporter.is_behind(key)
        return Again(pace.BEHIND_SECONDS if behind else self.interval, pace.USUAL_PRIORITY)

    async def _bring(self, one: Pass) -> Outcome:
        """Take rounds until there is nothing to do at once, and report the last one."""
        count_strays_on: tuple[str, ...] = ()
        acted, idle = False, 0
        for _ in range(_ROUNDS):
            last = await self._round(one, count_strays_on)
            one, count_strays_on = last.one, last.plan.count_strays_on
            if not pace.goes_on(last.plan, last.outcomes) or self._is_superseded(one):
                await self.statuses.write(one, last.status)
                return self._next_pass(last)
            acted = acted or bool(last.outcomes)
            idle = 0 if last.outcomes else idle + 1
            if idle == pace.IDLE_LOOKS:
                break
            await asyncio.sleep(pace.pause(idle))
        await self.statuses.write(one, last.status)
        # Observing alone does not help: other databases get the worker.
        return Again(pace.SOON_SECONDS if acted else pace.BUSY_SECONDS)

    async def _round(self, one: Pass, count_strays_on: tuple[str, ...]) -> _Round:
        """Observe, plan, execute and settle, once."""
        request, observed = await self.reader.look(one, count_strays_on)
        written = self.reader.children.writes(one.redis)
        advice = self._plan(one, observed)
        one = await self.statuses.announce(one, observed, advice)
        advice = until_recorded(advice, one.reported)
        outcomes = await self.actor.carry_out(one, request, advice)
        self.reader.memories.attempted(one.key, observed, advice, outcomes)
        self.reader.memories.learn(one.key, observed, outcomes)
        one = await self.settler.settle(one, request, observed)
        unseen = self.reader.children.writes(one.redis) != written
        after = self.statuses.of(one, observed, advice, outcomes, unseen=unseen)
        return _Round(one, observed, advice, outcomes, unseen, after)

    def _plan(self, one: Pass, observed: Observed) -> Plan:
        advice = plan(one.wanted, observed, self.clock())
        if one.refusal is None:
            return advice
        return replace(advice, blocked=tuple({one.refusal: 0} | dict.fromkeys(advice.blocked)))

    def _next_pass(self, last: _Round) -> Outcome:
        """Say when to observe again, after a round with nothing left to do at once."""
        key, memories = last.one.key, self.reader.memories
        behind = last.unseen or self.reporter.is_behind(key)
        interval = pace.BEHIND_SECONDS if behind else self.interval
        again = pace.after(
            last.plan,
            last.observed,
            last.outcomes,
            interval=interval,
            down_for=memories.down_for(key),
            waited=memories.waited(key),
        )
        error = last.one.error
        return Retry(error) if error and again.after >= interval else again

    def _is_superseded(self, one: Pass) -> bool:
        """Whether the spec has changed since this pass began."""
        now = self.world.redis(one.key)
        return now is None or now["metadata"].get("generation") != one.redis.metadata.generation
