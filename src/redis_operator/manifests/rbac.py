"""The identity of the pods: a service account without permissions. Pure."""

from __future__ import annotations

from redis_operator.api.redis import Redis

from .objects import Object, make

__all__ = ["rbac"]

_GROUP = "rbac.authorization.k8s.io"


def rbac(redis: Redis) -> list[Object]:
    """Return the service account, an empty role to extend, and their binding.

    The operator does not own the rules of the role: none is sent, so that those that a person adds
    stay. Servers never connect to the API server, so the token is not even mounted.
    """
    name, namespace = redis.metadata.name, redis.metadata.namespace
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": _GROUP, "kind": "Role", "name": name}
    return [
        make(redis, "ServiceAccount", name, {"automountServiceAccountToken": False}),
        make(redis, "Role", name, {}, api_version=f"{_GROUP}/v1"),
        make(
            redis,
            "RoleBinding",
            name,
            {"roleRef": reference, "subjects": [subject]},
            api_version=f"{_GROUP}/v1",
        ),
    ]
