"""The files of volumes: ConfigMaps, Secrets, the downward API and projections of them.

Pure: from a volume's definition and the objects it names to paths, bytes and modes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from kubelocal.node.environment.downward import field_text, resource_text
from kubelocal.node.environment.variables import Sources, decoded_secret
from kubelocal.node.errors import VolumeError

__all__ = ["File", "TokenRequest", "is_payload", "objects_named", "payload", "token_requests"]

Object = Mapping[str, Any]
_KINDS = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_MODE = 0o644


class File(Struct, frozen=True):
    """One file of a volume."""

    content: bytes
    mode: int


class TokenRequest(Struct, frozen=True):
    """A service account token that a volume requests."""

    audience: str
    seconds: int


class Named(Struct, frozen=True):
    """The objects of the pod's namespace that a pod refers to."""

    config_maps: frozenset[str] = field(default_factory=frozenset)
    secrets: frozenset[str] = field(default_factory=frozenset)


def is_payload(volume: Object) -> bool:
    """Return whether the files of a volume come from objects of the API."""
    return any(volume.get(kind) is not None for kind in _KINDS)


def _parts(volume: Object) -> list[tuple[str, Object]]:
    """Return the sources of a volume: one, or those of a projection."""
    if volume.get("projected") is not None:
        return [
            next(iter(source.items()))
            for source in volume["projected"].get("sources") or ()
            if source
        ]
    return [(kind, volume[kind]) for kind in _KINDS if volume.get(kind) is not None]


def objects_named(pod: Object) -> Named:
    """Return which ConfigMaps and Secrets a pod takes variables or files from."""
    maps: set[str] = set()
    secrets: set[str] = set()
    spec = pod["spec"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        for source in container.get("envFrom") or ():
            maps.add((source.get("configMapRef") or {}).get("name", ""))
            secrets.add((source.get("secretRef") or {}).get("name", ""))
        for entry in container.get("env") or ():
            reference = entry.get("valueFrom") or {}
            maps.add((reference.get("configMapKeyRef") or {}).get("name", ""))
            secrets.add((reference.get("secretKeyRef") or {}).get("name", ""))
    for volume in spec.get("volumes") or ():
        for kind, source in _parts(volume):
            if kind == "configMap":
                maps.add(source.get("name", ""))
            elif kind == "secret":
                secrets.add(source.get("secretName") or source.get("name", ""))
    return Named(frozenset(maps - {""}), frozenset(secrets - {""}))


def token_requests(volume: Object) -> list[TokenRequest]:
    """Return the tokens that a volume needs."""
    return [
        _token_request(source) for kind, source in _parts(volume) if kind == "serviceAccountToken"
    ]


def _token_request(source: Object) -> TokenRequest:
    return TokenRequest(source.get("audience") or "", int(source.get("expirationSeconds") or 3600))


def payload(
    volume: Object, pod: Object, sources: Sources, *, tokens: Mapping[TokenRequest, str]
) -> dict[str, File]:
    """Return the files of a volume by path.

    Errors: VolumeError, worded like a kubelet's, when an object that it refers to is missing.
    """
    whole = volume.get("projected") or volume.get("configMap") or volume.get("secret")
    whole = whole or volume.get("downwardAPI") or {}
    mode = int(whole.get("defaultMode") or _DEFAULT_MODE)
    files: dict[str, File] = {}
    for kind, source in _parts(volume):
        match kind:
            case "configMap":
                files |= _picked(_config_map(source, sources), source, mode, "configmap")
            case "secret":
                files |= _picked(_secret(source, sources), source, mode, "secret")
            case "downwardAPI":
                files |= _downward(source, pod, sources, mode)
            case "serviceAccountToken":
                token = tokens[_token_request(source)]
                files[source["path"]] = File(token.encode(), mode)
            case other:
                raise VolumeError(f"projected source {other} is not supported in local mode")
    return files


def _config_map(source: Object, sources: Sources) -> dict[str, bytes] | None:
    found = sources.config_maps.get(source.get("name", ""))
    if found is None:
        _must_be_optional(source, "configmap", source.get("name", ""))
        return None
    texts = {key: text.encode() for key, text in (found.get("data") or {}).items()}
    binary = {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
    return texts | binary


def _secret(source: Object, sources: Sources) -> dict[str, bytes] | None:
    name = source.get("secretName") or source.get("name", "")
    found = sources.secrets.get(name)
    if found is None:
        _must_be_optional(source, "secret", name)
        return None
    return decoded_secret(found)


def _must_be_optional(source: Object, kind: str, name: str) -> None:
    if not source.get("optional"):
        raise VolumeError(f'{kind} "{name}" not found')


def _picked(
    entries: dict[str, bytes] | None, source: Object, mode: int, kind: str
) -> dict[str, File]:
    if entries is None:
        return {}
    items = source.get("items")
    if not items:
        return {key: File(content, mode) for key, content in entries.items()}
    files: dict[str, File] = {}
    for item in items:
        if item["key"] not in entries:
            if source.get("optional"):
                continue
            raise VolumeError(f"{kind} references non-existent {kind} key: {item['key']}")
        files[item["path"]] = File(entries[item["key"]], int(item.get("mode") or mode))
    return files


def _downward(source: Object, pod: Object, sources: Sources, mode: int) -> dict[str, File]:
    files: dict[str, File] = {}
    for item in source.get("items") or ():
        if item.get("fieldRef"):
            path = str(item["fieldRef"]["fieldPath"])
            text = field_text(pod, path, node=sources.node, pod_ip=sources.pod_ip)
        else:
            text = resource_text(pod, item["resourceFieldRef"], container=None, node=sources.node)
        files[item["path"]] = File(text.encode(), int(item.get("mode") or mode))
    return files
