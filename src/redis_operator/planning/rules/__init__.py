"""One file a rule. Order is the policy: know who is who, save data, connect, own, copy, change.

A rule answers None when it has nothing to say, a plan without stages when something is in the way,
and a plan with stages when it wants to act; then it acts alone.
"""

from __future__ import annotations

from collections.abc import Callable

from ..actions import Action
from ..advice import Plan
from ..situation import Situation
from .assist import assist
from .audit import audit
from .configure import configure
from .connect import connect
from .cover import cover
from .empty_primary import empty_primary
from .follow import follow
from .foreign import foreign
from .forget import forget
from .found import found
from .grow import grow
from .hibernate import hibernate
from .house import house
from .inherit import inherit
from .label import label
from .leave import leave
from .lost import lost
from .mend import mend
from .pause import pause
from .pods import pods
from .rebalance import rebalance
from .rescue import rescue
from .resize import resize
from .rest import rest
from .roll import roll
from .settle import settle
from .shrink import shrink
from .switch import drain, spread, switch
from .twins import twins

__all__ = ["COMPANIONS", "RULES", "Companion", "Rule"]

Rule = Callable[[Situation], Plan | None]
Companion = Callable[[Situation], tuple[Action, ...]]

RULES: tuple[Rule, ...] = (
    pause,
    hibernate,
    pods,
    twins,
    empty_primary,
    assist,
    foreign,
    found,
    connect,
    inherit,
    lost,
    cover,
    settle,
    rescue,
    follow,
    forget,
    mend,
    drain,
    configure,
    house,
    leave,
    resize,
    roll,
    rebalance,
    shrink,
    grow,
    switch,
    spread,
    audit,
    rest,
)

COMPANIONS: tuple[Companion, ...] = (label,)
