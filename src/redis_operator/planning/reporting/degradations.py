"""Problems of a database that no plan can fix: each with numbers and what to do. Pure.

Each degradation is something that a person must act on or know about, visible in one observation.
None of them stops repairs, and those that a change could fix do not stop the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from ...api.quantity import format_bytes
from ..observed import Pod, Seen, SentinelSeen
from ..topology import Topology
from .resyncs import resyncing

__all__ = ["OOM_SECONDS", "Degradation", "degradations", "memory_kill"]

OOM_SECONDS = 600.0
"""A server that was OOM-killed is trusted again after so long without another kill."""
_UNSYNCED_SECONDS = 60.0
_COPYING_SECONDS = 600.0
_LINK_SECONDS = 15.0
_FULL, _ROOMY = 0.98, 0.95
_BUFFERS = (
    "raise repl-backlog-size and the replica part of client-output-buffer-limit in spec.config"
)


class Degradation(Struct, frozen=True):
    """One problem: a reason for machines and a message for people."""

    reason: str
    message: str


def degradations(situation: Topology, reported: str = "") -> tuple[Degradation, ...]:
    """Return the problems of a database, the worst first; `reported` is the reason in the status.

    A value near a limit is reported until it is well away from it; otherwise the report would
    appear and disappear all the time.
    """
    checks: tuple[Callable[[Topology, str], Iterator[Degradation]], ...] = (
        _unloadable,
        _unstartable,
        _killed,
        _refused,
        _unwritten,
        _full,
        _unfollowed,
        _out_of_sync,
        _foreign_names,
    )
    return tuple(degradation for check in checks for degradation in check(situation, reported))


def memory_kill(pod: Pod, now: float, *, within: float = OOM_SECONDS) -> str | None:
    """Say that a server was OOM-killed not long ago, with the numbers; else None. ST-09"""
    if not pod.killed_for_memory_at or now - pod.killed_for_memory_at > within:
        return None
    limit = f" of {format_bytes(pod.memory_limit)}" if pod.memory_limit else ""
    times = "once" if pod.restarts <= 1 else f"repeatedly ({pod.restarts} restarts)"
    return f"{pod.name} was killed {times} for using more than its memory limit{limit}"


def _unloadable(situation: Topology, _: str) -> Iterator[Degradation]:
    """Files that cannot be loaded. Files that are needed are never deleted. ST-07"""
    for node in situation.observed.nodes:
        if node.pod.unloadable:
            yield Degradation(
                "CorruptData",
                f"{node.pod.name} cannot load its files: {node.pod.unloadable}. They are kept "
                "until another server is known to hold the same data; repair them with the "
                "engine's check tool, or restore them",
            )


def _unstartable(situation: Topology, _: str) -> Iterator[Degradation]:
    """Servers of a new database that exit at once, for example due to a refused value. IN-27"""
    if situation.observed.formed:
        return  # a roll stops at its first pod, and reports it
    for node in situation.unreachable:
        if node.pod.waiting.startswith("CrashLoopBackOff") and not node.pod.unloadable:
            yield Degradation(
                "StartFailed",
                f"{node.pod.name} does not start: {node.pod.waiting}. Correct what it names in "
                "spec.config or spec.pod; pods are then recreated",
            )
            return  # the others have the same message


def _killed(situation: Topology, _: str) -> Iterator[Degradation]:
    """Servers and sentinels that used more memory than their containers may. ST-09"""
    for node in situation.observed.nodes:
        kill = memory_kill(node.pod, situation.now)
        if kill is None:
            continue
        room = ""
        if isinstance(node, Seen) and node.max_memory:
            share = round(node.used_memory / node.max_memory, 1)
            room = (
                f"; its data takes about {share:.0%} of maxmemory ({format_bytes(node.max_memory)})"
            )
        advice = "raise spec.resources.limits.memory, add shards, or lower maxmemory in spec.config"
        yield Degradation("OutOfMemory", f"{kill}{room}: {advice}")
    for watcher in situation.observed.sentinels:
        kill = memory_kill(watcher.pod, situation.now)
        if kill is not None:
            advice = "raise spec.sentinel.resources.limits.memory"
            yield Degradation("OutOfMemory", f"{kill}: {advice}")


def _refused(situation: Topology, _: str) -> Iterator[Degradation]:
    """Pods that Kubernetes refuses to create: a quota, a limit range, a policy. K-14"""
    observed = situation.observed
    for workload in (*observed.workloads, observed.sentinel_workload):
        if workload is not None and workload.trouble:
            yield Degradation("PodsRefused", f"{workload.name} is missing pods: {workload.trouble}")


def _unwritten(situation: Topology, _: str) -> Iterator[Degradation]:
    """Files that cannot be written, as on a full disk: a primary refuses every write. MISCONF"""
    for node in situation.seen:
        what = _unwritten_file(situation, node)
        if not what:
            continue
        stops = node.aof_failed or node.setting("stop-writes-on-bgsave-error") != "no"
        refuses = node.is_primary and stops
        doing = "refuses writes (MISCONF)" if refuses else "keeps new data in memory only"
        volume = next((v for v in situation.observed.volumes if v.pod == node.pod.name), None)
        where = f" {volume.name} ({format_bytes(volume.capacity)})" if volume else ""
        yield Degradation(
            "PersistenceFailed",
            f"{node.pod.name} cannot write its {what} and {doing}: most often its disk is full; "
            f"make room on its volume{where} or raise spec.storage.size. "
            "The log of the pod has the error",
        )


def _unwritten_file(situation: Topology, node: Seen) -> str:
    """The file that is not up to date; a snapshot without a save point is not expected."""
    if node.aof_failed:
        return "append-only file"
    points = node.setting("save")
    wants = not situation.wanted.volatile if points is None else bool(points)
    return "snapshot" if node.snapshot_failed and wants else ""


def _foreign_names(situation: Topology, _: str) -> Iterator[Degradation]:
    """Sentinels that monitor other primaries too: their votes and time are shared."""
    ours = situation.wanted.primary_name
    for node in situation.observed.sentinels:
        if not isinstance(node, SentinelSeen):
            continue
        others = [found.name for found in node.view.monitored if found.name != ours]
        if others:
            yield Degradation(
                "ForeignPrimary",
                f"{node.pod.name} also monitors {', '.join(others)}, which is not of this "
                "database: run SENTINEL REMOVE on it, and use sentinels of its own there",
            )


def _unfollowed(situation: Topology, _: str) -> Iterator[Degradation]:
    """An external server that should be followed and is not, or not as it should be."""
    copy = situation.copy
    if copy is None or copy.in_sync or copy.reason in ("Copying", "Promoting"):
        return
    late = all(situation.now - node.started_at > _LINK_SECONDS for node in situation.seen)
    if copy.reason != "LinkDown" or (situation.seen and late):
        yield Degradation(copy.reason, copy.message)


def _full(situation: Topology, reported: str) -> Iterator[Degradation]:
    """Memory that is full while nothing may be evicted: every write is refused. ST-09"""
    enough = _ROOMY if reported == "MemoryFull" else _FULL
    for node in situation.seen:
        full = node.max_memory and node.used_memory >= enough * node.max_memory
        if (
            full
            and situation.claims_data(node)
            and node.setting("maxmemory-policy") == "noeviction"
        ):
            yield Degradation(
                "MemoryFull",
                f"{node.pod.name} has no room left in its {format_bytes(node.max_memory)} "
                "(maxmemory) and refuses writes: add shards, raise spec.resources.limits.memory, "
                "or let it evict (maxmemory-policy)",
            )


def _out_of_sync(situation: Topology, reported: str) -> Iterator[Degradation]:
    """Replicas that never get in sync, as when buffers overflow repeatedly. ST-06"""
    for leader, most in resyncing(situation, reported=reported == "ReplicaOutOfSync"):
        yield Degradation(
            "ReplicaOutOfSync",
            f"replicas copied all data of {leader.pod.name} repeatedly, more than {most} "
            f"times in 5 minutes, because they fell behind: {_BUFFERS}",
        )
    for node in situation.seen:
        primary = situation.by_id.get(node.replica_of) if node.replica_of is not None else None
        if primary is None or node.replication.link_up or node.loading:
            continue
        since = node.replication.down_seconds or max(0.0, situation.now - node.started_at)
        patience = _COPYING_SECONDS if node.replication.syncing else _UNSYNCED_SECONDS
        if since < patience:
            continue
        doing = "copies it repeatedly" if node.replication.syncing else "has no link to it"
        yield Degradation(
            "ReplicaOutOfSync",
            f"{node.pod.name} has not been in sync with {primary.pod.name} for more than "
            f"{patience:.0f} s: it {doing}. If much is written meanwhile, {_BUFFERS}",
        )
