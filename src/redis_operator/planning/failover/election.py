"""Which server must lead, judged by the data of each: its history and offset, never its name.

A replication id names a history; a server that was promoted keeps the previous id as `id2`, up to
the offset where it began its own. Within one history, the server with the highest offset has all
the data of the others.
"""

from __future__ import annotations

from msgspec import Struct

from ..observed import Led, Seen

__all__ = ["FRESH", "LED", "Undecided", "best", "holds", "same_history"]

FRESH = "127.0.0.1:2"
"""The primary of a server that just started and found no files: it is new, or lost them."""
LED = "127.0.0.1:3"
"""The primary of a server that just started and found files from when it led."""


class Undecided(Struct, frozen=True):
    """Why no server can be chosen, as a sentence."""

    why: str


def holds(node: Seen) -> bool:
    """Whether a server has any data that could be lost."""
    return node.keys > 0


def same_history(one: Seen, other: Seen) -> bool:
    """Whether one of two servers has all the data of the other."""
    a, b = one.replication, other.replication
    return bool(a.id) and (a.id in (b.id, b.id2) or b.id in (a.id, a.id2))


def best(
    nodes: list[Seen], led: Led | None, asked: str = "", elected: str = ""
) -> Seen | Undecided:
    """The server whose data is the database's, or why that cannot be known.

    An empty server is chosen only if no server has data, or if it is further in the
    history of those that do: the keys were deleted since. Of several histories, the one that the
    status recorded last is the database's. If none of them is that one (a server that reads an
    append-only file begins a new history), it is the data of the last primary. SE-05, SE-18
    """
    holders = [node for node in nodes if holds(node)]
    if not holders:
        pod = led.pod if led is not None else ""
        return min(
            nodes,
            key=lambda n: (n.replication.follows == FRESH, n.pod.name != pod, n.pod.ordinal),
        )
    holders += [n for n in nodes if any(_emptied_since(n, holder) for holder in holders)]
    first = max(holders, key=lambda node: node.replication.offset)
    if all(same_history(first, node) for node in holders):
        return _furthest(holders, led)
    of_history = [
        n for n in holders if led and led.replication_id and _is_of(n, led.replication_id)
    ]
    if of_history:
        return _furthest(of_history, led)
    return _last_primary(holders, led, asked, elected)


def _last_primary(
    holders: list[Seen], led: Led | None, asked: str, elected: str
) -> Seen | Undecided:
    """The server that led last, judged by the status, the volumes and the sentinels.

    Each of these may be outdated: if they differ, a person decides.
    """
    known = {node.pod.name: node for node in holders}
    if asked in known:
        return known[asked]
    signs = {
        "the status": {led.pod} if led is not None else set(),
        "the volumes": {n.pod.name for n in holders if n.replication.follows == LED},
        "the sentinels": {elected},
    }
    named = {sign: sorted(pods & known.keys()) for sign, pods in signs.items()}
    found = sorted({pod for pods in named.values() for pod in pods})
    if len(found) == 1:
        return known[found[0]]
    evidence = "; ".join(
        f"by {sign} {' and '.join(pods)} led" for sign, pods in named.items() if pods
    )
    return Undecided(
        f"{', '.join(known)} hold data of different histories, and it is not known which are the "
        f"database's{f' ({evidence})' if evidence else ''}: name the pod whose data is kept with "
        "the annotation redisoperator.dev/switch-primary-to; what the others hold is then replaced"
    )


def _emptied_since(node: Seen, holder: Seen) -> bool:
    """Whether a server without keys has the history of a holder, and deleted the keys since."""
    mine, other = node.replication, holder.replication
    if holds(node) or mine.follows == FRESH or mine.syncing or not mine.id:
        return False
    return mine.id == other.id and mine.offset > other.offset


def _is_of(node: Seen, history: str) -> bool:
    return history in (node.replication.id, node.replication.id2)


def _furthest(nodes: list[Seen], led: Led | None) -> Seen:
    """The server with the highest offset; then the last primary, then one that is not leaving."""
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
