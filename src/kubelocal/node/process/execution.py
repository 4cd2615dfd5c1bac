"""Commands inside running containers: for probes and hooks, and for `kubectl exec`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import secrets
import signal
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from msgspec import Struct

from kubelocal.apiserver.pod_api import ExecExit, Output
from kubelocal.node.errors import KeeperError, StartError
from kubelocal.node.process.client import Description, Ended, Processes
from kubelocal.node.process.launch import exec_description

__all__ = ["Finished", "Session", "run_command", "start_session"]

_MOST_OUTPUT = 10 * 1024
_CHUNK = 65536
_MOST_WAITING = 16  # chunks of output that were not read yet
_KILLED_WITHIN = 5.0


class Finished(Struct, frozen=True):
    """The result of a command: its exit code and the beginning of its output."""

    code: int
    output: str


async def _start_guest(
    processes: Processes,
    host: Description,
    folder: Path,
    command: Sequence[str],
    descriptors: tuple[int, int, int],
    *,
    tty: bool = False,
) -> tuple[str, asyncio.Future[Ended]]:
    identity = secrets.token_hex(16)
    spec = folder / f"exec-{identity}.json"
    exec_description(host, identity=identity, command=command, tty=tty).write(spec)
    end = processes.watch(identity)
    try:
        await processes.start(spec, descriptors)
    except BaseException:
        processes.unwatch(identity)
        raise
    finally:
        spec.unlink(missing_ok=True)
    return identity, end


async def run_command(
    processes: Processes,
    host: Description,
    folder: Path,
    command: Sequence[str],
    *,
    timeout: float,
) -> Finished:
    """Run a command in a container to its end.

    Errors: TimeoutError after `timeout` seconds, when the command was killed; StartError when it
    could not be started.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        identity, end = await _start_guest(
            processes, host, folder, command, (nothing, writing, writing)
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(nothing)
        os.close(writing)
    reader = _Reader(reading)
    try:
        async with asyncio.timeout(timeout):
            ended = await asyncio.shield(end)
        return Finished(ended.code, reader.taken().decode(errors="replace"))
    finally:
        reader.close()
        if not end.done():
            with contextlib.suppress(KeeperError):
                await processes.kill(identity)
        processes.unwatch(identity)


class _Reader:
    """Reads the output of a command as it arrives, and keeps its beginning."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._kept = bytearray()
        self._open = True
        asyncio.get_running_loop().add_reader(descriptor, self._take)

    def _take(self) -> None:
        while self._open:
            try:
                chunk = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                self.close()
                return
            if len(self._kept) < _MOST_OUTPUT:
                self._kept += chunk[: _MOST_OUTPUT - len(self._kept)]

    def taken(self) -> bytes:
        """Return the output so far, after a last read."""
        self._take()
        return bytes(self._kept)

    def close(self) -> None:
        """Stop reading; safe to repeat."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)


class Session:
    """One `kubectl exec`: a command with its input, its outputs and maybe a terminal."""

    def __init__(
        self,
        processes: Processes,
        identity: str,
        end: asyncio.Future[Ended],
        *,
        feed: int | None,
        outputs: dict[int, Output],
        terminal: int | None,
    ) -> None:
        self._processes = processes
        self._identity = identity
        self._end = end
        self._feed = feed
        self._terminal = terminal
        self._outputs = outputs
        self._queue: asyncio.Queue[tuple[Output, bytes] | None] = asyncio.Queue()
        self._is_paused = False
        for descriptor in outputs:
            os.set_blocking(descriptor, False)
            self._listen(descriptor)
        if feed is not None:
            os.set_blocking(feed, False)

    def _listen(self, descriptor: int) -> None:
        stream = self._outputs[descriptor]

        def take() -> None:
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return
            except OSError:  # a terminal returns EIO when its last process ended
                chunk = b""
            if not chunk:
                self._stop_listening(descriptor)
                return
            self._queue.put_nowait((stream, chunk))
            if self._queue.qsize() >= _MOST_WAITING:
                self._pause()

        asyncio.get_running_loop().add_reader(descriptor, take)

    def _pause(self) -> None:
        """Read no more output before the queue is consumed: the command waits for its reader."""
        self._is_paused = True
        for descriptor in self._outputs:
            asyncio.get_running_loop().remove_reader(descriptor)

    def _go_on(self) -> None:
        self._is_paused = False
        for descriptor in self._outputs:
            self._listen(descriptor)

    def _stop_listening(self, descriptor: int) -> None:
        if self._outputs.pop(descriptor, None) is None:
            return
        asyncio.get_running_loop().remove_reader(descriptor)
        if descriptor != self._terminal:
            os.close(descriptor)
        if not self._outputs:
            self._queue.put_nowait(None)

    async def write(self, chunk: bytes) -> None:
        """Send bytes to the command's standard input; ignored once it is closed."""
        rest = memoryview(chunk)
        while rest and self._feed is not None:
            try:
                rest = rest[os.write(self._feed, rest) :]
            except BlockingIOError:
                await self._wait_writable(self._feed)
            except OSError:
                self.close_input()

    async def _wait_writable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        writable: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            loop.remove_writer(descriptor)
            writable.set_result(None)

        loop.add_writer(descriptor, wake)
        try:
            await writable
        finally:
            loop.remove_writer(descriptor)

    def close_input(self) -> None:
        """End the command's standard input."""
        if self._feed is not None:
            if self._terminal is None:
                os.close(self._feed)
            else:
                with contextlib.suppress(OSError):
                    os.write(self._feed, b"\x04")
            self._feed = None

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the command's terminal; ignored without a terminal."""
        if self._terminal is not None:
            size = struct.pack("HHHH", *(min(max(n, 0), 65535) for n in (rows, columns)), 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    async def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        """Yield output as it arrives, until both streams ended."""
        if not self._outputs and self._queue.empty():
            await self._end
            return
        while (item := await self._queue.get()) is not None:
            if self._is_paused and self._queue.qsize() < _MOST_WAITING // 2:
                self._go_on()
            yield item

    async def wait(self) -> ExecExit:
        """Wait for the command to end."""
        ended = await asyncio.shield(self._end)
        return ExecExit(ended.code)

    async def close(self) -> None:
        """End the command if it still runs, and release its resources; safe to repeat."""
        self.close_input()
        for descriptor in list(self._outputs):
            self._stop_listening(descriptor)
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        if not self._end.done():
            with contextlib.suppress(KeeperError):
                await self._processes.signal(self._identity, signal.SIGHUP)
                await self._processes.kill(self._identity)
                await asyncio.wait({self._end}, timeout=_KILLED_WITHIN)
        self._processes.unwatch(self._identity)


async def start_session(
    processes: Processes,
    host: Description,
    folder: Path,
    command: Sequence[str],
    *,
    stdin: bool,
    tty: bool,
) -> Session:
    """Start a command whose input and outputs are streams of this process."""
    if tty:
        return await _start_on_terminal(processes, host, folder, command, stdin=stdin)
    given, feed = os.pipe2(os.O_CLOEXEC) if stdin else (os.open(os.devnull, os.O_RDONLY), None)
    out, out_end = os.pipe2(os.O_CLOEXEC)
    err, err_end = os.pipe2(os.O_CLOEXEC)
    try:
        identity, end = await _start_guest(
            processes, host, folder, command, (given, out_end, err_end)
        )
    except BaseException:
        for descriptor in (feed, out, err):
            if descriptor is not None:
                os.close(descriptor)
        raise
    finally:
        for descriptor in (given, out_end, err_end):
            os.close(descriptor)
    outputs = {out: Output.STDOUT, err: Output.STDERR}
    return Session(processes, identity, end, feed=feed, outputs=outputs, terminal=None)


async def _start_on_terminal(
    processes: Processes, host: Description, folder: Path, command: Sequence[str], *, stdin: bool
) -> Session:
    terminal, slave = pty.openpty()
    try:
        identity, end = await _start_guest(
            processes, host, folder, command, (slave, slave, slave), tty=True
        )
    except (StartError, KeeperError):
        os.close(terminal)
        raise
    finally:
        os.close(slave)
    return Session(
        processes,
        identity,
        end,
        feed=terminal if stdin else None,
        outputs={terminal: Output.STDOUT},
        terminal=terminal,
    )
