"""Authorization: roles and bindings in the store, evaluated for every request.

The admin's group may do everything and needs no role, so that admins cannot lose their access.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.calls import User
from kubelocal.apiserver.causes import go_value
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import forbidden
from kubelocal.apiserver.objects.metadata import new_uid, timestamp
from kubelocal.apiserver.storage.entries import Object, decode
from kubelocal.apiserver.storage.store import Entry

__all__ = ["MASTERS", "RBAC", "Attributes", "Authorizer", "check_escalation", "ensure_roles"]

MASTERS = "system:masters"
RBAC = "rbac.authorization.k8s.io"


class Attributes(Struct, frozen=True):
    """One request to authorize: on a resource, or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def target(self) -> str:
        """Return the resource as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Evaluates roles and bindings; keeps decoded rules while their objects do not change."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._decoded: dict[int, tuple[Entry, Object]] = {}

    def reason(self, user: User, wanted: Attributes) -> str | None:
        """Return why a user may do something, or nothing if they may not."""
        if MASTERS in user.groups:
            return ""
        for binding, subject, rules, kind in self._grants(user, wanted.namespace):
            if any(_allows(rule, wanted) for rule in rules):
                role = binding["roleRef"]
                name = binding["metadata"]["name"]
                if kind == "RoleBinding":
                    name = f"{name}/{binding['metadata']['namespace']}"
                return (
                    f'RBAC: allowed by {kind} "{name}" of {role["kind"]} "{role["name"]}" to'
                    f' {subject["kind"]} "{_shown(subject)}"'
                )
        return None

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return every rule that applies to a user in a namespace."""
        found = [dict(rule) for *_, rules, _ in self._grants(user, namespace) for rule in rules]
        if MASTERS in user.groups:
            found.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            found.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        return found

    def missing(self, user: User, rules: list[Object], namespace: str) -> list[Object]:
        """Return which of these rules a user does not have, and so may not grant to others."""
        if MASTERS in user.groups:
            return []
        held = [rule for *_, held, _ in self._grants(user, namespace) for rule in held]
        return [
            rule
            for rule in rules
            if not all(any(_allows(one, atom) for one in held) for atom in _atoms(rule))
        ]

    def rules_of(self, reference: Mapping[str, Any], namespace: str) -> list[Object]:
        """Return the rules of a binding's role."""
        if reference.get("kind") == "ClusterRole":
            return self._rules("clusterroles", "", reference["name"])
        return self._rules("roles", namespace, reference["name"])

    def _grants(
        self, user: User, namespace: str
    ) -> Iterator[tuple[Object, Object, list[Object], str]]:
        for collection, kind in (
            (f"clusterrolebindings.{RBAC}", "ClusterRoleBinding"),
            (f"rolebindings.{RBAC}", "RoleBinding"),
        ):
            for entry in self._core.store.collection(collection).entries.values():
                if kind == "RoleBinding" and entry.namespace != namespace:
                    continue
                binding = self._read(entry)
                subject = _subject(binding, user)
                if subject is not None:
                    rules = self.rules_of(binding.get("roleRef") or {}, entry.namespace)
                    yield binding, subject, rules, kind

    def _rules(self, plural: str, namespace: str, name: str) -> list[Object]:
        entry = self._core.entry(f"{plural}.{RBAC}", namespace, name)
        return [] if entry is None else self._read(entry).get("rules") or []

    def _read(self, entry: Entry) -> Object:
        known = self._decoded.get(id(entry))
        if known is None or known[0] is not entry:
            if len(self._decoded) > 2000:
                self._decoded.clear()
            known = self._decoded[id(entry)] = (entry, decode(entry.body))
        return known[1]


def _subject(binding: Object, user: User) -> Object | None:
    for one in binding.get("subjects") or ():
        match one.get("kind"):
            case "User":
                fits = one["name"] == user.name
            case "Group":
                fits = one["name"] in user.groups
            case "ServiceAccount":
                account = f"system:serviceaccount:{one.get('namespace', '')}:{one['name']}"
                fits = account == user.name
            case _:
                fits = False
        if fits:
            found: Object = one
            return found
    return None


def _shown(subject: Object) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"{subject['name']}/{subject.get('namespace', '')}"
    return str(subject["name"])


def _allows(rule: Object, wanted: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if wanted.verb not in verbs and "*" not in verbs:
        return False
    if wanted.path:
        return any(_path_fits(one, wanted.path) for one in rule.get("nonResourceURLs") or ())
    groups, names = rule.get("apiGroups") or (), rule.get("resourceNames") or ()
    if wanted.group not in groups and "*" not in groups:
        return False
    if names and wanted.name not in names:
        return False
    resources = rule.get("resources") or ()
    return (
        wanted.target in resources
        or "*" in resources
        or bool(wanted.subresource and f"*/{wanted.subresource}" in resources)
    )


def _path_fits(pattern: str, path: str) -> bool:
    if pattern in {"*", path}:
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _atoms(rule: Object) -> Iterator[Attributes]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    plural, _, below = resource.partition("/")
                    yield Attributes(verb, group, plural, below, name)


def check_escalation(authorizer: Authorizer, user: User, new: Object, namespace: str) -> None:
    """Refuse a role or binding that grants permissions that its author does not have."""
    kind, name = new["kind"], new["metadata"].get("name", "")
    if kind in {"Role", "ClusterRole"}:
        verb, given, plural = "escalate", new.get("rules") or [], f"{kind.lower()}s"
        wanted = Attributes(verb, RBAC, plural, name=name, namespace=namespace)
    elif kind in {"RoleBinding", "ClusterRoleBinding"}:
        reference = new.get("roleRef") or {}
        given = authorizer.rules_of(reference, namespace)
        plural = f"{str(reference.get('kind', '')).lower()}s"
        wanted = Attributes(
            "bind", RBAC, plural, name=reference.get("name", ""), namespace=namespace
        )
        plural = f"{kind.lower()}s"
    else:
        return
    if authorizer.reason(user, wanted) is not None:
        return
    missing = authorizer.missing(user, given, namespace)
    if missing:
        listed = "\n".join(go_value(rule) for rule in missing)
        groups = " ".join(f'"{group}"' for group in user.groups)
        why = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not'
            f" currently held:\n{listed}"
        )
        raise forbidden(RBAC, plural, name, why)


def ensure_roles(core: Core) -> None:
    """Create the default roles and their bindings, if they are missing."""
    roles = decode(files(__package__).joinpath("default_roles.json").read_bytes())
    for name, role in roles.items():
        groups = role["groups"]
        _ensure(core, "clusterroles", "ClusterRole", name, {"rules": role["rules"]})
        if groups:
            bound = {
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": one} for one in groups],
            }
            _ensure(core, "clusterrolebindings", "ClusterRoleBinding", name, bound)


def _ensure(core: Core, plural: str, kind: str, name: str, content: Object) -> None:
    collection = f"{plural}.{RBAC}"
    if core.entry(collection, "", name) is not None:
        return
    metadata = {
        "name": name,
        "uid": new_uid(core.bits),
        "creationTimestamp": timestamp(core.clock()),
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    core.put(
        core.resource(collection),
        {"kind": kind, "apiVersion": f"{RBAC}/v1", "metadata": metadata, **content},
    )
