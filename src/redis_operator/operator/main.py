"""`redis-operator run`: one operator process, from its arguments to its end."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kubecontroller import KubeError, set_up
from kubecontroller.runtime import (
    CachesNotSynced,
    CannotServe,
    LeadershipLost,
    freeze_cached_objects,
)
from redis_operator.operator.ended_namespaces import spare_ended
from redis_operator.operator.settings import Settings, read_settings
from redis_operator.operator.wiring import make_manager

__all__ = ["main"]

_LOG = logging.getLogger(__name__)
_WAIT_SECONDS = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run until stopped; the exit code says whether that was wanted."""
    settings = read_settings(arguments)
    set_up(style=settings.log_format, level=logging.DEBUG if settings.verbose else logging.INFO)
    try:
        if settings.wait_for_server:
            _wait_for_kubeconfig(settings)
        asyncio.run(_run(settings))
    except (KubeError, CachesNotSynced, CannotServe) as error:
        sys.stderr.write(f"redis-operator: {error}\n")
        return 1
    except LeadershipLost as lost:
        sys.stderr.write(f"redis-operator: {lost}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


async def _run(settings: Settings) -> None:
    manager = make_manager(settings)
    await spare_ended(manager, settings.namespaces)
    manager.on_synced.append(freeze_cached_objects)
    await manager.run()


def _wait_for_kubeconfig(settings: Settings) -> None:
    """Wait until the kubeconfig is written: in local mode the cluster may just be starting."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not Path(settings.kubeconfig).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
