"""Checks of CustomResourceDefinitions beyond single fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubelocal.apiserver.causes import Cause, invalid, required
from kubelocal.apiserver.custom.cel.cost import cost_problems
from kubelocal.apiserver.custom.cel.rules import compile_rules
from kubelocal.apiserver.custom.structure import check_structural
from kubelocal.apiserver.objects.validation.checks import CHECKS, Object, find, immutable

__all__ = ["check_definition"]

_APPROVED = "api-approved.kubernetes.io"


def check_definition(crd: Object, old: Object | None) -> Iterator[Cause]:
    """Check a definition: its name, its versions and their schemas, and forbidden changes."""
    spec, metadata = crd.get("spec") or {}, crd.get("metadata") or {}
    names, group = spec.get("names") or {}, spec.get("group", "")
    if metadata.get("name") != f"{names.get('plural', '')}.{group}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", metadata.get("name", ""), text)
    is_protected = group.endswith((".k8s.io", ".kubernetes.io"))
    if is_protected and _APPROVED not in (metadata.get("annotations") or {}):
        text = f'protected groups must have approval annotation "{_APPROVED}"'
        yield required(f"metadata.annotations[{_APPROVED}]", text)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        path = "spec.preserveUnknownFields"
        yield invalid(path, True, f"{text}spec.versions[*].schema instead")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["kind"], "kind and listKind may not be the same")
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        for field in ("clientConfig", "conversionReviewVersions"):
            if not webhook.get(field):
                yield required(f"spec.conversion.webhook.{field}")
    yield from _check_versions(spec, old)
    if old is not None:
        yield from _check_change(spec, old)


def _check_versions(spec: Object, old: Object | None) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", stored, text)
    before = ((old or {}).get("spec") or {}).get("versions") or ()
    known = {version["name"]: version.get("schema") for version in before}
    for index, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if not schema:
            yield required(path)
            continue
        if known.get(version.get("name")) == version["schema"]:
            continue  # it was checked when it was new
        found = check_structural(schema, path) or compile_rules(schema, at=path)
        yield from found or cost_problems(schema, path)


def _check_change(spec: Object, old: Object) -> Iterator[Cause]:
    """Once names are accepted, group, kind, scope and plural stay."""
    before, conditions = old.get("spec") or {}, (old.get("status") or {}).get("conditions") or ()
    names, old_names = spec.get("names") or {}, before.get("names") or {}
    yield from immutable("spec.group", spec.get("group"), before.get("group"))
    yield from immutable("spec.names.plural", names.get("plural"), old_names.get("plural"))
    if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        yield from immutable("spec.scope", spec.get("scope"), before.get("scope"))
        yield from immutable("spec.names.kind", names.get("kind"), old_names.get("kind"))


def _group(path: str, group: str) -> Iterator[Cause]:
    yield from find("subdomain", path, group)
    if "." not in group:
        yield invalid(path, group, "should be a domain with at least one dot")


def _mixed_case(path: str, value: str) -> Iterator[Cause]:
    return find("name", path, value.lower())


def _path_under(root: str) -> Any:
    def check(path: str, value: str) -> Iterator[Cause]:
        if not value.startswith(f"{root}."):
            yield invalid(path, value, f"should be a json path under {root}")

    return check


CHECKS |= {
    "group": _group,
    "mixed case": _mixed_case,
    "spec path": _path_under(".spec"),
    "status path": _path_under(".status"),
}
