"""Scripts of the simulation: those that the operator loads, known by what they do.

A server keeps loaded scripts in memory only. The two that exist are recognised by their text: the
one that counts keys and the one that carries them. Any other is refused, so that a new script
is not taken for one of these in silence.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from redis_operator.redis.resp import Reply
from redis_operator.redis.tally import DIGEST

from . import verbs
from .state import Server
from .verbs import RefusalError

if TYPE_CHECKING:
    from .world import SimulatedCluster

__all__ = ["load", "run", "run_read_only"]

_CARRIER = "'MIGRATE', host, port"
_LOGIN = re.compile(r"'AUTH2', '((?:\\\d{3})*)', '((?:\\\d{3})*)'")
_BATCH_MICROSECONDS = 700
_KEY_BYTES = 64


def load(server: Server, text: str) -> str:
    """SCRIPT LOAD."""
    digest = hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - as servers name scripts
    if digest != DIGEST and _CARRIER not in text:
        raise RefusalError("ERR the simulation does not know this script")
    server.scripts[digest] = text
    return digest


def run_read_only(server: Server, words: list[str]) -> Reply:
    """EVALSHA_RO: counting the keys of a range of slots."""
    if words[0] not in server.scripts or words[0] != DIGEST:
        raise RefusalError("NOSCRIPT No matching script. Please use EVAL.")
    first, last = int(words[2]), int(words[3])
    held = sorted((slot, len(keys)) for slot, keys in server.keys.items() if first <= slot <= last)
    return [number for slot, keys in held if keys for number in (slot, keys)]


def run(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    """EVALSHA: carrying the keys of open slots, for as long as one call may take."""
    text = server.scripts.get(words[0])
    if text is None or _CARRIER not in text:
        raise RefusalError("NOSCRIPT No matching script. Please use EVAL.")
    login = _LOGIN.search(text)
    user, password = (_unquoted(part) for part in login.groups()) if login else ("", "")
    host, most_keys, most_bytes = words[2], int(words[5]), int(words[6])
    left = int(words[7])
    done = carried = 0
    for word in words[9:]:
        while held := list(server.keys.get(int(word), {})):
            batch = held[: max(1, min(most_keys, most_bytes // _KEY_BYTES))]
            verbs.migrate(world, server, host, batch, replace=True, login=(user, password))
            carried += len(batch)
            left -= _BATCH_MICROSECONDS
            if left <= 0:
                break
        if server.keys.get(int(word)):
            break
        done += 1
        if left <= 0:
            break
    return [done, carried, carried * _KEY_BYTES]


def _unquoted(text: str) -> str:
    return bytes(int(code) for code in text.split("\\")[1:]).decode()
