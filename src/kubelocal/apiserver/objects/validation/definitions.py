"""What Go checks in CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause, Fields, invalid, required
from kubelocal.apiserver.custom.cel.cost import cost_problems
from kubelocal.apiserver.custom.cel.rules import compile_rules
from kubelocal.apiserver.custom.structure import check_structural
from kubelocal.apiserver.kinds.names import name_problems
from kubelocal.apiserver.objects.validation.syntax import choice, dns_subdomain

__all__ = ["check_definition"]

_APPROVED = "api-approved.kubernetes.io"
_COLUMNS = ("boolean", "date", "integer", "number", "string")


def check_definition(crd: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a definition: its names, its versions and their schemas."""
    spec, metadata = crd.get("spec") or {}, crd.get("metadata") or {}
    names, group = spec.get("names") or {}, spec.get("group", "")
    if metadata.get("name") != f"{names.get('plural', '')}.{group}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", metadata.get("name", ""), text)
    yield from _check_group(group, metadata)
    if not spec.get("scope"):
        yield required("spec.scope")
    else:
        yield from choice("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        path = "spec.preserveUnknownFields"
        yield invalid(path, True, f"{text}spec.versions[*].schema instead")
    yield from _check_versions(spec, _schemas(old))
    yield from _check_names(names)
    yield from _check_conversion(spec.get("conversion") or {})
    if old is not None:
        yield from _check_change(spec, old)


def _check_group(group: str, metadata: dict[str, Any]) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
        return
    yield from dns_subdomain("spec.group", group)
    if "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    is_protected = group.endswith((".k8s.io", ".kubernetes.io"))
    if is_protected and _APPROVED not in (metadata.get("annotations") or {}):
        text = (
            f'protected groups must have approval annotation "{_APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(f"metadata.annotations[{_APPROVED}]", text)


def _schemas(crd: dict[str, Any] | None) -> dict[str, Any]:
    """Return the schemas of a definition by version."""
    versions = ((crd or {}).get("spec") or {}).get("versions") or ()
    return {version["name"]: version.get("schema") for version in versions}


def _check_versions(spec: dict[str, Any], before: dict[str, Any]) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    shown = [
        Fields(
            Name=version.get("name", ""),
            Served=bool(version.get("served")),
            Storage=bool(version.get("storage")),
            Deprecated=bool(version.get("deprecated")),
            DeprecationWarning=version.get("deprecationWarning"),
            Schema=None,
            Subresources=None,
            AdditionalPrinterColumns=None,
            SelectableFields=None,
        )
        for version in versions
    ]
    found = [version.get("name", "") for version in versions]
    if len(set(found)) < len(found):
        yield invalid("spec.versions", shown, "must contain unique version names")
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", shown, text)
    yield from _check_stored(stored)
    same = _all_same(versions)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        for text in name_problems("", "Service", version.get("name", "")):
            yield invalid(f"{path}.name", version.get("name", ""), text)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"{path}.schema.openAPIV3Schema")
        elif not same or not index:
            place = "spec.validation" if same else f"{path}.schema"
            known = before.get(version.get("name", "")) == version["schema"]
            yield from _check_schema(f"{place}.openAPIV3Schema", version, known=known)
        yield from _check_extras("spec" if same else path, version)
        if same:
            for text in name_problems("", "Service", version.get("name", "")):
                yield invalid("spec.version", version.get("name", ""), text)
            break


def _all_same(versions: list[dict[str, Any]]) -> bool:
    """Tell whether all versions say the same; the server then shows it at the top of the spec."""
    extras = [
        (
            version.get("schema"),
            version.get("subresources"),
            version.get("additionalPrinterColumns"),
        )
        for version in versions
    ]
    return all(extra == extras[0] for extra in extras)


def _check_stored(stored: list[str]) -> Iterator[Cause]:
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
    for name in stored[1:]:
        yield invalid(path, stored[:1], f"must have the storage version {name}")


def _check_schema(path: str, version: dict[str, Any], *, known: bool) -> Iterator[Cause]:
    """Check one schema; what its rules cost was judged when it was new."""
    schema = version["schema"]["openAPIV3Schema"]
    found = check_structural(schema)
    for cause in found:
        field = f"{path}.{cause.field}" if cause.field else path
        yield Cause(field, cause.reason, cause.message)
    if not found:
        broken = compile_rules(schema, at=path)
        yield from broken
        if not broken and not known:
            yield from cost_problems(schema, path)


def _check_extras(path: str, version: dict[str, Any]) -> Iterator[Cause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{place}.name")
        if not column.get("type"):
            text = f"must be one of {','.join(_COLUMNS)}"
            yield required(f"{place}.type", text)
        elif column["type"] not in _COLUMNS:
            text = f"must be one of {','.join(_COLUMNS)}"
            yield invalid(f"{place}.type", column["type"], text)
        if not column.get("jsonPath"):
            yield required(f"{place}.JSONPath")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _check_scale(f"{path}.subresources.scale", scale)


def _check_scale(path: str, scale: dict[str, Any]) -> Iterator[Cause]:
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        place, value = f"{path}.{field}", scale.get(field, "")
        if not value:
            yield required(place)
        elif not value.startswith("."):
            yield invalid(place, value, "must be a simple json path starting with .")
        elif not value.startswith(f"{root}."):
            yield invalid(place, value, f"should be a json path under {root}")


def _check_names(names: dict[str, Any]) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value, path = names.get(field, ""), f"spec.names.{field}"
        mixed = field in {"kind", "listKind"}
        if not value:
            yield required(path)
            continue
        for text in name_problems("", "Service", value.lower() if mixed else value):
            words = f"may have mixed case, but should otherwise match: {text}" if mixed else text
            yield invalid(path, value, words)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            for text in name_problems("", "Service", value):
                yield invalid(f"spec.names.{field}[{index}]", value, text)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        yield invalid("spec.names.listKind", names["listKind"], text)


def _check_conversion(conversion: dict[str, Any]) -> Iterator[Cause]:
    strategy = conversion.get("strategy", "None")
    path = "spec.conversion"
    yield from choice(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        return
    webhook = conversion.get("webhook") or {}
    if not webhook.get("clientConfig"):
        text = "required when strategy is set to Webhook"
        yield required(f"{path}.webhookClientConfig", text)
    if not webhook.get("conversionReviewVersions"):
        yield required(f"{path}.conversionReviewVersions")


def _check_change(spec: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    """Once names are taken, group, kind, scope and plural stay."""
    before, conditions = old.get("spec") or {}, (old.get("status") or {}).get("conditions") or ()
    is_established = any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in conditions
    )
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    pairs = [("spec.group", spec.get("group"), before.get("group"))]
    pairs.append(("spec.names.plural", names.get("plural"), old_names.get("plural")))
    if is_established:
        pairs.insert(0, ("spec.scope", spec.get("scope"), before.get("scope")))
        pairs.append(("spec.names.kind", names.get("kind"), old_names.get("kind")))
    for path, new, past in pairs:
        if new != past:
            yield invalid(path, new, "field is immutable")
