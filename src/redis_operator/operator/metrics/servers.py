"""Metrics of every server, from the last observation of the operator: no server is asked again.

Labels are the namespace and name of the database and the pod, so there are as many series as pods
of existing databases. A server that did not respond has only `up` and the time of the observation;
the series of a pod end with the pod, and those of a database with the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubecontroller import Key
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import Observed, Seen, SentinelSeen

__all__ = ["COUNTERS", "GAUGES", "LastLooks", "Look", "ServerCollector"]

_LABELS = ("namespace", "name", "pod")
_PREFIX = "redis_operator_server"


Offsets = Mapping[NodeId, int]
Figure = Callable[[Seen, Offsets], float | None]


def _lag(seen: Seen, offsets: Offsets) -> float | None:
    """Bytes that a replica is behind its primary, both from the same observation."""
    ahead = offsets.get(seen.replica_of) if seen.replica_of is not None else None
    if seen.is_primary or ahead is None:
        return None
    return float(max(0, ahead - seen.replication.offset))


def _evicts(seen: Seen, _: Offsets) -> float | None:
    policy = seen.setting("maxmemory-policy")
    return None if policy is None else float(policy != "noeviction")


GAUGES: tuple[tuple[str, str, Figure], ...] = (
    ("primary", "Whether it reports that it is a primary.", lambda s, _: s.is_primary),
    ("connected_clients", "Client connections.", lambda s, _: s.traffic.connected_clients),
    ("memory_used_bytes", "Memory that it uses.", lambda s, _: s.used_memory),
    ("memory_max_bytes", "Its maxmemory; 0: no limit.", lambda s, _: s.max_memory),
    ("evicts", "Whether it makes room by evicting keys; 0: writes are refused then.", _evicts),
    ("keys", "Keys that it holds.", lambda s, _: s.keys),
    (
        "commands_per_second",
        "Commands per second, as reported by the server.",
        lambda s, _: s.traffic.commands_per_second,
    ),
    ("replication_offset_bytes", "Its offset.", lambda s, _: s.replication.offset),
    ("replication_lag_bytes", "Bytes that a replica is behind its primary.", _lag),
    (
        "replication_link_up",
        "Whether the link of a replica to its primary is up.",
        lambda s, _: None if s.is_primary else s.replication.link_up,
    ),
    ("loading", "Whether it is loading its files.", lambda s, _: s.loading),
    (
        "append_only_file_ok",
        "Whether its last write to the append-only file went well, or there is none.",
        lambda s, _: not s.aof_failed,
    ),
    ("snapshot_ok", "Whether its last snapshot went well.", lambda s, _: not s.snapshot_failed),
    (
        "cluster_state_ok",
        "Whether it reports that every slot is served; mode Cluster only.",
        lambda s, _: s.view.state_ok if s.view is not None else None,
    ),
    ("start_timestamp_seconds", "When it started.", lambda s, _: s.started_at),
)
COUNTERS: tuple[tuple[str, str, Figure], ...] = (
    ("commands", "Commands since it started.", lambda s, _: s.traffic.commands_processed),
    ("keyspace_hits", "Keys that were found.", lambda s, _: s.traffic.keyspace_hits),
    ("keyspace_misses", "Keys that were not found.", lambda s, _: s.traffic.keyspace_misses),
    ("evicted_keys", "Keys evicted for lack of memory.", lambda s, _: s.traffic.evicted_keys),
)


class _MeasuredServer(Struct, frozen=True):
    """One server at the last observation; without values when it did not respond."""

    pod: str
    figures: tuple[float | None, ...] = ()


class Look(Struct, frozen=True):
    """The measured part of one observation of a database."""

    at: float
    servers: tuple[_MeasuredServer, ...] = ()
    sentinels: tuple[tuple[str, bool], ...] = ()  # pod, and whether it responded


class LastLooks:
    """The last observation of each database: only the measured values are kept."""

    def __init__(self) -> None:
        self._looks: dict[Key, Look] = {}

    def keep(self, key: Key, observed: Observed, *, at: float) -> None:
        """Replace the last observation of a database."""
        offsets = {seen.id: seen.replication.offset for seen in observed.seen}
        servers = [
            _MeasuredServer(node.pod.name, _figures(node, offsets))
            if isinstance(node, Seen)
            else _MeasuredServer(node.pod.name)
            for node in observed.nodes
        ]
        sentinels = [(node.pod.name, isinstance(node, SentinelSeen)) for node in observed.sentinels]
        self._looks[key] = Look(at, tuple(servers), tuple(sentinels))

    def forget(self, key: Key) -> None:
        """Drop everything about a database that is gone."""
        self._looks.pop(key, None)

    def __iter__(self) -> Iterator[tuple[Key, Look]]:
        return iter(sorted(self._looks.items(), key=lambda item: item[0]))


def _figures(seen: Seen, offsets: Offsets) -> tuple[float | None, ...]:
    return tuple(figure(seen, offsets) for _, _, figure in (*GAUGES, *COUNTERS))


class ServerCollector(Collector):
    """The metrics of all servers, for installations without an exporter."""

    def __init__(self, looks: Iterable[tuple[Key, Look]]) -> None:
        self._looks = looks

    def collect(self) -> Iterator[Metric]:
        """Read the last observation of every database."""
        looks = list(self._looks)
        families: list[GaugeMetricFamily | CounterMetricFamily] = [
            *(GaugeMetricFamily(f"{_PREFIX}_{n}", text, labels=_LABELS) for n, text, _ in GAUGES),
            *(CounterMetricFamily(f"{_PREFIX}_{n}", t, labels=_LABELS) for n, t, _ in COUNTERS),
        ]
        for key, look in looks:
            for server in look.servers:
                for family, value in zip(families, server.figures, strict=False):
                    if value is not None:
                        family.add_metric([*key, server.pod], float(value))
        yield from _presence(looks)
        yield from families


def _presence(looks: list[tuple[Key, Look]]) -> Iterator[Metric]:
    up = GaugeMetricFamily(f"{_PREFIX}_up", "Whether it responded.", labels=_LABELS)
    at = GaugeMetricFamily(
        f"{_PREFIX}_observed_timestamp_seconds",
        "Time of the last observation, which all other metrics of the server are from.",
        labels=_LABELS,
    )
    sentinel = GaugeMetricFamily(
        "redis_operator_sentinel_up", "Whether a sentinel responded.", labels=_LABELS
    )
    for key, look in looks:
        for server in look.servers:
            up.add_metric([*key, server.pod], float(bool(server.figures)))
            at.add_metric([*key, server.pod], look.at)
        for pod, responded in look.sentinels:
            sentinel.add_metric([*key, pod], float(responded))
    yield from (up, at, sentinel)
