"""The events of a database: the difference of two statuses, so that each is sent once. Pure."""

from __future__ import annotations

from msgspec import Struct

from ...api.metadata import Condition
from ...api.status import RedisStatus

__all__ = ["Announcement", "announcements"]

_WISHED = frozenset(
    {"Hibernated", "Waking", "Paused", "UpdatePaused", "Applying", "Resizing", "Rotating"}
)
"""Reasons that a person brought about with the spec: nothing is wrong."""
_NEUTRAL = frozenset({"Paused", "Hibernated", "Following"})
"""Conditions that are worth an event when they become true, and when they become false."""
_QUIET_AT_FIRST = frozenset({"AuthApplied", "StorageResized", "VersionSupported"})
"""Conditions that have no event as long as they are good."""


class Announcement(Struct, frozen=True):
    """One event for people: a condition changed."""

    warning: bool
    reason: str
    message: str


def announcements(before: RedisStatus, after: RedisStatus) -> tuple[Announcement, ...]:
    """Return what to report as events: conditions whose status or reason changed, each once."""
    was = {c.type: (c.status, c.reason) for c in before.conditions}
    others = {c.reason for c in after.conditions if c.type != "Ready"} - {"Reconciled"}
    found = [
        _announcement(condition)
        for condition in after.conditions
        if was.get(condition.type, ("", "")) != (condition.status, condition.reason)
        and not (condition.type == "Ready" and condition.reason in others)  # it only repeats one
        and _is_news(condition, before, was)
    ]
    loss, known = after.last_data_loss, before.last_data_loss
    if loss is not None and (
        known is None
        or (loss.time, loss.slots, loss.action) != (known.time, known.slots, known.action)
    ):
        what = f"slots {loss.slots}" if loss.slots else "all keys"
        text = f"{what}: {loss.reason}; {loss.action}"
        found.append(Announcement(warning=True, reason="DataLost", message=text))
    before_primaries = {s.name: s.primary for s in before.shards}
    for shard in after.shards:
        old = before_primaries.get(shard.name, "")
        formed = before.binding is not None  # before that, the primary had served no client
        if formed and old and shard.primary and old != shard.primary:
            of = f" of {shard.name}" if len(after.shards) > 1 else ""
            text = f"{shard.primary} is the primary{of} now, before it was {old}"
            found.append(Announcement(warning=False, reason="PrimaryChanged", message=text))
    return tuple(dict.fromkeys(found))


def _is_news(condition: Condition, before: RedisStatus, was: dict[str, tuple[str, str]]) -> bool:
    if condition.reason == "DataLost":
        return False  # reported with its slots
    if condition.type == "Progressing" and condition.reason == "Reconciled":
        return False  # reported by Ready
    if condition.reason == "Observing":
        return False  # the writes are observed in a moment
    if condition.reason == "Waking" and condition.type != "Progressing":
        return False  # reported as progress
    if condition.reason == "Hibernated" and condition.type != "Hibernated":
        return False  # reported by the step, and by the condition of that name
    if condition.type in _NEUTRAL:
        return condition.status == "True" or was.get(condition.type, ("", ""))[0] == "True"
    if condition.type in _QUIET_AT_FIRST and condition.type not in was:
        return not _is_good(condition) and condition.reason not in _WISHED
    if condition.type in ("Degraded", "ConfigApplied") and condition.type not in was:
        return not _is_good(condition) and condition.reason != "Applying"
    if condition.type in ("Available", "Progressing") and not _is_good(condition):
        return before.binding is not None  # before that it is simply being created
    return True


def _is_good(condition: Condition) -> bool:
    return condition.status == ("False" if condition.type == "Degraded" else "True")


def _announcement(condition: Condition) -> Announcement:
    """Return the event of a condition: a warning only when something is wrong."""
    wished = condition.type in ("Progressing", *_NEUTRAL) or condition.reason in _WISHED
    return Announcement(
        warning=not _is_good(condition) and not wished,
        reason=condition.reason,
        message=condition.message or f"{condition.type} is {condition.status}",
    )
