"""Which server an archiver attaches to, and where in its history. Pure.

Rules, in this order:
    1. A server that was promoted out of our history is followed: at the byte after our last one, or
       where it left our history, if we have more than it had. The rest is orphaned.
    2. Else our history goes on, on any server that still keeps our next byte.
    3. A server that has not come as far as we have is waited for.
    4. A replica that had to copy its primary from the beginning keeps nothing of what came before.
       The primary still does: with `bridge` the missing bytes are read there, up to where that
       replica goes on, and the worker leaves at once.
    5. Where no server has our next byte, the stream is lost: a new base, and a gap.

A primary counts an attached worker as a replica: it satisfies WAIT and min-replicas-to-write,
FAILOVER without TO may choose it, and Sentinel lists it for good. So a replica is taken wherever
the shard has one. A bridge is crossed only where the primary has that replica again, acknowledges
nothing (WAIT counts no replica that does not), and is not for databases with sentinels or with
min-replicas-to-write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from redis_operator.redis.replies import InfoReplication

from ..task import Source

__all__ = ["Bridge", "Choice", "Continue", "Head", "Restart", "View", "Wait", "choose", "unfit"]


class Head(Struct, frozen=True):
    """How far the archive has come."""

    replication_id: str
    last: int


class View(Struct, frozen=True):
    """A server that answered, and what it says of its replication."""

    source: Source
    replication: InfoReplication


class Continue(Struct, frozen=True):
    """Ask this server for the history `replication_id` from byte `first` on."""

    source: Source
    replication_id: str
    first: int
    is_promoted: bool = False


class Bridge(Struct, frozen=True):
    """Read from this primary, as `Continue` says, up to byte `upto`, and leave it."""

    first: Continue
    upto: int


class Restart(Struct, frozen=True):
    """Take a new base from this server: the stream in between is lost."""

    source: Source
    reason: str


class Wait(Struct, frozen=True):
    """No server can be attached to now."""

    reason: str


Choice: TypeAlias = Continue | Bridge | Restart | Wait


def unfit(view: View, *, allow_primary: bool) -> str | None:
    """Return why no archiver may be attached to this server; None: it may."""
    told = view.replication
    if told.is_primary:
        if not allow_primary:
            return f"{view.source.pod} is the primary"
        if any(line.port for line in told.replicas):
            return f"{view.source.pod} is the primary, and it has a replica"
        return None
    if not told.link_up or told.sync_in_progress:
        return f"{view.source.pod} is not in sync with its primary"
    return None


def choose(
    head: Head | None, views: Sequence[View], *, allow_primary: bool, bridge: bool = False
) -> Choice:
    """Return how the archive goes on."""
    reasons = [unfit(view, allow_primary=allow_primary) for view in views]
    fit = [view for view, reason in zip(views, reasons, strict=True) if reason is None]
    fit.sort(key=lambda view: view.replication.is_primary)
    if not fit:
        told = "; ".join(reason for reason in reasons if reason) or "no server responds"
        return Wait(told)
    if head is None:
        return Restart(fit[0].source, "the archive begins")
    for offered in (_promoted, _same):
        for view in fit:
            found = offered(head, view)
            if found is not None:
                return found
    behind = [view for view in fit if _is_behind(head, view.replication)]
    if behind:
        return Wait(f"{behind[0].source.pod} has not yet come to offset {head.last}")
    crossing = _bridge(head, views, fit) if bridge else None
    return crossing or Restart(fit[0].source, _lost(head, fit[0].replication))


def _bridge(head: Head, views: Sequence[View], fit: Sequence[View]) -> Bridge | None:
    """Return how to come to where a replica goes on, from the primary that it copied."""
    for primary in views:
        told = primary.replication
        if not told.is_primary or not any(
            line.port and line.state == "online" for line in told.replicas
        ):
            continue
        first = _promoted(head, primary) or _same(head, primary)
        reached = [
            view.replication.offset
            for view in fit
            if not view.replication.is_primary
            and view.replication.replication_id == told.replication_id
        ]
        if first is not None and reached and max(reached) >= first.first:
            return Bridge(first, max(reached))
    return None


def _promoted(head: Head, view: View) -> Continue | None:
    told = view.replication
    if told.replication_id2 != head.replication_id or told.replication_id == head.replication_id:
        return None
    first = min(head.last + 1, told.second_offset)
    if not _keeps(told, first):
        return None
    return Continue(view.source, head.replication_id, first, is_promoted=True)


def _same(head: Head, view: View) -> Continue | None:
    told = view.replication
    if told.replication_id != head.replication_id or not _keeps(told, head.last + 1):
        return None
    return Continue(view.source, head.replication_id, head.last + 1)


def _keeps(told: InfoReplication, first: int) -> bool:
    return 0 < told.backlog_first <= first <= told.offset + 1


def _is_behind(head: Head, told: InfoReplication) -> bool:
    return told.replication_id == head.replication_id and told.offset < head.last


def _lost(head: Head, told: InfoReplication) -> str:
    if head.replication_id in (told.replication_id, told.replication_id2):
        return (
            f"the server keeps the stream from byte {told.backlog_first} on, and byte "
            f"{head.last + 1} was needed: repl-backlog-size is too small for the time without an "
            "archiver"
        )
    return f"the history {head.replication_id} ended, and no server went on from it"
