"""Admission: what may change or refuse a write between its decoding and its commit.

First the server's own plugins, then mutating webhooks one after another, each seeing the changes of
those before it; after validation, the validating ones, and quotas last. The core does no I/O: it
yields `CallWebhook` and is sent the outcome.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from kubelocal.apiserver.access.rbac import RBAC, Authorizer, check_escalation
from kubelocal.apiserver.admission.plugins import Plugins
from kubelocal.apiserver.admission.quota import check_quota_of_new
from kubelocal.apiserver.admission.webhook_rules import (
    Hook,
    Verdict,
    concerns,
    denial,
    read_verdict,
    review_body,
)
from kubelocal.apiserver.calls import Call, CallWebhook, Outcome, Steps
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import StatusError, bad_request, internal
from kubelocal.apiserver.objects.metadata import new_uid
from kubelocal.apiserver.patch.json_patch import PatchError, json_patch
from kubelocal.apiserver.storage.entries import Object, copied, decode

__all__ = ["Admission", "Review"]

_GROUP = "admissionregistration.k8s.io"
_MUTATING = f"mutatingwebhookconfigurations.{_GROUP}"
_VALIDATING = f"validatingwebhookconfigurations.{_GROUP}"
_QUIET = ("None", "NoneOnDryRun")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Review(Struct, frozen=True):
    """One write as admission sees it."""

    call: Call
    operation: str
    new: Object | None
    old: Object | None

    def with_new(self, new: Object) -> Review:
        """Return the review of a changed object."""
        return replace(self, new=new)


class Admission:
    """Built-in admission and webhooks."""

    def __init__(self, core: Core, authorizer: Authorizer) -> None:
        self._core = core
        self._authorizer = authorizer
        self._plugins = Plugins(core)

    def mutate(self, review: Review) -> Steps[Object]:
        """Return the object after plugins and mutating webhooks."""
        assert review.new is not None
        self._plugins.admit(review.call.resource, review.new, review.old)
        last: dict[str, Object] = {}  # the object after each webhook
        for hook, version in list(self._hooks(review, _MUTATING)):
            review = yield from self._mutate_once(review, hook, version)
            assert review.new is not None
            last[hook.name] = review.new
        for hook, version in list(self._hooks(review, _MUTATING)):
            if hook.is_repeated and last.get(hook.name) != review.new:
                review = yield from self._mutate_once(review, hook, version)
        assert review.new is not None
        return review.new

    def _mutate_once(self, review: Review, hook: Hook, version: str) -> Steps[Review]:
        verdict = yield from self._ask(review, hook, version)
        if verdict is None or not verdict.patch:
            return review
        try:
            shown = copied(review.new) or {}
            changed: Object = json_patch(shown, verdict.patch)
        except PatchError as error:
            raise internal(f'patch of webhook "{hook.name}": {error.message}') from error
        changed["apiVersion"] = review.call.resource.api_version
        return review.with_new(changed)

    def validate(self, review: Review) -> Steps[None]:
        """Refuse a write that a validating webhook does not allow."""
        if review.new is not None and review.call.resource.group == RBAC:
            check_escalation(self._authorizer, review.call.user, review.new, review.call.namespace)
        for hook, version in list(self._hooks(review, _VALIDATING)):
            yield from self._ask(review, hook, version)
        if review.operation == "CREATE" and review.new is not None:
            check_quota_of_new(self._core, review.call.resource, review.new)

    def _hooks(self, review: Review, collection: str) -> Iterator[tuple[Hook, str]]:
        """Yield the webhooks that match a write, with the version that each wants."""
        home = self._core.store.collection(collection)
        call = review.call
        if not home.entries or call.resource.group == _GROUP:
            return
        versions = tuple(
            one.version for one in self._core.registry.resources() if one.key == call.resource.key
        )
        for key in list(home.keys()):
            configuration = decode(home.entries[key].body)
            for value in configuration.get("webhooks") or ():
                hook = Hook(key, value)
                version = concerns(
                    hook,
                    call.resource,
                    call.subresource,
                    review.operation,
                    versions=versions,
                    labels=_labels(review.new if review.new is not None else review.old),
                    old_labels=None if review.old is None else _labels(review.old),
                    namespace_labels=self._namespace_labels(review),
                )
                if version is not None:
                    yield hook, version

    def _namespace_labels(self, review: Review) -> dict[str, str] | None:
        call = review.call
        if call.resource.key == "namespaces":
            return _labels(review.new if review.new is not None else review.old)
        if not call.resource.namespaced:
            return None
        entry = self._core.entry("namespaces", "", call.namespace)
        return {} if entry is None else dict(entry.labels)

    def _ask(self, review: Review, hook: Hook, version: str) -> Steps[Verdict | None]:
        """Call one webhook; nothing if the call fails and its failure policy is Ignore."""
        call = review.call
        if call.dry_run and hook.value.get("sideEffects") not in _QUIET:
            raise bad_request(
                f"admission webhook {hook.name!r} does not support dry run".replace("'", '"')
            )
        uid = new_uid(self._core.bits)
        try:
            effect = self._call(review, hook, version, uid)
        except StatusError as error:
            verdict: Verdict | str = f"failed to call webhook: {error.message}"
        else:
            outcome: Outcome = yield effect
            verdict = read_verdict(effect, outcome, uid)
        if isinstance(verdict, str):
            if hook.may_fail:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {verdict}')
        call.warnings.extend(verdict.warnings)
        if not verdict.allowed:
            raise denial(hook.name, verdict.status)
        return verdict

    def _call(self, review: Review, hook: Hook, version: str, uid: str) -> CallWebhook:
        call = review.call
        config = hook.value["clientConfig"]
        bundle = config.get("caBundle")
        url, address, server_name = self._target(config)
        subject = review.new if review.new is not None else review.old or {}
        options: Object = {
            "kind": _OPTIONS[review.operation],
            "apiVersion": "meta.k8s.io/v1",
        }
        for key in ("fieldManager", "fieldValidation"):
            if call.options.get(key) and review.operation != "DELETE":
                options[key] = call.options[key]
        if call.dry_run:
            options["dryRun"] = ["All"]
        body = review_body(
            uid,
            call.resource,
            version=version,
            subresource=call.subresource,
            operation=review.operation,
            name=subject["metadata"].get("name", ""),
            namespace=call.namespace
            if call.resource.namespaced
            else (subject["metadata"]["name"] if call.resource.key == "namespaces" else ""),
            user=call.user,
            new=review.new,
            old=review.old,
            options=options,
            dry_run=call.dry_run,
        )
        return CallWebhook(
            url=f"{url}?timeout={hook.timeout}s",
            address=address,
            ca_bundle=base64.b64decode(bundle) if bundle else None,
            server_name=server_name,
            body=body,
            timeout=float(hook.timeout),
        )

    def _target(self, config: Object) -> tuple[str, str, str | None]:
        """Return a webhook's URL, where to connect instead of its host, and its server name."""
        service = config.get("service")
        if service is None:
            return str(config["url"]), "", None
        namespace, name = service["namespace"], service["name"]
        found = self._core.read("services", namespace, name)
        if found is None:
            raise StatusError(404, "NotFound", f'service "{name}" not found')
        port = service.get("port") or 443
        host = f"{name}.{namespace}.svc"
        path = service.get("path") or "/"
        address = (found.get("spec") or {}).get("clusterIP") or ""
        if address in {"", "None"}:
            raise StatusError(
                503, "ServiceUnavailable", f'service "{name}" has no address of its own'
            )
        return f"https://{host}:{port}{path}", f"{address}:{port}", host


def _labels(value: Object | None) -> dict[str, str]:
    return dict((value or {}).get("metadata", {}).get("labels") or {})
