"""The end state of a simulation, without what may differ from run to run.

Two runs that did the same have equal summaries: ids, addresses, passwords, times and which pod of a
shard leads are left out; objects, owners of slots, primaries of replicas and reports are in.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubecontroller.client.meta import Manifest
from redis_operator.manifests.cluster import CLUSTER
from redis_operator.manifests.names import (
    ARCHIVE_LABEL,
    DATABASE_LABEL,
    INTENT_ANNOTATION,
    ROLE_LABEL,
)
from redis_operator.operator.world import CHILD_KINDS

from .system import DATABASE, NAMESPACE, Simulation

__all__ = [
    "backups_of",
    "is_gone",
    "mislabelled",
    "redisfailover_of",
    "restores_of",
    "summary",
]

_PLURALS = tuple(kind.resource for kind in CHILD_KINDS.values())
_MORE = ("pods", "persistentvolumeclaims")
# Passwords differ in each run, and addresses given as pods come.
_DRAWN = ("masterauth", "primaryauth", "replica-announce-ip")
# A server that was on its way into mode Failover keeps these until it restarts; alone, without
# replicas, they mean nothing.
_OF_REPLICAS = (
    *("min-replicas-max-lag", "min-replicas-to-write", "repl-backlog-size"),
    *("repl-diskless-sync", "replica-priority"),
)


def summary(simulation: Simulation, *, exact_slots: bool = True) -> dict[str, Any]:
    """Return what a simulation came to; equal runs are equal here."""
    return {
        "objects": _objects(simulation),
        "shards": _shards(simulation, exact=exact_slots),
        "servers": _servers(simulation),
        "labels": mislabelled(simulation),
        "status": _status(simulation, exact=exact_slots),
        "redisfailover": _shown(simulation),
        "backups": _backups(simulation),
        "archives": _archives(simulation),
        "restores": _restores(simulation),
    }


def _all(simulation: Simulation, resource: str) -> list[Manifest]:
    entries = simulation.server.core.store.collection(resource).entries.values()
    return [
        msgspec.json.decode(e.body)
        for e in entries
        if e.namespace == NAMESPACE and e.labels.get(DATABASE_LABEL) == DATABASE
    ]


def _objects(simulation: Simulation) -> list[str]:
    """Every object by kind and name, with the hash of its desired state."""
    found = []
    for resource in (*_PLURALS, *_MORE):
        for obj in _all(simulation, resource):
            meta = obj["metadata"]
            intent = (meta.get("annotations") or {}).get(INTENT_ANNOTATION, "")
            shown = "" if resource == "secrets" else intent
            leaving = " leaving" if "deletionTimestamp" in meta else ""
            found.append(f"{resource} {meta['name']} {shown}{leaving}")
    return sorted(found)


def _shards(simulation: Simulation, *, exact: bool) -> dict[str, Any]:
    world = simulation.world
    found: dict[str, Any] = {}
    mine = [s for s in world.servers.values() if s.database == DATABASE and s.alive]
    ids = {s.id: s for s in mine}
    for server in mine:
        if not server.is_primary or server.sentinel is not None:
            continue
        place = CLUSTER.place_of(DATABASE, server.name)
        followers = [s for s in mine if s in world.copies(server)]
        shards = {
            p.shard for f in followers if (p := CLUSTER.place_of(DATABASE, f.name)) is not None
        }
        found[f"shard {place.shard if place else '?'}"] = {
            "slots": str(server.slots) if exact else len(server.slots),
            "sentinels": sum(s.sentinel is not None for s in mine),
            "replicas": len(followers),
            "linked": sum(f.link_up for f in followers),
            "of shards": sorted(shards),
        }
    found["strays"] = sorted(
        s.name for s in mine if s.me.replica_of is not None and s.me.replica_of not in ids
    )
    return found


def _servers(simulation: Simulation) -> list[Any]:
    """What each living server believes, as far as it should be the same for all."""
    world = simulation.world
    mine = [s for s in world.servers.values() if s.database == DATABASE and s.alive]
    left_out = (*_DRAWN, *_OF_REPLICAS) if len(mine) == 1 else _DRAWN
    return sorted(
        [
            s.name,
            len(s.table),
            sum(r.fail or r.pfail or r.noaddr for r in s.table.values()),
            len(s.importing) + len(s.migrating),
            world.state_ok(s),
            s.version,
            sorted(item for item in s.config.items() if item[0] not in left_out),
        ]
        for s in mine
    )


def mislabelled(simulation: Simulation) -> list[str]:
    """Return pods whose role label is not what their server is."""
    wrong = []
    for pod in simulation.server.core.store.collection("pods").entries.values():
        if pod.namespace != NAMESPACE or pod.labels.get(DATABASE_LABEL) != DATABASE:
            continue
        server = simulation.world.servers.get(pod.name)
        if server is None or server.sentinel is not None:
            continue
        told = pod.labels.get(ROLE_LABEL)
        if told != ("primary" if server.is_primary else "replica"):
            wrong.append(f"{server.name} is labelled {told}")
    return wrong


def is_gone(simulation: Simulation) -> bool:
    """Return whether the database and all that belongs to it are gone, but for kept volumes."""
    redises = simulation.server.core.store.collection("redis.redisoperator.dev").entries
    if f"{NAMESPACE}/{DATABASE}" in redises:
        return False
    return not any(_all(simulation, resource) for resource in (*_PLURALS, "pods"))


def backups_of(simulation: Simulation) -> list[bytes]:
    """Return all backups as they are stored."""
    entries = simulation.server.core.store.collection("redisbackups.redisoperator.dev").entries
    return [bytes(entry.body) for entry in entries.values()]


def _backups(simulation: Simulation) -> list[Any]:
    """Return what is reported of each backup, and by how many workers it was taken."""
    jobs = simulation.server.core.store.collection("jobs.batch").entries.values()
    told = ("phase", "message", "attempt", "shards", "size", "stored", "rdb")
    return [
        [raw["metadata"]["name"], *(raw.get("status", {}).get(name) for name in told), len(jobs)]
        for raw in map(msgspec.json.decode, backups_of(simulation))
    ]


def _archives(simulation: Simulation) -> list[str]:
    """Return the workers that archive, how many pods each has, and restore points."""
    store, found = simulation.server.core.store, []
    for kind in ("deployments.apps", "configmaps", "pods"):
        for entry in store.collection(kind).entries.values():
            if ARCHIVE_LABEL in entry.labels:
                name = "" if kind == "pods" else entry.name
                found.append(f"{kind} {name} of {entry.labels[ARCHIVE_LABEL]}")
    for entry in store.collection("redisbackupschedules.redisoperator.dev").entries.values():
        status = msgspec.json.decode(entry.body).get("status") or {}
        points = [*status.get("restorePoints", ()), status.get("restorePoint") or {}]
        found += [f"{one['name']} {one.get('phase', 'listed')}" for one in points if one]
    return sorted(found)


def restores_of(simulation: Simulation) -> list[bytes]:
    """Return all restores as they are stored."""
    entries = simulation.server.core.store.collection("redisrestores.redisoperator.dev").entries
    return [bytes(entry.body) for entry in entries.values()]


def _restores(simulation: Simulation) -> list[Any]:
    """Return what is reported of each restore, and what holds it."""
    told = ("phase", "keys", "attempt", "failures", "saves")
    return [
        [
            raw["metadata"]["name"],
            *(raw.get("status", {}).get(name) for name in told),
            raw["metadata"].get("finalizers"),
        ]
        for raw in map(msgspec.json.decode, restores_of(simulation))
    ]


def redisfailover_of(simulation: Simulation) -> bytes | None:
    """Return the RedisFailover as it is stored, or None."""
    entries = simulation.server.core.store.collection("redisfailovers.redisoperator.dev").entries
    entry = entries.get(f"{NAMESPACE}/{DATABASE}")
    return None if entry is None else bytes(entry.body)


def _shown(simulation: Simulation) -> dict[str, Any]:
    found = redisfailover_of(simulation)
    if found is None:
        return {}
    status = msgspec.json.decode(found).get("status") or {}
    kept = {k: status.get(k) for k in ("phase", "ready", "redis", "version", "observedGeneration")}
    conditions = sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"])
    return {**kept, "conditions": conditions}


def _status(simulation: Simulation, *, exact: bool) -> dict[str, Any]:
    entries = simulation.server.core.store.collection("redis.redisoperator.dev").entries
    entry = entries.get(f"{NAMESPACE}/{DATABASE}")
    if entry is None:
        return {}
    status = msgspec.json.decode(entry.body).get("status") or {}
    shards = [
        {"slots": s.get("slots") if exact else "", "replicas": len(s.get("replicas") or ())}
        for s in status.get("shards") or ()
    ]
    kept = {k: status.get(k) for k in ("phase", "ready", "slots", "shardCount", "plan", "version")}
    conditions = sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"])
    return {**kept, "shards": shards, "conditions": conditions}
