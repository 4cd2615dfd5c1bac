"""Metrics of restores, read from the `RedisRestore`s whenever somebody scrapes: nothing is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller.client.meta import Manifest
from redis_operator.api.redisrestore import RestorePhase
from redis_operator.api.redisrestore_validation import load_redisrestore_status

__all__ = ["RestoreCollector"]


class RestoreCollector(Collector):
    """How many restores there are of each database."""

    def __init__(self, restores: Callable[[], Iterable[Manifest]]) -> None:
        self._restores = restores

    def collect(self) -> Iterator[Metric]:
        """Read all restores."""
        found = Counter(map(_read, self._restores()))
        count = GaugeMetricFamily(
            "redis_operator_restores",
            "Restores into the database while it is in use, by phase.",
            labels=("namespace", "name", "phase"),
        )
        for key in sorted({key for key, _ in found}):
            for phase in RestorePhase:
                count.add_metric([*key, phase.value], found.get((key, phase), 0))
        yield count


def _read(raw: Manifest) -> tuple[tuple[str, str], RestorePhase]:
    key = (str(raw["metadata"]["namespace"]), str((raw.get("spec") or {}).get("redis", "")))
    return key, load_redisrestore_status(raw).phase or RestorePhase.PENDING
