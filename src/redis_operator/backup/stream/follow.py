"""Decide which server an archiver attaches to, and where in its history. Pure.

Rules, in this order:
    1. A server that was promoted from the archived history is followed: at the byte after the last
       archived one, or where it left the history, if the archive has more. The rest is orphaned.
    2. Else the history continues, on any server that still has the next byte.
    3. A server whose offset is behind the archive is waited for.
    4. A replica after a full resync has nothing of what came before. The primary still does: with
       `bridge` the missing bytes are read there, up to where that replica continues, and the worker
       detaches at once.
    5. Where no server has the next byte, the stream is lost: a new base, and a gap.

A primary counts an attached worker as a replica: it satisfies WAIT and min-replicas-to-write,
FAILOVER without TO may choose it, and Sentinel lists it permanently. So a replica is used wherever
the shard has one. A bridge is used only where the primary has that replica again, acknowledges
nothing (WAIT does not count a replica without acknowledgements), and is not for databases with
sentinels or with min-replicas-to-write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from redis_operator.redis.replies import InfoReplication

from ..task import Source

__all__ = [
    "Bridge",
    "Choice",
    "Continue",
    "Head",
    "Restart",
    "View",
    "Wait",
    "choose",
    "is_better",
    "primary_of",
    "unfit",
]


class Head(Struct, frozen=True):
    """How far the archive has come."""

    replication_id: str
    last: int


class View(Struct, frozen=True):
    """A server that responded, and its replication state."""

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
    replication = view.replication
    if replication.is_primary:
        if not allow_primary:
            return f"{view.source.pod} is the primary"
        if any(line.port for line in replication.replicas):
            return f"{view.source.pod} is the primary, and it has a replica"
        return None
    if not replication.link_up or replication.sync_in_progress:
        return f"{view.source.pod} is not in sync with its primary"
    return None


def choose(
    head: Head | None, views: Sequence[View], *, allow_primary: bool, bridge: bool = False
) -> Choice:
    """Return how the archive continues."""
    reasons = [unfit(view, allow_primary=allow_primary) for view in views]
    fit = [view for view, reason in zip(views, reasons, strict=True) if reason is None]
    fit.sort(key=lambda view: view.replication.is_primary)
    if not fit:
        message = "; ".join(reason for reason in reasons if reason) or "no server responds"
        return Wait(message)
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


def is_better(choice: Choice, attached: Source, views: Sequence[View]) -> bool:
    """Whether a choice is to be followed at once, though another server is attached to."""
    if not isinstance(choice, Continue):
        return False
    own = [view for view in views if view.source == attached]
    on_primary = bool(own) and own[0].replication.is_primary
    return choice.is_promoted or (on_primary and choice.source != attached)


def primary_of(replication_id: str, views: Sequence[View]) -> Source | None:
    """Return the server that leads this history, or the one that went on from it."""
    for view in reversed(views):
        replication = view.replication
        if replication.is_primary and replication_id in (
            replication.replication_id,
            replication.replication_id2,
        ):
            return view.source
    return None


def _bridge(head: Head, views: Sequence[View], fit: Sequence[View]) -> Bridge | None:
    """Return how to reach the offset where a replica continues, from the primary that it copied."""
    for primary in views:
        replication = primary.replication
        if not replication.is_primary or not any(
            line.port and line.state == "online" for line in replication.replicas
        ):
            continue
        first = _promoted(head, primary) or _same(head, primary)
        reached = [
            view.replication.offset
            for view in fit
            if not view.replication.is_primary
            and view.replication.replication_id == replication.replication_id
        ]
        if first is not None and reached and max(reached) >= first.first:
            return Bridge(first, max(reached))
    return None


def _promoted(head: Head, view: View) -> Continue | None:
    replication = view.replication
    if (
        replication.replication_id2 != head.replication_id
        or replication.replication_id == head.replication_id
    ):
        return None
    first = min(head.last + 1, replication.second_offset)
    if not _keeps(replication, first):
        return None
    return Continue(view.source, head.replication_id, first, is_promoted=True)


def _same(head: Head, view: View) -> Continue | None:
    replication = view.replication
    if replication.replication_id != head.replication_id or not _keeps(replication, head.last + 1):
        return None
    return Continue(view.source, head.replication_id, head.last + 1)


def _keeps(replication: InfoReplication, first: int) -> bool:
    return 0 < replication.backlog_first <= first <= replication.offset + 1


def _is_behind(head: Head, replication: InfoReplication) -> bool:
    return replication.replication_id == head.replication_id and replication.offset < head.last


def _lost(head: Head, replication: InfoReplication) -> str:
    if head.replication_id in (replication.replication_id, replication.replication_id2):
        return (
            f"the server keeps the stream from byte {replication.backlog_first} on, and byte "
            f"{head.last + 1} was needed: repl-backlog-size is too small for the time without an "
            "archiver"
        )
    return f"the history {head.replication_id} ended, and no server went on from it"
