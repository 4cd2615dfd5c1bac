"""The whole operator with databases of mode Failover, over simulated servers and sentinels.

Clients write all the while. In the end one server leads, all others have what it has, and every
sentinel names it. SE-02, SE-03, SE-05, SE-06, SE-07, SE-10, SE-13, SE-14, SE-17, SE-18, ST-10, K-17
"""

from __future__ import annotations

import asyncio
import os

import pytest

from kubecontroller.testing.seeds import derive
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.manifests.pod import RESTARTED_ANNOTATION
from redis_testing.cluster import replication
from redis_testing.cluster.wire import answer
from redis_testing.simulation.crashes import Blow, Reference, reference, spread, strike_at_each
from redis_testing.simulation.failover import (
    FAILOVER_SCENARIOS,
    failover,
    followers,
    is_whole,
    leader,
    sentinels,
    servers,
)
from redis_testing.simulation.failover_trouble import heal_broken, soak_failover
from redis_testing.simulation.process import Effect, Strike
from redis_testing.simulation.scenarios import Scenario, formed, pods
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, simulate
from support.histories import ALL, draw_some

from .test_operator_waking import warnings

pytestmark = pytest.mark.timeout(900)  # by the clock of a busy machine

CLAIMS = BUILT_IN_KINDS["persistentvolumeclaims"]
BROKEN = 16 if ALL else 5
STRUCK = ("create", "primary killed", "switchover", "restart")


def drawn() -> list[Scenario]:
    """All scenarios, or a third of them."""
    found = sorted(FAILOVER_SCENARIOS, key=lambda s: derive(f"chosen {s}"))
    return found if ALL else found[: len(found) // 3]


def named(name: str) -> Scenario:
    return next(s for s in FAILOVER_SCENARIOS if s.name == f"failover: {name}")


def problems(known: Reference, blows: list[Blow]) -> list[str]:
    told: dict[Blow, str] = {}
    strike_at_each(known, blows, told.__setitem__)
    assert set(told) == set(blows)
    return [problem for problem in told.values() if problem]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", drawn(), ids=str)
def test_the_end_is_as_it_must_be(scenario: Scenario) -> None:
    assert reference(scenario, seed=int(os.environ["SEED"]) % 1000).end


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_some(STRUCK, 2, name="failover strikes"))
def test_the_end_is_the_same_after_a_strike_at_some_effects(name: str) -> None:
    """Each kind of strike somewhere in two scenarios; `make seeds` strikes in all ways at each of
    these points in all of them, and `make campaign` at every effect."""
    known = reference(named(name))
    points, strikes = spread(range(len(known.effects)), 4)[:3], [*Strike]
    turn = len(name)
    some = [(point, strikes[(turn + n) % len(strikes)]) for n, point in enumerate(points)]
    every = [(point, strike) for point in points for strike in strikes]
    assert problems(known, every if ALL else some) == []


@pytest.mark.slow
def test_a_primary_that_was_named_late_is_not_replaced_by_sentinels_that_took_it_for_dead() -> None:
    """All servers restart as replicas, and the operator is stuck for half a minute.

    By then the sentinels agree that the primary is down, since it says that it is a replica. It
    leads again, and they hear of it up to ten seconds later: until then no replica may be promoted.
    """
    known = reference(named("all servers killed"))
    early = [e.number for e in known.effects if e.kind == "api PATCH services"]
    assert early
    assert problems(known, [(number, Strike.LOST_REPLY) for number in early]) == []


@pytest.mark.parametrize("number", range(BROKEN))
def test_broken_states_are_repaired(number: int) -> None:
    """What is not whole in time raises `Broken`."""
    seed = int(os.environ["SEED"]) % 100_000 + number
    simulate(heal_broken, seed=seed, snapshot=formed(failover()))


@pytest.mark.slow
@pytest.mark.parametrize("storage", [True, False], ids=["stored", "in memory"])
def test_random_trouble_ends_well(*, storage: bool) -> None:
    base = formed(failover(storage=storage))
    seed = int(os.environ["SEED"]) % 100_000
    history = simulate(
        lambda simulation: soak_failover(simulation, seconds=60.0, pause=12.0),
        seed=seed,
        snapshot=base,
    )
    assert history


