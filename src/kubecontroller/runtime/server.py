"""Health, readiness and metrics over HTTP.

`/healthz` says whether the process is alive, `/readyz` whether it is ready, `/metrics` has its
metrics. A check is a function that returns why not, or nothing; the reasons are in the response, so
that `kubectl describe` shows them.

Metrics can be secured: then they are served on another port over TLS, to readers that the API
server authorizes. Health stays open, since a kubelet sends no token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from kubecontroller.runtime.logs import fields
from kubecontroller.runtime.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:  # certificates are loaded only by processes that serve with one
    import ssl

    from kubecontroller.runtime.secured import SecuredMetrics

__all__ = ["CannotServe", "Check", "HealthServer"]

_log = logging.getLogger(__name__)
_METRICS = "/metrics"

Check: TypeAlias = Callable[[], str | None]
"""Returns why not, or nothing when all is well. Must not block."""


class CannotServe(RuntimeError):  # noqa: N818 - the state of affairs
    """A port cannot be listened on; the message says which, why, and what to do."""


class HealthServer:
    """Serves the three pages. Port 0 takes any free one; `port` then says which.

    With `secured`, `/metrics` is served on its port instead, over TLS, to its readers alone.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        host: str = "0.0.0.0",
        port: int = 8080,
        secured: SecuredMetrics | None = None,
    ) -> None:
        self.port = port
        self._host = host
        self._metrics = metrics
        self.secured = secured
        self._health: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}
        self._runners: list[web.AppRunner] = []
        self._renewing: asyncio.Task[None] | None = None

    def add_health(self, name: str, check: Check) -> None:
        """Add a check of liveness."""
        self._health[name] = check

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a check of readiness."""
        self._readiness[name] = check

    async def start(self) -> None:
        """Begin to serve."""
        app = web.Application()
        app.router.add_get("/healthz", self._serve_health)
        app.router.add_get("/readyz", self._serve_readiness)
        if self.secured is None:
            app.router.add_get(_METRICS, self._serve_metrics)
        try:
            self.port = await self._listen(app, self.port, "health and metrics")
            if self.secured is not None:
                await self._start_secured(self.secured)
        except CannotServe:
            await self.stop()
            raise

    async def _start_secured(self, secured: SecuredMetrics) -> None:
        secured.renew()
        self._renewing = asyncio.create_task(secured.keep_valid())
        app = web.Application()
        app.router.add_get(_METRICS, self._serve_secured)
        secured.port = await self._listen(app, secured.port, "secured metrics", secured.context)

    async def stop(self) -> None:
        """Stop serving."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        while self._runners:
            await self._runners.pop().cleanup()

    async def _listen(
        self, app: web.Application, port: int, what: str, context: ssl.SSLContext | None = None
    ) -> int:
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        self._runners.append(runner)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, port, ssl_context=context).start()
        except OSError as error:
            raise CannotServe(
                f"cannot serve {what} on {self._host}:{port}: {error.strerror}. "
                "Choose another port, or 0 for any"
            ) from error
        address: tuple[str, int] = runner.addresses[0]
        _log.info("serving", extra=fields(what=what, host=self._host, port=address[1]))
        return address[1]

    async def _serve_health(self, _: web.Request) -> web.Response:
        return _answer(self._health)

    async def _serve_readiness(self, _: web.Request) -> web.Response:
        return _answer(self._readiness)

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        body = await asyncio.shield(self._metrics.exposition())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _serve_secured(self, request: web.Request) -> web.Response:
        assert self.secured is not None
        given = request.headers.get("Authorization")
        refusal = await self.secured.reviews.refusal(given, _METRICS)
        if refusal is None:
            return await self._serve_metrics(request)
        headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
        return web.Response(status=refusal.status, text=f"{refusal.reason}\n", headers=headers)


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
    lines.append("not healthy" if failed else "ok")
    return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")
