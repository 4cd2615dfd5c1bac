"""Logs and commands in pods: from a request to the node agent that can serve it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from kubelocal.apiserver.calls import Connect
from kubelocal.apiserver.errors import StatusError, bad_request, unavailable
from kubelocal.apiserver.format.bodies import refusal
from kubelocal.apiserver.http.channels import choose, serve
from kubelocal.apiserver.http.connection import Connection
from kubelocal.apiserver.http.websocket import is_upgrade
from kubelocal.apiserver.http.wire import Message
from kubelocal.apiserver.pod_api import ExecOptions, HookError, LogOptions, NodeHooks

__all__ = ["log_options", "open_log", "stream_pod"]


async def stream_pod(
    connection: Connection, message: Message, connect: Connect, hooks: NodeHooks | None
) -> None:
    """Handle a log, exec or attach request."""
    try:
        await _stream_pod(connection, message, connect, hooks)
    except HookError as error:
        connection.respond(refusal(StatusError(error.code, error.reason, error.message)))
    except StatusError as error:
        connection.respond(refusal(error))


async def _stream_pod(
    connection: Connection, message: Message, connect: Connect, hooks: NodeHooks | None
) -> None:
    if hooks is None:
        raise unavailable("no node agent runs here, so pods have neither logs nor commands")
    if connect.subresource == "log":
        await _log(connection, connect, hooks)
    elif connect.subresource == "exec":
        await _exec(connection, message, connect, hooks)
    else:
        raise StatusError(501, "NotImplemented", f"{connect.subresource} is not served here")


_MOST_DIGITS = 18  # of a number with 64 bits


def _flag(query: dict[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"true", "1", "t"}


def _number(query: dict[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number, not negative')
    return int(text)


def log_options(connect: Connect) -> LogOptions:
    """Return the options of a log request."""
    query = dict(connect.query)
    since = query.get("sinceTime")
    try:
        since_time = datetime.fromisoformat(since).astimezone(UTC) if since else None
    except (ValueError, OverflowError):
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
    """Return the chunks of the requested log."""
    return await hooks.logs(connect.namespace, connect.name, log_options(connect))


async def _log(connection: Connection, connect: Connect, hooks: NodeHooks) -> None:
    chunks = await open_log(connect, hooks)
    connection.begin([("content-type", "text/plain")])
    async for chunk in chunks:
        connection.write(chunk)
        await connection.drain()
    connection.end()


async def _exec(
    connection: Connection, message: Message, connect: Connect, hooks: NodeHooks
) -> None:
    offered = [word.strip() for word in message.header("sec-websocket-protocol").split(",")]
    protocol = choose(offered)
    is_websocket = is_upgrade(
        message.header("upgrade"),
        message.header("connection"),
        message.header("sec-websocket-key"),
    )
    if protocol is None or not is_websocket:
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
    try:
        socket = connection.upgrade(protocol)
        await serve(session, socket, protocol)
        socket.close()
    finally:
        await session.close()
