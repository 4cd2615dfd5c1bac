"""Count the keys of each slot, in a few commands instead of one for each slot.

A script counts a part of the slots at a time, and the next part is requested after the reply: in
one write all parts would run one after another, and clients would wait for the sum. It is read-only
(EVALSHA_RO): a server whose writes are paused responds too. Servers without this command, or that
forbid scripts, are asked slot by slot.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Final

from . import commands
from .command import Link
from .errors import RedisError, ReplyError
from .parsing import as_integer
from .resp import Reply
from .slots import SLOTS, SlotSet

__all__ = ["DIGEST", "count_keys"]

_PIECE: Final = 512  # slots: about half a millisecond
_SINGLY: Final = 1024  # commands that count one slot each, in one write
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
    """Count the keys of these slots on a server: (slot, keys), empty ones left out.

    `timeout` is for all of it: a server that stops responding is not asked for every part.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    found: list[tuple[int, int]] = []
    for piece in _pieces(slots):
        counted = await _count(server, piece, deadline)
        if counted is None:
            return await _one_by_one(server, slots, deadline)
        found += [(slot, keys) for slot, keys in counted if slot in slots]
    return tuple(found)


async def _count(
    server: Link, piece: tuple[int, int], deadline: float
) -> list[tuple[int, int]] | None:
    """Count one part; None when the server does not run the script."""
    command = commands.evalsha_ro(DIGEST, piece)
    try:
        answer = await server.run(command, timeout=_left(deadline))
    except ReplyError as refusal:
        if "NOSCRIPT" not in str(refusal):
            return None
        try:
            await server.run(commands.script_load(_SCRIPT), timeout=_left(deadline))
            answer = await server.run(command, timeout=_left(deadline))
        except ReplyError:
            return None
    return list(_pairs(answer))


def _left(deadline: float) -> float:
    return max(0.001, deadline - asyncio.get_running_loop().time())


async def _one_by_one(server: Link, slots: SlotSet, deadline: float) -> tuple[tuple[int, int], ...]:
    numbers = list(slots)
    found = []
    for start in range(0, len(numbers), _SINGLY):
        asked = numbers[start : start + _SINGLY]
        answers = await server.run_all(
            [commands.count_keys_in_slot(slot) for slot in asked], timeout=_left(deadline)
        )
        for slot, answer in zip(asked, answers, strict=True):
            if isinstance(answer, RedisError):
                raise answer
            if answer:
                found.append((slot, answer))
    return tuple(found)


def _pieces(slots: SlotSet) -> Iterator[tuple[int, int]]:
    """Return at most 32 spans that cover the slots: a fragmented set is not asked for range by
    range."""
    for start in range(0, SLOTS, _PIECE):
        ranges = (slots & SlotSet.span(start, start + _PIECE - 1)).ranges()
        if ranges:
            yield ranges[0][0], ranges[-1][1]


def _pairs(answer: object) -> Iterator[tuple[int, int]]:
    numbers: list[Reply] = answer if isinstance(answer, list) else []
    return (
        (as_integer(a), as_integer(b)) for a, b in zip(numbers[::2], numbers[1::2], strict=True)
    )
