"""Servers that answer from a table and remember what they were sent: no process, no time.

What lies above the socket is the real code: links, logins, deadlines, transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import hiredis

from kubecontroller.testing.loop import VirtualLoop
from redis_operator.operator.effects import Effects, carry_out
from redis_operator.operator.errors import ActionError
from redis_operator.redis.errors import RedisError
from redis_testing.simulation.network import encode_reply

__all__ = ["SLOW_SECONDS", "Gone", "Host", "Network", "error", "in_turn", "info", "refusal", "role"]

T = TypeVar("T")
SLOW_SECONDS = 0.5  # what a slow server takes to accept a connection


class Gone(Exception):  # noqa: N818 - an answer, not an error
    """In the place of an answer: the server ends the connection."""


def error(words: str) -> Exception:
    """A refusal of a server, in its words."""
    return hiredis.ReplyError(words)


def in_turn(*answers: Any) -> Callable[[list[str]], Any]:
    """Answers one after the other; the last one stays."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def info(**fields: Any) -> bytes:
    """INFO of a primary unless the fields say otherwise."""
    found = {"redis_version": "7.2.4", "role": "master", "run_id": "run", **fields}
    return "\r\n".join(f"{name}:{value}" for name, value in found.items()).encode()


def role(host: str = "", port: int = 6379) -> list[Any]:
    """ROLE of a primary, or of a replica of a host."""
    if not host:
        return [b"master", 10, []]
    return [b"slave", host.encode(), port, b"connected", 10]


class Host:
    """A server: its answers by the first words of a command, and OK to everything else."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(answers or {})
        self.sent: list[str] = []
        self.state = "up"  # or "refuses", or "silent", or "slow"
        self.opened = self.closed = 0

    def asked(self, *beginnings: str) -> list[str]:
        """The commands that were sent and begin like these, in order."""
        return [line for line in self.sent if line.startswith(beginnings)]

    def answer(self, words: list[str]) -> Any:
        line = " ".join(words)
        self.sent.append(line)
        fitting = [known for known in self.answers if line == known or line.startswith(f"{known} ")]
        if not fitting:
            return b"OK"
        found = self.answers[max(fitting, key=len)]
        return found(words) if callable(found) else found


class _Wire(asyncio.Transport):
    def __init__(self, host: Host, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._host, self._protocol = host, protocol
        self._reader = hiredis.Reader()
        self._queued: list[list[str]] | None = None
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._reader.feed(bytes(data))
        replies = b""
        while (words := self._reader.gets()) is not False:
            answer = self._one([word.decode() for word in words])
            if isinstance(answer, Gone):
                self.drop(ConnectionResetError("gone"))
                return
            replies += encode_reply(answer)
        self._loop.call_soon(self._receive, replies)

    def _receive(self, replies: bytes) -> None:
        if not self._closed and self._host.state != "silent":
            self._protocol.data_received(replies)

    def _one(self, words: list[str]) -> Any:
        if words == ["MULTI"]:
            self._queued = []
            self._host.sent.append("MULTI")
            return b"OK"
        if words == ["EXEC"]:
            queued, self._queued = self._queued or [], None
            return [self._host.answer(each) for each in queued]
        if self._queued is not None:
            self._queued.append(words)
            return b"OK"  # QUEUED, which the client reads in the same way
        return self._host.answer(words)

    def drop(self, why: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self._host.closed += 1
            self._loop.call_soon(self._protocol.connection_lost, why)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self.drop(None)

    def abort(self) -> None:
        self.drop(None)


class Network(VirtualLoop):
    """A loop whose connections lead to scripted servers, by their addresses."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        super().__init__()
        self.hosts = dict(hosts)
        self._wires: dict[str, list[_Wire]] = {}

    async def create_connection(  # type: ignore[override]  # the one way our client calls it
        self, protocol_factory: Callable[[], Any], host: str = "", port: int = 0, **_: Any
    ) -> tuple[Any, Any]:
        del port
        found = self.hosts.get(host)
        if found is None or found.state == "silent":
            await asyncio.Event().wait()  # no route: packets vanish
        assert found is not None
        if found.state == "refuses":
            raise ConnectionRefusedError(f"connection refused at {host}")
        if found.state == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        found.opened += 1
        protocol = protocol_factory()
        wire = _Wire(found, protocol)
        self._wires.setdefault(host, []).append(wire)
        protocol.connection_made(wire)
        return wire, protocol

    def end(self, host: str) -> None:
        """The process ends: its connections do, and it refuses others."""
        self.hosts[host].state = "refuses"
        for wire in self._wires.pop(host, []):
            wire.drop(ConnectionResetError("gone"))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end."""
        return self.run_until_complete(work)


async def refusal(effects: Iterable[Effects] | Effects, action: Any) -> str:
    """Carry an action out as the executor does; return why it was not done."""
    try:
        await carry_out(effects, action)  # type: ignore[arg-type]
    except (ActionError, RedisError) as why:
        return f"{type(why).__name__}: {why}"
    return ""
