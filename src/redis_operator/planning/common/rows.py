"""The rows of rules that modes share; a mode says with `Row.here` why they have their place."""

from __future__ import annotations

from typing import Final

from ..actions import ConfigSet, DeletePod, GrowVolume, LabelClaim, ResizePod, ScaleWorkload
from ..failover.actions import Follow, FollowSource, Promote
from ..row import Kind, Row
from .configure import configure
from .fill import fill
from .follow_source import follow_source
from .grow import grow
from .hibernate import hibernate
from .label_claims import label_claims
from .pods import pods
from .resize import resize
from .roll import roll
from .shrink import shrink
from .switch import drain, spread, switch
from .wait import wait

__all__ = [
    "CONFIGURE",
    "DRAIN",
    "FILL",
    "FOLLOW_SOURCE",
    "GROW",
    "HIBERNATE",
    "LABEL_CLAIMS",
    "PODS",
    "RESIZE",
    "ROLL",
    "SHRINK",
    "SPREAD",
    "SWITCH",
    "WAIT",
]

HIBERNATE: Final = Row(
    "hibernate",
    hibernate,
    Kind.CHANGE,
    "Hibernating",
    "no repair starts pods that must end",
    actions=(ScaleWorkload,),
)
PODS: Final = Row(
    "pods", pods, Kind.CHANGE, "ScalingUp", "additional copies do no harm", actions=(ScaleWorkload,)
)
FOLLOW_SOURCE: Final = Row(
    "follow_source",
    follow_source,
    Kind.SAFETY,
    "FollowingSource",
    "a database that copies an external server has no primary until a promotion is requested",
    actions=(FollowSource, Follow, Promote, ConfigSet, GrowVolume),
    keeps=("I1",),
)
FILL: Final = Row(
    "fill",
    fill,
    Kind.CHANGE,
    "",
    "only repairs while a worker restores keys to the primaries",
    actions=(),
    keeps=("I1",),
)
DRAIN: Final = Row(
    "drain",
    drain,
    Kind.CHANGE,
    "SwitchingOver",
    "a pod that is being deleted has a deadline",
)
CONFIGURE: Final = Row(
    "configure",
    configure,
    Kind.CHANGE,
    "Configuring",
    "settings reach running servers before any is restarted for them",
    actions=(ConfigSet,),
)
RESIZE: Final = Row(
    "resize",
    resize,
    Kind.CHANGE,
    "ResizingPod",
    "a resize in place avoids a restart",
    actions=(ResizePod,),
)
ROLL: Final = Row(
    "roll",
    roll,
    Kind.CHANGE,
    "RecreatingPod",
    "a restart disturbs clients: it comes last",
    actions=(DeletePod,),
)
SHRINK: Final = Row(
    "shrink",
    shrink,
    Kind.CHANGE,
    "ScalingDown",
    "copies are removed last",
    actions=(ScaleWorkload,),
)
GROW: Final = Row(
    "grow",
    grow,
    Kind.CHANGE,
    "ExpandingVolume",
    "disturbs no server",
    actions=(GrowVolume,),
    cases=("IN-03",),
)
LABEL_CLAIMS: Final = Row(
    "label_claims",
    label_claims,
    Kind.CHANGE,
    "LabelingClaims",
    "disturbs no server",
    actions=(LabelClaim,),
)
SWITCH: Final = Row("switch", switch, Kind.CHANGE, "SwitchingOver", "a person asked for it")
SPREAD: Final = Row(
    "spread", spread, Kind.CHANGE, "SwitchingOver", "an improvement, when all else is done"
)
WAIT: Final = Row(
    "wait", wait, Kind.UPKEEP, "", "says what the database waits for when no rule can help"
)
