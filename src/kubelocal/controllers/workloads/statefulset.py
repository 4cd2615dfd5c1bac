"""StatefulSet: numbered pods with their own claims, created in order, rolled from the last.

Follows the order of Kubernetes' own controller: adopt and release, revisions, claims, missing pods,
surplus pods, roll, status. With OrderedReady one step happens at a time and a pod that is not ready
stops everything behind it; with Parallel only the roll is one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from kubelocal.controllers.engine.pods import (
    is_available,
    is_deleting,
    is_ready,
    pod_from_template,
)
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    controller_of,
    controller_reference,
    edited,
    labels_match,
)
from kubelocal.controllers.workloads.revisions import (
    adopt_orphans,
    keep_history,
    template_of,
    wanted_revision,
)

__all__ = ["plan"]

_REVISION = "controller-revision-hash"


class _Set(Struct, frozen=True):
    """One StatefulSet with its pods, claims and revisions."""

    obj: Obj
    pods: dict[int, Obj]
    claims: dict[str, Obj]
    current: Obj
    wanted: Obj
    now: datetime

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def ordinals(self) -> range:
        start = (self.obj["spec"].get("ordinals") or {}).get("start", 0)
        return range(start, start + self.obj["spec"].get("replicas", 1))

    @property
    def is_ordered(self) -> bool:
        return bool(self.obj["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    @property
    def strategy(self) -> Obj:
        return dict(self.obj["spec"].get("updateStrategy") or {"type": "RollingUpdate"})

    @property
    def partition(self) -> int:
        return int((self.strategy.get("rollingUpdate") or {}).get("partition") or 0)

    @property
    def min_ready(self) -> int:
        return int(self.obj["spec"].get("minReadySeconds") or 0)

    def is_settled(self, pod: Obj) -> bool:
        return not is_deleting(pod) and is_available(pod, self.min_ready, self.now)


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the changes to one StatefulSet."""
    found = view.get("statefulsets", namespace, name)
    if found is None or is_deleting(found):
        return Changes()
    members, handover = _members(view, found)
    handover += adopt_orphans(found, view.list("controllerrevisions", namespace))
    if handover:
        return Changes(tuple(handover))
    history = list(view.owned("controllerrevisions", found["metadata"]["uid"]))
    wanted, record = wanted_revision(found, history)
    if record is not None:
        return Changes((record,))
    by_name = {r["metadata"]["name"]: r for r in history}
    current = by_name.get(found.get("status", {}).get("currentRevision") or "", wanted)
    stateful = _Set(
        obj=found,
        pods=members,
        claims={c["metadata"]["name"]: c for c in view.list("persistentvolumeclaims", namespace)},
        current=current,
        wanted=wanted,
        now=now,
    )
    steps = list(_retention(stateful)) or list(_work(stateful))
    live = {current["metadata"]["name"], wanted["metadata"]["name"]}
    live |= {_revision_of(pod) for pod in members.values()}
    limit = found["spec"].get("revisionHistoryLimit", 10)
    steps += keep_history(history, live=live, limit=limit)
    status = _status(stateful)
    if status != found.get("status"):
        steps.append(UpdateStatus("statefulsets", {**found, "status": status}))
    waiting = stateful.min_ready and any(is_ready(p) for p in members.values())
    return Changes(tuple(steps), again_after=1.0 if waiting else None)


def _revision_of(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_REVISION, ""))


def _members(view: View, owner: Obj) -> tuple[dict[int, Obj], list[Change]]:
    """Return the set's pods by ordinal, and the changes that adopt orphans and release others."""
    metadata, selector = owner["metadata"], owner["spec"]["selector"]
    pattern = re.compile(rf"{re.escape(metadata['name'])}-(\d+)")
    members: dict[int, Obj] = {}
    changes: list[Change] = []
    for pod in view.list("pods", metadata["namespace"]):
        matched = pattern.fullmatch(pod["metadata"]["name"])
        controller = controller_of(pod)
        fits = matched is not None and labels_match(selector, pod["metadata"].get("labels"))
        if controller is None and fits and not is_deleting(pod):
            adopted = edited(pod)
            adopted["metadata"].setdefault("ownerReferences", []).append(
                controller_reference(owner)
            )
            changes.append(Update("pods", adopted))
        elif controller is not None and controller["uid"] == metadata["uid"]:
            if matched is not None and fits:
                members[int(matched.group(1))] = pod
            elif not fits:
                released = edited(pod)
                released["metadata"]["ownerReferences"] = [
                    r
                    for r in released["metadata"]["ownerReferences"]
                    if r["uid"] != metadata["uid"]
                ]
                changes.append(Update("pods", released))
    return members, changes


def _work(stateful: _Set) -> Iterator[Change]:
    """Yield the next steps: missing pods, then surplus pods, then the roll."""
    for ordinal in stateful.ordinals:
        pod = stateful.pods.get(ordinal)
        if pod is None:
            yield from _create(stateful, ordinal)
        elif pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            if not is_deleting(pod):
                yield _delete(pod)
        elif stateful.is_settled(pod):
            continue
        if stateful.is_ordered:
            return
    surplus = sorted((n for n in stateful.pods if n not in stateful.ordinals), reverse=True)
    for ordinal in surplus[:1] if stateful.is_ordered else surplus:
        if not is_deleting(stateful.pods[ordinal]):
            yield _delete(stateful.pods[ordinal])
    if stateful.strategy["type"] == "RollingUpdate" and not (surplus and stateful.is_ordered):
        yield from _roll(stateful)


