"""An archive of all shards at one moment: what a scratch server gets for each of them.

Guarantees: every object that is needed is read and compared with its manifest before this returns,
and each shard is of the same moment. A shard of mode Cluster whose archive does not have the moment
is left out only where the others owned all slots, and none of them was moving to or from it.
A base whose bytes are not what was written is as good as none: an earlier one takes its place.
Errors: `NotArchived`, `Damaged`, `StoreError`; those of the moment name the field.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from redis_operator.redis.slots import SlotSet

from ..errors import Damaged
from ..manifest import MANIFEST, Manifest
from ..piece import Piece
from ..primary import verify
from ..store import Shelf
from ..task import Store, Until
from .catalogue import Catalogue, read_catalogue
from .feed import manifest_for
from .find import Around, find_around, find_plan
from .plan import AtTime, NotArchived, Offset, ReplayPlan, Wanted, plan, text_of
from .records import Base, PointMark
from .replay import replay, verify_stream
from .sharded import Share, plan_point, plan_shards
from .until import wanted_of

__all__ = ["find_pieces"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4


class _Found(Struct, frozen=True):
    """The plan of a shard, and whose keys are taken from it; None: all of them."""

    plan: ReplayPlan
    slots: SlotSet | None = None
    open: SlotSet = SlotSet()


async def find_pieces(
    store: Store,
    until: Until,
    field: str,
    check: Callable[[Manifest], None],
    opened: Callable[[Store], Shelf],
) -> tuple[Piece, ...]:
    """Return what each archived shard gives for the moment.

    `check` raises where servers of the new database could not load what a base holds;
    `opened` opens a folder of the store.
    """
    wanted = wanted_of(until)
    named = f"{field}.{'restorePoint' if until.point else 'at'}"
    if isinstance(wanted, AtTime) and wanted.time > time.time_ns() // 1000:
        raise NotArchived(f"{named}: {text_of(wanted.time)} lies in the future")
    catalogues = await _catalogues(store, opened)
    turns = asyncio.Semaphore(_AT_ONCE)
    verified: set[tuple[str, str]] = set()

    async def verify_base(shard: str, base: Base) -> Damaged | None:
        async with turns:
            return await _verify_base(catalogues[shard], shard, base, verified)

    async def read(shard: str, one: _Found) -> Piece:
        async with turns:
            return await _piece(catalogues[shard].shelf, shard, one)

    changed: list[Damaged] = []
    while True:
        try:
            found = await _find(catalogues, wanted)
        except (NotArchived, Damaged) as error:
            if changed:  # no earlier base serves for the same times
                raise changed[0] from error
            raise type(error)(f"{named}: {error}") from error
        for one in found.values():
            check(manifest_for(one.plan))
        bases = [verify_base(shard, one.plan.base) for shard, one in found.items()]
        damaged = [error for error in await asyncio.gather(*bases) if error is not None]
        if not damaged:
            break
        changed += damaged
    return tuple(await asyncio.gather(*(read(shard, one) for shard, one in found.items())))


async def _verify_base(
    catalogue: Catalogue, shard: str, base: Base, verified: set[tuple[str, str]]
) -> Damaged | None:
    """Compare the bytes of a base with its manifest. Where they differ, it is not used again."""
    place = shard, base.part.object
    if place in verified:
        return None
    try:
        await verify(catalogue.shelf, base.part)
    except Damaged as error:
        _LOG.warning("%s/%s; an earlier base is looked for", shard, error)
        catalogue.damaged[base.line, base.number] = str(error)
        return Damaged(f"{shard}/{error}")
    verified.add(place)
    return None


async def _find(catalogues: Mapping[str, Catalogue], wanted: Wanted | str) -> dict[str, _Found]:
    if isinstance(wanted, str):
        return await _at_point(catalogues, wanted)
    if isinstance(wanted, AtTime):
        return await _at(catalogues, wanted)
    raise NotArchived("an offset is of one shard; name a time or a restore point")


async def _catalogues(store: Store, opened: Callable[[Store], Shelf]) -> dict[str, Catalogue]:
    root = opened(store)
    shards = await root.folders()
    shelves = [opened(replace(store, path=f"{store.path}/{name}")) for name in shards]
    read = await asyncio.gather(*map(read_catalogue, shelves))
    found = {
        name: catalogue for name, catalogue in zip(shards, read, strict=True) if _has(catalogue)
    }
    if found:
        return found
    if await root.get(MANIFEST) is not None:
        raise Damaged(f"{store.path} is a backup and not an archive, so it is of one moment alone")
    raise Damaged(f"there is no archive in {store.path}: no shard has a base there")


def _has(catalogue: Catalogue) -> bool:
    return any(listed.bases for listed in catalogue.lines)


async def _at(catalogues: Mapping[str, Catalogue], wanted: AtTime) -> dict[str, _Found]:
    """Return what the shards give that have a time. Raises `NotArchived`."""
    around: dict[str, Around] = {}
    lacking: dict[str, NotArchived] = {}
    for shard, catalogue in catalogues.items():
        try:
            around[shard] = await find_around(catalogue, wanted)
        except NotArchived as error:
            lacking[shard] = error
    if not around:
        raise NotArchived(f"{_joined(lacking)}. {await _limits(catalogues)}")
    if not any(one.base.cluster for one in around.values()):
        shard = _only(around)
        return {shard: _Found(await find_plan(catalogues[shard], wanted))}
    spans = {shard: one.spans for shard, one in around.items()}
    try:
        shares = plan_shards(wanted.time, spans, wanted.bound)
    except NotArchived as error:
        if lacking:
            raise NotArchived(f"{error}; {_joined(lacking)}") from error
        raise
    return _found(shares, around)


async def _limits(catalogues: Mapping[str, Catalogue]) -> str:
    """Return the times that the archive has."""
    oldest, newest = [], []
    for catalogue in catalogues.values():
        for listed in catalogue.lines:
            bases = await catalogue.bases(listed.line)
            if bases:
                oldest.append(bases[0].taken)
                break
        last = await catalogue.newest()
        if last is not None:
            newest.append(last.ended_at)
    if not newest or not oldest:
        return "It has no stream yet"
    return f"It has times from {text_of(min(oldest))} to {text_of(max(newest))}"


def _only(around: Mapping[str, Around]) -> str:
    """Return the one shard of a database that is not of mode Cluster."""
    if len(around) > 1:
        raise NotArchived(f"{' and '.join(around)} are archives of several databases")
    return next(iter(around))


def _joined(lacking: Mapping[str, NotArchived]) -> NotArchived:
    if len(lacking) == 1:
        return next(iter(lacking.values()))
    return NotArchived("; ".join(f"{shard}: {error}" for shard, error in lacking.items()))


async def _at_point(catalogues: Mapping[str, Catalogue], name: str) -> dict[str, _Found]:
    """Return what the shards give that a restore point names."""
    having = [one for one in catalogues.values() if name in one.points]
    marks = await _marks(having[0] if having else next(iter(catalogues.values())), name)
    gone = [shard for shard in marks if shard not in catalogues]
    if gone:
        raise Damaged(f"restore point {name} is also of {gone[0]}, which has no archive here")
    around = {shard: await _marked(catalogues[shard], shard, marks[shard]) for shard in marks}
    if not any(one.base.cluster for one in around.values()):
        shard = _only(around)
        return {shard: _Found(await find_plan(catalogues[shard], marks[shard]))}
    spans = {shard: one.spans for shard, one in around.items()}
    return _found(plan_point(marks, spans), around)


async def _marks(catalogue: Catalogue, name: str) -> dict[str, PointMark]:
    return (await catalogue.point(name)).shards


async def _marked(catalogue: Catalogue, shard: str, mark: PointMark) -> Around:
    try:
        return await find_around(catalogue, mark)
    except NotArchived as error:
        raise NotArchived(f"{shard}: {error}") from error


def _found(shares: tuple[Share, ...], around: Mapping[str, Around]) -> dict[str, _Found]:
    found = {}
    for share in shares:
        if not share.slots and not share.open:
            continue
        one, cut = around[share.shard], share.cut
        made = plan(Offset(cut.replication_id, cut.offset), one.bases, one.segments)
        found[share.shard] = _Found(replace(made, cut=cut), share.slots, share.open)
    return found


async def _piece(shelf: Shelf, shard: str, found: _Found) -> Piece:
    """Read the stream that a shard gives, and compare it with its manifests."""
    made = found.plan
    try:
        size = await verify_stream(shelf, made)
    except Damaged as error:
        raise Damaged(f"{shard}/{error}") from error
    return Piece(
        shelf,
        manifest_for(made),
        made.base.part,
        slots=found.slots,
        open=found.open,
        stream=lambda: replay(shelf, made),
        stream_size=size,
        offset=made.cut.offset,
        reached=made.cut.reached,
    )
