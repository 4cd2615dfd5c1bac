"""A worker's connection to a server: commands in, answers out, nothing in between.

The operator's own connections know which command is allowed and what it answers; a worker carries
keys and values of any form, and asks few things.

Errors: `TargetError`; an error that the server answers is an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis

from redis_operator.redis.resp import Argument, encode_all

from .errors import TargetError
from .replica import Login

__all__ = ["Link", "connect"]

_CONNECT_SECONDS = 5.0
_CHUNK = 1 << 18


class Link:
    """An open connection; made by `connect`."""

    def __init__(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    async def ask(self, *words: Argument, timeout: float = 10.0) -> Any:
        """Return the answer of one command. Raises `TargetError` where it is an error."""
        [answer] = await self.ask_all([words], timeout=timeout)
        if isinstance(answer, hiredis.ReplyError):
            raise TargetError(f"{self.name} refuses {words[0]!s}: {answer}", answer=str(answer))
        return answer

    async def ask_all(
        self, commands: Iterable[Sequence[Argument]], *, timeout: float = 10.0
    ) -> list[Any]:
        """Return the answers of commands that are sent together; errors are among them."""
        sent = list(commands)
        return await self._exchange(encode_all(sent), len(sent), str(sent[0][0]), timeout)

    async def ask_raw(
        self, commands: bytes, count: int, *, timeout: float
    ) -> list[tuple[int, str]]:
        """Send commands that are encoded already; return the errors among the answers by number."""
        answers = await self._exchange(commands, count, f"{count} commands", timeout)
        return [
            (number, str(answer))
            for number, answer in enumerate(answers)
            if isinstance(answer, hiredis.ReplyError)
        ]

    async def _exchange(self, sent: bytes, count: int, what: str, timeout: float) -> list[Any]:
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(sent)
                await self._writer.drain()
                return [await self._answer() for _ in range(count)]
        except TimeoutError as error:
            self.close()
            text = f"{self.name} does not respond to {what} within {timeout:g} s"
            raise TargetError(text, passing=True) from error
        except (OSError, hiredis.ProtocolError) as error:
            self.close()
            raise TargetError(f"{self.name}: {error}", passing=True) from error

    async def _answer(self) -> Any:
        while (answer := self._parser.gets()) is False:
            found = await self._reader.read(_CHUNK)
            if not found:
                raise ConnectionResetError("the server ended the connection")
            self._parser.feed(found)
        return answer

    def close(self) -> None:
        """End the connection. Harmless when repeated."""
        self._writer.close()


async def connect(name: str, *, host: str, port: int = 6379, login: Login | None = None) -> Link:
    """Open a connection, logged in. Raises `TargetError`."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        text = f"{name} cannot be reached within {_CONNECT_SECONDS:g} s"
        raise TargetError(text, passing=True) from error
    except OSError as error:
        raise TargetError(f"{name} cannot be reached: {error}", passing=True) from error
    link = Link(name, reader, writer)
    if login is not None:
        try:
            await link.ask("AUTH", login.user, login.password)
        except TargetError:
            link.close()
            raise
    return link
