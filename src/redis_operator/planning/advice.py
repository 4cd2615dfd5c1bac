"""The input of a rule, and its possible answers."""

from __future__ import annotations

from enum import Enum
from itertools import chain

from msgspec import Struct

from ..api.redis import Mode
from ..redis.slots import NO_SLOTS, SlotSet
from .actions import Action, LabelPod, LabelRole
from .sources import ExternalSource, Filling

__all__ = ["ACCEPT_LOSS", "Loss", "Plan", "PlanPhase", "Switchover", "Wanted"]

ACCEPT_LOSS = "redisoperator.dev/accept-data-loss"
"""Annotation of a database: gives up the named slots, or allows one `restart` to lose data."""


class Switchover(Struct, frozen=True):
    """A request to make a pod the primary of its shard, valid for one promotion."""

    pod: str


class Wanted(Struct, frozen=True):
    """The wanted state of one database: the part of the spec that planning needs."""

    name: str
    shards: int
    replicas: int
    mode: Mode = Mode.CLUSTER
    engine: str = "valkey"
    version: str = ""  # empty: the version in the image
    minimum_patch: str = ""  # the oldest patch level of the version that is safe
    deprecated: bool = False  # the catalog advises databases to leave this version
    persistent: bool = True  # pods keep their data over a restart
    persistence: str = ""  # the kind that it changes to; empty: it does not change
    chosen: frozenset[str] = frozenset()  # directives that a person wrote
    config: tuple[tuple[str, str], ...] = ()  # directives to be set live, at these values
    node_timeout_ms: int = 5000
    volatile: bool = False  # servers write nothing to disk: the data of a process ends with it
    start_empty: bool = False  # slots that lost every copy are served again, empty, without asking
    accepted_loss: SlotSet = NO_SLOTS  # slots that a person gave up, once
    unreadable_acceptance: str = ""  # why the annotation about a data loss cannot be used
    restart_may_lose: bool = False  # pods without a replica and storage may be restarted
    paused: bool = False
    unwritten: str = ""  # why the objects are not yet as the spec asks
    update_paused: bool = False
    hibernate: bool = False
    min_replicas_to_write: int = 0  # writes are refused while fewer replicas are linked
    rolling_shards: int = 1  # how many shards may be disrupted at a time
    switchover: Switchover | None = None
    spread_primaries: bool = False  # move primaries apart over zones once all is settled
    volume_size: int = 0  # bytes; 0 leaves volumes alone
    memory_limit: int = 0  # bytes that a server's container may use; 0: unlimited
    sentinels: int = 0  # how many sentinels are wanted
    quorum: int = 0  # how many of them must agree that the primary is down
    primary_name: str = ""  # the name under which they monitor the primary
    sentinel_settings: tuple[tuple[str, str], ...] = ()  # for SENTINEL SET
    weights: tuple[tuple[int, float], ...] = ()  # of shards, if they are to differ
    claim_labels: tuple[tuple[str, str], ...] = ()  # that claims must have, besides others
    source: ExternalSource | None = None  # to follow until it is removed from the spec
    filling: Filling | None = None  # a backup that is restored before any client is served
    backup: str = ""  # a backup that is being read: no slot migration begins meanwhile
    source_given_up: bool = False  # a person gave up the data that has not arrived, once

    @property
    def pods_per_shard(self) -> int:
        """A primary and its replicas."""
        return 1 + self.replicas

    def gives_up(self, slots: SlotSet) -> bool:
        """Whether these slots may be served empty once every copy of them is gone."""
        return self.start_empty or slots <= self.accepted_loss


class PlanPhase(Enum):
    """What kind of work a plan is, for `status.phase`."""

    READY = "Ready"
    CREATING = "Creating"
    FOLLOWING = "Following"
    HEALING = "Healing"
    SCALING = "Scaling"
    UPDATING = "Updating"
    HIBERNATED = "Hibernated"
    WAKING = "Waking"


class Loss(Struct, frozen=True):
    """Data that has lost every copy. Reported until the slots are served again; never hidden."""

    why: str
    slots: SlotSet = NO_SLOTS  # none: the mode has no slots, and everything is lost
    accepted: bool = False  # by the policy of the spec or by a person: the slots start empty

    @property
    def what(self) -> str:
        """What is lost, as text."""
        return f"slots {self.slots}" if self.slots else "all keys"


class Plan(Struct, frozen=True):
    """Steps to take now, or the reasons for taking none; texts reach status and events unchanged.

    Stages are done in order; the steps of one stage do not depend on each other and may be done at
    the same time. A step that fails ends the plan after its stage: observe again.
    """

    rule: str = ""
    why: str = ""
    stages: tuple[tuple[Action, ...], ...] = ()
    blocked: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    phase: PlanPhase = PlanPhase.READY
    final: bool = False  # with no steps: no later rule is asked
    urgent: bool = False  # clients wait for it: it is reported while it is carried out, not before
    again_after: float | None = None  # observe again after so many seconds even if nothing changes
    held: str = ""  # why nothing is done though there is work: the spec says so
    stalled: str = ""  # why these steps are not repeated for now: they had no effect
    event: str = ""  # the reason of the event that reports its steps
    routine: bool = False  # part of whatever change is in progress, not a repair of its own
    asks: bool = False  # a person has to decide: waiting does not help
    count_strays_on: tuple[
        str, ...
    ] = ()  # pods whose stray keys must be counted at the next observation

    @property
    def steps(self) -> tuple[Action, ...]:
        """All actions in the order of their stages."""
        return tuple(chain.from_iterable(self.stages))

    @property
    def is_announced(self) -> bool:
        """Whether it is reported before its first step: all but bookkeeping and urgent repairs.

        While a database is created no client uses it yet, and nothing waits for a status.
        """
        if self.urgent or self.phase is PlanPhase.CREATING:
            return False
        return any(not isinstance(step, LabelPod | LabelRole) for step in self.steps)

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do, nothing blocked and nothing lost."""
        return not self.stages and not self.blocked and not self.losses
