"""An HTTP proxy before the API server of which tests hold back requests and events.

The operator that is under test speaks plain HTTP to it; `kubectl proxy` behind it logs in and
speaks TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

__all__ = ["Proxy", "proxied"]

_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: proxy
contexts: [{{name: proxy, context: {{cluster: proxy, user: nobody}}}}]
clusters: [{{name: proxy, cluster: {{server: "{url}"}}}}]
users: [{{name: nobody, user: {{}}}}]
"""
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
Held = Callable[[str, str], bool]


class Proxy:
    """What passes between one operator and the API server."""

    def __init__(self, upstream: str, session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._session = session
        self.kubeconfig = Path()
        self.writes: list[tuple[float, str, str]] = []
        self.hung: list[tuple[str, str]] = []
        self.hangs: Held = lambda _method, _path: False  # requests that are never answered
        self.fresh = asyncio.Event()  # while it is not set, no event of a watch is passed on
        self.fresh.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path
        if self.hangs(method, path):
            self.hung.append((method, path))
            await asyncio.Event().wait()
        body = await request.read()
        if method not in ("GET", "HEAD"):
            self.writes.append((time.monotonic(), method, path))
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        url = self._upstream + str(request.rel_url)
        async with self._session.request(method, url, headers=headers, data=body) as answer:
            shown = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=shown)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if "watch" in request.query:
                    await self.fresh.wait()
                await response.write(chunk)
            await response.write_eof()
            return response


@asynccontextmanager
async def proxied(kubeconfig: Path, folder: Path) -> AsyncIterator[Proxy]:
    """Run a proxy before the API server that a kubeconfig names."""
    kubectl = Path(sys.executable).parent / "kubectl"
    process = subprocess.Popen(  # noqa: ASYNC220 - it is started at once
        [str(kubectl), "--kubeconfig", str(kubeconfig), "proxy", "--port=0"],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        found = re.search(rb"127\.0\.0\.1:\d+", line)
        assert found is not None, line
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            proxy = Proxy(f"http://{found[0].decode()}", session)
            app = web.Application(client_max_size=64 * 1024 * 1024)
            app.router.add_route("*", "/{path:.*}", proxy.handle)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            proxy.kubeconfig = folder / "proxy.kubeconfig"
            proxy.kubeconfig.write_text(_KUBECONFIG.format(url=_url(runner)))
            try:
                yield proxy
            finally:
                with contextlib.suppress(asyncio.TimeoutError):
                    await runner.cleanup()
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)
        if process.stdout is not None:
            process.stdout.close()


def _url(runner: web.AppRunner) -> str:
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"
