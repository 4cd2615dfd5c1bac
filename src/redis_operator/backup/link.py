"""A worker's connection to a server: commands in, replies out.

The operator's own connections have an allow-list and typed replies; a worker transfers keys and
values of any form, and needs few commands.

Errors: `TargetError`; an error reply is a value.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis

from redis_operator.redis.resp import Argument, encode_all

from .errors import TargetError
from .replica import Login

__all__ = ["CommandLink", "connect"]

_CONNECT_SECONDS = 5.0
_CHUNK = 1 << 18
_OK = b"+OK\r\n"


class CommandLink:
    """An open connection, created by `connect`."""

    def __init__(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    async def ask(self, *words: Argument, timeout: float = 10.0) -> Any:
        """Return the reply of one command. Raises `TargetError` where it is an error."""
        [answer] = await self.ask_all([words], timeout=timeout)
        if isinstance(answer, hiredis.ReplyError):
            raise TargetError(f"{self.name} refuses {words[0]!s}: {answer}", answer=str(answer))
        return answer

    async def ask_all(
        self, commands: Iterable[Sequence[Argument]], *, timeout: float = 10.0
    ) -> list[Any]:
        """Return the replies of commands that are sent together; errors are among them."""
        sent = list(commands)
        return await self._exchange(encode_all(sent), len(sent), str(sent[0][0]), timeout)

    async def ask_raw(
        self, commands: bytes, count: int, *, timeout: float
    ) -> list[tuple[int, str]]:
        """Send commands that are encoded already; return the errors among the replies by number."""
        answers = await self._exchange(commands, count, f"{count} commands", timeout)
        if answers.count(b"OK") == count:
            return []
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
                return await self._answers(count)
        except TimeoutError as error:
            self.close()
            text = f"{self.name} does not respond to {what} within {timeout:g} s"
            raise TargetError(text, passing=True) from error
        except (OSError, hiredis.ProtocolError) as error:
            self.close()
            raise TargetError(f"{self.name}: {error}", passing=True) from error

    async def _answers(self, count: int) -> list[Any]:
        """Return so many answers. Where each is OK, as for most keys, none has to be parsed."""
        plain, found = _OK * count, b""
        while len(found) < len(plain):
            found += await self._more()
            if not plain.startswith(found):
                self._parser.feed(found)
                return [await self._answer() for _ in range(count)]
        return [b"OK"] * count

    async def _answer(self) -> Any:
        while (answer := self._parser.gets()) is False:
            self._parser.feed(await self._more())
        return answer

    async def _more(self) -> bytes:
        found = await self._reader.read(_CHUNK)
        if not found:
            raise ConnectionResetError("the server ended the connection")
        return found

    def close(self) -> None:
        """Close the connection; what was not sent yet is dropped. Harmless when repeated.

        A server that was given up while it stood still must not receive the rest of the commands
        later: they were sent again meanwhile, and clients may have written since.
        """
        self._writer.transport.abort()


async def connect(
    name: str, *, host: str, port: int = 6379, login: Login | None = None
) -> CommandLink:
    """Open a connection, logged in. Raises `TargetError`."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        text = f"{name} cannot be reached within {_CONNECT_SECONDS:g} s"
        raise TargetError(text, passing=True) from error
    except OSError as error:
        raise TargetError(f"{name} cannot be reached: {error}", passing=True) from error
    link = CommandLink(name, reader, writer)
    if login is not None:
        try:
            await link.ask("AUTH", login.user, login.password)
        except BaseException:
            link.close()
            raise
    return link
