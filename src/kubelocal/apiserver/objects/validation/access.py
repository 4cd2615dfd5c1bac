"""What Go checks in roles, their bindings, and webhook configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from kubelocal.apiserver.causes import Cause, Fields, invalid, not_supported, required
from kubelocal.apiserver.objects.validation.syntax import choice, dns_subdomain, unique

__all__ = ["check_binding", "check_role", "check_webhooks"]

_RBAC = "rbac.authorization.k8s.io"
_KINDS = ("ServiceAccount", "User", "Group")
_Check = Callable[[dict[str, Any], dict[str, Any] | None], Iterator[Cause]]


def check_role(*, namespaced: bool) -> _Check:
    """Give the check of a Role or of a ClusterRole."""

    def check(role: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
        for index, rule in enumerate(role.get("rules") or ()):
            yield from _check_rule(f"rules[{index}]", rule, namespaced=namespaced)

    return check


def _check_rule(path: str, rule: dict[str, Any], *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        elif rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, text)
        return
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        yield required(f"{path}.apiGroups", text)
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        yield required(f"{path}.resources", text)


def check_binding(*, namespaced: bool) -> _Check:
    """Give the check of a RoleBinding or of a ClusterRoleBinding."""
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]

    def check(binding: dict[str, Any], old: dict[str, Any] | None) -> Iterator[Cause]:
        role = binding.get("roleRef") or {}
        if role.get("apiGroup") != _RBAC:
            yield not_supported("roleRef.apiGroup", role.get("apiGroup", ""), [_RBAC])
        if role.get("kind") not in kinds:
            yield not_supported("roleRef.kind", role.get("kind", ""), kinds)
        if not role.get("name"):
            yield required("roleRef.name")
        for index, subject in enumerate(binding.get("subjects") or ()):
            yield from _check_subject(f"subjects[{index}]", subject)
            if not namespaced and subject.get("kind") == _KINDS[0] and not subject.get("namespace"):
                yield required(f"subjects[{index}].namespace")
        if old is not None and role != old.get("roleRef"):
            shown = Fields(
                APIGroup=role.get("apiGroup"), Kind=role.get("kind"), Name=role.get("name")
            )
            yield invalid("roleRef", shown, "cannot change roleRef")

    return check


def _check_subject(path: str, subject: dict[str, Any]) -> Iterator[Cause]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if not name:
        yield required(f"{path}.name")
    if kind not in _KINDS:
        yield not_supported(f"{path}.kind", kind, _KINDS)
        return
    wanted = "" if kind == "ServiceAccount" else _RBAC
    if subject.get("apiGroup", "") != wanted:
        yield not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), [wanted])
    if kind == "ServiceAccount" and name:
        yield from dns_subdomain(f"{path}.name", name)


def check_webhooks(configuration: dict[str, Any], _: dict[str, Any] | None) -> Iterator[Cause]:
    """Check a webhook configuration of either kind."""
    webhooks = configuration.get("webhooks") or []
    for index, webhook in enumerate(webhooks):
        yield from _check_webhook(f"webhooks[{index}]", webhook)
    yield from unique("webhooks", webhooks)


def _check_webhook(path: str, webhook: dict[str, Any]) -> Iterator[Cause]:
    name = webhook.get("name", "")
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", name, text)
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from _check_webhook_rule(f"{path}.rules[{index}]", rule)
    yield from choice(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    policies = ("Equivalent", "Exact")
    yield from choice(f"{path}.matchPolicy", webhook.get("matchPolicy"), policies)
    effects = ("None", "NoneOnDryRun")
    if webhook.get("sideEffects") is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    else:
        yield from choice(f"{path}.sideEffects", webhook["sideEffects"], effects)
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 0 < timeout < 31:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", timeout, text)
    yield from _check_client(f"{path}.clientConfig", webhook.get("clientConfig") or {})
    versions = webhook.get("admissionReviewVersions")
    place = f"{path}.admissionReviewVersions"
    if not versions:
        yield required(place, "must specify one of v1, v1beta1")
    elif not {"v1", "v1beta1"} & set(versions):
        yield invalid(place, versions, "must include at least one of v1, v1beta1")


def _check_webhook_rule(path: str, rule: dict[str, Any]) -> Iterator[Cause]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    operations = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
    for index, operation in enumerate(rule.get("operations") or ()):
        yield from choice(f"{path}.operations[{index}]", operation, operations)


def _check_client(path: str, client: dict[str, Any]) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
        return
    if url is not None and urlsplit(url).scheme != "https":
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid(f"{path}.url", urlsplit(url).scheme, text)
    for field in ("name", "namespace"):
        if service is not None and not service.get(field):
            yield required(f"{path}.service.{field}")
