"""Doing actions on Kubernetes objects: a live look first, then a write that carries the uid.

What is destructive reads the object from the API itself, never from a cache: a cache that travels
in time must not be able to delete the pod of another day. K-07, K-11
"""

from __future__ import annotations

from typing import Any

from redis_operator.kube.client import Client
from redis_operator.kube.errors import ApiError, Conflict, KubeError, NotFound
from redis_operator.kube.objects import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from redis_operator.kube.patches import JsonPatch, MergePatch, StrategicPatch
from redis_operator.manifests import names
from redis_operator.manifests.names import DATABASE_LABEL, ROLE_LABEL
from redis_operator.operator.errors import Failed, Refused
from redis_operator.operator.look import SERVER
from redis_operator.operator.servers import Servers
from redis_operator.planning.actions import (
    DeletePod,
    DeleteWorkload,
    DiscardData,
    GrowVolume,
    LabelPod,
    LabelRole,
    ResizePod,
    ScaleWorkload,
)
from redis_operator.planning.observed import Role
from redis_operator.redis import commands
from redis_operator.redis.errors import RedisError
from redis_operator.redis.replies import PrimaryRole

__all__ = ["ClusterObjects"]

_TIMEOUT = 10.0


class ClusterObjects:
    """The Kubernetes objects of one database."""

    def __init__(
        self, client: Client, namespace: str, name: str, servers: Servers, *, keep_claims: bool
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._servers = servers
        self._keep_claims = keep_claims

    async def label_role(self, action: LabelRole) -> None:
        """Set the label by which Services find the pod, if it still is that pod."""
        change = {"metadata": {"uid": action.uid, "labels": {ROLE_LABEL: action.role.value}}}
        await self._patch_pod(action.pod, change)

    async def label_pod(self, action: LabelPod) -> None:
        """Give a pod back the labels by which we, its workload and its Services find it. K-27"""
        change = {"metadata": {"uid": action.uid, "labels": dict(action.labels)}}
        await self._patch_pod(action.pod, change)

    async def _patch_pod(self, pod: str, change: dict[str, Any]) -> None:
        try:
            await self._client.patch(
                PODS, (self._namespace, pod), MergePatch(change), timeout=_TIMEOUT
            )
        except (NotFound, Conflict) as error:
            raise Refused(f"{pod} is not the pod it was: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    async def delete_pod(self, action: DeletePod) -> None:
        """Delete a pod whose server still is what the plan took it for.

        Servers that did not answer when they were observed are deleted by uid alone.
        """
        key = (self._namespace, action.pod)
        try:
            pod = await self._client.get(PODS, key, timeout=_TIMEOUT)
            if pod.metadata.uid != action.uid:
                raise Refused(f"{action.pod} was re-created meanwhile")
            if pod.metadata.is_deleting:
                return
            await self._check_server(action)
            await self._client.delete(PODS, key, uid=action.uid, timeout=_TIMEOUT)
        except NotFound:
            return
        except Conflict as error:
            raise Refused(f"{action.pod} changed meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    async def _check_server(self, action: DeletePod) -> None:
        if action.expect_id is None and action.expect_role is None:
            return
        try:
            connection = await self._servers.open(action.pod, action.uid)
            found = await connection.run(commands.my_id(), timeout=_TIMEOUT)
            role = await connection.run(commands.role(), timeout=_TIMEOUT)
        except RedisError as error:
            raise Refused(
                f"{action.pod} answered when it was observed and does not now: {error}; "
                "it may have been promoted since, so it is observed again first"
            ) from error
        if action.expect_id is not None and found != action.expect_id:
            raise Refused(f"{action.pod} is another node by now")
        is_primary = isinstance(role, PrimaryRole)
        if action.expect_role is Role.REPLICA and is_primary:
            raise Refused(f"{action.pod} became a primary meanwhile")

    async def discard(self, action: DiscardData) -> None:
        """Delete a server's broken files with its pod, while somebody else holds the data. ST-07

        The claim goes first: it stays as long as its pod does, and none is left behind whenever
        the operator dies.
        """
        key = (self._namespace, action.pod)
        try:
            pod = await self._client.get(PODS, key, timeout=_TIMEOUT)
            if pod.metadata.uid != action.uid:
                raise Refused(f"{action.pod} was re-created meanwhile")
            if any(s.name == SERVER and s.ready for s in pod.status.container_statuses or ()):
                raise Refused(f"{action.pod} is up again")
            await self._check_keeper(action)
            if action.claim:
                await self._delete_claim(action.claim, uid=action.claim_uid)
            await self._client.delete(
                PODS,
                key,
                uid=action.uid,
                resource_version=pod.metadata.resource_version,  # as it was read: not up
                timeout=_TIMEOUT,
            )
        except NotFound:
            return
        except Conflict as error:
            raise Refused(f"{action.pod} or its claim changed meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    async def _check_keeper(self, action: DiscardData) -> None:
        keeper = action.keeper
        connection = await self._servers.open(keeper.pod, keeper.uid)
        found = await connection.run(commands.my_id(), timeout=_TIMEOUT)
        role = await connection.run(commands.role(), timeout=_TIMEOUT)
        keys = await connection.run(commands.dbsize(), timeout=_TIMEOUT)
        if found != keeper.id or not isinstance(role, PrimaryRole) or not keys:
            raise Refused(f"{keeper.pod} is no primary with keys any more")

    async def _delete_claim(self, name: str, *, uid: str = "") -> None:
        """Delete a claim of this database exactly as it was read a moment ago. K-07

        With `uid` it must be that one; a claim of that name that is not this database's stays.
        """
        key = (self._namespace, name)
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, key, timeout=_TIMEOUT)
            meta = claim.metadata
            if uid and meta.uid != uid:
                raise Refused(f"claim {name} was re-created meanwhile: its data is kept")
            if meta.label(DATABASE_LABEL) != self._name:
                raise Refused(
                    f"claim {name} does not carry the label {DATABASE_LABEL}={self._name}: "
                    "its data is kept; set the label, or delete the claim yourself"
                )
            if meta.is_deleting:
                return
            await self._client.delete(
                PERSISTENT_VOLUME_CLAIMS,
                key,
                uid=meta.uid,
                resource_version=meta.resource_version,
                timeout=_TIMEOUT,
            )
        except NotFound:
            return
        except Conflict as error:
            raise Refused(f"claim {name} changed meanwhile: {error}") from error

    async def scale(self, action: ScaleWorkload) -> None:
        """Set how many pods a shard has, if it still has as many as the plan saw.

        Claims of pods that do not come back are deleted first: they stay as long as the pods use
        them, and none is left behind whenever the operator dies. K-05
        """
        name = names.shard(self._name, action.shard)
        if action.discard and not self._keep_claims:
            await self._discard_claims(action, name)
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": "/spec/replicas", "value": action.from_pods},
            {"op": "replace", "path": "/spec/replicas", "value": action.to_pods},
        ]
        try:
            await self._client.patch(
                STATEFUL_SETS, (self._namespace, name), JsonPatch(operations), timeout=_TIMEOUT
            )
        except NotFound as error:
            raise Refused(f"StatefulSet {name} is gone") from error
        except ApiError as error:
            raise Refused(f"StatefulSet {name} changed meanwhile: {error}") from error

    async def _discard_claims(self, action: ScaleWorkload, name: str) -> None:
        try:
            found = await self._client.get(STATEFUL_SETS, (self._namespace, name), timeout=_TIMEOUT)
            if found.metadata.uid != action.uid or found.spec.replicas != action.from_pods:
                raise Refused(f"StatefulSet {name} changed meanwhile")
            await self._delete_claims(action.shard, range(action.to_pods, action.from_pods))
        except NotFound as error:
            raise Refused(f"StatefulSet {name} is gone") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    async def delete_workload(self, action: DeleteWorkload) -> None:
        """Remove a shard that left: its claims unless they are kept, then its StatefulSet. K-05"""
        name = names.shard(self._name, action.shard)
        key = (self._namespace, name)
        try:
            found = await self._client.get(STATEFUL_SETS, key, timeout=_TIMEOUT)
            if found.metadata.uid != action.uid:
                raise Refused(f"StatefulSet {name} was re-created meanwhile")
            if not self._keep_claims:
                await self._delete_claims(action.shard, range(found.spec.replicas or 0))
            await self._client.delete(
                STATEFUL_SETS,
                key,
                uid=action.uid,
                resource_version=found.metadata.resource_version,
                timeout=_TIMEOUT,
            )
        except NotFound:
            return
        except Conflict as error:
            raise Refused(f"StatefulSet {name} changed meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    async def _delete_claims(self, shard: int, ordinals: range) -> None:
        for ordinal in ordinals:
            await self._delete_claim(names.claim(self._name, shard, ordinal))

    async def grow(self, action: GrowVolume) -> None:
        """Ask for a bigger volume, if it still is that claim."""
        change = {
            "metadata": {"uid": action.uid},
            "spec": {"resources": {"requests": {"storage": str(action.size)}}},
        }
        key = (self._namespace, action.claim)
        try:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, key, MergePatch(change), timeout=_TIMEOUT
            )
        except (NotFound, Conflict) as error:
            raise Refused(f"claim {action.claim} is not what it was: {error}") from error
        except KubeError as error:
            raise Failed(f"claim {action.claim} cannot grow: {error}") from error

    async def resize(self, action: ResizePod) -> None:
        """Give exactly this pod other resources while it runs, if the cluster can."""
        resources: dict[str, dict[str, str]] = {}
        for name, amount in action.resources:
            part, _, resource = name.partition(".")
            resources.setdefault(part, {})[resource] = amount
        change = {
            "metadata": {"uid": action.uid},
            "spec": {"containers": [{"name": SERVER, "resources": resources}]},
        }
        key = (self._namespace, action.pod)
        try:
            await self._client.patch(
                PODS, key, StrategicPatch(change), subresource="resize", timeout=_TIMEOUT
            )
        except NotFound as error:
            raise Refused(f"{action.pod} is gone, or cannot be resized: {error}") from error
        except KubeError as error:
            raise Failed(f"{action.pod} cannot be resized while it runs: {error}") from error
