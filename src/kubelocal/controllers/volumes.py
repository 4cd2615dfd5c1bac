"""PersistentVolumeClaims: each gets a volume (a folder of the node agent), grown on request.

A claim in use by a pod is protected by a finalizer; a volume is deleted with its claim or stays,
as its class says. Nothing here touches files: the node agent does, according to the volume.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubelocal.apiserver.kinds.quantities import amount
from kubelocal.controllers.engine.pods import is_deleting
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    edited,
)

__all__ = ["DEFAULT_CLASS", "PROVISIONER", "plan_claim", "plan_volume"]

PROVISIONER = "kubelocal/folder"
_PROTECTION = "kubernetes.io/pvc-protection"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"

DEFAULT_CLASS: Obj = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local", "annotations": {_DEFAULT: "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": True,
}


def plan_claim(view: View, namespace: str, name: str, now: datetime) -> Changes:  # noqa: ARG001 - one shape for all controllers
    """Return the changes to one claim: protection, a class, a volume, more space, or deletion."""
    claim = view.get("persistentvolumeclaims", namespace, name)
    if claim is None:
        return Changes()
    finalizers = claim["metadata"].get("finalizers") or []
    if is_deleting(claim):
        if _PROTECTION in finalizers and not _is_used(view, namespace, name):
            freed = edited(claim)
            freed["metadata"]["finalizers"].remove(_PROTECTION)
            return Changes((Update("persistentvolumeclaims", freed),))
        return Changes()
    spec = claim["spec"]
    if "storageClassName" not in spec:
        default = _default_class(view.list("storageclasses"))
        if default is None:
            return Changes()
        classed = edited(claim)
        classed["spec"]["storageClassName"] = default["metadata"]["name"]
        return Changes((Update("persistentvolumeclaims", classed),))
    volume = _volume_of(view, claim)
    if volume is None:
        return Changes(tuple(_provision(view, claim)))
    if spec.get("volumeName") != volume["metadata"]["name"]:
        bound = edited(claim)
        bound["spec"]["volumeName"] = volume["metadata"]["name"]
        annotations = bound["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        annotations["pv.kubernetes.io/bound-by-controller"] = "yes"
        return Changes((Update("persistentvolumeclaims", bound),))
    return Changes(tuple(_settle(view, claim, volume)))


def _is_used(view: View, namespace: str, claim: str) -> bool:
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        for pod in view.list("pods", namespace)
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        for volume in pod["spec"].get("volumes") or ()
    )


def _default_class(classes: Iterable[Obj]) -> Obj | None:
    defaults = [
        c for c in classes if (c["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    ]
    return max(defaults, key=lambda c: str(c["metadata"].get("creationTimestamp")), default=None)


def _volume_of(view: View, claim: Obj) -> Obj | None:
    named = claim["spec"].get("volumeName")
    if named:
        return view.get("persistentvolumes", "", named)
    uid = claim["metadata"]["uid"]
    for volume in view.list("persistentvolumes"):
        reference = volume["spec"].get("claimRef") or {}
        by_hand = "uid" not in reference and (
            reference.get("namespace"),
            reference.get("name"),
        ) == (claim["metadata"]["namespace"], claim["metadata"]["name"])
        if reference.get("uid") == uid or by_hand:
            return volume
    return None


def _provision(view: View, claim: Obj) -> Iterable[Change]:
    named = claim["spec"].get("storageClassName")
    storage_class = view.get("storageclasses", "", named) if named else None
    if claim["spec"].get("volumeName") or storage_class is None:
        return
    if storage_class["provisioner"] != PROVISIONER:
        return
    metadata = claim["metadata"]
    name = f"pvc-{metadata['uid']}"
    yield Create(
        "persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
                "finalizers": ["kubernetes.io/pv-protection"],
            },
            "spec": {
                "accessModes": claim["spec"]["accessModes"],
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": metadata["uid"],
                },
                "hostPath": {"path": f"/volumes/{name}", "type": ""},
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": named,
                "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            },
        },
    )


def _settle(view: View, claim: Obj, volume: Obj) -> Iterable[Change]:
    """Update a bound claim's status, and grow its volume as requested where the class allows."""
    asked = claim["spec"]["resources"]["requests"]["storage"]
    has = volume["spec"]["capacity"]["storage"]
    storage_class = view.get("storageclasses", "", claim["spec"].get("storageClassName") or "")
    if amount(asked) > amount(has) and (storage_class or {}).get("allowVolumeExpansion"):
        grown = edited(volume)
        grown["spec"]["capacity"]["storage"] = asked
        yield Update("persistentvolumes", grown)
        return
    wanted = {
        "phase": "Bound",
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": has},
    }
    if claim.get("status") != wanted:
        yield UpdateStatus("persistentvolumeclaims", {**claim, "status": wanted})


def plan_volume(view: View, name: str, now: datetime) -> Changes:  # noqa: ARG001 - one shape for all controllers
    """Return the changes to one volume: its phase, or its deletion after its claim."""
    volume = view.get("persistentvolumes", "", name)
    if volume is None:
        return Changes()
    reference = volume["spec"].get("claimRef")
    claim = (
        view.get("persistentvolumeclaims", reference["namespace"], reference["name"])
        if reference
        else None
    )
    bound = (
        claim is not None
        and reference.get("uid", claim["metadata"]["uid"]) == (claim["metadata"]["uid"])
    )
    if is_deleting(volume):
        if bound or not volume["metadata"].get("finalizers"):
            return Changes()
        freed = edited(volume)
        freed["metadata"]["finalizers"] = []
        return Changes((Update("persistentvolumes", freed),))
    if claim is not None and bound and "uid" not in reference:
        tied = edited(volume)
        tied["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"]
        return Changes((Update("persistentvolumes", tied),))
    phase = "Bound" if bound else "Released" if reference and "uid" in reference else "Available"
    if phase == "Released" and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
        return Changes((Delete("persistentvolumes", "", name, volume["metadata"]["uid"]),))
    if (volume.get("status") or {}).get("phase") != phase:
        status = {**(volume.get("status") or {}), "phase": phase}
        return Changes((UpdateStatus("persistentvolumes", {**volume, "status": status}),))
    return Changes()
