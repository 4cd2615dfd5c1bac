"""Connections to a worker are closed, whenever it ends."""

from __future__ import annotations

import asyncio
import socket

from kubelocal.loopback import free_host
from redis_operator.backup.listening import listen


def test_a_connection_that_was_not_talked_to_yet_is_closed_when_the_worker_ends() -> None:
    host, began = free_host(), []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.append(writer)
        await reader.read()

    async def work() -> socket.socket:
        server = await listen(talk, host, 6380)
        loop = asyncio.get_running_loop()
        conversations: list[asyncio.Task[None]] = []
        ended = loop.create_future()

        def made(
            loop: asyncio.AbstractEventLoop, coroutine: object, **_: object
        ) -> asyncio.Task[None]:
            task = asyncio.Task(coroutine, loop=loop)  # type: ignore[arg-type]
            if getattr(coroutine, "__name__", "") == "talk":
                conversations.append(task)
                task.cancel()  # as the end of the loop does
                ended.set_result(None)
            return task

        loop.set_task_factory(made)
        client = socket.create_connection((host, 6380), timeout=10)
        await ended
        server.close()
        return client

    with asyncio.run(work()) as client:
        assert began == []
        assert client.recv(1) == b""
