"""The rules of mode Failover in order: a primary leads, all follow and monitor it, then changes."""

from __future__ import annotations

from ..actions import (
    ConfigSet,
    DeletePod,
    DeleteWorkload,
    DiscardData,
    LabelRole,
    ScaleWorkload,
)
from ..common.label import label
from ..common.rows import (
    CONFIGURE,
    FILL,
    FOLLOW_SOURCE,
    GROW,
    HIBERNATE,
    LABEL_CLAIMS,
    PODS,
    RESIZE,
    ROLL,
    SWITCH,
    WAIT,
)
from ..common.switch import drain
from ..row import Companion, Kind, Row
from .acquaint import acquaint
from .actions import Elect, Follow, Introduce, Promote, ResetSentinel, SwitchOver, Unwatch, Watch
from .follow import follow
from .ghosts import forget_replicas, forget_sentinels
from .introduce import introduce
from .leave import dismiss_sentinels, shrink
from .name_primary import name_primary
from .replace_data import replace_data
from .sentinel_pods import replace_sentinel, roll_sentinels, sentinel_pods, shrink_sentinels
from .set_aside import set_aside
from .vouch import vouch
from .watch import watch

__all__ = ["COMPANIONS", "RULES"]

_HAND_OVER = (SwitchOver, LabelRole, Watch, Follow)

RULES: tuple[Row, ...] = (
    HIBERNATE.here(keeps=("I1",)),
    PODS.here("a server that does not exist holds nothing"),
    Row(
        "sentinel_pods",
        sentinel_pods,
        Kind.CHANGE,
        "ScalingUp",
        "a sentinel that does not exist watches nothing",
        actions=(ScaleWorkload,),
    ),
    FOLLOW_SOURCE.here(actions=(LabelRole, Watch)),
    Row(
        "name_primary",
        name_primary,
        Kind.SAFETY,
        "NamingPrimary",
        "without a primary nothing is served, and what else to repair depends on it",
        actions=(Elect, Promote, LabelRole, Watch, Unwatch, Follow),
        keeps=("I1", "I7", "I9"),
        cases=("SE-02", "SE-05", "SE-13", "SE-18"),
    ),
    Row(
        "set_aside",
        set_aside,
        Kind.REPAIR,
        "SettingDataAside",
        "a new follower drops its data: data that no other server has is kept first",
        actions=(Follow, ConfigSet, DeletePod),
        keeps=("I1",),
        cases=("SE-11",),
    ),
    Row(
        "follow",
        follow,
        Kind.REPAIR,
        "AttachingReplicas",
        "copies first: until they are in sync, no server could take over",
        actions=(Follow,),
        keeps=("I1",),
        cases=("SE-09",),
    ),
    Row(
        "watch",
        watch,
        Kind.REPAIR,
        "ConfiguringSentinels",
        "sentinels protect what leads now, before anything is changed",
        actions=(Watch,),
        cases=("SE-05", "SE-06", "SE-07", "SE-15"),
    ),
    Row(
        "introduce",
        introduce,
        Kind.UPKEEP,
        "ConfiguringSentinels",
        "sentinels that monitor the primary agree on nothing before they know each other",
        actions=(Introduce,),
        cases=("SE-14",),
    ),
    Row(
        "vouch",
        vouch,
        Kind.UPKEEP,
        "MakingEligible",
        "sentinels may promote a replica as soon as it is in sync",
        actions=(ConfigSet,),
        keeps=("I9",),
    ),
    Row(
        "acquaint",
        acquaint,
        Kind.UPKEEP,
        "ConfiguringSentinels",
        "after replicas are eligible, so that sentinels discover them as such",
        actions=(Watch,),
        keeps=("I8",),
        cases=("SE-02", "SE-06"),
    ),
    Row(
        "replace_sentinel",
        replace_sentinel,
        Kind.REPAIR,
        "RecreatingPod",
        "every planned change waits for a sentinel that does not act",
        actions=(DeletePod,),
        keeps=("I8",),
        cases=("SE-14",),
    ),
    Row(
        "replace_data",
        replace_data,
        Kind.REPAIR,
        "ReplacingData",
        "needs a primary that has the data, and sentinels that name it",
        actions=(DiscardData,),
        keeps=("I1", "I2"),
        cases=("ST-07",),
    ),
    Row(
        "drain",
        drain,
        Kind.SAFETY,
        "SwitchingOver",
        "a primary that is being deleted cannot wait for other changes",
        actions=_HAND_OVER,
        keeps=("I6", "I10"),
        cases=("SE-01",),
    ),
    SWITCH.here(actions=_HAND_OVER, keeps=("I6", "I10")),
    CONFIGURE.here(
        "settings reach running servers before these are restarted for them", cases=("IN-27",)
    ),
    FILL,
    RESIZE,
    Row(
        "shrink",
        shrink,
        Kind.CHANGE,
        "ScalingDown",
        "what is not wanted any more is not replaced first",
        actions=(*_HAND_OVER, ScaleWorkload),
        keeps=("I1", "I6"),
        cases=("SE-17",),
    ),
    Row(
        "dismiss_sentinels",
        dismiss_sentinels,
        Kind.CHANGE,
        "ScalingDown",
        "a database that leaves the mode keeps its sentinels until one server is left",
        actions=(DeleteWorkload,),
        keeps=("I8",),
    ),
    Row(
        "shrink_sentinels",
        shrink_sentinels,
        Kind.CHANGE,
        "ScalingDown",
        "what is not wanted any more is not replaced first",
        actions=(ScaleWorkload,),
    ),
    Row(
        "forget_sentinels",
        forget_sentinels,
        Kind.REPAIR,
        "ResettingSentinel",
        "after pods were removed, and before others are: the majority is one of live sentinels",
        actions=(ResetSentinel,),
        keeps=("I8",),
        cases=("SE-17",),
    ),
    GROW.here("disturbs no server, and a disk that is nearly full waits for no roll"),
    LABEL_CLAIMS,
    Row(
        "roll_sentinels",
        roll_sentinels,
        Kind.CHANGE,
        "RecreatingPod",
        "all sentinels are healthy again before a server is restarted, never both at once",
        actions=(DeletePod,),
        keeps=("I8",),
        cases=("SE-14",),
    ),
    ROLL.here(actions=_HAND_OVER, keeps=("I1", "I6", "I8"), cases=("ST-05",)),
    Row(
        "forget_replicas",
        forget_replicas,
        Kind.UPKEEP,
        "ResettingSentinel",
        "after all changes: once for all servers that were replaced",
        actions=(ResetSentinel,),
        keeps=("I8",),
        cases=("SE-17",),
    ),
    WAIT,
)

COMPANIONS: tuple[Companion, ...] = (label,)
