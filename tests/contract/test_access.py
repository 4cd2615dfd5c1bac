"""Who may do what: tokens of service accounts, roles, reviews."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from contract.driver import MERGE, Space, until


def token(space: Space, account: str = "robot", **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return space.post(f"serviceaccounts/{account}/token", body).object


@pytest.fixture
def robot(space: Space) -> Space:
    """The same namespace for the bearer of a service account's token."""
    space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    return space.bearing(token(space)["status"]["token"])


def allow(
    space: Space, *verbs: str, resources: tuple[str, ...] = ("configmaps",), **rule: Any
) -> None:
    """Bind a role to the robot, and wait until it counts."""
    rules = [{"apiGroups": [""], "resources": list(resources), "verbs": list(verbs), **rule}]
    space.create("roles", {"metadata": {"name": "r"}, "rules": rules})
    bind(space, {"kind": "Role", "name": "r"})
    review = {"namespace": space.name, "verb": verbs[0], "resource": resources[0].split("/")[0]}
    if "/" in resources[0]:
        review["subresource"] = resources[0].split("/")[1]
    if "resourceNames" in rule:
        review["name"] = rule["resourceNames"][0]
    until("the role counts", lambda: may(space, **review))


def bind(space: Space, role: dict[str, str]) -> None:
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space.name}
    whole = {**role, "apiGroup": "rbac.authorization.k8s.io"}
    body = {"metadata": {"name": "b"}, "roleRef": whole, "subjects": [subject]}
    space.create("rolebindings", body)


def user(space: Space) -> str:
    return f"system:serviceaccount:{space.name}:robot"


def review(space: Space, **attributes: Any) -> dict[str, Any]:
    groups = [
        "system:serviceaccounts",
        f"system:serviceaccounts:{space.name}",
        "system:authenticated",
    ]
    spec = {"user": user(space), "groups": groups, "resourceAttributes": attributes}
    reply = space.post("subjectaccessreviews", {"spec": spec})
    assert reply.status == 201
    status: dict[str, Any] = reply.json["status"]
    return status


def may(space: Space, **attributes: Any) -> bool:
    return bool(review(space, **attributes)["allowed"])


