"""Options of the exporter that are refused: another server, another user, or a visible password."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .redis import Json, RedisSpec
from .shape import Problem

__all__ = ["EXPORTER_ENVIRONMENT", "exporter_field_problems"]

EXPORTER_ENVIRONMENT: Final = frozenset(
    {"REDIS_ADDR", "REDIS_USER", "REDIS_PASSWORD", "REDIS_EXPORTER_WEB_LISTEN_ADDRESS"}
    | {"REDIS_PASSWORD_FILE"}
)
_FLAGS: Final = frozenset(
    {"redis.addr", "redis.user", "redis.password", "redis.password-file", "web.listen-address"}
)


def exporter_field_problems(spec: RedisSpec) -> Iterator[Problem]:
    """Every problem of the arguments and variables of exporters, of servers and of sentinels."""
    asked = spec.monitoring
    yield from _arguments(asked.exporter_args, "spec.monitoring.exporterArgs")
    yield from _variables(asked.exporter_env, "spec.monitoring.exporterEnv")
    if spec.sentinel is not None:
        exporter = spec.sentinel.exporter
        yield from _arguments(exporter.args, "spec.sentinel.exporter.args")
        yield from _variables(exporter.env, "spec.sentinel.exporter.env")


def _arguments(arguments: tuple[str, ...], where: str) -> Iterator[Problem]:
    for index, argument in enumerate(arguments):
        flag = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and flag in _FLAGS:
            yield Problem(f"{where}[{index}]", f"{flag} is set by the operator; remove it")


def _variables(variables: tuple[Json, ...], where: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        path, name = f"{where}[{index}].name", variable.get("name")
        if not isinstance(name, str) or not name:
            yield Problem(path, "is required")
        elif name in EXPORTER_ENVIRONMENT:
            yield Problem(path, f"{name} is set by the operator")
        elif name in seen:
            yield Problem(path, f"{name} is listed twice")
        else:
            seen.add(name)
