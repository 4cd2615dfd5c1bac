"""docs/monitoring.md names every series of databases and servers, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from redis_operator.operator.metrics.backups import BackupCollector
from redis_operator.operator.metrics.databases import (
    DatabaseCollector,
    actions_counter,
    losses_counter,
)
from redis_operator.operator.metrics.restores import RestoreCollector
from redis_operator.operator.metrics.schedules import ScheduleCollector
from redis_operator.operator.metrics.servers import LastLooks, ServerCollector

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"


def test_the_page_names_every_series_and_no_other() -> None:
    registry = CollectorRegistry()
    actions_counter(registry)
    losses_counter(registry)
    registry.register(DatabaseCollector(list))
    registry.register(ServerCollector(LastLooks()))
    registry.register(BackupCollector(list))
    registry.register(RestoreCollector(list))
    registry.register(ScheduleCollector(list))
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }
    assert set(re.findall(r"`(redis_operator_[a-z_]+)`", PAGE.read_text())) == served
