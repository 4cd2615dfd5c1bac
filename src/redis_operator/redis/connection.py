"""One connection to one server: the only socket code that speaks Redis.

Guarantees
    - Commands written together arrive together (pipelining); replies come back in order.
    - AUTH is part of the same write as the first batch, so a probe is one round trip.
    - A caller that gives up (deadline, cancellation) does not disturb the others: its replies are
      dropped when they arrive.
    - When the server closes an idle connection, `on_lost` is called at once: within milliseconds
      of the end of a process on a reachable host.
    - Nothing is retried here, and no secret is ever part of a message.

Assumptions: RESP2, a server with ACL users (Redis 6 and later).
Errors: everything raised is a `RedisError`; see `errors`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import hiredis
from msgspec import Struct

from .command import Command, check_allowed, interpret
from .errors import (
    DeadlineError,
    LinkError,
    LostError,
    MalformedReplyError,
    NoAuthError,
    RefusedError,
    ReplyError,
    WrongPassError,
    reply_error,
)
from .resp import Argument, Reply, encode, encode_all
from .versions import Version

__all__ = ["Address", "Connection", "Credentials", "connect"]

T = TypeVar("T")


class Address(Struct, frozen=True, order=True):
    """Where a server listens."""

    host: str
    port: int = 6379

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Credentials(Struct, frozen=True):
    """An ACL user and its password; an empty name is the default user. Its text hides the
    password."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, ***)"


class _Batch:
    """Commands written together, waiting for their replies."""

    __slots__ = ("answers", "done", "expected")

    def __init__(self, expected: int, done: asyncio.Future[list[Reply]]) -> None:
        self.expected = expected
        self.answers: list[Reply] = []
        self.done = done


class _Protocol(asyncio.Protocol):
    """The protocol of asyncio: bytes in, replies out. It exists as long as its transport."""

    def __init__(self, address: str, on_lost: Callable[[LinkError], None] | None) -> None:
        self._address = address
        self._on_lost = on_lost
        self._reader = hiredis.Reader(replyError=self._error)
        self._waiting: deque[_Batch] = deque()
        self.transport: asyncio.Transport | None = None
        self.lost: LinkError | None = None
        self.closing = False

    def _error(self, message: str) -> ReplyError:
        return reply_error(message, address=self._address)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while self._waiting and (answer := self._reader.gets()) is not False:
                self._take(answer)
        except hiredis.ProtocolError as error:
            self.lost = LostError(
                f"sent bytes that are not a Redis reply: {error}", address=self._address
            )
            assert self.transport is not None
            self.transport.abort()

    def _take(self, answer: Reply) -> None:
        batch = self._waiting[0]
        batch.answers.append(answer)
        if len(batch.answers) == batch.expected:
            self._waiting.popleft()
            if not batch.done.done():
                batch.done.set_result(batch.answers)

    def connection_lost(self, error: Exception | None) -> None:
        if self.lost is None:
            why = "we closed the connection" if self.closing else "the server ended the connection"
            self.lost = LostError(f"{why} ({error})" if error else why, address=self._address)
        while self._waiting:
            batch = self._waiting.popleft()
            if not batch.done.done():
                batch.done.set_exception(LostError(self.lost.message, address=self._address))
        if self._on_lost is not None and not self.closing:
            self._on_lost(self.lost)

    def send(self, payload: bytes, expected: int) -> asyncio.Future[list[Reply]]:
        """Write a batch and return the future of its replies."""
        if self.lost is not None or self.transport is None or self.closing:
            message = self.lost.message if self.lost else "the connection is closed"
            raise LostError(message, address=self._address)
        done: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Batch(expected, done))
        self.transport.write(payload)
        return done


class Connection:
    """An open connection, created by `connect`. Close it, or use it in `async with`."""

    def __init__(
        self, address: Address, protocol: _Protocol, credentials: Credentials | None
    ) -> None:
        self.address = address
        self.version: Version | None = None  # once known: a process never changes it
        self.notes: dict[str, str] = {}  # what the owner has sent to the server
        self._protocol = protocol
        self._credentials = credentials

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed the connection as far as the kernel reports."""
        return self._protocol.lost is None and not self._protocol.closing

    def close(self) -> None:
        """Close the connection; commands in flight fail with `LostError`. Harmless when
        repeated."""
        self._protocol.closing = True
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    async def run(self, command: Command[T], *, timeout: float) -> T:
        """Run one command within `timeout` seconds and return its value, or raise its error."""
        [answer] = await self._exchange([command], timeout)
        return self._interpret(command, answer)

    async def run_all(
        self, commands: Sequence[Command[T]], *, timeout: float
    ) -> list[T | ReplyError | MalformedReplyError]:
        """Run commands in one write. An error reply is a value in the list, not an exception."""
        if not commands:
            return []
        answers = await self._exchange(commands, timeout)
        found: list[T | ReplyError | MalformedReplyError] = []
        for command, answer in zip(commands, answers, strict=True):
            try:
                found.append(self._interpret(command, answer))
            except (ReplyError, MalformedReplyError) as error:
                found.append(error)
        return found

    def _interpret(self, command: Command[T], answer: Reply) -> T:
        try:
            return interpret(command, answer)
        except MalformedReplyError as error:
            raise error.at(str(self.address)) from error

    async def _exchange(self, commands: Sequence[Command[T]], timeout: float) -> list[Reply]:
        for command in commands:
            check_allowed(command)
        payload = encode_all(command.arguments for command in commands)
        credentials, self._credentials = self._credentials, None
        if credentials is not None:
            # Servers before Redis 6 have no users.
            user = (credentials.username,) if credentials.username else ()
            login: tuple[Argument, ...] = ("AUTH", *user, credentials.password)
            payload = encode(login) + payload
        expected = len(commands) + (credentials is not None)
        try:
            async with asyncio.timeout(timeout):
                answers = await self._protocol.send(payload, expected)
        except TimeoutError as error:
            raise DeadlineError(
                f"{commands[0].name} got no answer within {timeout:g} s", address=str(self.address)
            ) from error
        if credentials is not None:
            self._check_login(credentials, answers.pop(0))
        return answers

    def _check_login(self, credentials: Credentials, answer: Reply) -> None:
        if not isinstance(answer, Exception):
            return
        self.close()
        if isinstance(answer, (WrongPassError, NoAuthError)):
            raise WrongPassError(
                f"WRONGPASS the server does not take the password of user {credentials.username}",
                address=str(self.address),
            )
        raise answer


async def connect(
    address: Address,
    *,
    timeout: float,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    on_lost: Callable[[LinkError], None] | None = None,
) -> Connection:
    """Open a connection within `timeout` seconds. AUTH goes out with the first command.

    `on_lost` is called once, from the event loop, when the connection was closed by the other side.
    """
    text = str(address)
    loop = asyncio.get_running_loop()
    name = (server_hostname or address.host) if tls is not None else None
    try:
        async with asyncio.timeout(timeout):
            _, protocol = await loop.create_connection(
                lambda: _Protocol(text, on_lost),
                address.host,
                address.port,
                ssl=tls,
                server_hostname=name,
            )
    except TimeoutError as error:
        raise DeadlineError(f"no connection within {timeout:g} s", address=text) from error
    except ssl.SSLError as error:
        raise LinkError(f"TLS failed: {error}", address=text) from error
    except ConnectionRefusedError as error:
        raise RefusedError("connection refused", address=text) from error
    except OSError as error:
        raise LinkError(f"cannot connect: {error}", address=text) from error
    return Connection(address, protocol, credentials)