@pytest.mark.slow
def test_a_switchover_that_is_torn_between_promotion_and_demotion_is_done_in_the_end() -> None:
    """Two lead for a moment, and one of them paused: no write is lost, and the request stands."""
    known = reference(named("switchover"))
    torn = [e.number for e in known.effects if e.kind == "redis REPLICAOF"]
    assert torn
    assert problems(known, [(number, strike) for number in torn for strike in Strike]) == []


def test_a_sentinel_whose_clock_was_set_far_back_is_recreated() -> None:
    """It would watch nothing for two hours."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.world.jump_clock(f"{DATABASE}-sentinel-1", -7200.0)
        before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}

        async def replaced() -> bool:
            found = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}
            other = {name for name, uid in before.items() if found.get(name) != uid}
            assert other <= {f"{DATABASE}-sentinel-1"}
            return bool(other) and len(found) == len(before) and is_whole(simulation)

        await simulation.until_all(replaced, within=120.0, what="replaced")

    simulate(scenario, snapshot=formed(failover()))


def test_sentinels_whose_clocks_were_all_set_back_are_recreated_one_by_one() -> None:
    """On one node, or on nodes that correct their clocks together: none of them would act."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        names = {f"{DATABASE}-sentinel-{n}" for n in range(3)}
        for name in names:
            simulation.world.jump_clock(name, -7200.0)
        before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}

        async def replaced() -> bool:
            found = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}
            assert len(names & found.keys()) >= 2, "one after the other"
            other = {name for name, uid in before.items() if found.get(name) != uid}
            return other == names and len(found) == len(before) and is_whole(simulation)

        await simulation.until_all(replaced, within=300.0, what="replaced")

    simulate(scenario, snapshot=formed(failover()))


def test_a_second_primary_that_was_written_to_is_restarted_and_follows() -> None:
    """Its files are kept aside, so it copies the primary from the beginning."""

    async def scenario(simulation: Simulation) -> None:
        server = followers(simulation)[0]
        replication.lead(simulation.world, server)
        assert answer(simulation.world, server, ["SET", "beside", "1"]) == b"OK"
        moment = simulation.world.now
        simulation.start_operator()

        async def healed() -> bool:
            found = [s for s in servers(simulation) if s.started_at > moment]
            return [s.name for s in found] == [server.name] and is_whole(simulation)

        await simulation.until_all(healed, within=60.0, what="healed")
        assert (
            answer(simulation.world, simulation.world.servers[server.name], ["GET", "beside"])
            is None
        )
        simulation.check_end()

    simulate(scenario, snapshot=formed(failover()))


