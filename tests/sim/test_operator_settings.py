"""Settings of a database in use, where servers have their own way with values. IN-26, IN-27"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from kubecontroller.client.errors import Forbidden
from kubecontroller.client.meta import Manifest
from kubecontroller.client.request import Request, Response
from kubecontroller.client.transport import Transport
from kubelocal.controllers.engine.caches import BUILT_IN_KINDS
from redis_operator.operator.wanted import PRIMARY_ANNOTATION
from redis_operator.operator.world import REDIS_VERSIONS
from redis_testing.simulation.scenarios import formed, mine, primary, replica
from redis_testing.simulation.system import DATABASE, NAMESPACE, Simulation, database, simulate

pytestmark = pytest.mark.timeout(300)


def test_a_value_that_servers_spell_differently_is_set_and_let_be() -> None:
    """One whose spelling is known is set once; any other one twice, and other work goes on."""

    async def run(simulation: Simulation) -> None:
        for server in mine(simulation):
            server.spellings = {
                ("notify-keyspace-events", "Ex"): "xE",
                ("proc-title-template", "{title}"): "{title} as the engine calls it",
            }
        simulation.start_operator()
        await asyncio.sleep(3.0)
        config = {"notify-keyspace-events": "Ex", "proc-title-template": "{title}"}
        await simulation.change(config=config, replicas=0)
        await simulation.until_ready()
        await asyncio.sleep(30.0)
        done = [str(effect) for effect in simulation.journal.effects]
        sets = Counter(text.split("redis ")[1] for text in done if "CONFIG SET" in text)
        assert len(mine(simulation)) == 3
        events = [times for what, times in sets.items() if "notify-keyspace-events" in what]
        titles = [times for what, times in sets.items() if "proc-title-template" in what]
        assert events
        assert titles
        assert set(events) == {1}
        assert max(titles) <= 2

    simulate(run, snapshot=formed(database()))


def conditions(found: Manifest) -> dict[str, dict[str, str]]:
    return {c["type"]: c for c in found["status"]["conditions"]}


def test_a_directive_that_the_chosen_version_does_not_have_is_refused_with_its_path() -> None:
    """The version is the catalog's here: the spec names none."""

    async def run(simulation: Simulation) -> None:
        manifest = database(config={"nonsense": "1"})
        del manifest["spec"]["version"]
        simulation.start_operator()
        await simulation.apply(manifest)
        await asyncio.sleep(30.0)
        found = await simulation.redis()
        assert conditions(found)["Ready"]["status"] == "False"
        assert "spec.config.nonsense: is not a directive of valkey" in found["status"]["message"]
        assert not mine(simulation)

    simulate(run)


@pytest.mark.slow
@pytest.mark.parametrize("at_creation", [True, False], ids=["at-creation", "running"])
def test_a_directive_that_only_servers_know_to_be_wrong_is_reported(at_creation: bool) -> None:
    """Nothing is measured of this version, so the servers themselves are asked."""
    wrong = {"nonsense": "1"}

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(
            database(replicas=0, version="8.0", config=wrong if at_creation else {})
        )
        if not at_creation:
            await simulation.until_ready()
            await simulation.change(config=wrong)
        await asyncio.sleep(60.0)
        found = await simulation.redis()
        by_type = conditions(found)
        assert by_type["Available"]["status"] == "True", "all servers run"
        assert by_type["Ready"]["status"] == "False"
        assert by_type["ConfigApplied"]["status"] == "False"
        assert "remove spec.config.nonsense" in by_type["ConfigApplied"]["message"]
        await simulation.change(config=None)
        await simulation.until_ready()
        assert conditions(await simulation.redis())["ConfigApplied"]["status"] == "True"

    simulate(run)


def test_a_value_that_servers_refuse_stops_none_of_them_from_starting() -> None:
    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.apply(database(config={"proc-title-template": ""}))
        await asyncio.sleep(60.0)
        by_type = conditions(await simulation.redis())
        assert by_type["Available"]["status"] == "True"
        assert by_type["ConfigApplied"]["status"] == "False"
        assert "proc-title-template" in by_type["ConfigApplied"]["message"]
        assert by_type["Ready"]["status"] == "False"

    simulate(run)


async def warnings(simulation: Simulation) -> list[str]:
    """Return the reason of each Warning about the database, as often as it was sent."""
    page = await simulation.client.list(BUILT_IN_KINDS["events"], namespace=NAMESPACE)
    all_of_them: list[Any] = list(page.items)
    about = [
        e for e in all_of_them if (e.get("regarding") or e["involvedObject"])["kind"] == "Redis"
    ]
    found = [e for e in about if e["type"] == "Warning"]
    return sorted(e["reason"] for e in found for _ in range(e.get("count") or 1))


