"""Directives: what is refused, what is live, and that nothing smuggles in another line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redis_operator.redis import commands
from redis_operator.redis.config import (
    Effect,
    effect,
    equivalent,
    is_known,
    limitation,
    parse,
    parse_bytes,
    render,
    words_of,
)
from redis_operator.redis.directives import DANGEROUS, MANAGED, MEASURED, WORDS_PER_LINE
from redis_operator.redis.errors import ReplyError
from redis_operator.redis.versions import Version
from redis_operator.testing.servers import EngineBinary, Servers

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
    with pytest.raises(ValueError, match="no directive name"):
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
    assert effect("io-threads", R70) is Effect.RESTART
    assert effect("io-threads", V91) is Effect.LIVE
    assert effect("databases", V91) is Effect.RESTART
    assert effect("maxmemory-policy", R70) is Effect.LIVE


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
    restart = {n for n in free if effect(n, binary.version) is Effect.RESTART}
    assert refused - restart == set()
    assert restart - refused <= {"disable-thp"}, "6.2 takes it, but only looks at it when it starts"
    key = (binary.version.engine, binary.version.major, binary.version.minor)
    if key in MEASURED:
        assert {n for n in free if not n.startswith("tls-")} <= MEASURED[key]
