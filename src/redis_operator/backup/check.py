"""Verify that a backup can be restored: load every part into a scratch server and count keys.

These are compared:
    - every byte with the manifest (SHA-256): this is the digest of the content, too. A snapshot is
      loaded the same way each time, so a digest made by a server would say nothing more;
    - the keys that the scratch server has with those that the source announced at the beginning of
      its snapshot;
    - the slot of every key with the slots of its shard, in mode Cluster. Keys of slots that moved
      while the backup was taken are in the part of another shard, or in both: a restore gives them
      to the owner of their slot. A part that has keys of other slots alone was swapped;
    - that all slots are there, in mode Cluster.

Errors: `Damaged` names the part. Any other error says nothing about the backup.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from pathlib import Path

from redis_operator.redis.slots import ALL_SLOTS, NO_SLOTS, SlotSet, key_slot

from .errors import Damaged
from .manifest import Manifest, StoredPart
from .primary import Primary, manifest_of, verify
from .replica import Login
from .scratch import Scratch, ScratchError
from .store import Shelf
from .task import Report

__all__ = ["check"]

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_STILL_SECONDS = 300.0
_CLUSTER = "Cluster"


async def check(shelf: Shelf, folder: Path, host: str, *, ports: tuple[int, int]) -> Report:
    """Load every part into the scratch server that waits in a folder; return its counts.

    `ports` are the worker's own, where it plays primary, and the scratch server's.
    """
    manifest = await manifest_of(shelf)
    _whole(manifest)
    for part in manifest.parts:
        await verify(shelf, part)
    login = Login("verification", secrets.token_hex(32))
    scratch = await Scratch.begin(folder, host, ports[1], login)
    try:
        found = [
            await _loaded(shelf, manifest, part, scratch, (host, ports[0], login))
            for part in manifest.parts
        ]
    finally:
        await scratch.end()
    parts: tuple[dict[str, str | int], ...] = tuple(
        {"name": part.name, "keys": keys} for part, keys in zip(manifest.parts, found, strict=True)
    )
    return Report(size=manifest.size, stored=manifest.stored, keys=sum(found), parts=parts)


def _whole(manifest: Manifest) -> None:
    """Check that the parts have all slots. Raises `Damaged`."""
    if manifest.mode != _CLUSTER:
        return
    found = NO_SLOTS
    for part in manifest.parts:
        found = found | SlotSet.parse(part.slots)
    missing = ALL_SLOTS - found
    if missing:
        raise Damaged(f"no part has the slots {missing}")


async def _loaded(
    shelf: Shelf,
    manifest: Manifest,
    part: StoredPart,
    scratch: Scratch,
    worker: tuple[str, int, Login],
) -> int:
    """Load one part, compare it with its manifest, and empty the server."""
    host, port, login = worker
    primary = Primary(shelf, manifest, part, lambda: login)
    server = await primary.serve(host, port)
    try:
        await scratch.run("REPLICAOF", host, port)
        await _linked(scratch, primary, part)
        # While it is a replica it drops no key whose time has passed, so that counts are exact.
        keys = await scratch.keys()
        for database, announced in (part.keys or {}).items():
            if keys.get(database, 0) != announced:
                raise Damaged(
                    f"{part.object} is damaged: database {database} has {keys.get(database, 0)} "
                    f"keys when loaded, and its server announced {announced}"
                )
        if part.slots:
            await _in_slots(scratch, part)
        await scratch.run("REPLICAOF", "NO", "ONE")
        await scratch.run("FLUSHALL")
    finally:
        server.close()
    _LOG.info("%s was loaded: %s", part.object, keys)
    return sum(keys.values())


async def _linked(scratch: Scratch, primary: Primary, part: StoredPart) -> None:
    """Wait until the server has loaded the snapshot. Raises `Damaged` where it cannot."""
    seen, since = "", time.monotonic()
    while True:
        try:
            info = await scratch.info("everything")
        except ScratchError as error:  # which may have had too little memory for it
            raise ScratchError(f"{part.object} was not loaded: {error}") from error
        if info.get("master_link_status") == "up" and info.get("master_sync_in_progress") == "0":
            return
        if primary.failure is not None:  # of the store: it says nothing about the backup
            raise primary.failure
        if primary.sent > 1:
            raise Damaged(
                f"{part.object} cannot be loaded: the server that was given it asked for it again; "
                "see the log of container server"
            )
        now = " ".join(info.get(n, "") for n in ("loading_loaded_bytes", "used_memory", "loading"))
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > _STILL_SECONDS:
            raise ScratchError(
                f"{part.object}: the scratch server did not load anything for {_STILL_SECONDS:g} s"
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _in_slots(scratch: Scratch, part: StoredPart) -> None:
    """Check that a part has keys of its shard. Raises `Damaged` where all are of other slots."""
    slots = SlotSet.parse(part.slots)
    allowed = [slot in slots for slot in range(len(ALL_SLOTS))]
    own = moved = 0
    async for name in scratch.names():
        if allowed[key_slot(name)]:
            own += 1
        else:
            moved += 1
    if moved and not own:
        raise Damaged(
            f"{part.object} has {moved} keys of slots that {part.name} did not have, and no other: "
            f"it had {part.slots}"
        )
    if moved:
        _LOG.info("%s has %s keys of slots that moved while it was read", part.object, moved)
