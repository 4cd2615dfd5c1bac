"""What Go checks in ConfigMaps, Secrets, volumes, claims, classes, quotas and leases."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import (
    Cause,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubelocal.apiserver.kinds.quantities import parse_quantity
from kubelocal.apiserver.objects.validation.syntax import (
    at_least,
    choice,
    config_key,
    dns_subdomain,
    immutable,
    quantity,
)

__all__ = [
    "check_claim",
    "check_class",
    "check_config_map",
    "check_lease",
    "check_quota",
    "check_secret",
    "check_volume",
]

_LIMIT = 1024 * 1024
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_VOLUME_FIELDS = {
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
}


def check_config_map(config: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a ConfigMap."""
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        yield from config_key(f"data[{key}]", key)
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from config_key(f"binaryData[{key}]", key)
    size = sum(len(text.encode()) for text in data.values())
    size += sum(_decoded_size(text) for text in binary.values())
    if size > _LIMIT:
        yield too_long("[]", _LIMIT)
    yield from _check_frozen(config, old, ("data", "binaryData"))


def _decoded_size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except binascii.Error:
        return len(text)


def _check_frozen(
    new: dict[str, Any], old: dict[str, Any] | None, fields: tuple[str, ...]
) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden("immutable", text)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden(field, text)


def check_secret(secret: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a Secret; its type never changes, and some types need certain keys."""
    data, kind = secret.get("data") or {}, secret.get("type", "Opaque")
    for key in data:
        yield from config_key(f"data[{key}]", key)
    if sum(_decoded_size(text) for text in data.values()) > _LIMIT:
        yield too_long("data", _LIMIT)
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield required("data[username]")
        yield required("data[password]")
    account = "kubernetes.io/service-account.name"
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(account):
        yield required(f"metadata.annotations[{account}]")
    if old is not None:
        yield from immutable("type", kind, old.get("type", "Opaque"))
    yield from _check_frozen(secret, old, ("data",))


def check_claim(claim: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a PersistentVolumeClaim; bound, it may only grow."""
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or []
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        yield from choice("spec.accessModes", mode, _MODES)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield required("spec.resources[storage]")
    elif (parse_quantity(str(size)) or 0) <= 0:
        yield invalid("spec.resources[storage]", str(size), "must be greater than zero")
    if spec.get("storageClassName"):
        yield from dns_subdomain("spec.storageClassName", spec["storageClassName"])
    yield from choice("spec.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))
    if old is not None:
        yield from _check_claim_change(claim, old)


def _check_claim_change(claim: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    spec, before = claim.get("spec") or {}, old.get("spec") or {}
    free = {"volumeName"} if not before.get("volumeName") else set()
    is_bound = (old.get("status") or {}).get("phase") == "Bound"
    if is_bound:
        free |= {"resources", "volumeAttributesClassName"}
    if "storageClassName" not in before:
        free.add("storageClassName")
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    if changed - free:
        text = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)
    elif is_bound:
        new_size, old_size = _size(spec), _size(before)
        if new_size is not None and old_size is not None and new_size < old_size:
            text = "field can not be less than status.capacity"
            yield forbidden("spec.resources.requests.storage", text)


def _size(spec: dict[str, Any]) -> Any:
    requests = (spec.get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "")))


def check_volume(volume: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a PersistentVolume."""
    spec = volume.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    for mode in spec.get("accessModes") or ():
        yield from choice("spec.accessModes", mode, _MODES)
    capacity = spec.get("capacity")
    if not capacity:
        yield required("spec.capacity")
    if set(capacity or {}) != {"storage"}:
        yield not_supported("spec.capacity", capacity, ["storage"])
    sources = [field for field in spec if field not in _VOLUME_FIELDS]
    if not sources:
        yield required("spec", "must specify a volume type")
    for extra in sources[1:]:
        yield forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    policies = ("Delete", "Recycle", "Retain")
    path = "spec.persistentVolumeReclaimPolicy"
    yield from choice(path, spec.get("persistentVolumeReclaimPolicy"), policies)
    if old is not None:
        before = old.get("spec") or {}
        if any(spec.get(field) != before.get(field) for field in sources):
            path = "spec.persistentvolumesource"
            yield forbidden(path, f"{path} is immutable after creation")


def check_class(found: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a StorageClass, of which little may change."""
    if not found.get("provisioner"):
        yield required("provisioner")
    yield from choice("reclaimPolicy", found.get("reclaimPolicy"), ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    yield from choice("volumeBindingMode", found.get("volumeBindingMode"), modes)
    if old is None:
        return
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if found.get(field) != old.get(field):
            yield forbidden(field, f"updates to {field} are forbidden.")
    mode = "volumeBindingMode"
    yield from immutable(mode, found.get(mode), old.get(mode))


def check_quota(quota: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a ResourceQuota."""
    spec = quota.get("spec") or {}
    for name, amount in (spec.get("hard") or {}).items():
        yield from quantity(f"spec.hard[{name}]", amount)
    if old is not None:
        before = (old.get("spec") or {}).get("scopes")
        yield from immutable("spec.scopes", spec.get("scopes"), before)


def check_lease(lease: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a Lease."""
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from at_least("spec.leaseTransitions", spec.get("leaseTransitions"))
