"""Who owns an object that has the name of one of the database's objects. Pure.

Names belong to whoever was first. An object is a database's own when this very database controls
it, or when it has no controller and has the database's label: that is how a person hands an object
over, and how objects are found again that were orphaned by a deletion. All others are refused by
name and left alone. K-28
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kubecontroller import ObjectMeta
from redis_operator.api.redis import Redis, RedisSpec
from redis_operator.manifests.layouts import layout_of
from redis_operator.manifests.names import DATABASE_LABEL, VERSION_ANNOTATION

__all__ = ["chosen_version", "limitation", "pods_to_adopt", "unrecorded"]


def limitation(redis: Redis, found: ObjectMeta | None) -> str | None:
    """Return why a database may not change an object, or None when it may or there is none."""
    if found is None:
        return None
    controller = next((owner for owner in found.owner_references or () if owner.controller), None)
    if controller is not None:
        if controller.uid == redis.metadata.uid:
            return None
        if found.is_deleting:
            holders = ", ".join(found.finalizers or ()) or "its controller"
            return (
                f"of the deleted {controller.kind} {controller.name} is still being deleted, held "
                f"by {holders}; this database waits until it is gone"
            )
        return (
            f"already exists and is owned by {controller.kind} {controller.name}; "
            "rename this database, or delete that object"
        )
    if found.label(DATABASE_LABEL) == redis.metadata.name:
        return None
    return (
        "already exists and does not belong to this database; rename this database, delete that "
        f"object, or label it {DATABASE_LABEL}={redis.metadata.name} to hand it over"
    )


def pods_to_adopt(redis: Redis, pods: Iterable[ObjectMeta]) -> dict[int, int]:
    """Return how many pods the StatefulSet of each shard is created with, if it has none now.

    It adopts the existing pods, and ends every pod beyond its number: a number that is too low ends
    pods. Pods lose their owner one after the other, and a cache may show some of them with the
    owner that is gone: as soon as one of a shard has none, or there are more than the spec asks
    for, all count. If all still have an owner they are being deleted with it, and the spec says how
    many.
    """
    layout = layout_of(redis)
    groups = layout.groups(redis.spec)
    found: dict[int, int] = {}
    loose: set[int] = set()
    for meta in pods:
        place = layout.place_of(redis.metadata.name, meta.name, meta.labels)
        if place is None or meta.is_deleting:
            continue
        found[place.shard] = max(found.get(place.shard, 0), place.ordinal + 1)
        if not any(owner.controller for owner in meta.owner_references or ()):
            loose.add(place.shard)
    for group in groups:
        wanted = 0 if redis.spec.hibernate else layout.pods(redis.spec, group)
        if found.get(group, 0) > wanted:
            loose.add(group)
    return {group: count for group, count in found.items() if group in loose}


def chosen_version(redis: Redis, config_map: ObjectMeta | None) -> str:
    """Return the version of the spec's engine that the database was created with. IN-29

    Its ConfigMap is annotated with it.
    """
    if config_map is None or limitation(redis, config_map) is not None:
        return ""
    engine, _, version = config_map.annotation(VERSION_ANNOTATION).partition(" ")
    return str(version) if engine == redis.spec.engine.value else ""


def unrecorded(spec: RedisSpec, recorded: str) -> str:
    """Name the fields of a spec that differ from those that the ConfigMap is annotated with.

    Empty where there are none, or where it is not known. `spec.paused` has no objects.
    """
    try:
        before = msgspec.json.decode(recorded, type=RedisSpec)
    except msgspec.DecodeError:
        return ""  # there are no objects yet, or the annotation was edited
    was, now = map(msgspec.to_builtins, (replace(before, paused=spec.paused), spec))
    fields = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    changed = ", ".join(f"spec.{name}" for name in fields)
    return f"changes of {changed} are not carried out" if changed else ""
