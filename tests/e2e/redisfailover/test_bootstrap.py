"""`bootstrapNode`: a RedisFailover that starts as a replica of a Redis elsewhere, with kubectl."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.outside import PASSWORD, Outside
from e2e.redisfailover.conftest import redisfailover

pytestmark = pytest.mark.e2e


async def test_it_follows_until_the_field_is_removed(owner: Any, outside: Outside) -> None:
    """The password of clients is tried there too, as people know it."""
    await outside.start()
    await outside.write(200)
    owner.kubectl("create", "secret", "generic", "login", f"--from-literal=password={PASSWORD}")
    node = {"host": outside.address, "port": "6379"}
    document = redisfailover(
        redis={"replicas": 2}, auth={"secretPath": "login"}, bootstrapNode=node
    )
    owner.apply(document)
    owner.kubectl("wait", "--for=condition=Following", "rf/cache", "--timeout=90s")
    assert owner.get()["status"]["phase"] == "Following"
    shown = owner.kubectl("get", "rf", "cache", "-o", "wide")
    assert "Following" in shown
    assert "remove spec.bootstrapNode" in shown
    await outside.write(200)
    owner.patch({"bootstrapNode": None})
    owner.wait_ready()
    peer = await owner.redis.connect()
    assert await outside.missing(peer) == []
    assert await peer.ask("SET", "new", "1") == "OK"
    peer.close()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"host": "old", "allowSentinels": True}, "spec.bootstrapNode.allowSentinels"),
        ({"host": "old", "port": "x"}, "spec.bootstrapNode.port"),
        ({"port": "6379"}, "spec.bootstrapNode.host"),
    ],
    ids=["sentinels", "port", "host"],
)
async def test_kubectl_says_what_is_wrong_with_it(
    owner: Any, node: dict[str, Any], said: str
) -> None:
    assert said in owner.apply(redisfailover(bootstrapNode=node), check=False)
