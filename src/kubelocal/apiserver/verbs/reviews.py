"""TokenReviews and access reviews: objects that are evaluated and never stored."""

from __future__ import annotations

from typing import Any

from kubecontroller.client import Response
from kubelocal.apiserver.access.rbac import Attributes, Authorizer
from kubelocal.apiserver.access.tokens import AUDIENCE, Tokens
from kubelocal.apiserver.calls import Call, User
from kubelocal.apiserver.causes import invalid
from kubelocal.apiserver.errors import bad_request
from kubelocal.apiserver.errors import invalid as invalid_status
from kubelocal.apiserver.format.bodies import answer_object, read_body
from kubelocal.apiserver.storage.entries import Object
from kubelocal.apiserver.verbs.field_validation import accept_fields, check_directive

__all__ = ["REVIEWS", "Reviews"]

REVIEWS = {
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
    "TokenReview",
}
_AUTHORIZATION = "authorization.k8s.io"


class Reviews:
    """Evaluates review objects."""

    def __init__(self, authorizer: Authorizer, tokens: Tokens) -> None:
        self._authorizer = authorizer
        self._tokens = tokens

    def answer(self, call: Call, now: str) -> Response:
        """Evaluate one review."""
        value, duplicates = read_body(call, call.resource)
        check_directive(call)
        value["kind"], value["apiVersion"] = call.resource.kind, call.resource.api_version
        accept_fields(call, value, duplicates)
        spec = value.get("spec") or {}
        match call.resource.kind:
            case "TokenReview":
                value["status"] = self._token(spec)
            case "SelfSubjectReview":
                value["metadata"]["creationTimestamp"] = now
                value["status"] = {"userInfo": _person(call.user)}
            case "SelfSubjectRulesReview":
                value["status"] = self._rules(call.user, spec)
            case "SelfSubjectAccessReview":
                value["status"] = self._access(call.user, spec)
            case _:
                value["status"] = self._access(_subject(spec), spec)
        return answer_object(201, value, call)

    def _token(self, spec: Object) -> Object:
        token = spec.get("token")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or []
        user = self._tokens.identify(token, audiences or None)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {
            "authenticated": True,
            "user": _person(user),
            "audiences": audiences or [AUDIENCE],
        }

    def _access(self, user: User, spec: Object) -> Object:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = invalid("spec.resourceAttributes", resource, text)
            raise invalid_status(_AUTHORIZATION, "", "", [cause])
        if resource is not None:
            wanted = Attributes(
                verb=resource.get("verb", ""),
                group=resource.get("group", ""),
                resource=resource.get("resource", ""),
                subresource=resource.get("subresource", ""),
                name=resource.get("name", ""),
                namespace=resource.get("namespace", ""),
            )
        else:
            assert path is not None
            wanted = Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
        reason = self._authorizer.reason(user, wanted)
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}

    def _rules(self, user: User, spec: Object) -> Object:
        namespace = spec.get("namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        resources: list[dict[str, Any]] = []
        paths: list[dict[str, Any]] = []
        for rule in self._authorizer.rules(user, namespace):
            if rule.get("nonResourceURLs"):
                paths.append({key: rule[key] for key in ("verbs", "nonResourceURLs")})
            else:
                kept = ("verbs", "apiGroups", "resources", "resourceNames")
                resources.append({key: rule[key] for key in kept if rule.get(key)})
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _person(user: User) -> Object:
    person: Object = {"username": user.name}
    if user.uid:
        person["uid"] = user.uid
    person["groups"] = list(user.groups)
    if user.extra:
        person["extra"] = {key: list(values) for key, values in user.extra}
    return person


def _subject(spec: Object) -> User:
    if not spec.get("user") and not spec.get("groups"):
        text = "at least one of user or group must be specified"
        raise invalid_status(_AUTHORIZATION, "", "", [invalid("spec.user", "", text)])
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
