"""The network of a simulation: connections of the real client to simulated servers.

The loop itself hands out the connections, so that everything above the socket is the real code:
encoding, pipelining, logging in, deadlines, and the end of a connection as news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import hiredis

from kubecontroller.testing.loop import VirtualLoop
from redis_operator.redis.resp import Reply

from ..cluster.state import Server
from ..cluster.transactions import Session
from ..cluster.users import accepts, answer_acl
from ..cluster.wire import answer
from ..cluster.world import SimulatedCluster
from .process import PROCESS, Journal, Process, Strike, own_tasks

__all__ = ["Network", "SimulationLoop", "encode_reply"]

_LATENCY = 0.0005
_FROZEN_LOOK = 0.05
_CHANGING = frozenset(
    {"MIGRATE", "UNLINK", "EVALSHA", "CONFIG SET", "CLIENT PAUSE", "CLIENT UNPAUSE", "SHUTDOWN"}
    | {"CLUSTER MEET", "CLUSTER FORGET", "CLUSTER REPLICATE", "CLUSTER FAILOVER", "CLUSTER RESET"}
    | {"CLUSTER ADDSLOTS", "CLUSTER ADDSLOTSRANGE", "CLUSTER DELSLOTS", "CLUSTER SETSLOT"}
    | {"CLUSTER SET-CONFIG-EPOCH", "CLUSTER BUMPEPOCH", "CLUSTER MIGRATESLOTS"}
    | {"CLUSTER CANCELSLOTMIGRATIONS", "CLUSTER MIGRATION IMPORT", "CLUSTER MIGRATION CANCEL"}
    | {"ACL SETUSER", "ACL LOAD", "REPLICAOF", "FAILOVER", "SENTINEL MONITOR", "SENTINEL REMOVE"}
    | {"SENTINEL SET", "SENTINEL RESET", "SENTINEL FAILOVER", "SENTINEL CONFIG"}
    | {"PUBLISH", "SENTINEL IS-MASTER-DOWN-BY-ADDR"}
)


class Network:
    """Addresses and who answers there."""

    def __init__(self, world: SimulatedCluster, journal: Journal) -> None:
        self.world = world
        self.journal = journal
        self.sandboxes: set[str] = set()  # addresses that pods have now, whoever listens
        self.unreachable: set[tuple[str, str]] = set()  # process and server that cannot talk
        self.users_of: Callable[[str], str] = lambda _: ""  # the file of users of a server
        self.refused: dict[str, str] = {}  # commands that every server refuses, and how
        self._wires: dict[Wire, None] = {}  # in order: sets differ from run to run

    async def open(self, protocol: asyncio.Protocol, host: str) -> Wire:
        """Connect to the process that listens at an address; hang where none ever replies."""
        process = PROCESS.get()
        await asyncio.sleep(_LATENCY)
        server = self.world.at(host)
        cut = server is not None and self.is_cut(process, server)
        if host not in self.sandboxes or cut:
            await asyncio.Event().wait()  # no route: packets vanish
        if server is None:
            raise ConnectionRefusedError(f"connection refused at {host}")
        wire = Wire(self, protocol, server, process)
        self._wires[wire] = None
        protocol.connection_made(wire)
        return wire

    def is_cut(self, process: Process | None, server: Server) -> bool:
        """Return whether packets between a process and a server vanish."""
        return process is not None and (process.name, server.name) in self.unreachable

    def server_ended(self, name: str) -> None:
        """A server process ended: its kernel closes its connections."""
        for wire in [wire for wire in self._wires if wire.server.name == name]:
            wire.drop(ConnectionResetError("the server is gone"))

    def kick(self, names: Iterable[str]) -> None:
        """Servers were asked to disconnect their clients."""
        for name in names:
            self.server_ended(name)

    def process_ended(self, process: Process) -> None:
        """An operator process ended: servers read no more from it."""
        for wire in [wire for wire in self._wires if wire.process is process]:
            wire.drop(None)

    def forget(self, wire: Wire) -> None:
        """Let go of a closed connection."""
        self._wires.pop(wire, None)


class Wire(asyncio.Transport):
    """One connection: bytes of commands in, bytes of replies out, in order."""

    def __init__(
        self,
        network: Network,
        protocol: asyncio.Protocol,
        server: Server,
        process: Process | None,
    ) -> None:
        super().__init__()
        self.server = server
        self.process = process
        self._network = network
        self._protocol = protocol
        self._session = Session(network.world, server, self._answer_one)
        self._reader = hiredis.Reader()
        self._waiting: list[list[bytes]] = []
        self._open = True
        self._mute = False  # answers get lost from now on
        self._loop = asyncio.get_running_loop()
        self._due: asyncio.TimerHandle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send commands."""
        if not self._open:
            return
        self._reader.feed(bytes(data))
        while (command := self._reader.gets()) is not False:
            self._waiting.append(command)
        if self._due is None:
            self._due = self._loop.call_later(_LATENCY, self._deliver)

    def is_closing(self) -> bool:
        """Return whether the connection has ended."""
        return not self._open

    def close(self) -> None:
        """End it from our side."""
        self.abort()

    def abort(self) -> None:
        """End it from our side, at once."""
        self.drop(None)

    def drop(self, error: Exception | None) -> None:
        """End it, from whichever side."""
        if not self._open:
            return
        self._open = False
        self._waiting.clear()
        self._network.forget(self)
        if self.process is None or self.process.alive:
            self._loop.call_soon(self._protocol.connection_lost, error)

    def _deliver(self) -> None:
        """Have the server carry out what arrived."""
        self._due = None
        if not self._open:
            return
        if self.server.stopped or self._network.is_cut(self.process, self.server):
            self._due = self._loop.call_later(_FROZEN_LOOK, self._deliver)
            return
        replies: list[bytes] = []
        commands, self._waiting = self._waiting, []
        for command in commands:
            if not self._carry_out(command, replies):
                return
        if replies and not self._mute:
            self._loop.call_later(_LATENCY, self._receive, b"".join(replies))

    def _receive(self, data: bytes) -> None:
        if self._open:
            self._protocol.data_received(data)

    def _carry_out(self, command: list[bytes], replies: list[bytes]) -> bool:
        """Do one command; False when nothing that follows will be read."""
        words = [word.decode("utf-8", "replace") for word in command]
        kind = self._kind_of(words)
        if kind not in _CHANGING or self.process is None:
            replies.append(encode_reply(self._answer(words)))
            return True
        journal, process = self._network.journal, self.process
        # Passwords differ by run.
        secret = kind in ("ACL SETUSER", "SENTINEL CONFIG") or {"masterauth", "auth-pass"} & {
            *words
        }
        detail = f"{self.server.name} {' '.join(words[2:3] if secret else words[2:5])}"
        strike = journal.begin(process, f"redis {_sort(kind, words)}", detail)
        if strike is Strike.CRASH_BEFORE:
            process.die()
            return False
        replies.append(encode_reply(self._answer(words)))
        journal.done()
        if strike is Strike.CRASH_AFTER:
            process.die()
            return False
        if strike is Strike.LOST_REPLY:
            self._mute = True
        return self._open

    def _kind_of(self, words: list[str]) -> str:
        """What a command changes: within a transaction nothing, and all of it with EXEC."""
        if words[0].upper() == "EXEC":
            kinds = [_kind(*queued[:3]) for queued in self._session.queued or ()]
            return next((kind for kind in kinds if kind in _CHANGING), "EXEC")
        return "MULTI" if self._session.queued is not None else _kind(*words[:3])

    def _answer(self, words: list[str]) -> Reply:
        return self._session.answer(words)

    def _answer_one(self, words: list[str]) -> Reply:
        name = words[0].upper()
        if name == "AUTH":
            known = self._network.world.passwords.get(self.server.name, {})
            user, password = words[1:] if len(words) > 2 else ("default", words[1])
            if accepts(known, user, password):
                return b"OK"
            return hiredis.ReplyError("WRONGPASS invalid username-password pair")
        if name == "ACL":
            users = self._network.world.passwords.setdefault(self.server.name, {})
            return answer_acl(users, words, lambda: self._network.users_of(self.server.name))
        if name in self._network.refused:
            return hiredis.ReplyError(self._network.refused[name])
        return answer(self._network.world, self.server, words)


