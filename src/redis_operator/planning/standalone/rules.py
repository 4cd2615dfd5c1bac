"""The rules of mode Standalone in order: tell what was lost, change, restart last."""

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
from .lost import lost

__all__ = ["COMPANIONS", "RULES"]

RULES: tuple[Row, ...] = (
    Row("hibernate", hibernate, Kind.CHANGE, "Hibernating", "no repair starts pods that shall end"),
    Row("pods", pods, Kind.CHANGE, "ScalingUp", "a server that does not exist tells nothing"),
    Row("lost", lost, Kind.REPAIR, "StartingEmpty", "a loss is told before anything is done"),
    Row(
        "configure",
        configure,
        Kind.CHANGE,
        "Configuring",
        "settings reach the running server before it is restarted for them",
    ),
    Row("resize", resize, Kind.CHANGE, "ResizingPod", "resources in place spare a restart"),
    Row("roll", roll, Kind.CHANGE, "RecreatingPod", "a restart is an outage: it comes last"),
    Row("grow", grow, Kind.CHANGE, "ExpandingVolume", "disturbs no server"),
    Row("rest", rest, Kind.UPKEEP, "", "says what is waited for when no rule can help"),
)

COMPANIONS: tuple[Companion, ...] = (label,)
