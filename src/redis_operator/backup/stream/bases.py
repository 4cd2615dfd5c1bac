"""Store the snapshot of a server as a base of the archive."""

from __future__ import annotations

import secrets
import time
from contextlib import aclosing

from ..flow import Flow
from ..manifest import StoredPart
from ..replica import Snapshot
from ..store import Shelf
from ..take import Squeeze
from .records import Base, base_names, encode
from .spool import Superseded

__all__ = ["store_base"]


async def store_base(
    shelf: Shelf,
    snapshot: Snapshot,
    *,
    line: int,
    number: int,
    pod: str,
    engine: str,
    version: str,
    cluster: bool = False,
    reason: str = "",
) -> Base:
    """Write the snapshot and its manifest. Raises `WorkerError`; then there is no such base."""
    taken = time.time_ns() // 1000
    names = base_names(line, number, secrets.token_hex(4))
    squeeze = Squeeze(1, Flow())
    async with aclosing(squeeze.squeezed(snapshot.chunks())) as pieces:
        stored = await shelf.write(names.content, pieces)
    base = Base(
        line=line,
        number=number,
        part=StoredPart(
            name=f"base-{number}",
            object=names.content,
            replication_id=snapshot.replication_id,
            offset=snapshot.offset,
            rdb=squeeze.magic,
            size=squeeze.size,
            stored=stored,
            sha256=squeeze.digest.hexdigest(),
            source=pod,
        ),
        taken=taken,
        engine=engine,
        version=version,
        cluster=cluster,
        reason=reason,
    )
    is_new = await shelf.create(names.manifest, encode(base))
    # Where the bytes are equal this archiver wrote it, and the reply was lost.
    if not is_new and await shelf.get(names.manifest) != encode(base):
        raise Superseded(f"{names.manifest} was written by another archiver of the same shard")
    return base
