"""Logs and commands in pods: from a request to the node agent that can serve it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime

from aiohttp import WSMsgType, web

from redis_operator.local.node.channels import choose, serve
from redis_operator.local.node.hooks import ExecOptions, HookError, LogOptions, NodeHooks

from .bodies import refusal
from .calls import Connect
from .status import StatusError, bad_request, unavailable

__all__ = ["converse", "log_options", "open_log"]


async def converse(
    http: web.BaseRequest, connect: Connect, hooks: NodeHooks | None
) -> web.StreamResponse:
    """Answer a log, exec or attach request."""
    try:
        return await _converse(http, connect, hooks)
    except HookError as error:
        answer = refusal(StatusError(error.code, error.reason, error.message))
    except StatusError as error:
        answer = refusal(error)
    return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)


async def _converse(
    http: web.BaseRequest, connect: Connect, hooks: NodeHooks | None
) -> web.StreamResponse:
    if hooks is None:
        raise unavailable("no node agent runs here, so pods have neither logs nor commands")
    if connect.subresource == "log":
        return await _log(http, connect, hooks)
    if connect.subresource == "exec":
        return await _exec(http, connect, hooks)
    raise StatusError(501, "NotImplemented", f"{connect.subresource} is not served here")


def _flag(query: dict[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"true", "1", "t"}


def _number(query: dict[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number, not negative')
    return int(text)


def log_options(connect: Connect) -> LogOptions:
    """Return the options of a log request."""
    query = dict(connect.query)
    since = query.get("sinceTime")
    try:
        since_time = datetime.fromisoformat(since) if since else None
    except ValueError:
        raise bad_request(f'sinceTime: Invalid value: "{since}": must be RFC 3339') from None
    return LogOptions(
        container=query.get("container") or None,
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tailLines"),
        limit_bytes=_number(query, "limitBytes"),
        since_seconds=_number(query, "sinceSeconds"),
        since_time=since_time,
    )


async def open_log(connect: Connect, hooks: NodeHooks) -> AsyncIterator[bytes]:
    """Return the chunks of the log a request asks for."""
    return await hooks.logs(connect.namespace, connect.name, log_options(connect))


async def _log(http: web.BaseRequest, connect: Connect, hooks: NodeHooks) -> web.StreamResponse:
    chunks = await open_log(connect, hooks)
    response = web.StreamResponse(headers={"content-type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(http)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response


class _Socket:
    """A websocket as the node agent's channels need it."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Return the next message, or nothing when the peer is gone."""
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        return str(message.data).encode() if message.type is WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        """Send one message."""
        await self._socket.send_bytes(message)


async def _exec(http: web.BaseRequest, connect: Connect, hooks: NodeHooks) -> web.StreamResponse:
    offered = [
        word.strip()
        for header in http.headers.getall("sec-websocket-protocol", [])
        for word in header.split(",")
    ]
    protocol = choose(offered)
    if protocol is None:
        raise bad_request("exec needs a websocket that speaks v4 or v5 of channel.k8s.io")
    query = dict(connect.query)
    command = tuple(value for name, value in connect.query if name == "command")
    if not command:
        raise bad_request("you must specify at least 1 command")
    session = await hooks.exec(
        connect.namespace,
        connect.name,
        ExecOptions(
            command=command,
            container=query.get("container") or None,
            stdin=_flag(query, "stdin"),
            stdout=_flag(query, "stdout"),
            stderr=_flag(query, "stderr"),
            tty=_flag(query, "tty"),
        ),
    )
    socket = web.WebSocketResponse(protocols=(protocol,))
    try:
        await socket.prepare(http)
        await serve(session, _Socket(socket), protocol)
    finally:
        await session.close()
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            await socket.close()
    return socket
