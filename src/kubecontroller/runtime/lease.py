"""Leader election by a Lease: the protocol, on any event loop.

Guarantees: at most one holder that honours the protocol acts at a time, as long as clocks *run* at
about the same speed. Expiry is judged by the local monotonic clock since the last observed change
of the record; remote timestamps are never compared, so clocks may differ in the time of day.
Caveat: a lease alone does not fence a writer that is stopped and continues later. `Fence` and
`FencedTransport` do; see `election`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from kubecontroller.client.api import Client
from kubecontroller.client.errors import Conflict, KubeError, NotFound
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.client.scheme import Kind
from kubecontroller.client.watch import ChangeType, WatchedChange
from kubecontroller.runtime.logs import fields

__all__ = ["Elector", "Fence", "LeaseSettings", "default_identity"]

_log = logging.getLogger(__name__)
_JITTER = 1.2

LEASES: Kind[Manifest] = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, dict)


def default_identity() -> str:
    """Return a name for this process that no other process has: its host and a random part."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"


class LeaseSettings(Struct, frozen=True):
    """The lease, the identity, and the timing in seconds.

    A holder that could not renew for `renew_deadline` stops; candidates wait for `duration` after
    the last observed renewal. The difference is the time that a holder has to notice. One request
    gets at most half of the renew deadline, so that one that hangs leaves time for another.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_exit: bool = True

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline:
            raise ValueError(
                f"lease duration {self.duration:g} s must be longer than the renew deadline "
                f"{self.renew_deadline:g} s: a holder has to stop before others take over"
            )
        if not self.renew_deadline > self.retry_period * _JITTER:
            raise ValueError(
                f"renew deadline {self.renew_deadline:g} s must be longer than {_JITTER} retry "
                f"periods of {self.retry_period:g} s: one failed attempt must not lose the lease"
            )
        if self.duration < 1:
            raise ValueError("a lease lasts at least one second")
        if not self.identity:
            raise ValueError("a holder needs an identity: use default_identity()")

    @property
    def request_timeout(self) -> float:
        """How long one request may take, connecting included; seconds."""
        return min(self.renew_deadline / 2, self.retry_period * 2)


def _since_boot() -> float:
    """Return a clock that advances while the machine is suspended, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Fence:
    """Whether this process leads right now, to be checked before each write, from any thread.

    It expires by itself when the lease was not renewed for the renew deadline, even if the renewing
    thread is dead. Its clock advances while the machine is suspended: a process that resumes an
    hour later knows it before its first write. A virtual machine that its host paused may not
    notice; nothing inside it can.
    """

    def __init__(self, clock: Callable[[], float] = _since_boot) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def left(self) -> float:
        """How many seconds remain until it expires, unless the lease is renewed; negative after."""
        return self._until - self._clock()

    def now(self) -> float:
        """Return the current time on the clock of this fence."""
        return self._clock()

    @property
    def until(self) -> float:
        """The instant at which it expires, unless the lease is renewed before."""
        return self._until

    def extend(self, until: float) -> None:
        """Lead until that instant."""
        self._until = until

    def drop(self) -> None:
        """Lead no longer."""
        self._until = float("-inf")

    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        return self._clock() < self._until


