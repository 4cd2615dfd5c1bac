"""Create, update and patch: the way of an object from a request's body into the store.

Decode, drop unknown fields, set defaults, apply the kind's own rules, mutating admission,
validation, validating admission, field ownership, commit. Every step may refuse. Admission may take
long, and other clients write meanwhile: an update that finds its object changed after admission
starts again from the new state, and fails with a conflict only if the caller named the version it
wanted to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubecontroller.client import Response
from kubelocal.apiserver.admission.chain import Admission, Review
from kubelocal.apiserver.apply.ownership import owned_after
from kubelocal.apiserver.calls import Call, Steps
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from kubelocal.apiserver.format.bodies import read_body
from kubelocal.apiserver.kinds import names
from kubelocal.apiserver.kinds.table import Registry, Resource
from kubelocal.apiserver.lifecycle.deletion import is_finished
from kubelocal.apiserver.lifecycle.namespaces import check_namespace
from kubelocal.apiserver.lifecycle.services import Addresses
from kubelocal.apiserver.objects.metadata import (
    fill_new,
    generate_name,
    keep_identity,
    tidy,
    timestamp,
)
from kubelocal.apiserver.objects.questions import complete, fill_defaults, find_problems
from kubelocal.apiserver.objects.strategy import prepare_create, prepare_status, prepare_update
from kubelocal.apiserver.storage.entries import Object, copied
from kubelocal.apiserver.storage.store import Entry
from kubelocal.apiserver.verbs.field_validation import (
    accept_fields,
    check_directive,
    unknown_fields,
)
from kubelocal.apiserver.verbs.patch import CUSTOM_PATCHES, PATCHES, Patched, patch_of
from kubelocal.apiserver.verbs.read import Reader, key_of

__all__ = ["Writer"]

_ATTEMPTS = 5
_NAMES = 8

Change = Callable[[Object, Entry], Object]
"""Makes the new object from the live one."""


class Writer:
    """Handles writes of whole objects and their status."""

    def __init__(
        self, core: Core, reader: Reader, admission: Admission, addresses: Addresses
    ) -> None:
        self._core = core
        self._reader = reader
        self._admission = admission
        self._addresses = addresses

    def create(self, call: Call) -> Steps[Response]:
        """Handle a POST to a collection."""
        value, duplicates = read_body(call, call.resource)
        check_directive(call)
        check_kind(call, value, self._core.registry)
        accept_fields(call, value, duplicates)
        entry = yield from self.add(call, value)
        return self._reader.show(call, entry, 201)

    def add(self, call: Call, new: Object, *, applied: bool = False) -> Steps[Entry]:
        """Create an object from a decoded body; `applied` ones already know their managers."""
        resource, metadata = call.resource, new["metadata"]
        if metadata.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise StatusError(500, "", text)
        self._place(call, metadata)
        check_namespace(self._core, resource, call.namespace, metadata.get("name", ""))
        self._name(call, metadata)
        fill_new(metadata, now=self._core.clock(), bits=self._core.bits)
        prepare_create(resource, new)
        fill_defaults(resource, new)
        tidy(new["metadata"])
        new = owned_after(call, None, new, now=self._now(), applied=applied)
        complete(resource, new)
        review = Review(call, "CREATE", new, None)
        new = yield from self._mutated(review)
        reservation = self._addresses.allocate(resource, new, None)
        try:
            self._check(call, new, None)
            yield from self._admission.validate(review.with_new(new))
            check_namespace(self._core, resource, call.namespace, metadata.get("name", ""))
            if key_of_new(call, new) in self._core.store.collection(resource.key).entries:
                raise already_exists(resource.group, resource.plural, new["metadata"]["name"])
            if call.dry_run:
                return self._core.preview(resource, new)
            reservation.keep()
            return self._core.put(resource, new)
        finally:
            reservation.release()

    def update(self, call: Call) -> Steps[Response]:
        """Handle a PUT of an object or its status."""
        value, duplicates = read_body(call, call.resource)
        check_directive(call)
        check_kind(call, value, self._core.registry)
        accept_fields(call, value, duplicates)
        given = value["metadata"].get("name")
        if not given:
            raise bad_request("name must be provided")
        if given != call.name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({call.name})"
            )
        if self._core.entry(call.resource.key, call.namespace, call.name) is None:
            return (yield from self._create_by_update(call, value))
        entry = yield from self.change(call, lambda _live, _entry: copied(value))
        return self._reader.show(call, entry, 200)

    def _create_by_update(self, call: Call, value: Object) -> Steps[Response]:
        resource = call.resource
        if call.subresource or not creates_on_update(resource.group, resource.kind):
            raise not_found(resource.group, resource.plural, call.name)
        if value["metadata"].get("uid"):
            raise not_found(resource.group, resource.plural, call.name)
        value["metadata"].pop("resourceVersion", None)
        entry = yield from self.add(call, value)
        return self._reader.show(call, entry, 201)

    def patch(self, call: Call) -> Steps[Response]:
        """Handle a PATCH of any type of an object or its status."""
        check_directive(call)
        patched = patch_of(call, PATCHES if call.resource.custom is None else CUSTOM_PATCHES)
        existing = self._core.entry(call.resource.key, call.namespace, call.name)
        if existing is None:
            if not patched.is_apply or call.subresource:
                raise not_found(call.resource.group, call.resource.plural, call.name)
            return (yield from self._create_by_apply(call, patched))

        def change(live: Object, _entry: Entry) -> Object:
            return patched.on(call, live, now=self._now())

        entry = yield from self.change(call, change, patched=patched)
        return self._reader.show(call, entry, 200)

    def _create_by_apply(self, call: Call, patched: Patched) -> Steps[Response]:
        if patched.intent.get("metadata", {}).get("uid"):
            raise conflict(
                call.resource.group,
                call.resource.plural,
                call.name,
                "uid mismatch: the provided object specified uid "
                f"{patched.intent['metadata']['uid']}, and no existing object was found",
            )
        new = patched.on(call, None, now=self._now())
        new["metadata"].pop("resourceVersion", None)
        entry = yield from self.add(call, new, applied=True)
        return self._reader.show(call, entry, 201)

    def change(
        self,
        call: Call,
        change: Change,
        *,
        patched: Patched | None = None,
        versionless: bool = False,
    ) -> Steps[Entry]:
        """Change an existing object, and remove it if that was its last finalizer."""
        for _ in range(_ATTEMPTS):
            entry = self._core.store.collection(call.resource.key).entries.get(key_of(call))
            if entry is None:
                raise not_found(call.resource.group, call.resource.plural, call.name)
            done = yield from self._attempt(call, entry, change, patched, versionless=versionless)
            if done is not None:
                return done
        raise conflict(call.resource.group, call.resource.plural, call.name)

    def _attempt(
        self,
        call: Call,
        entry: Entry,
        change: Change,
        patched: Patched | None,
        *,
        versionless: bool,
    ) -> Steps[Entry | None]:
        """Try once; nothing means that another client wrote during admission."""
        resource = call.resource
        live = self._core.load(resource, entry)
        new = change(copied(live), entry)
        if not versionless:
            self._check_precondition(call, new, live, patched)
        keep_identity(new["metadata"], live["metadata"])
        prepare = prepare_status if call.subresource == "status" else prepare_update
        fill_defaults(resource, new)
        prepare(resource, new, live)
        tidy(new["metadata"])
        applied = patched is not None and patched.is_apply
        new = owned_after(call, live, new, now=self._now(), applied=applied)
        review = Review(call, "UPDATE", new, live)
        new = yield from self._mutated(review)
        reservation = self._addresses.allocate(resource, new, live)
        try:
            self._check(call, new, live)
            yield from self._admission.validate(review.with_new(new))
            if self._core.store.collection(resource.key).entries.get(key_of(call)) is not entry:
                return None
            return self._commit(call, entry, new, live, reservation.keep)
        finally:
            reservation.release()

    def _mutated(self, review: Review) -> Steps[Object]:
        """Return the object after mutating admission; the writer owns the changes of webhooks."""
        before = review.new
        new = yield from self._admission.mutate(review)
        if new is not before:
            call = review.call
            unknown_fields(call, new)
            fill_defaults(call.resource, new)
            new = owned_after(call, before, new, now=self._now(), applied=False)
        tidy(new["metadata"])
        return new

    def _commit(
        self, call: Call, entry: Entry, new: Object, live: Object, keep: Callable[[], None]
    ) -> Entry:
        resource = call.resource
        new["metadata"]["resourceVersion"] = str(entry.version)
        if is_finished(new):
            if call.dry_run:
                return self._core.preview(resource, new)
            return self._core.remove(resource, new)
        if _same(new, live):
            return entry
        if call.dry_run:
            return self._core.preview(resource, new)
        keep()
        return self._core.put(resource, new)

    def _now(self) -> str:
        return timestamp(self._core.clock())

    def _check(self, call: Call, new: Object, live: Object | None) -> None:
        resource = call.resource
        found = names.metadata_problems(
            resource.group, resource.kind, new["metadata"], check_name=live is None
        )
        if live is not None:
            found += names.deleted_finalizers(live["metadata"], new["metadata"])
        found += find_problems(resource, new, live)
        if found:
            raise invalid(resource.group, resource.kind, new["metadata"].get("name", ""), found)

    def _check_precondition(
        self, call: Call, new: Object, live: Object, patched: Patched | None
    ) -> None:
        resource, metadata = call.resource, new["metadata"]
        given = metadata.get("resourceVersion")
        current = live["metadata"]["resourceVersion"]
        if not given and patched is None and not is_unconditional(resource):
            cause = names.invalid_version()
            raise invalid(resource.group, resource.plural, call.name, [cause])
        if given and not given.isdecimal():
            text = f'metadata.resourceVersion: "{given}" is not a number'
            raise StatusError(500, "", text)
        if given and given != current:
            raise conflict(resource.group, resource.plural, call.name)
        uid = metadata.get("uid")
        if uid and uid != live["metadata"]["uid"]:
            if patched is not None:
                cause = names.immutable_uid(uid)
                raise invalid(resource.group, resource.kind, call.name, [cause, cause])
            raise conflict(
                resource.group,
                resource.plural,
                call.name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta:"
                f" {live['metadata']['uid']}",
            )

    def _place(self, call: Call, metadata: dict[str, Any]) -> None:
        given = metadata.get("namespace", "")
        if not call.resource.namespaced:
            metadata.pop("namespace", None)
            return
        if given and given != call.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        metadata["namespace"] = call.namespace

    def _name(self, call: Call, metadata: dict[str, Any]) -> None:
        if metadata.get("name"):
            return
        base = metadata.get("generateName", "")
        if not base:
            cause = names.required_name()
            raise invalid(call.resource.group, call.resource.kind, "", [cause])
        taken = self._core.store.collection(call.resource.key).entries
        prefix = f"{call.namespace}/" if call.resource.namespaced else ""
        for _ in range(_NAMES):
            metadata["name"] = generate_name(base, self._core.bits)
            if prefix + metadata["name"] not in taken:
                return


def check_kind(call: Call, value: Object, registry: Registry) -> None:
    """Refuse a body of another kind or version than its path."""
    resource = call.resource
    kind, version = value.get("kind", ""), value.get("apiVersion", "")
    if resource.custom is None:
        kind = value["kind"] = kind or resource.kind
        version = value["apiVersion"] = version or resource.api_version
    if not kind or not version:
        missing = "Kind" if not kind else "apiVersion"
        text = call.request.body.decode("utf-8", "replace")
        shown = text[:30] + (" ..." if len(text) > 30 else "")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object"
            f" '{missing}' is missing in '{text[:1000]}' ({shown})"
        )
    if (kind, version) == (resource.kind, resource.api_version):
        return
    group, _, short = version.rpartition("/")
    if resource.custom is not None and kind == resource.kind:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if resource.custom is not None:
        name = (value.get("metadata") or {}).get("name", "")
        raise invalid(resource.group, kind, name, [names.wrong_kind(kind, resource.kind)])
    package = resource.group.partition(".")[0] or "core"
    why = (
        f"converting ({short}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        if registry.by_kind(group, short, kind) is not None
        else f'no kind "{kind}" is registered for version "{version}" in scheme'
        ' "pkg/runtime/scheme.go:110"'
    )
    raise bad_request(f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {why}')


def key_of_new(call: Call, new: Object) -> str:
    """Return the key of a new object."""
    name: str = new["metadata"]["name"]
    return f"{call.namespace}/{name}" if call.resource.namespaced else name


def _same(new: Object, live: Object) -> bool:
    """Return whether a write changes nothing but managers and times."""
    return _timeless(new) == _timeless(live)


def _timeless(value: Object) -> Object:
    metadata = dict(value["metadata"])
    metadata["managedFields"] = [
        {key: part for key, part in one.items() if key != "time"}
        for one in metadata.get("managedFields", ())
    ]
    return value | {"metadata": metadata}


_CREATES = {
    ("", "Endpoints"),
    ("", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
}
_CONDITIONAL = {
    ("coordination.k8s.io", "Lease"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("policy", "PodDisruptionBudget"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
}


def creates_on_update(group: str, kind: str) -> bool:
    """Return whether a PUT of a missing object creates it."""
    return (group, kind) in _CREATES


def is_unconditional(resource: Resource) -> bool:
    """Return whether a PUT may omit the version that it replaces."""
    return resource.custom is None and (resource.group, resource.kind) not in _CONDITIONAL
