"""A person who does what the status asks for, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .world import SimulatedCluster

__all__ = ["follow_advice"]

_DROP = re.compile(r"FLUSHALL on (\S+) drops its values")


def follow_advice(world: SimulatedCluster, lines: Iterable[str]) -> list[str]:
    """Drop the values that clients do not see where a line asks for it; return what was done."""
    named = {name for line in lines for name in _DROP.findall(line)}
    done: list[str] = []
    for server in world.servers.values():
        if server.name in named and server.keys:
            server.keys.clear()
            done.append(f"a person dropped what {server.name} held")
    return done
