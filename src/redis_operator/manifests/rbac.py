"""The identity of the pods: a service account that may do nothing. Pure."""

from __future__ import annotations

from redis_operator.api.redis import Redis

from .objects import Object, make

__all__ = ["rbac"]

_GROUP = "rbac.authorization.k8s.io"


def rbac(redis: Redis) -> list[Object]:
    """Service account, an empty role to extend, and their binding.

    The rules of the role are not ours: none is sent, so that those that a person adds stay. Servers
    never speak to the API server, so the token is not even mounted.
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
