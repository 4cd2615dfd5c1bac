"""What admission says about a write to one of the operator's kinds: refused by field, allowed, or
allowed with warnings. Pure.

Every rule is the very function by which the controller would refuse the object: an object that
bypasses admission gets a condition instead. Here it is refused before it is stored. A problem that
an object had before is not a reason to refuse another change of it: it becomes a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from redis_operator.api.fitting import fitting_problems
from redis_operator.api.redis import Redis
from redis_operator.api.redisbackupschedule import RedisBackupSchedule
from redis_operator.api.redisbackupschedule_validation import load_schedule, schedule_risks
from redis_operator.api.risks import risks
from redis_operator.api.shape import Problem
from redis_operator.api.status import RedisStatus
from redis_operator.api.validation import change_problems, load, load_status
from redis_operator.api.version import RedisVersionSpec, find_version, read_entry
from redis_operator.manifests.layouts import layout_of
from redis_operator.operator.wanted import read_acceptance
from redis_operator.planning.advice import ACCEPT_LOSS
from redis_operator.planning.gates import running_limitation
from redis_operator.translation.translate import in_their_words, origins_of, translate, with_origin

__all__ = [
    "Database",
    "Verdict",
    "judge_catalog",
    "judge_redis",
    "judge_redis_failover",
    "judge_schedule",
]

Raw = dict[str, Any]
_NAMED: Final = 5  # databases in one message


class Verdict(Struct, frozen=True):
    """Why a write is refused, if it is, and the warnings in any case."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class Database(Struct, frozen=True):
    """A database as the catalog sees it; `chosen` is the version that it was created with."""

    raw: Raw
    chosen: str = ""

    @property
    def name(self) -> str:
        """Namespace and name."""
        meta = self.raw["metadata"]
        return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def judge_redis(
    new: Raw, old: Raw | None, catalog: Sequence[RedisVersionSpec], *, chosen: str = ""
) -> Verdict:
    """Judge a `Redis` that is created, or changed from an old one."""
    if _is_ending(new) or (old is not None and _spec(new) == _spec(old)):
        return Verdict(warnings=_acceptance(new, old))
    found, warnings = _judged(new, catalog, chosen)
    known: tuple[Problem, ...] = ()
    if old is not None:
        known, before = _judged(old, catalog, chosen)
        warnings = tuple(text for text in warnings if text not in before)
    refused = [problem for problem in found if problem not in known]
    refused += _not_followed(new, old, catalog, chosen)
    stood = tuple(f"{problem} (it was so before)" for problem in found if problem in known)
    return Verdict(tuple(sorted(refused)), (*stood, *warnings, *_acceptance(new, old)))


