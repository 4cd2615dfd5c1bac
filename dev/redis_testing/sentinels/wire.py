"""The front door of simulated sentinels: commands as they are sent, replies as they come back."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from redis_operator.redis.config import parse
from redis_operator.redis.errors import reply_error
from redis_operator.redis.resp import Reply

from . import failing_over, watching
from .state import Hello, Monitored, Sentinel, State, Watched

if TYPE_CHECKING:
    from ..cluster.state import Server
    from ..cluster.world import SimulatedCluster

__all__ = ["PORT", "answer_sentinel", "configure"]

PORT = 26379
_OK: Reply = b"OK"
_UNKNOWN = "ERR No such master with that name"
_CONFIG = {
    "resolve-hostnames": "no",
    "announce-hostnames": "no",
    "announce-ip": "",
    "announce-port": "0",
    "sentinel-user": "",
    "sentinel-pass": "",
}


class _RefusedError(Exception):
    """What is answered instead."""


def answer_sentinel(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    """What a sentinel says to one command."""
    sentinel = server.sentinel
    assert sentinel is not None
    name = words[0].upper()
    try:
        match name:
            case "PING":
                return b"PONG"
            case "CLIENT":
                return _OK
            case "ROLE":
                return [b"sentinel", [name.encode() for name in sentinel.primaries]]
            case "INFO":
                return _info(world, server, sentinel)
            case "PUBLISH":
                return _publish(world, server, words[1:])
            case "SENTINEL":
                handler = _SENTINEL.get(words[1].upper())
                if handler is not None:
                    return handler(world, server, sentinel, words[2:])
    except _RefusedError as refusal:
        return reply_error(str(refusal))
    return reply_error(f"ERR unknown command '{' '.join(words[:2])}'")


def configure(world: SimulatedCluster, server: Server, text: str) -> None:
    """Read the file that a sentinel starts with; what it learnt before stays."""
    sentinel = server.sentinel
    assert sentinel is not None
    for directive, words in parse(text):
        if directive != "sentinel" or not words:
            continue
        match words[0].lower(), words[1:]:
            case "monitor", [name, host, port, quorum]:
                if name not in sentinel.primaries:
                    now = sentinel.clock(world.now)
                    watching.monitor(sentinel, name, (host, int(port)), int(quorum), now)
            case "announce-ip", [ip]:
                sentinel.announce_ip = ip
            case option, [name, value] if name in sentinel.primaries:
                _set_option(sentinel.primaries[name], option, value)
            case option, [value]:
                sentinel.options[option] = value


def _info(world: SimulatedCluster, server: Server, sentinel: Sentinel) -> Reply:
    fields: dict[str, object] = {"redis_version": server.version}
    if server.engine == "valkey":
        fields |= {"valkey_version": server.version}
    tilt = sentinel.tilt_since
    fields |= {
        "redis_mode": "sentinel",
        "run_id": world.run_id(server),
        "uptime_in_seconds": int(world.now - server.started_at),
        "sentinel_masters": len(sentinel.primaries),
        "sentinel_tilt": int(tilt is not None),
    }
    for number, primary in enumerate(sentinel.primaries.values()):
        status = "sdown" if primary.down_since is not None else "ok"
        status = "odown" if primary.together_since is not None else status
        fields[f"master{number}"] = (
            f"name={primary.name},status={status},address={primary.ip}:{primary.port},"
            f"slaves={len(primary.replicas)},sentinels={len(primary.sentinels) + 1}"
        )
    return "\r\n".join(f"{name}:{value}" for name, value in fields.items()).encode()


def _publish(world: SimulatedCluster, server: Server, words: list[str]) -> Reply:
    """Sentinels take hellos of others, and nothing else."""
    channel, text = words
    if channel != "__sentinel__:hello":
        raise _RefusedError("ERR Only HELLO messages are accepted by Sentinel instances.")
    parts = text.split(",")
    if len(parts) == 8:
        ip, port, id_, epoch, name, host, primary_port, config_epoch = parts
        place = (host, int(primary_port))
        hello = Hello(ip, int(port), id_, int(epoch), name, place, int(config_epoch))
        watching.hear(world, server, hello)
    return 1


def _of(sentinel: Sentinel, words: list[str]) -> Monitored:
    primary = sentinel.primaries.get(words[0] if words else "")
    if primary is None:
        raise _RefusedError(_UNKNOWN)
    return primary


def _flat(fields: dict[str, object]) -> Reply:
    return [part for name, value in fields.items() for part in (name.encode(), str(value).encode())]


def _described(
    world: SimulatedCluster, server: Server, primary: Monitored, watched: Watched, name: str
) -> dict[str, object]:
    sentinel = server.sentinel
    assert sentinel is not None
    now = sentinel.clock(world.now)
    flags = [
        *(["s_down"] if watched.down_since is not None else []),
        *(["o_down"] if watched is primary and primary.together_since is not None else []),
        watched.kind.value,
        *([] if watched.connected else ["disconnected"]),
        *(["master_down"] if watched.says_down else []),
        *(["failover_in_progress"] if watched is primary and _fails_over(primary) else []),
        *(["promoted"] if watched.promoted else []),
        *([f"reconf_{watched.reconf}"] if watched.reconf else []),
        *(["force_failover"] if watched is primary and primary.forced else []),
    ]
    return {
        "name": name,
        "ip": watched.ip,
        "port": watched.port,
        "runid": watched.run_id,
        "flags": ",".join(flags),
        "last-ok-ping-reply": int((now - watched.last_ok) * 1000),
        "down-after-milliseconds": round(primary.down_after * 1000),
        **(
            {"s-down-time": int((now - watched.down_since) * 1000)}
            if watched.down_since is not None
            else {}
        ),
    }


def _fails_over(primary: Monitored) -> bool:
    return primary.state is not State.NONE


def _primary_fields(world: SimulatedCluster, server: Server, primary: Monitored) -> Reply:
    assert server.sentinel is not None
    now = server.sentinel.clock(world.now)
    fields = _described(world, server, primary, primary, primary.name) | {
        "role-reported": primary.role,
        "role-reported-time": int((now - primary.role_since) * 1000),
        "config-epoch": primary.config_epoch,
        "num-slaves": len(primary.replicas),
        "num-other-sentinels": len(primary.sentinels),
        "quorum": primary.quorum,
        "failover-timeout": round(primary.failover_timeout * 1000),
        "parallel-syncs": primary.parallel_syncs,
    }
    if _fails_over(primary):
        fields["failover-state"] = primary.state.value
    return _flat(fields)


def _primary(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    return _primary_fields(world, server, _of(sentinel, words))


def _primaries(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    del words
    return [_primary_fields(world, server, p) for p in sentinel.primaries.values()]


def _replicas(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    primary = _of(sentinel, words)
    found: list[Reply] = []
    for replica in primary.replicas.values():
        host, port = replica.follows or ("?", 0)
        fields = _described(world, server, primary, replica, f"{replica.ip}:{replica.port}") | {
            "role-reported": replica.role,
            "master-link-down-time": int(replica.link_down_seconds * 1000),
            "master-link-status": "ok" if replica.link_up else "err",
            "master-host": host,
            "master-port": port,
            "slave-priority": replica.priority,
            "slave-repl-offset": replica.offset,
            "replica-announced": 1,
        }
        found.append(_flat(fields))
    return found


def _sentinels(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    primary = _of(sentinel, words)
    now = sentinel.clock(world.now)
    found: list[Reply] = []
    for other in primary.sentinels.values():
        fields = _described(world, server, primary, other, other.run_id) | {
            "last-hello-message": int((now - other.heard_at) * 1000),
            "voted-leader": other.leader or "?",
            "voted-leader-epoch": other.leader_epoch,
        }
        found.append(_flat(fields))
    return found


def _my_id(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server, words
    return sentinel.id.encode()


def _address(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    del world, server
    primary = sentinel.primaries.get(words[0])
    if primary is None:
        return None
    host, port = primary.told_address
    return [host.encode(), str(port).encode()]


def _quorum(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server
    primary = _of(sentinel, words)
    usable = 1 + sum(other.down_since is None for other in primary.sentinels.values())
    voters = 1 + len(primary.sentinels)
    if usable < primary.quorum or usable < voters // 2 + 1:
        raise _RefusedError(f"NOQUORUM {usable} usable Sentinels. Not enough available Sentinels")
    return f"OK {usable} usable Sentinels. Quorum and failover can be reached".encode()


def _monitor(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    del server
    name, host, port, quorum = words
    if int(quorum) < 1:
        raise _RefusedError("ERR Quorum must be 1 or greater.")
    if name in sentinel.primaries:
        raise _RefusedError("ERR Duplicate master name.")
    watching.monitor(sentinel, name, (host, int(port)), int(quorum), sentinel.clock(world.now))
    return _OK


def _remove(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server
    del sentinel.primaries[_of(sentinel, words).name]
    return _OK


def _set(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server
    primary = _of(sentinel, words)
    for option, value in zip(words[1::2], words[2::2], strict=True):
        _set_option(primary, option.lower(), value)
    return _OK


def _set_option(primary: Monitored, option: str, value: str) -> None:
    if option in _NUMBERS:
        if not value.isdecimal() or int(value) < 1:
            raise _RefusedError(f"ERR Invalid argument '{value}' for SENTINEL SET '{option}'")
        _NUMBERS[option](primary, int(value))
    elif option == "auth-user":
        primary.auth = (value, primary.auth[1])
    elif option == "auth-pass":
        primary.auth = (primary.auth[0], value)
    elif option not in ("master-reboot-down-after-period", "notification-script"):
        raise _RefusedError(
            f"ERR Unknown option or number of arguments for SENTINEL SET '{option}'"
        )


def _set_quorum(primary: Monitored, value: int) -> None:
    primary.quorum = value


def _set_down_after(primary: Monitored, value: int) -> None:
    primary.down_after = value / 1000


def _set_failover_timeout(primary: Monitored, value: int) -> None:
    primary.failover_timeout = value / 1000


def _set_parallel_syncs(primary: Monitored, value: int) -> None:
    primary.parallel_syncs = value


_NUMBERS: dict[str, Callable[[Monitored, int], None]] = {
    "quorum": _set_quorum,
    "down-after-milliseconds": _set_down_after,
    "failover-timeout": _set_failover_timeout,
    "parallel-syncs": _set_parallel_syncs,
}


def _is_down(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    """IS-MASTER-DOWN-BY-ADDR: the question of others, and a vote where it is requested."""
    del server
    host, port, epoch, candidate = words
    found = [p for p in sentinel.primaries.values() if p.address == (host, int(port))]
    if not found:
        return [0, b"*", 0]
    down = found[0].down_since is not None and sentinel.tilt_since is None
    if candidate == "*":
        return [int(down), b"*", 0]
    leader, voted = failing_over.vote(world, sentinel, found[0], int(epoch), candidate)
    return [int(down), (leader or "*").encode(), voted]


def _reset(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del server
    found = [p for name, p in sentinel.primaries.items() if fnmatchcase(name, words[0])]
    for primary in found:
        asked_at, info_at = primary.asked_at, primary.info_at
        failing_over.forget_course(primary, sentinel.clock(world.now))
        primary.asked_at, primary.info_at = asked_at, info_at  # the next INFO comes in its time
        primary.replicas, primary.sentinels = {}, {}
        sentinel.note(f"+reset-master {primary.name}")
    return len(found)


def _failover(
    world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]
) -> Reply:
    del server
    primary = _of(sentinel, words)
    now = sentinel.clock(world.now)
    if primary.state is not State.NONE:
        raise _RefusedError("INPROG Failover already in progress")
    if failing_over.good_replica(primary, now) is None:
        raise _RefusedError("NOGOODSLAVE No suitable replica to promote")
    failing_over.start(world, sentinel, primary, now, forced=True)
    return _OK


def _flush(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server, sentinel, words
    return _OK


def _config(world: SimulatedCluster, server: Server, sentinel: Sentinel, words: list[str]) -> Reply:
    del world, server
    known = _CONFIG | sentinel.options | {"announce-ip": sentinel.announce_ip}
    if words[0].upper() == "GET":
        return _flat({n: v for n, v in known.items() if fnmatchcase(n, words[1])})
    for name, value in zip(words[1::2], words[2::2], strict=True):
        if name not in _CONFIG:
            raise _RefusedError(f"ERR Invalid argument '{name}' to SENTINEL CONFIG SET")
        if name == "announce-ip":
            sentinel.announce_ip = value
        else:
            sentinel.options[name] = value
    return _OK


Handler = Callable[["SimulatedCluster", "Server", Sentinel, list[str]], Reply]
_SENTINEL: dict[str, Handler] = {
    "MASTER": _primary,
    "MASTERS": _primaries,
    "REPLICAS": _replicas,
    "SENTINELS": _sentinels,
    "MYID": _my_id,
    "GET-MASTER-ADDR-BY-NAME": _address,
    "CKQUORUM": _quorum,
    "MONITOR": _monitor,
    "REMOVE": _remove,
    "SET": _set,
    "IS-MASTER-DOWN-BY-ADDR": _is_down,
    "RESET": _reset,
    "FAILOVER": _failover,
    "FLUSHCONFIG": _flush,
    "CONFIG": _config,
}
