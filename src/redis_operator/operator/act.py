"""Carries out the plan of a pass with everything that it may change, and returns the outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from kubecontroller import Client, fields
from redis_operator.operator.execute import Executor, StepOutcome
from redis_operator.operator.live import ApiPods
from redis_operator.operator.objects.actions import ClusterObjects
from redis_operator.operator.observe import Observer, Request
from redis_operator.operator.passes import Pass
from redis_operator.operator.report import Reporter
from redis_operator.operator.servers.actions import Servers
from redis_operator.operator.servers.dialects import DIALECTS
from redis_operator.operator.servers.links import Links
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.operator.servers.sources import LiveSource
from redis_operator.operator.world import World
from redis_operator.planning.actions import Action
from redis_operator.planning.advice import Plan

__all__ = ["Actor"]

_LOG = logging.getLogger(__name__)


class Actor(Struct, frozen=True):
    """Everything that a plan may change, for all databases."""

    client: Client
    world: World
    links: Links
    observer: Observer
    movers: SlotMovers
    reporter: Reporter
    before: Callable[[Action], None] = lambda _: None

    async def carry_out(self, one: Pass, request: Request, plan: Plan) -> tuple[StepOutcome, ...]:
        """Take the steps of a plan; a step that was not done says why."""
        if not plan.stages:
            return ()
        _LOG.info("acting", extra=fields(rule=plan.rule, why=plan.why, steps=len(plan.steps)))
        outcomes = await self._executor(one, request).carry_out(plan)
        for outcome in outcomes:
            if not outcome.done:
                _LOG.info("not done", extra=fields(action=outcome.action, why=outcome.error))
        if plan.event and any(outcome.done for outcome in outcomes):
            self.reporter.announce(one.raw, plan.rule, plan.event, plan.why)
        return outcomes

    def _executor(self, one: Pass, request: Request) -> Executor:
        dialect, storage = DIALECTS[request.mode], one.redis.spec.storage
        pods = ApiPods(self.client, request.key[0])
        servers = Servers(self.links, self.observer.targets(request), pods, dialect)
        objects = ClusterObjects(
            self.client,
            *request.key,
            servers,
            layout=request.layout,
            keep_claims=storage is not None and storage.retain,
            on_written=self.world.wrote,
        )
        return Executor(
            servers.effects(),
            objects.effects(),
            self.movers.of(request.key, one.replication).effects(servers),
            dialect.effects(
                servers,
                one.facts.passwords,
                LiveSource(
                    self.client, request.key, self.links, one.facts.source, one.facts.restore
                ),
            ),
            before=self.before,
        )
