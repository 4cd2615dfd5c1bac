"""What a simulated disk keeps of a server's memory, and what a start makes of it.

Measured on real servers (the contract suite runs the same on them):
- An append-only file has what was written to it when the process ends, however it ends. During an
  fsync the process keeps what it acknowledges in memory, for two seconds at most: on a
  busy disk that is lost with a killed process. A machine that loses power loses everything since
  the last fsync.
- A snapshot file has what was there when it was last saved: at most a minute ago, or at the end
  when the process was asked to end.
- When the disk is full, a primary with an append-only file continues in memory and refuses writes
  (and PING) with MISCONF until there is room. A replica continues in memory on Redis before 7;
  later ones and Valkey end themselves at the next write of their primary.
- An append-only file that was cut off in its last command loads without that command.
- A server that starts from an append-only file has a new replication id and the offset 0, replicas
  too: it cannot be known from them which has more. From a snapshot a replica keeps both; a primary
  that saved at its end keeps its history as the second id, on Valkey and on Redis 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis_operator.redis.versions import Ability

from .state import Server, SlotKeys

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = [
    "Image",
    "cut_off",
    "ends_of_a_full_disk",
    "fill_up",
    "keep",
    "lose_power",
    "lose_process",
    "make_room",
    "refuses_writes",
    "restore_history",
    "save",
]

_SNAPSHOT_SECONDS = 60.0
_FSYNC_SECONDS = 1.0


@dataclass(frozen=True)
class Image:
    """The data at one moment."""

    at: float
    keys: SlotKeys
    expires: dict[str, float]
    offset: int
    replication_id: str
    at_the_end: bool = False  # the process saved it because it was asked to end


def _image(world: SimulatedCluster, server: Server, *, at_the_end: bool = False) -> Image:
    return Image(
        world.now,
        server.copy_keys(),
        dict(server.expires),
        server.offset,
        server.replication_id,
        at_the_end,
    )


def keep(world: SimulatedCluster, server: Server) -> None:
    """One turn of the disk: what is due is written."""
    if server.persistence == "none" or server.disk_full:
        return
    due = _FSYNC_SECONDS if server.persistence == "aof" else _SNAPSHOT_SECONDS
    image = server.image
    if image is None:
        if server.persistence == "aof" or server.key_count:
            server.image = _image(world, server)
    elif world.now - image.at >= due and image.offset != server.offset:
        server.image = _image(world, server)


def save(world: SimulatedCluster, server: Server, *, at_the_end: bool = False) -> None:
    """SAVE, or what a process does that is asked to end."""
    if server.persistence != "none" and not server.disk_full:
        server.image = _image(world, server, at_the_end=at_the_end)


def lose_process(world: SimulatedCluster, server: Server) -> None:
    """The process ends at once; the machine continues and writes what it was given."""
    behind = world.slow_disks or server.disk_full
    if server.persistence == "rdb" or (server.persistence == "aof" and behind):
        _fall_back(server)
    elif server.persistence == "aof":
        server.image = _image(world, server)


def lose_power(server: Server) -> None:
    """The machine ends at once; what was not on the disk is lost."""
    if server.persistence != "none":
        _fall_back(server)


def fill_up(world: SimulatedCluster, server: Server) -> None:
    """The disk has all that was written to it, and no room for more."""
    if server.persistence == "aof":
        server.image = _image(world, server)
    server.disk_full = True


def make_room(world: SimulatedCluster, server: Server) -> None:
    """There is room again: what waited in memory is written."""
    server.disk_full = False
    if server.alive and server.persistence == "aof":
        server.image = _image(world, server)


def refuses_writes(server: Server) -> bool:
    """Whether a server says MISCONF to whoever writes."""
    return server.disk_full and server.is_primary and server.persistence == "aof"


def ends_of_a_full_disk(server: Server) -> bool:
    """Whether a replica ends itself rather than to have what its disk has not."""
    can_end = server.engine == "valkey" or server.can(Ability.FUNCTIONS)
    return server.disk_full and server.persistence == "aof" and can_end


def cut_off(server: Server, key: str) -> None:
    """The end of the append-only file of a process that has ended is gone: its last write, to a key
    that was not there before.
    """
    for held in server.keys.values():
        held.pop(key, None)


def _fall_back(server: Server) -> None:
    image = server.image
    if image is None:
        server.keys, server.expires = {}, {}
        return
    server.keys = {slot: dict(keys) for slot, keys in image.keys.items()}
    server.expires = dict(image.expires)
    server.offset, server.replication_id = image.offset, image.replication_id


def restore_history(world: SimulatedCluster, server: Server) -> None:
    """What a start knows of the replication history that its files belong to."""
    old, image = server.replication_id, server.image
    server.replication_id2 = ""
    if server.persistence == "rdb" and not server.is_primary:
        return
    server.replication_id = world.new_id("r")
    remembers = server.engine == "valkey" or server.can(Ability.FUNCTIONS)
    if server.persistence == "rdb" and image is not None and image.at_the_end and remembers:
        server.replication_id2, server.second_offset = old, server.offset
    else:
        server.offset = 0
