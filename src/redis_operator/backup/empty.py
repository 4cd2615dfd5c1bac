"""Drop all data of the primaries of a database, so that a backup can be restored into them.

Guarantees: nothing is dropped before every target has confirmed that it is the expected primary,
with the history from the start of the task.
Assumptions: clients cannot connect, the dropped data is in a backup, and no other worker of the
same database runs. The worker's user has the right to drop data only as long as this holds, and
servers refuse otherwise.
Errors: `TargetError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from .errors import TargetError
from .link import CommandLink, connect
from .loader import info_fields
from .replica import Login
from .task import FillTarget

__all__ = ["empty", "require_primary"]

_SECONDS = 60.0


async def empty(targets: Sequence[FillTarget], login: Login) -> None:
    """Have primaries drop all keys and functions. Raises `TargetError`."""
    async with AsyncExitStack() as stack:
        links = []
        for target in targets:
            link = await connect(target.pod, host=target.host, port=target.port, login=login)
            stack.callback(link.close)
            await require_primary(link, target)
            links.append(link)
        for link in links:
            # Freed in the background: a server that is busy for seconds would be failed over.
            await link.ask("FLUSHALL", "ASYNC", timeout=_SECONDS)
            await _drop_functions(link)


async def require_primary(link: CommandLink, target: FillTarget) -> None:
    """Raise `TargetError` where a target is not the same primary any more, or restarted."""
    replication = info_fields(await link.ask("INFO", "replication"))
    if (
        replication.get("role") != "master"
        or replication.get("master_replid") != target.replication_id
    ):
        raise TargetError(
            f"{target.pod} is not the primary any more that it was when the worker started, "
            "and may not have what it was given; the restore starts again"
        )


async def _drop_functions(link: CommandLink) -> None:
    try:
        await link.ask("FUNCTION", "FLUSH", timeout=_SECONDS)
    except TargetError as error:
        if "unknown command" not in error.answer.lower():  # Redis 6 has no functions
            raise
