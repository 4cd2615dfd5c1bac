"""A port of a worker: each connection is closed when its conversation has ended.

asyncio starts a conversation as a task that knows of its connection only once it runs. One that is
cancelled before, because the worker ends in that moment, would leave its connection open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["listen"]

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def listen(talk: Talk, host: str, port: int) -> asyncio.Server:
    """Talk to everyone who connects, until the server that is returned is closed."""
    conversations: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def ended(conversation: asyncio.Task[None]) -> None:
            conversations.discard(conversation)
            writer.close()

        conversation = asyncio.create_task(talk(reader, writer))
        conversations.add(conversation)
        conversation.add_done_callback(ended)

    return await asyncio.start_server(connected, host, port)
