"""The rules of mode Cluster in order: identify, save data, connect, assign, replicate, change.

A rule returns None when it has nothing to report, a plan without stages when something blocks it,
and a plan with stages when it wants to act; then it acts alone.
"""

from __future__ import annotations

from ..actions import (
    DeletePod,
    DeleteWorkload,
    DiscardData,
)
from ..common.label import label
from ..common.rows import (
    CONFIGURE,
    DRAIN,
    FILL,
    GROW,
    HIBERNATE,
    LABEL_CLAIMS,
    PODS,
    RESIZE,
    ROLL,
    SHRINK,
    SPREAD,
    SWITCH,
    WAIT,
)
from ..row import Companion, Kind, Row
from .actions import (
    AssignSlots,
    CancelJob,
    CloseSlots,
    Failover,
    Forget,
    InheritSlots,
    Meet,
    MoveSlots,
    RaiseEpoch,
    Replicate,
    RescueKeys,
    ResetEmptyNode,
    SetConfigEpoch,
    StopMoving,
    TuneForBootstrap,
    UnassignSlots,
)
from .assist import assist
from .audit import audit
from .bootstrap import bootstrap
from .connect import connect
from .cover import cover
from .duplicate_ids import duplicate_ids
from .empty_primary import empty_primary
from .follow import follow
from .foreign import foreign
from .forget import forget
from .inherit import inherit
from .leave import leave
from .lost import lost
from .raise_epoch import convince, raise_epoch
from .rebalance import rebalance
from .relocate_primary import relocate_primary
from .replace_data import replace_data
from .rescue import rescue
from .settle import settle

__all__ = ["COMPANIONS", "RULES"]

