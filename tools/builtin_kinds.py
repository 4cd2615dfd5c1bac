"""Write the schemas of the built-in kinds from a real cluster's OpenAPI.

    KUBECONFIG=... python tools/builtin_kinds.py [--go-types DIR]

Asks `kubectl get --raw /openapi/v3/...` and keeps what the embedded API server needs: types,
required fields, list and map types, patch strategies, defaults and formats of the kinds it serves
and of what they refer to; no descriptions. OpenAPI does not say which fields Go leaves out when
they are empty, nor which it writes as null. With DIR, a folder that holds the Go modules `api`,
`apimachinery` and `apiextensions-apiserver` (named `api@version` and so on), these fields are
marked `x-omit-empty` and `x-write-null`; without it the marks of the present file are kept.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["main"]

TARGET = Path(__file__).parent.parent / "src/kubelocal/apiserver/kinds/schemas.json"
KINDS = {
    "v1": "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
    "PersistentVolumeClaim Pod PodTemplate ResourceQuota Secret Service ServiceAccount",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration "
    "ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apps/v1": "ControllerRevision Deployment ReplicaSet StatefulSet",
    "authentication.k8s.io/v1": "SelfSubjectReview TokenRequest TokenReview",
    "authorization.k8s.io/v1": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "autoscaling/v1": "Scale",
    "batch/v1": "Job",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "networking.k8s.io/v1": "NetworkPolicy",
    "policy/v1": "Eviction PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "storage.k8s.io/v1": "StorageClass",
}
KEPT = {
    "$ref",
    "additionalProperties",
    "allOf",
    "default",
    "enum",
    "format",
    "items",
    "oneOf",
    "properties",
    "required",
    "type",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-preserve-unknown-fields",
}
# These hold any JSON, which their OpenAPI type does not show.
FREE = ("RawExtension", "FieldsV1", "v1.JSON", "OrBool", "OrArray", "OrStringArray")
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}
MARKS = ("x-omit-empty", "x-write-null")
FOLDERS = {
    "io.k8s.api.": "api@*/",
    "io.k8s.apimachinery.": "apimachinery@*/",
    "io.k8s.apiextensions-apiserver.": "apiextensions-apiserver@*/",
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?(\*?[\w.\[\]*]+)\s+`.*?json:\"([^\"]*)\"", re.MULTILINE)


def fetch(path: str) -> dict[str, Any]:
    """Ask the cluster that KUBECONFIG names."""
    command = ["kubectl", "get", "--raw", path]
    answer = subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """Keep the words of a schema that the server understands, and unwrap single references."""
    result: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "properties":
            result[word] = {name: reduced(sub) for name, sub in sorted(value.items())}
        elif word in {"items", "additionalProperties"} and isinstance(value, dict):
            result[word] = reduced(value)
        elif word == "allOf" and len(value) == 1 and "$ref" in value[0]:
            result["$ref"] = value[0]["$ref"].rpartition("/")[2]
        elif word == "$ref":
            result[word] = value.rpartition("/")[2]
        elif word in KEPT:
            result[word] = value
    return result


def references(schema: Any) -> set[str]:
    """Collect the names that a schema refers to."""
    if isinstance(schema, list):
        return set().union(*(references(item) for item in schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    found = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return found.union(*(references(value) for value in schema.values()))


def collect() -> dict[str, Any]:
    """Gather the definitions of all kinds and of what they refer to."""
    kept: dict[str, Any] = {}
    for where, kinds in KINDS.items():
        path = f"/openapi/v3/apis/{where}" if "/" in where else f"/openapi/v3/api/{where}"
        schemas = fetch(path)["components"]["schemas"]
        group, _, version = where.rpartition("/")
        queue = [
            name
            for name, schema in schemas.items()
            for known in schema.get("x-kubernetes-group-version-kind", ())
            if known["kind"] in kinds.split()
            and (known["group"], known["version"]) == (group, version)
        ]
        while queue:
            name = queue.pop()
            if name in kept:
                continue
            kept[name] = reduced(schemas[name])
            if name.endswith(FREE):
                kept[name] = dict(ANYTHING)
            queue += references(kept[name])
    return dict(sorted(kept.items()))


def go_fields(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    """Read a Go struct: JSON name -> (Go type, JSON options); embedded structs are unfolded."""
    prefix = next((prefix for prefix in FOLDERS if name.startswith(prefix)), None)
    if prefix is None:
        return {}
    package, _, kind = name.removeprefix(prefix).rpartition(".")
    found: dict[str, tuple[str, str]] = {}
    for source in folder.glob(f"{FOLDERS[prefix]}{package.replace('.', '/')}/types*.go"):
        structs = dict(STRUCT.findall(source.read_text()))
        if kind not in structs:
            continue
        for field, go_type, tag in FIELD.findall(structs[kind]):
            json_name, _, options = tag.partition(",")
            if json_name:
                found[json_name] = (go_type, options)
            elif not field and "inline" in options:
                inner = go_type.rpartition(".")[2]
                found |= go_fields(folder, f"{prefix}{package}.{inner}")
    return found


def mark_omitted(definitions: dict[str, Any], folder: Path) -> None:
    """Mark the fields that Go does not write when they are empty."""
    for name, schema in definitions.items():
        fields = go_fields(folder, name)
        for json_name, sub in schema.get("properties", {}).items():
            go_type, options = fields.get(json_name, ("*", ""))
            is_list = go_type.startswith(("[]", "map["))
            is_time = go_type.endswith("Time") and "omitzero" not in options and not is_list
            is_null = is_time or (is_list and "omitempty" not in options)
            if not go_type.startswith("*") and is_null:
                sub["x-write-null"] = True
            elif not go_type.startswith("*") and "omitempty" in options:
                sub["x-omit-empty"] = True


def keep_marks(definitions: dict[str, Any]) -> None:
    """Take over the marks of the present file."""
    known = json.loads(TARGET.read_text())
    for name, schema in definitions.items():
        before = known.get(name, {}).get("properties", {})
        for json_name, sub in schema.get("properties", {}).items():
            sub |= {mark: True for mark in MARKS if before.get(json_name, {}).get(mark)}


def main() -> None:
    """Fetch, reduce, mark and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--go-types", type=Path, metavar="DIR")
    folder = parser.parse_args().go_types
    definitions = collect()
    if folder is None:
        keep_marks(definitions)
    else:
        mark_omitted(definitions, folder)
    lines = [
        f"{json.dumps(name)}:{json.dumps(schema, separators=(',', ':'), sort_keys=True)}"
        for name, schema in definitions.items()
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(definitions)} definitions, {TARGET.stat().st_size} bytes: {TARGET}")


if __name__ == "__main__":
    main()
