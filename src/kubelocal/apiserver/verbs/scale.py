"""The scale subresource: desired and observed replicas, the same for every kind.

Reading derives a Scale from the object; writing changes only the desired number in the object.
"""

from __future__ import annotations

import copy
from typing import Any

from kubecontroller.client import APPLY_PATCH, Response
from kubelocal.apiserver.calls import Call, Steps
from kubelocal.apiserver.causes import invalid as invalid_cause
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import StatusError, bad_request, conflict, invalid
from kubelocal.apiserver.format.bodies import answer_object, read_body, read_patch
from kubelocal.apiserver.kinds.selectors import selector_text
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.patch.json_patch import PatchError, json_patch, merge_patch
from kubelocal.apiserver.storage.entries import Object, value_at
from kubelocal.apiserver.storage.store import Entry
from kubelocal.apiserver.verbs.patch import PATCHES, unpatched
from kubelocal.apiserver.verbs.write import Writer

__all__ = ["Scaling", "scale_of"]

_BUILT_IN = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _paths(resource: Resource) -> dict[str, Any]:
    return _BUILT_IN if resource.custom is None else (resource.custom.scale or {})


def scale_of(resource: Resource, value: Object) -> Object:
    """Return the Scale of an object."""
    paths = _paths(resource)
    wanted = value_at(value, paths["specReplicasPath"].lstrip(".")) or 0
    seen = value_at(value, paths["statusReplicasPath"].lstrip(".")) or 0
    status: Object = {"replicas": seen}
    place = paths.get("labelSelectorPath")
    selector = value_at(value, place.lstrip(".")) if place else None
    if selector:
        status["selector"] = selector if isinstance(selector, str) else selector_text(selector)
    metadata = value["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _KEPT if key in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


class Scaling:
    """Handles requests on the scale of an object."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    def answer(self, call: Call, verb: str) -> Steps[Response]:
        """Read or write a scale."""
        if verb == "get":
            return answer_object(200, scale_of(call.resource, self._core.live(call)), call)
        if verb == "update":
            given, _ = read_body(call)
            return (yield from self._write(call, lambda _scale: given))
        return (yield from self._patch(call))

    def _patch(self, call: Call) -> Steps[Response]:
        media, patch = read_patch(call, PATCHES)

        def change(scale: Object) -> Object:
            try:
                if media == PATCHES[0]:
                    result: Object = json_patch(scale, patch)
                else:
                    result = merge_patch(scale, patch)
            except PatchError as error:
                raise unpatched(error) from error
            return result

        if media == APPLY_PATCH and not call.options.get("fieldManager"):
            raise bad_request("fieldManager is required for apply patch")
        return (yield from self._write(call, change))

    def _write(self, call: Call, change: Any) -> Steps[Response]:
        resource = call.resource
        path = _paths(resource)["specReplicasPath"].lstrip(".").split(".")

        def scaled(live: Object, entry: Entry) -> Object:
            before = scale_of(resource, live)
            after = change(copy.deepcopy(before))
            self._check(call, after, entry)
            wanted = (after.get("spec") or {}).get("replicas") or 0
            place = live
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = wanted
            return live

        entry = yield from self._writer.change(call, scaled, versionless=True)
        value = self._core.load(resource, entry)
        return answer_object(200, scale_of(resource, value), call)

    def _check(self, call: Call, scale: Object, entry: Entry) -> None:
        metadata = scale.get("metadata") or {}
        version = metadata.get("resourceVersion")
        if version and version != str(entry.version):
            raise conflict(call.resource.group, call.resource.plural, call.name)
        if metadata.get("name", call.name) != call.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL"
                f" ({call.name})"
            )
        wanted = (scale.get("spec") or {}).get("replicas") or 0
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            raise _unscaled("json: cannot unmarshal value into Go struct field spec.replicas")
        if wanted < 0 and call.resource.custom is None:
            text = "must be greater than or equal to 0"
            cause = invalid_cause("spec.replicas", wanted, text)
            raise invalid("autoscaling", "Scale", call.name, [cause])


def _unscaled(text: str) -> StatusError:
    return bad_request(f'Scale in version "v1" cannot be handled as a Scale: {text}')
