"""Kubeconfig files: read, merged as kubectl merges them, and one context chosen.

Rules: the first file that names a cluster, user or context wins, with the whole entry; paths in a
file are relative to that file; a file of a list may be missing, a single one may not.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml
from msgspec import Struct, field

from kubecontroller.client.access import (
    Access,
    Anonymous,
    Auth,
    BasicAuth,
    ExecAuth,
    FileOrBytes,
    Hidden,
    TokenAuth,
    TokenFileAuth,
    proxy_problem,
)
from kubecontroller.client.errors import ConfigError

__all__ = ["Kubeconfig", "choose", "read_kubeconfig"]

E = TypeVar("E")

EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_PLUGIN_EXTENSION: Final = "client.authentication.k8s.io/exec"
_HEADER_SAFE: Final = "!#$&'*+-.^_`|~"
_PATH = re.compile(r" - at `\$\.?(.*)`$")


class _Part(Struct, frozen=True, rename="kebab"):
    """A part of a kubeconfig whose field names are joined by dashes."""


class _Cluster(_Part, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Mapping[str, Any], ...] | None = None


class _Variable(Struct, frozen=True):
    name: str
    value: str


class _Exec(Struct, frozen=True, rename="camel"):
    command: str
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _User(_Part, frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Mapping[str, Any] | None = None
    impersonate: str = field(name="as", default="")
    impersonate_uid: str = field(name="as-uid", default="")
    impersonate_groups: tuple[str, ...] | None = field(name="as-groups", default=None)
    impersonate_extra: Mapping[str, tuple[str, ...]] | None = field(
        name="as-user-extra", default=None
    )


class _Context(_Part, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(Struct, frozen=True):
    name: str
    context: _Context | None = None


class _File(_Part, frozen=True):
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


class Kubeconfig(Struct, frozen=True):
    """Several files merged; each entry remembers its file."""

    files: tuple[str, ...]
    current_context: str
    clusters: Mapping[str, tuple[_Cluster, str]]
    users: Mapping[str, tuple[_User, str]]
    contexts: Mapping[str, tuple[_Context, str]]


def read_kubeconfig(paths: Sequence[Path]) -> Kubeconfig:
    """Read and merge files, in the order of their precedence.

    Errors: `ConfigError` naming the file, and the field where there is one.
    """
    found: dict[str, _File] = {}
    for path in paths:
        if len(paths) > 1 and not path.exists():
            continue
        found[str(path)] = _read(path)
    if not found:
        listed = ", ".join(str(path) for path in paths) or "none was named"
        raise ConfigError(
            f"no kubeconfig file exists ({listed})",
            advice="Set KUBECONFIG to the file of your cluster, or run inside a pod",
        )
    clusters: dict[str, tuple[_Cluster, str]] = {}
    users: dict[str, tuple[_User, str]] = {}
    contexts: dict[str, tuple[_Context, str]] = {}
    for name, content in found.items():
        for cluster in content.clusters or ():
            clusters.setdefault(cluster.name, (cluster.cluster or _Cluster(), name))
        for user in content.users or ():
            users.setdefault(user.name, (user.user or _User(), name))
        for context in content.contexts or ():
            contexts.setdefault(context.name, (context.context or _Context(), name))
    current = next((c.current_context for c in found.values() if c.current_context), "")
    return Kubeconfig(tuple(found), current, clusters, users, contexts)


def choose(config: Kubeconfig, context: str = "") -> Access:
    """Return how to reach the server of a context, the current one unless named.

    Errors: `ConfigError` naming the file, the field and what to do.
    """
    name = context or config.current_context
    files = ", ".join(config.files)
    if not name:
        raise ConfigError(
            "no context is chosen",
            file=files,
            field="current-context",
            advice=f"Choose one of: {_listed(config.contexts)}",
        )
    chosen, file = _entry(config.contexts, name, file=files, what="context", at="current-context")
    at = f"contexts[{name}].context"
    cluster, cluster_file = _entry(
        config.clusters, chosen.cluster, file=file, what="cluster", at=f"{at}.cluster"
    )
    user, user_file = _User(), file
    if chosen.user:
        user, user_file = _entry(config.users, chosen.user, file=file, what="user", at=f"{at}.user")
    inside = _In(cluster_file, f"clusters[{chosen.cluster}].cluster")
    ca = inside.pem(
        cluster.certificate_authority,
        cluster.certificate_authority_data,
        name="certificate-authority",
    )
    own = _In(user_file, f"users[{chosen.user}].user")
    certificate = own.pem(
        user.client_certificate, user.client_certificate_data, name="client-certificate"
    )
    key = own.pem(user.client_key, user.client_key_data, name="client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise own.error("a client certificate needs its key, and a key its certificate", missing)
    return Access(
        server=_server(cluster, inside),
        namespace=chosen.namespace or "default",
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy=_proxy(cluster, inside),
        auth=_auth(user, own, cluster=cluster, ca=ca),
        certificate=certificate,
        key=key,
        impersonate=_impersonation(user, own),
        source=f"context {name} of {file}",
    )


class _In(Struct, frozen=True):
    """A place in a kubeconfig, for messages and relative paths."""

    file: str
    at: str

    def error(self, problem: str, name: str, advice: str = "") -> ConfigError:
        return ConfigError(problem, file=self.file, field=f"{self.at}.{name}", advice=advice)

    def path(self, text: str) -> str:
        return str(Path(self.file).absolute().parent / text) if text else ""

    def pem(self, file: str, data: str, *, name: str) -> FileOrBytes:
        if not data:
            return FileOrBytes(file=self.path(file))
        try:
            return FileOrBytes(inline=b64decode(data, validate=True))
        except (Base64Error, ValueError) as error:
            raise self.error(
                f"is not base64 ({error})", f"{name}-data", "Encode the PEM file with base64 -w0"
            ) from error


def _read(path: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            "no such file", file=str(path), advice="Check KUBECONFIG, or the path given"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error})", file=str(path)) from error
    try:
        content = yaml.load(text, Loader=_loader())  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(
            f"is not YAML ({_yaml_problem(error)})",
            file=str(path),
            advice="Correct it there, or write the file again",
        ) from error
    try:
        return msgspec.convert({} if content is None else content, _File)
    except msgspec.ValidationError as error:
        at = _PATH.search(str(error))
        raise ConfigError(
            _PATH.sub("", str(error)),
            file=str(path),
            field=at.group(1) if at else "",
            advice="Correct the field; values such as tokens may need quotes",
        ) from error


def _loader() -> type[yaml.SafeLoader]:
    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without quoting the file: it may contain secrets."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _entry(
    entries: Mapping[str, tuple[E, str]], name: str, *, file: str, what: str, at: str
) -> tuple[E, str]:
    if not name:
        raise ConfigError(f"names no {what}", file=file, field=at)
    found = entries.get(name)
    if found is None:
        raise ConfigError(
            f"there is no {what} called {name!r}",
            file=file,
            field=at,
            advice=f"Known: {_listed(entries)}",
        )
    return found


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _server(cluster: _Cluster, inside: _In) -> str:
    if not cluster.server:
        raise inside.error("names no server", "server", "Give the address, like https://host:6443")
    text = cluster.server if "://" in cluster.server else f"https://{cluster.server}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        usable = usable and text.isprintable() and " " not in text
    except ValueError:
        usable = False
    if not usable:
        raise inside.error(
            f"{cluster.server!r} is not an address", "server", "Write it like https://host:6443"
        )
    if parts.username or parts.password:
        raise inside.error(
            "holds a user name or password", "server", "Put username and password under users"
        )
    return text.rstrip("/")


def _proxy(cluster: _Cluster, inside: _In) -> str:
    problem = proxy_problem(cluster.proxy_url) if cluster.proxy_url else None
    if problem is not None:
        raise inside.error(problem, "proxy-url", "Use an http:// or https:// proxy")
    return cluster.proxy_url


def _auth(user: _User, own: _In, *, cluster: _Cluster, ca: FileOrBytes) -> Auth:
    written = user.token_file or user.token or user.username or user.password
    if user.exec is not None and not written:
        return _exec(user.exec, own, cluster=cluster, ca=ca)
    if user.auth_provider:
        raise own.error(
            "auth providers were removed from Kubernetes",
            "auth-provider",
            "Use the exec plugin of your provider",
        )
    if user.token_file:
        return TokenFileAuth(own.path(user.token_file))
    if user.token:
        token = user.token.strip()
        if not token.isascii() or not token.isprintable():
            raise own.error("no header can carry this token", "token", "Write it on one line")
        return TokenAuth(Hidden(token))
    if user.username or user.password:
        return BasicAuth(user.username, Hidden(user.password))
    return Anonymous()


def _exec(plugin: _Exec, own: _In, *, cluster: _Cluster, ca: FileOrBytes) -> ExecAuth:
    if plugin.api_version not in EXEC_VERSIONS:
        raise own.error(
            f"version {plugin.api_version!r} is not supported",
            "exec.apiVersion",
            f"Use one of: {', '.join(EXEC_VERSIONS)}",
        )
    if not plugin.command:
        raise own.error("names no program", "exec.command")
    command = plugin.command
    if "/" in command:
        command = own.path(command)
    info = b""
    if plugin.provide_cluster_info:
        facts: dict[str, object] = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": _ca_bytes(ca),
            "proxy-url": cluster.proxy_url,
            "config": _kept_for_plugins(cluster),
        }
        info = msgspec.json.encode({name: fact for name, fact in facts.items() if fact})
    return ExecAuth(
        command=command,
        api_version=plugin.api_version,
        args=plugin.args or (),
        environment=tuple((item.name, item.value) for item in plugin.env or ()),
        install_hint=plugin.install_hint.strip(),
        needs_terminal=plugin.interactive_mode == "Always",
        cluster_info=info,
        source=f"{own.file}: {own.at}.exec",
    )


def _kept_for_plugins(cluster: _Cluster) -> Any:
    """Return the extension of the cluster's entry that is meant for plugins, if any."""
    for extension in cluster.extensions or ():
        if extension.get("name") == _PLUGIN_EXTENSION:
            return extension.get("extension")
    return None


def _ca_bytes(ca: FileOrBytes) -> bytes:
    if not ca.file:
        return ca.inline
    try:
        return Path(ca.file).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", file=ca.file) from error


def _impersonation(user: _User, own: _In) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if user.impersonate:
        headers.append(("impersonate-user", user.impersonate))
    if user.impersonate_uid:
        headers.append(("impersonate-uid", user.impersonate_uid))
    headers.extend(("impersonate-group", group) for group in user.impersonate_groups or ())
    for name, values in (user.impersonate_extra or {}).items():
        header = f"impersonate-extra-{quote(name.lower(), safe=_HEADER_SAFE)}"
        headers.extend((header, value) for value in values)
    if not all(value.isprintable() for _, value in headers):
        raise own.error("no header can carry what is written there", "as")
    return tuple(headers)
