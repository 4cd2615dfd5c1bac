"""Tells the world: status written only when it differs, events only when something changed.

A database of which much happens at once does not have all of it written: after a few writes within
a second the next ones wait, and what they would have said is said by the one that follows.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from prometheus_client import Counter

from kubecontroller.client.api import Client
from kubecontroller.client.errors import Forbidden, NotFound
from kubecontroller.client.meta import Key, Manifest
from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.events import Recorder, Regarding
from redis_operator.api.status import RedisStatus
from redis_operator.operator.world import REDISES
from redis_operator.planning.reporting.announcements import announcements

__all__ = ["Reporter"]


_BURST: Final = 7.0  # statuses of one database that are written as they come
_WRITES_A_SECOND: Final = 7.0  # of those after them


class Reporter:
    """Writes statuses and events of databases."""

    def __init__(
        self,
        client: Client,
        applier: Applier,
        recorder: Recorder,
        plans: Counter | None = None,
        losses: Counter | None = None,
    ) -> None:
        self._client = client
        self._plans = plans
        self._losses = losses
        self._applier = applier
        self._recorder = recorder
        self._spent: dict[Key, tuple[float, float]] = {}  # writes of late, and when that was
        self._held_back: set[Key] = set()

    async def report(self, raw: Manifest, before: RedisStatus, after: RedisStatus) -> RedisStatus:
        """Write the status if it differs from the one that stands, then tell what changed.

        Returns the status that stands then: what the next report of this pass differs from. One
        that is held back stands not: the caller looks again soon (`is_behind`).
        """
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        self._held_back.discard(key)
        if after != before and not self._may_write(key):
            self._held_back.add(key)
            return before
        try:
            written = await self._applier.apply_status(
                REDISES, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return before  # the database was deleted meanwhile
        except Forbidden as error:
            self.complain(raw, error)
            return before  # it is not reported, and what must be done is done all the same
        if written is None:
            return before
        about = Regarding.of(REDISES, raw)
        for told in announcements(before, after):
            record = self._recorder.warning if told.warning else self._recorder.normal
            record(about, told.reason, told.message)
        self._count_loss(meta, before, after)
        return after

    def is_behind(self, key: Key) -> bool:
        """Tell whether the last status of a database was held back."""
        return key in self._held_back

    def forget(self, key: Key) -> None:
        """Let go of a database that is gone."""
        self._spent.pop(key, None)
        self._held_back.discard(key)

    def _may_write(self, key: Key) -> bool:
        now = asyncio.get_running_loop().time()
        spent, since = self._spent.get(key, (0.0, now))
        spent = max(0.0, spent - (now - since) * _WRITES_A_SECOND)
        if spent > _BURST - 1.0:
            return False
        self._spent[key] = (spent + 1.0, now)
        return True

    def _count_loss(self, meta: Manifest, before: RedisStatus, after: RedisStatus) -> None:
        known = before.last_data_loss.time if before.last_data_loss is not None else ""
        if after.last_data_loss is None or after.last_data_loss.time == known:
            return
        if self._losses is not None:
            self._losses.labels(meta["namespace"], meta["name"]).inc()

    def complain(self, raw: Manifest, error: Forbidden) -> None:
        """Tell that the operator lacks a right: where the status may not be written, an event."""
        text = (
            f"the operator is missing a permission and continues as soon as it is granted: {error}"
        )
        self._recorder.warning(Regarding.of(REDISES, raw), "Forbidden", text)

    def tell(self, raw: Manifest, rule: str, reason: str, message: str) -> None:
        """Report one thing that is not a condition: steps of a rule that were taken."""
        if self._plans is not None:
            self._plans.labels(rule).inc()
        self._recorder.normal(Regarding.of(REDISES, raw), reason, message)


def _plain(status: RedisStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
