"""Lines of configuration files as the fields of a `Redis`: of servers, and of sentinels. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from redis_operator.api.shape import Problem
from redis_operator.redis.config import parse
from redis_operator.redis.directives import WORDS_PER_LINE

from .piece import SpecPiece

__all__ = ["sentinel_lines", "server_lines"]

_WRITES: Final = {"min-replicas-to-write", "min-slaves-to-write"}
_LAG: Final = {"min-replicas-max-lag", "min-slaves-max-lag"}
_SENTINEL: Final = {
    "down-after-milliseconds": "downAfterMilliseconds",
    "failover-timeout": "failoverTimeoutMilliseconds",
    "parallel-syncs": "parallelSyncs",
}
_DISK: Final = "writes to disk, which needs spec.redis.storage.persistentVolumeClaim"


class _Line(Struct, frozen=True):
    """One line with a directive."""

    path: str
    name: str
    value: str


def _read(lines: Sequence[str], path: str) -> Iterator[_Line | Problem]:
    for index, text in enumerate(lines):
        place = f"{path}[{index}]"
        if "\n" in text or "\r" in text:
            yield Problem(place, "must be one line")
            continue
        for name, words in parse(text):
            if not words:
                yield Problem(place, f"{name} has no value")
            else:
                yield _Line(place, name, " ".join(words))


def server_lines(lines: Sequence[str], path: str, *, on_disk: bool) -> SpecPiece:
    """Return the fields for lines of redis.conf; `on_disk`: servers have a volume."""
    problems: list[Problem] = []
    found: dict[str, _Line] = {}
    for line in _read(lines, path):
        if isinstance(line, Problem):
            problems.append(line)
        elif line.name not in found:
            found[line.name] = line
        elif line.name in WORDS_PER_LINE:
            known = found[line.name]
            found[line.name] = _Line(known.path, line.name, f"{known.value} {line.value}".strip())
        else:
            problems.append(
                Problem(line.path, f"{line.name} is set in {found[line.name].path} too")
            )
    durability, more = _durability(found, on_disk=on_disk)
    config = {name: line.value for name, line in found.items() if name not in _FIELDS}
    if durability.get("persistence") in ("rdb", "both") and found.get("save"):
        config["save"] = found["save"].value
    spec: dict[str, Any] = {}
    if config:
        spec["config"] = config
    if durability:
        spec["durability"] = durability
    origins = {f"spec.config.{name}": found[name].path for name in config}
    origins |= {
        f"spec.durability.{field}": line.path
        for name, line in found.items()
        if (field := _field_of(name))
    }
    return SpecPiece(spec=spec, problems=(*problems, *more), origins=origins)


_FIELDS: Final = frozenset({"appendonly", "save"} | _WRITES | _LAG)


def _field_of(name: str) -> str:
    if name in _WRITES:
        return "minReplicasToWrite"
    if name in _LAG:
        return "maxLagSeconds"
    return "persistence" if name in ("appendonly", "save") else ""


def _durability(
    found: dict[str, _Line], *, on_disk: bool
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    spec: dict[str, Any] = {}
    problems: list[Problem] = []
    appends, saves = found.get("appendonly"), found.get("save")
    appending = appends is not None and appends.value.lower() == "yes"
    saving = saves is not None and bool(saves.value)
    if appends is not None and appends.value.lower() not in ("yes", "no"):
        problems.append(Problem(appends.path, "appendonly must be yes or no"))
    for line, writes in ((appends, appending), (saves, saving)):
        if line is not None and writes and not on_disk:
            problems.append(Problem(line.path, f"{line.name} {_DISK}"))
    if on_disk and (appends is not None or saves is not None):
        # Without a `save` line a server saves snapshots: so it was before.
        snapshots = saving or (saves is None and not appending)
        kinds = {(True, True): "both", (True, False): "aof", (False, True): "rdb"}
        spec["persistence"] = kinds.get((appending, snapshots), "none")
    for name, line in found.items():
        field = _field_of(name)
        if not field or field == "persistence":
            continue
        if field in spec:
            problems.append(Problem(line.path, f"{name} is another name of one that is set too"))
        elif line.value.isdecimal():
            spec[field] = int(line.value)
        else:
            problems.append(Problem(line.path, f"{name} must be a number"))
    return spec, tuple(problems)


def sentinel_lines(lines: Sequence[str], path: str) -> SpecPiece:
    """Return the fields for settings of Sentinel."""
    spec: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[Problem] = []
    for line in _read(lines, path):
        if isinstance(line, Problem):
            problems.append(line)
            continue
        field = _SENTINEL.get(line.name)
        if field is None:
            known = ", ".join(_SENTINEL)
            text = f"{line.name} is set by the operator; only {known} may be set"
            problems.append(Problem(line.path, text))
        elif field in spec:
            problems.append(Problem(line.path, f"{line.name} is set twice"))
        elif not line.value.isdecimal():
            problems.append(Problem(line.path, f"{line.name} must be a number"))
        else:
            spec[field] = int(line.value)
            origins[f"spec.sentinel.{field}"] = line.path
    return SpecPiece(spec=spec, problems=tuple(problems), origins=origins)
