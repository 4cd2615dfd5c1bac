"""What is done to servers and sentinels of mode Failover, as values."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ..at import At
from ..fence import Fence
from ..identity import ServerId

__all__ = [
    "Elect",
    "FailoverAction",
    "Follow",
    "FollowSource",
    "Introduce",
    "Promote",
    "ResetSentinel",
    "SwitchOver",
    "Unwatch",
    "Watch",
]


class Promote(Struct, frozen=True):
    """`REPLICAOF NO ONE` on a server that follows `follows`, in mode Failover.

    It must still be a replica of that address, at `min_offset` at least and with the history
    `replication_id`. The fence must hold again right before, as with `Failover`; and no sentinel of
    `sentinels` may have begun an election, unless nobody could win it, or name another server than
    when the plan was made: they have elected it since.
    """

    node: At
    follows: str
    fence: Fence
    replication_id: str = ""
    min_offset: int = 0
    primary: ServerId = ServerId("")  # who led before, where it is known
    primary_pod: str = ""
    primary_uid: str = ""
    unseen: tuple[str, ...] = ()
    sentinels: tuple[At, ...] = ()  # asked right before whether they have begun an election
    name: str = ""  # what they call the primary
    named: tuple[str, ...] = ()  # the addresses that they named when the plan was made
    needed: int = 0  # of the sentinels: how many must name it, with the fence DEPOSED
    source: str = ""  # an external server, all of whose data must have arrived right before
    whole: bool = False  # and the server must have refused nothing of them


class Follow(Struct, frozen=True):
    """`REPLICAOF` on a server: it copies `primary`, which must be one right before.

    The server must still follow `follows`; empty: it is a primary, and what it holds is known to be
    part of the history of `primary`, or was given up; and the sentinels must not have elected it
    since. In a copy of a server elsewhere the primary
    is a replica of `source` itself.
    """

    node: At
    primary: At
    follows: str
    source: str = ""
    sentinels: tuple[At, ...] = ()  # asked right before, where the server is a primary itself
    name: str = ""  # what they call the primary
    needed: int = 0  # of the sentinels: the server stays where so many name it, or one elects


class FollowSource(Struct, frozen=True):
    """`REPLICAOF` an external server, with its login: whatever the server holds is dropped.

    It must be no primary and still follow `follows`; and the API must still say that the database
    wants this source and has no data of its own. I1
    """

    node: At
    host: str
    port: int
    follows: str


class Elect(Struct, frozen=True):
    """Have a majority of the sentinels vote for the operator, and name `node` in their epoch.

    They all hold the primary at `follows` for dead and know no replica that they could promote, so
    that no failover of their own can be in progress. Refused unless `needed` of them say so right
    before and give their votes, and unless the replica is still what the plan took it for. I7
    """

    node: At  # the replica that is to lead
    follows: str  # host:port of the primary, which is silent
    name: str
    sentinels: tuple[At, ...]
    needed: int
    replication_id: str = ""
    min_offset: int = 0


class Watch(Struct, frozen=True):
    """Have a sentinel monitor `primary` under `name`, with these settings and no other address.

    Refused while the sentinel fails over, unless the primary is one right before, and where the
    sentinel names another address than when the plan was made: it failed over since. It is told of
    the other sentinels at once. `afresh`: what it knows is forgotten, so that it asks the primary
    for its replicas now; only while it has nothing against the primary.
    """

    node: At  # the sentinel
    name: str
    primary: At
    quorum: int
    settings: tuple[tuple[str, str], ...] = ()
    others: tuple[At, ...] = ()
    afresh: bool = False
    named: str = ""  # the address that it named when the plan was made; empty: none


class Introduce(Struct, frozen=True):
    """Tell a sentinel of others, in the words that they say to it themselves every two seconds.

    Nothing is changed but that it knows who and where they are. Refused unless it names `primary`.
    """

    node: At  # the sentinel
    name: str
    primary: At
    others: tuple[At, ...]


class Unwatch(Struct, frozen=True):
    """`SENTINEL REMOVE`: a sentinel stops to monitor a primary that it cannot replace.

    Every server has restarted, and the one that the sentinels name waits for them to promote
    another: they never will, since none of the others is eligible. Refused where they name another
    one since, or fail over.
    """

    node: At
    name: str
    named: str = ""  # the address that it named when the plan was made


class ResetSentinel(Struct, frozen=True):
    """`SENTINEL RESET`: a sentinel forgets replicas and sentinels, and finds those that live again.

    Refused while it fails over or has the primary down, and unless it names `primary`.
    """

    node: At
    name: str
    primary: At
    others: tuple[At, ...] = ()  # sentinels that it is told of again


class SwitchOver(Struct, frozen=True):
    """Give the place of a primary to a replica that has all that it acknowledged. I6, I10

    Writes are paused (bounded by the server), the replica is seen to have the offset, it is
    promoted, and the old primary follows it. Refused when a sentinel has begun an election, or
    names another server than `primary`. The sentinels are told right after: they take a promoted
    replica back after eight seconds.
    """

    node: At  # the replica
    primary: At
    name: str
    sentinels: tuple[At, ...] = ()


FailoverAction: TypeAlias = (
    Promote
    | Elect
    | Follow
    | FollowSource
    | Watch
    | Introduce
    | Unwatch
    | ResetSentinel
    | SwitchOver
)
