"""Runs the checks of probes: a command, a connection, or an HTTP request."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

from kubelocal.node.errors import KeeperError, StartError
from kubelocal.node.pod.probes import Check, ExecCheck, HttpCheck, Result, TcpCheck
from kubelocal.node.process.execution import Finished

__all__ = ["Run", "ask"]

Run = Callable[[Sequence[str], float], Awaitable[Finished]]
"""Runs a command in the container, within so many seconds."""

_REASONS = {111: "connection refused", 113: "no route to host", 110: "connection timed out"}


async def ask(check: Check, run: Run, *, timeout: float) -> Result:
    """Run a check once; a response that does not arrive in time is a failure."""
    match check:
        case ExecCheck():
            return await _ask_command(check, run, timeout)
        case TcpCheck():
            return await _ask_port(check, timeout)
        case HttpCheck():
            return await _ask_http(check, timeout)
    assert_never(check)


async def _ask_command(check: ExecCheck, run: Run, timeout: float) -> Result:
    try:
        finished = await run(check.command, timeout)
    except TimeoutError:
        words = " ".join(check.command)
        return Result(False, f'command timed out: "{words}" timed out after {timeout:g}s')
    except (StartError, KeeperError) as error:
        return Result(False, str(error))
    return Result(finished.code == 0, finished.output)


def _refusal(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


async def _ask_port(check: TcpCheck, timeout: float) -> Result:
    where = f"{check.host}:{check.port}"
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(check.host, check.port)
    except TimeoutError:
        return Result(False, f"dial tcp {where}: i/o timeout")
    except OSError as error:
        return Result(False, f"dial tcp {where}: connect: {_refusal(error)}")
    await _close(writer)
    return Result(True)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()


def _insecure_context() -> ssl.SSLContext:
    """Return a TLS context that checks no certificates: probes check health, not identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _ask_http(check: HttpCheck, timeout: float) -> Result:
    url = f"{check.scheme}://{check.host}:{check.port}{check.path}"
    try:
        async with asyncio.timeout(timeout):
            status = await _get(check)
    except TimeoutError:
        return Result(
            False,
            f'Get "{url}": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)",
        )
    except OSError as error:
        where = f"{check.host}:{check.port}"
        return Result(False, f'Get "{url}": dial tcp {where}: connect: {_refusal(error)}')
    except (ValueError, asyncio.IncompleteReadError):
        return Result(False, f'Get "{url}": net/http: HTTP/1.x transport connection broken')
    if 200 <= status < 400:
        return Result(True)
    return Result(False, f"HTTP probe failed with statuscode: {status}")


async def _get(check: HttpCheck) -> int:
    """Return the status of one GET; just enough HTTP for a probe, without a connection pool."""
    context = _insecure_context() if check.scheme == "https" else None
    reader, writer = await asyncio.open_connection(check.host, check.port, ssl=context)
    try:
        headers = {"host": f"{check.host}:{check.port}", "user-agent": "kube-probe/1.34"}
        headers |= {"accept": "*/*", "connection": "close"}
        headers |= {name.lower(): value for name, value in check.headers}
        lines = [f"GET {check.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        await writer.drain()
        line = await reader.readline()
        version, code = line.split(maxsplit=2)[:2]
        if not version.startswith(b"HTTP/"):
            raise ValueError(line)
        return int(code)
    finally:
        await _close(writer)
