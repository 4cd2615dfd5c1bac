"""How many keys each slot holds, in a few commands instead of one for each slot.

A script counts a piece of the slots at a time, so that nobody waits longer than a millisecond or
two for it. It only reads and says so (EVALSHA_RO): a server whose writes are paused answers too.
Servers that have no such command, or forbid scripts, are asked slot by slot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from . import commands
from .command import Link
from .errors import RedisError, ReplyError
from .parsing import as_integer
from .resp import Reply
from .slots import SlotSet

__all__ = ["DIGEST", "count_keys"]

_PIECE: Final = 1024  # slots
_SCRIPT: Final = """
local found = {}
for slot = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local keys = redis.call('CLUSTER', 'COUNTKEYSINSLOT', slot)
  if keys > 0 then
    found[#found + 1] = slot
    found[#found + 1] = keys
  end
end
return found
"""
DIGEST: Final = hashlib.sha1(_SCRIPT.encode()).hexdigest()  # noqa: S324 - as servers name scripts


async def count_keys(
    server: Link, slots: SlotSet, *, timeout: float
) -> tuple[tuple[int, int], ...]:
    """Count the keys of these slots on a server: (slot, keys), empty ones left out."""
    asked = [commands.evalsha_ro(DIGEST, piece) for piece in _pieces(slots)]
    for load in (True, False):
        answers = await server.run_all(asked, timeout=timeout)
        refusal = next((answer for answer in answers if isinstance(answer, RedisError)), None)
        if refusal is None:
            return tuple(pair for answer in answers for pair in _pairs(answer))
        if not load or "NOSCRIPT" not in str(refusal):
            break
        try:
            await server.run(commands.script_load(_SCRIPT), timeout=timeout)
        except ReplyError:
            break
    return await _one_by_one(server, slots, timeout)


async def _one_by_one(server: Link, slots: SlotSet, timeout: float) -> tuple[tuple[int, int], ...]:
    numbers = list(slots)
    answers = await server.run_all(
        [commands.count_keys_in_slot(slot) for slot in numbers], timeout=timeout
    )
    found = []
    for slot, answer in zip(numbers, answers, strict=True):
        if isinstance(answer, RedisError):
            raise answer
        if answer:
            found.append((slot, answer))
    return tuple(found)


def _pieces(slots: SlotSet) -> Iterator[tuple[int, int]]:
    for first, last in slots.ranges():
        for start in range(first, last + 1, _PIECE):
            yield start, min(last, start + _PIECE - 1)


def _pairs(answer: object) -> Iterator[tuple[int, int]]:
    numbers: list[Reply] = answer if isinstance(answer, list) else []
    return (
        (as_integer(a), as_integer(b)) for a, b in zip(numbers[::2], numbers[1::2], strict=True)
    )
