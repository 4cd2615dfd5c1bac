"""Custom resource definitions: from their objects to rows in the table of resources.

A CRD is served as soon as it is accepted, as its conditions say, and its instances are deleted with
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubecontroller import with_condition
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.kinds.table import Resource, Subresource, Version
from kubelocal.apiserver.lifecycle.namespaces import discard
from kubelocal.apiserver.objects.metadata import timestamp
from kubelocal.apiserver.storage.entries import Object, copied, decode

__all__ = ["Definitions", "rows"]

KEY = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_RW = ("get", "patch", "update")
_TERMINATING = (
    "Terminating",
    "True",
    "InstanceDeletionInProgress",
    "CustomResource deletion is in progress",
)


def rows(crd: Object) -> tuple[Resource, ...]:
    """Return the resources that a CRD has served."""
    spec, names = crd["spec"], crd["spec"]["names"]
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    changed = (crd["metadata"].get("generation") or 1) > 1
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        has_status = subresources.get("status") is not None
        scale = subresources.get("scale")
        subs = []
        if has_status:
            subs.append(Subresource("status", names["kind"], _RW))
        if scale is not None:
            subs.append(Subresource("scale", "Scale", _RW, "autoscaling", "v1"))
        found.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                list_kind=names.get("listKind") or f"{names['kind']}List",
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=tuple(subs),
                storage=storage,
                status=has_status,
                custom=Version(
                    schema=(version.get("schema") or {}).get("openAPIV3Schema")
                    or {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    columns=tuple(version.get("additionalPrinterColumns") or ()),
                    selectable=tuple(
                        one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()
                    ),
                    scale=scale,
                    warning=_deprecation(spec["group"], version, names["kind"]),
                    rereads=changed or version["name"] != storage,
                ),
            )
        )
    return tuple(found)


def _deprecation(group: str, version: Object, kind: str) -> str | None:
    if not version.get("deprecated"):
        return None
    given: str | None = version.get("deprecationWarning")
    return given or f"{group}/{version['name']} {kind} is deprecated"


class Definitions:
    """Keeps the table of resources in step with the CRDs in the store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        for entry in core.store.collection(KEY).entries.values():
            self._serve(decode(entry.body))
        core.reactions.append(self.react)

    def react(self, resource: Resource, value: Object, gone: bool) -> None:
        """React to one change of any object."""
        if resource.key == KEY:
            self._follow(resource, value, gone=gone)
        elif gone and resource.custom is not None:
            self._finish(f"{resource.plural}.{resource.group}")

    def _follow(self, resource: Resource, value: Object, *, gone: bool) -> None:
        name = value["metadata"]["name"]
        if gone:
            self._core.registry.withdraw(name)
            self._reconsider(resource, value["spec"]["group"])
            return
        if value["metadata"].get("deletionTimestamp"):
            self._end(resource, value)
            return
        crd = copied(value)
        status = crd.setdefault("status", {})
        wanted = self._status(crd)
        if status != wanted or FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            crd["status"] = wanted
            finalizers = crd["metadata"].setdefault("finalizers", [])
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)
            self._core.put(resource, crd)  # the change calls this again, and the CRD is served then
            return
        self._serve(crd)

    def _reconsider(self, resource: Resource, group: str) -> None:
        """Check again the definitions whose names conflicted with a deleted one."""
        for entry in list(self._core.store.collection(KEY).entries.values()):
            crd = decode(entry.body)
            if crd["spec"]["group"] == group and _condition(crd, "NamesAccepted") == "False":
                self._follow(resource, crd, gone=False)

    def _end(self, resource: Resource, value: Object) -> None:
        """Mark a definition as terminating, then delete its objects."""
        if _condition(value, "Terminating") == "True":
            self._empty(value["metadata"]["name"])
            return
        crd = copied(value)
        status = crd.setdefault("status", {})
        status["conditions"] = _conditions(
            status.get("conditions") or (), (_TERMINATING,), timestamp(self._core.clock())
        )
        self._core.put(resource, crd)  # the change calls this again, and the CRD is emptied then

    def _serve(self, crd: Object) -> None:
        if _condition(crd, "Established") != "True":
            return
        served = rows(crd)
        self._core.registry.serve(crd["metadata"]["name"], served)
        paths = tuple(
            dict.fromkeys(path for row in served if row.custom for path in row.custom.selectable)
        )
        for row in served[:1]:
            self._core.index.learn(self._core.store, row.key, paths)

    def _status(self, crd: Object) -> Object:
        status = dict(crd.get("status") or {})
        spec, names = crd["spec"], crd["spec"]["names"]
        stored = list(status.get("storedVersions") or ())
        storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
        if storage not in stored:
            stored.append(storage)
        taken = self._conflict(crd)
        if taken:
            accepted = ("False", taken[0], taken[1])
            established = ("False", "NotAccepted", "not all names are accepted")
        else:
            accepted = ("True", "NoConflicts", "no conflicts found")
            established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
            status["acceptedNames"] = names
        conditions = _conditions(
            status.get("conditions") or (),
            (("NamesAccepted", *accepted), ("Established", *established)),
            timestamp(self._core.clock()),
        )
        status.setdefault("acceptedNames", {"kind": "", "plural": ""})
        return status | {"conditions": conditions, "storedVersions": stored}

    def _conflict(self, crd: Object) -> tuple[str, str] | None:
        spec, own = crd["spec"], crd["metadata"]["name"]
        mine = {row.key for row in self._core.registry.of_crd(own)}
        others = [
            row
            for row in self._core.registry.resources()
            if row.group == spec["group"] and row.key not in mine
        ]
        kinds = {row.kind: row for row in others} | {row.list_name: row for row in others}
        words = {word for row in others for word in (row.plural, row.singular, *row.short_names)}
        names = spec["names"]
        if names["plural"] in words:
            return "PluralConflict", f'"{names["plural"]}" is already in use'
        if (names.get("singular") or names["kind"].lower()) in words:
            return "SingularConflict", f'"{names.get("singular")}" is already in use'
        for short in names.get("shortNames") or ():
            if short in words:
                return "ShortNamesConflict", f'"{short}" is already in use'
        if names["kind"] in kinds:
            return "KindConflict", f'"{names["kind"]}" is already in use'
        if (names.get("listKind") or f"{names['kind']}List") in kinds:
            return "ListKindConflict", f'"{names.get("listKind")}" is already in use'
        return None

    def _empty(self, name: str) -> None:
        served = self._core.registry.of_crd(name)
        if served:
            collection = self._core.store.collection(served[0].key)
            for entry in list(collection.entries.values()):
                if collection.entries.get(entry.key) is entry:
                    discard(self._core, served[0], decode(entry.body))
        self._finish(name)

    def _finish(self, name: str) -> None:
        crd = self._core.read(KEY, "", name)
        if crd is None or not crd["metadata"].get("deletionTimestamp"):
            return
        collection = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        if self._core.store.collection(collection).entries:
            return
        left = [one for one in crd["metadata"].get("finalizers") or () if one != FINALIZER]
        resource = self._core.resource(KEY)
        if left == (crd["metadata"].get("finalizers") or []):
            return
        crd["metadata"]["finalizers"] = left
        if left:
            self._core.put(resource, crd)
        else:
            del crd["metadata"]["finalizers"]
            self._core.remove(resource, crd)


def _condition(crd: Object, kind: str) -> str:
    """Return the status of a condition, or nothing where there is none."""
    found = (crd.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in found if one["type"] == kind), "")


def _conditions(
    before: Iterable[Object], wanted: Iterable[tuple[str, str, str, str]], now: str
) -> list[Object]:
    found = list(before)
    for kind, status, reason, message in wanted:
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        found = with_condition(found, new, now)
    return found
