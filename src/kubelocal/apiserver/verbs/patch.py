"""The four types of patch, as one value that makes the new object from the live one."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kubecontroller.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from kubelocal.apiserver.apply.merge import ApplyConflict, ApplyError, apply
from kubelocal.apiserver.apply.ownership import ignored_by
from kubelocal.apiserver.calls import Call
from kubelocal.apiserver.causes import Cause, forbidden, required
from kubelocal.apiserver.errors import StatusError, bad_request, invalid
from kubelocal.apiserver.format.bodies import read_patch
from kubelocal.apiserver.format.field_types import type_name
from kubelocal.apiserver.objects.questions import schema_for
from kubelocal.apiserver.patch.json_patch import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge,
)
from kubelocal.apiserver.storage.entries import Object, copied
from kubelocal.apiserver.verbs.field_validation import (
    check_metadata,
    is_plain,
    report,
    strict_text,
    type_problem,
    unknown_fields,
)

__all__ = ["CUSTOM_PATCHES", "PATCHES", "Patched", "patch_of", "unpatched"]

CUSTOM_PATCHES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


class Patched(Struct, frozen=True):
    """A decoded patch."""

    media: str
    intent: Any

    @property
    def is_apply(self) -> bool:
        """Return whether this is a server-side apply."""
        return self.media == APPLY_PATCH

    def on(self, call: Call, live: Object | None, *, now: str) -> Object:
        """Return the patched object; `live` may be changed."""
        if self.is_apply:
            return _applied(call, live, copied(self.intent), now)
        schema = schema_for(call.resource)
        try:
            match self.media:
                case "application/json-patch+json":
                    result = json_patch(live, self.intent)
                case "application/merge-patch+json":
                    result = merge_patch(live, self.intent)
                case _:
                    result = strategic_merge(schema, live, self.intent)
        except PatchError as error:
            raise unpatched(error) from error
        return _whole(call, result)


def patch_of(call: Call, accepted: tuple[str, ...]) -> Patched:
    """Decode the patch of a request."""
    media, intent = read_patch(call, accepted)
    if media != APPLY_PATCH:
        if call.options.get("force"):
            cause = forbidden("force", "may not be specified for non-apply patch")
            raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
        is_list = media == JSON_PATCH
        if not isinstance(intent, list if is_list else dict):
            wanted = "a list of operations" if is_list else "an object"
            raise bad_request(f"error decoding patch: it must be {wanted}, not {type_name(intent)}")
        return Patched(media, intent)
    if not call.options.get("fieldManager"):
        cause = required("fieldManager", "is required for apply patch")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not isinstance(intent, dict):
        raise bad_request("error decoding YAML: the patch must be an object")
    _check_intent(call, intent)
    return Patched(media, intent)


def _check_intent(call: Call, intent: Object) -> None:
    resource = call.resource
    if not intent.get("apiVersion") or not intent.get("kind"):
        group, _, version = intent.get("apiVersion", "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={intent.get('kind', '')}")
    if intent.get("apiVersion") != resource.api_version or intent.get("kind") != resource.kind:
        raise bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: "
            f"{intent.get('apiVersion')}, expected: {resource.api_version}"
        )
    check_metadata(resource, intent)
    metadata = intent["metadata"]
    if metadata.get("name", call.name) != call.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL"
            f" ({call.name})"
        )
    if resource.namespaced and metadata.get("namespace", call.namespace) != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def _applied(call: Call, live: Object | None, intent: Object, now: str) -> Object:
    resource = call.resource
    if live is None and not intent["metadata"].get("name"):
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be"
            " provided"
        )
    try:
        result = apply(
            schema_for(resource),
            live,
            intent,
            manager=call.manager,
            force=call.flag("force"),
            version=resource.api_version,
            subresource=call.subresource,
            now=now,
            reset=ignored_by(resource, call.subresource),
        )
    except ApplyConflict as error:
        raise _contested(error) from error
    except ApplyError as error:
        reason = "" if error.status == 500 else error.reason
        raise StatusError(error.status, reason, error.message) from error
    if resource.namespaced:
        result["metadata"]["namespace"] = call.namespace
    return result


def _contested(error: ApplyConflict) -> StatusError:
    causes = [
        {"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field}
        for cause in error.causes
    ]
    return StatusError(409, "Conflict", error.message, details={"causes": causes})


def _whole(call: Call, result: Any) -> Object:
    """Return the result of a patch, if it is still an object of its kind."""
    if not isinstance(result, dict):
        raise bad_request("the patch leaves no object")
    resource = call.resource
    if (result.get("kind"), result.get("apiVersion")) != (resource.kind, resource.api_version):
        raise _unfit(
            f'no kind "{result.get("kind")}" is registered for version'
            f' "{result.get("apiVersion")}"',
        )
    if not is_plain(call, result):
        problem = type_problem(call, result)
        if problem is not None:
            raise _unfit(problem)
        found = unknown_fields(call, result)
        report(call, found, lambda: _unfit(strict_text(found)))
    if result["metadata"].get("name") != call.name:
        raise bad_request(
            f"the name of the object ({result['metadata'].get('name', '')}) does not match the"
            f" name on the URL ({call.name})"
        )
    return result


def _unfit(problem: str) -> StatusError:
    return invalid("", "", "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {problem}")])


def unpatched(error: PatchError) -> StatusError:
    """Return the error for a patch that cannot be applied."""
    if error.status != 422:
        return StatusError(error.status, error.reason, error.message)
    return StatusError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )
