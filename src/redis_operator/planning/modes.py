"""The modes of a database as data: which rules and guards it has, and how it answers them.

Cluster and Standalone differ in their rows here and in nothing else: no rule, no status and no
executor asks for the mode. The order of a mode's rules is its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from ..api.redis import Mode
from .actions import Action
from .advice import Wanted
from .cluster.topology import ClusterTopology
from .invariants import breaches_of_stage, breaches_of_step
from .observed import Observed
from .rules import COMPANIONS, RULES, Companion, Kind, Row
from .rules.configure import configure
from .rules.grow import grow
from .rules.hibernate import hibernate
from .rules.label import label
from .rules.pods import pods
from .rules.resize import resize
from .rules.rest import rest
from .rules.roll import roll
from .standalone import guards as standalone_guards
from .standalone.lost import lost
from .standalone.topology import StandaloneTopology
from .topology import Topology

__all__ = ["MODES", "Guards", "ModePlan", "situation"]


class Guards(Struct, frozen=True):
    """What no plan of a mode may do: each answers every breach in words."""

    step: Callable[[Any, Action], list[str]]
    stage: Callable[[Any, tuple[Action, ...]], list[str]]


class ModePlan(Struct, frozen=True):
    """How databases of one mode are planned."""

    rules: tuple[Row, ...]
    companions: tuple[Companion, ...]
    guards: Guards
    situation: Callable[[Wanted, Observed, float], Topology]
    served: tuple[str, str]  # reason and message of Available while everything is served


_STANDALONE_RULES: Final = (
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

MODES: Final[Mapping[Mode, ModePlan]] = {
    Mode.CLUSTER: ModePlan(
        rules=RULES,
        companions=COMPANIONS,
        guards=Guards(step=breaches_of_step, stage=breaches_of_stage),
        situation=ClusterTopology,
        served=("AllSlotsServed", "every slot is served"),
    ),
    Mode.STANDALONE: ModePlan(
        rules=_STANDALONE_RULES,
        companions=(label,),
        guards=Guards(
            step=standalone_guards.breaches_of_step, stage=standalone_guards.breaches_of_stage
        ),
        situation=StandaloneTopology,
        served=("Serving", "the server takes commands"),
    ),
}


def situation(wanted: Wanted, observed: Observed, now: float) -> Topology:
    """Put together what is wanted and what was seen, as the database's mode sees it."""
    return MODES[wanted.mode].situation(wanted, observed, now)
