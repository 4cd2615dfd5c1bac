"""What the API server needs from the node agent: `pods/log` and `pods/exec`.

The API server's HTTP front end holds a `NodeHooks` and calls it for the two subresources that need
the machine on which the pod runs. The node agent implements it; nothing here does any work.
A front end serves a websocket with `channels.serve(session, socket, protocol)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from enum import Enum
from typing import Protocol

from msgspec import Struct

__all__ = [
    "ExecExit",
    "ExecOptions",
    "ExecSession",
    "HookError",
    "LogOptions",
    "NodeHooks",
    "Output",
]


class HookError(Exception):
    """A request for logs or exec that cannot be served; becomes a `Status` response."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class LogOptions(Struct, frozen=True):
    """The query of `GET .../pods/NAME/log`, decoded."""

    container: str | None = None
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: datetime | None = None


class ExecOptions(Struct, frozen=True):
    """The query of `.../pods/NAME/exec`, decoded."""

    command: tuple[str, ...]
    container: str | None = None
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class Output(Enum):
    """The stream that a piece of output of a command came from."""

    STDOUT = 1
    STDERR = 2


class ExecExit(Struct, frozen=True):
    """How a command ended: its exit code, or why it could not be run."""

    code: int
    message: str = ""


class ExecSession(Protocol):
    """One running command in a container, from the API server's side."""

    async def write(self, chunk: bytes) -> None:
        """Send bytes to the command's standard input; ignored once it is closed."""

    def close_input(self) -> None:
        """End the command's standard input."""

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the command's terminal; ignored without a terminal."""

    def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        """Yield output as it arrives, until both streams ended."""

    async def wait(self) -> ExecExit:
        """Wait for the command to end."""

    async def close(self) -> None:
        """End the command if it still runs, and release its resources; safe to repeat."""


class NodeHooks(Protocol):
    """The node agent, as the API server sees it. Every method may raise `HookError`."""

    async def logs(self, namespace: str, pod: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Return the requested log as chunks; with `follow` it ends when the container does."""

    async def exec(self, namespace: str, pod: str, options: ExecOptions) -> ExecSession:
        """Start a command in a running container."""
