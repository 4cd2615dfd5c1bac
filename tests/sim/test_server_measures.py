"""What the operator's own metrics say of every server, without an exporter."""

from __future__ import annotations

import asyncio

import pytest

from redis_operator.operator.metrics.servers import COUNTERS, GAUGES
from redis_operator.operator.world import REDISES
from redis_testing.simulation.failover import failover
from redis_testing.simulation.system import (
    DATABASE,
    NAMESPACE,
    Manifest,
    Simulation,
    database,
    simulate,
)

SERVER = "redis_operator_server_"
OF_REPLICAS = {"replication_lag_bytes", "replication_link_up"}


def _told(sim: Simulation) -> dict[str, dict[str, float]]:
    """Every series of servers and sentinels: by pod, then by name."""
    found: dict[str, dict[str, float]] = {}
    for family in sim.metrics.collect():
        for sample in family.samples:
            if "pod" in sample.labels:
                assert sample.labels["namespace"] == NAMESPACE
                assert sample.labels["name"] == DATABASE
                name = sample.name.removeprefix(SERVER)
                found.setdefault(sample.labels["pod"], {})[name] = sample.value
    return found


def _alone() -> Manifest:
    found = database(shards=1, replicas=0)
    found["spec"]["mode"] = "Standalone"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "pods", "sentinels"),
    [(_alone(), 1, 0), (failover(replicas=1), 2, 3), (database(shards=3, replicas=1), 6, 0)],
    ids=["Standalone", "Failover", "Cluster"],
)
def test_every_server_has_the_same_figures_in_every_mode(
    wanted: Manifest, pods: int, sentinels: int
) -> None:
    async def scenario(sim: Simulation) -> tuple[dict[str, dict[str, float]], float]:
        sim.start_operator()
        await sim.apply(wanted)
        await sim.until_ready()
        await asyncio.sleep(15.0)
        return _told(sim), sim.wall()

    found, now = simulate(scenario)
    servers = {pod: told for pod, told in found.items() if "up" in told}
    assert len(servers) == pods
    assert len(found) - len(servers) == sentinels
    assert all(
        told == {"redis_operator_sentinel_up": 1.0}
        for pod, told in found.items()
        if pod not in servers
    )
    usual = {name for name, _, _ in GAUGES} | {f"{name}_total" for name, _, _ in COUNTERS}
    usual |= {"up", "observed_timestamp_seconds"}
    if wanted["spec"]["mode"] != "Cluster":
        usual -= {"cluster_state_ok"}
    for told in servers.values():
        missing = usual - set(told)
        assert missing == (OF_REPLICAS if told["primary"] else set()), told
        assert told["up"] == 1.0
        assert 0.0 <= now - told["observed_timestamp_seconds"] <= 11.0
        assert told.get("replication_link_up", 1.0) == told.get("cluster_state_ok", 1.0) == 1.0
        assert told.get("replication_lag_bytes", 0.0) == 0.0


@pytest.mark.slow
def test_what_does_not_respond_or_is_gone_has_no_figures() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.start_operator()
        await sim.apply(failover(replicas=2))
        await sim.until_ready()
        leader = str((await sim.redis())["status"]["primary"])
        silent = next(pod for pod in _told(sim) if "sentinel" not in pod and pod != leader)
        sim.freeze(silent)
        await asyncio.sleep(30.0)
        assert set(_told(sim)[silent]) == {"up", "observed_timestamp_seconds"}
        assert _told(sim)[silent]["up"] == 0.0
        sim.thaw(silent)
        await sim.until_ready()
        await sim.change(replicas=1)
        await sim.until(
            lambda _: sum("up" in told for told in _told(sim).values()) == 2,
            within=120.0,
            what="without the series of the pod that left",
        )
        await sim.client.delete(REDISES, (NAMESPACE, DATABASE))
        await asyncio.sleep(60.0)
        assert _told(sim) == {}

    simulate(scenario)