def _kind(*words: str) -> str:
    name = words[0].upper()
    if name not in ("CLUSTER", "CONFIG", "CLIENT", "ACL", "SENTINEL"):
        return name
    both = f"{name} {words[1].upper()}" if len(words) > 1 else name
    return f"{both} {words[2].upper()}" if both == "CLUSTER MIGRATION" else both


def _sort(kind: str, words: list[str]) -> str:
    """A kind finer than the command where a command does several things."""
    if kind != "CLUSTER SETSLOT":
        return kind
    return f"{kind} {words[3].upper()}" if len(words) > 3 else f"{kind} EXEC"


def encode_reply(reply: Reply) -> bytes:
    """Return a reply as it stands on the wire."""
    if reply == b"OK":
        return b"+OK\r\n"
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, Exception):
        return b"-" + getattr(reply, "message", str(reply)).encode() + b"\r\n"
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(encode_reply, reply))
    return b":%d\r\n" % int(reply)


class SimulationLoop(VirtualLoop):
    """A virtual loop whose connections lead into a simulated network."""

    def __init__(self, *, start: float = 0.0) -> None:
        super().__init__(start=start)
        self.network: Network | None = None
        self.set_task_factory(own_tasks)  # type: ignore[arg-type]  # the context is optional

    async def create_connection(  # type: ignore[override]  # the one way our client calls it
        self, protocol_factory: Callable[[], Any], host: str = "", port: int = 0, **_: Any
    ) -> tuple[Any, Any]:
        """Connect within the simulation; there is no other network."""
        del port
        if self.network is None:
            raise OSError("this loop has no network yet")
        protocol = protocol_factory()
        return await self.network.open(protocol, host), protocol

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Refuse: a simulated process gets no signals."""
        raise NotImplementedError

    def remove_signal_handler(self, sig: int) -> bool:
        """Have nothing to remove."""
        del sig
        return False
