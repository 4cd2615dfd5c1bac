"""Where the API server is and which user to be: from a kubeconfig, or from inside a pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kubecontroller.client.access import (
    Access,
    FileOrBytes,
    TokenFileAuth,
    proxy_from_environment,
    proxy_problem,
)
from kubecontroller.client.errors import ConfigError
from kubecontroller.client.kubeconfig import choose, read_kubeconfig

__all__ = ["SERVICE_ACCOUNT", "in_cluster", "kubeconfig", "load"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(
    *,
    context: str = "",
    file: str | Path = "",
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Return how to reach the API server, found as kubectl and controllers find it.

    In order: the given file, the files of KUBECONFIG, the pod of this process, `~/.kube/config`.

    Errors: `ConfigError` naming the file, the field and what to do.
    """
    if file or environment.get("KUBECONFIG"):
        return kubeconfig(context=context, file=file, environment=environment)
    if environment.get("KUBERNETES_SERVICE_HOST") and not context:
        return in_cluster(environment=environment, service_account=service_account)
    return kubeconfig(context=context, environment=environment)


def kubeconfig(
    *,
    context: str = "",
    file: str | Path = "",
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """Return how to reach the server of a kubeconfig's context, the current one unless named."""
    listed = environment.get("KUBECONFIG", "")
    if file:
        paths = [Path(file)]
    elif listed:
        paths = [Path(item) for item in listed.split(os.pathsep) if item]
    else:
        paths = [Path(environment.get("HOME", "/")) / ".kube" / "config"]
    access = choose(read_kubeconfig(list(dict.fromkeys(paths))), context)
    return _with_proxy(access, environment)


def in_cluster(
    *, environment: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Access:
    """Return how a pod reaches the API server, as its service account.

    The token and the CA are given as paths, not content: both are rotated while the pod runs.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set",
            advice="This is not a pod: use a kubeconfig",
        )
    token, ca = service_account / "token", service_account / "ca.crt"
    for path in (token, ca):
        if not path.exists():
            raise ConfigError(
                "no such file",
                file=str(path),
                advice="Give the pod a service account and leave automountServiceAccountToken on",
            )
    bracketed = f"[{host}]" if ":" in host else host
    access = Access(
        server=f"https://{bracketed}:{port}",
        namespace=_namespace(service_account / "namespace"),
        ca=FileOrBytes(file=str(ca)),
        auth=TokenFileAuth(str(token)),
        source="the pod's service account",
    )
    return _with_proxy(access, environment)


def _namespace(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"  # the projected volume may leave it out


def _with_proxy(access: Access, environment: Mapping[str, str]) -> Access:
    if access.proxy:
        return access
    proxy = proxy_from_environment(access.server, environment)
    problem = proxy_problem(proxy) if proxy else None
    if problem is not None:
        raise ConfigError(
            problem,
            file="the environment",
            field="HTTPS_PROXY",
            advice="Use an http:// or https:// proxy, or list the server in NO_PROXY",
        )
    return replace(access, proxy=proxy)
