"""The server's configuration for one database and one version. Pure.

Three sources, later ones take precedence: what keeps a database of its mode safe, the fields of the
spec, and `spec.config` (validated before: it has no directive that the operator manages).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from redis_operator.api.redis import Persistence, RedisSpec
from redis_operator.redis.config import (
    ConfigEffect,
    Directive,
    effect,
    is_known,
    limitation,
    render,
    spaced,
)
from redis_operator.redis.defaults import default_of
from redis_operator.redis.values import ALIASES
from redis_operator.redis.versions import Ability, Version, can

from .layouts import LAYOUTS
from .memory import maxmemory_bytes
from .names import CLIENT_PORT
from .objects import digest

__all__ = [
    "as_started",
    "boot_digest",
    "boot_settings",
    "config_file",
    "config_file_name",
    "directives",
    "live_directives",
    "proposed",
    "proven",
]

_SAVE_POINTS = "3600 1 300 100 60 10000"


def config_file_name(version: Version) -> str:
    """Return the name of the file that servers of this version read."""
    return f"{version.engine}-{version.major}.{version.minor}.conf"


def directives(spec: RedisSpec, version: Version) -> dict[str, str]:
    """Return every directive of a server of this version, by name."""
    found = _without_words(spec, version)
    for name, value in sorted(spec.config.items()):
        if is_known(name, version) and _is_free(spec, name):
            found[name] = spaced(name, str(value))
    return found


def _is_free(spec: RedisSpec, name: str) -> bool:
    """Whether a directive may be set by the user; validation refuses others before."""
    if name == "save":
        return _uses_rdb(spec.persistence)
    return limitation(name) is None


def config_file(
    spec: RedisSpec, version: Version, accepted: Mapping[str, str] | None = None
) -> str:
    """Return the configuration file of servers of this version, with only accepted live values."""
    found, usual = directives(spec, version), _without_words(spec, version)
    for name in _chosen_for_boot(spec, version):
        found.pop(name)
    taken = proven(spec, version, accepted)
    for name in proposed(spec, version):
        value = taken.get(name, usual.get(name))
        if value is None:
            del found[name]
        else:
            found[name] = value
    return render(found.items())


def proposed(spec: RedisSpec, version: Version) -> dict[str, str]:
    """Return live directives of the user: a server is asked before they are written to a file."""
    chosen = {*spec.config, "maxmemory"}
    live = live_directives(spec, version)
    return {name: value for name, value in live.items() if name in chosen}


def proven(spec: RedisSpec, version: Version, accepted: Mapping[str, str] | None) -> dict[str, str]:
    """Return those directives at the last value that a server accepted; none before the first
    check.

    This holds at creation too: a value that only a server can refuse is refused by one that runs,
    and never keeps all of them from starting. IN-27
    """
    taken = accepted or {}
    return {name: taken[name] for name in proposed(spec, version) if name in taken}


def as_started(spec: RedisSpec, kind: Persistence | None) -> RedisSpec:
    """Return the spec that servers start with: with the persistence whose files they have."""
    if kind is None or kind is spec.persistence:
        return spec
    return replace(spec, durability=replace(spec.durability, persistence=kind))


def live_directives(
    spec: RedisSpec,
    version: Version,
    once_set: AbstractSet[str] = frozenset(),
    started: Persistence | None = None,
) -> dict[str, str]:
    """Return the directives that a running server must have and can get without a restart.

    A directive that was removed from the spec is among them, at its default. While servers are
    `started` with another kind of persistence than the spec asks for, they write the files of both.
    CL-33
    """
    wanted = directives(spec, version)
    if started is not None and started is not spec.persistence:
        kinds = (started, spec.persistence)
        both = _persistence_of(aof=_uses_aof(*kinds), rdb=_uses_rdb(*kinds))
        own = {"save": wanted["save"]} if wanted["save"] else {}
        wanted |= both | own
    for name in _removed(once_set, wanted):
        default = default_of(name, version)
        if default is not None and is_known(name, version):
            wanted[name] = default
    fixed = {"port", "bind", "cluster-enabled", "cluster-config-file", "dbfilename"}
    return {
        name: value
        for name, value in wanted.items()
        if name not in fixed and effect(name, version) is ConfigEffect.LIVE
    }


def _removed(once_set: AbstractSet[str], wanted: Mapping[str, str]) -> list[str]:
    """Return the directives that were removed under all of their names."""
    present = {ALIASES.get(name, name) for name in wanted}
    return sorted(name for name in once_set if ALIASES.get(name, name) not in present)


def boot_settings(spec: RedisSpec, version: Version) -> str:
    """Return the directives of the user that only a start can apply: a pod keeps those it started
    with.

    They are part of the pod and not of the file that all pods read. A value that a server refuses
    stops the first pod that is created with it, and no other one that happens to restart.
    """
    return render(sorted(_chosen_for_boot(spec, version).items()))


def _chosen_for_boot(spec: RedisSpec, version: Version) -> dict[str, str]:
    wanted, live = directives(spec, version), live_directives(spec, version)
    return {name: wanted[name] for name in spec.config if name in wanted and name not in live}


def boot_digest(spec: RedisSpec, version: Version, once_set: AbstractSet[str] = frozenset()) -> str:
    """Return a hash of what only a restart can change; it is part of the pod template.

    A live directive that was removed and whose default is not known is part of it.
    """
    wanted = directives(spec, version)
    live = live_directives(spec, version, once_set)
    boot = {name: value for name, value in wanted.items() if name not in live}
    lost = {
        f"-{name}": ""
        for name in _removed(once_set, wanted | live)
        if effect(name, version) is ConfigEffect.LIVE and is_known(name, version)
    }
    return digest(boot | lost)


def _without_words(spec: RedisSpec, version: Version) -> dict[str, str]:
    """Return the directives of a database with an empty spec.config."""
    return dict(_safe(spec, version)) | _persistence(spec) | _memory(spec, version)


def _safe(spec: RedisSpec, version: Version) -> list[Directive]:
    return [
        ("port", str(CLIENT_PORT)),
        ("bind", "* -::*"),
        ("protected-mode", "yes"),
        ("tcp-keepalive", "60"),
        *LAYOUTS[spec.mode].settings(spec, version),
    ]


def _persistence(spec: RedisSpec) -> dict[str, str]:
    return _persistence_of(aof=_uses_aof(spec.persistence), rdb=_uses_rdb(spec.persistence))


def _uses_aof(*kinds: Persistence) -> bool:
    return any(kind in (Persistence.AOF, Persistence.BOTH) for kind in kinds)


def _uses_rdb(*kinds: Persistence) -> bool:
    return any(kind in (Persistence.RDB, Persistence.BOTH) for kind in kinds)


def _persistence_of(*, aof: bool, rdb: bool) -> dict[str, str]:
    return {
        "dbfilename": "dump.rdb",
        "appendonly": "yes" if aof else "no",
        "appendfsync": "everysec",
        "save": _SAVE_POINTS if rdb else "",
        # Without persistence, a file left by a sync would be loaded as current data.
        "rdb-del-sync-files": "no" if aof or rdb else "yes",
    }


def _memory(spec: RedisSpec, version: Version) -> dict[str, str]:
    found = {"maxmemory": str(maxmemory_bytes(spec)), "maxmemory-policy": "noeviction"}
    if can(version, Ability.MULTI_CONFIG):
        found["maxmemory-clients"] = "10%"
    return found
