"""What the operator remembers of a database between observations; all of it can be rebuilt.

Elections are remembered because engines may refuse a second one too soon, histories because they
show which server was promoted over which; after a restart of the operator the status replaces them.
The status also says whether a database was complete before: its binding appears then and stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime

from kubecontroller import Key, Manifest
from redis_operator.api.redis import Redis
from redis_operator.api.status import RedisStatus
from redis_operator.api.validation import Problem, load
from redis_operator.api.version import RedisVersionSpec, read_entry
from redis_operator.manifests.facts import Facts
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.observe import LastPrimary, Memory
from redis_operator.operator.servers.spellings import Spellings
from redis_operator.planning.actions import ResizePod
from redis_operator.planning.advice import Plan
from redis_operator.planning.cluster.actions import Failover, Meet
from redis_operator.planning.clusters import ClusterFacts, Introduction, Moving, PeerFlag
from redis_operator.planning.counting import StrayCount, after_look
from redis_operator.planning.identity import NodeId
from redis_operator.planning.observed import Attempt, Election, Led, Observed
from redis_operator.planning.repeats import after_attempt, essence, still_failing
from redis_operator.planning.reporting.degradations import Degradation
from redis_operator.planning.reporting.resyncs import Resyncs
from redis_operator.planning.reporting.resyncs import after_look as after_syncs
from redis_operator.redis.slots import SlotSet

__all__ = ["Memories"]

_KEEP_SECONDS = 600.0
_RECENT_SECONDS = 30.0


class Memories:
    """The memory of one operator process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._elections: dict[Key, tuple[Election, ...]] = {}
        self._followed: dict[Key, dict[NodeId, NodeId]] = {}
        self._histories: dict[Key, dict[NodeId, str]] = {}
        self._stray_counts: dict[Key, StrayCount] = {}
        self._resize_refused: dict[Key, frozenset[str]] = {}
        self._introductions: dict[Key, tuple[Introduction, ...]] = {}
        self._resyncs: dict[Key, Resyncs] = {}
        self._waits: dict[Key, tuple[tuple[str, ...], float]] = {}  # reasons to wait, since when
        self._addresses: dict[Key, dict[str, float]] = {}  # of pods, and when they were last there
        self._down: dict[Key, dict[str, float]] = {}  # pods whose servers do not serve, since when
        self.spellings = Spellings()
        self._attempts: dict[Key, tuple[Observed, tuple[Attempt, ...]]] = {}
        self._hindrances: dict[Key, Degradation | None] = {}
        self._followed_specs: dict[Key, tuple[Redis, Facts]] = {}
        self._loaded: dict[Key, tuple[Manifest, Redis | tuple[Problem, ...]]] = {}

    def of(
        self,
        key: Key,
        reported: RedisStatus,
        moving: tuple[Moving, ...],
        duplicate_strays: tuple[tuple[NodeId, SlotSet], ...] = (),
    ) -> Memory:
        """Return what is known of a database before an observation."""
        known = self._elections.get(key)
        return Memory(
            formed=reported.binding is not None,
            elections=known or (),
            last_primaries=_last_primaries(reported) if known is None else (),
            cluster=ClusterFacts(
                moving=moving,
                duplicate_strays=duplicate_strays,
                histories=tuple(self._histories.get(key, _histories(reported)).items()),
                counted_at=self._stray_counts.get(key, StrayCount()).at,
                introductions=self._introductions.get(key, ()),
                former_addresses=frozenset(self._addresses.get(key, ())),
            ),
            resize_refused=self._resize_refused.get(key, frozenset()),
            resyncs=self._resyncs.get(key, Resyncs()).times,
            attempts=self._attempts[key][1] if key in self._attempts else (),
            recorded=_recorded(reported),
            led=_led(reported),
            copied=reported.source.address if reported.source is not None else "",
        )

    def loaded(self, key: Key, raw: Manifest) -> Redis | tuple[Problem, ...]:
        """Return a cached object as a value; it is parsed once, since none of them changes."""
        found = self._loaded.get(key)
        if found is None or found[0] is not raw:
            found = self._loaded[key] = (raw, load(raw))
        return found[1]

    def follow(self, key: Key, redis: Redis, facts: Facts) -> None:
        """Remember a spec whose objects are written."""
        self._followed_specs[key] = (redis, facts)

    def hindered(self, key: Key, why: Degradation | None) -> None:
        """Remember the result of the last write of a database's objects."""
        self._hindrances[key] = why

    def hindrance(self, key: Key) -> Degradation | None:
        """Return why objects of a database were refused when they were last written, or None."""
        return self._hindrances.get(key)

    def last_followed(self, key: Key, uid: str) -> tuple[Redis, Facts] | None:
        """Return the last spec of this very object that could be used, if there was one."""
        known = self._followed_specs.get(key)
        return known if known is not None and known[0].metadata.uid == uid else None

    def attempted(
        self, key: Key, observed: Observed, plan: Plan, outcomes: tuple[StepOutcome, ...] = ()
    ) -> None:
        """Remember that a plan was carried out, as long as the observed state is the same."""
        seen, attempts = self._attempts.get(key, (None, ()))
        now = essence(observed, seen)
        if seen != now:
            attempts = still_failing(attempts, self._clock())
        errors = tuple(outcome.error for outcome in outcomes if not outcome.done)
        self._attempts[key] = (now, after_attempt(attempts, plan, self._clock(), errors))
        known = self._waits.get(key)
        if known is None or known[0] != plan.blocked:
            self._waits[key] = (plan.blocked, self._clock())

    def learn(self, key: Key, observed: Observed, outcomes: tuple[StepOutcome, ...]) -> None:
        """Remember the results of this observation and of its steps."""
        now = self._clock()
        fresh = [
            Election(node=o.action.node.id, at=now, over=o.action.primary)
            for o in outcomes
            if o.done and isinstance(o.action, Failover)
        ]
        fresh += self._by_the_engine(key, observed, now)
        kept = [e for e in observed.elections if now - e.at < _KEEP_SECONDS]
        self._elections[key] = (*kept, *fresh)
        self._stray_counts[key] = after_look(
            self._stray_counts.get(key, StrayCount()), observed, now
        )
        self._introductions[key] = _introductions(observed, outcomes, now)
        self._resyncs[key] = after_syncs(self._resyncs.get(key, Resyncs()), observed, now)
        recent = {
            ip: at for ip, at in self._addresses.get(key, {}).items() if now - at < _RECENT_SECONDS
        }
        here = {node.pod.ip: now for node in observed.nodes if node.pod.ip}
        self._addresses[key] = recent | here
        down = self._down.get(key, {})
        self._down[key] = {
            node.pod.uid: down.get(node.pod.uid, now) for node in observed.seen if not node.state_ok
        }
        self.spellings.asked(key, outcomes)
        refused = {o.action.uid for o in outcomes if o.error and isinstance(o.action, ResizePod)}
        if refused:
            self._resize_refused[key] = self._resize_refused.get(key, frozenset()) | refused
        known = self._histories.setdefault(key, dict(observed.cluster.histories))
        known.update({n.id: n.replication.id for n in observed.seen if n.is_primary and n.slots})
        away = known.keys() - {node.id for node in observed.seen}
        for gone in away - _known_to_somebody(observed) if away else ():
            del known[gone]

    def waited(self, key: Key) -> float:
        """Return the seconds for which the reasons to wait have been the same."""
        known = self._waits.get(key)
        return max(0.0, self._clock() - known[1]) if known is not None else 0.0

    def down_for(self, key: Key) -> float:
        """Return the seconds since the last server stopped serving, of those that do not serve."""
        return max(0.0, self._clock() - max(self._down.get(key, {}).values(), default=0.0))

    def _by_the_engine(self, key: Key, observed: Observed, now: float) -> list[Election]:
        """Return promotions by the engine: a server that was a replica before leads now."""
        followed = self._followed.get(key, {})
        self._followed[key] = {
            node.id: node.replica_of for node in observed.seen if node.replica_of is not None
        }
        known = {e.node for e in observed.elections if now - e.at < _RECENT_SECONDS}
        return [
            Election(node=node.id, at=now, over=followed[node.id])
            for node in observed.seen
            if node.is_primary and node.slots and node.id in followed and node.id not in known
        ]

    def forget(self, key: Key) -> None:
        """Forget a database that is gone."""
        self._followed.pop(key, None)
        self._introductions.pop(key, None)
        self._resyncs.pop(key, None)
        self._down.pop(key, None)
        self._addresses.pop(key, None)
        self._waits.pop(key, None)
        self.spellings.forget(key)
        self._followed_specs.pop(key, None)
        for memory in (self._elections, self._histories, self._stray_counts, self._resize_refused):
            memory.pop(key, None)
        self._attempts.pop(key, None)
        self._loaded.pop(key, None)
        self._hindrances.pop(key, None)

    def catalog(self, versions: Iterable[Manifest]) -> list[RedisVersionSpec]:
        """Return the catalog entries of the cluster, without those that cannot be read."""
        return [entry for raw in versions if (entry := read_entry(raw)) is not None]