def test_a_new_version_keeps_a_majority_and_two_servers_at_every_moment() -> None:
    """Sentinels go first, one at a time; then replicas; the primary hands over and goes last."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        first = leader(simulation).name
        gone: list[str] = []

        def deleted(effect: Effect) -> None:
            if effect.kind == "api DELETE pods":
                gone.append(effect.detail.rpartition("/")[2])

        simulation.journal.told.append(deleted)
        await simulation.change(version="9.0")

        async def upgraded() -> bool:
            assert len(servers(simulation)) >= 2, f"one server at a time: {gone}"
            assert len(sentinels(simulation)) >= 2, f"one sentinel at a time: {gone}"
            found = await simulation.redis()
            done = (found.get("status") or {}).get("version", "").startswith("9.0")
            return done and simulation.is_ready(found) and is_whole(simulation)

        await simulation.until_all(upgraded, within=600.0, what="upgraded")
        assert len(gone) == len(set(gone)) == 6
        assert all("sentinel" in name for name in gone[:3])
        assert gone[-1] == first
        simulation.check_end()

    simulate(scenario, snapshot=formed(failover()))


@pytest.mark.slow
def test_an_edit_in_the_middle_of_a_roll_of_servers_takes_down_one_pod_at_a_time() -> None:
    """Sentinels are outdated too then, and wait for the server that is being recreated. SE-14"""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        simulation.world.load_seconds = 10.0
        gone: list[str] = []
        beside: list[str] = []

        def deleted(effect: Effect) -> None:
            if effect.kind != "api DELETE pods":
                return
            name = effect.detail.rpartition("/")[2]
            now = simulation.world.now
            loaded = (server.name for server in servers(simulation) if server.loading_until <= now)
            up = {*loaded, *(watcher.name for watcher, _ in sentinels(simulation)), name}
            if len(up) < 6:
                beside.append(f"{name} while only {sorted(up)} ran")
            gone.append(name)

        simulation.journal.told.append(deleted)
        await simulation.change(version="9.0")

        async def first_server() -> bool:
            return any("sentinel" not in name for name in gone)

        await simulation.until_all(first_server, within=300.0, what="a server is recreated")
        await simulation.annotate(**{RESTARTED_ANNOTATION: "now"})
        before = len(gone)

        async def restarted() -> bool:
            # the server that was being recreated may have started with the last template
            done = len(set(gone[before:])) >= 5
            return done and simulation.is_ready(await simulation.redis())

        await simulation.until_all(restarted, within=600.0, what="restarted")
        assert beside == []
        simulation.check_end()

    simulate(scenario, snapshot=formed(failover()))


def test_a_roll_of_sentinels_alone_warns_of_nothing_and_restarts_no_server() -> None:
    """A sentinel that is recreated and configured again is part of the roll, not a repair."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        before = {server.name: server.started_at for server in servers(simulation)}
        watched = {watcher.name: watcher.started_at for watcher, _ in sentinels(simulation)}
        degraded: list[str] = []
        await simulation.change(
            sentinel={"replicas": 3, "exporter": {"enabled": True, "image": "exporter:1"}}
        )

        async def restarted() -> bool:
            status = (await simulation.redis()).get("status") or {}
            degraded.extend(
                one["message"]
                for one in status.get("conditions") or ()
                if (one["type"], one["status"]) == ("Degraded", "True")
            )
            found = {watcher.name: watcher.started_at for watcher, _ in sentinels(simulation)}
            done = all(found.get(name, at) > at for name, at in watched.items())
            return done and simulation.is_ready(await simulation.redis())

        await simulation.until_all(restarted, within=600.0, what="sentinels restarted")
        assert {server.name: server.started_at for server in servers(simulation)} == before
        assert degraded == []
        assert await warnings(simulation) == []

    simulate(scenario, snapshot=formed(failover()))


def test_a_restart_on_request_warns_of_nothing_and_ends_ready_for_good() -> None:
    """Pods that are recreated, and sentinels that forget the old ones, are no trouble."""

    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        before = {server.name: server.started_at for server in servers(simulation)}
        await simulation.annotate(**{RESTARTED_ANNOTATION: "now"})

        async def restarted() -> bool:
            found = {server.name: server.started_at for server in servers(simulation)}
            done = all(found.get(name, at) > at for name, at in before.items())
            return done and simulation.is_ready(await simulation.redis())

        await simulation.until_all(restarted, within=600.0, what="restarted")
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert simulation.is_ready(await simulation.redis()), await simulation.redis()
        assert is_whole(simulation)
        assert await warnings(simulation) == []

    simulate(scenario, snapshot=formed(failover()))


def test_volumes_grow_one_after_the_other_and_no_pod_restarts() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}
        await simulation.change(storage={"size": "2Gi"})
        await simulation.until_ready(within=120.0)
        claims = await simulation.client.list(CLAIMS, namespace=NAMESPACE)
        sizes = {c["spec"]["resources"]["requests"]["storage"] for c in claims.items}
        assert sizes == {str(2 * 1024**3)}
        after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods(simulation)}
        assert after == before

    simulate(scenario, snapshot=formed(failover()))


def test_a_sentinel_that_monitors_another_primary_beside_one_whose_clock_was_set_back() -> None:
    """The one cannot hear of the other, which is recreated when those that speak are whole.

    What is not whole in time raises `Broken`.
    """
    simulate(heal_broken, seed=4758, snapshot=formed(failover()))
