"""The end of an observation: keep accepted values, continue rotations, remove met requests."""

from __future__ import annotations

from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import Client, KubeError
from redis_operator.operator.background import Background, Pending
from redis_operator.operator.objects.children import Children
from redis_operator.operator.observe import Observer, Request
from redis_operator.operator.passes import Pass
from redis_operator.operator.requests import close, met
from redis_operator.operator.rotation import Rotations
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.planning.common.configure import accepted, unpersisted
from redis_operator.planning.observed import Observed
from redis_operator.planning.reporting.degradations import Degradation

__all__ = ["Settler"]


class Settler(Struct, frozen=True):
    """Brings objects and passwords in line with what was observed."""

    client: Client
    children: Children
    observer: Observer
    rotations: Rotations
    movers: SlotMovers
    background: Background

    async def settle(self, one: Pass, request: Request, observed: Observed) -> Pass:
        """Write what follows from an observation, unless earlier writes are still in progress.

        Returns the pass with the facts after that.
        """
        settle = partial(self._settle, one, request, observed)
        if one.reported.binding is None:
            return await settle()
        found = await self.background.run(one.key, "what servers have taken", settle)
        return one if isinstance(found, Pending) else found

    async def _settle(self, one: Pass, request: Request, observed: Observed) -> Pass:
        redis, facts = one.redis, one.facts
        if one.may_change:
            persisted = unpersisted(one.wanted, observed) is None
            taken = accepted(one.wanted, observed)
            facts = await self.children.accept(redis, facts, taken, persisted=persisted)
        if one.may_settle_passwords:
            targets, moving = self.observer.targets(request), bool(self.movers.moving(one.key))
            facts = await self.rotations.settle(redis, facts, observed, targets, moving=moving)
        hindrance = one.hindrance
        for request_met in met(redis.metadata.annotations, one.wanted, observed):
            try:
                await close(self.client, one.raw, request_met)
            except KubeError as error:  # reported, and retried by the next pass
                text = f"annotation {request_met} was followed and cannot be removed: {error}"
                hindrance = hindrance or Degradation("StepFailed", text)
        return replace(one, facts=facts, hindrance=hindrance)
