"""Credentials from a program: the exec plugins of a kubeconfig.

The only module of this package that starts a process. The program gets no terminal, its standard
output is never shown (it is the credential), and it is killed with all its children when it takes
too long or its request was given up.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from kubecontroller.client.access import ExecAuth
from kubecontroller.client.credential import ClientCertificate, Credential, bearer
from kubecontroller.client.errors import CredentialError

__all__ = ["parse_credential", "run_plugin"]

_SHOWN_OF_STDERR: Final = 300


class _Status(Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


async def run_plugin(
    auth: ExecAuth,
    *,
    now: datetime,
    deadline: float = 60.0,
    environment: Mapping[str, str] = os.environ,
) -> Credential:
    """Run the program and return the credential it prints.

    Errors: `CredentialError` naming the kubeconfig's field, with the plugin's own hint on how to
    install it where it is missing.
    """
    if auth.needs_terminal:
        raise _error(
            auth, "the plugin wants a terminal (interactiveMode: Always)", "interactiveMode"
        )
    try:
        process = await asyncio.create_subprocess_exec(
            auth.command,
            *auth.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, **dict(auth.environment), "KUBERNETES_EXEC_INFO": _request(auth)},
            start_new_session=True,
        )
    except OSError as error:
        raise _error(
            auth, f"{auth.command!r} cannot be started ({error.strerror})", "command"
        ) from error
    try:
        async with asyncio.timeout(deadline):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise _error(auth, f"{auth.command!r} gave no credential in {deadline:g} s") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        said = complaint.decode("utf-8", "replace").strip()[-_SHOWN_OF_STDERR:]
        problem = f"{auth.command!r} ended with status {process.returncode}"
        raise _error(auth, f"{problem}: {said}" if said else problem)
    return parse_credential(auth, output, now=now)


def parse_credential(auth: ExecAuth, output: bytes, *, now: datetime) -> Credential:
    """Return the credential that a plugin printed; error messages do not quote the output."""
    try:
        printed = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError as error:
        raise _error(auth, f"{auth.command!r} printed no ExecCredential ({error})") from error
    if printed.kind != "ExecCredential" or printed.api_version != auth.api_version:
        got = f"{printed.api_version} {printed.kind}".strip()
        raise _error(
            auth, f"{auth.command!r} printed a {got!r}, not {auth.api_version}", "apiVersion"
        )
    status = printed.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _error(auth, f"{auth.command!r} printed a certificate or a key without the other")
    if not status.token and not status.client_certificate_data:
        raise _error(auth, f"{auth.command!r} printed neither a token nor a certificate")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    if expires is not None and expires <= now:
        raise _error(
            auth,
            f"{auth.command!r} printed a credential that expired at {expires.isoformat()}",
            advice="Log in again with the plugin, and check this machine's clock",
        )
    certificate = None
    if status.client_certificate_data:
        certificate = ClientCertificate(
            status.client_certificate_data.encode(), status.client_key_data.encode()
        )
    try:
        headers = bearer(status.token.strip()) if status.token else ()
    except CredentialError as error:
        raise _error(auth, f"{auth.command!r} printed a token that no header can carry") from error
    return Credential(headers=headers, certificate=certificate, expires=expires)


def _request(auth: ExecAuth) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if auth.cluster_info:
        spec["cluster"] = msgspec.Raw(auth.cluster_info)
    request = {"apiVersion": auth.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(request).decode()


def _error(auth: ExecAuth, problem: str, name: str = "", advice: str = "") -> CredentialError:
    where = f"{auth.source}.{name}" if name else auth.source
    file, _, at = where.rpartition(": ")
    hint = f"To install it: {auth.install_hint}" if auth.install_hint else ""
    return CredentialError(
        problem,
        file=file,
        field=at,
        advice=advice or hint or f"Run {auth.command!r} by hand to see what it says",
    )
