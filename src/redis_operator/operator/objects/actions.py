"""Actions on Kubernetes objects: a live read first, then a write that carries the uid.

A destructive action reads the object from the API itself, never from a cache: an outdated cache
must not cause the deletion of a newer pod. K-07, K-11
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubecontroller import (
    ApiError,
    Client,
    Conflict,
    Invalid,
    JsonPatch,
    Kind,
    KubeError,
    MergePatch,
    NotFound,
)
from kubecontroller.client import StrategicPatch
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Pod
from redis_operator.manifests.layout import Layout
from redis_operator.manifests.names import DATABASE_LABEL, ROLE_LABEL
from redis_operator.operator.effects import Effect, Effects, require
from redis_operator.operator.errors import Failed, Refused
from redis_operator.operator.objects.look import SERVER
from redis_operator.operator.servers.actions import Servers
from redis_operator.planning.actions import (
    DeletePod,
    DeleteWorkload,
    DiscardData,
    GrowVolume,
    LabelClaim,
    LabelPod,
    LabelRole,
    ResizePod,
    ScaleWorkload,
)
from redis_operator.planning.preconditions import (
    ActionFacts,
    ClaimFacts,
    PodFacts,
    WorkloadFacts,
    claim_limitation,
)
from redis_operator.redis.errors import RedisError

__all__ = ["ClusterObjects"]

_TIMEOUT = 10.0


class ClusterObjects:
    """The Kubernetes objects of one database."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        servers: Servers,
        *,
        layout: Layout,
        keep_claims: bool,
        on_written: Callable[[Pod], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._servers = servers
        self._layout = layout
        self._keep_claims = keep_claims
        self._on_written = on_written

    def effects(self) -> Effects:
        """How each action on an object is carried out."""
        return {
            LabelPod: Effect(self._label_pod),
            LabelRole: Effect(self._label_role),
            DeletePod: Effect(self._delete_pod, read=self._read_pod),
            DiscardData: Effect(self._discard, read=self._read_discarded),
            ScaleWorkload: Effect(self._scale, read=self._read_workload),
            DeleteWorkload: Effect(self._delete_workload, read=self._read_workload),
            GrowVolume: Effect(self._grow),
            LabelClaim: Effect(self._label_claim),
            ResizePod: Effect(self._resize),
        }

    async def _label_role(self, action: LabelRole, _: ActionFacts) -> None:
        """Set the label by which Services select the pod, if it still is the same pod."""
        change = {"metadata": {"uid": action.uid, "labels": {ROLE_LABEL: action.role.value}}}
        await self._patch_pod(action.pod, change)

    async def _label_pod(self, action: LabelPod, _: ActionFacts) -> None:
        """Restore the labels by which the operator, the workload and Services find a pod. K-27"""
        change = {"metadata": {"uid": action.uid, "labels": dict(action.labels)}}
        await self._patch_pod(action.pod, change)

    async def _patch_pod(self, pod: str, change: dict[str, Any]) -> None:
        try:
            written = await self._client.patch(
                PODS, (self._namespace, pod), MergePatch(change), timeout=_TIMEOUT
            )
            self._on_written(written)
        except (NotFound, Conflict, Invalid) as error:  # another uid is an invalid change
            raise Refused(f"{pod} was replaced meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    # Pods

    async def _live_pod(self, name: str) -> Pod | None:
        try:
            return await self._client.get(PODS, (self._namespace, name), timeout=_TIMEOUT)
        except NotFound:
            return None
        except KubeError as error:
            raise Failed(f"pod {name} cannot be read: {error}") from error

    async def _read_pod(self, action: DeletePod) -> ActionFacts:
        """Read the pod, and ask its server if it responded when it was observed."""
        pod = await self._live_pod(action.pod)
        if pod is None or pod.metadata.uid != action.uid:
            return ActionFacts(pod=_pod_facts(pod))
        if action.expect_id is None and action.expect_role is None:
            return ActionFacts(pod=_pod_facts(pod))
        try:
            server = await self._servers.facts(action.pod, action.uid)
            return ActionFacts(pod=_pod_facts(pod), server=server)
        except RedisError:
            return ActionFacts(pod=_pod_facts(pod))

    async def _delete_pod(self, action: DeletePod, facts: ActionFacts) -> None:
        """Delete a pod whose server is unchanged since the plan was made.

        Servers that did not respond when they were observed are deleted by uid alone.
        """
        if facts.pod is not None:
            await self._delete(PODS, action.pod, uid=action.uid)

    async def _read_discarded(self, action: DiscardData) -> ActionFacts:
        pod = await self._live_pod(action.pod)
        try:
            server = await self._servers.facts(action.data_holder.pod, action.data_holder.uid)
            return ActionFacts(pod=_pod_facts(pod), server=server)
        except RedisError:
            return ActionFacts(pod=_pod_facts(pod))

    async def _discard(self, action: DiscardData, facts: ActionFacts) -> None:
        """Delete a server's broken files with its pod, while another server holds the data. ST-07

        The claim is deleted first: it exists as long as its pod does, and none is left behind
        whenever the operator dies.
        """
        if facts.pod is None:
            return
        if action.claim:
            await self._delete_claim(action.claim, uid=action.claim_uid)
        await self._delete(PODS, action.pod, uid=action.uid, version=facts.pod.version)

    async def _delete(self, kind: Kind[Any], name: str, *, uid: str, version: str = "") -> None:
        """Delete exactly this object; with `version`, only as it was read."""
        try:
            await self._client.delete(
                kind,
                (self._namespace, name),
                uid=uid,
                resource_version=version,
                timeout=_TIMEOUT,
            )
        except NotFound:
            return
        except Conflict as error:
            raise Refused(f"{kind.kind} {name} changed meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(str(error)) from error

    # Claims

    async def _delete_claim(self, name: str, *, uid: str = "") -> None:
        """Delete a claim of this database exactly as it was read a moment ago. K-07

        With `uid` it must be that one; a claim with that name that is not this database's stays.
        """
        key = (self._namespace, name)
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, key, timeout=_TIMEOUT)
        except NotFound:
            return
        except KubeError as error:
            raise Failed(f"claim {name} cannot be read: {error}") from error
        meta = claim.metadata
        found = ClaimFacts(meta.uid, meta.label(DATABASE_LABEL))
        require(claim_limitation(name, self._name, uid, found))
        if not meta.is_deleting:
            await self._delete(
                PERSISTENT_VOLUME_CLAIMS, name, uid=meta.uid, version=meta.resource_version
            )

    async def _delete_claims(self, shard: int, ordinals: range) -> None:
        for ordinal in ordinals:
            await self._delete_claim(self._layout.claim(self._name, shard, ordinal))

    # Workloads

    async def _read_workload(self, action: ScaleWorkload | DeleteWorkload) -> ActionFacts:
        key = (self._namespace, self._layout.workload(self._name, action.shard))
        try:
            found = await self._client.get(STATEFUL_SETS, key, timeout=_TIMEOUT)
        except NotFound:
            return ActionFacts()
        except KubeError as error:
            raise Failed(f"StatefulSet {key[1]} cannot be read: {error}") from error
        meta = found.metadata
        return ActionFacts(
            workload=WorkloadFacts(meta.uid, found.spec.replicas or 0, meta.resource_version)
        )

    async def _scale(self, action: ScaleWorkload, _: ActionFacts) -> None:
        """Set the number of pods of a shard, if it is still the number in the plan.

        Claims of removed pods are deleted first: they exist as long as the pods use them, and none
        is left behind whenever the operator dies. K-05
        """
        name = self._layout.workload(self._name, action.shard)
        if action.discard and not self._keep_claims:
            await self._delete_claims(action.shard, range(action.to_pods, action.from_pods))
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "test", "path": "/spec/replicas", "value": action.from_pods},
            {"op": "replace", "path": "/spec/replicas", "value": action.to_pods},
        ]
        try:
            await self._client.patch(
                STATEFUL_SETS, (self._namespace, name), JsonPatch(operations), timeout=_TIMEOUT
            )
        except ApiError as error:
            raise Refused(f"StatefulSet {name} changed meanwhile: {error}") from error
        except KubeError as error:
            raise Failed(f"StatefulSet {name} cannot be scaled: {error}") from error

    async def _delete_workload(self, action: DeleteWorkload, facts: ActionFacts) -> None:
        """Delete a removed shard: its claims unless they are kept, then its StatefulSet. K-05"""
        found = facts.workload
        if found is None:
            return
        if not self._keep_claims:
            await self._delete_claims(action.shard, range(found.pods))
        name = self._layout.workload(self._name, action.shard)
        await self._delete(STATEFUL_SETS, name, uid=action.uid, version=found.version)

    # Sizes

    async def _grow(self, action: GrowVolume, _: ActionFacts) -> None:
        """Request a bigger volume, if it still is the same claim."""
        change = {
            "metadata": {"uid": action.uid},
            "spec": {"resources": {"requests": {"storage": str(action.size)}}},
        }
        await self._patch_claim(action.claim, change, "cannot grow")

    async def _label_claim(self, action: LabelClaim, _: ActionFacts) -> None:
        """Set labels of a claim, if it still is the same one."""
        change = {"metadata": {"uid": action.uid, "labels": dict(action.labels)}}
        await self._patch_claim(action.claim, change, "cannot be labelled")

    async def _patch_claim(self, claim: str, change: dict[str, Any], failed: str) -> None:
        key = (self._namespace, claim)
        try:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS, key, MergePatch(change), timeout=_TIMEOUT
            )
        except KubeError as error:
            if isinstance(error, NotFound | Conflict) or "metadata.uid" in str(error):
                raise Refused(f"claim {claim} changed meanwhile: {error}") from error
            raise Failed(f"claim {claim} {failed}: {error}") from error

    async def _resize(self, action: ResizePod, _: ActionFacts) -> None:
        """Give exactly this pod other resources while it runs, if the cluster supports it."""
        resources: dict[str, dict[str, str]] = {}
        for name, amount in action.resources:
            part, resource = name.split(".", 1)
            resources.setdefault(part, {})[resource] = amount
        change = {
            "metadata": {"uid": action.uid},
            "spec": {"containers": [{"name": SERVER, "resources": resources}]},
        }
        key = (self._namespace, action.pod)
        try:
            written = await self._client.patch(
                PODS, key, StrategicPatch(change), subresource="resize", timeout=_TIMEOUT
            )
            self._on_written(written)
        except NotFound as error:
            raise Refused(f"{action.pod} is gone, or cannot be resized: {error}") from error
        except KubeError as error:
            raise Failed(f"{action.pod} cannot be resized while it runs: {error}") from error


def _pod_facts(pod: Pod | None) -> PodFacts | None:
    if pod is None:
        return None
    ready = any(s.name == SERVER and s.ready for s in pod.status.container_statuses or ())
    return PodFacts(pod.metadata.uid, ready=ready, version=pod.metadata.resource_version)
