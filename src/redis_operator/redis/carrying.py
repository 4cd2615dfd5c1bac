"""Move the keys of open slots from the source to the target, in batches that block only briefly.

Two carriers with one contract: `carry` returns when the source holds no key of the given slots. The
script runs inside the source, so no key name is sent to the operator; the plain one is for servers
that forbid scripts. Both replace keys on the target: while a slot is open the source has the
current copy, and a copy on the target is left from an interrupted attempt.
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

__all__ = ["BatchSize", "Carrier", "PlainCarrier", "ScriptCarrier", "load_script"]

_TIMEOUT: Final = 5.0
_SLOTS_PER_CALL: Final = 8
_Carried = Callable[[int, int, int], None]
"""Called after each batch: slots emptied, keys and bytes moved."""

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
    """The interface that empties slots of the source."""

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Move every key of these open slots to the target."""
        ...


def _too_big(slot: int, size: int, pace: Pace) -> MoveError:
    return MoveError(
        f"a key of slot {slot} takes {size} bytes; MIGRATE would stop both servers for too long "
        f"(the limit is {pace.largest_key}); split or delete the key, or upgrade to an engine with "
        "atomic slot migration"
    )


def _quoted(text: str) -> str:
    """Return a Lua string literal of any text."""
    return "'" + "".join(f"\\{byte:03d}" for byte in text.encode()) + "'"


async def load_script(source: Link, move: Move) -> str:
    """Load the script into the source and return its digest.

    The password is part of the script's text, not of its calls: calls may show up in the slow log.
    Before Redis 7.0, a script loaded by SCRIPT LOAD is written to the append-only file and sent to
    replicas; one that EVAL runs is not, since the script replicates only its effects. It is run for
    no slot.
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
    """Moves keys with a script on the source, one call at a time: clients are served in between.

    Two calls in flight on one link would run one after the other before any client is served.
    """

    def __init__(self, source: Link, move: Move, pace: Pace, digest: str) -> None:
        self._source = source
        self._pace = pace
        self._digest = digest
        self._end = (move.target.host, move.target.port, pace.migrate_milliseconds)
        self._batch = BatchSize(pace)

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Move every key of these open slots to the target."""
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


class BatchSize:
    """How much one MIGRATE moves: less while it takes too long, at least a quarter.

    Below that the time is the round trip to the target, which a smaller batch would not shorten.
    """

    _LEAST: Final = 0.25

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._share = 1.0

    @property
    def limits(self) -> tuple[int, int]:
        """Return the most keys and the most bytes."""
        return (
            max(1, int(self._pace.keys * self._share)),
            max(1, int(self._pace.bytes * self._share)),
        )

    def took(self, microseconds: int) -> None:
        """Record how long one took."""
        if microseconds > self._pace.microseconds:
            self._share = max(self._LEAST, self._share / 2)
        elif microseconds < self._pace.microseconds / 2:
            self._share = min(1.0, self._share * 2)


class PlainCarrier:
    """Moves keys with GETKEYSINSLOT and MIGRATE, without a script."""

    def __init__(self, source: Link, move: Move, pace: Pace) -> None:
        self._source = source
        self._move = move
        self._pace = pace

    async def carry(self, slots: Sequence[int], carried: _Carried) -> None:
        """Move every key of these open slots to the target."""
        for slot in slots:
            while await self._carry_batch(slot, carried):
                pass
            carried(1, 0, 0)

    async def _carry_batch(self, slot: int, carried: _Carried) -> bool:
        """Move a batch; return whether there may be more."""
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