def test_a_value_that_servers_refuse_is_tried_ever_more_rarely_and_stops_no_other_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="redis_operator.operator.act")

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await simulation.until_ready()
        await simulation.change(config={"proc-title-template": ""}, shards=4)
        await asyncio.sleep(120.0)
        found = await simulation.redis()
        by_type = conditions(found)
        assert (by_type["ConfigApplied"]["status"], by_type["ConfigApplied"]["reason"]) == (
            "False",
            "Refused",
        )
        assert by_type["Degraded"]["reason"] == "NoEffect"
        for kind in ("ConfigApplied", "Degraded"):
            assert "refuses proc-title-template" in by_type[kind]["message"]
        assert sum(bool(server.me.slots) for server in mine(simulation) if server.is_primary) == 4
        sent = await warnings(simulation)
        assert sent.count("NoEffect") == 1
        assert len(sent) < 12
        caplog.clear()
        await asyncio.sleep(120.0)
        assert [record.message for record in caplog.records].count("not done") < 5
        assert await warnings(simulation) == sent
        await simulation.change(config=None)
        await simulation.until_ready()

    simulate(run, snapshot=formed(database()))


def test_servers_are_repaired_although_their_version_left_the_catalog() -> None:
    """Also by an operator that has just started: it has nothing but objects and status."""

    async def run(simulation: Simulation) -> None:
        entry = {"engine": "valkey", "version": "8.7", "image": "valkey/valkey:8.7"}
        versions = REDIS_VERSIONS.plain()
        await simulation.client.create(versions, {"metadata": {"name": "other"}, "spec": entry})
        first = simulation.start_operator()
        await simulation.apply(database(version="8.7"))
        await simulation.until_ready()
        simulation.restarts = False
        first.die()
        await simulation.client.delete(versions, ("", "other"))
        simulation.restarts = True
        simulation.start_operator()
        await simulation.until(
            lambda found: conditions(found)["Degraded"]["reason"] == "UnknownVersion",
            within=30.0,
            what="reported",
        )
        await asyncio.sleep(5.0)
        simulation.kill(primary(simulation, 0).name)
        await asyncio.sleep(3.0)  # the engine would take five to elect a replica
        found = await simulation.redis()
        assert conditions(found)["Available"]["reason"] == "AllSlotsServed"

    simulate(run)


@pytest.mark.parametrize("asked", ["", "db-9-9"], ids=["first request", "another one before"])
def test_requests_are_followed_as_they_are_now_while_the_spec_is_refused(asked: str) -> None:
    """The spec is the last one that could be used; annotations are the present ones."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator()
        await asyncio.sleep(3.0)
        if asked:
            await simulation.annotate(**{PRIMARY_ANNOTATION: asked})
            await simulation.until(
                lambda found: asked in str(found["status"].get("plan")), within=30.0, what="asked"
            )
        await simulation.change(version="9.9")
        await simulation.until(
            lambda found: conditions(found)["Degraded"]["reason"] == "UnknownVersion",
            within=30.0,
            what="reported",
        )
        new = replica(simulation, 0).name
        await simulation.annotate(**{PRIMARY_ANNOTATION: new})

        async def done() -> bool:
            found = await simulation.redis()
            left = (found["metadata"].get("annotations") or {}).get(PRIMARY_ANNOTATION)
            return primary(simulation, 0).name == new and left is None

        await simulation.until_all(done, within=90.0, what="done")
        await simulation.until(
            lambda found: not asked or asked not in str(found["status"].get("plan")),
            within=30.0,
            what="not reported any more",
        )

    simulate(run, snapshot=formed(database()))


class RefusedRequests:
    """The transport of an operator that may not change the database itself, only its status."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.close = transport.close

    async def request(self, request: Request, *, timeout: float) -> Response:
        if request.method == "PATCH" and request.path.endswith(f"/redis/{DATABASE}"):
            raise Forbidden("denied by a policy", status=403, reason="Forbidden", ref=DATABASE)
        return await self._transport.request(request, timeout=timeout)


def test_a_request_that_cannot_be_removed_is_reported_and_hides_nothing_else() -> None:
    """It would be followed again: an accepted loss would be a licence for the next one."""

    async def run(simulation: Simulation) -> None:
        simulation.start_operator(wrap=RefusedRequests)
        await asyncio.sleep(3.0)
        new = replica(simulation, 0).name
        await simulation.annotate(**{PRIMARY_ANNOTATION: new})
        await simulation.until(
            lambda found: PRIMARY_ANNOTATION in conditions(found)["Degraded"]["message"],
            within=60.0,
            what="reported",
        )
        assert primary(simulation, 0).name == new
        simulation.freeze("db-1-1")
        await simulation.until(
            lambda found: "db-1-1" in conditions(found)["Degraded"]["message"],
            within=60.0,
            what="reported too",
        )

    simulate(run, snapshot=formed(database()))
