"""The channel protocols of `kubectl exec` over a websocket: v4 and v5 of `channel.k8s.io`.

Each message starts with one byte that names the channel. `serve` connects an `ExecSession` to a
websocket given as a small protocol, so that the HTTP front end needs no knowledge of either.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

import msgspec

from kubelocal.apiserver.pod_api import ExecExit, ExecSession, Output

__all__ = ["PROTOCOLS", "Socket", "choose", "serve", "status_of"]

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The protocols in the order of the server's preference."""

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHANNEL_OF = {Output.STDOUT: _STDOUT, Output.STDERR: _STDERR}


class Socket(Protocol):
    """The websocket as `serve` needs it."""

    async def receive(self) -> bytes | None:
        """Return the next binary message, or None when the peer is gone."""

    async def send(self, message: bytes) -> None:
        """Send one binary message."""


class _Size(msgspec.Struct, frozen=True):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


def choose(offered: list[str]) -> str | None:
    """Return the protocol to use of those that the client offers, or None."""
    return next((protocol for protocol in PROTOCOLS if protocol in offered), None)


def status_of(end: ExecExit) -> dict[str, Any]:
    """Return the `Status` object that ends the error channel."""
    if end.code == 0:
        return {"metadata": {}, "status": "Success"}
    message = end.message or f"command terminated with non-zero exit code: exit status {end.code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(end.code)}]},
    }


async def serve(session: ExecSession, socket: Socket, protocol: str) -> None:
    """Run one exec session to its end over a websocket.

    Guarantees: output is sent whole before the status; the command ends when the peer is gone.
    """
    closes_input = protocol == PROTOCOLS[0]
    reading = asyncio.ensure_future(_pump_input(session, socket, closes_input=closes_input))
    ending = asyncio.ensure_future(_pump_output(session, socket))
    try:
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            await ending
    except ConnectionError:
        pass
    finally:
        for task in (reading, ending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await task
        await session.close()


async def _pump_output(session: ExecSession, socket: Socket) -> None:
    async for stream, chunk in session.output():
        await socket.send(bytes((_CHANNEL_OF[stream],)) + chunk)
    end = await session.wait()
    await socket.send(bytes((_ERROR,)) + msgspec.json.encode(status_of(end)))


async def _pump_input(session: ExecSession, socket: Socket, *, closes_input: bool) -> None:
    while (message := await socket.receive()) is not None:
        if not message:
            continue
        channel, payload = message[0], message[1:]
        if channel == _STDIN:
            await session.write(payload)
        elif channel == _RESIZE:
            with contextlib.suppress(msgspec.DecodeError):
                size = msgspec.json.decode(payload, type=_Size)
                session.resize(size.width, size.height)
        elif channel == _CLOSE and closes_input and payload[:1] == bytes((_STDIN,)):
            session.close_input()
