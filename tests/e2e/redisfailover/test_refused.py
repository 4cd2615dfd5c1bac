"""What cannot be followed is refused: by `kubectl apply` where that can tell, or in the status."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.redisfailover.conftest import redisfailover

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"redis": {"replicas": 0}}, "spec.redis.replicas"),
        ({"sentinel": {"quorum": 4}}, "spec.sentinel.quorum"),
        ({"sentinel": {"replicas": 4, "quorum": 2}}, "both halves"),
        ({"redis": {"shutdownConfigMap": "mine"}}, "spec.redis.shutdownConfigMap"),
        ({"redis": {"customCommandRenames": [{"from": "KEYS", "to": ""}]}}, "commands that the"),
        ({"redis": {"repicas": 3}}, 'unknown field "spec.redis.repicas"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_kubectl_says_what_is_wrong(owner: Any, spec: dict[str, Any], said: str) -> None:
    told = owner.apply(redisfailover(**spec), check=False)
    assert said in told
    assert "not found" in owner.kubectl("get", "rf", "cache", check=False).lower()


async def test_the_status_names_the_line_and_what_runs_keeps_running(owner: Any) -> None:
    owner.apply(redisfailover(redis={"replicas": 2, "customConfig": ["timeout 100"]}))
    owner.wait_ready()
    owner.patch({"redis": {"customConfig": ["timeout 100", "requirepass secret"]}})
    told = await owner.wait_reason("InvalidSpec")
    assert told["message"].startswith("spec.redis.customConfig[1]: requirepass is set by the")
    events = owner.kubectl("get", "events", "-o", "custom-columns=R:.reason,M:.message")
    assert "InvalidSpec" in events
    assert owner.get()["status"]["ready"] == "2/2"
    assert await owner.redis.run("SET", "a", "1") == "OK"
    owner.patch({"redis": {"customConfig": ["timeout 200"]}})
    owner.wait_ready()
    assert (await owner.redis.run("CONFIG", "GET", "timeout"))[1] == "200"


async def test_an_auth_secret_without_a_password_is_named(owner: Any) -> None:
    owner.kubectl("create", "secret", "generic", "mine", "--from-literal=other=x")
    owner.apply(redisfailover(redis={"replicas": 2}, auth={"secretPath": "mine"}))
    told = await owner.wait_reason("AuthSecret")
    assert "mine" in told["message"]
    owner.kubectl("patch", "secret", "mine", "-p", '{"stringData":{"password":"long-enough-1"}}')
    owner.wait_ready()
    assert await owner.redis.run("PING") == "PONG"
