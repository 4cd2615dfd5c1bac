"""The probes of one running instance of a container.

Guarantees: liveness and readiness wait for the startup probe; a container is ready only while its
readiness probe succeeds; a failure is reported once, by the `trouble` future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from msgspec import Struct

from kubelocal.node.pod.context import PodContext
from kubelocal.node.pod.probes import Probe, Verdict, probe_of
from kubelocal.node.pod.probing import Run, ask
from kubelocal.node.pod.states import Container, Role

__all__ = ["Health", "Unhealthy"]


class Unhealthy(Struct, frozen=True):
    """Why a container must be restarted, and the grace period of its probe, if any."""

    message: str
    grace: float | None


class Health:
    """Runs the probes of an instance for as long as the context is open."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        container: Container,
        context: PodContext,
        *,
        run: Run,
        role: Role,
    ) -> None:
        self._spec = spec
        self._container = container
        self._context = context
        self._run = run
        self._role = role
        self._tasks: list[asyncio.Task[None]] = []
        self.trouble: asyncio.Future[Unhealthy] = asyncio.get_running_loop().create_future()

    def _probe(self, name: str) -> Probe | None:
        return probe_of(self._spec, name, address=self._context.address)

    async def __aenter__(self) -> Health:
        if self._role is Role.INIT:
            return self
        startup = self._probe("startupProbe")
        if startup is None or self._container.started:
            self._begin()
        else:
            self._spawn(self._wait_for_startup(startup))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.trouble.done():
            self.trouble.cancel()

    def _spawn(self, work: Any) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _begin(self) -> None:
        """Begin the liveness and readiness probes: the container has started."""
        self._container.started = True
        liveness, readiness = self._probe("livenessProbe"), self._probe("readinessProbe")
        if liveness is not None:
            self._spawn(self._keep_alive(liveness))
        if readiness is not None:
            self._spawn(self._keep_ready(readiness))
        else:
            self._container.ready = True
        self._context.changed()

    async def _wait_for_startup(self, probe: Probe) -> None:
        verdict = Verdict(probe, initial=False)
        await asyncio.sleep(probe.initial_delay)
        while True:
            if await self._judge("Startup", probe, verdict):
                if verdict.holds:
                    self._begin()
                    return
                self._report("startup", probe)
            await asyncio.sleep(probe.period)

    async def _keep_alive(self, probe: Probe) -> None:
        verdict = Verdict(probe, initial=True)
        await asyncio.sleep(probe.initial_delay)
        while True:
            if await self._judge("Liveness", probe, verdict) and not verdict.holds:
                self._report("liveness", probe)
            await asyncio.sleep(probe.period)

    async def _keep_ready(self, probe: Probe) -> None:
        verdict = Verdict(probe, initial=self._container.ready)
        await asyncio.sleep(probe.initial_delay)
        while True:
            if await self._judge("Readiness", probe, verdict):
                self._set_ready(ready=verdict.holds)
            await asyncio.sleep(probe.period)

    def _set_ready(self, *, ready: bool) -> None:
        if self._container.ready != ready:
            self._container.ready = ready
            self._context.changed()

    async def _judge(self, title: str, probe: Probe, verdict: Verdict) -> bool:
        """Probe once; return whether a threshold is reached."""
        result = await ask(probe.check, self._run, timeout=probe.timeout)
        if not result.success:
            self._event("Unhealthy", f"{title} probe failed: {result.message}", warning=True)
        return verdict.add(result)

    def _report(self, title: str, probe: Probe) -> None:
        if not self.trouble.done():
            message = f"Container {self._container.name} failed {title} probe, will be restarted"
            self.trouble.set_result(Unhealthy(message, probe.grace))

    def _event(self, reason: str, message: str, *, warning: bool) -> None:
        kind = "containers" if self._role is Role.MAIN else "initContainers"
        self._context.machine.recorder.record(
            self._context.pod,
            reason=reason,
            message=message,
            warning=warning,
            field=f"spec.{kind}{{{self._container.name}}}",
        )