RULES: tuple[Row, ...] = (
    HIBERNATE.here(keeps=("I5",)),
    PODS,
    Row(
        "duplicate_ids",
        duplicate_ids,
        Kind.SAFETY,
        "ResettingNode",
        "servers that share an id cannot be judged",
        actions=(ResetEmptyNode,),
        keeps=("I1", "I3", "I11"),
        cases=("CL-25",),
    ),
    Row(
        "empty_primary",
        empty_primary,
        Kind.SAFETY,
        "FailingOver",
        "before replicas sync with an empty primary",
        actions=(Failover,),
        keeps=("I7", "I9"),
    ),
    Row(
        "assist",
        assist,
        Kind.SAFETY,
        "FailingOver",
        "a dead primary comes before all that needs its vote",
        actions=(Failover,),
        keeps=("I2", "I7", "I14"),
        cases=("CL-01", "CL-13", "CL-14", "K-27"),
    ),
    Row(
        "raise_epoch",
        raise_epoch,
        Kind.SAFETY,
        "RaisingEpoch",
        "before dead primaries come back; after a promotion, which may take another epoch",
        actions=(RaiseEpoch,),
        keeps=("I3",),
    ),
    Row(
        "foreign",
        foreign,
        Kind.SAFETY,
        "ForgettingNodes",
        "nodes of others must not take part in what follows",
        actions=(Forget,),
        keeps=("I3", "I11"),
    ),
    Row(
        "bootstrap",
        bootstrap,
        Kind.CHANGE,
        "CreatingCluster",
        "a new database needs nothing else first",
        actions=(Meet, TuneForBootstrap, SetConfigEpoch, AssignSlots, Replicate, DeletePod),
        keeps=("I3", "I9"),
        cases=("CL-05",),
    ),
    Row(
        "connect",
        connect,
        Kind.UPKEEP,
        "MeetingNodes",
        "only nodes that know each other learn slots and roles",
        actions=(Meet,),
        keeps=("I3", "I11"),
        cases=("CL-02", "CL-26"),
    ),
    Row(
        "inherit",
        inherit,
        Kind.REPAIR,
        "AssigningSlots",
        "before slots whose data still exists count as lost",
        actions=(InheritSlots,),
        keeps=("I3",),
        cases=("CL-06",),
    ),
    Row(
        "lost",
        lost,
        Kind.REPAIR,
        "StartingEmpty",
        "lost owners are forgotten before their slots are assigned",
        actions=(Replicate, Forget, ResetEmptyNode),
        keeps=("I3",),
        cases=("CL-21", "CL-31", "CL-32", "CL-36"),
    ),
    Row(
        "cover",
        cover,
        Kind.REPAIR,
        "AssigningSlots",
        "every slot has an owner before anything is moved or copied",
        actions=(AssignSlots, UnassignSlots),
        keeps=("I3", "I5"),
        cases=("CL-03", "CL-21", "CL-30"),
    ),
    Row(
        "settle",
        settle,
        Kind.REPAIR,
        "FinishingSlotMoves",
        "open slots block every failover",
        actions=(CloseSlots, MoveSlots, CancelJob),
        keeps=("I4", "I5"),
    ),
    Row(
        "rescue",
        rescue,
        Kind.REPAIR,
        "MovingKeys",
        "keys are moved to their owner before anything else moves",
        actions=(RescueKeys,),
        keeps=("I4", "I14"),
    ),
    Row(
        "convince",
        convince,
        Kind.REPAIR,
        "RaisingEpoch",
        "all agree on the owners before a replica is promoted or a slot moves",
        actions=(RaiseEpoch,),
        keeps=("I3", "I5", "I14"),
        cases=("CL-29",),
    ),
    Row(
        "follow",
        follow,
        Kind.UPKEEP,
        "AttachingReplicas",
        "copies before changes",
        actions=(Replicate,),
        keeps=("I1",),
        cases=("CL-15", "CL-17"),
    ),
    Row(
        "forget",
        forget,
        Kind.UPKEEP,
        "ForgettingNodes",
        "dead nodes are forgotten once they own nothing",
        actions=(Forget,),
        keeps=("I3", "I11"),
        cases=("CL-10", "CL-11"),
    ),
    Row(
        "replace_data",
        replace_data,
        Kind.REPAIR,
        "ReplacingData",
        "needs owners and copies in place",
        actions=(DiscardData,),
        keeps=("I1", "I2"),
        cases=("ST-07",),
    ),
    DRAIN.here(
        actions=(Failover,),
        keeps=("I5", "I6"),
        cases=("CL-19",),
    ),
    CONFIGURE.here(cases=("CL-33", "IN-27")),
    FILL,
    Row(
        "relocate_primary",
        relocate_primary,
        Kind.REPAIR,
        "SwitchingOver",
        "primaries are in their own shard before pods are recreated",
        actions=(Failover,),
        keeps=("I5", "I6"),
        cases=("CL-17",),
    ),
    Row(
        "leave",
        leave,
        Kind.CHANGE,
        "RemovingShard",
        "drained shards are removed before more slots are moved",
        actions=(Forget, DeleteWorkload),
        keeps=("I3", "I11"),
        cases=("CL-07", "K-05"),
    ),
    RESIZE,
    ROLL.here(
        "pods are up to date before slots go to them",
        actions=(Failover,),
        keeps=("I8", "I12"),
        cases=("CL-18", "IN-07", "ST-05"),
    ),
    Row(
        "rebalance",
        rebalance,
        Kind.CHANGE,
        "MovingSlots",
        "slots move between settled shards",
        actions=(MoveSlots, StopMoving),
        keeps=("I4", "I5", "I12"),
        cases=("CL-06", "CL-07", "CL-15"),
    ),
    SHRINK.here(actions=(Failover,), keeps=("I6", "I8")),
    GROW,
    LABEL_CLAIMS,
    SWITCH.here("a request for a settled database", actions=(Failover,), keeps=("I5", "I6")),
    SPREAD.here(actions=(Failover,), keeps=("I5", "I6")),
    Row("audit", audit, Kind.UPKEEP, "", "only asks for a count", actions=(), keeps=("I14",)),
    WAIT.here(keeps=("I14",)),
)

COMPANIONS: tuple[Companion, ...] = (label,)
