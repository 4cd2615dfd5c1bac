"""What may not be asked of the exporter: another server, another user, or a password in sight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .redis import RedisSpec
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
    """Every problem of `spec.monitoring.exporterArgs` and `exporterEnv`."""
    for index, argument in enumerate(spec.monitoring.exporter_args):
        flag = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and flag in _FLAGS:
            path = f"spec.monitoring.exporterArgs[{index}]"
            yield Problem(path, f"{flag} is set by the operator; remove it")
    seen: set[str] = set()
    for index, variable in enumerate(spec.monitoring.exporter_env):
        path, name = f"spec.monitoring.exporterEnv[{index}].name", variable.get("name")
        if not isinstance(name, str) or not name:
            yield Problem(path, "is required")
        elif name in EXPORTER_ENVIRONMENT:
            yield Problem(path, f"{name} is set by the operator")
        elif name in seen:
            yield Problem(path, f"{name} is listed twice")
        else:
            seen.add(name)
