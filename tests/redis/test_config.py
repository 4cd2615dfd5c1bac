"""Directives: what is refused, what is live, and that nothing smuggles in another line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redis_operator.redis import commands
from redis_operator.redis.config import (
    ConfigEffect,
    effect,
    equivalent,
    is_known,
    limitation,
    parse,
    parse_bytes,
    render,
    spaced,
    words_of,
)
from redis_operator.redis.directives import DANGEROUS, MANAGED, MEASURED, WORDS_PER_LINE
from redis_operator.redis.errors import ReplyError
from redis_operator.redis.values import value_problem
from redis_operator.redis.versions import Version
from redis_testing.servers import EngineBinary, Servers

R70, V91 = Version("redis", 7, 0, 15), Version("valkey", 9, 1, 2)
names = st.from_regex(r"[a-z][a-z0-9_-]{0,30}", fullmatch=True)
single = names.filter(lambda name: name not in WORDS_PER_LINE)


@given(st.lists(st.tuples(single, st.text())))
@example([("proc-title-template", 'a" \n\\x0arequirepass x')])
@example([("a", ""), ("b", "\x00\x7f\r\n#")])
def test_a_rendered_file_reads_back_as_exactly_what_was_asked(
    directives: list[tuple[str, str]],
) -> None:
    expected = [(n, [v.encode("utf-8", "surrogateescape").decode()]) for n, v in directives]
    assert parse(render(directives)) == expected


@given(st.sampled_from(sorted(WORDS_PER_LINE)), st.text())
def test_directives_of_several_words_stay_one_directive(name: str, value: str) -> None:
    lines = parse(render([(name, value)]))
    assert {found for found, _ in lines} == {name}
    assert [word for _, words in lines for word in words] == (value.split() or [""])


@pytest.mark.parametrize("name", ["a b", "a\nb", "", "-a", "A\x00", "a" * 80, "ä"])
def test_a_name_that_is_none_is_never_rendered(name: str) -> None:
    with pytest.raises(ValueError, match="not a directive name"):
        render([(name, "x")])
    assert limitation(name) is not None


def test_repeated_groups_become_lines_of_their_own() -> None:
    assert render([("save", "900 1 300 10")]) == "save 900 1\nsave 300 10\n"
    assert words_of("save", "") == [[""]]
    assert render([("save", "")]) == 'save ""\n'
    limits = render([("client-output-buffer-limit", "normal 0 0 0 replica 256mb 64mb 60")])
    assert limits.count("\n") == 2


@pytest.mark.parametrize("name", sorted({*MANAGED, *DANGEROUS, "PORT", "RequirePass"}))
def test_managed_and_dangerous_directives_are_refused_with_a_reason(name: str) -> None:
    assert limitation(name)


@pytest.mark.parametrize("name", ["maxmemory-policy", "hz", "save", "io-threads", "maxmemory"])
def test_other_directives_are_allowed(name: str) -> None:
    assert limitation(name) is None


def test_what_needs_a_restart_depends_on_engine_and_version() -> None:
    assert effect("io-threads", R70) is ConfigEffect.RESTART
    assert effect("io-threads", V91) is ConfigEffect.LIVE
    assert effect("databases", V91) is ConfigEffect.RESTART
    assert effect("maxmemory-policy", R70) is ConfigEffect.LIVE


def test_unknown_directives_are_known_to_be_so_where_it_was_measured() -> None:
    assert not is_known("no-such-thing", R70)
    assert not is_known("io-threads-do-reads", Version("redis", 8, 0))
    assert is_known("no-such-thing", Version("redis", 8, 6))
    assert is_known("io-threads-do-reads", R70)


@pytest.mark.parametrize(
    ("name", "wanted", "actual", "same"),
    [
        ("maxmemory", "100mb", "104857600", True),
        ("maxmemory", "100m", "104857600", False),
        ("appendfsync", "EverySec", "everysec", True),
        ("save", "900 1 300 10", "900 1 300 10", True),
        ("save", "", "3600 1", False),
        (
            "client-output-buffer-limit",
            "replica 256mb 64mb 60",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            True,
        ),
        ("client-output-buffer-limit", "replica 1mb 0 0", "normal 0 0 0 slave 0 0 0", False),
    ],
)
def test_the_servers_spelling_is_understood(
    name: str, wanted: str, actual: str, same: bool
) -> None:
    assert equivalent(name, wanted, actual) is same


@pytest.mark.parametrize(
    ("text", "size"),
    [("1kb", 1024), ("1k", 1000), ("5", 5), ("2GB", 2**31), ("x", None), ("", None)],
)
def test_sizes_are_read_as_the_server_reads_them(text: str, size: int | None) -> None:
    assert parse_bytes(text) == size


@pytest.mark.servers
async def test_a_rendered_file_is_what_the_server_reads(binary: EngineBinary) -> None:
    wanted = {
        "proc-title-template": "{title} {listen-addr} \\ \"quoted\" 'x'",
        "save": "900 1 300 10",
        "maxmemory": "64mb",
        "maxmemory-policy": "allkeys-lru",
        "client-output-buffer-limit": "normal 0 0 0 replica 512mb 128mb 60",
        "syslog-ident": "two words # no comment",
        "notify-keyspace-events": "",
    }
    async with Servers(binary) as servers:
        [server] = await servers.start(cluster=False, config=render(wanted.items()))
        async with await server.connect() as connection:
            answers = await connection.run_all(
                [commands.config_get(name) for name in wanted], timeout=5
            )
    found = {name: value for answer in answers for name, value in answer.items()}
    different = {n: found[n] for n, v in wanted.items() if not equivalent(n, v, found[n])}
    assert different == {}


@pytest.mark.servers
async def test_the_table_of_live_directives_agrees_with_the_server(binary: EngineBinary) -> None:
    async with Servers(binary) as servers:
        [server] = await servers.start()
        async with await server.connect() as connection:
            present = await connection.run(commands.config_get("*"), timeout=5)
            free = {n: v for n, v in present.items() if limitation(n) is None}
            answers = await connection.run_all(
                [commands.config_set({n: v}) for n, v in free.items()], timeout=10
            )
    refused = {n for n, a in zip(free, answers, strict=True) if isinstance(a, ReplyError)}
    restart = {n for n in free if effect(n, binary.version) is ConfigEffect.RESTART}
    assert refused - restart == set()
    assert restart - refused <= {"disable-thp"}, "6.2 takes it, but only looks at it when it starts"
    key = (binary.version.engine, binary.version.major, binary.version.minor)
    if key in MEASURED:
        assert {n for n in free if not n.startswith("tls-")} <= MEASURED[key]


SPELLINGS: dict[str, tuple[str, ...]] = {
    "notify-keyspace-events": ("Ex", "KEA", "Kx", "AKE", "g$lshzxetdKE", "KEm", "", "xxEE"),
    "oom-score-adj": ("relative", "YES", "absolute", "no"),
    "hz": ("1000", "0", "15", "500"),
    "repl-backlog-size": ("1kb", "1mb", "2m", "16384", "1"),
    "latency-tracking-info-percentiles": ("50.0 99.9", "50.00", "99.99 100", ""),
    "appendfsync": ("ALWAYS", "Everysec"),
    "client-output-buffer-limit": (
        "replica 1MB 1kb 60",
        "slave 0 0 0",
        "NORMAL 1g 1 1 pubsub 0 0 0",
    ),
    "oom-score-adj-values": ("0 100 200", "-5 0 5"),
    "maxmemory-clients": ("10%", "1gb", "0"),
    "maxmemory-policy": ("AllKeys-LRU", "volatile-ttl"),
    "proc-title-template": ("{title} A", "{title} a"),
    "save": ("900 1 300 10", "60 10000"),
    "list-max-listpack-size": ("-2", "10"),
    "list-max-ziplist-size": ("-1", "8"),
    "slot-migration-max-failover-repl-bytes": ("-1", "1mb"),
    "tls-session-cache-size": ("0", "100"),
}
"""Legal spellings of directives that are more than a number, a size or yes and no."""
BY_SHAPE = {"yes or no": ("YES", "no", "Yes"), "whole number": ("7",), "a size": ("3mb", "5000000")}


def _spellings(name: str) -> tuple[str, ...]:
    if name in SPELLINGS:
        return SPELLINGS[name]
    problem = value_problem(name, "banana", measured=True) or ""
    return next((some for shape, some in BY_SHAPE.items() if shape in problem), ())


@pytest.mark.parametrize("name", sorted(WORDS_PER_LINE))
def test_words_are_sent_with_single_spaces(name: str) -> None:
    """A file may have more between words; CONFIG SET takes a doubled one for an empty word."""
    assert spaced(name, " 0  100   200 ") == "0 100 200"
    assert spaced("proc-title-template", "a  b") == "a  b"


@pytest.mark.servers
async def test_what_a_server_makes_of_a_value_is_not_drift(binary: EngineBinary) -> None:
    """IN-26: each live directive in every legal spelling, set, read back and compared."""
    different, tried = [], 0
    async with Servers(binary) as servers:
        [server] = await servers.start()
        async with await server.connect() as connection:
            present = await connection.run(commands.config_get("*"), timeout=5)
            for name, before in sorted(present.items()):
                for value in _spellings(name) if limitation(name) is None else ():
                    [done] = await connection.run_all(
                        [commands.config_set({name: value})], timeout=9
                    )
                    if isinstance(done, ReplyError):
                        assert (
                            effect(name, binary.version) is ConfigEffect.RESTART or name in PICKY
                        ), done
                        continue
                    [found] = await connection.run_all([commands.config_get(name)], timeout=9)
                    assert value_problem(name, value) is None, (name, value)
                    tried += 1
                    if not equivalent(name, value, found[name]):
                        different.append((name, value, found[name]))
                await connection.run_all([commands.config_set({name: before})], timeout=9)
    assert different == []
    assert tried > 120


PICKY = {"activedefrag", "io-threads", "databases", "hll-sparse-max-bytes"}
"""Live directives that refuse some value for reasons of the build or the machine."""


@pytest.mark.servers
async def test_a_value_that_is_refused_here_is_refused_by_the_server(binary: EngineBinary) -> None:
    taken = []
    async with Servers(binary) as servers:
        [server] = await servers.start()
        async with await server.connect() as connection:
            present = await connection.run(commands.config_get("*"), timeout=5)
            for name, before in sorted(present.items()):
                live = (
                    effect(name, binary.version) is ConfigEffect.LIVE and limitation(name) is None
                )
                for value in ("banana", "-1", "yes", "5", "1mb", "10%", "Kz", "1 2 3"):
                    if not live or value_problem(name, value) is None:
                        continue
                    [done] = await connection.run_all(
                        [commands.config_set({name: value})], timeout=9
                    )
                    if not isinstance(done, ReplyError):
                        taken.append((name, value))
                        await connection.run_all([commands.config_set({name: before})], timeout=9)
    assert taken == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hz", "banana"),
        ("hz", ""),
        ("timeout", "1.5"),
        ("timeout", "-1"),
        ("tcp-backlog", "many"),
        ("maxmemory", "lots"),
        ("maxmemory", "10%"),
        ("activerehashing", "maybe"),
        ("maxmemory-policy", "lru"),
        ("notify-keyspace-events", "Exq"),
        ("client-output-buffer-limit", "normal 0 0"),
        ("client-output-buffer-limit", "master 0 0 0"),
        ("oom-score-adj-values", "1 2"),
        ("slave-priority", "low"),
        ("hash-max-ziplist-entries", "few"),
    ],
)
def test_values_of_the_wrong_shape_are_refused(name: str, value: str) -> None:
    assert value_problem(name, value)


def test_words_that_a_version_may_have_learnt_are_left_to_the_server() -> None:
    assert value_problem("maxmemory-policy", "allkeys-lrm", measured=False) is None
    assert value_problem("notify-keyspace-events", "Eo", measured=False) is None
    assert value_problem("hz", "banana", measured=False)
