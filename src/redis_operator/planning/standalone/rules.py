"""The rules of mode Standalone in order: tell what was lost, change, restart last."""

from __future__ import annotations

from ..actions import ConfigSet, DeletePod, GrowVolume, ResizePod, ScaleWorkload
from ..common.configure import configure
from ..common.grow import grow
from ..common.hibernate import hibernate
from ..common.label import label
from ..common.pods import pods
from ..common.resize import resize
from ..common.roll import roll
from ..common.wait import wait
from ..failover.actions import Promote
from ..row import Companion, Kind, Row
from .lead import lead
from .lost import lost

__all__ = ["COMPANIONS", "RULES"]

RULES: tuple[Row, ...] = (
    Row(
        "hibernate",
        hibernate,
        Kind.CHANGE,
        "Hibernating",
        "no repair starts pods that shall end",
        actions=(ScaleWorkload,),
        keeps=("I1",),
    ),
    Row(
        "pods",
        pods,
        Kind.CHANGE,
        "ScalingUp",
        "a server that does not exist tells nothing",
        actions=(ScaleWorkload,),
    ),
    Row(
        "lost",
        lost,
        Kind.REPAIR,
        "StartingEmpty",
        "a loss is told before anything is done",
        actions=(DeletePod,),
        keeps=("I1",),
        cases=("ST-02", "ST-03"),
    ),
    Row(
        "lead",
        lead,
        Kind.REPAIR,
        "NamingPrimary",
        "nothing is served before it leads",
        actions=(Promote,),
        keeps=("I1",),
    ),
    Row(
        "configure",
        configure,
        Kind.CHANGE,
        "Configuring",
        "settings reach the running server before it is restarted for them",
        actions=(ConfigSet,),
        cases=("CL-33", "IN-27"),
    ),
    Row(
        "resize",
        resize,
        Kind.CHANGE,
        "ResizingPod",
        "resources in place spare a restart",
        actions=(ResizePod,),
    ),
    Row(
        "roll",
        roll,
        Kind.CHANGE,
        "RecreatingPod",
        "a restart is an outage: it comes last",
        actions=(DeletePod,),
        keeps=("I1",),
        cases=("ST-01",),
    ),
    Row(
        "grow",
        grow,
        Kind.CHANGE,
        "ExpandingVolume",
        "disturbs no server",
        actions=(GrowVolume,),
        cases=("IN-03",),
    ),
    Row("wait", wait, Kind.UPKEEP, "", "says what is waited for when no rule can help", actions=()),
)

COMPANIONS: tuple[Companion, ...] = (label,)
