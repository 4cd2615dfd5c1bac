"""The environment of a container, composed as a kubelet composes it.

Pure. Order: variables of the image, the services of the namespace, `envFrom`, then `env` from top
to bottom, where each value may use `$(NAME)` of those before it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from kubelocal.node.environment.downward import NodeFacts, field_text, resource_text
from kubelocal.node.errors import ConfigError

__all__ = ["Sources", "compose", "decoded_secret", "expand", "service_variables"]

Object = Mapping[str, Any]


class Sources(Struct, frozen=True, kw_only=True):
    """The sources of variables: objects of the pod's namespace, by name."""

    node: NodeFacts
    pod_ip: str
    config_maps: Mapping[str, Object] = field(default_factory=dict)
    secrets: Mapping[str, Object] = field(default_factory=dict)


def decoded_secret(secret: Object) -> dict[str, bytes]:
    """Return the entries of a Secret as bytes."""
    entries: dict[str, bytes] = {}
    for key, text in (secret.get("data") or {}).items():
        try:
            entries[key] = base64.b64decode(text or "", validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(
                f"key {key} of secret {secret['metadata']['name']} is not base64"
            ) from None
    return entries


def _secret_texts(secret: Object) -> dict[str, str]:
    return {key: raw.decode(errors="replace") for key, raw in decoded_secret(secret).items()}


def service_variables(services: Iterable[Object]) -> dict[str, str]:
    """Return the variables with the addresses of a namespace's services."""
    variables: dict[str, str] = {}
    for service in services:
        address = service["spec"].get("clusterIP")
        ports = service["spec"].get("ports") or []
        if not address or address == "None" or not ports:
            continue
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        variables[f"{prefix}_SERVICE_HOST"] = address
        variables[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                name = port["name"].upper().replace("-", "_")
                variables[f"{prefix}_SERVICE_PORT_{name}"] = str(port["port"])
        variables |= _link_variables(prefix, address, ports)
    return variables


def _link_variables(prefix: str, address: str, ports: list[dict[str, Any]]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for index, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        number = port["port"]
        url = f"{protocol.lower()}://{address}:{number}"
        stem = f"{prefix}_PORT_{number}_{protocol.upper()}"
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        variables[stem] = url
        variables[f"{stem}_PROTO"] = protocol.lower()
        variables[f"{stem}_PORT"] = str(number)
        variables[f"{stem}_ADDR"] = address
    return variables


def compose(
    pod: Object, container: Object, sources: Sources, *, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a container.

    Errors: ConfigError, worded like a kubelet's, when an object that it refers to is missing.
    """
    variables = dict(base)
    for source in container.get("envFrom") or ():
        variables |= _from_source(source, sources)
    for entry in container.get("env") or ():
        name = entry["name"]
        if entry.get("valueFrom"):
            value = _referred(entry["valueFrom"], pod, container, sources)
            if value is None:
                continue
            variables[name] = value
        else:
            variables[name] = expand(entry.get("value") or "", variables)
    return variables


def _from_source(source: Object, sources: Sources) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    if source.get("configMapRef"):
        found = _find(sources.config_maps, source["configMapRef"], "configmap")
        texts = dict(found.get("data") or {}) if found is not None else {}
    elif source.get("secretRef"):
        found = _find(sources.secrets, source["secretRef"], "secret")
        texts = _secret_texts(found) if found is not None else {}
    else:
        return {}
    return {prefix + key: text for key, text in texts.items() if _is_name(prefix + key)}


def _is_name(text: str) -> bool:
    return bool(text) and "=" not in text and text.isprintable()


def _find(objects: Mapping[str, Object], reference: Object, kind: str) -> Object | None:
    name = reference.get("name") or ""
    found = objects.get(name)
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{kind} "{name}" not found')
    return found


def _referred(reference: Object, pod: Object, container: Object, sources: Sources) -> str | None:
    """Return the value of a `valueFrom`, or None when it is optional and missing."""
    if reference.get("fieldRef"):
        path = str(reference["fieldRef"]["fieldPath"])
        return field_text(pod, path, node=sources.node, pod_ip=sources.pod_ip)
    if reference.get("resourceFieldRef"):
        return resource_text(
            pod, reference["resourceFieldRef"], container=container, node=sources.node
        )
    if reference.get("configMapKeyRef"):
        return _key_of("ConfigMap", sources.config_maps, reference["configMapKeyRef"], pod)
    if reference.get("secretKeyRef"):
        return _key_of("Secret", sources.secrets, reference["secretKeyRef"], pod)
    raise ConfigError("valueFrom has no source that this node supports")


def _key_of(kind: str, objects: Mapping[str, Object], reference: Object, pod: Object) -> str | None:
    found = _find(objects, reference, kind.lower())
    if found is None:
        return None
    texts = _secret_texts(found) if kind == "Secret" else dict(found.get("data") or {})
    key = reference["key"]
    if key not in texts:
        if reference.get("optional"):
            return None
        namespace = pod["metadata"]["namespace"]
        raise ConfigError(f"couldn't find key {key} in {kind} {namespace}/{reference['name']}")
    return str(texts[key])


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace references to variables in a text.

    >>> expand("$(HOST):$(PORT) $$(HOST) $(OTHER)", {"HOST": "a", "PORT": "1"})
    'a:1 $(HOST) $(OTHER)'
    """
    pieces: list[str] = []
    rest = text
    while True:
        before, dollar, rest = rest.partition("$")
        pieces.append(before)
        if not dollar:
            return "".join(pieces)
        if rest.startswith("$"):
            pieces.append("$")
            rest = rest[1:]
        elif rest.startswith("(") and ")" in rest:
            name, _, rest = rest[1:].partition(")")
            pieces.append(variables.get(name, f"$({name})"))
        else:
            pieces.append("$")
