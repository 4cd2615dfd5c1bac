"""Event expiry: an event that was not repeated for an hour is deleted."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubelocal.controllers.engine.view import Changes, Delete, View, parse_time

__all__ = ["LIFETIME", "plan"]

LIFETIME = timedelta(hours=1)


def plan(view: View, now: datetime) -> Changes:
    """Return the deletion of expired events."""
    steps = []
    for event in view.list("events"):
        metadata = event["metadata"]
        last = event.get("lastTimestamp") or event.get("eventTime")
        seen = parse_time(last or metadata["creationTimestamp"])
        if now - seen > LIFETIME:
            steps.append(Delete("events", metadata["namespace"], metadata["name"], metadata["uid"]))
    return Changes(tuple(steps), again_after=60.0)
