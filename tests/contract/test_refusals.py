"""Bad requests of all sorts, and the Status each must be answered with."""

from __future__ import annotations

import pytest

from contract.driver import MERGE, Api, Space

NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize("path", ["/nope", "/apis/nope.example/v1/x"])
def test_unknown_path_is_plain_not_found(api: Api, path: str) -> None:
    reply = api.request("GET", path)
    assert reply.status == 404
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.text == "404 page not found\n"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v9",
        "/apis/apps/v9/deployments",
        "/api/v1/namespaces/default/nope",
        "/api/v1/namespaces/default/configmaps/a/nope",
    ],
)
def test_unknown_resource_is_a_status(api: Api, path: str) -> None:
    status = api.request("GET", path).refused(404, "NotFound")
    assert status["message"] == NOT_FOUND
    assert status["details"] == {}


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("PUT", "configmaps"),
        ("POST", "configmaps/a"),
        ("PATCH", "configmaps"),
        ("OPTIONS", "configmaps"),
        ("DELETE", "serviceaccounts/a/token"),
    ],
)
def test_method_that_does_not_fit_is_not_allowed(space: Space, method: str, what: str) -> None:
    reply = space.api.request(method, space.path(what), {}, content=MERGE)
    status = reply.refused(405, "MethodNotAllowed")
    assert status["message"] == NOT_ALLOWED


@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_writing_over_all_namespaces_is_not_allowed(api: Api, method: str) -> None:
    api.request(method, "/api/v1/configmaps", {}).refused(405, "MethodNotAllowed")


@pytest.mark.parametrize("accept", ["text/html", "application/xml, text/html"])
def test_unknown_answer_format_is_not_acceptable(space: Space, accept: str) -> None:
    status = space.get("configmaps", accept=accept).refused(406, "NotAcceptable")
    assert status["message"].startswith("406: Not Acceptable")


@pytest.mark.parametrize("accept", ["*/*", "text/html,*/*"])
def test_any_format_is_json(space: Space, accept: str) -> None:
    reply = space.get("configmaps", accept=accept)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"


def test_unknown_body_format_is_unsupported(space: Space) -> None:
    reply = space.post("configmaps", {"metadata": {"name": "a"}}, content="text/plain")
    status = reply.refused(415, "UnsupportedMediaType")
    text = "the body of the request was in an unknown format - accepted media types include:"
    assert status["message"].startswith(f"{text} application/json,")


def test_body_without_a_format_is_json(space: Space) -> None:
    assert space.post("configmaps", {"metadata": {"name": "a"}}, content="").status == 201


@pytest.mark.parametrize(
    "body", [b"{oops", b"", b"[]", b'"x"'], ids=["not json", "empty", "list", "text"]
)
def test_body_that_is_no_object_is_a_bad_request(space: Space, body: bytes) -> None:
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert "json parse error" in status["message"]
    assert "must be of type ConfigMap" in status["message"]


def test_deep_nesting_is_a_bad_request(space: Space) -> None:
    body = b'{"a":' * 20000 + b"1" + b"}" * 20000
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert "exceeded max depth" in status["message"]


def test_invalid_utf8_is_replaced(space: Space) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\xff\xfe"}}'
    assert space.post("configmaps", body).object["data"] == {"k": "\ufffd\ufffd"}


def test_body_over_three_mebibytes_is_too_large(space: Space) -> None:
    filler = b"x" * 4_000_000
    reply = space.post("configmaps", b'{"data":{"k":"' + filler + b'"}}')
    status = reply.refused(413, "RequestEntityTooLarge")
    assert status["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize(
    ("resource", "body", "field", "limit"),
    [
        ("configmaps", {"data": {"k": "x" * 1_100_000}}, "[]", 1048576),
        ("secrets", {"stringData": {"k": "x" * 1_100_000}}, "data", 1048576),
    ],
    ids=["config map", "secret"],
)
def test_object_over_a_mebibyte_is_too_long(
    space: Space, resource: str, body: dict[str, object], field: str, limit: int
) -> None:
    reply = space.post(resource, {"metadata": {"name": "big"}, **body})
    reply.refused(422, "Invalid")
    message = f"Too long: may not be more than {limit} bytes"
    assert reply.causes() == {(field, "FieldValueTooLong", message)}


def test_annotations_have_a_limit(space: Space) -> None:
    metadata = {"name": "big", "annotations": {"a": "x" * 300_000}}
    reply = space.post("configmaps", {"metadata": metadata})
    message = "Too long: may not be more than 262144 bytes"
    assert reply.causes() == {("metadata.annotations", "FieldValueTooLong", message)}


def test_unknown_kind_is_a_bad_request(space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "a"}}
    status = space.post("configmaps", body).refused(400, "BadRequest")
    assert status["message"].startswith(
        'Odd in version "v1" cannot be handled as a ConfigMap: no kind "Odd" is registered'
    )


def test_limit_must_be_a_number(space: Space) -> None:
    status = space.get("configmaps", limit="many").refused(400, "BadRequest")
    assert '"many"' in status["message"]


def test_timeout_must_be_a_number(space: Space) -> None:
    space.get("configmaps", timeoutSeconds="x").refused(400, "BadRequest")


def test_nobody_is_anonymous_and_forbidden(space: Space) -> None:
    status = space.bearing(None).get("configmaps").refused(403, "Forbidden")
    assert status["message"] == (
        'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API'
        f' group "" in the namespace "{space.name}"'
    )
    assert status["details"] == {"kind": "configmaps"}


def test_unknown_token_is_unauthorized(space: Space) -> None:
    status = space.bearing("nonsense").get("configmaps").refused(401, "Unauthorized")
    assert status["message"] == "Unauthorized"


def test_nobody_may_not_see_the_root(api: Api) -> None:
    status = api.bearing(None).request("GET", "/").refused(403, "Forbidden")
    assert status["message"] == 'forbidden: User "system:anonymous" cannot get path "/"'


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_is_for_everybody(api: Api, path: str) -> None:
    reply = api.bearing(None).request("GET", path)
    assert (reply.status, reply.text) == (200, "ok")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"


def test_verbose_health_lists_checks(api: Api) -> None:
    text = api.request("GET", "/readyz", verbose="").text
    assert text.startswith("[+]ping ok\n")
    assert text.endswith("readyz check passed\n")


def test_version_is_for_everybody(api: Api) -> None:
    found = api.bearing(None).request("GET", "/version").object
    assert (found["major"], found["minor"]) == ("1", "34")
    assert found["gitVersion"].startswith("v1.34.")


def test_head_is_not_allowed(space: Space) -> None:
    assert space.api.request("HEAD", space.path("configmaps")).status == 405


def test_trailing_slash_is_let_pass(space: Space) -> None:
    assert space.api.request("GET", space.path("configmaps") + "/").status == 200


def test_metrics_are_served(api: Api) -> None:
    reply = api.request("GET", "/metrics", accept="text/plain")
    assert reply.status == 200
    assert "apiserver_request_total" in reply.text


def test_every_answer_has_an_audit_id_and_is_not_cached(space: Space) -> None:
    headers = space.get("configmaps").headers
    assert headers["audit-id"]
    assert headers["cache-control"] == "no-cache, private"