class Elector:
    """Acquires the lease when it is free, and renews it as long as it can."""

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        fence: Fence,
        *,
        random: Callable[[], float],
        on_new_leader: Callable[[str], None] | None = None,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._settings = settings
        self._fence = fence
        self._random = random
        self._on_new_leader = on_new_leader
        self._wall_clock = wall_clock
        self._observed: Manifest | None = None  # the lease as last seen
        self._observed_at = float("-inf")
        self._reported = ""

    @property
    def holder(self) -> str:
        """The identity that was last seen to hold the lease; empty if none."""
        spec = (self._observed or {}).get("spec") or {}
        return spec.get("holderIdentity") or ""

    async def acquire(self) -> None:
        """Return when this process leads.

        Tries every retry period, jittered, and at once when the lease is free: a watch says when to
        read it, and only that read decides whether the lease may be taken.
        """
        if not await self._attempt():
            await self._wait_for_turn()
        _log.info("became leader", extra=fields(identity=self._settings.identity))

    async def _wait_for_turn(self) -> None:
        free = asyncio.Event()
        watch = asyncio.create_task(self._watch(free), name="watch of the lease")
        try:
            held = False
            while not held:
                wait = self._settings.retry_period * (1.0 + _JITTER * self._random())
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await free.wait()
                free.clear()  # before the read: any later change wakes it again
                held = await self._attempt()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch(self, free: asyncio.Event) -> None:
        """Report when the lease is released or deleted; without a watch the reads show it."""
        failed = False
        while True:
            begun = self._fence.now()
            try:
                await self._watch_once(free)
                failed = False
            except Exception as error:  # a lease that cannot be watched can still be read
                if not failed:
                    _log.warning(
                        "cannot watch the lease; it is read every few seconds instead",
                        extra=fields(error=error),
                    )
                failed = True
            lasted = self._fence.now() - begun
            await asyncio.sleep(max(0.0, self._settings.retry_period - lasted))

    async def _watch_once(self, free: asyncio.Event) -> None:
        namespace, name = self._key
        seen = ((self._observed or {}).get("metadata") or {}).get("resourceVersion") or ""
        async with self._client.watch(
            LEASES, namespace=namespace, fields=f"metadata.name={name}", resource_version=seen
        ) as events:
            async for event in events:
                if isinstance(event, WatchedChange) and _is_free(event):
                    free.set()

    async def hold(self) -> None:
        """Renew the lease; return when it was lost, or could not be renewed in time."""
        settings = self._settings
        while self._fence.is_leader():
            await asyncio.sleep(settings.retry_period)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._fence.left):
                    while not await self._attempt():
                        if self.holder not in {"", settings.identity}:
                            break  # another process leads: do not wait for the deadline
                        await asyncio.sleep(settings.retry_period)
        self._fence.drop()
        _log.error("leadership lost", extra=fields(identity=settings.identity, holder=self.holder))

    async def release(self) -> None:
        """Release the lease, so that another can take it at once. Call it after work stopped."""
        self._fence.drop()
        for _ in range(3):
            lease = self._observed
            if lease is None or self.holder != self._settings.identity:
                return
            try:
                await self._write(lease, holder="", duration=1)
            except Conflict:
                await self._read()
            except KubeError as error:
                _log.warning("the lease could not be released", extra=fields(error=error))
                return
            else:
                _log.info("released lease", extra=fields(identity=self._settings.identity))
                return

    # One attempt

    async def _attempt(self) -> bool:
        """Acquire or renew the lease; whether this process holds it afterwards."""
        begun = self._fence.now()
        try:
            held = await self._renew_fast(begun) or await self._take_or_renew(begun)
        except KubeError as error:
            _log.warning("lease attempt failed", extra=fields(error=error))
            held = False
        except Exception as error:  # nothing may end the renewals: the next attempt may succeed
            _log.exception("lease attempt failed", extra=fields(cause=repr(error)))
            held = False
        if held:
            self._fence.extend(begun + self._settings.renew_deadline)
        elif self.holder != self._settings.identity:
            self._fence.drop()
        self._report()
        return held

    async def _renew_fast(self, now: float) -> bool:
        """Renew with the last observed record, without reading first."""
        lease = self._observed
        if lease is None or self.holder != self._settings.identity or not self._is_valid(now):
            return False
        try:
            await self._write(lease, holder=self._settings.identity)
        except KubeError:
            return False  # the slow way finds what is wrong
        return True

    async def _take_or_renew(self, now: float) -> bool:
        try:
            await self._read()
        except NotFound:
            if self._has_other_holder(now):
                return False  # deleted while its holder leads until its fence expires
            await self._create()
            return True
        assert self._observed is not None
        if self._has_other_holder(now):
            return False
        await self._write(self._observed, holder=self._settings.identity)
        return True

    async def _read(self) -> None:
        lease = await self._client.get(LEASES, self._key, timeout=self._settings.request_timeout)
        self._observe(lease)

    def _observe(self, lease: Manifest) -> None:
        before = (self._observed or {}).get("spec")
        if self._observed is None or before != lease.get("spec"):
            self._observed_at = self._fence.now()
        self._observed = lease

    def _has_other_holder(self, now: float) -> bool:
        return self.holder not in {"", self._settings.identity} and self._is_valid(now)

    def _is_valid(self, now: float) -> bool:
        spec = (self._observed or {}).get("spec") or {}
        return self._observed_at + float(spec.get("leaseDurationSeconds") or 0) > now

    async def _create(self) -> None:
        lease = {
            "metadata": {"namespace": self._settings.namespace, "name": self._settings.name},
            "spec": self._spec({}, self._settings.identity, self._whole_duration()),
        }
        self._observe(
            await self._client.create(LEASES, lease, timeout=self._settings.request_timeout)
        )

    async def _write(self, lease: Manifest, *, holder: str, duration: int | None = None) -> None:
        spec = self._spec(lease.get("spec") or {}, holder, duration or self._whole_duration())
        self._observe(
            await self._client.replace(
                LEASES, {**lease, "spec": spec}, timeout=self._settings.request_timeout
            )
        )

    def _spec(self, before: dict[str, Any], holder: str, duration: int) -> dict[str, Any]:
        now = self._wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = holder != (before.get("holderIdentity") or "")
        transitions = int(before.get("leaseTransitions") or 0)
        taken = changed and bool(holder)
        return {
            **before,
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": now,
            "acquireTime": now if changed else before.get("acquireTime") or now,
            "leaseTransitions": transitions + 1 if taken and before else transitions,
        }

    def _whole_duration(self) -> int:
        return math.ceil(self._settings.duration)

    @property
    def _key(self) -> Key:
        return (self._settings.namespace, self._settings.name)

    def _report(self) -> None:
        if self.holder and self.holder != self._reported:
            self._reported = self.holder
            if self._on_new_leader is not None:
                self._on_new_leader(self.holder)


def _is_free(event: WatchedChange[Manifest]) -> bool:
    spec = event.object.get("spec") or {}
    return event.type is ChangeType.DELETED or not spec.get("holderIdentity")
