"""Carries out a plan: stages in order, the steps of a stage at the same time.

A step that is refused or fails ends the plan after its stage; what is true then is seen by the
next look. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, assert_never

from msgspec import Struct

from redis_operator.operator.errors import ActionError
from redis_operator.operator.servers import Servers
from redis_operator.planning.actions import (
    Action,
    AssignSlots,
    CancelJob,
    CloseSlots,
    ConfigSet,
    DeletePod,
    DeleteWorkload,
    DiscardData,
    Failover,
    Forget,
    GrowVolume,
    InheritSlots,
    LabelPod,
    LabelRole,
    Meet,
    MoveSlots,
    Replicate,
    RescueKeys,
    ResetEmptyNode,
    ResizePod,
    ScaleWorkload,
    SetConfigEpoch,
    StopMoving,
    TuneForBootstrap,
)
from redis_operator.planning.advice import Plan
from redis_operator.redis.errors import RedisError

__all__ = ["Executor", "Movers", "Objects", "Outcome"]


class Objects(Protocol):
    """What is done to Kubernetes objects."""

    async def label_pod(self, action: LabelPod) -> None:
        """Give a pod its labels back."""

    async def label_role(self, action: LabelRole) -> None:
        """Set a pod's role label."""

    async def delete_pod(self, action: DeletePod) -> None:
        """Delete exactly this pod."""

    async def discard(self, action: DiscardData) -> None:
        """Delete a pod with files that cannot be loaded, and those."""

    async def scale(self, action: ScaleWorkload) -> None:
        """Set how many pods a shard has."""

    async def delete_workload(self, action: DeleteWorkload) -> None:
        """Remove a shard's objects."""

    async def grow(self, action: GrowVolume) -> None:
        """Ask for a bigger volume."""

    async def resize(self, action: ResizePod) -> None:
        """Give a pod other resources while it runs."""


class Movers(Protocol):
    """What moves slots and keys, beside the passes."""

    async def move(self, servers: Servers, action: MoveSlots) -> None:
        """Begin to move slots; return when the move goes on by itself."""

    async def rescue(self, servers: Servers, action: RescueKeys) -> None:
        """Bring stray keys home."""

    async def stop(self, action: StopMoving) -> None:
        """End a move at its next boundary."""


class Outcome(Struct, frozen=True):
    """What came of one step: done, or why not."""

    action: Action
    error: str = ""

    @property
    def done(self) -> bool:
        """Whether the step took effect."""
        return not self.error


class Executor:
    """Does actions for one database during one pass.

    `before` and `after` are called around every effect: leadership is checked there, and tests
    crash there.
    """

    def __init__(
        self,
        servers: Servers,
        objects: Objects,
        movers: Movers,
        *,
        before: Callable[[Action], None] = lambda _: None,
        after: Callable[[Action], None] = lambda _: None,
    ) -> None:
        self._servers = servers
        self._objects = objects
        self._movers = movers
        self._before = before
        self._after = after

    async def carry_out(self, plan: Plan) -> tuple[Outcome, ...]:
        """Do the plan's stages in order until one has a step that was not done."""
        outcomes: list[Outcome] = []
        for stage in plan.stages:
            done = await asyncio.gather(*(self._attempt(action) for action in stage))
            outcomes += done
            if not all(outcome.done for outcome in done):
                break
        return tuple(outcomes)

    async def _attempt(self, action: Action) -> Outcome:
        try:
            self._before(action)
            await self._do(action)
        except (ActionError, RedisError) as error:
            return Outcome(action, str(error))
        self._after(action)
        return Outcome(action)

    def _do(self, action: Action) -> Awaitable[None]:  # noqa: C901, PLR0911, PLR0912 - one line a kind
        servers, objects = self._servers, self._objects
        match action:
            case Meet():
                return servers.meet(action)
            case TuneForBootstrap():
                return servers.tune(action)
            case SetConfigEpoch():
                return servers.set_epoch(action)
            case AssignSlots():
                return servers.assign(action)
            case Replicate():
                return servers.replicate(action)
            case Failover():
                return servers.fail_over(action)
            case Forget():
                return servers.forget(action)
            case InheritSlots():
                return servers.inherit(action)
            case CloseSlots():
                return servers.close_slots(action)
            case CancelJob():
                return servers.cancel_job(action)
            case ConfigSet():
                return servers.configure(action)
            case ResetEmptyNode():
                return servers.reset_empty(action)
            case MoveSlots():
                return self._movers.move(servers, action)
            case RescueKeys():
                return self._movers.rescue(servers, action)
            case StopMoving():
                return self._movers.stop(action)
            case LabelPod():
                return objects.label_pod(action)
            case LabelRole():
                return objects.label_role(action)
            case DeletePod():
                return objects.delete_pod(action)
            case DiscardData():
                return objects.discard(action)
            case ScaleWorkload():
                return objects.scale(action)
            case DeleteWorkload():
                return objects.delete_workload(action)
            case GrowVolume():
                return objects.grow(action)
            case ResizePod():
                return objects.resize(action)
            case _:
                assert_never(action)
