"""Typed commands of sentinels: each function returns a `Command`. No I/O here.

A sentinel knows primaries by name. A name that it does not monitor is an `UnknownPrimaryError`,
except where the result is None.
"""

from __future__ import annotations

from collections.abc import Mapping

from .command import Command
from .parsing import as_integer, as_mapping, as_ok, as_text
from .resp import Reply
from .sentinel_parsing import (
    parse_address,
    parse_info_sentinel,
    parse_known_replicas,
    parse_known_sentinels,
    parse_monitored,
    parse_monitored_primaries,
    parse_quorum,
    parse_vote,
)
from .sentinel_replies import (
    InfoSentinel,
    KnownReplica,
    KnownSentinel,
    MonitoredPrimary,
    Quorum,
    Vote,
)

__all__ = [
    "address_of",
    "check_quorum",
    "config_get",
    "config_set",
    "failover",
    "flush_config",
    "hello",
    "info",
    "monitor",
    "my_id",
    "primaries",
    "primary",
    "remove",
    "replicas",
    "reset",
    "sentinels",
    "set_option",
    "set_options",
    "vote",
]


def info() -> Command[InfoSentinel]:
    """INFO of a sentinel: version, TILT and a line for each primary."""
    return Command(("INFO",), parse_info_sentinel)


def my_id() -> Command[str]:
    """SENTINEL MYID: the id by which other sentinels know it; stored in its file."""
    return Command(("SENTINEL", "MYID"), as_text)


def primary(name: str) -> Command[MonitoredPrimary]:
    """SENTINEL MASTER."""
    return Command(("SENTINEL", "MASTER", name), parse_monitored)


def primaries() -> Command[tuple[MonitoredPrimary, ...]]:
    """SENTINEL MASTERS: every name that it monitors."""
    return Command(("SENTINEL", "MASTERS"), parse_monitored_primaries)


def replicas(name: str) -> Command[tuple[KnownReplica, ...]]:
    """SENTINEL REPLICAS: the replicas that it discovered, dead ones too."""
    return Command(("SENTINEL", "REPLICAS", name), parse_known_replicas)


def sentinels(name: str) -> Command[tuple[KnownSentinel, ...]]:
    """SENTINEL SENTINELS: the others that it discovered, dead ones too. They count for
    majorities."""
    return Command(("SENTINEL", "SENTINELS", name), parse_known_sentinels)


def address_of(name: str) -> Command[tuple[str, int] | None]:
    """SENTINEL GET-MASTER-ADDR-BY-NAME: the address that clients get, or None."""
    return Command(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name), parse_address)


def check_quorum(name: str) -> Command[Quorum]:
    """SENTINEL CKQUORUM: how many sentinels are usable, or `NoQuorumError`."""
    return Command(("SENTINEL", "CKQUORUM", name), parse_quorum)


def config_get(pattern: str) -> Command[dict[str, str]]:
    """SENTINEL CONFIG GET: settings of the sentinel itself, with its passwords."""
    return Command(("SENTINEL", "CONFIG", "GET", pattern), _texts)


def _texts(reply: Reply) -> dict[str, str]:
    return {name: as_text(value) for name, value in as_mapping(reply).items()}


def config_set(name: str, value: str) -> Command[None]:
    """SENTINEL CONFIG SET, one setting: more at once needs Redis 7 or Valkey."""
    return Command(("SENTINEL", "CONFIG", "SET", name, value), as_ok)


def monitor(name: str, host: str, port: int, quorum: int) -> Command[None]:
    """SENTINEL MONITOR: start to monitor. Its epoch is 0: a sentinel with a higher one wins."""
    return Command(("SENTINEL", "MONITOR", name, host, port, quorum), as_ok)


def remove(name: str) -> Command[None]:
    """SENTINEL REMOVE: forget the name, with its epoch, replicas and other sentinels."""
    return Command(("SENTINEL", "REMOVE", name), as_ok)


def set_option(name: str, option: str, value: str) -> Command[None]:
    """SENTINEL SET, one option of one monitored name: quorum, down-after-milliseconds, ..."""
    return Command(("SENTINEL", "SET", name, option, value), as_ok)


def set_options(name: str, options: Mapping[str, str]) -> Command[None]:
    """SENTINEL SET, several options. Options before a refused one are set nevertheless."""
    words = [word for pair in options.items() for word in pair]
    return Command(("SENTINEL", "SET", name, *words), as_ok)


def reset(pattern: str) -> Command[int]:
    """SENTINEL RESET: forget replicas, sentinels and a running failover of matching names.

    Only while no failover is in progress and every sentinel is up, one sentinel after the other.
    """
    return Command(("SENTINEL", "RESET", pattern), as_integer)


def failover(name: str) -> Command[None]:
    """SENTINEL FAILOVER: without asking other sentinels. OK means started, not done.

    The old primary accepts writes until it becomes a replica, and those are lost: pause it before.
    """
    return Command(("SENTINEL", "FAILOVER", name), as_ok)


def hello(
    sender: tuple[str, int, str], name: str, primary: tuple[str, int], *, epoch: int = 0
) -> Command[int]:
    """PUBLISH the hello message of another sentinel: address, port, id, and the primary.

    Sentinels send it to each other every two seconds. With epoch 0 it only makes the sentinel
    known; with a higher epoch than that of the receiver, it changes the primary.
    """
    (ip, port, id_), (host, primary_port) = sender, primary
    hello = f"{ip},{port},{id_},{epoch},{name},{host},{primary_port},{epoch}"
    return Command(("PUBLISH", "__sentinel__:hello", hello), as_integer)


def vote(host: str, port: int, epoch: int, candidate: str) -> Command[Vote]:
    """SENTINEL IS-MASTER-DOWN-BY-ADDR: whether the primary there is down, and a vote.

    A sentinel votes once in an epoch, for the first candidate, and does not start a failover itself
    for twice its failover-timeout; in epoch 0 it only reports its last vote.
    """
    return Command(("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", host, port, epoch, candidate), parse_vote)


def flush_config() -> Command[None]:
    """SENTINEL FLUSHCONFIG: write the file again, where it was lost or is outdated."""
    return Command(("SENTINEL", "FLUSHCONFIG"), as_ok)