def _roll(stateful: _Set) -> Iterator[Change]:
    """Delete the last pod of an old revision, if all pods behind it are settled."""
    wanted = stateful.wanted["metadata"]["name"]
    for ordinal in reversed(stateful.ordinals):
        if ordinal - stateful.ordinals.start < stateful.partition:
            return
        pod = stateful.pods.get(ordinal)
        if pod is None:
            return
        if _revision_of(pod) != wanted and not is_deleting(pod):
            yield _delete(pod)
            return
        if not stateful.is_settled(pod):
            return


def _delete(pod: Obj) -> Delete:
    metadata = pod["metadata"]
    return Delete("pods", metadata["namespace"], metadata["name"], metadata["uid"])


def _create(stateful: _Set, ordinal: int) -> Iterator[Change]:
    """Yield the missing claims of one ordinal, then its pod."""
    spec = stateful.obj["spec"]
    name = f"{stateful.name}-{ordinal}"
    claims = {t["metadata"]["name"]: t for t in spec.get("volumeClaimTemplates") or ()}
    for template in claims.values():
        claim_name = f"{template['metadata']['name']}-{name}"
        existing = stateful.claims.get(claim_name)
        if existing is None:
            yield Create("persistentvolumeclaims", _claim(stateful, template, claim_name))
        elif is_deleting(existing):
            return  # the old claim must be gone before a pod may use the name again
    rolling = stateful.strategy["type"] == "RollingUpdate"
    is_old = rolling and ordinal - stateful.ordinals.start < stateful.partition
    revision = stateful.current if is_old else stateful.wanted
    pod = pod_from_template(template_of(revision), stateful.obj)
    pod["metadata"]["name"] = name
    pod["metadata"]["generateName"] = f"{stateful.name}-"
    pod["metadata"]["labels"] = {
        **pod["metadata"]["labels"],
        _REVISION: revision["metadata"]["name"],
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod["spec"]["hostname"] = name
    pod["spec"]["subdomain"] = spec.get("serviceName", "")
    own = [
        {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        for volume in claims
    ]
    kept = [v for v in pod["spec"].get("volumes") or () if v["name"] not in claims]
    if own or kept:
        pod["spec"]["volumes"] = own + kept
    yield Create("pods", pod)


def _claim(stateful: _Set, template: Obj, name: str) -> Obj:
    claim = edited(template)
    claim.pop("status", None)
    claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
    metadata = claim["metadata"]
    metadata["name"], metadata["namespace"] = name, stateful.namespace
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        **(stateful.obj["spec"]["selector"].get("matchLabels") or {}),
    }
    return claim


def _retention(stateful: _Set) -> Iterator[Change]:
    """Yield the changes that set the claims' owners according to the retention policy."""
    policy = stateful.obj["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    when_deleted = policy.get("whenDeleted") == "Delete"
    when_scaled = policy.get("whenScaled") == "Delete"
    for template in stateful.obj["spec"].get("volumeClaimTemplates") or ():
        for ordinal, pod in stateful.pods.items():
            claim = stateful.claims.get(f"{template['metadata']['name']}-{stateful.name}-{ordinal}")
            if claim is None or is_deleting(claim):
                continue
            owners: list[Obj] = []
            is_leaving = ordinal not in stateful.ordinals
            if when_scaled and is_leaving:
                owners = [_plain_reference(pod)]
            elif when_deleted:
                owners = [{**_plain_reference(stateful.obj), "controller": True}]
            ours = {stateful.obj["metadata"]["uid"], pod["metadata"]["uid"]}
            present = claim["metadata"].get("ownerReferences") or []
            others = [r for r in present if r["uid"] not in ours and r.get("kind") != "Pod"]
            if [r["uid"] for r in present] != [r["uid"] for r in others + owners]:
                changed = edited(claim)
                changed["metadata"]["ownerReferences"] = others + owners
                yield Update("persistentvolumeclaims", changed)


def _plain_reference(owner: Obj) -> Obj:
    reference = controller_reference(owner)
    return {k: reference[k] for k in ("apiVersion", "kind", "name", "uid")}


def _status(stateful: _Set) -> Obj:
    """Return the status as Kubernetes computes it."""
    pods = [p for p in stateful.pods.values() if not is_deleting(p)]
    wanted, current = stateful.wanted["metadata"]["name"], stateful.current["metadata"]["name"]
    updated = sum(_revision_of(p) == wanted for p in pods)
    ready = sum(is_ready(p) for p in pods)
    available = sum(is_available(p, stateful.min_ready, stateful.now) for p in pods)
    replicas = len(stateful.ordinals)
    rolled = stateful.strategy["type"] == "RollingUpdate" and updated == ready == replicas
    if rolled and len(pods) == replicas:
        current = wanted
    status: Obj = {
        "observedGeneration": stateful.obj["metadata"].get("generation", 1),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": available,
        "currentReplicas": sum(_revision_of(p) == current for p in pods),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": wanted,
        "collisionCount": stateful.obj.get("status", {}).get("collisionCount") or 0,
    }
    for count in ("readyReplicas", "currentReplicas", "updatedReplicas"):
        if not status[count]:
            del status[count]  # as Kubernetes omits them
    return status
