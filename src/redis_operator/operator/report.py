"""Writes a status only when it differs, and sends events only when something changed.

When many things happen to a database at once not all of them are written: after a few writes within
a second the next ones wait, and the following write includes what they would have reported.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from prometheus_client import Counter

from kubecontroller import Applier, Client, Forbidden, Key, Manifest, NotFound, Recorder, Regarding
from redis_operator.api.status import RedisStatus
from redis_operator.operator.world import REDISES
from redis_operator.planning.reporting.announcements import announcements

__all__ = ["Reporter"]


_BURST: Final = 7.0  # statuses of one database that are written without delay
_WRITES_A_SECOND: Final = 7.0  # after those


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
        self._spent: dict[Key, tuple[float, float]] = {}  # recent writes, and when that was
        self._held_back: set[Key] = set()

    async def report(self, raw: Manifest, before: RedisStatus, after: RedisStatus) -> RedisStatus:
        """Write the status if it differs from the current one, then send events for the changes.

        Returns the status in the API after that: the next report of this pass is compared with it.
        A status that is delayed is not returned: the caller observes again soon (`is_behind`).
        """
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        self._held_back.discard(key)
        lost = after.last_data_loss != before.last_data_loss  # recorded at once: steps wait for it
        if after != before and not lost and not self._may_write(key):
            self._held_back.add(key)
            return before
        try:
            written = await self._applier.apply_status(
                REDISES, key, _plain(after), observed=_plain(before)
            )
        except NotFound:
            return before  # the database was deleted meanwhile
        except Forbidden as error:
            self.report_forbidden(raw, error)
            return before  # it is not reported, and the steps are taken all the same
        if written is None:
            return before
        about = Regarding.of(REDISES, raw)
        for event in announcements(before, after):
            record = self._recorder.warning if event.warning else self._recorder.normal
            record(about, event.reason, event.message)
        self._count_loss(meta, before, after)
        return after

    def is_behind(self, key: Key) -> bool:
        """Whether the last status of a database was delayed."""
        return key in self._held_back

    def forget(self, key: Key) -> None:
        """Drop everything about a database that is gone."""
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
        lost, known = after.last_data_loss, before.last_data_loss
        if lost is None or (known and (known.time, known.slots) == (lost.time, lost.slots)):
            return
        if self._losses is not None:
            self._losses.labels(meta["namespace"], meta["name"]).inc()

    def report_forbidden(self, raw: Manifest, error: Forbidden) -> None:
        """Report that the operator lacks a permission: as an event if the status is forbidden."""
        text = (
            f"the operator is missing a permission and continues as soon as it is granted: {error}"
        )
        self._recorder.warning(Regarding.of(REDISES, raw), "Forbidden", text)

    def announce(self, raw: Manifest, rule: str, reason: str, message: str) -> None:
        """Send one event that is not about a condition: steps of a rule that were taken."""
        if self._plans is not None:
            self._plans.labels(rule).inc()
        self._recorder.normal(Regarding.of(REDISES, raw), reason, message)


def _plain(status: RedisStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
