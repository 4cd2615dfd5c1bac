from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubecontroller.client.access import (
    Access,
    Anonymous,
    BasicAuth,
    ExecAuth,
    Hidden,
    TokenAuth,
    TokenFileAuth,
    proxy_from_environment,
)
from kubecontroller.client.config import in_cluster, kubeconfig, load
from kubecontroller.client.errors import ConfigError


def written(
    path: Path,
    *,
    name: str = "one",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    current: str | None = None,
) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [{"name": name, "cluster": {"server": "https://h:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name} | (context or {})},
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def access(path: Path, context: str = "") -> Access:
    return kubeconfig(file=path, context=context, environment={})


def test_the_current_context_gives_server_namespace_and_source(tmp_path: Path) -> None:
    file = written(tmp_path / "c", context={"namespace": "n"})
    got = access(file)
    assert (got.server, got.namespace) == ("https://h:6443", "n")
    assert got.source == f"context one of {file}"
    assert got.auth == Anonymous()


def test_files_are_merged_and_the_first_to_name_an_entry_wins_whole(tmp_path: Path) -> None:
    first = written(tmp_path / "a/c", user={"username": "u"}, current="")
    second = written(tmp_path / "b/c", cluster={"server": "https://other"}, user={"token": "t"})
    third = written(tmp_path / "d/c", name="two", cluster={"server": "https://third"})
    listed = os.pathsep.join(map(str, (first, tmp_path / "missing", second, third)))
    got = kubeconfig(environment={"KUBECONFIG": listed})
    assert got.server == "https://h:6443"
    assert got.auth == BasicAuth("u", Hidden(""))
    assert kubeconfig(context="two", environment={"KUBECONFIG": listed}).server == "https://third"


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    file = written(
        tmp_path / "deep/c",
        cluster={"certificate-authority": "pki/ca.crt"},
        user={
            "client-certificate": "../me.crt",
            "client-key": "/abs/me.key",
            "tokenFile": "token",
        },
    )
    got = access(file)
    assert got.ca.file == str(tmp_path / "deep/pki/ca.crt")
    assert got.certificate.file == str(tmp_path / "deep/../me.crt")
    assert got.key.file == "/abs/me.key"
    assert got.auth == TokenFileAuth(str(tmp_path / "deep/token"))


def test_inline_data_goes_before_files(tmp_path: Path) -> None:
    data = b64encode(b"PEM").decode()
    file = written(
        tmp_path / "c",
        cluster={"certificate-authority-data": data, "certificate-authority": "x"},
        user={"client-certificate-data": data, "client-key-data": data},
    )
    got = access(file)
    assert (got.ca.inline, got.certificate.inline, got.key.inline) == (b"PEM", b"PEM", b"PEM")


def test_the_rest_of_a_cluster_is_kept(tmp_path: Path) -> None:
    file = written(
        tmp_path / "c",
        cluster={
            "server": "https://h/prefix/",
            "insecure-skip-tls-verify": True,
            "tls-server-name": "inner",
            "proxy-url": "http://proxy:3128",
        },
    )
    got = access(file)
    assert (got.server, got.insecure, got.server_name, got.proxy) == (
        "https://h/prefix",
        True,
        "inner",
        "http://proxy:3128",
    )


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"Example.org/Reason": ["x"]},
    }
    assert access(written(tmp_path / "c", user=user)).impersonate == (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.org%2Freason", "x"),
    )


def test_an_exec_plugin_is_found_beside_its_file(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["a"],
        "env": [{"name": "K", "value": "v"}],
        "installHint": "brew install login\n",
        "interactiveMode": "IfAvailable",
    }
    got = access(written(tmp_path / "c", user={"exec": plugin})).auth
    assert isinstance(got, ExecAuth)
    assert got.command == str(tmp_path / "bin/login")
    assert (got.args, got.environment) == (("a",), (("K", "v"),))
    assert got.install_hint == "brew install login"
    assert not got.needs_terminal


def test_secrets_never_show_when_an_access_is_printed(tmp_path: Path) -> None:
    data = b64encode(b"private").decode()
    user = {"token": "hunter2", "client-key-data": data, "client-certificate-data": data}
    text = repr(access(written(tmp_path / "c", user=user)))
    assert "***" in text
    for secret in ("hunter2", "private", data):
        assert secret not in text


BROKEN: list[Any] = [
    pytest.param({"cluster": {"server": ""}}, "clusters[one].cluster.server", id="no server"),
    pytest.param({"cluster": {"server": "ftp://h"}}, "clusters[one].cluster.server", id="ftp"),
    pytest.param(
        {"cluster": {"server": "https://h:x"}}, "clusters[one].cluster.server", id="bad port"
    ),
    pytest.param(
        {"cluster": {"certificate-authority-data": "%%"}},
        "clusters[one].cluster.certificate-authority-data",
        id="not base64",
    ),
    pytest.param(
        {"cluster": {"proxy-url": "socks5://p"}}, "clusters[one].cluster.proxy-url", id="socks"
    ),
    pytest.param(
        {"cluster": {"proxy-url": "http://p:x"}}, "clusters[one].cluster.proxy-url", id="proxy port"
    ),
    pytest.param(
        {"cluster": {"server": "https://u:12345@h"}},
        "clusters[one].cluster.server",
        id="password in the address",
    ),
    pytest.param({"user": {"token": "12345\nx"}}, "users[one].user.token", id="token of two lines"),
    pytest.param({"user": {"as": "a\r\nb"}}, "users[one].user.as", id="header of two lines"),
    pytest.param({"context": {"cluster": "nope"}}, "contexts[one].context.cluster", id="cluster"),
    pytest.param({"context": {"user": "nope"}}, "contexts[one].context.user", id="user"),
    pytest.param({"current": "nope"}, "current-context", id="context"),
    pytest.param({"current": ""}, "current-context", id="no context"),
    pytest.param(
        {"user": {"client-certificate": "x"}}, "users[one].user.client-key", id="key missing"
    ),
    pytest.param({"user": {"auth-provider": {"name": "gcp"}}}, "users[one].user.auth-provider"),
    pytest.param(
        {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
        "users[one].user.exec.apiVersion",
        id="old exec",
    ),
    pytest.param({"user": {"token": 12345}}, "users[0].user.token", id="token is a number"),
]


@pytest.mark.parametrize(("parts", "field"), BROKEN)
def test_a_broken_kubeconfig_names_its_file_and_field(
    tmp_path: Path, parts: dict[str, Any], field: str
) -> None:
    file = written(tmp_path / "c", **parts)
    with pytest.raises(ConfigError) as caught:
        access(file)
    assert (caught.value.file, caught.value.field) == (str(file), field)
    assert str(caught.value).startswith(f"{file}: {field}: ")
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["token: [hunter2", "\t- hunter2", "users: {hunter2: *x}", "- hunter2", '"hunter2"'],
)
def test_a_file_that_is_no_kubeconfig_is_named_without_quoting_it(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "c"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        access(file)
    assert str(file) in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        access(tmp_path / "nope")
    listed = f"{tmp_path}/x{os.pathsep}{tmp_path}/y"
    with pytest.raises(ConfigError, match=r"no kubeconfig file exists .*Set KUBECONFIG"):
        kubeconfig(environment={"KUBECONFIG": listed})


def test_an_empty_file_has_no_context(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with pytest.raises(ConfigError, match="no context is chosen"):
        access(tmp_path / "c")


def pod(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("PEM")
    (folder / "namespace").write_text("mine\n")
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    folder = pod(tmp_path / "sa")
    got = load(environment=IN_POD, service_account=folder)
    assert (got.server, got.namespace) == ("https://10.0.0.1:443", "mine")
    assert got.ca.file == str(folder / "ca.crt")
    assert got.auth == TokenFileAuth(str(folder / "token"))


def test_ipv6_addresses_get_brackets(tmp_path: Path) -> None:
    environment = IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    got = in_cluster(environment=environment, service_account=pod(tmp_path / "sa"))
    assert got.server == "https://[fd00::1]:443"


def test_a_pod_without_a_token_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"token: no such file\. .*automountServiceAccountToken"):
        in_cluster(environment=IN_POD, service_account=tmp_path)
    with pytest.raises(ConfigError, match="not a pod"):
        in_cluster(environment={}, service_account=tmp_path)


def test_a_kubeconfig_named_in_the_environment_goes_before_the_pod(tmp_path: Path) -> None:
    file = written(tmp_path / "c", user={"token": "t"})
    environment = IN_POD | {"KUBECONFIG": str(file)}
    assert load(environment=environment).auth == TokenAuth(Hidden("t"))


def test_without_anything_the_home_directory_is_tried(tmp_path: Path) -> None:
    written(tmp_path / ".kube/config")
    assert load(environment={"HOME": str(tmp_path)}).server == "https://h:6443"


@pytest.mark.parametrize(
    ("server", "skipped", "proxied"),
    [
        ("https://api.example.org", "", True),
        ("https://api.example.org", "example.org", False),
        ("https://api.example.org", ".example.org", False),
        ("https://notexample.org", "example.org", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "11.0.0.0/8, 10.1.2.3", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://api.example.org", "*", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://api.example.org", "", False),
    ],
)
def test_the_environments_proxy_is_used_where_it_applies(
    server: str, skipped: str, proxied: bool
) -> None:
    environment = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": skipped}
    assert bool(proxy_from_environment(server, environment)) is proxied


def test_a_proxy_of_the_environment_may_leave_out_its_scheme() -> None:
    environment = {"HTTPS_PROXY": "proxy:3128"}
    assert proxy_from_environment("https://h", environment) == "http://proxy:3128"


def test_a_proxy_of_the_environment_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    environment = {"HTTPS_PROXY": "socks5://u:hunter2@p:1", "HOME": str(tmp_path)}
    written(tmp_path / ".kube/config")
    with pytest.raises(ConfigError, match=r"HTTPS_PROXY.*'socks5'.*NO_PROXY") as caught:
        load(environment=environment)
    assert "hunter2" not in str(caught.value)


def test_a_token_with_space_around_it_is_trimmed(tmp_path: Path) -> None:
    assert access(written(tmp_path / "c", user={"token": "t\n"})).auth == TokenAuth(Hidden("t"))


PLUGIN = {"command": "login", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.mark.parametrize("given", [{"token": "mine"}, {"tokenFile": "t"}, {"username": "me"}])
def test_what_a_person_wrote_down_comes_before_a_plugin(
    tmp_path: Path, given: dict[str, str]
) -> None:
    """As in client-go: `kubectl --token` must not start a browser."""
    (tmp_path / "t").write_text("x")
    found = access(written(tmp_path / "c", user={**given, "exec": PLUGIN}))
    assert not isinstance(found.auth, ExecAuth)
    if "token" in given:
        assert found.auth == TokenAuth(Hidden("mine"))


def test_a_plugin_is_told_what_the_cluster_keeps_for_it(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    other = {"name": "other", "extension": {"b": "c"}}
    found = access(
        written(
            tmp_path / "c",
            cluster={"extensions": [other, extension]},
            user={"exec": {**PLUGIN, "provideClusterInfo": True}},
        )
    )
    assert isinstance(found.auth, ExecAuth)
    assert json.loads(found.auth.cluster_info)["config"] == {"audience": "a"}
