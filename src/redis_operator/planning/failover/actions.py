"""The actions on servers and sentinels of mode Failover, as values."""

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

    The server must still be a replica of that address, have reached `min_offset`, and have the
    history `replication_id`. The fence is checked again right before, as with `Failover`. No
    sentinel of `sentinels` may have begun an election, unless no candidate could win it, or name
    another server than when the plan was made: then they have elected that one since.
    """

    node: At
    follows: str
    fence: Fence
    replication_id: str = ""
    min_offset: int = 0
    primary: ServerId = ServerId("")  # the primary before, where it is known
    primary_pod: str = ""
    primary_uid: str = ""
    unseen: tuple[str, ...] = ()
    sentinels: tuple[At, ...] = ()  # asked right before whether they have begun an election
    name: str = ""  # the name under which they monitor the primary
    named: tuple[str, ...] = ()  # the addresses that they named when the plan was made
    needed: int = 0  # how many of the sentinels must name the server, with the fence DEPOSED
    source: str = ""  # an external server, all of whose data must have arrived right before
    whole: bool = False  # the server must also have refused none of that data


class Follow(Struct, frozen=True):
    """`REPLICAOF` on a server: it copies `primary`, which must be a primary right before.

    The server must still follow `follows`. If that is empty, the server is a primary, and its data
    is known to be part of the history of `primary`, or was given up; and the sentinels must not
    have elected it since. In a copy of an external server, `primary` is itself a replica of
    `source`.
    """

    node: At
    primary: At
    follows: str
    source: str = ""
    sentinels: tuple[At, ...] = ()  # asked right before, where the server is a primary itself
    name: str = ""  # the name under which they monitor the primary
    needed: int = 0  # the server stays a primary if so many sentinels name it, or one elects


class FollowSource(Struct, frozen=True):
    """`REPLICAOF` an external server, with its login: the server drops all data that it holds.

    It must not be a primary, and must still follow `follows`; and the API must still say that the
    database wants this source and has no data of its own. I1
    """

    node: At
    host: str
    port: int
    follows: str


class Elect(Struct, frozen=True):
    """Have a majority of the sentinels vote for the operator, and name `node` in their epoch.

    They all consider the primary at `follows` dead and know no replica that they could promote, so
    that no failover of their own can be in progress. Refused unless `needed` of them say so right
    before and give their votes, and unless the replica is unchanged since the plan was made. I7
    """

    node: At  # the replica that must lead
    follows: str  # host:port of the primary, which does not respond
    name: str
    sentinels: tuple[At, ...]
    needed: int
    replication_id: str = ""
    min_offset: int = 0


class Watch(Struct, frozen=True):
    """Have a sentinel monitor `primary` under `name`, with these settings and no other address.

    Refused while the sentinel fails over, unless the primary is a primary right before, and when
    the sentinel names another address than when the plan was made: then it has failed over since.
    The other sentinels are introduced to it at once. `afresh`: its knowledge is dropped, so that it
    asks the primary for its replicas now; only while it considers the primary healthy.
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
    """Introduce other sentinels to a sentinel, with the message that they send every two seconds.

    The sentinel only learns their ids and addresses. Refused unless it names `primary`.
    """

    node: At  # the sentinel
    name: str
    primary: At
    others: tuple[At, ...]


class Unwatch(Struct, frozen=True):
    """`SENTINEL REMOVE`: a sentinel stops monitoring a primary that it cannot replace.

    Every server has restarted, and the server that the sentinels name waits for them to promote
    another one. They never will, since none of the others is eligible. Refused when they name
    another server since, or fail over.
    """

    node: At
    name: str
    named: str = ""  # the address that it named when the plan was made


class ResetSentinel(Struct, frozen=True):
    """`SENTINEL RESET`: a sentinel forgets replicas and sentinels, and rediscovers the live ones.

    Refused while it fails over or considers the primary down, and unless it names `primary`.
    """

    node: At
    name: str
    primary: At
    others: tuple[At, ...] = ()  # sentinels that are introduced to it again


class SwitchOver(Struct, frozen=True):
    """Replace a primary by a replica that has all writes that it acknowledged. I6, I10

    Writes are paused (bounded by the server), the replica reaches the offset, it is promoted, and
    the old primary follows it. Refused when a sentinel has begun an election, or names another
    server than `primary`. The sentinels are updated right after: they demote a replica that they
    did not promote after eight seconds.
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
