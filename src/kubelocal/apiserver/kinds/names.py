"""The syntax of names, labels and annotations, and the messages for invalid ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kubelocal.apiserver.causes import Cause, forbidden, invalid, too_long

__all__ = [
    "label_problem",
    "metadata_problems",
    "name_problems",
    "value_problem",
]

_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    r" for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABELS = {("", "Namespace")}
_LABELS_1035 = {("", "Service")}
_PATH_NAMES = "rbac.authorization.k8s.io"
_STANDARD_FINALIZERS = {
    "kubernetes",
    "orphan",
    "foregroundDeletion",
    "customresourcecleanup.apiextensions.k8s.io",
}
_ANNOTATIONS = 256 * 1024


def label_problem(key: str) -> str | None:
    """Return why a key cannot be a label's or annotation's."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return (
            f"a qualified name {_PART_TEXT.removeprefix('name part ')} with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        if len(prefix) > 253:
            return "prefix part must be no more than 253 bytes"
        if not _SUBDOMAIN.fullmatch(prefix):
            return f"prefix part {_SUBDOMAIN_TEXT}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _PART.fullmatch(name) else _PART_TEXT


def value_problem(value: str) -> str | None:
    """Return why a text cannot be a label's value."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return None if value == "" or _PART.fullmatch(value) else _VALUE_TEXT


def name_problems(group: str, kind: str, name: str) -> list[str]:
    """Return why a text cannot be the name of an object of that kind."""
    if group == _PATH_NAMES:
        return _path_problems(name)
    if (group, kind) in _LABELS:
        limit, pattern, text = 63, _LABEL, _LABEL_TEXT
    elif (group, kind) in _LABELS_1035:
        limit, pattern, text = 63, _LABEL_1035, _LABEL_1035_TEXT
    else:
        limit, pattern, text = 253, _SUBDOMAIN, _SUBDOMAIN_TEXT
    unit = "characters" if limit > 63 else "bytes"
    found = [f"must be no more than {limit} {unit}"] if len(name) > limit else []
    return found if pattern.fullmatch(name) else [*found, text]


def _path_problems(name: str) -> list[str]:
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def metadata_problems(
    group: str, kind: str, metadata: Mapping[str, Any], *, check_name: bool
) -> list[Cause]:
    """Return everything wrong with an object's metadata."""
    found: list[Cause] = []
    name = metadata.get("name", "")
    if check_name:
        found += [invalid("metadata.name", name, text) for text in name_problems(group, kind, name)]
    for key, value in (metadata.get("labels") or {}).items():
        problem = label_problem(key)
        if problem:
            found.append(invalid("metadata.labels", key, problem))
        problem = value_problem(value)
        if problem:
            found.append(invalid("metadata.labels", value, problem))
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        problem = label_problem(key.lower())
        if problem:
            found.append(invalid("metadata.annotations", key, problem))
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS:
        found.append(too_long("metadata.annotations", _ANNOTATIONS))
    found += _finalizer_problems(metadata)
    found += _owner_problems(metadata)
    return found


def _finalizer_problems(metadata: Mapping[str, Any]) -> list[Cause]:
    found: list[Cause] = []
    finalizers = metadata.get("finalizers") or []
    for number, finalizer in enumerate(finalizers):
        problem = label_problem(finalizer)
        if problem:
            found.append(invalid("metadata.finalizers", finalizer, problem))
        if problem or ("/" not in finalizer and finalizer not in _STANDARD_FINALIZERS):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid(f"metadata.finalizers[{number}]", finalizer, text))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid("metadata.finalizers", finalizers, text))
    return found


def _owner_problems(metadata: Mapping[str, Any]) -> list[Cause]:
    found: list[Cause] = []
    controllers = []
    for owner in metadata.get("ownerReferences") or []:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                path = f"metadata.ownerReferences.{field}"
                found.append(invalid(path, owner.get(field, ""), "must not be empty"))
        if owner.get("controller"):
            controllers.append(owner)
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        text = (
            'Only one reference can have Controller set to true. Found "true" in references for'
            f" {first} and {second}"
        )
        found.append(invalid("metadata.ownerReferences", controllers[1], text))
    return found


def deleted_finalizers(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """Refuse finalizers that appear on an object already being deleted."""
    if not old.get("deletionTimestamp"):
        return []
    before = old.get("finalizers") or []
    added = [name for name in new.get("finalizers") or [] if name not in before]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    text = (
        "no new finalizers can be added if the object is being deleted, found new finalizers"
        f" []string{{{listed}}}"
    )
    return [forbidden("metadata.finalizers", text)]


def required_name() -> Cause:
    """Report that a new object needs a name."""
    return Cause(
        "metadata.name", "FieldValueRequired", "Required value: name or generateName is required"
    )


def invalid_version() -> Cause:
    """Report that an update of this kind must name the version it replaces."""
    return Cause(
        "metadata.resourceVersion",
        "FieldValueInvalid",
        "Invalid value: 0: must be specified for an update",
    )


def immutable_uid(uid: str) -> Cause:
    """Report that a patch cannot change the identity of an object."""
    return invalid("metadata.uid", uid, "field is immutable")


def wrong_kind(given: str, wanted: str) -> Cause:
    """Report that an object is not of the kind of its path."""
    return invalid("kind", given, f"must be {wanted}")
