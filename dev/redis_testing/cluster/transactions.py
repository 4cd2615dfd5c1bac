"""One client's connection to a simulated server: MULTI keeps what follows until EXEC.

Nothing of a transaction happens before EXEC, and then all of it at one moment: no one sees a part
of it, and a client that dies before EXEC has done nothing. A command that the server does not know,
or sends elsewhere, drops the transaction as a whole, and so do keys of several slots; one that is
refused when it is carried out does not undo the others. The contract suite shows the same on real
servers.
"""

from __future__ import annotations

from collections.abc import Callable

from redis_operator.redis.errors import reply_error
from redis_operator.redis.resp import Reply

from .state import Server
from .wire import objection, slot_of
from .world import SimulatedCluster

__all__ = ["Session"]


class Session:
    """What a server remembers of one connection."""

    def __init__(
        self, world: SimulatedCluster, server: Server, carry_out: Callable[[list[str]], Reply]
    ) -> None:
        self._world = world
        self._server = server
        self._carry_out = carry_out
        self.queued: list[list[str]] | None = None  # since MULTI
        self._dropped = False

    def answer(self, words: list[str]) -> Reply:
        """What the server says to one command."""
        name = words[0].upper()
        if name == "MULTI":
            return self._begin()
        if name in ("EXEC", "DISCARD"):
            return self._end(name)
        if self.queued is None:
            return self._carry_out(words)
        refusal = objection(self._world, self._server, words)
        if refusal is not None:
            self._dropped = True
            return refusal
        self.queued.append(words)
        return b"QUEUED"

    def _begin(self) -> Reply:
        if self.queued is not None:
            return reply_error("ERR MULTI calls can not be nested")
        self.queued, self._dropped = [], False
        return b"OK"

    def _end(self, name: str) -> Reply:
        queued, self.queued = self.queued, None
        if queued is None:
            return reply_error(f"ERR {name} without MULTI")
        if name == "DISCARD":
            return b"OK"
        if self._dropped:
            return reply_error("EXECABORT Transaction discarded because of previous errors.")
        if not self._server.is_alone and len({*map(slot_of, queued)} - {None}) > 1:
            return reply_error("CROSSSLOT Keys in request don't hash to the same slot")
        return [self._carry_out(one) for one in queued]
