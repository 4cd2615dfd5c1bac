"""Security context and resources that all containers of a database share. Pure."""

from __future__ import annotations

from redis_operator.api.redis import Resources

from .objects import Object

__all__ = ["locked_down", "resources"]


def locked_down() -> Object:
    """The security context of our own containers."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def resources(wanted: Resources) -> Object:
    """Requests and limits as a container has them."""
    found: Object = {}
    if wanted.requests:
        found["requests"] = {name: str(v) for name, v in wanted.requests.items()}
    if wanted.limits:
        found["limits"] = {name: str(v) for name, v in wanted.limits.items()}
    return found
