"""A database that is the copy of an external server: its progress, and what blocks it. Pure.

Before it has a primary of its own, one of its servers (the head) follows the source and the others
follow the head; none accepts writes. The data of such servers may be dropped, because the source
has it, but only if the status says that it is a copy. That is recorded while all servers are
observed empty, before the first of them follows.
"""

from __future__ import annotations

from msgspec import Struct

from ..redis.versions import can_feed, parse_version
from .observed import Node, Observed, Seen
from .sources import SourceSeen, SourceSilent

__all__ = [
    "PORT",
    "Copy",
    "Hindrance",
    "address",
    "behind",
    "copy_of",
    "hindrance",
    "is_linked",
    "unrecordable",
]

PORT = 6379
_PROMOTED = "remove spec.bootstrap.fromRedis once applications have stopped writing to it"


class Hindrance(Struct, frozen=True):
    """Why a source is not followed as it should be: a reason for machines, a message for people."""

    reason: str
    message: str
    final: bool = True  # the source is not followed before this is over


class Copy(Struct, frozen=True):
    """What a status reports about a copy."""

    address: str  # of the source
    reason: str  # of the condition Following
    message: str
    in_sync: bool = False
    pod: str = ""  # the server that follows it
    link: str = "none"
    lag: int = 0  # bytes; 0 also where it is not known
    recorded: bool = False  # from now on the status records that servers hold a copy


def address(node: Node) -> str:
    """The address of a server, as others name it."""
    return f"{node.pod.ip}:{PORT}"


def is_linked(node: Seen) -> bool:
    """Whether a replica has all data of its primary, except for what is in transit."""
    link = node.replication
    return not node.is_primary and link.link_up and not link.syncing and not node.loading


def behind(head: Seen, source: SourceSeen) -> int | None:
    """How many bytes of the source's history have not arrived; None: they cannot be compared."""
    if source.replication_id != head.replication.id:
        return None
    return max(0, source.offset - head.replication.offset)


def unrecordable(observed: Observed, missing: tuple[str, ...]) -> str | None:
    """Why it cannot be recorded yet that all data on the servers is a copy, or None. I1"""
    absent = _absent(observed, missing)
    if absent or not observed.nodes:
        return absent or "there is no pod yet"
    for node in observed.seen:
        if node.loading:
            return f"{node.pod.name} is still loading its data"
        if node.keys:
            return (
                f"{node.pod.name} holds {node.keys} keys that it would lose; remove "
                "spec.bootstrap to serve them, or delete the database with its volumes "
                "and create it again"
            )
    return None


def _absent(observed: Observed, missing: tuple[str, ...]) -> str:
    """Describe which server is missing, or return an empty string."""
    for node in observed.unreachable:
        return f"{node.pod.name} does not respond: {node.pod.waiting or node.error}"
    return f"{missing[0]} does not exist yet" if missing else ""


def hindrance(observed: Observed, place: str) -> Hindrance | None:
    """What is wrong with the source, or None."""
    source = observed.source
    if source is None:
        return None
    if isinstance(source, SourceSilent):
        return Hindrance(source.reason, f"{place}: {source.error}", final=source.hopeless)
    ours = [node for node in observed.seen if node.id == source.id]
    if ours:
        return Hindrance("SourceIsOwn", f"{place} is {ours[0].pod.name} of this same database")
    above = [node for node in observed.nodes if address(node) == source.follows]
    if above:
        return Hindrance("SourceIsOwn", f"{place} is itself a replica of {above[0].pod.name}")
    if source.cluster:
        return Hindrance(
            "SourceIsCluster",
            f"{place} is a node of a Redis Cluster, which has only a part of the keys; "
            "copy the data key by key",
        )
    return _unreadable(observed, source, place) or _unfit(source, place)


def _unreadable(observed: Observed, source: SourceSeen, place: str) -> Hindrance | None:
    theirs = parse_version(source.engine, source.version) if source.version else None
    for node in observed.seen:
        ours = parse_version(node.engine, node.version) if node.version else None
        if theirs is None or ours is None or can_feed(theirs, ours):
            continue
        return Hindrance(
            "SourceIncompatible",
            f"{place} runs {theirs}, whose data {node.pod.name} with {ours} cannot load; use an "
            "engine and a version that can (spec.engine, spec.version)",
        )
    return None


def _unfit(source: SourceSeen, place: str) -> Hindrance | None:
    """Why the source is unsuitable, though it can still be followed; or None."""
    if source.loading:
        return Hindrance("SourceLoading", f"{place} is loading its own data", final=False)
    if not source.is_primary:
        link = "in sync with it" if source.linked else "NOT in sync with it"
        return Hindrance(
            "SourceIsReplica",
            f"{place} is itself a replica of {source.follows}, and {link}: name its primary in "
            "spec.bootstrap.fromRedis, or what has not arrived there is not known",
            final=False,
        )
    return None


def copy_of(
    observed: Observed,
    *,
    place: str,
    head: Seen | None,
    followers: tuple[Seen, ...],
    missing: tuple[str, ...],
    promoting: bool,
    backup: str = "",
) -> Copy:
    """What is reported about a copy, also about one that is made from a backup."""
    found = hindrance(observed, place)
    source = observed.source
    lag = behind(head, source) if head is not None and isinstance(source, SourceSeen) else None
    link = _link(head)
    reason, message = "LinkDown", f"no server has a link to {place} yet"
    if found is not None and found.final:
        reason, message = found.reason, found.message
    elif head is not None and link == "up":
        reason, message = _whole(head, place, backup)
        late = next((n for n in followers if not is_linked(n)), None)
        absent = _absent(observed, missing)
        if late is not None:
            reason, message = "Copying", f"{late.pod.name} is copying {head.pod.name}"
        elif absent:
            reason, message = "Copying", f"{head.pod.name} follows {place}; {absent}"
        if found is not None:
            message = f"{message}; {found.message}"
    elif head is not None and link == "syncing":
        what = f"loading backup {backup} from" if backup else "copying"
        reason, message = "Copying", f"{head.pod.name} is {what} {place}"
    elif found is not None:
        reason, message = found.reason, found.message
    elif head is not None:
        message = (
            f"{head.pod.name} has no link to {place}, which responds to the operator: a network "
            "policy may keep pods from it; the log of the pod has the error"
        )
    if promoting:
        reason, message = "Promoting", f"spec.bootstrap.fromRedis is removed; {message}"
    recordable = unrecordable(observed, missing) is None and not promoting
    return Copy(
        address=place,
        reason=reason,
        message=message,
        in_sync=reason == "InSync",
        pod=head.pod.name if head is not None else "",
        link=link,
        lag=lag or 0,
        recorded=bool(observed.copied) or recordable,
    )


def _whole(head: Seen, place: str, backup: str) -> tuple[str, str]:
    """What is reported about a server that has everything."""
    reason, message = "InSync", f"read only: follows {place}; {_PROMOTED}"
    if backup:
        reason, message = "Promoting", f"{head.pod.name} has all of backup {backup}"
    return reason, message


def _link(head: Seen | None) -> str:
    if head is None:
        return "none"
    if is_linked(head):
        return "up"
    return "syncing" if head.replication.syncing or head.loading else "down"
