"""Nothing that comes from outside, however broken, gives anything but a typed error."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubecontroller.client.access import Access, ExecAuth
from kubecontroller.client.config import kubeconfig
from kubecontroller.client.credential import Credential
from kubecontroller.client.decode import Page, decode_page
from kubecontroller.client.errors import (
    ApiError,
    ConfigError,
    CredentialError,
    KubeError,
    UndecodableObject,
    error_from_response,
)
from kubecontroller.client.execplugin import parse_credential
from kubecontroller.client.objects import BUILTIN, PODS
from kubecontroller.client.request import Response
from kubecontroller.client.watch import Bookmark, UnreadableChange, WatchedChange, decode_line

NAMES = [
    "apiVersion",
    "clusters",
    "cluster",
    "users",
    "user",
    "contexts",
    "context",
    "current-context",
    "name",
    "server",
    "token",
    "exec",
    "command",
    "args",
    "env",
    "type",
    "object",
    "metadata",
    "annotations",
    "labels",
    "items",
    "status",
    "code",
    "reason",
    "details",
    "causes",
    "kind",
    "resourceVersion",
    "expirationTimestamp",
    "clientKeyData",
    "spec",
    "conditions",
]
WORDS = ["ADDED", "MODIFIED", "BOOKMARK", "ERROR", "x", "", "https://h", "ExecCredential"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)
AUTH = ExecAuth(command="login", api_version="x", source="/k: users[me].user.exec")


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


BODIES = st.binary(max_size=60) | VALUES.map(encoded)


def used_or_refused(file: Path, context: str) -> Access | str:
    try:
        return kubeconfig(file=file, context=context, environment={})
    except ConfigError as error:
        return str(error)


@given(VALUES | st.text(max_size=40), st.sampled_from(["", "x"]))
def test_any_kubeconfig_is_used_or_refused_by_name(value: Any, context: str) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
        outcome = used_or_refused(file, context)
    assert isinstance(outcome, Access) or str(file) in outcome


@given(BODIES, st.sampled_from(list(BUILTIN)))
def test_any_line_of_a_watch_is_an_event_or_a_typed_error(line: bytes, kind: Any) -> None:
    with suppress(KubeError):
        event = decode_line(kind, line, path="/p")
        assert isinstance(event, WatchedChange | UnreadableChange | Bookmark)


@given(st.sampled_from(WORDS[:4]), VALUES)
def test_any_object_in_an_event_is_decoded_or_a_typed_error(kind: str, value: Any) -> None:
    with suppress(KubeError):
        event = decode_line(PODS, encoded({"type": kind, "object": value}))
        assert isinstance(event, WatchedChange | UnreadableChange | Bookmark)


@given(BODIES)
def test_any_list_is_a_page_or_a_typed_error(body: bytes) -> None:
    with suppress(UndecodableObject):
        assert isinstance(decode_page(PODS.plain(), body, ref="pods"), Page)


@given(BODIES, st.integers(300, 599))
def test_any_failure_is_a_typed_error(body: bytes, status: int) -> None:
    error = error_from_response(Response(status, {}, body), ref="Pod a/b")
    assert isinstance(error, ApiError)
    assert str(error).startswith("Pod a/b: ")


@given(BODIES)
def test_any_output_of_a_plugin_is_a_credential_or_a_typed_error(output: bytes) -> None:
    with suppress(CredentialError):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert isinstance(parse_credential(AUTH, output, now=now), Credential)
