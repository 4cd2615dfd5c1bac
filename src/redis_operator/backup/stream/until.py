"""What a task asks of an archive, as a value. Pure."""

from __future__ import annotations

from datetime import datetime

from ..errors import WorkerError
from ..task import Until
from .plan import AtTime, Bound, Offset, Wanted

__all__ = ["wanted_of"]


def wanted_of(until: Until) -> Wanted | str:
    """Return what a task asks for. Raises `WorkerError`, which names the field."""
    given = [name for name in ("time", "offset", "point") if getattr(until, name)]
    if len(given) != 1:
        raise WorkerError(
            f"until names {', '.join(given) or 'nothing'}; name one of time, offset and point"
        )
    if until.point:
        return until.point
    if until.offset:
        return Offset(until.replication_id, until.offset)
    try:
        moment = datetime.fromisoformat(until.time)
        bound = Bound(until.bound)
    except ValueError as error:
        raise WorkerError(
            f"until: {error}; write the time like 2026-01-31T12:00:00.5Z, and the bound as "
            "notAfter or include"
        ) from error
    if moment.tzinfo is None:
        raise WorkerError(f"until.time {until.time} has no time zone; end it with Z for UTC")
    return AtTime(round(moment.timestamp() * 1e6), bound)
