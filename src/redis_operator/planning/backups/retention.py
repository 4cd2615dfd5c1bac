"""Which backups of a schedule stay. Pure.

A field keeps backups, and what no field keeps goes; `maxAgeDays` alone takes away. Only good ones
are counted: a backup that cannot be restored never pushes out one that can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

from msgspec import Struct

from redis_operator.api.redisbackupschedule import BackupRetention

__all__ = ["Taken", "surplus"]


class Taken(Struct, frozen=True):
    """A good backup, the moment that it stands for, and when the API server recorded it."""

    name: str
    moment: datetime
    created: datetime


def _day(moment: datetime) -> object:
    return moment.date()


def _week(moment: datetime) -> object:
    return moment.isocalendar()[:2]


def _month(moment: datetime) -> object:
    return (moment.year, moment.month)


_PERIODS: Final[tuple[tuple[str, Callable[[datetime], object]], ...]] = (
    ("daily", _day),
    ("weekly", _week),
    ("monthly", _month),
)


def surplus(
    rules: BackupRetention, taken: Iterable[Taken], *, now: datetime, zone: tzinfo
) -> tuple[str, ...]:
    """Return the names of good backups that do not stay, the oldest first; never all of them.

    Ages are counted up to the newest good backup, by the clock of the API server alone. So neither
    a clock of the operator that jumps ahead nor a schedule that is stalled makes any too old, and
    one that is too old has a good one after it that was recorded so much later.
    """
    newest = sorted(taken, key=lambda one: (one.moment, one.name), reverse=True)
    kept = _kept(rules, newest, zone)
    if rules.max_age_days is not None and newest:
        until = min(now, max(one.created for one in newest))
        oldest = until - timedelta(days=rules.max_age_days)
        kept &= {one.name for one in newest if one.created >= oldest}
    gone = [one.name for one in newest[1:] if one.name not in kept]
    return tuple(reversed(gone))


def _kept(rules: BackupRetention, newest: Sequence[Taken], zone: tzinfo) -> set[str]:
    counts = (rules.keep_last, rules.daily, rules.weekly, rules.monthly)
    if all(count is None for count in counts):
        return {one.name for one in newest}
    kept = {one.name for one in newest[: rules.keep_last or 0]}
    for name, period in _PERIODS:
        first: dict[object, str] = {}
        for one in newest:
            first.setdefault(period(one.moment.astimezone(zone)), one.name)
        kept |= set(list(first.values())[: getattr(rules, name) or 0])
    return kept
