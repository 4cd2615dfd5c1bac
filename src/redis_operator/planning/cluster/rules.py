"""The rules of mode Cluster in order: know who is who, save data, connect, own, copy, change.

A rule answers None when it has nothing to say, a plan without stages when something is in the way,
and a plan with stages when it wants to act; then it acts alone.
"""

from __future__ import annotations

from ..common.configure import configure
from ..common.grow import grow
from ..common.hibernate import hibernate
from ..common.label import label
from ..common.pods import pods
from ..common.resize import resize
from ..common.rest import rest
from ..common.roll import roll
from ..row import Companion, Kind, Row
from .assist import assist
from .audit import audit
from .connect import connect
from .cover import cover
from .empty_primary import empty_primary
from .follow import follow
from .foreign import foreign
from .forget import forget
from .found import found
from .house import house
from .inherit import inherit
from .leave import leave
from .lost import lost
from .mend import mend
from .part import part
from .rebalance import rebalance
from .rescue import rescue
from .settle import settle
from .shrink import shrink
from .switch import drain, spread, switch
from .twins import twins

__all__ = ["COMPANIONS", "RULES"]

RULES: tuple[Row, ...] = (
    Row("hibernate", hibernate, Kind.CHANGE, "Hibernating", "no repair starts pods that shall end"),
    Row("pods", pods, Kind.CHANGE, "ScalingUp", "more copies never hurt"),
    Row(
        "twins",
        twins,
        Kind.SAFETY,
        "ResettingNode",
        "nothing can be said of servers that share an id",
    ),
    Row(
        "empty_primary",
        empty_primary,
        Kind.SAFETY,
        "FailingOver",
        "before replicas copy the emptiness",
    ),
    Row(
        "assist",
        assist,
        Kind.SAFETY,
        "FailingOver",
        "a dead primary comes before all that needs its vote",
    ),
    Row(
        "part",
        part,
        Kind.SAFETY,
        "RaisingEpoch",
        "before the dead come back; a replica that is promoted makes room for another epoch",
    ),
    Row(
        "foreign",
        foreign,
        Kind.SAFETY,
        "ForgettingNodes",
        "nodes of others must not take part in what follows",
    ),
    Row("found", found, Kind.CHANGE, "CreatingCluster", "a new database needs nothing else first"),
    Row(
        "connect",
        connect,
        Kind.UPKEEP,
        "MeetingNodes",
        "slots and roles are only heard by nodes that know each other",
    ),
    Row(
        "inherit",
        inherit,
        Kind.REPAIR,
        "AssigningSlots",
        "before slots whose data live on count as lost",
    ),
    Row(
        "lost",
        lost,
        Kind.REPAIR,
        "StartingEmpty",
        "lost owners are given up before their slots are assigned",
    ),
    Row(
        "cover",
        cover,
        Kind.REPAIR,
        "AssigningSlots",
        "every slot has an owner before anything is moved or copied",
    ),
    Row("settle", settle, Kind.REPAIR, "FinishingSlotMoves", "open slots hinder every failover"),
    Row(
        "rescue",
        rescue,
        Kind.REPAIR,
        "MovingKeys",
        "keys find their owner before anything else moves",
    ),
    Row("follow", follow, Kind.UPKEEP, "AttachingReplicas", "copies before changes"),
    Row(
        "forget",
        forget,
        Kind.UPKEEP,
        "ForgettingNodes",
        "dead nodes are forgotten once nothing is theirs",
    ),
    Row("mend", mend, Kind.REPAIR, "ReplacingData", "needs owners and copies in place"),
    Row("drain", drain, Kind.CHANGE, "SwitchingOver", "a pod that is told to go has a deadline"),
    Row(
        "configure",
        configure,
        Kind.CHANGE,
        "Configuring",
        "settings reach running servers before any is restarted for them",
    ),
    Row(
        "house",
        house,
        Kind.REPAIR,
        "SwitchingOver",
        "primaries are in their own shard before pods are recreated",
    ),
    Row("leave", leave, Kind.CHANGE, "RemovingShard", "what is drained goes before more is moved"),
    Row("resize", resize, Kind.CHANGE, "ResizingPod", "resources in place spare a restart"),
    Row("roll", roll, Kind.CHANGE, "RecreatingPod", "pods are up to date before slots go to them"),
    Row("rebalance", rebalance, Kind.CHANGE, "MovingSlots", "slots move between settled shards"),
    Row("shrink", shrink, Kind.CHANGE, "ScalingDown", "copies go last"),
    Row("grow", grow, Kind.CHANGE, "ExpandingVolume", "disturbs no server"),
    Row("switch", switch, Kind.CHANGE, "SwitchingOver", "a wish about a settled database"),
    Row("spread", spread, Kind.CHANGE, "SwitchingOver", "comfort, when all else is done"),
    Row("audit", audit, Kind.UPKEEP, "", "only asks for a count"),
    Row("rest", rest, Kind.UPKEEP, "", "says what is waited for when no rule can help"),
)

COMPANIONS: tuple[Companion, ...] = (label,)
