"""The tasks of a worker that read an archive or mark a point in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from ..fitting import check_fit
from ..primary import Primary
from ..replica import Login
from ..store import Shelf, open_shelf
from ..task import (
    FOLDER,
    PointTask,
    Report,
    ServeTask,
    Store,
    Until,
    WindowTask,
)
from .catalogue import read_catalogue
from .feed import primary_of
from .find import find_plan, find_window
from .moments import find_pieces
from .plan import NotArchived, text_of
from .point import mark_point
from .until import wanted_of

__all__ = ["mark", "serve_until", "shelf_of", "tell_window"]

_LOG = logging.getLogger(__name__)


def shelf_of(store: Store, shard: str, folder: str) -> Shelf:
    """Return the folder of one shard in the store of an archive."""
    return open_shelf(replace(store, path=f"{store.path}/{shard}"), folder=folder)


async def mark(task: PointTask, login: Callable[[], Login], *, folder: str = FOLDER) -> Report:
    """Write a named restore point."""
    shelves = {shard.name: shelf_of(task.store, shard.name, folder) for shard in task.shards}
    point = await mark_point(
        task.name, task.shards, shelves, login(), request=task.request, cluster=task.cluster
    )
    return Report(
        time=text_of(max(found.server for found in point.shards.values())),
        parts=tuple(
            {"name": name, "offset": found.offset, "time": text_of(found.server)}
            for name, found in point.shards.items()
        ),
    )


async def tell_window(task: WindowTask, *, folder: str = FOLDER) -> Report:
    """Report the window and the gaps of each shard."""
    parts: list[dict[str, str | int]] = []
    for shard in task.shards:
        window = await find_window(await read_catalogue(shelf_of(task.store, shard, folder)))
        gaps = "; ".join(
            f"{text_of(gap.after)} to {text_of(gap.before)}: {gap.reason}" for gap in window.gaps
        )
        oldest = text_of(window.oldest) if window.oldest else ""
        newest = text_of(window.newest) if window.newest else ""
        parts.append({"name": shard, "oldest": oldest, "newest": newest, "gaps": gaps})
    return Report(parts=tuple(parts))


async def serve_until(
    task: ServeTask,
    login: Callable[[], Login],
    stop: asyncio.Event,
    *,
    host: str = "",
    folder: str = FOLDER,
) -> Report:
    """Act as a primary with an archive up to a moment, until `stop` is set. Raises
    `WorkerError`."""
    assert task.until is not None
    if not task.until.shard:
        return await _serve_only(task, task.until, login, stop, host=host, folder=folder)
    shelf = shelf_of(task.store, task.until.shard, folder)
    wanted = wanted_of(task.until)
    plan = await find_plan(await read_catalogue(shelf), wanted, shard=task.until.shard)
    primary = await primary_of(shelf, plan, login)
    _LOG.info(
        "%s is whole up to offset %s: a base of %s bytes and %s segments",
        task.until.shard,
        plan.cut.offset,
        plan.base.part.size,
        len(plan.spans),
    )
    server = await primary.serve(host, task.port)
    await stop.wait()
    server.close()
    part = plan.base.part
    return Report(size=part.size, stored=part.stored, rdb=part.rdb)


async def _serve_only(
    task: ServeTask,
    until: Until,
    login: Callable[[], Login],
    stop: asyncio.Event,
    *,
    host: str,
    folder: str,
) -> Report:
    """Serve the archive of a database of one shard. Raises `WorkerError`, which names the field."""
    fit = partial(check_fit, engine=task.engine, version=task.version, field=task.field)
    opened = partial(open_shelf, folder=folder)
    pieces = await find_pieces(task.store, until, task.field, fit, opened)
    if len(pieces) != 1:
        raise NotArchived(
            f"{task.field}: the database had {len(pieces)} shards then, and one server holds one: "
            "name storage and path of the archive instead of the schedule"
        )
    [piece] = pieces
    _LOG.info("%s is whole up to offset %s", piece.part.name, piece.offset)
    primary = Primary(
        piece.shelf,
        piece.manifest,
        piece.part,
        login,
        stream=piece.stream,
        stream_size=piece.stream_size,
    )
    server = await primary.serve(host, task.port)
    await stop.wait()
    server.close()
    return Report(size=piece.part.size, stored=piece.part.stored, rdb=piece.part.rdb)