def test_token_request_gives_a_token(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    found = token(space, expirationSeconds=600)
    assert (found["kind"], found["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert found["status"]["token"].count(".") == 2
    assert found["status"]["expirationTimestamp"] > found["metadata"]["creationTimestamp"]
    assert found["spec"]["expirationSeconds"] == 600


def test_token_request_defaults_to_an_hour(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    assert token(space)["spec"]["expirationSeconds"] == 3600


def test_token_may_not_be_too_short(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    body = {"spec": {"expirationSeconds": 5}}
    reply = space.post("serviceaccounts/robot/token", body)
    reply.refused(422)
    assert reply.causes() == {
        (
            "spec.expirationSeconds",
            "FieldValueInvalid",
            "Invalid value: 5: may not specify a duration less than 10 minutes",
        )
    }


def test_token_of_an_absent_account_is_not_found(space: Space) -> None:
    space.post("serviceaccounts/none/token", {"spec": {}}).refused(404, "NotFound")


def test_token_review_knows_the_token(space: Space) -> None:
    space.create("serviceaccounts", {"metadata": {"name": "robot"}})
    uid = space.read("serviceaccounts/robot")["metadata"]["uid"]
    bearer = token(space)["status"]["token"]
    status = space.post("tokenreviews", {"spec": {"token": bearer}}).object["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == user(space)
    assert status["user"]["uid"] == uid
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{space.name}",
        "system:authenticated",
    ]


def test_token_review_does_not_know_nonsense(space: Space) -> None:
    status = space.post("tokenreviews", {"spec": {"token": "nonsense"}}).object["status"]
    assert not status.get("authenticated")
    assert status["user"] == {}


def test_token_of_a_deleted_account_is_worthless(space: Space, robot: Space) -> None:
    space.delete("serviceaccounts/robot").done()
    until("the token is refused", lambda: robot.get("configmaps").status == 401)


def test_account_without_a_role_is_forbidden(space: Space, robot: Space) -> None:
    status = robot.get("configmaps/a").refused(403, "Forbidden")
    assert status["message"] == (
        f'configmaps "a" is forbidden: User "{user(space)}" cannot get resource "configmaps" in'
        f' API group "" in the namespace "{space.name}"'
    )
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_account_may_do_what_its_role_says(space: Space, robot: Space) -> None:
    allow(space, "get", "list", "create")
    robot.create("configmaps", {"metadata": {"name": "a"}})
    robot.read("configmaps/a")
    robot.delete("configmaps/a").refused(403, "Forbidden")


@pytest.mark.parametrize(
    ("verb", "method", "what", "body"),
    [
        ("update", "PUT", "configmaps/a", {"metadata": {"name": "a"}}),
        ("patch", "PATCH", "configmaps/a", {}),
        ("delete", "DELETE", "configmaps/a", None),
        ("deletecollection", "DELETE", "configmaps", None),
        ("list", "GET", "configmaps", None),
        ("get", "GET", "configmaps/a", None),
    ],
)
def test_verb_of_a_request(
    space: Space, robot: Space, verb: str, method: str, what: str, body: Any
) -> None:
    space.create("configmaps", {"metadata": {"name": "a"}})
    path = robot.path(what)
    refused = robot.api.request(
        method, path, body, content=MERGE if verb == "patch" else "application/json"
    )
    message = refused.refused(403, "Forbidden")["message"]
    assert f'cannot {verb} resource "configmaps"' in message
    allow(space, verb)
    content = MERGE if verb == "patch" else "application/json"
    robot.api.request(method, path, body, content=content).done()


def test_watch_is_a_verb_of_its_own(space: Space, robot: Space) -> None:
    allow(space, "list")
    status = robot.get("configmaps", watch=True, timeoutSeconds=1).refused(403)
    assert 'cannot watch resource "configmaps"' in status["message"]


def test_apply_that_creates_needs_create(space: Space, robot: Space) -> None:
    allow(space, "patch")
    status = robot.apply("configmaps/a", {"data": {"k": "v"}}).refused(403, "Forbidden")
    assert 'cannot create resource "configmaps"' in status["message"]


def test_names_narrow_a_rule(space: Space, robot: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", {"metadata": {"name": name}})
    allow(space, "get", resourceNames=["a"])
    robot.read("configmaps/a")
    robot.get("configmaps/b").refused(403, "Forbidden")


def test_names_narrow_lists_that_select_by_name(space: Space, robot: Space) -> None:
    for name in ("a", "b"):
        space.create("configmaps", {"metadata": {"name": name}})
    allow(space, "list", resourceNames=["a"])
    found = robot.get("configmaps", fieldSelector="metadata.name=a")
    assert [one["metadata"]["name"] for one in found.json["items"]] == ["a"]
    robot.get("configmaps", fieldSelector="metadata.name=b").refused(403, "Forbidden")
    robot.get("configmaps", fieldSelector="metadata.name!=b").refused(403, "Forbidden")
    robot.get("configmaps").refused(403, "Forbidden")


def test_subresource_is_a_right_of_its_own(space: Space, robot: Space) -> None:
    allow(space, "get", resources=("persistentvolumeclaims/status",))
    status = robot.get("persistentvolumeclaims/a").refused(403)
    assert 'cannot get resource "persistentvolumeclaims" in API group ""' in status["message"]
    robot.get("persistentvolumeclaims/a/status").refused(404, "NotFound")


def test_stars_mean_all(space: Space, robot: Space) -> None:
    allow(space, "*", resources=("*",))
    robot.create("secrets", {"metadata": {"name": "a"}})
    robot.get("leases").refused(403, "Forbidden")


def test_role_does_not_reach_other_namespaces(space: Space, robot: Space) -> None:
    allow(space, "get", "list")
    other = Space(robot.api, "default")
    other.get("configmaps").refused(403, "Forbidden")


@pytest.fixture
def wide(space: Space, unique: str) -> Iterator[str]:
    """A cluster role bound to the robot over the whole cluster."""
    name = f"contract-{unique}"
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    space.create("clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    space.create(
        "clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    )
    until("the role counts", lambda: may(space, verb="get", resource="namespaces"))
    yield name
    space.delete(f"clusterrolebindings/{name}")
    space.delete(f"clusterroles/{name}")


def test_cluster_role_reaches_cluster_resources(space: Space, robot: Space, wide: str) -> None:
    robot.read("namespaces/default")
    robot.get("namespaces").refused(403, "Forbidden")
    assert robot.api.request("GET", "/metrics", accept="text/plain").status == 200


def test_cluster_role_bound_in_a_namespace_counts_there(
    space: Space, robot: Space, unique: str
) -> None:
    name = f"contract-{unique}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    space.create("clusterroles", {"metadata": {"name": name}, "rules": rules})
    try:
        bind(space, {"kind": "ClusterRole", "name": name})
        review = {"namespace": space.name, "verb": "list", "resource": "configmaps"}
        until("the role counts", lambda: may(space, **review))
        robot.read("configmaps")
        robot.api.request("GET", "/api/v1/configmaps").refused(403, "Forbidden")
    finally:
        space.delete(f"clusterroles/{name}")


def test_review_says_no_without_a_reason_to_allow(space: Space) -> None:
    status = review(space, namespace=space.name, verb="get", resource="secrets")
    assert status["allowed"] is False


def test_review_of_the_administrator(space: Space) -> None:
    attributes = {"namespace": space.name, "verb": "delete", "resource": "secrets"}
    body = {"spec": {"resourceAttributes": attributes}}
    found = space.post("selfsubjectaccessreviews", body).object
    assert found["status"]["allowed"] is True


def test_robot_may_ask_about_itself(space: Space, robot: Space) -> None:
    allow(space, "get")
    for verb, allowed in (("get", True), ("delete", False)):
        attributes = {"namespace": space.name, "verb": verb, "resource": "configmaps"}
        body = {"spec": {"resourceAttributes": attributes}}
        found = robot.post("selfsubjectaccessreviews", body).object
        assert found["status"]["allowed"] is allowed


def test_rules_review_lists_what_is_allowed(space: Space, robot: Space) -> None:
    allow(space, "get", "list")
    body = {"spec": {"namespace": space.name}}
    found = robot.post("selfsubjectrulesreviews", body).object
    rules = found["status"]["resourceRules"]
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]} in rules


def test_everybody_with_a_token_may_discover(robot: Space) -> None:
    assert robot.api.request("GET", "/api").status == 200
    assert robot.api.request("GET", "/apis").status == 200
    assert robot.api.request("GET", "/openapi/v3").status == 200
