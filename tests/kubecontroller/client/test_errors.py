from __future__ import annotations

import msgspec
import pytest

from kubecontroller.client import errors
from kubecontroller.client.errors import ApiError, Cause, error_from_response, error_from_status
from kubecontroller.client.request import Response

CASES = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.MethodNotAllowed),
    (409, "AlreadyExists", errors.AlreadyExists),
    (409, "Conflict", errors.Conflict),
    (410, "Expired", errors.Expired),
    (410, "Gone", errors.Gone),
    (413, "RequestEntityTooLarge", errors.RequestTooLarge),
    (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.TooManyRequests),
    (500, "InternalError", errors.ServerError),
    (500, "ServerTimeout", errors.Timeout),
    (503, "ServiceUnavailable", errors.ServiceUnavailable),
    (504, "Timeout", errors.Timeout),
    (409, "", errors.Conflict),
    (410, "", errors.Gone),
    (502, "", errors.ServerError),
    (418, "", ApiError),
]


@pytest.mark.parametrize(("status", "reason", "kind"), CASES, ids=str)
def test_each_status_and_reason_has_its_error(
    status: int, reason: str, kind: type[ApiError]
) -> None:
    body = msgspec.json.encode(
        {"kind": "Status", "reason": reason, "message": "no", "code": status}
    )
    error = error_from_response(Response(status, {}, body), ref="Pod a/b")
    assert type(error) is kind
    assert (error.status, error.reason, error.ref) == (status, reason, "Pod a/b")
    assert str(error).startswith("Pod a/b: no [")


def test_causes_are_kept_and_said() -> None:
    body = msgspec.json.encode(
        {
            "reason": "Invalid",
            "message": "it is invalid",
            "code": 422,
            "details": {
                "causes": [{"reason": "FieldValueInvalid", "message": "too big", "field": "spec.n"}]
            },
        }
    )
    error = error_from_response(Response(422, {}, body))
    assert error.causes == (Cause("FieldValueInvalid", "too big", "spec.n"),)
    assert "spec.n: too big" in str(error)


def test_retry_after_comes_from_the_details_or_the_header() -> None:
    body = msgspec.json.encode({"code": 429, "details": {"retryAfterSeconds": 7}})
    assert error_from_response(Response(429, {}, body)).retry_after == 7.0
    assert error_from_response(Response(429, {"retry-after": "3"}, b"{}")).retry_after == 3.0
    assert error_from_response(Response(429, {"retry-after": "soon"}, b"{}")).retry_after is None


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[1]", b'{"code": "x"}'])
def test_a_body_that_is_no_status_still_gives_a_typed_error(body: bytes) -> None:
    error = error_from_response(Response(502, {}, body), ref="Pod a/b")
    assert isinstance(error, errors.ServerError)
    assert "502" in str(error)


def test_null_causes_are_none() -> None:
    status = msgspec.json.decode(b'{"details": {"causes": null}}', type=errors.Status)
    assert error_from_status(status, code=500).causes == ()


def test_config_errors_say_where_and_what_to_do() -> None:
    error = errors.ConfigError("is wrong", file="/a", field="users[0]", advice="Do this")
    assert str(error) == "/a: users[0]: is wrong. Do this"
    assert (error.file, error.field) == ("/a", "users[0]")


@pytest.mark.parametrize("body", [b"[" * 9999, b'{"message":"\xff"}'], ids=["deep", "bytes"])
def test_a_body_that_no_decoder_reads_is_quoted(body: bytes) -> None:
    error = error_from_response(Response(500, {}, body))
    assert isinstance(error, errors.ServerError)
    assert error.status == 500
