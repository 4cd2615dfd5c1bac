from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubecontroller.client.access import ExecAuth
from kubecontroller.client.credential import (
    Credential,
    FixedLogin,
    PluginLogin,
    TokenFileLogin,
    basic,
    bearer,
)
from kubecontroller.client.errors import CredentialError
from kubecontroller.client.execplugin import parse_credential, run_plugin

Script = Callable[[str], str]
NOW = datetime(2026, 5, 1, tzinfo=UTC)
V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"


def plugin(command: str, **fields: Any) -> ExecAuth:
    return ExecAuth(
        command=command,
        api_version=fields.pop("api_version", V1),
        source="/k/config: users[me].user.exec",
        **fields,
    )


def printed(
    status: dict[str, Any] | None, version: str = V1, kind: str = "ExecCredential"
) -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "status": status}).encode()


async def test_a_plugin_is_told_what_is_wanted_and_its_token_is_used(script: Script) -> None:
    command = script(
        'info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])\n'
        'assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False\n'
        'token = "-".join([sys.argv[1], os.environ["K"], info["spec"]["cluster"]["server"]])\n'
        'json.dump({"apiVersion": info["apiVersion"], "kind": "ExecCredential",\n'
        '  "status": {"token": token}}, sys.stdout)',
    )
    auth = plugin(
        command,
        api_version=BETA,
        args=("arg",),
        environment=(("K", "v"),),
        cluster_info=b'{"server": "https://h"}',
    )
    credential = await run_plugin(auth, now=NOW)
    assert credential.headers == bearer("arg-v-https://h")


async def test_a_plugin_that_is_not_installed_gives_its_hint() -> None:
    auth = plugin("no-such-login-program", install_hint="brew install it")
    with pytest.raises(CredentialError) as caught:
        await run_plugin(auth, now=NOW)
    assert (caught.value.file, caught.value.field) == ("/k/config", "users[me].user.exec.command")
    assert "To install it: brew install it" in str(caught.value)


async def test_a_plugin_that_fails_is_quoted_from_stderr_never_from_stdout(script: Script) -> None:
    command = script('print("hunter2"); sys.stderr.write("please log in"); sys.exit(3)')
    with pytest.raises(CredentialError, match=r"status 3: please log in") as caught:
        await run_plugin(plugin(command), now=NOW)
    assert "hunter2" not in str(caught.value)


async def test_a_plugin_that_hangs_is_given_up(script: Script) -> None:
    command = script("time.sleep(60)")
    with pytest.raises(CredentialError, match=r"gave no credential in 0\.2 s"):
        await run_plugin(plugin(command), now=NOW, deadline=0.2)


async def test_a_plugin_nobody_waits_for_is_killed_with_its_children(
    script: Script, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    command = script(
        f"os.fork()\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(60)"
    )
    task = asyncio.create_task(run_plugin(plugin(command), now=NOW))
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    started = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(_alive, started)))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_plugin_that_wants_a_terminal_is_refused() -> None:
    with pytest.raises(CredentialError, match="terminal"):
        await run_plugin(plugin("x", needs_terminal=True), now=NOW)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param(b"hunter2", "printed no ExecCredential", id="no json"),
        pytest.param(printed({"token": "hunter2"}, BETA), "not client.auth", id="version"),
        pytest.param(printed({"token": "hunter2"}, V1, "Secret"), "printed a", id="kind"),
        pytest.param(printed(None), "neither a token nor", id="no status"),
        pytest.param(printed({}), "neither a token nor", id="empty"),
        pytest.param(printed({"clientKeyData": "hunter2"}), "without the other", id="key alone"),
        pytest.param(printed({"token": "hunter2\nx"}), "no header can carry", id="two lines"),
        pytest.param(printed({"token": 5}), "printed no ExecCredential", id="wrong type"),
        pytest.param(
            printed({"token": "hunter2", "expirationTimestamp": "2026-04-30T00:00:00Z"}),
            r"expired at 2026-04-30.*Log in again",
            id="expired",
        ),
    ],
)
def test_what_a_plugin_prints_wrong_is_said_without_quoting_it(output: bytes, problem: str) -> None:
    with pytest.raises(CredentialError, match=problem) as caught:
        parse_credential(plugin("login"), output, now=NOW)
    assert caught.value.file == "/k/config"
    assert "hunter2" not in str(caught.value)


