"""The rules of mode Standalone in order: report losses, change, restart last."""

from __future__ import annotations

from ..actions import DeletePod
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
    WAIT,
)
from ..failover.actions import Promote
from ..row import Companion, Kind, Row
from .lead import lead
from .lost import lost

__all__ = ["COMPANIONS", "RULES"]

RULES: tuple[Row, ...] = (
    HIBERNATE.here(keeps=("I1",)),
    PODS.here("a server that does not exist reports nothing"),
    FOLLOW_SOURCE,
    Row(
        "lost",
        lost,
        Kind.REPAIR,
        "StartingEmpty",
        "a loss is reported before anything is done",
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
    CONFIGURE.here(
        "settings reach the running server before it is restarted for them",
        cases=("CL-33", "IN-27"),
    ),
    FILL,
    RESIZE,
    ROLL.here("a restart is an outage: it comes last", keeps=("I1",), cases=("ST-01",)),
    GROW,
    LABEL_CLAIMS,
    WAIT,
)

COMPANIONS: tuple[Companion, ...] = (label,)