def _judged(
    raw: Raw, catalog: Sequence[RedisVersionSpec], chosen: str
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Return the problems and the risks of a database by itself."""
    redis = load(raw)
    if not isinstance(redis, Redis):
        return redis, ()
    warnings = [str(risk) for risk in risks(redis.spec)]
    entry = find_version(redis.spec, catalog, chosen=chosen)
    if isinstance(entry, str):
        # Its RedisVersion may be applied right after it: not a reason to refuse it.
        return (), (f"spec.version: {entry}", *warnings)
    if entry.deprecated:
        warnings.append(f"spec.version: {entry.engine.value} {entry.version} is deprecated")
    return fitting_problems(redis.spec, entry), tuple(warnings)


def _not_followed(
    new: Raw, old: Raw | None, catalog: Sequence[RedisVersionSpec], chosen: str
) -> list[Problem]:
    """Return why a spec cannot follow the one before, or the running servers."""
    after, before = load(new), load(old) if old is not None else None
    if old is None or not isinstance(after, Redis):
        return []
    found = list(change_problems(before.spec, after.spec)) if isinstance(before, Redis) else []
    names = ("engine", "version", "image")
    if all(_spec(new).get(name) == _spec(old).get(name) for name in names):
        return found
    entry = find_version(after.spec, catalog, chosen=chosen)
    if isinstance(entry, str):
        return found
    engine = after.spec.engine.value
    status = load_status(old)
    reason = running_limitation(engine, entry.version, _running(status, old))
    changed = "engine" if _spec(new).get("engine") != _spec(old).get("engine") else "version"
    return found if reason is None else [*found, Problem(f"spec.{changed}", reason)]


def _running(status: RedisStatus, raw: Raw) -> list[tuple[str, str, str]]:
    """Return the versions that servers were last seen to run; pods first, which have names."""
    engine = status.engine or str(_spec(raw).get("engine", ""))
    found = [(pod.name, pod.engine or engine, pod.version) for pod in status.pods]
    return [*found, ("the database", engine, status.version)]


def _acceptance(new: Raw, old: Raw | None) -> tuple[str, ...]:
    """Describe what an annotation that was just set gives up, or why it is ignored."""
    text = _annotations(new).get(ACCEPT_LOSS, "")
    if not text or (old is not None and text == _annotations(old).get(ACCEPT_LOSS)):
        return ()
    redis = load(new)
    everything = layout_of(redis).everything if isinstance(redis, Redis) else ""
    accepted = read_acceptance(text, everything=everything)
    if accepted.problem:
        return (accepted.problem,)
    return (f"annotation {ACCEPT_LOSS}: the loss of {text} is accepted",)


def judge_redis_failover(
    new: Raw,
    old: Raw | None,
    redis: Raw | None,
    catalog: Sequence[RedisVersionSpec],
    *,
    chosen: str = "",
) -> Verdict:
    """Judge a `RedisFailover`; `redis` is its database of the same name, if there is one."""
    if _is_ending(new) or (old is not None and _spec(new) == _spec(old)):
        return Verdict()
    wanted = translate(new)
    before = translate(old) if old is not None else ()
    known = before if isinstance(before, tuple) else ()
    if isinstance(wanted, tuple):
        stood = tuple(f"{problem} (it was so before)" for problem in wanted if problem in known)
        return Verdict(tuple(p for p in wanted if p not in known), stood)
    verdict, origins = judge_redis(wanted, redis, catalog, chosen=chosen), origins_of(new)
    return Verdict(
        tuple(sorted(with_origin(problem, origins) for problem in verdict.problems)),
        tuple(in_their_words(text, origins) for text in verdict.warnings),
    )


def judge_schedule(new: Raw, old: Raw | None) -> Verdict:
    """Judge a `RedisBackupSchedule`."""
    if _is_ending(new) or (old is not None and _spec(new) == _spec(old)):
        return Verdict()
    found, known = load_schedule(new), load_schedule(old) if old is not None else ()
    if isinstance(found, RedisBackupSchedule):
        risks = schedule_risks(found)
        stood_before = schedule_risks(known) if isinstance(known, RedisBackupSchedule) else ()
        return Verdict(warnings=tuple(text for text in risks if text not in stood_before))
    before = known if isinstance(known, tuple) else ()
    stood = tuple(f"{problem} (it was so before)" for problem in found if problem in before)
    return Verdict(tuple(problem for problem in found if problem not in before), stood)


def judge_catalog(
    name: str, new: Raw | None, catalog: Mapping[str, Raw], databases: Iterable[Database]
) -> Verdict:
    """Judge a `RedisVersion` that is changed, or deleted: `new` is None then."""
    if new is not None and (_is_ending(new) or _spec(new) == _spec(catalog.get(name) or {})):
        return Verdict()
    before = _entries(catalog)
    after = _entries({**{n: r for n, r in catalog.items() if n != name}, **_named(name, new)})
    left, moved = [], []
    for database in databases:
        redis = load(database.raw)
        if not isinstance(redis, Redis):
            left += (
                [database.name] if _names(database.raw, read_entry(catalog.get(name) or {})) else []
            )
            continue
        had = find_version(redis.spec, before, chosen=database.chosen)
        gets = find_version(redis.spec, after, chosen=database.chosen)
        if isinstance(had, str) or had == gets:
            continue
        if isinstance(gets, str):
            left.append(database.name)
        elif had.image != gets.image and not redis.spec.image:
            moved.append(database.name)
    if left or (moved and new is None):
        text = f"is in use by {_listed([*left, *moved])}: give them another spec.version first"
        return Verdict((Problem(f"RedisVersion {name}", text),))
    if moved:
        return Verdict(warnings=(f"servers of {_listed(moved)} are replaced by the new image",))
    return Verdict()


def _entries(catalog: Mapping[str, Raw]) -> list[RedisVersionSpec]:
    return [entry for raw in catalog.values() if (entry := read_entry(raw)) is not None]


def _named(name: str, raw: Raw | None) -> dict[str, Raw]:
    return {name: raw} if raw is not None else {}


def _names(raw: Raw, entry: RedisVersionSpec | None) -> bool:
    """Whether a database whose spec cannot be read names an entry, or was seen to run it."""
    if entry is None:
        return False
    spec, status = _spec(raw), load_status(raw)
    engine = spec.get("engine", "valkey")
    named = (engine, spec.get("version")) == (entry.engine.value, entry.version)
    runs = (status.engine or engine) == entry.engine.value
    return named or (runs and f"{status.version}.".startswith(f"{entry.version}."))


def _listed(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _is_ending(raw: Raw) -> bool:
    return bool((raw.get("metadata") or {}).get("deletionTimestamp"))


def _spec(raw: Raw) -> Raw:
    spec = raw.get("spec")
    return spec if isinstance(spec, dict) else {}


def _annotations(raw: Raw) -> Raw:
    return (raw.get("metadata") or {}).get("annotations") or {}
