"""Cut all shards of a mode Cluster at the same time, and choose whose keys are used. Pure.

Rules:
    1. The owner of a slot is who claimed it last, with the highest epoch, by the latest cut of the
       shards that take no slot. Where that is after the time, a move may have ended in between: its
       source has no key of the slot any more at its cut. Primaries are not asked at the same time:
       a slot that its source has given away by then, and that no shard claims yet, is owned by the
       one that took it and claims it next. That one is cut later, so it has every key.
    2. Shards are cut at the last sample not after the time. While a slot moves key by key, its keys
       are at both ends: they are added at the target before they are deleted at the source. So the
       target of such a slot is cut at the first sample after the time: a key is then at one end at
       least. The same goes for a slot that changed hands around the time of the cut. Where nothing
       that was acknowledged by the time may be missing, all others are cut at the first sample
       after it, and such a target at the first one after those. Clocks of servers differ: by the
       clock of the worker, which asks all of them, the target was asked after the source responded.
    3. Keys of a slot are taken from its owner. Of a slot that is open, also those that only the
       other end has; where both have one, the owner's is taken. A slot is open if one end says so
       at its own cut, or at the time where it took no write from then to the cut. A slot that
       changed hands before the cut or after it is not open: its owner has every key, and the other
       end may have keys that were deleted.
    4. At a restore point all shards are cut where they were while no key moved, and the point says
       which slots they had. Earlier points do not: there, reports of the archive from before and
       right after the point are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet

from .plan import AtTime, Bound, NotArchived, RestoreEnd, Span, cut_at, text_of
from .records import Owned, PointMark

__all__ = ["Share", "plan_point", "plan_shards"]

_AROUND = 1_000_000  # microseconds: what changed hands so near may lie on either side of a cut


class Share(Struct, frozen=True):
    """What one shard gives: the keys of `slots`, and those of `open` that their owner lacks."""

    shard: str
    cut: RestoreEnd
    slots: SlotSet
    open: SlotSet


class _Ownership(Struct, frozen=True):
    """What a shard's primary reported about slots: at the time, and around it."""

    now: Owned
    around: tuple[Owned, ...]


def plan_shards(
    time: int, shards: Mapping[str, Sequence[Span]], bound: Bound = Bound.NOT_AFTER
) -> tuple[Share, ...]:
    """Return what each shard gives. Raises `NotArchived`, which names the shard or the slots."""
    around = _AROUND + _apart(time, shards)
    since, until = _between(time, shards, bound)
    since, until = since - around, until + around
    ownership = {
        name: _ownership(name, time, spans, since, until) for name, spans in shards.items()
    }
    given, taken = _moving(ownership, _nodes(shards))
    both = [name for name in shards if given[name] and taken[name]]
    if both:
        raise NotArchived(
            f"{both[0]} gave slots away and took others at {text_of(time)}, so that no cut of it "
            "holds all keys; choose a time before or after, or a restore point"
        )
    cuts = {n: cut_at(AtTime(time, bound), spans) for n, spans in shards.items() if not taken[n]}
    clocks = {name: _reaches(time, cut, shards[name]) for name, cut in cuts.items()}
    after = max(clocks.values(), default=time)
    sources = [name for name in cuts if given[name]]
    seen = max((_seen(cuts[name], shards[name]) for name in sources), default=0)
    for name in shards.keys() - cuts.keys():
        early = cut_at(AtTime(after, Bound.INCLUDE), shards[name])
        cuts[name] = _cut_after(name, early, seen, shards[name])
        if bound is Bound.NOT_AFTER:
            _require_near(name, time, cuts[name], shards[name], around)
        clocks[name] = _reaches(after, cuts[name], shards[name])
    until = max(until, after + around)
    ownership = {
        name: _ownership(name, after, spans, since, until) for name, spans in shards.items()
    }
    owners = _owners(ownership, after, taken)
    reports = {
        name: [owned for owned in _all_owned(spans) if owned.server <= clocks[name]][-1:]
        for name, spans in shards.items()
    }
    opened = _opened(reports, _nodes(shards))
    return tuple(
        Share(name, cuts[name], owners[name], opened[name] - owners[name]) for name in shards
    )