def _last_primaries(status: RedisStatus) -> tuple[LastPrimary, ...]:
    numbered = ((shard.name.rpartition("-")[2], shard) for shard in status.shards)
    return tuple(
        LastPrimary(shard=int(number), pod=shard.primary, since=_moment(shard.last_failover_time))
        for number, shard in numbered
        if number.isdecimal() and shard.primary
    )


def _recorded(status: RedisStatus) -> tuple[tuple[int, str], ...]:
    """Return the id of each group's data in the status."""
    numbered = ((shard.name.rpartition("-")[2], shard.node_id) for shard in status.shards)
    return tuple((int(number), node) for number, node in numbered if number.isdecimal() and node)


def _led(status: RedisStatus) -> tuple[Led, ...]:
    """Return the last primary of each group, and the history of its data in the status."""
    return tuple(
        Led(int(number), shard.primary or shard.last_primary, shard.replication_id)
        for shard in status.shards
        if (number := shard.name.rpartition("-")[2]).isdecimal()
    )


def _histories(status: RedisStatus) -> dict[NodeId, str]:
    return {NodeId(shard.node_id): shard.replication_id for shard in status.shards if shard.node_id}


def _moment(text: str) -> float:
    """Return a time of the status; one that cannot be read is long ago."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _known_to_somebody(observed: Observed) -> set[NodeId]:
    return {peer.id for node in observed.seen for peer in node.peers}


def _introductions(
    observed: Observed, outcomes: tuple[StepOutcome, ...], now: float
) -> tuple[Introduction, ...]:
    """Return the pairs that were introduced, now and before, and still do not know each other."""
    meets = any(o.done and isinstance(o.action, Meet) for o in outcomes)
    if not meets and not observed.cluster.introductions:
        return ()
    known = {
        frozenset((node.id, peer.id))
        for node in observed.seen
        for peer in node.peers
        if peer.connected and PeerFlag.HANDSHAKE not in peer.flags
    }
    met = {
        frozenset((o.action.node.id, o.action.peer.id)): o.action
        for o in outcomes
        if o.done and isinstance(o.action, Meet)
    }
    alive = {node.id for node in observed.seen}
    before = {
        frozenset((i.node, i.peer)): i
        for i in observed.cluster.introductions
        if {i.node, i.peer} <= alive and frozenset((i.node, i.peer)) not in known
    }
    again = {
        pair: Introduction(
            node=action.node.id,
            peer=action.peer.id,
            times=before[pair].times + 1 if pair in before else 1,
            at=now,
        )
        for pair, action in met.items()
    }
    return tuple((before | again).values())
