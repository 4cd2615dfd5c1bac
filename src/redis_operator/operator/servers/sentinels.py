"""One sentinel asked for everything that planning needs, in two round trips."""

from __future__ import annotations

from typing import Any

from redis_operator.operator.servers.dialect import must
from redis_operator.planning.sentinels import (
    Monitored,
    OtherSentinel,
    SentinelFlag,
    SentinelView,
    WatchedReplica,
)
from redis_operator.redis import sentinel
from redis_operator.redis.command import Command, Link
from redis_operator.redis.errors import UnknownPrimaryError
from redis_operator.redis.sentinel_replies import (
    InfoSentinel,
    KnownReplica,
    KnownSentinel,
    MonitoredPrimary,
)

__all__ = ["view_sentinel"]

_PAST_MILLISECONDS = 60_000  # less is soon over
_FLAGS = {flag.value: flag for flag in SentinelFlag}


async def view_sentinel(link: Link, *, timeout: float, now: float) -> SentinelView:
    """Ask a sentinel for its id, what it monitors, and the replicas and sentinels it knows."""
    first: list[Command[Any]] = [sentinel.my_id(), sentinel.info(), sentinel.primaries()]
    answers = await link.run_all(first, timeout=timeout)
    info: InfoSentinel = must(answers[1])
    primaries: tuple[MonitoredPrimary, ...] = must(answers[2])
    second: list[Command[Any]] = []
    for primary in primaries:
        second += [sentinel.replicas(primary.name), sentinel.sentinels(primary.name)]
    known = await link.run_all(second, timeout=timeout) if second else []
    pairs = zip(primaries, known[::2], known[1::2], strict=True)
    return SentinelView(
        id=must(answers[0]),
        run_id=info.run_id,
        engine=info.engine,
        version=info.version,
        tilt=info.tilt,
        started_at=now - info.uptime_seconds,
        monitored=tuple(
            _monitored(primary, must(replicas), must(others))
            for primary, replicas, others in pairs
            if not isinstance(replicas, UnknownPrimaryError)  # removed between the two questions
        ),
    )


def _monitored(
    primary: MonitoredPrimary,
    replicas: tuple[KnownReplica, ...],
    others: tuple[KnownSentinel, ...],
) -> Monitored:
    return Monitored(
        name=primary.name,
        ip=primary.ip,
        port=primary.port,
        run_id=primary.run_id,
        flags=_flags(primary.flags),
        role_reported=primary.role_reported,
        known_ms=primary.role_reported_ms,
        down_ms=primary.down_ms,
        config_epoch=primary.config_epoch,
        quorum=primary.quorum,
        down_after_ms=primary.down_after_ms,
        failover_timeout_ms=primary.failover_timeout_ms,
        parallel_syncs=primary.parallel_syncs,
        in_the_past=primary.last_ok_ping_ms < -_PAST_MILLISECONDS,
        failover_state=primary.failover_state,
        replicas=tuple(_replica(replica) for replica in replicas),
        sentinels=tuple(_other(other) for other in others),
    )


def _replica(replica: KnownReplica) -> WatchedReplica:
    return WatchedReplica(
        ip=replica.ip,
        port=replica.port,
        run_id=replica.run_id,
        flags=_flags(replica.flags),
        role_reported=replica.role_reported,
        primary_ip=replica.primary_host,
        primary_port=replica.primary_port,
        link_up=replica.link_up,
        link_down_ms=replica.link_down_ms,
        priority=replica.priority,
        offset=replica.offset,
    )


def _other(other: KnownSentinel) -> OtherSentinel:
    return OtherSentinel(
        id=other.run_id,
        ip=other.ip,
        port=other.port,
        flags=_flags(other.flags),
        voted_leader=other.voted_leader,
        voted_leader_epoch=other.voted_leader_epoch,
    )


def _flags(words: frozenset[str]) -> frozenset[SentinelFlag]:
    return frozenset(_FLAGS[word] for word in words if word in _FLAGS)
