"""What each engine can do, and which changes of version are possible."""

from __future__ import annotations

import pytest

from redis_operator.redis import commands
from redis_operator.redis.errors import ReplyError, UnknownCommandError
from redis_operator.redis.versions import (
    Ability,
    Version,
    abilities,
    can,
    can_feed,
    parse_version,
    support_limitation,
    upgrade_limitation,
)
from redis_testing.servers import EngineBinary, Servers

R60, R62, R70, R72 = (Version("redis", *n) for n in ((6, 0), (6, 2), (7, 0), (7, 2)))
R74, R80, R86 = (Version("redis", *n) for n in ((7, 4), (8, 0), (8, 6)))
V81, V91 = Version("valkey", 8, 1), Version("valkey", 9, 1)
COLUMNS = (R60, R62, R70, R74, R80, R86, V81, V91)
MEASURED = {
    R70: "--yyyyyy",
    R74: "---yyy--",
    R80: "---yyy--",
    R86: "-----y--",
    V81: "---yyyyy",
    V91: "---yyyyy",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9.1", Version("redis", 9, 1)),
        ("7.0.15", Version("redis", 7, 0, 15)),
        ("8", Version("redis", 8)),
        ("8.6.3-alpine", Version("redis", 8, 6, 3)),
        ("", None),
        ("latest", None),
        ("7.0.1.2", None),
        ("7.-1", None),
        ("٧.0", None),
        ("9" * 5000, None),
    ],
)
def test_versions_are_read_or_refused(text: str, expected: Version | None) -> None:
    assert parse_version("redis", text) == expected


@pytest.mark.parametrize("primary", MEASURED, ids=str)
def test_full_syncs_follow_what_was_measured(primary: Version) -> None:
    row = "".join("y" if can_feed(primary, replica) else "-" for replica in COLUMNS)
    assert row == MEASURED[primary]


@pytest.mark.parametrize(
    ("current", "wanted"),
    [(R62, R70), (R70, R86), (R72, V91), (R70, V81), (V81, V91), (R70, Version("redis", 7, 0, 3))],
    ids=str,
)
def test_upgrades_inside_the_matrix_are_allowed(current: Version, wanted: Version) -> None:
    assert upgrade_limitation(current, wanted) is None


@pytest.mark.parametrize(
    ("current", "wanted", "why"),
    [
        (R74, V91, "cannot sync"),
        (R86, R80, "cannot read what"),
        (V91, V81, "cannot read what"),
        (R80, R74, "cannot read what"),
        (V91, R86, "cannot read the files"),
        (R74, R70, "cannot read what"),
    ],
    ids=str,
)
def test_upgrades_outside_the_matrix_are_refused_with_the_reason(
    current: Version, wanted: Version, why: str
) -> None:
    assert why in (upgrade_limitation(current, wanted) or "")


def test_versions_too_old_are_refused() -> None:
    assert "too old" in (support_limitation(R60) or "")
    assert "not an engine" in (support_limitation(Version("keydb", 6)) or "")
    assert support_limitation(R62) is None


def test_a_newer_version_keeps_what_an_older_one_could() -> None:
    assert abilities(R62) <= abilities(R70) <= abilities(R72) <= abilities(R74) <= abilities(R86)
    assert abilities(V81) <= abilities(V91)
    assert can(V91, Ability.MIGRATESLOTS)
    assert not can(R86, Ability.MIGRATESLOTS)


@pytest.mark.servers
async def test_the_table_agrees_with_the_server(binary: EngineBinary) -> None:
    probes = {
        Ability.PAUSE_WRITES: commands.client_pause_writes(1),
        Ability.CLUSTER_SHARDS: commands.cluster_shards(),
        Ability.CLUSTER_LINKS: commands.cluster_links(),
        Ability.MIGRATESLOTS: commands.slot_migrations(),
        Ability.MIGRATION_IMPORT: commands.migration_status(),
        Ability.ACL_DRYRUN: commands.acl_dryrun("default", ["PING"]),
        Ability.MULTI_CONFIG: commands.config_set({"hz": "10", "timeout": "0"}),
    }
    directives = {
        Ability.NO_REPLICA_MIGRATION: "cluster-allow-replica-migration",
        Ability.ANNOUNCE_HOSTNAME: "cluster-announce-hostname",
        Ability.HUMAN_NODENAME: "cluster-announce-human-nodename",
        Ability.DISKLESS_MAX_REPLICAS: "repl-diskless-sync-max-replicas",
        Ability.SHUTDOWN_TIMEOUT: "shutdown-timeout",
        Ability.MANUAL_FAILOVER_TIMEOUT: "cluster-manual-failover-timeout",
        Ability.AVAILABILITY_ZONE: "availability-zone",
    }
    async with Servers(binary) as servers:
        [server] = await servers.start()
        async with await server.connect() as connection:
            answers = await connection.run_all(list(probes.values()), timeout=5)
            known = await connection.run(commands.config_get("*"), timeout=5)
            [got] = await connection.run_all([commands.config_get("hz", "timeout")], timeout=5)
    assert _unknown(got) == _unknown(answers[list(probes).index(Ability.MULTI_CONFIG)])
    found = {a for a, answer in zip(probes, answers, strict=True) if not _unknown(answer)}
    found |= {ability for ability, name in directives.items() if name in known}
    expected = {a for a in [*probes, *directives] if can(binary.version, a)}
    assert found == expected


def _unknown(answer: object) -> bool:
    return isinstance(answer, UnknownCommandError) or (
        isinstance(answer, ReplyError) and "rong number of arguments" in str(answer)
    )
