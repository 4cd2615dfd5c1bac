"""Who shall lead, by what each server holds: its history and how far it came. Never by its name.

A replication id names a history; a server that was promoted keeps the id before as `id2`, up to the
offset where it began its own. Of one history, who came further has all that the others have.
"""

from __future__ import annotations

from msgspec import Struct

from ..observed import Led, Seen

__all__ = ["FRESH", "Undecided", "best", "holds", "same_history"]

FRESH = "127.0.0.1:2"
"""What a server follows that just started and found no files: it is new, or lost them."""


class Undecided(Struct, frozen=True):
    """Why no server can be named, in words."""

    why: str


def holds(node: Seen) -> bool:
    """Whether a server has anything that could be lost."""
    return node.keys > 0


def same_history(one: Seen, other: Seen) -> bool:
    """Whether one of two servers has all that the other has."""
    a, b = one.replication, other.replication
    return bool(a.id) and (a.id in (b.id, b.id2) or b.id in (a.id, a.id2))


def best(nodes: list[Seen], led: Led | None, asked: str = "") -> Seen | Undecided:
    """The server whose data are the database's, or why that cannot be known.

    Servers that hold nothing are only named where none holds anything. Of several histories, the
    one that the status last told of is the database's; where none of them is that (a server that
    reads an append-only file begins a new one), it is what the last primary holds. SE-05, SE-18
    """
    holders = [node for node in nodes if holds(node)]
    if not holders:
        pod = led.pod if led is not None else ""
        return min(
            nodes,
            key=lambda n: (n.replication.follows == FRESH, n.pod.name != pod, n.pod.ordinal),
        )
    first = max(holders, key=lambda node: node.replication.offset)
    if all(same_history(first, node) for node in holders):
        return _furthest(holders, led)
    told = [n for n in holders if led and led.replication_id and _is_of(n, led.replication_id)]
    if told:
        return _furthest(told, led)
    chosen = [n for n in holders if n.pod.name == (asked or (led.pod if led else ""))]
    if chosen:
        return chosen[0]
    names = ", ".join(node.pod.name for node in holders)
    return Undecided(
        f"{names} hold data of different histories, and it is not known which are the "
        "database's: name the pod whose data is kept with the annotation "
        "redisoperator.dev/switch-primary-to; what the others hold is then replaced"
    )


def _is_of(node: Seen, history: str) -> bool:
    return history in (node.replication.id, node.replication.id2)


def _furthest(nodes: list[Seen], led: Led | None) -> Seen:
    """Who came furthest; of equals the last primary, then one that need not move soon."""
    return max(
        nodes,
        key=lambda node: (
            node.replication.offset,
            led is not None and node.pod.name == led.pod,
            not node.pod.deleting and not node.pod.draining,
            node.replication.priority > 0,
            -node.pod.ordinal,
        ),
    )
