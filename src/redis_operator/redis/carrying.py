"""Carrying keys of open slots from the source to the target, in batches that stall nobody for long.

Two carriers with one contract: `carry` returns when the source holds no key of the given slots. The
script one works inside the source, so no key name travels to us; the plain one is for servers that
forbid scripts. Both replace what the target has: while a slot is open the source's copy is the true
one, and a copy on the target is what an interrupted attempt left there.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from . import commands
from .command import Link
from .errors import ReplyError
from .moving import Move, MoveError, Pace
from .parsing import as_integer
from .versions import Ability, can

__all__ = ["Batch", "Carrier", "PlainCarrier", "ScriptCarrier", "load_script"]

_TIMEOUT: Final = 5.0
_SLOTS_PER_CALL: Final = 8
_Carried = Callable[[int, int, int], None]
"""Told after each batch: slots emptied, keys and bytes carried."""

_SCRIPT: Final = """
if redis.replicate_commands then redis.replicate_commands() end
local host, port, patience = ARGV[1], ARGV[2], ARGV[3]
local most_keys, most_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local most_microseconds, largest = tonumber(ARGV[6]), tonumber(ARGV[7])
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local start, done, keys_moved, bytes_moved, longest = now(), 0, 0, 0, 0
for i = 8, #ARGV do
  local empty = false
  while not empty do
    local keys = redis.call('CLUSTER', 'GETKEYSINSLOT', ARGV[i], most_keys)
    if #keys == 0 then break end
    local batch = {'MIGRATE', host, port, '', 0, patience, 'REPLACE', %s'KEYS'}
    local taken, size = 0, 0
    for _, key in ipairs(keys) do
      local used = redis.call('MEMORY', 'USAGE', key) or 0
      if used > largest then return {-1, tonumber(ARGV[i]), used} end
      if taken > 0 and size + used > most_bytes then break end
      taken, size = taken + 1, size + used
      batch[#batch + 1] = key
    end
    local before = now()
    redis.call(unpack(batch))
    longest = math.max(longest, now() - before)
    keys_moved, bytes_moved = keys_moved + taken, bytes_moved + size
    empty = taken == #keys and #keys < most_keys
    if not empty and now() - start >= most_microseconds then
      return {done, keys_moved, bytes_moved, longest}
    end
  end
  done = done + 1
  if now() - start >= most_microseconds then break end
end
return {done, keys_moved, bytes_moved, longest}
"""


class Carrier(Protocol):
    """Something that empties slots of the source."""

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Carry every key of these open slots to the target."""
        ...


def _too_big(slot: int, size: int, pace: Pace) -> MoveError:
    return MoveError(
        f"a key of slot {slot} takes {size} bytes; MIGRATE would stop both servers for too long "
        f"(the limit is {pace.largest_key}); split or delete the key, or upgrade to an engine with "
        "atomic slot migration"
    )


def _quoted(text: str) -> str:
    """A string of Lua, whatever it holds."""
    return "'" + "".join(f"\\{byte:03d}" for byte in text.encode()) + "'"


async def load_script(source: Link, move: Move) -> str:
    """Load the carrier into the source and return its digest.

    The password is part of the script's text, not of its calls: calls may show up in the slow log.
    Before redis 7.0, what SCRIPT LOAD loads goes to the append-only file and to replicas;
    what EVAL runs is not, since the script replicates its effects alone. It is run for no slot.
    """
    login = ""
    if move.password:
        login = f"'AUTH2', {_quoted(move.username)}, {_quoted(move.password)}, "
    text = _SCRIPT % login
    if can(move.source.version, Ability.SCRIPT_EFFECTS):
        return await source.run(commands.script_load(text), timeout=_TIMEOUT)
    await source.run(commands.eval_script(text, ("", 0, 0, 1, 1, 1, 1)), timeout=_TIMEOUT)
    return hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - as servers name scripts


class ScriptCarrier:
    """Carries with a script on the source, one call at a time: clients are served in between.

    Two calls in flight on one link would run one after the other before anybody else is served.
    """

    def __init__(self, source: Link, move: Move, pace: Pace, digest: str) -> None:
        self._source = source
        self._pace = pace
        self._digest = digest
        self._end = (move.target.host, move.target.port, pace.migrate_milliseconds)
        self._batch = Batch(pace)

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Carry every key of these open slots to the target."""
        waiting = deque(slots)
        patience = self._pace.migrate_milliseconds / 1000 * 2 + _TIMEOUT
        while waiting:
            chunk = [waiting.popleft() for _ in range(min(_SLOTS_PER_CALL, len(waiting)))]
            limits = (*self._batch.limits, self._pace.microseconds, self._pace.largest_key)
            command = commands.evalsha(self._digest, (*self._end, *limits, *chunk))
            answer = [as_integer(n) for n in await self._source.run(command, timeout=patience)]
            done, keys, size = answer[:3]
            if done < 0:
                raise _too_big(keys, size, self._pace)
            if len(answer) > 3:
                self._batch.took(answer[3])
            waiting.extendleft(reversed(chunk[done:]))
            carried(done, keys, size)


class Batch:
    """How much one MIGRATE carries: less while it takes too long, at least a quarter.

    What is left of its time then is the way to the target and back, which less would not shorten.
    """

    _LEAST: Final = 0.25

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._share = 1.0

    @property
    def limits(self) -> tuple[int, int]:
        """The most keys and the most bytes."""
        return (
            max(1, int(self._pace.keys * self._share)),
            max(1, int(self._pace.bytes * self._share)),
        )

    def took(self, microseconds: int) -> None:
        """Note how long one took."""
        if microseconds > self._pace.microseconds:
            self._share = max(self._LEAST, self._share / 2)
        elif microseconds < self._pace.microseconds / 2:
            self._share = min(1.0, self._share * 2)


class PlainCarrier:
    """Carries with GETKEYSINSLOT and MIGRATE from here."""

    def __init__(self, source: Link, move: Move, pace: Pace) -> None:
        self._source = source
        self._move = move
        self._pace = pace

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Carry every key of these open slots to the target."""
        for slot in slots:
            while await self._carry_batch(slot, carried):
                pass
            carried(1, 0, 0)

    async def _carry_batch(self, slot: int, carried: _Carried) -> bool:
        """Carry a batch; tell whether there may be more."""
        keys = await self._source.run(
            commands.get_keys_in_slot(slot, self._pace.keys), timeout=_TIMEOUT
        )
        if not keys:
            return False
        sizes = await self._source.run_all(
            [commands.memory_usage(key) for key in keys], timeout=_TIMEOUT
        )
        batch: list[bytes] = []
        total = 0
        for key, size in zip(keys, sizes, strict=True):
            used = 0 if isinstance(size, Exception) else size
            if used > self._pace.largest_key:
                raise _too_big(slot, used, self._pace)
            if batch and total + used > self._pace.bytes:
                break
            batch.append(key)
            total += used
        await self._migrate(batch)
        carried(0, len(batch), total)
        return True

    async def _migrate(self, keys: Sequence[bytes]) -> None:
        command = commands.migrate_keys(
            keys,
            host=self._move.target.host,
            port=self._move.target.port,
            timeout_milliseconds=self._pace.migrate_milliseconds,
            username=self._move.username,
            password=self._move.password,
            replace=True,
        )
        patience = self._pace.migrate_milliseconds / 1000 * 2 + _TIMEOUT
        try:
            await self._source.run(command, timeout=patience)
        except ReplyError as error:
            raise MoveError(f"MIGRATE failed: {error.message}", address=error.address) from error
