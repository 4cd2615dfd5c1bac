from __future__ import annotations

from local.node.pod_world import World, is_ready, pod, status_of


async def test_pod_runs_and_is_ready(world: World) -> None:
    await world.create(pod())
    found = await world.until(is_ready)
    assert found["status"]["phase"] == "Running"
    assert status_of(found)["state"]["running"]
