"""Which webhooks match a write, what they are sent, and what their response means. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from kubelocal.apiserver.calls import CallWebhook, User, WebhookFailed, WebhookReply
from kubelocal.apiserver.errors import StatusError
from kubelocal.apiserver.kinds.selectors import matches, selector_of
from kubelocal.apiserver.kinds.table import Resource
from kubelocal.apiserver.storage.entries import Object

__all__ = ["Hook", "Verdict", "concerns", "denial", "read_verdict", "review_body"]


class Hook(Struct, frozen=True):
    """One webhook of one configuration."""

    configuration: str
    value: dict[str, Any]

    @property
    def name(self) -> str:
        """Return the webhook's own name."""
        return str(self.value["name"])

    @property
    def timeout(self) -> int:
        """Return the seconds it may take."""
        return int(self.value.get("timeoutSeconds") or 10)

    @property
    def may_fail(self) -> bool:
        """Return whether a failure to call the webhook is ignored."""
        return bool(self.value.get("failurePolicy", "Fail") == "Ignore")

    @property
    def is_repeated(self) -> bool:
        """Return whether it is called again after changes of later webhooks."""
        return bool(self.value.get("reinvocationPolicy") == "IfNeeded")


class Verdict(Struct, frozen=True):
    """The response of a webhook."""

    allowed: bool
    patch: list[Any]
    warnings: tuple[str, ...] = ()
    status: dict[str, Any] | None = None


def concerns(
    hook: Hook,
    resource: Resource,
    subresource: str,
    operation: str,
    *,
    versions: tuple[str, ...],
    labels: Mapping[str, str],
    old_labels: Mapping[str, str] | None,
    namespace_labels: Mapping[str, str] | None,
) -> str | None:
    """Return the version in which a webhook wants to see a write; nothing if it does not match."""
    objects = selector_of(hook.value.get("objectSelector")) or ()
    seen = matches(objects, labels) or (old_labels is not None and matches(objects, old_labels))
    if not seen:
        return None
    spaces = selector_of(hook.value.get("namespaceSelector")) or ()
    if namespace_labels is not None and not matches(spaces, namespace_labels):
        return None
    candidates = [resource.version]
    if hook.value.get("matchPolicy", "Equivalent") == "Equivalent":
        candidates += [version for version in versions if version != resource.version]
    for version in candidates:
        for rule in hook.value.get("rules") or ():
            if _rule_fits(rule, resource, version, subresource, operation):
                return version
    return None


def _rule_fits(
    rule: Object, resource: Resource, version: str, subresource: str, operation: str
) -> bool:
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    for field, wanted in (
        ("operations", operation),
        ("apiGroups", resource.group),
        ("apiVersions", version),
    ):
        given = rule.get(field) or ()
        if wanted not in given and "*" not in given:
            return False
    return any(_names(one, resource.plural, subresource) for one in rule.get("resources") or ())


def _names(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, below = pattern.partition("/")
    return resource in {"*", plural} and below in {subresource, "*"}


def review_body(
    uid: str,
    resource: Resource,
    *,
    version: str,
    subresource: str,
    operation: str,
    name: str,
    namespace: str,
    user: User,
    new: Object | None,
    old: Object | None,
    options: Object,
    dry_run: bool,
) -> bytes:
    """Return the AdmissionReview for a webhook."""
    api_version = f"{resource.group}/{version}" if resource.group else version

    def kind(at: str) -> Object:
        return {"group": resource.group, "version": at, "kind": resource.kind}

    def place(at: str) -> Object:
        return {"group": resource.group, "version": at, "resource": resource.plural}

    def at_version(value: Object | None) -> Object | None:
        return None if value is None else value | {"apiVersion": api_version}

    person: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        person["uid"] = user.uid
    if user.extra:
        person["extra"] = {key: list(values) for key, values in user.extra}
    request: Object = {
        "uid": uid,
        "kind": kind(version),
        "resource": place(version),
        "requestKind": kind(resource.version),
        "requestResource": place(resource.version),
        "name": name,
        "namespace": namespace,
        "operation": operation,
        "userInfo": person,
        "object": at_version(new),
        "oldObject": at_version(old),
        "dryRun": dry_run,
        "options": options,
    }
    if subresource:
        request |= {"subResource": subresource, "requestSubResource": subresource}
    if not namespace:
        del request["namespace"]
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    )


def read_verdict(
    call: CallWebhook, outcome: WebhookReply | WebhookFailed, uid: str
) -> Verdict | str:
    """Return the verdict of a webhook, or why its response is invalid."""
    if isinstance(outcome, WebhookFailed):
        return f"failed to call webhook: {outcome.why}"
    if outcome.status != 200:
        return (
            "failed to call webhook: the server responded with the status code"
            f" {outcome.status} but did not return more information"
        )
    try:
        review = msgspec.json.decode(outcome.body, type=dict[str, Any])
        answer = review.get("response")
        if not isinstance(answer, dict):
            return (
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got none"
            )
        if answer.get("uid") != uid:
            return f'expected response.uid="{uid}", got "{answer.get("uid", "")}"'
        patch = answer.get("patch")
        if patch and answer.get("patchType") != "JSONPatch":
            return "webhook returned response.patch but not response.patchType"
        operations = msgspec.json.decode(base64.b64decode(patch)) if patch else []
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError) as error:
        return f"failed to call webhook: the response of {call.url} cannot be read: {error}"
    return Verdict(
        allowed=answer.get("allowed") is True,
        patch=operations,
        warnings=tuple(str(text) for text in answer.get("warnings") or ()),
        status=answer.get("status"),
    )


def denial(name: str, status: Mapping[str, Any] | None) -> StatusError:
    """Return the error that passes on a webhook's denial."""
    given = dict(status or {})
    text = f'admission webhook "{name}" denied the request'
    reason = given.get("reason") or ""
    why = given.get("message") or reason
    text += f": {why}" if why else " without explanation"
    code = given.get("code") or 0
    return StatusError(max(code, 400), reason, text, details=given.get("details"))
