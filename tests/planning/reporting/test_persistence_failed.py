"""Servers that cannot write their files, as on a full disk, are told with what to do. MISCONF"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from planning.moments import but, whole
from planning.standalone.test_standalone import FORMED, SERVER
from planning.standalone.test_standalone import WANTED as ALONE
from planning.standalone.test_standalone import told as told_alone
from redis_operator.api.status import RedisStatus
from redis_operator.planning.advice import Wanted
from redis_operator.planning.observed import Observed, Volume
from redis_operator.planning.plan import plan
from redis_operator.planning.reporting.announcements import announcements
from redis_operator.planning.reporting.context import Context
from redis_operator.planning.reporting.status import status
from redis_testing.cluster import disk
from support.situations import WANTED, whole_database

NOW = 1_000_000.0
REFUSES = "refuses writes (MISCONF)"
IN_MEMORY = "in memory only"
AOF, SNAPSHOT = {"aof_failed": True}, {"snapshot_failed": True}


def told(observed: Observed, wanted: Wanted = WANTED) -> RedisStatus:
    context = Context(previous=RedisStatus(), generation=1, now="2026-01-01T00:00:00Z")
    return status(wanted, observed, plan(wanted, observed, NOW), context)


def degraded(found: RedisStatus) -> tuple[str, str, str]:
    (one,) = [c for c in found.conditions if c.type == "Degraded"]
    return one.status, one.reason, one.message


def with_settings(observed: Observed, pod: str, **settings: str) -> Observed:
    config = tuple((name.replace("_", "-"), value) for name, value in settings.items())
    return but(observed, pod, config=config)


@pytest.mark.parametrize(
    ("pod", "failed", "settings", "words"),
    [
        pytest.param("0-0", AOF, {}, ("append-only file", REFUSES), id="primary, append-only"),
        pytest.param("0-0", SNAPSHOT, {"save": "60 1"}, ("snapshot", REFUSES), id="primary, rdb"),
        pytest.param("0-0", SNAPSHOT, {}, ("snapshot", REFUSES), id="save points not asked for"),
        pytest.param(
            "0-0",
            SNAPSHOT,
            {"save": "60 1", "stop_writes_on_bgsave_error": "no"},
            ("snapshot", IN_MEMORY),
            id="primary that goes on",
        ),
        pytest.param("0-1", AOF, {}, ("append-only file", IN_MEMORY), id="replica, append-only"),
        pytest.param("0-1", SNAPSHOT, {}, ("snapshot", IN_MEMORY), id="replica, rdb"),
    ],
)
def test_a_server_that_cannot_write_its_files_is_named_with_what_to_do(
    pod: str, failed: dict[str, Any], settings: dict[str, str], words: tuple[str, ...]
) -> None:
    observed = with_settings(but(whole(), pod, **failed), pod, **settings)
    volume = Volume(
        name=f"data-db-{pod}",
        pod=f"db-{pod}",
        uid="v",
        requested=1,
        capacity=2**30,
        expandable=True,
    )
    found = told(replace(observed, volumes=(volume,)))
    state, reason, message = degraded(found)
    assert (state, reason) == ("True", "PersistenceFailed")
    for word in (f"db-{pod}", f"data-db-{pod}", "1.0Gi", "spec.storage.size", *words):
        assert word in message
    (ready,) = [c for c in found.conditions if c.type == "Ready"]
    assert (ready.status, ready.reason) == ("False", "PersistenceFailed")


@pytest.mark.parametrize(
    ("settings", "persistent"),
    [
        pytest.param({"save": ""}, True, id="no save points: a sync to a replica failed"),
        pytest.param({}, False, id="in memory"),
    ],
)
def test_a_snapshot_that_nobody_asked_for_may_fail(
    settings: dict[str, str], persistent: bool
) -> None:
    observed = with_settings(but(whole(), "0-0", snapshot_failed=True), "0-0", **settings)
    wanted = replace(WANTED, persistent=persistent, volatile=not persistent)
    assert degraded(told(observed, wanted))[0] == "False"


def test_a_full_disk_is_an_event_when_it_fills_and_when_there_is_room() -> None:
    well, full = told(whole()), told(but(whole(), "0-0", aof_failed=True))
    (warning,) = [a for a in announcements(well, full) if a.reason == "PersistenceFailed"]
    assert warning.warning
    assert "db-0-0" in warning.message
    assert not [a for a in announcements(full, full) if a.reason == "PersistenceFailed"]
    assert any(a.reason == "Healthy" and not a.warning for a in announcements(full, well))


def test_the_one_server_of_mode_standalone_is_told_alike() -> None:
    full = replace(FORMED, nodes=(replace(SERVER, aof_failed=True),))
    state, reason, message = degraded(told_alone(ALONE, full))
    assert (state, reason) == ("True", "PersistenceFailed")
    assert REFUSES in message
    assert not plan(ALONE, full, NOW).steps


def test_a_simulated_server_whose_disk_is_full_says_so_to_the_operators_probe() -> None:
    database = whole_database()
    disk.fill_up(database.world, database.server(0, 0))
    (server,) = [node for node in database.observe().seen if node.pod.name == "db-0-0"]
    assert server.aof_failed == (database.server(0, 0).persistence == "aof")