def _between(time: int, shards: Mapping[str, Sequence[Span]], bound: Bound) -> tuple[int, int]:
    """Return from when to when shards are cut, by their clocks, where none is cut later than due.

    That is far from the time where the worker was away, or a primary did not respond.
    """
    times = [time]
    for spans in shards.values():
        early, late = (cut_at(AtTime(time, one), spans) for one in (Bound.NOT_AFTER, Bound.INCLUDE))
        if not _is_same(early, late):
            times.append(late.passed if bound is Bound.INCLUDE else early.reached)
    return min(times), max(times)


def _apart(time: int, shards: Mapping[str, Sequence[Span]]) -> int:
    """Return how far the clocks of primaries are apart, by that of the worker, which asks all."""
    ahead = []
    for spans in shards.values():
        asked = [sample for span in spans for sample in span.samples if sample.sent]
        near = min(asked, key=lambda one: abs(one.server - time), default=None)
        if near is not None:
            ahead.append(near.server - (near.sent + near.received) // 2)
    return max(ahead) - min(ahead) if ahead else 0


def _require_near(
    name: str, time: int, cut: RestoreEnd, spans: Sequence[Span], around: int
) -> None:
    """Raise `NotArchived` where a shard would give much that was written after the time."""
    before = cut_at(AtTime(time), spans)
    if cut.passed > time + around and not _is_same(before, cut):
        raise NotArchived(
            f"slots were moving to {name}, which was not asked between {text_of(before.reached)} "
            f"and {text_of(cut.passed)}; choose a time before or after"
        )


def _seen(cut: RestoreEnd, spans: Sequence[Span]) -> int:
    """Return when a shard had come to a cut at the latest, by the clock of the worker."""
    times = [
        sample.received
        for span in spans
        for sample in span.samples
        if (span.segment.replication_id, sample.offset) == (cut.replication_id, cut.offset)
    ]
    return min(times, default=0)


def _cut_after(name: str, cut: RestoreEnd, seen: int, spans: Sequence[Span]) -> RestoreEnd:
    """Return a cut, or the first sample after it that was asked for at `seen` or later."""
    for span in spans:
        for sample in span.samples:
            if sample.server >= cut.passed and sample.sent >= seen:
                history = span.segment.replication_id
                return RestoreEnd(history, sample.offset, cut.reached, sample.server)
    raise NotArchived(
        f"{name} is not archived up to {text_of(seen)} by the clock of the worker, and slots were "
        "moving to it; choose an earlier time"
    )


def _opened(reports: Mapping[str, Sequence[Owned]], nodes: Mapping[str, str]) -> dict[str, SlotSet]:
    """Return the slots that are open at the cuts, for both ends, by the reports of either end."""
    ends: dict[str, list[int]] = {name: [] for name in reports}
    for name, found in reports.items():
        for slot, node in (pair for owned in found for pair in owned.migrating + owned.importing):
            ends[name].append(slot)
            ends[_other_end(slot, name, node, nodes)].append(slot)
    return {name: SlotSet(slots) for name, slots in ends.items()}


def _all_owned(spans: Sequence[Span]) -> list[Owned]:
    return [owned for span in spans for owned in span.segment.owned if owned.offset <= span.until]


def _reaches(time: int, cut: RestoreEnd, spans: Sequence[Span]) -> int:
    """Return until when a shard had nothing more than a cut of it for a time holds.

    Of samples that are equal but for their time the first and the last are kept: the next one may
    be long after the time, without a write since. Slots may have changed hands by then: Redis 6.2
    does not write that to the stream.
    """
    before = cut_at(AtTime(time), spans)
    return time if _is_same(before, cut) else cut.passed


def _is_same(one: RestoreEnd, other: RestoreEnd) -> bool:
    """Whether a shard took no write between two cuts."""
    return (one.replication_id, one.offset) == (other.replication_id, other.offset)


def plan_point(
    marks: Mapping[str, PointMark], shards: Mapping[str, Sequence[Span]]
) -> tuple[Share, ...]:
    """Return what each shard gives at a restore point, at which no shard took a write.

    So each is cut where it was, whatever was moving. Raises `NotArchived`.
    """
    ownership = {name: _at_mark(name, mark, shards[name]) for name, mark in marks.items()}
    nodes = _nodes(shards) | {
        mark.owned.node: name for name, mark in marks.items() if mark.owned is not None
    }
    _, taken = _moving(ownership, nodes)  # refuses what moves to or from a node without an archive
    owners = _owners(ownership, max(mark.server for mark in marks.values()), taken)
    reports = {
        name: [found.now, *(() if marks[name].owned else _after(found, marks[name].server))]
        for name, found in ownership.items()
    }
    opened = _opened(reports, nodes)
    return tuple(
        Share(
            name,
            RestoreEnd(mark.replication_id, mark.offset, mark.server, mark.server),
            owners[name],
            opened[name] - owners[name],
        )
        for name, mark in marks.items()
    )


def _nodes(shards: Mapping[str, Sequence[Span]]) -> dict[str, str]:
    """Return the shard of each node: also of those that led it before a failover."""
    return {
        owned.node: name
        for name, spans in shards.items()
        for span in spans
        for owned in span.segment.owned
    }


def _ownership(name: str, time: int, spans: Sequence[Span], since: int, until: int) -> _Ownership:
    """Return what a shard had at a time, and from `since` to `until`."""
    found = [owned for owned in _all_owned(spans) if owned.server <= until]
    before = [owned for owned in found if owned.server <= time]
    if not before:
        raise NotArchived(f"the archive of {name} does not say which slots it had then")
    last_far = [owned for owned in before if owned.server <= since][-1:]
    near = [owned for owned in found if owned.server > since]
    return _Ownership(before[-1], (*last_far, *near))


def _at_mark(name: str, mark: PointMark, spans: Sequence[Span]) -> _Ownership:
    """Return what a shard had at a restore point: by the point, or by the report before it."""
    if mark.owned is None:
        return _ownership(name, mark.server, spans, mark.server - _AROUND, mark.server + _AROUND)
    return _Ownership(mark.owned, (mark.owned,))


def _after(found: _Ownership, time: int) -> list[Owned]:
    return [owned for owned in found.around if owned.server > time]


def _owners(
    ownership: Mapping[str, _Ownership], time: int, taken: Mapping[str, SlotSet]
) -> dict[str, SlotSet]:
    free, found = ALL_SLOTS, dict.fromkeys(ownership, NO_SLOTS)
    for name in sorted(ownership, key=lambda name: ownership[name].now.epoch, reverse=True):
        found[name] = SlotSet.parse(ownership[name].now.slots) & free
        free = free - found[name]
    following = [(owned, name) for name in ownership for owned in _after(ownership[name], time)]
    for owned, name in sorted(following, key=lambda pair: pair[0].server):
        claimed = SlotSet.parse(owned.slots) & free & taken[name]
        found[name] = found[name] | claimed
        free = free - claimed
    if free:
        raise NotArchived(f"no shard owned the slots {free} at {text_of(time)}")
    return found


def _other_end(slot: int, name: str, node: str, nodes: Mapping[str, str]) -> str:
    """Return the shard at the other end of a move. Raises `NotArchived` where there is none."""
    if node not in nodes:
        raise NotArchived(
            f"slot {slot} was moving between {name} and node {node}, whose keys of it the archive "
            "does not have; choose a time before or after the move"
        )
    return nodes[node]


def _moving(
    ownership: Mapping[str, _Ownership], nodes: Mapping[str, str]
) -> tuple[dict[str, SlotSet], dict[str, SlotSet]]:
    """Return the slots that each shard gives away around the time, and those that it takes."""
    pairs: set[tuple[int, str, str]] = set()
    for name, found in ownership.items():
        for owned in found.around:
            for slot, node in owned.migrating:
                pairs.add((slot, name, _other_end(slot, name, node, nodes)))
            for slot, node in owned.importing:
                pairs.add((slot, _other_end(slot, name, node, nodes), name))
        held = [SlotSet.parse(owned.slots) for owned in found.around]
        for before, after in pairwise(held):
            lost = before - after
            for other, theirs in ownership.items():
                for owned in theirs.around if other != name else ():
                    gained = SlotSet.parse(owned.slots) & lost
                    pairs |= {(slot, name, other) for slot in gained}
    given = {name: [slot for slot, source, _ in pairs if source == name] for name in ownership}
    taken = {name: [slot for slot, _, target in pairs if target == name] for name in ownership}
    return (
        {name: SlotSet(slots) for name, slots in given.items()},
        {name: SlotSet(slots) for name, slots in taken.items()},
    )
