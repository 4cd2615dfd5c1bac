"""Cron schedules in a time zone. Pure; the only module that imports cronsim.

Changes of daylight saving time are treated as Debian's cron does: a time in the hour that is
skipped runs right after it, and a time in the hour that occurs twice runs once. Schedules that run
every hour, or every few minutes, follow elapsed time instead.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from .shape import Problem

__all__ = ["Cron", "read_cron"]

_NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_FIELDS: Final = 5
_ANY: Final = datetime(2024, 1, 1, tzinfo=UTC)


class Cron(Struct, frozen=True):
    """A schedule that has times."""

    expression: str
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime:
        """Return the first time after a moment, in UTC."""
        return self._first(moment, reverse=False)

    def until(self, moment: datetime) -> datetime:
        """Return the last time that is not after a moment, in UTC."""
        found = self._first(moment, reverse=True)
        # The moment itself may match: the match after the previous one shows it.
        following = self.after(found)
        return following if following <= moment else found

    def _first(self, moment: datetime, *, reverse: bool) -> datetime:
        times = CronSim(self.expression, moment.astimezone(self.zone), reverse=reverse)
        return next(times).astimezone(UTC)


def read_cron(expression: str, zone: str, path: str = "spec") -> Cron | tuple[Problem, ...]:
    """Return the schedule that two fields describe, or what is wrong with them."""
    problems = []
    found = _zone(zone)
    if found is None:
        text = f"there is no time zone {zone!r}; use a name such as Europe/Berlin, or UTC"
        problems.append(Problem(f"{path}.timeZone", text))
    text = _wrong(_NAMED.get(expression, expression))
    if text:
        problems.append(Problem(f"{path}.schedule", text))
    if problems or found is None:
        return tuple(problems)
    return Cron(_NAMED.get(expression, expression), found)


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder of zones, a path, a name that does not exist
        return None


def _wrong(expression: str) -> str:
    if len(expression.split()) != _FIELDS:
        return (
            f"{expression!r} must have five fields: minute, hour, day of the month, month, day of "
            "the week, such as 0 3 * * *"
        )
    try:
        next(CronSim(expression, _ANY))
    except CronSimError as error:
        text = str(error).removeprefix("Bad ").lower()
        return f"{expression!r} is never due, or cannot be read: check the field {text}"
    except StopIteration:
        return f"{expression!r} is never due: no such day exists"
    return ""
