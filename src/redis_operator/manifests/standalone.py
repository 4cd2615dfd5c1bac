"""Mode Standalone: one StatefulSet of one pod, and one Service. Pure."""

from __future__ import annotations

from typing import Final

from redis_operator.api.redis import Persistence, Redis

from . import names
from .facts import Facts
from .layout import Layout, Port, ServiceRow
from .standalone_scripts import BOOT_ALONE, READY_ALONE, STOP_ALONE
from .users import STANDALONE_USERS

__all__ = ["STANDALONE"]


def _files(redis: Redis, facts: Facts) -> dict[str, str]:
    """Forbid a server to start empty where it had data and the loss is not accepted.

    One that follows an external server, or is filled from a backup, never starts as a primary.
    """
    keeps = redis.spec.persistence is not Persistence.NONE
    found = {"hold": ""} if facts.holds_losses and keeps else {}
    copies = redis.spec.bootstrap.from_redis or facts.restore or redis.status.source
    if copies and redis.status.binding is None:
        found["follow"] = ""
    return found


STANDALONE: Final = Layout(
    workload=lambda database, _: database,
    group_of=lambda database, workload: 0 if workload == database else None,
    group_label=names.GROUP_LABEL,
    labels={names.COMPONENT_LABEL: "server"},
    scripts={"boot.sh": BOOT_ALONE, "ready.sh": READY_ALONE, "stop.sh": STOP_ALONE},
    settings=lambda _spec, _version: [("repl-diskless-load", "on-empty-db")],
    files=_files,
    waits=lambda _spec: {},
    announces=lambda _redis, _version: {},
    ports=(Port("redis", names.CLIENT_PORT),),
    services=(ServiceRow(names.client_service, optioned=True),),
    users=STANDALONE_USERS,
    binding={},
    everything="all",
)