def test_certificates_and_expiry_of_a_plugin_are_kept() -> None:
    output = printed(
        {
            "clientCertificateData": "CERT",
            "clientKeyData": "KEY",
            "expirationTimestamp": "2026-05-01T01:00:00Z",
        }
    )
    credential = parse_credential(plugin("login"), output, now=NOW)
    assert credential.headers == ()
    assert credential.certificate is not None
    assert (credential.certificate.certificate, credential.certificate.key) == (b"CERT", b"KEY")
    assert credential.expires == NOW + timedelta(hours=1)
    assert "KEY" not in repr(credential)
    assert "KEY" not in repr(credential.certificate)


class Clock:
    def __init__(self) -> None:
        self.now = NOW
        self.runs = 0

    async def run(self, now: datetime) -> Credential:
        self.runs += 1
        await asyncio.sleep(0)
        return Credential(headers=bearer(str(self.runs)), expires=now + timedelta(minutes=5))


async def test_a_credential_is_kept_until_it_expires() -> None:
    clock = Clock()
    login = PluginLogin(clock.run, now=lambda: clock.now)
    assert await login.current() == await login.current()
    assert clock.runs == 1
    clock.now += timedelta(minutes=5)
    assert (await login.current()).headers == bearer("2")


async def test_those_who_wait_together_run_the_plugin_once() -> None:
    clock = Clock()
    login = PluginLogin(clock.run, now=lambda: clock.now)
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(login.current())
    assert clock.runs == 1


async def test_a_plugin_slower_than_those_who_wait_is_not_ended_by_their_deadlines() -> None:
    runs, go_on = [], asyncio.Event()

    async def slow(now: datetime) -> Credential:
        runs.append(now)
        await go_on.wait()
        return Credential(headers=bearer("slow"))

    login = PluginLogin(slow)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await login.current()
    go_on.set()
    assert (await login.current()).headers == bearer("slow")
    assert len(runs) == 1


async def test_a_plugin_that_failed_is_run_again_for_the_next() -> None:
    runs = []

    async def failing(now: datetime) -> Credential:
        runs.append(now)
        raise CredentialError("no", file="plugin")

    login = PluginLogin(failing)
    for _ in range(2):
        with pytest.raises(CredentialError):
            await login.current()
    assert len(runs) == 2


async def test_a_refused_credential_is_fetched_again_once() -> None:
    clock = Clock()
    login = PluginLogin(clock.run, now=lambda: clock.now)
    old = await login.current()
    assert login.refuse(old)
    new = await login.current()
    assert new != old
    # A late 401 for the old one does not throw the new one away.
    assert login.refuse(old)
    assert await login.current() is new


async def test_a_token_file_is_read_again_when_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    login = TokenFileLogin(str(file))
    first = await login.current()
    assert first.headers == bearer("one")
    assert not login.refuse(first)
    file.write_text("two\n")
    assert login.refuse(first)
    assert (await login.current()).headers == bearer("two")


async def test_a_token_file_that_vanishes_later_is_tolerated(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    login = TokenFileLogin(str(file))
    first = await login.current()
    file.unlink()
    assert not login.refuse(first)
    assert await login.current() == first
    file.write_text("")
    login.refuse(first)
    assert await login.current() == first


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_a_missing_or_empty_token_file_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CredentialError) as caught:
        await TokenFileLogin(str(file)).current()
    assert caught.value.file == str(file)


async def test_a_fixed_credential_cannot_be_renewed() -> None:
    credential = Credential(headers=basic("u", "p"))
    login = FixedLogin(credential)
    assert await login.current() is credential
    assert not login.refuse(credential)
    assert credential.headers == (("authorization", "Basic dTpw"),)


def test_plugins_do_not_touch_our_environment() -> None:
    assert "KUBERNETES_EXEC_INFO" not in os.environ
