"""DELETE of one object or of a collection, from options to the response."""

from __future__ import annotations

from msgspec.structs import replace

from kubecontroller.client import Response
from kubelocal.apiserver.admission.chain import Admission, Review
from kubelocal.apiserver.calls import Call, Steps
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.custom.schema import at_version
from kubelocal.apiserver.errors import StatusError, bad_request, forbidden, not_found, success
from kubelocal.apiserver.format.bodies import answer, answer_object, read_body
from kubelocal.apiserver.lifecycle.deletion import (
    Keep,
    Mark,
    Options,
    check_preconditions,
    decide,
    read_options,
)
from kubelocal.apiserver.storage.entries import Object, encode
from kubelocal.apiserver.storage.store import Entry
from kubelocal.apiserver.verbs.read import Reader, key_of

__all__ = ["Remover"]

_SHOWN = {
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storageclasses.storage.k8s.io",
}
"""Kinds whose deletion responds with the object rather than with a Status."""

_PROTECTED = ("default", "kube-system", "kube-public")


class Remover:
    """Handles deletions."""

    def __init__(self, core: Core, reader: Reader, admission: Admission) -> None:
        self._core = core
        self._reader = reader
        self._admission = admission

    def delete(self, call: Call) -> Steps[Response]:
        """Handle a DELETE of one object."""
        options, dry = self._options(call)
        resource = call.resource
        if resource.key == "namespaces" and call.name in _PROTECTED:
            raise forbidden("", "namespaces", call.name, "this namespace may not be deleted")
        entry, is_gone = yield from self.remove(call, options, dry=dry)
        if not is_gone or resource.key in _SHOWN:
            return self._reader.show(call, entry, 200)
        status = success(resource.group, resource.plural, call.name, entry.uid)
        return answer_object(200, status, call)

    def collection(self, call: Call) -> Steps[Response]:
        """Handle a DELETE of everything that a selection includes."""
        options, dry = self._options(call)
        entries = self._reader.select(call)
        bodies = [at_version(call.resource, entry.body) for entry in entries]
        for entry in entries:
            one = replace(call, name=entry.name, namespace=entry.namespace)
            if self._entry(one) is not None:
                yield from self.remove(one, options, dry=dry)
        head = encode(
            {
                "kind": call.resource.list_name,
                "apiVersion": call.resource.api_version,
                "metadata": {"resourceVersion": str(self._core.store.version)},
            }
        )
        return answer(200, head[:-1] + b',"items":[' + b",".join(bodies) + b"]}", call)

    def remove(
        self, call: Call, options: Options, *, dry: bool = False
    ) -> Steps[tuple[Entry, bool]]:
        """Delete the object of a call; return its current state and whether it is gone."""
        while True:
            entry = self._entry(call)
            if entry is None:
                raise not_found(call.resource.group, call.resource.plural, call.name)
            value = self._core.load(call.resource, entry)
            check_preconditions(call.resource, value, options)
            yield from self._admission.validate(Review(call, "DELETE", None, value))
            if self._entry(call) is entry:
                return self._carry_out(call, entry, value, options, dry=dry)

    def _carry_out(
        self, call: Call, entry: Entry, value: Object, options: Options, *, dry: bool
    ) -> tuple[Entry, bool]:
        decision = decide(call.resource, value, options, self._core.clock())
        if isinstance(decision, Keep):
            return entry, False
        if dry:
            return self._core.preview(call.resource, decision.value), not isinstance(decision, Mark)
        if isinstance(decision, Mark):
            return self._core.put(call.resource, decision.value), False
        self._core.remove(call.resource, decision.value)
        return entry, True

    def _entry(self, call: Call) -> Entry | None:
        return self._core.store.collection(call.resource.key).entries.get(key_of(call))

    def _options(self, call: Call) -> tuple[Options, bool]:
        body: Object = {}
        if call.request.body:
            body, _ = read_body(call)
            if body.get("kind", "DeleteOptions") != "DeleteOptions":
                raise StatusError(
                    500,
                    "",
                    f'no kind "{body["kind"]}" is registered for version'
                    f' "{body.get("apiVersion", "")}" in scheme "pkg/runtime/scheme.go:110"',
                )
        options, dry = read_options(body, dict(call.options))
        if dry not in {"", "All"}:
            raise bad_request(f'Unsupported value: "{dry}": supported values: "All"')
        return options, dry == "All"
