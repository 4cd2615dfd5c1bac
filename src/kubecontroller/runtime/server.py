"""Health, readiness and metrics over HTTP.

`/healthz` says whether the process should be left alive, `/readyz` whether it should be sent work,
`/metrics` what it has done. A check is a function that returns why not, or nothing; the reasons
are in the answer, so that `kubectl describe` shows them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeAlias

from aiohttp import web

from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.metrics import CONTENT_TYPE, Metrics

__all__ = ["CannotServe", "Check", "HealthServer"]

_log = logging.getLogger(__name__)

Check: TypeAlias = Callable[[], str | None]
"""Why not, or nothing when all is well. Must not block."""


class CannotServe(RuntimeError):  # noqa: N818 - the state of affairs
    """A port cannot be listened on; the message says which, why, and what to do."""


class HealthServer:
    """Serves the three pages. Port 0 takes any free one; `port` then says which."""

    def __init__(self, metrics: Metrics, *, host: str = "0.0.0.0", port: int = 8080) -> None:
        self.port = port
        self._host = host
        self._metrics = metrics
        self._health: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None

    def add_health(self, name: str, check: Check) -> None:
        """Add a reason to be restarted."""
        self._health[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a reason not to be sent work."""
        self._readiness[name] = check

    async def start(self) -> None:
        """Begin to serve."""
        app = web.Application()
        app.router.add_get("/healthz", self._serve_health)
        app.router.add_get("/readyz", self._serve_readiness)
        app.router.add_get("/metrics", self._serve_metrics)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise CannotServe(
                f"cannot serve health and metrics on {self._host}:{self.port}: {error.strerror}. "
                "Choose another port, or 0 for any"
            ) from error
        address: tuple[str, int] = self._runner.addresses[0]
        self.port = address[1]
        _log.info("serving health and metrics", extra=fields(host=self._host, port=self.port))

    async def stop(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve_health(self, _: web.Request) -> web.Response:
        return _answer(self._health)

    async def _serve_readiness(self, _: web.Request) -> web.Response:
        return _answer(self._readiness)

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        body = await asyncio.shield(self._metrics.exposition())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


def _answer(checks: dict[str, Check]) -> web.Response:
    lines, failed = [], False
    for name, check in checks.items():
        try:
            reason = check()
        except Exception as error:
            _log.exception("a check raised", extra=fields(check=name))
            reason = f"the check raised {type(error).__name__}"
        failed = failed or reason is not None
        lines.append(f"[-]{name} failed: {reason}" if reason is not None else f"[+]{name} ok")
    lines.append("not well" if failed else "ok")
    return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")
